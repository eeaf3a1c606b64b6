package examples_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestPolicy_HoldsAPlanThatItDenies runs the example with a service that its rules deny,
// with the real conftest.
func TestPolicy_HoldsAPlanThatItDenies(t *testing.T) {
	testtools.Conftest(t)
	program, consul := build(t), consultest.Start(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testtools.Root(t), "examples", "policy"))); err != nil {
		t.Fatal(err)
	}
	search := path(t)
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append(args, "-config-file", "tasks.yaml")...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+consul.Addr(), "TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t), "PATH="+search)
		out, err := cmd.CombinedOutput()
		exit := new(exec.ExitError)
		if errors.As(err, &exit) && exit.ExitCode() == code || err == nil && code == 0 {
			return string(out)
		}
		t.Fatalf("terrapulse %s: %v, want exit code %d\n%s", strings.Join(args, " "), err, code, out)
		return ""
	}
	has := func(out string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Errorf("missing: %s\nin:\n%s", text, out)
			}
		}
	}
	register := func(id, address string) {
		t.Helper()
		if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: id, Address: address, Port: 8080}); err != nil {
			t.Fatal(err)
		}
	}
	rule := filepath.Join(dir, "sync-tasks", "allow-list", "rules", "web-9.txt")

	register("web-9", "203.0.113.9")
	const denied = "203.0.113.9 is not a private address"
	has(run(3, "start", "-once"), "check addresses refused the plan: FAIL - - main - ", denied)
	if _, err := os.Stat(rule); err == nil {
		t.Fatal("the plan that the policy denies was applied")
	}
	has(run(0, "status", "-json"), `"phase": "waiting"`, denied)
	has(run(0, "plan", "show", "allow-list"), denied, "203.0.113.9")
	has(run(0, "logs", "allow-list"), "Check addresses refused the plan after ", "  FAIL - - main - ", denied)

	run(0, "approve", "allow-list", "-comment=the office of a partner")
	run(0, "start", "-once")
	if content, err := os.ReadFile(rule); err != nil || string(content) != "allow 203.0.113.9\n" {
		t.Errorf("the approved plan was not applied: %s, %v", content, err)
	}

	// Without conftest nothing is applied.
	register("web-1", "10.0.0.1")
	search = filepath.Dir(linkTo(t, testtools.Terraform(t)))
	has(run(0, "validate"), "check addresses cannot be run on this machine", "The configuration is valid")
	has(run(3, "start", "-once"), "check addresses cannot be run: there is no program conftest on PATH")
}

// linkTo returns a link to a program, alone in its folder.
func linkTo(t *testing.T, program string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), filepath.Base(program))
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// TestPolicy_RulesPassTheirTests runs the tests of the example's rules.
func TestPolicy_RulesPassTheirTests(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), testtools.Conftest(t), "verify", "--policy", filepath.Join(testtools.Root(t), "examples", "policy", "policy"))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "4 passed") {
		t.Errorf("%v\n%s", err, out)
	}
}
