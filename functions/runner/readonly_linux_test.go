package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// box is a container as the task definition describes it: read-only root file system, a user
// without a name in /etc/passwd, and no shell.
type box struct {
	*stack
	root string
}

func newBox(t *testing.T, modules ...string) *box {
	t.Helper()
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("needs podman")
	}
	b := &box{newStack(t, s3Backend("S3"), modules...), t.TempDir()}
	for _, dir := range []string{"bin", "etc", "work"} {
		if err := os.Mkdir(filepath.Join(b.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(b.root, "work"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := testtools.Build(filepath.Join(b.root, "bin", "runner"), "functions/runner"); err != nil {
		t.Fatal(err)
	}
	terraform, err := os.ReadFile(testtools.Terraform(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(b.root, "bin", "terraform"), terraform, 0o755)
	}
	if err == nil {
		rc := "disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = \"/mirror\"\n  }\n}\n"
		err = os.WriteFile(filepath.Join(b.root, "etc", "terraform.rc"), []byte(rc), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	mirror := exec.Command("cp", "-RL", filepath.Join(testtools.Root(t), ".tools", "mirror"), b.root)
	if out, err := mirror.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return b
}

// start runs the container of a launch under the name of the launch.
func (b *box) start(launch string, out *testtools.Output) *exec.Cmd {
	b.t.Helper()
	args := []string{"--runtime", "runc", "run", "--rm", "--name", b.name(launch), "--network", "host",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--read-only", "--read-only-tmpfs=false", "--passwd=false", "--user", "12345",
		"--tmpfs", "/work:rw,exec,mode=0777"}
	for _, entry := range b.environ(launch, "PATH=/bin:/usr/bin", "TF_CLI_CONFIG_FILE=/etc/terraform.rc") {
		args = append(args, "--env", entry)
	}
	cmd := exec.Command("podman", append(args, "--rootfs", b.root, "/bin/runner")...)
	cmd.Stdout, cmd.Stderr = out, out
	b.t.Cleanup(func() {
		_ = exec.Command("podman", "rm", "--force", "--time", "0", b.name(launch)).Run() // if it still runs
		if b.t.Failed() {
			b.t.Logf("container of launch %s:\n%s", launch, out)
		}
	})
	return cmd
}

func (b *box) name(launch string) string {
	return fmt.Sprintf("terrapulse-test-%d-%s", os.Getpid(), launch)
}

func (b *box) kill(launch string) {
	if out, err := exec.Command("podman", "kill", "--signal", "KILL", b.name(launch)).CombinedOutput(); err != nil {
		b.t.Errorf("%v: %s", err, out)
	}
}

func TestProgram_WritesOnlyToItsWorkVolume(t *testing.T) {
	b := newBox(t, data, sleeps)
	b.launch("l1")
	var out testtools.Output
	first := b.start("l1", &out)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one task is applied and the other under way", func() bool {
		return b.run("l1", "t0").State.Ended() && b.locked("t1")
	})
	b.kill("l1")
	_ = first.Wait() // the process was killed
	run := b.run("l1", "t1")
	if run.State != state.RunRunning || !strings.HasPrefix(run.Who, "terrapulse-l1@") || !b.locked("t1") {
		t.Fatalf("the run reads %+v\n%s", run, &out)
	}
	if done := b.run("l1", "t0"); done.State != state.RunSucceeded {
		t.Errorf("the other one reads %+v\n%s", done, &out)
	}
	if lock := b.lock("t1"); !strings.Contains(lock, fmt.Sprintf("%q", run.Who)) {
		t.Errorf("the lock names somebody else than %s: %s", run.Who, lock)
	}

	// The lock names the launch, so that it can be recognised.
	_, err := orphan.Runs(t.Context(), b.store, orphan.Stopped{Launch: "l1", Why: "out of memory"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.launch("l2")
	second := b.start("l2", &out)
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next container has the lock", func() bool { return strings.Contains(b.lock("t1"), `"terrapulse-l2@`) })
	b.kill("l2")
	_ = second.Wait() // the process was killed
	if !strings.Contains(out.String(), "its holder was run l1-t1") {
		t.Errorf("the log does not tell:\n%s", &out)
	}
}
