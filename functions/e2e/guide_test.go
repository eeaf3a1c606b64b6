//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The commands of docs/deploy.md are run literally, in an empty account. Only what no program here
// can stand in for is left out.
func TestDeploy_GuideIsFollowedLiterally(t *testing.T) {
	a := newAccount(t, "")
	a.taskFiles()
	a.register("web-1", 8080)
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs/deploy.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range shellBlock.FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	// The first block is a whole deployment. Until `terrapulse resume`, nothing is applied.
	first := strings.Replace(blocks[0], "\nterrapulse resume", "\ntest ! -e "+a.out("web")+"\nterrapulse resume", 1)
	if first == blocks[0] {
		t.Fatalf("the first block does not resume:\n%s", first)
	}
	a.follow(first, a.dir, "### Task web", "1 to add", "paused")
	a.until("the task is applied", func() bool { return a.made("web") == "web-1:8080" })
	a.register("web-2", 8081)
	a.until("a change is applied", func() bool { return a.made("web") == "web-1:8080 web-2:8081" })

	clone := filepath.Join(a.dir, "terrapulse")
	a.env["PATH"] = filepath.Join(clone, "bin") + ":" + a.env["PATH"]
	for name, content := range map[string]string{"token": "a token\n"} {
		if err := os.WriteFile(filepath.Join(clone, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.follow("aws s3api create-bucket --bucket the-bucket --create-bucket-configuration LocationConstraint=eu-west-1", clone)
	named := strings.NewReplacer("BUCKET", "the-bucket", "vpc-1", a.first("vpcs", "VpcId"), "rtb-1", a.first("route-tables", "RouteTableId"),
		"sg-1", a.first("security-groups", "GroupId"), "SubnetIds=subnet-1,subnet-2", "SubnetIds="+a.first("subnets", "SubnetId"))
	for _, block := range blocks[1:] {
		switch {
		case strings.Contains(block, "podman"):
			// A registry is needed. TestTheImageAppliesAChange builds the image and runs it.
		case strings.Contains(block, "terrapulse doctor"):
			a.follow(block, clone, "container", "planned task web", "### Task web", "web   applied")
		default:
			a.follow(named.Replace(block), clone)
		}
	}
	secrets := fmt.Sprint(a.secrets)
	if !strings.Contains(secrets, "secret:terrapulse/consul-token-AbCdEf:a token") {
		t.Errorf("the secrets are %s", secrets)
	}
}

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
