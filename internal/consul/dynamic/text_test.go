package dynamic_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/dynamic"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestText_EvaluatesATemplateOutsideOfProviders(t *testing.T) {
	e := &dynamic.Evaluator{LookupEnv: func(name string) (string, bool) { return "value of " + name, name == "X" }}
	for text, want := range map[string]string{`{{ env "X" }}`: "value of X", "a {{ literal }}": "a {{ literal }}", "": ""} {
		if got, err := e.Text(t.Context(), &config.Config{}, "api.token", text); err != nil || got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	_, err := e.Text(t.Context(), &config.Config{}, "api.token", `{{ mustEnv "Y" }}`)
	if err == nil || !strings.Contains(err.Error(), `api.token: mustEnv "Y"`) {
		t.Errorf("error %v", err)
	}
}
