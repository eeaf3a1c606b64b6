package examples_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// asInCTS are the examples that are task files of Consul-Terraform-Sync, unchanged.
var asInCTS = []string{"cts-hcl", "terraform-cloud"}

// What people copy removes the last entry only if a person approves.
func TestExamples_HoldTheLossOfTheLastEntry(t *testing.T) {
	top := filepath.Join(testtools.Root(t), "examples")
	var files []string
	for _, pattern := range []string{"*/tasks.yaml", "*/tasks.hcl"} {
		found, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(asInCTS, filepath.Base(filepath.Dir(file))) })
	charts, err := filepath.Glob(filepath.Join(top, "kubernetes", "values", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range charts {
		files = append(files, chartTasks(t, file)...)
	}
	tasks := 0
	for _, file := range files {
		cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: file}}, Dir: filepath.Dir(file)})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, task := range cfg.Tasks {
			if tasks++; !task.Guard.HoldEmpty {
				t.Errorf("%s: the task %s has no on_empty = hold", file, task.Name)
			}
		}
	}
	if tasks < 12 {
		t.Errorf("only %d tasks are checked", tasks)
	}
}

// chartTasks writes the task files that values of the chart hold, and returns their names.
func chartTasks(t *testing.T, file string) (files []string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Tasks struct{ Files map[string]string }
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range values.Tasks.Files {
		if filepath.Ext(name) != ".yaml" && filepath.Ext(name) != ".hcl" {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	return files
}
