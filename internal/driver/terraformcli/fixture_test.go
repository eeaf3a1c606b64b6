package terraformcli

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
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
	tokens string // file with what watched providers have read as Consul's token
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
	var instances condition.Instances
	for _, name := range services {
		instances = append(instances, condition.Service{ID: name, Name: name})
	}
	block := consul.Block{Variable: "services", Entries: instances}
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

func (f *fixture) apply(d *Dir) state.Changes {
	f.t.Helper()
	s, err := d.Apply(f.t.Context())
	if err != nil {
		f.t.Fatalf("%v\n%s", err, f.log.String())
	}
	return *s
}

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
