package terraform

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/rootmodule"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// fixture is a task with a module of its own, on the real Terraform.
type fixture struct {
	t      testing.TB
	bin    *Binary
	cfg    *config.Config
	task   *config.Task
	module string // directory
	dir    string // of the task
	log    testtools.Output
}

// fileModule writes the services' names to a file in the module's directory.
const fileModule = `
variable "services" {}
resource "local_file" "names" {
  filename = "${path.module}/names.txt"
  content  = join(",", sort([for s in var.services : s.name]))
}
`

func newFixture(t testing.TB, module string) *fixture {
	t.Helper()
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	t.Setenv("TMPDIR", t.TempDir())
	v, err := Version(t.Context(), testtools.Terraform(t))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, bin: &Binary{Path: testtools.Terraform(t), Version: v}, module: t.TempDir(), dir: filepath.Join(t.TempDir(), "web")}
	f.cfg = &config.Config{Terraform: config.Terraform{Backend: config.Backend{Type: "local"}}}
	f.task = &config.Task{Name: "web", Module: f.module}
	f.writeModule(module)
	f.render("api")
	return f
}

func (f *fixture) writeModule(text string) {
	f.t.Helper()
	write(f.t, filepath.Join(f.module, "main.tf"), text)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// renderTo writes the root module with services of these names.
func (f *fixture) renderTo(dir string, services ...string) error {
	block := consul.Block{Variable: "services"}
	for _, name := range services {
		block.Services = append(block.Services, consul.Service{ID: name, Name: name})
	}
	_, err := rootmodule.Module{Config: f.cfg, Task: f.task, Blocks: []consul.Block{block}}.Write(dir)
	return err
}

func (f *fixture) render(services ...string) {
	f.t.Helper()
	if err := f.renderTo(f.dir, services...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) options() Options {
	return Options{Task: f.task.Name, Backend: f.cfg.Terraform.Backend, Consul: f.cfg.Consul, Log: &f.log}
}

func (f *fixture) open(change ...func(*Options)) *Dir {
	f.t.Helper()
	opts := f.options()
	for _, c := range change {
		c(&opts)
	}
	d, err := f.bin.Open(f.dir, opts)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

func (f *fixture) init(d *Dir, want bool) {
	f.t.Helper()
	ran, err := d.Init(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if ran != want {
		f.t.Errorf("init was run: %v", ran)
	}
}

func (f *fixture) apply(d *Dir) Summary {
	f.t.Helper()
	s, err := d.Apply(f.t.Context())
	if err != nil {
		f.t.Fatalf("%v\n%s", err, f.log.String())
	}
	return s
}

func (s Summary) changed() bool { return s.Add+s.Change+s.Destroy > 0 }

func isLocked(err error) bool {
	var locked *LockError
	return errors.As(err, &locked)
}

// waitFor polls until the condition holds.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute still not: %s", what)
		}
	}
}

func TestApplyMakesWhatTheModuleSaysAndTellsWhatItDid(t *testing.T) {
	f := newFixture(t, fileModule)
	d := f.open()
	f.init(d, true)
	got := f.apply(d)
	want := Summary{Add: 1, Resources: []ResourceChange{{"module.web.local_file.names", "create"}}}
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
	want = Summary{Add: 1, Destroy: 1, Resources: []ResourceChange{{"module.web.local_file.names", "replace"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Summary{}, f.apply(d)); diff != "" {
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

func TestOpenTofuTakesOverWhatTerraformHasMade(t *testing.T) {
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
	if s := f.apply(f.open()); s.changed() {
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

func TestTheStateThatCTSLeftIsFound(t *testing.T) {
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

func TestInitIsRunOnlyAfterAChangeThatItLooksAt(t *testing.T) {
	sub := "\nmodule \"sub\" {\n  source = \"./sub\"\n}\n"
	f := newFixture(t, fileModule+sub)
	write(t, filepath.Join(f.module, "sub", "main.tf"), `resource "terraform_data" "a" {}`)
	f.init(f.open(), true)
	f.apply(f.open())
	for _, c := range []struct {
		change string
		want   bool
		do     func()
	}{
		{"nothing", false, func() {}},
		{"new values", false, func() { f.render("api", "db", "web") }},
		{"a resource of the module", false, func() { f.writeModule(strings.Replace(fileModule, "names.txt", "other.txt", 1) + sub) }},
		{"a new provider of the module", true, func() {
			f.writeModule(fileModule + sub + `resource "time_static" "now" {}`)
		}},
		{"a new provider of a nested module", true, func() {
			write(t, filepath.Join(f.module, "sub", "main.tf"), `resource "time_static" "now" {}`)
		}},
		{"a version constraint", true, func() {
			write(t, filepath.Join(f.module, "versions.tf"), "terraform {\n  required_providers {\n    local = { source = \"hashicorp/local\", version = \">= 2.0\" }\n  }\n}\n")
		}},
		{"another backend", true, func() {
			f.cfg.Terraform.Backend.Body.Attributes = map[string]cty.Value{"workspace_dir": cty.StringVal("states")}
			f.render("api")
		}},
		{"another Terraform", true, func() { f.bin = &Binary{Path: f.bin.Path, Version: tested} }},
		{"the lock file", true, func() {
			path := filepath.Join(f.dir, lockFile)
			write(t, path, read(t, path)+"# by hand\n")
		}},
		{"a provider removed", true, func() {
			if err := os.RemoveAll(filepath.Join(f.dir, ".terraform", "providers")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the modules removed", true, func() {
			if err := os.RemoveAll(filepath.Join(f.dir, ".terraform", "modules")); err != nil {
				t.Fatal(err)
			}
		}},
		{"the data directory removed", true, func() {
			if err := os.RemoveAll(filepath.Join(f.dir, ".terraform")); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		c.do()
		ran, err := f.open().Init(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", c.change, err)
		}
		if ran != c.want {
			t.Errorf("%s: init was run: %v", c.change, ran)
		}
		f.apply(f.open())
	}
}

func TestAnEditOfALocalModuleIsAppliedWithoutAnInit(t *testing.T) {
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	f.apply(f.open())
	f.writeModule(strings.Replace(fileModule, `join(","`, `join("+"`, 1))
	f.render("api", "db")
	d := f.open()
	f.init(d, false)
	f.apply(d)
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api+db" {
		t.Errorf("the file says %q", got)
	}
}

// Where links cannot be made, as on Windows, Terraform copies a local module.
func TestAnEditOfALocalModuleThatTerraformHasCopiedIsApplied(t *testing.T) {
	f := newFixture(t, fileModule)
	f.init(f.open(), true)
	link := filepath.Join(f.dir, ".terraform", "modules", "web")
	if err := os.RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(link, "main.tf"), fileModule)
	f.init(f.open(), true) // the copy is new to it
	if err := os.RemoveAll(link); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(link, "main.tf"), "not what the module says any more")

	f.writeModule(strings.Replace(fileModule, `join(","`, `join("+"`, 1))
	f.render("api", "db")
	d := f.open()
	f.init(d, true)
	f.apply(d)
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api+db" {
		t.Errorf("the file says %q", got)
	}
}

func TestApplyInitialisesWhereThatProvesToBeNeeded(t *testing.T) {
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

func TestAWorkspaceThatIsGoneIsMadeAnew(t *testing.T) {
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

func TestABackendThatWantsAWorkspaceToBeCreatedFirstGetsIt(t *testing.T) {
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

func TestTheSurroundingsOfTheProcessNeverMakeATaskFail(t *testing.T) {
	for name, value := range map[string]string{
		"TF_VAR_services": "nonsense", "TF_LOG": "TRACE", "TF_LOG_PATH": "/nowhere/x", "TF_CLI_ARGS": "-bogus", "TF_CLI_ARGS_apply": "-bogus",
		"TF_WORKSPACE": "other", "TF_INPUT": "1", "TF_DATA_DIR": "elsewhere", "TF_REATTACH_PROVIDERS": "{", "TF_IN_AUTOMATION": "",
	} {
		t.Setenv(name, value)
	}
	f := newFixture(t, fileModule)
	d := f.open(func(o *Options) { o.Env = map[string]string{"SOME": "thing"} })
	f.init(d, true)
	f.apply(d)
	if got := read(t, filepath.Join(f.module, "names.txt")); got != "api" {
		t.Errorf("the file says %q", got)
	}
	if _, err := os.Stat(filepath.Join(f.dir, "terraform.tfstate.d", "web")); err != nil {
		t.Error(err)
	}
}

func TestATaskEnvThatTerraformIsNotGivenIsAnError(t *testing.T) {
	f := newFixture(t, fileModule)
	for name, want := range map[string]string{
		"TF_LOG":       "task_env of a provider of task web sets TF_LOG, which Terrapulse manages itself: remove it",
		"TF_VAR_x":     "use the task's variables",
		"TF_DATA_DIR":  "TF_DATA_DIR",
		"TF_WORKSPACE": "TF_WORKSPACE",
	} {
		opts := f.options()
		opts.Env = map[string]string{name: "secret-value"}
		_, err := f.bin.Open(f.dir, opts)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-value") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// secretModule shows what a person should not see: it is not marked sensitive.
const secretModule = `
variable "services" {}
resource "local_file" "names" {
  filename = "${path.module}/names.txt"
  content  = "${file("${path.module}/secret.txt")}"
}
`

func TestSecretsReachTerraformAndNothingElse(t *testing.T) {
	f := newFixture(t, secretModule)
	const password, env = `pass"w\ord-${x}`, "env-secret-value"
	// A provider block refers to a variable that is not in any file. The module
	// shows the same texts in its plan.
	write(t, filepath.Join(f.module, "secret.txt"), "a "+env+" b "+password+" tcp")
	write(t, filepath.Join(f.dir, "extra.tf"), `
variable "p" {}
output "seen" { value = nonsensitive(sha256(var.p.password)) }
`)
	d := f.open(func(o *Options) {
		o.Env = map[string]string{"TOKEN": env}
		o.VarJSON = []byte(`{"p": {"password": "pass\"w\\ord-${x}", "proto": "tcp", "list": [{"x": null}]}}`)
	})
	f.init(d, true)
	f.apply(d)

	log := f.log.String()
	for _, secret := range []string{password, env, `pass\"w`} {
		if strings.Contains(log, secret) {
			t.Errorf("the log shows %q:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, "a (redacted) b (redacted) tcp") {
		t.Errorf("the log does not show what was made unreadable:\n%s", log)
	}
	// sha256 of the password, by another hand: it arrived as it was.
	sum, err := exec.Command("sh", "-c", `printf '%s' 'pass"w\ord-${x}' | sha256sum`).Output()
	if err != nil {
		t.Skip("no sha256sum here")
	}
	if !strings.Contains(log, strings.Fields(string(sum))[0]) {
		t.Errorf("Terraform got another password:\n%s", log)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
	if state := read(t, filepath.Join(f.dir, ".terraform", initFile)); strings.Contains(state, "pass") {
		t.Errorf("the record of the init holds a secret: %s", state)
	}
}

// recorder is a Terraform that writes down how it was called.
func recorder(t *testing.T, then string) *Binary {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, config.EngineTerraform+exe)
	script(t, path, `
case "$1" in
version) echo '{"terraform_version": "1.5.7"}'; exit;;
esac
echo "$@" >> `+filepath.Join(dir, "argv")+`
env >> `+filepath.Join(dir, "env")+"\n"+then)
	v, err := Version(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return &Binary{Path: path, Version: v}
}

func (b *Binary) recorded(t *testing.T, name string) string {
	t.Helper()
	return read(t, filepath.Join(filepath.Dir(b.Path), name))
}

func TestTerraformIsCalledAsCTSCallsItButWithPatience(t *testing.T) {
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

func TestSecretsAreInAPipeAndNotInTheArguments(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no named pipes in its file system")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `
for a; do case "$a" in
-var-file=*) file="${a#-var-file=}"; [ -p "$file" ] && echo "pipe $(cat "$file") $(cat "$file")";;
esac; done`)
	if _, err := f.open(func(o *Options) { o.VarJSON = []byte(`{"p":"hidden-value"}`) }).Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(f.bin.recorded(t, "argv"), "hidden-value") || strings.Contains(f.bin.recorded(t, "env"), "hidden-value") {
		t.Error("the secret is in the arguments or the environment")
	}
	if got, want := f.log.String(), `pipe {"p":"(redacted)"} {"p":"(redacted)"}`; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q: the pipe can be read twice", got, want)
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}
}

func TestAnErrorOfTerraformHoldsNoSecret(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	f.bin = recorder(t, `printf '%s\n' "" "Error: refused" "" "The password hidden-value is wrong" >&2; exit 1`)
	_, err := f.open(func(o *Options) { o.VarJSON = []byte(`{"p":"hidden-value"}`) }).Apply(t.Context())
	if err == nil || strings.Contains(err.Error(), "hidden-value") || !strings.Contains(err.Error(), "The password (redacted) is wrong") {
		t.Errorf("got %v", err)
	}
}

func TestASecretThatTerraformBreaksIntoLinesIsMadeUnreadable(t *testing.T) {
	const phrase = "correct horse battery staple, which is longer than a line of Terraform, and so is broken at a space or two"
	f := newFixture(t, fmt.Sprintf("variable \"services\" {}\nresource \"local_file\" \"x\" {\n  filename = \"/proc/%s/x\"\n  content = \"\"\n}", phrase))
	d := f.open(func(o *Options) { o.Secrets = []string{phrase} })
	f.init(d, true)
	_, err := d.Apply(t.Context())
	if err == nil {
		t.Fatal("the apply has succeeded")
	}
	for where, text := range map[string]string{"the error": err.Error(), "the log": f.log.String()} {
		for _, word := range []string{"correct", "horse", "broken", "two"} {
			if strings.Contains(text, word) {
				t.Errorf("%s shows %q:\n%s", where, word, text)
			}
		}
		if !strings.Contains(text, "/proc/"+redacted) {
			t.Errorf("%s lacks what was made unreadable:\n%s", where, text)
		}
	}
}

func TestTheCredentialsOfABackendAreMadeUnreadable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	text := cty.StringVal
	f.cfg.Terraform.Backend = config.Backend{Type: "any", Body: config.Body{
		Attributes: map[string]cty.Value{
			"conn_str": text("postgres://u:pg-pass@host:1x/db"), "secret_key": text("s3-key"), "password": text("http-pass"), "access_token": text("consul-token"),
			"region": text("eu-central-1"), "secret_suffix": text("state"), "encryption_key": cty.NullVal(cty.String),
			"assume_role_with_web_identity": cty.ObjectVal(map[string]cty.Value{"web_identity_token": text("in-an-object"), "role_arn": text("arn:role")}),
		},
		Blocks: map[string][]config.Body{"auth": {{Attributes: map[string]cty.Value{"client_secret": text("in-a-block")}}}},
	}}
	const said = "in eu-central-1 of arn:role the state is at "
	f.bin = recorder(t, `echo "Error: `+said+`postgres://u:pg-pass@host:1x/db s3-key http-pass consul-token in-an-object in-a-block" >&2; exit 1`)
	_, err := f.open().Apply(t.Context())
	want := said + strings.TrimSpace(strings.Repeat(redacted+" ", 6))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if log := f.log.String(); !strings.Contains(log, want) {
		t.Errorf("the log is %s", log)
	}
}

func TestEnvironment_WithholdsWhatTheTaskDoesNotNeed(t *testing.T) {
	for name, value := range map[string]string{
		"CONSUL_HTTP_TOKEN": "consul", "CONSUL_HTTP_TOKEN_FILE": "file", "CONSUL_TOKEN": "cts", "CONSUL_HTTP_AUTH": "auth", "VAULT_TOKEN": "vault",
		"TERRAPULSE_STORE": "ours", "CONSUL_HTTP_ADDR": "address", "VAULT_ADDR": "address", "PANOS_PASSWORD": "theirs", "AWS_SESSION_TOKEN": "theirs", "TF_TOKEN_app_terraform_io": "theirs",
	} {
		t.Setenv(name, value)
	}
	always := []string{"AWS_SESSION_TOKEN", "CONSUL_HTTP_ADDR", "PANOS_PASSWORD", "TF_TOKEN_app_terraform_io", "VAULT_ADDR"}
	for _, c := range []struct{ providers, more []string }{
		{nil, nil},
		{[]string{"panos", "vault"}, []string{"VAULT_TOKEN"}},
		{[]string{"consul"}, []string{"CONSUL_HTTP_AUTH", "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE", "CONSUL_TOKEN"}},
	} {
		env, err := Options{Task: "web", Backend: config.Backend{Type: "local"}, Providers: c.providers}.environment()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for name := range env {
			if strings.HasPrefix(name, "CONSUL_") || strings.HasPrefix(name, "VAULT_") || strings.HasPrefix(name, "TERRAPULSE_") || slices.Contains(always, name) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(slices.Concat(always, c.more)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("providers %v: %s", c.providers, diff)
		}
	}
	explicit := Options{Task: "web", Env: map[string]string{"VAULT_TOKEN": "of task_env"}}
	if env, err := explicit.environment(); err != nil || env["VAULT_TOKEN"] != "of task_env" {
		t.Errorf("task_env is not handed on: %v", err)
	}
}

func TestEnvironment_WithholdsTheTokenFromABackendWithAnother(t *testing.T) {
	for _, c := range []struct {
		own       string
		providers []string
		want      string
	}{
		{"another", nil, ""},
		{"another", []string{"consul"}, "the-token"},
		{"", []string{"consul"}, "the-token"},
	} {
		body := config.Body{Attributes: map[string]cty.Value{"path": cty.StringVal("states"), "access_token": cty.StringVal(c.own)}}
		env, err := Options{Task: "web", Consul: config.Consul{Address: "consul.example:8500", Token: "the-token"},
			Backend: config.Backend{Type: "consul", Body: body}, Providers: c.providers}.environment()
		if err != nil {
			t.Fatal(err)
		}
		if got := env["CONSUL_HTTP_TOKEN"]; got != c.want {
			t.Errorf("access_token %q, providers %v: CONSUL_HTTP_TOKEN is %q, want %q", c.own, c.providers, got, c.want)
		}
	}
}

func TestDir_GivesTheTokenToAModuleThatUsesTheProvider(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	t.Setenv("CONSUL_HTTP_TOKEN", "of-consul")
	t.Setenv("VAULT_TOKEN", "of-vault")
	f := newFixture(t, fileModule)
	f.bin = recorder(t, "")
	lock := "provider \"registry.terraform.io/hashicorp/consul\" {\n  version = \"2.21.0\"\n}\n"
	if err := os.WriteFile(filepath.Join(f.dir, lockFile), []byte(lock), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open().Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	env := f.bin.recorded(t, "env")
	if !strings.Contains(env, "CONSUL_HTTP_TOKEN=of-consul\n") {
		t.Error("a module that uses the provider consul, which its task does not list, has no token")
	}
	if strings.Contains(env, "of-vault") {
		t.Error("a module that does not use the provider vault has its token")
	}
}

func TestAConsulBackendIsReachedAsTerrapulseReachesConsul(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	for _, name := range []string{"CONSUL_HTTP_ADDR", "CONSUL_HTTP_TOKEN"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", "another-token")
	f := newFixture(t, fileModule)
	f.cfg.Consul = config.Consul{Address: "consul.example:8501", Token: "the-token", Namespace: "team",
		Auth: config.BasicAuth{Enabled: true, Username: "me", Password: "pw"},
		TLS:  config.ClientTLS{Enabled: true, CACert: "ca.pem", Cert: "cert.pem", Key: "key.pem", ServerName: "name", CAPath: "cas"}}
	for backend, want := range map[string]bool{"consul": true, "local": false} {
		f.cfg.Terraform.Backend.Type = backend
		f.bin = recorder(t, "")
		if _, err := f.open(func(o *Options) { o.Env = map[string]string{"CONSUL_CACERT": "mine.pem"} }).Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		env := f.bin.recorded(t, "env")
		for _, entry := range []string{
			"CONSUL_HTTP_ADDR=consul.example:8501", "CONSUL_HTTP_AUTH=me:pw", "CONSUL_HTTP_SSL=true",
			"CONSUL_HTTP_SSL_VERIFY=false", "CONSUL_NAMESPACE=team", "CONSUL_CAPATH=cas", "CONSUL_CLIENT_CERT=cert.pem", "CONSUL_CLIENT_KEY=key.pem", "CONSUL_TLS_SERVER_NAME=name",
		} {
			if strings.Contains(env, entry+"\n") != want {
				t.Errorf("backend %s: %s is in the environment: %v", backend, entry, !want)
			}
		}
		if strings.Contains(env, "another-token") {
			t.Errorf("backend %s: a token file of the surroundings is in the environment", backend)
		}
		if piped := want && tokenPipes; strings.Contains(env, "CONSUL_HTTP_TOKEN_FILE=/") != piped || strings.Contains(env, "CONSUL_HTTP_TOKEN=the-token\n") != (want && !piped) {
			t.Errorf("backend %s: the token is not handed over as it should be", backend)
		}
		if !strings.Contains(env, "CONSUL_CACERT=mine.pem\n") {
			t.Errorf("backend %s: task_env does not count", backend)
		}
	}
}

func TestATokenOfConsulOpensTheStateOfAServerWithACLs(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	f := newFixture(t, fileModule)
	f.cfg.Consul = config.Consul{Address: server.Addr(), Token: consultest.ManagementToken}
	f.cfg.Terraform.Backend = config.Backend{Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
		"address": cty.StringVal(server.Addr()), "path": cty.StringVal("kv/terraform")}}}
	f.render("api")
	d := f.open()
	f.init(d, true)
	f.apply(d)
	pair, _, err := server.Client().KV().Get("kv/terraform-env:web", nil)
	if err != nil || pair == nil {
		t.Errorf("no state: %v, %v", pair, err)
	}
}

// slowModule takes as long as it is let, and says so.
const slowModule = `
variable "services" {}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "echo started > ${path.module}/started; exec sleep 300"
  }
}
`

func (f *fixture) started() bool {
	_, err := os.Stat(filepath.Join(f.module, "started"))
	return err == nil
}

func TestAnInterruptedTerraformIsWaitedForAndLeavesNoLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no interrupts")
	}
	f := newFixture(t, slowModule)
	d := f.open()
	f.init(d, true)
	ctx, cancel := context.WithCancelCause(t.Context())
	shutdown := errors.New("Terrapulse is shutting down")
	go func() {
		defer cancel(shutdown)
		for deadline := time.Now().Add(time.Minute); !f.started() && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	_, err := d.Apply(ctx)
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || !errors.Is(err, shutdown) {
		t.Fatalf("got %v", err)
	}
	if want := "terraform apply of task web was interrupted: Terrapulse is shutting down"; err.Error() != want {
		t.Errorf("got %q", err)
	}
	if !strings.Contains(f.log.String(), "Interrupt received") {
		t.Errorf("Terraform was not asked to end:\n%s", f.log.String())
	}
	f.writeModule(fileModule)
	f.apply(f.open(func(o *Options) { o.LockTimeout = time.Millisecond }))
}

func TestATerraformThatDoesNotEndIsKilledAfterItsGrace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	started := filepath.Join(t.TempDir(), "started")
	f.bin = recorder(t, `trap '' INT; echo > `+started+`; exec sleep 300`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(started); err == nil {
				return
			}
		}
	}()
	_, err := f.open(func(o *Options) { o.Grace = 100 * time.Millisecond }).Apply(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnApplyThatEndedWellInSpiteOfAnInterruptIsNoFailure(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, fileModule)
	started := filepath.Join(t.TempDir(), "started")
	f.bin = recorder(t, `trap 'echo "Apply complete! Resources: 1 added, 0 changed, 0 destroyed."; exit 0' INT
echo > `+started+`; while :; do sleep 0.01; done`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(started); err == nil {
				return
			}
		}
	}()
	s, err := f.open().Apply(ctx)
	if err != nil || s.Add != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestALockThatIsInUseIsNamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	f := newFixture(t, slowModule)
	holder := f.open()
	f.init(holder, true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = holder.Apply(ctx) // interrupted below
	}()
	defer func() { cancel(); <-ended }()
	waitFor(t, "the holder of the lock has started", f.started)

	_, err := f.open(func(o *Options) { o.LockTimeout = time.Millisecond }).Apply(t.Context())
	var locked *LockError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v", err)
	}
	if locked.ID == "" || locked.Who == "" || locked.Created == "" || locked.Operation != "OperationTypeApply" || locked.Path == "" {
		t.Errorf("got %+v", locked)
	}
	for _, want := range []string{"the state is locked by ", "terraform force-unlock " + locked.ID} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// The Consul backend locks a workspace when it opens it, without regard to
// -lock-timeout: the wait is ours.
func TestALockOnTheConsulBackendIsWaitedFor(t *testing.T) {
	server := consultest.Start(t)
	f := newFixture(t, fileModule)
	f.cfg.Terraform.Backend = config.Backend{Type: "consul", Body: config.Body{Attributes: map[string]cty.Value{
		"address": cty.StringVal(server.Addr()), "path": cty.StringVal("kv/terraform")}}}
	f.render("api")
	d := f.open()
	f.init(d, true)
	f.apply(d)

	client := server.Client()
	lock, err := client.LockKey("kv/terraform-env:web/.lock")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Lock(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := f.open(func(o *Options) { o.LockTimeout = time.Millisecond }).Apply(t.Context()); !isLocked(err) {
		t.Fatalf("got %v", err)
	}
	released := make(chan error, 1)
	go func() {
		// Once Terraform has been refused, which the log shows.
		for deadline := time.Now().Add(time.Minute); strings.Count(f.log.String(), "failed to lock state") < 2 && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		released <- lock.Unlock()
	}()
	f.render("api", "db")
	f.apply(f.open())
	if err := <-released; err != nil {
		t.Error(err)
	}
}

func TestErrorsOfTerraformSayWhatToDo(t *testing.T) {
	f := newFixture(t, `variable "other" {}`)
	for _, c := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"a module without services", func() {}, []string{
			`the module of task web has no variable "services": declare it (every module gets the services)`,
			"terraform apply of task web: ", "Unsupported argument"}},
		{"a module without consul_kv", func() {
			f.writeModule(`variable "services" {}`)
			f.task.Condition = config.Condition{Kind: config.KindConsulKV, UseAsModuleInput: true}
			f.render()
			write(t, filepath.Join(f.dir, "kv.auto.tfvars"), "consul_kv = {}")
		}, []string{`no variable "consul_kv": declare it, or set use_as_module_input = false in the condition of task web, or remove its module_input`}},
		{"a module without a variable of the task", func() {
			f.task.Condition = config.Condition{}
			f.task.Variables = map[string]cty.Value{"size": cty.NumberIntVal(1)}
			f.render()
		}, []string{`no variable "size": declare it, or remove it from variables`}},
		{"a variable that the task does not set", func() {
			f.writeModule("variable \"services\" {}\nvariable \"must\" {}")
			f.task.Variables = nil
			f.render()
		}, []string{`needs a value for its variable "must": set it in variables or variable_files of task web`}},
		{"a provider that nobody has", func() {
			f.writeModule("variable \"services\" {}\nresource \"nonsense_thing\" \"x\" {}")
		}, []string{"a provider cannot be fetched", "nonsense"}},
		{"a module that is not there", func() {
			f.task.Module = "/nowhere/at/all"
			f.render()
		}, []string{"the module cannot be ", "/nowhere/at/all"}},
		{"a failing apply", func() {
			f.task.Module = f.module
			f.writeModule("variable \"services\" {}\nresource \"local_file\" \"x\" {\n  filename = \"/proc/nowhere/x\"\n  content = \"\"\n}")
			f.render()
		}, []string{"terraform apply of task web: ", "/proc/nowhere"}},
	} {
		c.change()
		d := f.open()
		_, err := d.Init(t.Context())
		if err == nil {
			_, err = d.Apply(t.Context())
		}
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
		for _, bad := range []string{"exit status", "│", "╷", "\nError:"} {
			if strings.Contains(err.Error(), bad) {
				t.Errorf("%s: %q has %q", c.name, err, bad)
			}
		}
	}
}

func TestCheckModuleFindsWhatIsMissingWithoutTerraform(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.tf"), `variable "services" {}`)
	broken := t.TempDir()
	write(t, filepath.Join(broken, "a.tf"), `variable "`)
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
		{broken, []string{"services"}, nil, ""},                 // Terraform explains
		{"hashicorp/consul/aws", []string{"services"}, nil, ""}, // not here
	} {
		err := CheckModule(&config.Task{Name: "web", Module: c.module, Variables: c.vars}, c.inputs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v: got %v, want %q", c.module, c.inputs, err, c.want)
		}
	}
}
