package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopTimeout is enough for Terraform to end after an interrupt.
const stopTimeout = 15 * time.Second

// process is a program that runs beside the demo and ends with it.
type process struct {
	name  string
	log   string // file with its output
	cmd   *exec.Cmd
	ended chan struct{}
}

type command struct {
	path string
	args []string
	dir  string
	env  []string
}

func startProcess(name, log string, c command) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, ended: make(chan struct{})}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Dir, p.cmd.Env = c.dir, c.env
	p.cmd.Stdout, p.cmd.Stderr = file, file
	// The demo passes Ctrl-C on itself, once and in order.
	separate(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // its log says how it ended
		close(p.ended)
	}()
	return p, nil
}

// stop interrupts the program, and kills it if necessary.
func (p *process) stop() {
	interrupt(p.cmd.Process)
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // fails only if it has ended
		<-p.ended
	}
}

// failure adds the last output of the program to an error.
func (p *process) failure(err error) error {
	const most = 20
	content, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	said := lines(string(content))
	if len(said) > most {
		said = said[len(said)-most:]
	}
	return fmt.Errorf("%s: %w; the end of its log:\n%s", p.name, err, strings.Join(said, "\n"))
}
