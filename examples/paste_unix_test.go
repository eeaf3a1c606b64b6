//go:build unix

package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// TestQuickstart_CommandsWorkWhenPasted runs the commands of both quickstarts literally, in a copy
// of the needed files. Only the ports differ, and the Consul runs already.
func TestQuickstart_CommandsWorkWhenPasted(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	top, program := testtools.Root(t), build(t)
	for _, page := range []struct {
		file   string
		blocks func(string) bool // which blocks are pasted
		want   []string
	}{
		{"examples/quickstart/README.md", func(string) bool { return true },
			[]string{"2 tasks in ", "server web-1 10.0.0.1:8080 check", "Back at noon</h1>", "server web-2 10.0.0.2:8080 check", "load-balancer  applied"}},
		{"README.md", func(block string) bool { return strings.Contains(block, "terrapulse init") },
			[]string{"Wrote tasks.yaml", "### Task web", "1 to add", "1 succeeded; 1 added", "web   applied", "consul rights  ok"}},
	} {
		t.Run(page.file, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(top, page.file))
			if err != nil {
				t.Fatal(err)
			}
			var script strings.Builder
			for _, m := range shellBlock.FindAllStringSubmatch(string(text), -1) {
				if page.blocks(m[1]) {
					script.WriteString(m[1])
				}
			}
			scratch := t.TempDir()
			for _, dir := range []string{"examples/quickstart", "bin", "path"} {
				if err := os.MkdirAll(filepath.Join(scratch, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.CopyFS(filepath.Join(scratch, "examples/quickstart/."), os.DirFS(filepath.Join(top, "examples/quickstart"))); err != nil {
				t.Fatal(err)
			}
			consul := consultest.Start(t)
			if err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: "web-0", Address: "10.0.0.7", Port: 8080}); err != nil {
				t.Fatal(err)
			}
			terrapulse := fmt.Sprintf("case \"$1\" in start|doctor) c=$1; shift; exec %q $c -config-file %q \"$@\";; *) exec %q \"$@\";; esac",
				program, filepath.Join(scratch, "port.yaml"), program)
			standIns := map[string]string{
				"bin/terrapulse": terrapulse, "path/terrapulse": terrapulse,
				"path/make":   "exit 0",
				"path/consul": fmt.Sprintf("[ \"$1 $2\" = \"agent -dev\" ] && exec sleep 600; exec %q \"$@\"", testtools.Consul(t)),
			}
			for name, text := range standIns {
				if err := os.WriteFile(filepath.Join(scratch, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(scratch, "port.yaml"), fmt.Appendf(nil, "port: %d\n", testtools.FreePort(t)), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-e")
			cmd.Stdin = strings.NewReader(script.String())
			cmd.Dir = filepath.Join(scratch, filepath.Dir(page.file))
			cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+consul.Addr(), "TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t), "TERRAPULSE_STORE=",
				"PATH="+strings.Join([]string{filepath.Join(scratch, "path"), filepath.Dir(testtools.Terraform(t)), os.Getenv("PATH")}, ":"))
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
			cmd.WaitDelay = 10 * time.Second
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stuck := time.AfterFunc(2*time.Minute, func() { _ = cmd.Cancel() })
			defer stuck.Stop()
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v:\n%s", err, out.String())
			}
			for _, want := range page.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the commands print no %q:\n%s", want, out.String())
				}
			}
		})
	}
}
