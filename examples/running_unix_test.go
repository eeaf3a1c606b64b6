//go:build unix

package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// example returns the path of a file of the examples.
func example(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(testtools.Root(t), "examples", filepath.FromSlash(name))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startInstance runs terrapulse until the end of the test.
func startInstance(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	own := []string{"TF_CLI_CONFIG_FILE=" + testtools.TerraformRC(t), "PATH=" + path(t)}
	startProgram(t, dir, append(append(quietEnviron(), own...), env...), args...)
}

// startProgram is startInstance with exactly this environment.
func startProgram(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command(build(t), args...)
	cmd.Dir, cmd.Env = dir, env
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := testtools.StartWithTest(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended already
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("terrapulse %s:\n%s", strings.Join(args, " "), read(t, log.Name()))
		}
	})
}

// quietEnviron is the environment without what would lead to another Consul or Nomad.
func quietEnviron() (env []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "CONSUL_") && !strings.HasPrefix(kv, "NOMAD_") && !strings.HasPrefix(kv, "VAULT_") && !strings.HasPrefix(kv, "TERRAPULSE_") && !strings.HasPrefix(kv, "CTS_") {
			env = append(env, kv)
		}
	}
	return env
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 2 minutes: %s", what)
		}
	}
}
