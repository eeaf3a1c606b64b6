//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// separate keeps signals of the terminal away from the program.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// interrupt interrupts the program. It fails only if the program has ended.
func interrupt(p *os.Process) { _ = p.Signal(os.Interrupt) }
