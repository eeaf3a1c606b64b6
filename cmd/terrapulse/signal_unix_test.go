//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whatever takes the terminal or the reader of the output away, Terraform ends
// in order: it is interrupted, saves its state and gives the lock back.
func TestTerraformOutlivesTheTerminalAndWhoReadsTheOutput(t *testing.T) {
	// A program that is started hears of its terminal as one under a shell does,
	// also where these tests are run by nohup.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	for name, c := range map[string]struct {
		args    []string
		signals []syscall.Signal
		code    int
	}{
		"Ctrl-C ends the reader, too":                     {nil, []syscall.Signal{syscall.SIGINT}, exitOK},
		"once-mode hears twice that its terminal is gone": {[]string{"-once"}, []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, exitError},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.register("web", "web-1", 8080, "passing")
			cmd := exec.Command(os.Args[0], s.args(append(c.args, "-config-file", s.config(s.slowTask("slow"))))...)
			cmd.Env = append(os.Environ(), "TERRAPULSE_TEST_AS_PROGRAM=1")
			cmd.Dir = s.dir
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout, cmd.Stderr = write, write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			write.Close()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				cmd.Wait()
			}()
			defer func() {
				cmd.Process.Kill()
				<-ended
			}()
			eventually(t, "the apply has begun", func() bool { return s.read("began") != "" })
			read.Close()
			for _, signal := range c.signals {
				if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond) // else the system makes one of two
			}
			eventually(t, "it ends", func() bool {
				select {
				case <-ended:
					return true
				default:
					return false
				}
			})
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("it ended with %v, want exit code %d", cmd.ProcessState, c.code)
			}
			if terraformIn(t, s.path("work")) {
				t.Error("Terraform is still there")
			}
			wantText(t, s.run("runs", "slow").stdout, "interrupted", "was stopped")
			if _, err := os.Stat(s.path("work/slow/terraform.tfstate.d/slow/.terraform.tfstate.lock.info")); err == nil {
				t.Error("the state is still locked")
			}
		})
	}
}

func TestToStopWhileTerraformIsLookedForIsNoFaultOfTerraforms(t *testing.T) {
	s := newParallelSite(t)
	s.write("hangs/terraform", "#!/bin/sh\necho asked > "+s.path("asked")+"\nexec sleep 60\n")
	s.config(s.task("lb", onWeb))
	file := s.write("tasks.hcl", strings.Replace(s.read("tasks.hcl"), `backend "local"`, fmt.Sprintf("path = %q\n  backend \"local\"", s.path("hangs")), 1))
	for _, c := range []struct {
		args []string
		code int
		also string
	}{{nil, exitOK, ""}, {[]string{"-once"}, exitError, "Task lb was not run.\n"}, {[]string{"inspect"}, exitError, ""}} {
		if err := os.RemoveAll(s.path("asked")); err != nil {
			t.Fatal(err)
		}
		p := s.start(append(c.args, "-config-file", file)...)
		eventually(t, "Terraform is asked for its version", func() bool { return s.read("asked") != "" })
		if code := p.stop(); code != c.code {
			t.Errorf("%v: exit code %d, want %d", c.args, code, c.code)
		}
		if got := p.stderr.String(); got != "stopped before anything was run\n"+c.also {
			t.Errorf("%v says %s", c.args, got)
		}
	}
}
