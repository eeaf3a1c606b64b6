//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// separate keeps signals of the terminal away from the program.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// interrupt asks the program to end. It fails only if it has ended.
func interrupt(p *os.Process) { _ = p.Signal(os.Interrupt) }
