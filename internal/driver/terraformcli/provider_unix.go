//go:build !linux && !windows

package terraformcli

import "syscall"

// withThread keeps an interrupt in a terminal from a process. It cannot end a process
// with the thread that starts it.
func withThread() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
