package bundle_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const judged = `
driver: {terraform: {backend: {s3: {bucket: states, key: net, region: eu-central-1}}}}
check:
  global:
    command: [conftest, test, --policy, ../policy, "-"]
    files: [../policy]
task:
  - name: far
    module: example/far/aws
    condition: {services: {names: [web]}}
    check:
      own:
        command: [./judge.sh]
        files: [judge.sh, limits.json]
`

// policies are task files with checks and their files.
var policies = map[string]string{
	"net/tasks/a.yaml": judged, "net/judge.sh": "#!/bin/sh\n", "net/limits.json": "{}",
	"policy/main.rego": "package main", "policy/lib/names.rego": "package lib", "policy/.git/HEAD": "left", "other/x.rego": "left",
}

func TestPack_ChecksTakeTheirFilesAlong(t *testing.T) {
	dir := written(t, policies)
	cfg := load(t, dir, "tasks")
	b := pack(t, cfg)
	inside := filepath.Join(t.TempDir(), "bundle")
	loaded, err := bundle.Load(b.Zip, inside, config.Options{Hostname: "host"})
	if err != nil {
		t.Fatal(err)
	}
	for name, executable := range map[string]bool{"../policy/main.rego": false, "../policy/lib/names.rego": false, "limits.json": false, "judge.sh": true} {
		info, err := os.Stat(filepath.Join(loaded.Dir(), name)) // where the checks are run
		if err != nil || info.Mode()&0o100 != 0 != executable {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"../policy/.git/HEAD", "../other/x.rego"} {
		if _, err := os.Stat(filepath.Join(loaded.Dir(), name)); err == nil {
			t.Errorf("%s is in the bundle", name)
		}
	}

	changed := maps.Clone(policies)
	changed["policy/lib/names.rego"] = "package lib\nimport rego.v1"
	next, err := bundle.Load(pack(t, load(t, written(t, changed), "tasks")).Zip, filepath.Join(t.TempDir(), "bundle"), config.Options{Hostname: "host"})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Tasks[0].RulesDigest() == next.Tasks[0].RulesDigest() {
		t.Error("with another policy, a plan that waits is not judged again")
	}
	want := []bundle.Change{{Task: "far", Kind: bundle.Changed, What: []string{"check"}}}
	if diff := cmp.Diff(want, bundle.Diff(loaded, next)); diff != "" {
		t.Error(diff)
	}
}

func TestPack_ProgramOfACheckMustBeInTheBundle(t *testing.T) {
	files := maps.Clone(policies)
	files["net/tasks/a.yaml"] = strings.Replace(judged, "files: [judge.sh, limits.json]", "files: [limits.json]", 1)
	_, err := bundle.Pack(load(t, written(t, files), "tasks"))
	said(t, err, "pack the files of check own: its program ./judge.sh is not in the bundle: add it to its files")
}
