package main

import (
	"os"
	"os/exec"
	"syscall"
)

// separate keeps Ctrl-C in the terminal away from the program.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// interrupt kills the program: Windows has no interrupt for a program without a window. It fails
// only if the program has ended.
func interrupt(p *os.Process) { _ = p.Kill() }
