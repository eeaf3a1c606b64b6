//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// first returns the id of the first of the things that moto has in its network.
func (a *account) first(things, id string) string {
	a.t.Helper()
	kind := map[string]string{"vpcs": "Vpcs", "route-tables": "RouteTables", "security-groups": "SecurityGroups", "subnets": "Subnets"}[things]
	out, err := a.run(fmt.Sprintf("aws ec2 describe-%s --output text --query '%s[0].%s'", things, kind, id), a.dir)
	if err != nil {
		a.t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(out)
}

// taskFiles writes the task files of the account's user: one task, whose module writes a file.
func (a *account) taskFiles() {
	a.t.Helper()
	module := strings.ReplaceAll(moduleText, "OUT", filepath.Join(a.dir, "out"))
	for name, content := range map[string]string{
		"tasks/modules/web/main.tf": module,
		"tasks/web.tfvars":          "task = \"web\"\n",
		"tasks/tasks.hcl": `
task {
  name           = "web"
  module         = "./tasks/modules/web"
  variable_files = ["./tasks/web.tfvars"]
  buffer_period { enabled = false }
  condition "services" { names = ["web"] }
}
`,
	} {
		path := filepath.Join(a.dir, "checkout", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			a.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(a.dir, "out"), 0o755); err != nil {
		a.t.Fatal(err)
	}
}

// out is the file that a task writes, and made is its content.
func (a *account) out(task string) string { return filepath.Join(a.dir, "out", task) }

func (a *account) made(task string) string {
	text, err := os.ReadFile(a.out(task))
	if err != nil && !os.IsNotExist(err) {
		a.t.Error(err)
	}
	return string(text)
}

// follow runs commands, which must succeed and print all of this.
func (a *account) follow(script, folder string, wants ...string) {
	a.t.Helper()
	out, err := a.run(script, folder)
	if err != nil {
		a.t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			a.t.Errorf("%s\nprint no %q:\n%s", script, want, out)
		}
	}
}

func (a *account) until(what string, is func() bool) {
	a.t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			a.t.Fatalf("it never came to this: %s", what)
		}
	}
}
