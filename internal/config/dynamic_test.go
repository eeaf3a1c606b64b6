package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsATemplate(t *testing.T) {
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

func TestAProviderWithATemplateIsDynamic(t *testing.T) {
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
func TestATemplateOfAnotherProgramIsLeftAloneInATask(t *testing.T) {
	load(t, "f.hcl", aTask(services+"\nvariables { x = \"\\\"{{- range service \\\\\\\"web\\\\\\\" -}}{{ end }}\\\"\" }"))
}
