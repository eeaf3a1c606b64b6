package terraform_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var _ driver.Driver = tfdriver.New(tfdriver.Options{})

// secrets must show nowhere: a sensitive variable, a provider's sensitive
// attribute, and a value that Terrapulse gives to Terraform.
var secrets = []string{"variable-secret", "attribute-secret", "vault-secret"}

const module = `
variable "services" {}
variable "name" {}
variable "password" { sensitive = true }

resource "terraform_data" "settings" {
  input = { name = var.name, users = [{ login = "admin", password = var.password }], ports = [80, 443] }
}
resource "local_file" "names" {
  filename = "${path.module}/names.txt"
  content  = var.name
}
resource "local_sensitive_file" "key" {
  filename = "${path.module}/key.txt"
  content  = "attribute-secret of ${var.name}"
}
resource "terraform_data" "named" {
  for_each = toset(["vault-secret"])
  input    = { vault-secret = "is vault-secret" }
}
`

// task is a task with a real Terraform.
type task struct {
	t      *testing.T
	driver driver.Driver
	job    driver.Job
	out    testtools.Output
}

// notes calls functions.
type notes struct{ planned, saved func() }

func (n notes) Planned() { n.planned() }
func (n notes) Saved()   { n.saved() }

func newTask(t *testing.T, program, module string) *task {
	t.Helper()
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	t.Setenv("TMPDIR", t.TempDir())
	version, err := terraformcli.Version(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := &config.Config{Terraform: config.Terraform{Backend: config.Backend{Type: "local"}}}
	cfg.Vault.Token = "vault-secret"
	s := &task{t: t, driver: tfdriver.New(tfdriver.Options{Terraform: &terraformcli.Binary{Path: program, Version: version}})}
	s.job = driver.Job{Config: cfg, Snapshot: &consul.Snapshot{Blocks: []consul.Block{{Variable: "services"}}}, Output: &s.out, Notes: notes{func() {}, func() {}},
		Task: &config.Task{Name: "web", Module: filepath.Join(dir, "module"), WorkingDir: filepath.Join(dir, "web"),
			Variables: map[string]cty.Value{"name": cty.StringVal("one"), "password": cty.StringVal("variable-secret")}}}
	s.module(module)
	return s
}

func (s *task) module(text string) {
	s.t.Helper()
	if err := os.MkdirAll(s.job.Task.Module, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.job.Task.Module, "main.tf"), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// plan plans, and makes sure that nothing that people see shows a secret.
func (s *task) plan() (driver.Plan, map[string]driver.ResourceChange) {
	s.t.Helper()
	plan, err := s.driver.Plan(s.t.Context(), s.job)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.out.String())
	}
	raw, err := json.MarshalIndent(plan, "", " ")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, secret := range secrets {
		for name, text := range map[string]string{"data": string(raw), "text": plan.Text, "output": s.out.String()} {
			if strings.Contains(text, secret) {
				s.t.Errorf("the %s of the plan shows %s:\n%s", name, secret, text)
			}
		}
	}
	byAddress := map[string]driver.ResourceChange{}
	for _, r := range plan.Resources {
		byAddress[r.Address] = r
	}
	return plan, byAddress
}

func TestTerraform_PlansAppliesAndDestroys(t *testing.T) {
	for name, program := range map[string]func(testing.TB) string{"terraform": testtools.Terraform, "tofu": testtools.OpenTofu} {
		t.Run(name, func(t *testing.T) {
			s := newTask(t, program(t), module)
			plan, changes := s.plan()
			if !plan.Changes.Any() || !plan.New || plan.Changes.Add != 4 || len(changes) != 4 || !strings.Contains(plan.Text, "will be created") {
				t.Errorf("the first plan is %+v", plan)
			}
			if r := changes[`module.web.terraform_data.named["(redacted)"]`]; r.Action != driver.Create || r.Type != "terraform_data" {
				t.Errorf("the resource with a secret in its address is %+v", r)
			}

			// A check judges true values, but for those that Terraform marks.
			document, err := plan.JSON(t.Context())
			if err != nil || !strings.Contains(string(document), `module.web.terraform_data.named[\"vault-secret\"]`) ||
				!strings.Contains(string(document), `"content":"(sensitive)"`) || strings.Contains(string(document), "(redacted)") {
				t.Errorf("a check gets %s, %v", document, err)
			}

			noted := ""
			s.job.Notes = notes{func() { noted = s.out.String() }, func() {}}
			done, err := s.driver.Apply(t.Context(), s.job)
			if err != nil || done.Changes.Add != 4 || done.Changes.Destroy != 0 {
				t.Fatalf("the apply did %+v, %v\n%s", done.Changes, err, s.out.String())
			}
			if !strings.Contains(noted, "Plan: 4 to add") || strings.Contains(noted, "Creating...") {
				t.Errorf("when the plan was noted, the output was %q", noted)
			}
			if plan, _ := s.plan(); plan.Changes.Any() || plan.New || len(plan.Resources) != 0 || plan.Resources == nil {
				t.Errorf("the plan after it is %+v", plan)
			}

			if err := os.Remove(filepath.Join(s.job.Task.Module, "key.txt")); err != nil {
				t.Fatal(err)
			}
			s.job.Task.Variables["name"] = cty.StringVal("two")
			s.module(strings.Replace(module, `resource "terraform_data" "named"`, "moved {\n  from = terraform_data.named\n  to = terraform_data.moved\n}\n"+`resource "terraform_data" "moved"`, 1))
			plan, changes = s.plan()
			if c := plan.Changes; !plan.Changes.Any() || c.Add != 2 || c.Change != 1 || c.Destroy != 1 {
				t.Errorf("the plan of a change is %+v", plan)
			}
			updated := changes["module.web.terraform_data.settings"]
			if updated.Action != driver.Update || updated.Attributes[0] != (driver.AttributeChange{Path: "input.name", Before: "one", After: "two"}) {
				t.Errorf("settings: %+v", updated)
			}
			replaced := changes["module.web.local_file.names"]
			content := driver.AttributeChange{Path: "content", Before: "one", After: "two", Replaces: true}
			if replaced.Action != driver.Replace || replaced.CreateFirst || replaced.Reason != "replace_because_cannot_update" || replaced.Attributes[0] != content {
				t.Errorf("names: %+v", replaced)
			}
			key := changes["module.web.local_sensitive_file.key"]
			if key.Action != driver.Create || key.Attributes[0] != (driver.AttributeChange{Path: "content", Sensitive: true}) {
				t.Errorf("key: %+v", key)
			}
			if moved := changes[`module.web.terraform_data.moved["(redacted)"]`]; moved.Action != driver.Move || moved.Previous == "" {
				t.Errorf("moved: %+v", moved)
			}
			if len(plan.Drift) != 1 || plan.Drift[0].Address != "module.web.local_sensitive_file.key" || plan.Drift[0].Action != driver.Delete {
				t.Errorf("the drift is %+v", plan.Drift)
			}

			done, err = s.driver.Destroy(t.Context(), s.job)
			if err != nil || done.Changes.Destroy != 3 || done.Changes.Add != 0 || len(done.Changes.Resources) != 3 || done.Changes.Resources[0].Action != "delete" {
				t.Fatalf("the destroy did %+v, %v\n%s", done.Changes, err, s.out.String())
			}
			if _, err := os.Stat(filepath.Join(s.job.Task.Module, "names.txt")); !os.IsNotExist(err) {
				t.Errorf("the file of a destroyed resource is there: %v", err)
			}
			if done, err := s.driver.Destroy(t.Context(), s.job); err != nil || done.Changes.Destroy != 0 {
				t.Errorf("the second destroy did %+v, %v", done.Changes, err)
			}
		})
	}
}

func TestTerraform_PlanOfMovesAloneHasChanges(t *testing.T) {
	const one = "variable \"name\" {}\nvariable \"password\" { sensitive = true }\nvariable \"services\" {}\n" + `resource "terraform_data" "one" {}`
	s := newTask(t, testtools.Terraform(t), one)
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	s.module(strings.Replace(one, `"one"`, `"two"`, 1) + "\nmoved {\n  from = terraform_data.one\n  to = terraform_data.two\n}\n")
	plan, resources := s.plan()
	if c := plan.Changes; !c.Any() || c.Add+c.Change+c.Destroy > 0 || resources["module.web.terraform_data.two"].Action != driver.Move {
		t.Errorf("the plan is %+v", plan)
	}
}

func TestTerraform_DeclaresTheTypesOfAnInstalledModule(t *testing.T) {
	const module = "variable \"services\" {\n  type = map(object({ ports = map(number) }))\n}\nvariable \"name\" {}\nvariable \"password\" { sensitive = true }\n"
	s := newTask(t, testtools.Terraform(t), module)
	s.job.Task.Module = "file://" + s.job.Task.Module
	s.plan()
	for _, run := range []string{"first", "second"} {
		if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
			t.Fatalf("%v\n%s", err, s.out.String())
		}
		variables, err := os.ReadFile(filepath.Join(s.job.Task.WorkingDir, "variables.tf"))
		if err != nil || !strings.Contains(string(variables), "ports") {
			t.Errorf("after the %s run, ports are not declared (%v):\n%s", run, err, variables)
		}
	}
	if n := strings.Count(s.out.String(), "Initializing the backend"); n != 2 {
		t.Errorf("the plan and the two runs ran init %d times:\n%s", n, s.out.String())
	}
}
