package terraformcli

import "syscall"

// withThread does nothing: on Windows, Terraform starts the providers.
func withThread() *syscall.SysProcAttr { return nil }
