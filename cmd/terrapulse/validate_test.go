package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate_ReportsWhatTerraformWouldRefuseInOnePass(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	s.write("web/main.tf", `variable "services" {
  type = list(string)
}
variable "size" {
  type = number
}
variable "owner" {
  type = object({ name = string, team = optional(string, "net") })
}
variable "region" {
  type = string
}
variable "spare" {
  type    = map
  default = null
}
locals {
  known = "x"
}
module "part" {
  source = "./part"
  colour = local.known
  shape  = "round"
}
module "gone" {
  source = "./gone"
}
output "all" {
  value = [for v in var.services : "${v}${var.nothing}"]
}
resource "terraform_data" "x" {
  input = local.unknown
  lifecycle {
    ignore_changes = [input]
  }
}
`)
	s.write("web/part/main.tf", "variable \"colour\" {}\nvariable \"weight\" {}\noutput \"x\" {\n  value = module.none.y\n}\n")
	s.write("broken/main.tf", "variable \"services\" {}\noutput \"x\" {\n  value = [1,\n}\n")
	s.write("fine/main.tf", "variable \"services\" {\n  type = map(object({ name = string, port = number }))\n}\nvariable \"consul_kv\" {\n  type = map(string)\n}\nvariable \"list\" {\n  type = list(any)\n}\n")
	s.write("more.tfvars", "# a comment\nowner = \"hunter2\"\n")
	s.write("tasks.yaml", `bogus: 1
buffer_period:
  min: -5s
task:
  - name: web
    module: ./web
    condition:
      services:
        names: [web]
    variables:
      extra: "1"
      size: '"hunter2"'
      spare: '{ a = 1 }'
    variable_files: [more.tfvars]
  - name: broken
    module: ./broken
    condition:
      services:
        names: [web]
  - name: again
    module: ./broken
    condition:
      services:
        names: [web]
  - name: fine
    module: ./fine
    condition:
      consul-kv:
        path: a
    variables:
      list: '[1, "two"]'
  - name: wrong
    module: ./web
    condition:
      schedule:
        cron: never
`)
	r := s.run("validate", "-config-file", "tasks.yaml")
	wantCode(t, r, exitConfig)
	said := strings.ReplaceAll(r.stderr, s.dir+string(filepath.Separator), "")
	want := []string{
		`tasks.yaml:1: bogus: invalid key "bogus"`,
		`tasks.yaml:3: buffer_period.min: buffer_period: cannot be negative: "-5s"`,
		`tasks.yaml:36: task[4].condition.schedule.cron: unable to parse`,
		`web/main.tf:29: the module refers to the variable "nothing", which it does not declare`,
		`web/main.tf:32: the module refers to the local value "unknown", which it does not declare`,
		`web/main.tf:20: the module "part" is not given the variable "weight", which it requires (web/part/main.tf:2)`,
		`web/main.tf:23: the module "part" has no variable "shape"`,
		`web/main.tf:25: the module "gone" is not there: there is no directory web/gone`,
		`web/part/main.tf:4: the module refers to the module "none", which it does not declare`,
		`web/main.tf:1: what task web gets from Consul in the variable "services" does not fit the type that the module declares (web/main.tf:1)`,
		`tasks.yaml:12: the value of the variable "size" of task web does not fit the type that the module declares (web/main.tf:4): a number is required`,
		`more.tfvars:2: the value of the variable "owner" of task web does not fit the type that the module declares (web/main.tf:7): object required`,
		`tasks.yaml:11: the module web of task web has no variable "extra": declare it, or remove it from variables and variable_files of task web`,
		`tasks.yaml:5: task web does not set the variable "region", which its module requires (web/main.tf:10)`,
		`broken/main.tf:4: the module is not valid: `,
	}
	wantText(t, said, want...)
	if n := strings.Count(said, "Error: "); n != len(want) {
		t.Errorf("%d findings, want %d:\n%s", n, len(want), said)
	}
	if strings.Contains(said, "hunter2") {
		t.Errorf("a value is shown:\n%s", said)
	}
}

// The note says what differs from Consul-Terraform-Sync, which reads HCL and JSON.
func TestValidate_SpeaksOfConsulTerraformSyncOnlyIfItReadsTheFilesToo(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	s.write("web/main.tf", "variable \"services\" {}\n")
	s.write("tasks.yaml", "task:\n  - name: web\n    module: ./web\n    condition: {services: {names: [web]}}\n")
	s.write("tasks.hcl", "task {\n  name = \"web\"\n  module = \"./web\"\n  condition \"services\" {\n    names = [\"web\"]\n  }\n}\n")
	for file, note := range map[string]bool{"tasks.yaml": false, "tasks.hcl": true} {
		r := s.run("validate", "-config-file", file)
		wantCode(t, r, exitOK)
		if strings.Contains(r.stdout+r.stderr, "Consul-Terraform-Sync") != note {
			t.Errorf("%s: %s%s", file, r.stdout, r.stderr)
		}
	}
}

// An init would fail, because of the root module that Terrapulse writes around the module.
// Otherwise the files of the task would be written among those of its module, which would call itself.
func TestValidate_WorkingDirectoryIsNotThatOfTheModule(t *testing.T) {
	for folder, files := range map[string]string{
		"working_dir = \".\"\n":      "",
		"":                           "  working_dir = \"m\"\n",
		"working_dir = \"linked\"\n": "",
	} {
		for _, file := range []string{"main.tf", "web.tf"} { // that we would write, and another one
			s := &site{t: t, dir: t.TempDir()}
			t.Chdir(s.dir)
			s.write("m/"+file, "variable \"services\" {}\n")
			if err := os.Mkdir(s.path("linked"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(s.path("m"), s.path("linked/m")); err != nil {
				t.Fatal(err)
			}
			s.write("tasks.hcl", folder+"task {\n  name = \"m\"\n  module = \"./m\"\n"+files+"  condition \"services\" { names = [\"web\"] }\n}\n")
			r := s.run("validate", "-config-file", "tasks.hcl")
			wantCode(t, r, exitConfig)
			wantText(t, r.stderr, "the working directory of task m is the directory of its module")
		}
	}
}

func TestValidate_ChecksTheRootModuleThatItWouldWrite(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	const services = "variable \"services\" {}\n"
	s.write("web/main.tf", services+"variable \"fw\" {}\nvariable \"size\" {}\n")
	s.write("bare/main.tf", services)
	s.write("calls/main.tf", services+"module \"inner\" {\n  source = \"./inner\"\n}\nmodule \"sibling\" {\n  source = \"../web\"\n  services = 1\n  fw = 1\n  size = 1\n}\n")
	s.write("calls/inner/main.tf", "module \"next\" {\n  source = \"../beside\"\n}\n")
	s.write("calls/beside/main.tf", "")
	s.write("own.tfvars", "size = 3\nservices = {}\n")
	s.write("tasks.yaml", `terraform_provider:
  fw:
    host: 10.0.0.1
  local:
    task_env: {TF_VAR_x: "1"}
task:
  - name: input
    module: ./web
    condition: {services: {names: [web]}}
    variables: {fw: 1}
    variable_files: [own.tfvars]
  - name: provider
    module: ./web
    condition: {services: {names: [web]}}
    providers: [fw]
    variables:
      size: 1
      fw: 1
  - name: env
    module: ./bare
    condition: {services: {names: [web]}}
    providers: [local]
  - name: versioned
    module: ./bare
    version: 1.2.0
    condition: {services: {names: [web]}}
  - name: calls
    module: ./calls
    condition: {services: {names: [web]}}
  - name: name
    module: web
    condition: {services: {names: [web]}}
`)
	r := s.run("validate", "-config-file", "tasks.yaml")
	wantCode(t, r, exitConfig)
	var lines []string
	for line := range strings.Lines(r.stderr) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	for _, want := range []string{
		`own.tfvars:2: the root module of task input would have two variables "services": Terrapulse sets it with data from Consul, and variables or variable_files of the task set it: remove or rename that one`,
		`TF_VAR_x`,
		`task versioned has a version ("1.2.0")`,
		`tasks.yaml:18: the root module of task provider would have two variables "fw": one has the values of the terraform_provider block "fw", and variables`,
		s.path("calls/main.tf") + `:5: the module "sibling" is not below the module of task calls (` + s.path("calls") + `), so that Terraform refuses it: move ` + s.path("web") + ` there`,
		`tasks.yaml:30: the module "web" of task name is no address that Terraform can read: write ./web for a directory beside the task files`,
	} {
		wantText(t, r.stderr, want)
	}
	if len(lines) != 6 {
		t.Errorf("%d errors", len(lines))
	}
}
