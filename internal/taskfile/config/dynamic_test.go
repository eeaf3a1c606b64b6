package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIsTemplate_NeedsALookup(t *testing.T) {
	for text, want := range map[string]bool{
		// as Consul-Terraform-Sync recognises it
		`{{ env "X" }}`:     true,
		`{{env "X"}}`:       true,
		`a {{ key "p" }} b`: true,
		`{{ with secret "p" }}{{ .Data.x }}{{ end }}`: true,
		// and where it does not
		`{{- key "p" -}}`:                                     true,
		`{{ key "p" | toUpper }}`:                             true,
		`{{ keyOrDefault "p" "d" }}`:                          true,
		`{{ envOrDefault "X" "d" }}`:                          true,
		"{{ env `X` }}":                                       true,
		`{{ "X" | env }}`:                                     true,
		`{{ printf "%s-%s" (env "A") (env "B") }}`:            true,
		`{{ range service "web" }}{{ .Address }}{{ end }}`:    true,
		`{{ range $i, $s := services }}{{ $s }}{{ end }}`:     true,
		`{{ if keyExists "p" }}a{{ end }}`:                    true,
		`{{ $s := secret "p" }}{{ $s.Data.x }}`:               true,
		`{{ secretsmanager "arn:aws:secretsmanager:x" "k" }}`: true,
		`{{ ssm "/a/b" }}`:                                    true,
		"{{\n  key\n  \"p\"\n}}":                              true,
		// text
		``:                          false,
		`{{ other }}`:               false,
		`{{ key }}`:                 false,
		`{{ service }}`:             false,
		`{{ services }}`:            false,
		`{{ .env "X" }}`:            false,
		`{{ monkey "p" }}`:          false,
		`{{ print "env \\"X\\"" }}`: false,
		`{ env "X" }`:               false,
		`{{ env "X" `:               false,
		`${key("p")}`:               false,
	} {
		if got := IsTemplate(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestLoad_ProviderWithATemplateIsDynamic(t *testing.T) {
	cfg := load(t, "f.hcl", `
vault { address = "http://v" }
terraform_provider "a" { x { y = ["{{ env \"X\" }}"] } }
terraform_provider "b" {
  alias = "c"
  task_env { "T" = "{{ with secret \"p\" }}{{ .Data.x }}{{ end }}" }
}
terraform_provider "d" { x = "{{ other }}" }
terraform_provider "e" { x = "{{- ssm \"/a\" -}}" }
`)
	dynamic := map[string]bool{}
	for _, p := range cfg.Providers {
		dynamic[p.ID()] = p.Dynamic()
	}
	if diff := cmp.Diff(map[string]bool{"a": true, "b.c": true, "d": false, "e": true}, dynamic); diff != "" {
		t.Error(diff)
	}
}

// The text of a task may be a template that is meant for another program.
func TestLoad_KeepsTemplatesOfOtherPrograms(t *testing.T) {
	load(t, "f.hcl", aTask(services+"\nvariables { x = \"\\\"{{- range service \\\\\\\"web\\\\\\\" -}}{{ end }}\\\"\" }"))
}

func TestVariables_MayBeTemplatesInTaskFiles(t *testing.T) {
	const task = "task {\n name = \"t\"\n module = \"./m\"\n condition \"services\" {\n  names = [\"web\"]\n }\n variables = {\n  token = %s\n  size  = \"3\"\n }\n %s\n}\n"
	cfg := load(t, "f.hcl", fmt.Sprintf(task, `"Bearer {{ env \"TOKEN\" }}"`, ""))
	got := cfg.Tasks[0]
	if want := (map[string]string{"token": `Bearer {{ env "TOKEN" }}`}); !reflect.DeepEqual(got.VariableTemplates, want) || len(got.Variables) != 1 {
		t.Errorf("templates %v, values %v", got.VariableTemplates, got.Variables)
	}
	if names := got.VariableNames(); !slices.Equal(names, []string{"size", "token"}) || got.VariablePosition("token").Line != 8 {
		t.Errorf("names %q, token in line %d", names, got.VariablePosition("token").Line)
	}
	other := load(t, "f.hcl", fmt.Sprintf(task, `"{{ env \"OTHER\" }}"`, ""))
	if got.Digest(cfg) == other.Tasks[0].Digest(other) || got.Identity(cfg) == other.Tasks[0].Identity(other) {
		t.Error("another template is the same task")
	}

	// A variable file wins, as over any value.
	dir := write(t, "f.hcl", fmt.Sprintf(task, `"{{ env \"TOKEN\" }}"`, `variable_files = ["v.tfvars"]`), "v.tfvars", `token = "x"`)
	cfg, err := Load(options(dir, "f.hcl"))
	if err != nil || len(cfg.Tasks[0].VariableTemplates) > 0 || len(cfg.Tasks[0].Variables) != 2 {
		t.Errorf("%v %v", cfg, err)
	}

	for value, want := range map[string]string{
		`"\"{{ env \\\"TOKEN\\\" }}\""`:                      "f.hcl:8: task[0].variables.token: dynamic configuration using template syntax is only supported for terraform_provider blocks and variables of task files; in variables, a template stands alone, without the quotes of Terraform source around it",
		`"{{ with secret \"kv/x\" }}{{ .Data.x }}{{ end }}"`: "f.hcl:8: task[0].variables.token: detected dynamic configuration using Vault: missing Vault configuration; add a vault block with an address",
		`"{{ env \"TOKEN\" }}{{ end }}"`:                     "f.hcl:8: task[0].variables.token: the template cannot be parsed",
		`"{{ \"no look-up\" }}"`:                             "f.hcl:8: task[0].variables.token: not a literal value",
	} {
		if got := mistakes(t, "f.hcl", fmt.Sprintf(task, value, "")); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: said %s", value, got)
		}
	}

	// Who creates a task through the API would get secrets of this process.
	_, err = cfg.Parse([]byte(`{"name":"x","module":"./m","variables":{"token":"{{ env \"TOKEN\" }}"}}`))
	if err == nil || !strings.Contains(err.Error(), "only supported for terraform_provider blocks and variables of task files") {
		t.Errorf("through the API: %v", err)
	}
}
