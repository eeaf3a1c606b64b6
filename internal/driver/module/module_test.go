package module

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestCheck_FindsMissingVariables(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.tf"), `variable "services" {}`)
	broken := t.TempDir()
	write(t, filepath.Join(broken, "a.tf"), `variable "`)
	working := t.TempDir()
	write(t, filepath.Join(working, "a.tf"), `variable "services" {}`)
	for _, c := range []struct {
		module string
		inputs []string
		vars   map[string]cty.Value
		want   string
	}{
		{dir, []string{"services"}, nil, ""},
		{dir, []string{"services", "consul_kv"}, nil, dir + ` of task web has no variable "consul_kv"`},
		{dir, []string{"services"}, map[string]cty.Value{"size": cty.True}, `has no variable "size"`},
		{filepath.Join(dir, "gone"), nil, nil, "there is no directory " + filepath.Join(dir, "gone")},
		{filepath.Join(dir, "a.tf"), nil, nil, "must be a directory"},
		{working, []string{"services"}, nil, "the working directory of task web is the directory of its module, " + working},
		{broken, []string{"services"}, nil, ""},                 // Terraform explains
		{"hashicorp/consul/aws", []string{"services"}, nil, ""}, // not here
	} {
		err := Check(&config.Task{Name: "web", Module: c.module, WorkingDir: working, Variables: c.vars}, c.inputs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v: got %v, want %q", c.module, c.inputs, err, c.want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
