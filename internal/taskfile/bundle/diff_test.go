package bundle_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestDiff_ListsChangedTasks(t *testing.T) {
	const before = `
driver: {terraform: {version: 1.11.4, backend: {s3: {bucket: b, key: k, region: r}}, required_providers: {aws: ~> 6.0}}}
terraform_provider: {aws: {region: x}, dns: {update: {server: y}}}
task:
  - name: a
    module: ./m
    providers: [aws]
    variables: {size: 1, zone: '"dmz"'}
    condition: {services: {names: [web]}}
  - name: b
    description: old
    module: ./m
    providers: [dns]
  - name: c
    module: x/y/z
    enabled: false
`
	in := func(text, module string) *config.Config {
		dir := written(t, map[string]string{"net/t.yaml": text, "net/m/main.tf": module, "net/n/main.tf": module})
		cfg, err := bundle.Load(pack(t, load(t, dir, "t.yaml")).Zip, t.TempDir(), options(""))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	changed := func(task string, runs bool, what ...string) bundle.Change {
		return bundle.Change{Task: task, Kind: bundle.Changed, What: what, Runs: runs}
	}
	tests := []struct {
		name, from, to, module string
		want                   []bundle.Change
	}{
		{"nothing", "", "", "", nil},
		{"the files of a module", "", "", "# new", []bundle.Change{changed("a", true, "files of the module"), changed("b", true, "files of the module")}},
		{"a module", "a\n    module: ./m", "a\n    module: ./n", "", []bundle.Change{changed("a", true, "module")}},
		{"a new task", "  - name: a", "  - name: d\n    module: x/y/z\n  - name: a", "", []bundle.Change{{Task: "d", Kind: bundle.New, Runs: true}}},
		{"a task is gone", "  - name: c\n    module: x/y/z\n    enabled: false\n", "", "", []bundle.Change{{Task: "c", Kind: bundle.Removed}}},
		{"enabled", "enabled: false", "enabled: true", "", []bundle.Change{changed("c", true, "enabled")}},
		{"a description", "old", "new", "", []bundle.Change{changed("b", false, "description")}},
		{"variables", `size: 1, zone: '"dmz"'`, `size: 2, more: '"x"'`, "", []bundle.Change{changed("a", true, "variables more, size, zone")}},
		{"the last variable", `variables: {size: 1, zone: '"dmz"'}`, `variables: {}`, "", []bundle.Change{changed("a", true, "variables size, zone")}},
		{"a condition", "[web]", "[api]", "", []bundle.Change{changed("a", true, "condition")}},
		{"a provider", "server: y", "server: z", "", []bundle.Change{changed("b", true, "provider dns")}},
		{"a provider's version", "~> 6.0", "~> 7.0", "", []bundle.Change{changed("a", true, "provider aws")}},
		{"the backend", "key: k", "key: l", "", []bundle.Change{changed("a", true, "backend"), changed("b", true, "backend"), changed("c", false, "backend")}},
		{"the engine", "version: 1.11.4", "engine: tofu, version: 1.11.4", "", []bundle.Change{changed("a", true, "engine"), changed("b", true, "engine"), changed("c", false, "engine")}},
		{"the time limit", "description: old", "description: old\n    run_timeout: 5m", "", []bundle.Change{changed("b", false, "run_timeout")}},
		{"rules", "description: old", "description: old\n    guard: {max_removed: 5}\n    approval: always\n    window: {kind: deny, schedule: '@daily', duration: 1h}", "", []bundle.Change{changed("b", false, "guard", "approval", "window")}},
		{"a global rule", "\ntask:", "\napproval: always\ntask:", "", []bundle.Change{changed("a", false, "approval"), changed("b", false, "approval"), changed("c", false, "approval")}},
		{"two things", "[aws]\n", "[]\n    buffer_period: {min: 9s}\n", "", []bundle.Change{changed("a", true, "buffer_period", "providers")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(before, tt.from) {
				t.Fatal("the test changes nothing")
			}
			got := bundle.Diff(in(before, ""), in(strings.Replace(before, tt.from, tt.to, 1), tt.module))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	want := []bundle.Change{{Task: "a", Kind: bundle.New, Runs: true}, {Task: "b", Kind: bundle.New, Runs: true}, {Task: "c", Kind: bundle.New}}
	if diff := cmp.Diff(want, bundle.Diff(nil, in(before, ""))); diff != "" {
		t.Error(diff)
	}
}
