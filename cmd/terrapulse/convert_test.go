package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs the program inside the test, without a store.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestConvertAFileOfConsulTerraformSync(t *testing.T) {
	dir := t.TempDir()
	cts, out := filepath.Join(dir, "cts.hcl"), filepath.Join(dir, "tasks.yaml")
	if err := os.WriteFile(cts, []byte("# Ours.\ntask {\n  name = \"lb\"\n  source = \"example/lb/aws\"\n  services = [\"web\"]\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "task:\n  # Ours.\n  - name: lb\n    module: example/lb/aws\n    condition:\n      services:\n        names: [web]\n"
	code, stdout, stderr := execute(t, "convert", cts)
	if code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, printed:\n%s%s", code, stdout, stderr)
	}
	code, stdout, stderr = execute(t, "convert", "-o", out, cts)
	if code != exitOK || !strings.Contains(stdout, "terrapulse validate -config-file="+out) {
		t.Errorf("exit %d, printed:\n%s%s", code, stdout, stderr)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != want {
		t.Errorf("wrote %q, error %v", got, err)
	}
	if code, stdout, stderr := execute(t, "validate", "-config-file", out); code != exitOK || strings.Contains(stdout, "deprecated") {
		t.Errorf("exit %d, printed:\n%s%s", code, stdout, stderr)
	}
}

func TestConvertRefusesWhatItCannotDo(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, wrong, old := file("good.hcl", "port = 1\n"), file("wrong.hcl", "port = \"x\"\nbogus = 1\n"), file("old.yaml", "port: 2\n")
	for _, tt := range []struct {
		args []string
		code int
		want []string
	}{
		{nil, exitMissing, []string{"name the files to convert"}},
		{[]string{"-o", old, good}, exitError, []string{"is there already"}},
		{[]string{"-o", filepath.Join(dir, "x.hcl"), good}, exitFlags, []string{".yaml or .yml"}},
		{[]string{"-o", filepath.Join(dir, "no", "x.yaml"), good}, exitError, []string{"no such file"}},
		{[]string{wrong}, exitConfig, []string{`wrong.hcl:1: port: cannot parse "x" as int`, `wrong.hcl:2: bogus: invalid key "bogus"`}},
		{[]string{filepath.Join(dir, "gone.hcl")}, exitConfig, []string{"gone.hcl: no such file"}},
	} {
		code, stdout, stderr := execute(t, append([]string{"convert"}, tt.args...)...)
		if code != tt.code || stdout != "" {
			t.Errorf("convert %v: exit %d, printed %s", tt.args, code, stdout)
		}
		for _, want := range tt.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("convert %v: said %s, want %s", tt.args, stderr, want)
			}
		}
	}
	if got, _ := os.ReadFile(old); string(got) != "port: 2\n" {
		t.Errorf("overwrote a file: %s", got)
	}
}

func TestTheSchemaIsPrinted(t *testing.T) {
	code, stdout, stderr := execute(t, "schema")
	var schema struct {
		Schema     string         `json:"$schema"`
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal([]byte(stdout), &schema); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("exit %d, error %v, said %s", code, err, stderr)
	}
	if schema.Schema != "https://json-schema.org/draft/2020-12/schema" || schema.Properties["task"] == nil {
		t.Errorf("printed %.300s", stdout)
	}
}
