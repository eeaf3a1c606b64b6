//go:build unix

package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// A change that does not work at the first site reaches no other one, and one that works reaches all.
func TestACanaryKeepsAFailingChangeFromTheOtherSites(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	program, consul, dir := build(t), consultest.Start(t), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testtools.Root(t), "examples"))); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "canary")
	register := func(port int) {
		t.Helper()
		if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-1", Address: "10.0.0.1", Port: port}); err != nil {
			t.Fatal(err)
		}
	}
	once := func() (out string, worked bool) {
		cmd := exec.CommandContext(t.Context(), program, "start", "-once", "-config-file", "tasks.yaml")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+consul.Addr(), "TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t), "PATH="+path(t))
		text, err := cmd.CombinedOutput()
		return string(text), err == nil
	}
	// have reports which sites have a server with this port.
	have := func(port string) (sites string) {
		for _, site := range []string{"muc", "ber", "ham"} {
			text, _ := os.ReadFile(filepath.Join(dir, "sync-tasks", "web-"+site, "haproxy.cfg"))
			if strings.Contains(string(text), ":"+port+" ") {
				sites += site + " "
			}
		}
		return sites
	}

	register(8080)
	if out, worked := once(); !worked || have("8080") != "muc ber ham " {
		t.Fatalf("the first change reached %q:\n%s", have("8080"), out)
	}
	register(9999)
	out, worked := once()
	if worked || have("9999") != "muc " || have("8080") != "ber ham " {
		t.Errorf("a change that does not work reached %q:\n%s", have("9999"), out)
	}
	if !strings.Contains(out, "servers that do not answer") || !strings.Contains(out, "waits for web-muc") {
		t.Errorf("it is not said why:\n%s", out)
	}
	register(8080)
	if out, worked := once(); !worked || have("8080") != "muc ber ham " {
		t.Errorf("after it was mended, %q have it:\n%s", have("8080"), out)
	}
}
