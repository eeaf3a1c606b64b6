package terraformcli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestApply_CreatesChangesAndCounts(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	f.init(d, true)
	got := f.apply(d)
	want := state.Changes{Add: 1, Resources: []state.Resource{{Address: "module.web.local_file.names", Action: "create"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api" {
		t.Errorf("the file says %q", got)
	}
	if !strings.Contains(f.log.String(), "Apply complete! Resources: 1 added") {
		t.Errorf("the log lacks Terraform's output:\n%s", f.log.String())
	}
	// Where CTS has it, and nothing in the default workspace.
	if _, err := os.Stat(filepath.Join(f.dir, "terraform.tfstate.d", "web", "terraform.tfstate")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "terraform.tfstate")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state in the default workspace: %v", err)
	}

	f.render("api", "db")
	d = f.open()
	f.init(d, false)
	got = f.apply(d)
	want = state.Changes{Add: 1, Destroy: 1, Resources: []state.Resource{{Address: "module.web.local_file.names", Action: "replace"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(state.Changes{}, f.apply(d)); diff != "" {
		t.Errorf("an apply without changes: %s", diff)
	}
}

func TestApply_LocalStateIsForThisUserAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no modes")
	}
	f := newFixture(t, dataModule)
	f.init(f.open(), true)
	state := filepath.Join(f.dir, "terraform.tfstate.d", "web", "terraform.tfstate")
	check := func(when string) {
		t.Helper()
		for path, want := range map[string]os.FileMode{filepath.Dir(state): 0o700, state: 0o600, state + ".backup": 0o600} {
			if info, err := os.Stat(path); err == nil && info.Mode().Perm() != want || err != nil && path == state {
				t.Errorf("%s: %s has mode %v: %v", when, path, info.Mode(), err)
			}
		}
	}
	f.apply(f.open())
	check("a new state")
	for path, mode := range map[string]os.FileMode{filepath.Dir(state): 0o755, state: 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	f.render("api", "db")
	f.apply(f.open())
	check("one that was there")
	if !exists(state + ".backup") {
		t.Error("there is no backup to check")
	}
}

func TestApply_OpenTofuContinuesFromTerraform(t *testing.T) {
	path := testtools.OpenTofu(t)
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	f.apply(f.open())
	v, err := Version(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if f.bin.Version.Equal(v) {
		t.Skip("Terraform's place is OpenTofu's already")
	}
	f.bin = &Binary{Path: path, Version: v}
	f.init(f.open(), true)
	if s := f.apply(f.open()); s.Any() {
		t.Errorf("OpenTofu changes %+v", s)
	}
	f.render("api", "db")
	if s := f.apply(f.open()); s.Add != 1 || s.Destroy != 1 {
		t.Errorf("OpenTofu changes %+v", s)
	}
	f.writeModule("oh no")
	if _, err := f.open().Apply(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "tofu ") {
		t.Errorf("the error is %v", err)
	}
}

func TestApply_FindsTheStateOfCTS(t *testing.T) {
	server := consultest.Start(t)
	for name, backend := range map[string]config.Backend{
		"local":           {Type: "local"},
		"local elsewhere": {Type: "local", Body: config.Body{Attributes: map[string]cty.Value{"workspace_dir": cty.StringVal("states")}}},
		"consul": {Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
			"address": cty.StringVal(server.Addr()), "path": cty.StringVal("consul-terraform-sync/terraform"), "gzip": cty.True}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, fileModule)
			f.cfg.Terraform.Backend = backend
			f.render("api")
			for _, args := range [][]string{
				{"init", "-no-color", "-force-copy", "-input=false", "-backend=true", "-get=true", "-upgrade=false"},
				{"workspace", "new", "-no-color", "web"},
				{"workspace", "select", "-no-color", "web"},
				{"validate", "-no-color", "-json"},
				{"apply", "-no-color", "-auto-approve", "-input=false", "-lock=true", "-parallelism=10", "-refresh=true"},
			} {
				cmd := exec.Command(f.bin.Path, args...)
				cmd.Dir = f.dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
			}
			f.render("api", "db")
			d := f.open()
			f.init(d, true)
			if s := f.apply(d); s.Add != 1 || s.Destroy != 1 {
				t.Errorf("the file was not replaced but %+v", s)
			}
			if backend.Type == "consul" {
				keys, _, err := server.Client().KV().Keys("", "", nil)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{"consul-terraform-sync/terraform-env:web"}, keys); diff != "" {
					t.Errorf("keys: %s", diff)
				}
			}
		})
	}
}

func TestApply_InitialisesIfTerraformRequiresIt(t *testing.T) {
	f := newFixture(t, fileModule)
	f.apply(f.open()) // no Init at all
	for name, damage := range map[string]func(){
		"a provider that was not there before": func() { f.writeModule(fileModule + `resource "time_static" "now" {}`) },
		"providers removed":                    func() { os.RemoveAll(filepath.Join(f.dir, ".terraform", "providers")) },
		"modules removed":                      func() { os.RemoveAll(filepath.Join(f.dir, ".terraform", "modules")) },
		"lock file removed":                    func() { os.Remove(filepath.Join(f.dir, lockFile)) },
		"backend changed": func() {
			f.cfg.Terraform.Backend.Body.Attributes = map[string]cty.Value{"workspace_dir": cty.StringVal("states")}
			f.render("api")
		},
	} {
		damage()
		if _, err := f.open().Apply(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestApply_CreatesADeletedWorkspace(t *testing.T) {
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	f.apply(f.open())
	// The workspace of another task is still there.
	states := filepath.Join(f.dir, "terraform.tfstate.d")
	if err := os.Rename(filepath.Join(states, "web"), filepath.Join(states, "other")); err != nil {
		t.Fatal(err)
	}
	f.task.Description = "something new, so that init is run with the workspace selected"
	f.render("api")
	d := f.open()
	f.init(d, true)
	f.apply(d)
	if _, err := os.Stat(filepath.Join(f.dir, "terraform.tfstate.d", "web", "terraform.tfstate")); err != nil {
		t.Error(err)
	}
}

func TestApply_CreatesTheWorkspaceFirstIfTheBackendRequiresIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `
case "$1" in
workspace) touch made;;
apply) [ -e made ] || { echo 'Error: workspace "web" does not exist' >&2; exit 1; };;
esac`)
	f.apply(f.open())
	argv := f.bin.recorded(t, "argv")
	if !strings.Contains(argv, "workspace new -no-color web\napply ") || strings.Count(argv, "apply") != 2 {
		t.Errorf("called:\n%s", argv)
	}
}

func TestDir_CallsTerraformAsCTSDoesWithLockTimeout(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `case "$1" in
init) mkdir -p .terraform;;
show) echo '{"format_version": "1.2"}';;
esac`)
	d := f.open()
	f.init(d, true)
	f.apply(d)
	if _, err := d.Plan(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := `init -no-color -input=false -backend=true -get=true -upgrade=false -force-copy
apply -no-color -auto-approve -input=false -lock-timeout=60s -lock=true -parallelism=10 -refresh=true
plan -no-color -input=false -detailed-exitcode -lock-timeout=60s -out=FILE -lock=true -parallelism=10 -refresh=true
show -json -no-color FILE
`
	argv := regexp.MustCompile(`/\S+/plan\b`).ReplaceAllString(f.bin.recorded(t, "argv"), "FILE")
	if diff := cmp.Diff(want, argv); diff != "" {
		t.Error(diff)
	}
	if got := read(t, filepath.Join(f.dir, ".terraform", "environment")); got != "web" {
		t.Errorf("the workspace is %q", got)
	}
}
