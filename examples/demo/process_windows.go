package main

import (
	"os/exec"
	"syscall"
)

// separate keeps Ctrl-C in the terminal away from the program.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
