package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdits_ChangeACopyAndMustFit(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "source")
	for name, text := range map[string]string{
		"go.mod": "module example.com/x\n", "a/a.go": "package a\nvar keep = 1\nvar drop = 2\n", "a/a_test.go": "package a\n", "a/testdata/large": "x", "b/b.go": "package b\n", "b/ui/page.html": "<p>",
	} {
		path := filepath.Join(from, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := copySource(from, to); err != nil {
		t.Fatal(err)
	}
	for _, e := range []edit{{"a/a.go", withoutLines("drop")}, {"b/b.go", removed}} {
		if err := e.apply(to); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"go.mod": "module example.com/x\n", "a/a.go": "package a\nvar keep = 1\n", "b/ui/page.html": "<p>"} {
		if got, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name))); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"a/a_test.go", "a/testdata", "b/b.go"} {
		if _, err := os.Stat(filepath.Join(to, filepath.FromSlash(name))); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	if err := (edit{"gone.go", removed}).apply(to); err == nil {
		t.Error("an edit of a file that is not there succeeds")
	}
}

func TestBuildOutput_CountsPackagesAndKeepsErrors(t *testing.T) {
	o := &buildOutput{}
	for _, part := range []string{"go: downloading x v1\nnet/ht", "tp\ngithub.com/hashicorp/go-", "hclog\n# example.com/x\n./x.go:3:1: undefined: y"} {
		fmt.Fprint(o, part)
	}
	if got := o.progress(10); got != "2 of at most 10 packages are compiled" {
		t.Errorf("progress: %s", got)
	}
	if said := string(o.said()); !strings.Contains(said, "undefined: y") || strings.Contains(said, "net/http") {
		t.Errorf("an error would show %q", said)
	}
}
