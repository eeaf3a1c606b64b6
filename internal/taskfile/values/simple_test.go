package values

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// load loads a configuration with one task web, which uses the provider.
func load(t *testing.T, provider, variables string) *config.Config {
	t.Helper()
	return configtest.Load(t, t.TempDir(), "tasks.hcl", "terraform_provider \"local\" {\n"+provider+"\n}\n"+
		"task {\n  name = \"web\"\n  module = \"example/web/aws\"\n  providers = [\"local\"]\n  condition \"services\" { names = [\"web\"] }\n"+variables+"\n}\n")
}

func TestSimple_PutsValuesInThePlaceOfTemplates(t *testing.T) {
	cfg := load(t, `
  token = "{{ secretsmanager \"arn\" \"key\" }}"
  address = "https://plain"
  task_env { PASSWORD = "a{{ ssm \"b\" }}c" }`, "")
	s := Simple{Look: func(_ context.Context, function string, arguments []string) (string, error) {
		return function + "-" + strings.Join(arguments, "-"), nil
	}}
	got, err := s.Evaluate(t.Context(), cfg, &cfg.Tasks[0])
	if err != nil {
		t.Fatal(err)
	}
	p := got.Config.Providers[0]
	texts := map[string]string{}
	p.Body.Map(func(argument, text string) string { texts[argument] = text; return text })
	if texts["token"] != "secretsmanager-arn-key" || texts["address"] != "https://plain" || p.Env["PASSWORD"] != "assm-bc" {
		t.Errorf("%v %v", texts, p.Env)
	}
	for _, piece := range []string{"secretsmanager-arn-key", "ssm-b"} {
		if !slices.Contains(got.Secrets, piece) {
			t.Errorf("%s is not among the secrets %q", piece, got.Secrets)
		}
	}
	if text := cfg.Providers[0].Env["PASSWORD"]; text != `a{{ ssm "b" }}c` {
		t.Errorf("the configuration itself changed: %s", text)
	}
}

func TestSimple_RefusesOtherTemplatesAndNamesThePlace(t *testing.T) {
	cfg := load(t, `token = "{{ key \"a/b\" }}"`, "")
	s := Simple{Look: func(context.Context, string, []string) (string, error) { return "", errors.New("must not be called") }}
	if _, err := s.Evaluate(t.Context(), cfg, &cfg.Tasks[0]); err == nil || !strings.Contains(err.Error(), `provider "local", token: `) || !strings.Contains(err.Error(), "secretsmanager") {
		t.Errorf("%v", err)
	}
}
