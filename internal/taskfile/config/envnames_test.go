package config_test

import (
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

func TestEnvNames_OfTheTemplatesOfAllTasks(t *testing.T) {
	cfg := configtest.Load(t, t.TempDir(), "tasks.hcl", `
api { token = "{{ env \"API\" }}" }
terraform_provider "a" {
  url = "https://{{ mustEnv `+"`URL`"+` }}/{{ \"PIPED\" | env }}"
  task_env { X = "{{ key \"no/variable\" }}" }
}
task {
  name      = "web"
  module    = "example/web/aws"
  variables = { password = "{{ with $n := \"IN_A_VARIABLE\" }}{{ env $n }}{{ end }}" }
  condition "services" { names = ["web"] }
}
`)
	names := cfg.EnvNames()
	for _, want := range []string{"API", "URL", "PIPED", "IN_A_VARIABLE"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %q", want, names)
		}
	}
	if slices.Contains(names, "no/variable") {
		t.Errorf("%q has the key of another function", names)
	}
}
