//go:build unix

package examples_test

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
	"github.com/terrapulse/terrapulse/internal/testtools/tutorial"
)

// TestTutorials follows each tutorial of docs/tutorials as its reader does: every command must
// print what the page shows. Only ports and the names of the machine and its user differ.
func TestTutorials(t *testing.T) {
	if testing.Short() {
		t.Skip("runs Terraform")
	}
	if os.Getenv("TERRAPULSE_TEST_ENGINE") != "" {
		t.Skip("the pages show what Terraform prints")
	}
	for _, name := range []string{"first-task", "from-cts", "firewall-approval", "canary"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			follow(t, name)
		})
	}
}

// follow follows a tutorial in a folder that is empty, with a Consul that has nothing.
func follow(t *testing.T, name string) {
	consul, port := consultest.Start(t), testtools.FreePort(t)
	scratch := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	who, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Join(scratch, "path")
	if err := os.MkdirAll(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	// Each command that reads the task files finds the port with them.
	write(t, filepath.Join(scratch, "port.yaml"), fmt.Sprintf("port: %d\n", port))
	terrapulse := fmt.Sprintf(`case "$1 $*" in "migrate "*) c="migrate check"; shift 2;; *" -config-file"*) c=$1; shift;; *) exec %q "$@";; esac
exec %[1]q $c -config-file %q "$@"`, build(t), filepath.Join(scratch, "port.yaml"))
	for name, text := range map[string]string{
		"terrapulse": terrapulse,
		// No Consul-Terraform-Sync can be installed here. What stands for it writes the same states
		// to the same places, serves the same API, and forgets everything when it ends.
		"consul-terraform-sync": fmt.Sprintf("export TERRAPULSE_STORE=sqlite:%s/cts-$$.db\n%s", scratch, terrapulse),
		"consul":                fmt.Sprintf(`[ "$1 $2" = "agent -dev" ] && exec sleep 600; exec %q "$@"`, testtools.Consul(t)),
	} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := tutorial.Reader{
		Dir: filepath.Join(scratch, "empty"),
		Env: append(quietEnviron(), "CONSUL_HTTP_ADDR="+consul.Addr(), fmt.Sprintf("CTS_ADDRESS=http://localhost:%d", port),
			"TF_CLI_CONFIG_FILE="+testtools.TerraformRC(t), "PATH="+strings.Join([]string{programs, path(t)}, ":")),
		Replace: []tutorial.Replacement{
			{Page: "localhost:8500", Here: consul.Addr()}, {Page: "8558", Here: fmt.Sprint(port)},
			{Page: "ann@laptop", Here: who.Username + "@" + host}, {Page: "laptop", Here: "consul-server"},
			{Page: "-config-file=cts.hcl", Here: "-config-file=" + filepath.Join(scratch, "port.yaml") + " -config-file=cts.hcl"},
		},
	}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Follow(t, read(t, filepath.Join(testtools.Root(t), "docs", "tutorials", name+".md")))
}
