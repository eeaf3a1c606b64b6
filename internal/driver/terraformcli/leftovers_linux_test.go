package terraformcli

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-version"
)

// TestMain is also the Terrapulse that is killed below.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TEST_APPLY_IN"); dir != "" {
		bin := &Binary{Path: os.Getenv("TEST_TERRAFORM"), Version: version.Must(version.NewVersion(os.Getenv("TEST_TERRAFORM_VERSION")))}
		d, err := bin.Open(dir, Options{Task: "web"})
		if err == nil {
			_, err = d.Apply(context.Background())
		}
		if err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// descendants lists the processes that were started for a directory.
func descendants(dir string) map[int]string {
	found := map[int]string{}
	for _, p := range processes() {
		argv, err := p.CmdLine()
		if err == nil && len(argv) > 0 && startedFor(p, dir) { // not a zombie
			found[p.PID] = strings.Join(argv, " ")
		}
	}
	return found
}

func TestLeftovers_TerraformDiesWithTerrapulse(t *testing.T) {
	f := newFixture(t, slowModule)
	f.init(f.open(), true)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	terrapulse := exec.Command(self)
	terrapulse.Env = append(os.Environ(), "TEST_APPLY_IN="+f.dir, "TEST_TERRAFORM="+f.bin.Path, "TEST_TERRAFORM_VERSION="+f.bin.Version.String())
	terrapulse.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := terrapulse.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "Terraform has started the slow command", f.started)
	if err := terrapulse.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = terrapulse.Wait() // it was killed

	waitFor(t, "Terraform has died with Terrapulse", func() bool {
		for _, argv := range descendants(f.dir) {
			if strings.Contains(argv, " apply ") {
				return false
			}
		}
		return true
	})
	// The command of the provisioner lives on, until the directory is used again.
	if left := descendants(f.dir); len(left) == 0 {
		t.Error("nothing is left: this test proves nothing any more")
	}
	f.writeModule(fileModule)
	d := f.open()
	if left := descendants(f.dir); len(left) > 0 || !strings.Contains(f.log.String(), "of a Terraform that was killed is ended") {
		t.Errorf("%v still run, and the log is %s", left, f.log.String())
	}
	f.apply(d)
}

func TestLeftovers_WhatAProvisionerLeavesRunningRunsOn(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	f := newFixture(t, `
variable "services" {}
resource "terraform_data" "daemon" {
  provisioner "local-exec" { command = "sleep 600 >/dev/null 2>&1 & echo $! > `+pid+`" }
}
`)
	f.init(f.open(), true)
	f.apply(f.open())
	daemon, err := strconv.Atoi(strings.TrimSpace(read(t, pid)))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(daemon, syscall.SIGKILL)
	f.render("api", "db")
	f.apply(f.open())
	if _, runs := descendants(f.dir)[daemon]; !runs {
		t.Error("it was ended with the next run")
	}
}

func TestLeftovers_RunningTerraformIsNotKilled(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	env := map[string]string{}
	_, end := d.markCommand(env) // in another Terrapulse, say
	defer end()
	running := exec.Command("sleep", "300")
	running.Env = append(os.Environ(), commandVariable+"="+env[commandVariable])
	running.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	f.open()
	if err := running.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("it was ended: %v", err)
	}
	if err := running.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-ended
}

// endsWhenBegun is a context that ends in the moment between the start of
// Terraform and the first check whether it has ended.
type endsWhenBegun struct {
	context.Context
	begun func() bool
	once  sync.Once
	done  chan struct{}
}

func (c *endsWhenBegun) Done() <-chan struct{} { return c.done }

func (c *endsWhenBegun) Err() error {
	c.once.Do(func() {
		for !c.begun() {
			time.Sleep(time.Millisecond)
		}
		close(c.done)
	})
	return context.Canceled
}

func TestInterrupt_DuringStartWaitsForTerraform(t *testing.T) {
	f := newFixture(t, fileModule)
	begun, ended := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "ended")
	f.bin = recorder(t, `sleep 600 & trap : INT; touch `+begun+`; sleep 1; touch `+ended)
	d := f.open()
	start := time.Now()
	_, err := d.Apply(&endsWhenBegun{Context: t.Context(), begun: func() bool { return exists(begun) }, done: make(chan struct{})})
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) {
		t.Errorf("got %v", err)
	}
	if !exists(ended) {
		t.Error("Terraform was not waited for")
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s: what Terraform had started was waited for, too", took)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	waitFor(t, "what Terraform had started has ended", func() bool { return len(descendants(f.dir)) == 0 })
}
