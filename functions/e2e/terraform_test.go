//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// awsProvider builds a stand-in for the AWS provider, and returns a configuration of Terraform's command line that
// installs it.
func awsProvider(t *testing.T) (rc string) {
	t.Helper()
	mirror := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o",
		filepath.Join(mirror, "registry.terraform.io", "hashicorp", "aws", "6.62.0", runtime.GOOS+"_"+runtime.GOARCH, "terraform-provider-aws_v6.62.0"), "./aws")
	build.Dir = filepath.Join(testtools.Root(t), "internal", "testtools", "testdata", "providers")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the provider: %v\n%s", err, out)
	}
	rc = filepath.Join(mirror, "terraform.rc")
	if err := os.WriteFile(rc, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o644); err != nil {
		t.Fatal(err)
	}
	return rc
}

// The example of a deployment by Terraform asks for a stack that the template accepts, and pushes the task files, which
// are then applied.
func TestTerraformExample_DeploysAndPushes(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	outputs, err := json.Marshal(rehearse(t, options{}).Outputs)
	if err != nil {
		t.Fatal(err)
	}
	dir, request := t.TempDir(), filepath.Join(t.TempDir(), "request")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testtools.Root(t), "examples", "aws-terraform"))); err != nil {
		t.Fatal(err)
	}
	terraform, rc := testtools.Terraform(t), awsProvider(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), terraform, args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + c.dir, "PATH=" + filepath.Dir(built(t, "terrapulse")) + string(filepath.ListSeparator) + os.Getenv("PATH"), "TF_IN_AUTOMATION=1",
			"CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=" + rc, "STACK_REQUEST=" + request, "STACK_OUTPUTS=" + string(outputs), "CONSUL_HTTP_ADDR=" + c.proxy.Addr()}
		for name, value := range c.env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("fmt", "-check")
	run("init", "-no-color")
	run("validate")
	apply := []string{"apply", "-auto-approve", "-no-color", "-var", "region=eu-west-1", "-var", "name=" + c.name,
		"-var", "template_url=https://example-eu-west-1.s3.eu-west-1.amazonaws.com/v1.2.3/template.yaml", "-var", "consul_address=http://consul.example.com:8501",
		"-var", `subnets=["subnet-0123456789abcdef0","subnet-0123456789abcdef1"]`, "-var", `runner_policy_arns=["arn:aws:iam::123456789012:policy/firewall"]`,
		"-var", `act_arns=["arn:aws:iam::123456789012:role/network-*"]`, "-var", "tasks=" + filepath.Join(c.dir, "files")}
	if out := run(apply...); !strings.Contains(out, "in force") {
		t.Errorf("no bundle was pushed:\n%s", out)
	}

	var asked struct {
		Name, TemplateURL string
		Capabilities      []string
		Parameters        rehearsal.Parameters
	}
	text, err := os.ReadFile(request)
	if err == nil {
		err = json.Unmarshal([]byte(strings.Replace(string(text), "template_url", "TemplateURL", 1)), &asked)
	}
	if err != nil {
		t.Fatal(err)
	}
	if refusal := rehearsal.Refusals(t, []rehearsal.Parameters{asked.Parameters})[0]; refusal != "" {
		t.Errorf("the template refuses %v: %s", asked.Parameters, refusal)
	}
	slices.Sort(asked.Capabilities)
	if asked.Name != c.name || asked.TemplateURL == "" || fmt.Sprint(asked.Capabilities) != "[CAPABILITY_AUTO_EXPAND CAPABILITY_IAM]" {
		t.Errorf("asked for %+v", asked)
	}
	known := templateParameters(t)
	for name := range asked.Parameters {
		if !slices.Contains(known, name) {
			t.Errorf("the template has no parameter %s", name)
		}
	}
	c.tickUntil("the task is applied", func() bool { return c.out("lb") != "" })
	if out := run(apply...); !strings.Contains(out, "No changes.") {
		t.Errorf("without a change, it changes something:\n%s", out)
	}
	c.tasks(consulBackend, "lb", "second")
	if out := run(apply...); !strings.Contains(out, "in force") {
		t.Errorf("a changed task file was not pushed:\n%s", out)
	}
	c.tickUntil("the new task is applied", func() bool { return c.out("second") != "" })
	var shown map[string]struct{ Value any }
	if err := json.Unmarshal([]byte(run("output", "-json")), &shown); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		// Moto makes no function URL and no dashboard.
		if shown[name].Value == nil && name != "api_url" && name != "dashboard_url" {
			t.Errorf("the output %s has no value: the template has no such output", name)
		}
	}
}

// templateParameters returns the names of the template's parameters.
func templateParameters(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Parameters map[string]yaml.Node `yaml:"Parameters"`
	}
	if err := yaml.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(template.Parameters))
}
