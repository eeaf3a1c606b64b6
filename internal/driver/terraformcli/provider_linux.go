package terraformcli

import "syscall"

// withThread has a process end with the thread that starts it, and keeps an interrupt
// in a terminal from it, as terraform-exec does for Terraform.
func withThread() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
