//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// separate keeps signals of the terminal away from the program.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
