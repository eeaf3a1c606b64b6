package terraformcli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The test's program plays Terrapulse, as a user who is not root: root may read
// everything.
func TestKeepPrivate_ChildrenOfTheSameUserCannotReadTheEnvironment(t *testing.T) {
	const variable, secret = "TEST_KEEP_PRIVATE", "open-sesame"
	if os.Getenv(variable) != "" {
		if os.Getenv(variable) != "not" {
			if err := KeepPrivate(); err != nil {
				t.Fatal(err)
			}
		}
		child := exec.Command("sh", "-c", "cat /proc/$PPID/environ")
		child.Stdout, child.Stderr, child.Env = os.Stdout, os.Stderr, []string{"PATH=" + os.Getenv("PATH")}
		_ = child.Run() // what it found is what counts
		return
	}
	dir, err := os.MkdirTemp("/tmp", "tp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "program") // where another user can start it
	if err := errors.Join(os.Chmod(dir, 0o755), copyProgram(program)); err != nil {
		t.Fatal(err)
	}
	run := func(how string) string {
		cmd := exec.Command(program, "-test.run=^TestKeepPrivate_")
		cmd.Dir = "/"
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), variable + "=" + how, "SECRET=" + secret}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := run("not"); !strings.Contains(out, secret) {
		t.Skipf("the environment of a parent cannot be read here anyway: %s", out)
	}
	if out := run("private"); strings.Contains(out, secret) {
		t.Errorf("a child found the secret: %s", out)
	}
}

func copyProgram(to string) error {
	own, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer own.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, own); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
