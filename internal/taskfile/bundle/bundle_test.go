package bundle_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// checkout is a folder of task files with everything that belongs into a bundle.
var checkout = map[string]string{
	"net/tasks/a.yaml": `
driver: {terraform: {backend: {s3: {bucket: states, key: net, region: eu-central-1}}}}
task:
  - name: lb
    module: ./lb
    variable_files: [lb.tfvars, ../common.tfvars]
    condition: {services: {names: [web]}}
  - name: dns
    module: ../modules/dns
    condition: {services: {names: [api]}}
  - name: far
    module: example/far/aws
    condition: {schedule: {cron: "@hourly"}}
`,
	"net/tasks/README.md":             "not a task file",
	"net/tasks/sub/other.yaml":        "task: [{name: no, module: ./no}]",
	"net/lb.tfvars":                   `size = 3`,
	"common.tfvars":                   `zone = "dmz"`,
	"net/lb/main.tf":                  `module "pool" { source = "./pool" }` + "\n" + `variable "services" {}` + "\n",
	"net/lb/templates/haproxy.tftpl":  "x",
	"net/lb/pool/main.tf":             `module "deep" { source = "../../../shared/deep" }`,
	"net/lb/run.sh":                   "#!/bin/sh\n",
	"net/lb/.terraform/providers/x":   "left",
	"net/lb/terraform.tfstate":        "left",
	"net/lb/terraform.tfstate.backup": "left",
	"net/lb/.git/HEAD":                "left",
	"net/lb/main.tf~":                 "left",
	"modules/dns/main.tf":             `module "remote" { source = "example/x/aws" }`,
	"shared/deep/main.tf":             "",
	"shared/unused/main.tf":           "",
	"net/lb/locals.tf": `locals {
  banner = file("${path.module}/../files/banner.txt")
  zone   = templatefile("${path.module}/../../shared/zones/${var.zone}.tftpl", {})
  made   = "${path.module}/../made/${var.zone}"
  # file("${path.module}/../files/old.txt")
}`,
	"net/files/banner.txt":               "hello",
	"net/files/old.txt":                  "not read",
	"shared/zones/dmz.tftpl":             "zone",
	"net/sync-tasks/lb/terraform.tfvars": "left",
}

// place writes files below a folder.
func place(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func options(dir string, paths ...string) config.Options {
	o := config.Options{
		Getenv: func(string) string { return "" }, Dir: dir, Hostname: "host",
		Now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
	}
	for _, p := range paths {
		o.Paths = append(o.Paths, config.Path{Name: p})
	}
	return o
}

func load(t testing.TB, dir string, paths ...string) *config.Config {
	t.Helper()
	cfg, err := config.Load(options(dir, paths...))
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return cfg
}

func pack(t testing.TB, cfg *config.Config) bundle.Bundle {
	t.Helper()
	b, err := bundle.Pack(cfg)
	if err != nil {
		t.Fatalf("pack: %v", err)
	}
	return b
}

// written writes files into a new folder and returns its folder net.
func written(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	place(t, dir, files)
	return filepath.Join(dir, "net")
}

// with returns the checkout with some files replaced or added; "" removes a file.
func with(changes map[string]string) map[string]string {
	files := map[string]string{}
	for name, content := range checkout {
		files[name] = content
	}
	for name, content := range changes {
		if files[name] = content; content == "" {
			delete(files, name)
		}
	}
	return files
}

func names(t testing.TB, b bundle.Bundle) []string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b.Zip), int64(len(b.Zip)))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range z.File {
		if f.Modified.Year() != 1980 {
			t.Errorf("%s is of %s", f.Name, f.Modified)
		}
		all = append(all, f.Name)
	}
	return all
}

func TestPack_ContainsOnlyWhatTheTasksNeed(t *testing.T) {
	got := names(t, pack(t, load(t, written(t, checkout), "tasks")))
	want := []string{
		".terrapulse",
		"_/files/banner.txt", "_/lb.tfvars", "_/lb/locals.tf", "_/lb/main.tf", "_/lb/pool/main.tf", "_/lb/run.sh", "_/lb/templates/haproxy.tftpl", "_/tasks/a.yaml",
		"common.tfvars", "modules/dns/main.tf", "shared/deep/main.tf", "shared/zones/dmz.tftpl",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPack_SameContentGivesTheSameBytes(t *testing.T) {
	first := pack(t, load(t, written(t, checkout), "tasks"))
	dir := t.TempDir()
	place(t, dir, checkout)
	if err := os.Rename(filepath.Join(dir, "net"), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	later := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(dir, "elsewhere", "lb", "main.tf"), later, later); err != nil {
		t.Fatal(err)
	}
	place(t, dir, map[string]string{"elsewhere/lb/.terraform/more": "left"})
	second := pack(t, load(t, filepath.Join(dir, "elsewhere"), "tasks"))
	if !bytes.Equal(first.Zip, second.Zip) || first.Digest != second.Digest {
		t.Errorf("the bundles differ:\n%q\n%q", names(t, first), names(t, second))
	}
	for what, changes := range map[string]map[string]string{
		"a module's file":    {"shared/deep/main.tf": "# changed"},
		"a variable file":    {"common.tfvars": `zone = "lan"`},
		"a name in a module": {"net/lb/run.sh": "", "net/lb/start.sh": "#!/bin/sh\n"},
	} {
		if pack(t, load(t, written(t, with(changes)), "tasks")).Digest == first.Digest {
			t.Errorf("the digest does not depend on %s", what)
		}
	}
}

func TestUnpack_BundleMeansTheSame(t *testing.T) {
	for name, paths := range map[string][]string{
		"a folder":              {"tasks"},
		"files in an order":     {"../more/z.hcl", "tasks/a.yaml", "../more/b.json"},
		"a path that is longer": {"./tasks/../tasks/a.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, with(map[string]string{
				"more/z.hcl":  "log_level = \"WARN\"\ntask {\n name = \"z\"\n module = \"./lb\"\n condition \"services\" { names = [\"x\"] }\n}\n",
				"more/b.json": `{"log_level": "ERR"}`,
			}))
			before := load(t, dir, paths...)
			b := pack(t, before)
			from, files, err := bundle.Unpack(b.Zip, filepath.Join(t.TempDir(), "of", "its own"))
			if err != nil {
				t.Fatal(err)
			}
			after := load(t, from, files...)
			if before.Digest() != after.Digest() || before.LogLevel != after.LogLevel || len(before.Tasks) != len(after.Tasks) {
				t.Errorf("the configuration differs: %+v\n%+v", before, after)
			}
			for i := range after.Tasks {
				if was, is := before.Tasks[i].Digest(before), after.Tasks[i].Digest(after); was != is {
					t.Errorf("the digest of task %s differs", after.Tasks[i].Name)
				}
			}
			if again := pack(t, after); again.Digest != b.Digest {
				t.Errorf("packed again it is another bundle: %q, was %q", names(t, again), names(t, b))
			}
		})
	}
}

// A function and a container unpack into different folders.
func TestLoad_MeansTheSameInEveryFolder(t *testing.T) {
	b := pack(t, load(t, written(t, checkout), "tasks"))
	in := func(b bundle.Bundle) *config.Config {
		cfg, err := bundle.Load(b.Zip, filepath.Join(t.TempDir(), "x"), options("/elsewhere"))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	function, container := in(b), in(b)
	if function.Digest() != container.Digest() {
		t.Error("the digests differ")
	}
	for i := range container.Tasks {
		task := &container.Tasks[i]
		if want := filepath.Join("sync-tasks", task.Name); task.WorkingDir != want {
			t.Errorf("task %s works in %s", task.Name, task.WorkingDir)
		}
		if !task.LocalModule() {
			continue
		}
		if _, err := os.Stat(filepath.Join(task.Module, "main.tf")); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(container.Tasks[0].Module, "run.sh"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o100 == 0 {
		t.Errorf("the script cannot be executed: %v %v", info, err)
	}

	changed := in(pack(t, load(t, written(t, with(map[string]string{"shared/deep/main.tf": "# changed"})), "tasks")))
	for i, differs := range []bool{true, false, false} {
		if got := changed.Tasks[i].Digest(changed) != function.Tasks[i].Digest(function); got != differs {
			t.Errorf("the digest of task %s changed: %v", changed.Tasks[i].Name, got)
		}
	}
}

func TestLoad_IgnoresWorkingDirectories(t *testing.T) {
	dir := written(t, map[string]string{"net/t.yaml": "working_dir: /var/lib/x\ntask: [{name: a, module: x/y/z, working_dir: ../out}, {name: b, module: x/y/z}]\n"})
	cfg, err := bundle.Load(pack(t, load(t, dir, "t.yaml")).Zip, t.TempDir(), options(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range cfg.Tasks {
		if want := filepath.Join("sync-tasks", task.Name); task.WorkingDir != want {
			t.Errorf("task %s works in %s", task.Name, task.WorkingDir)
		}
	}
}

func TestPack_RefusalsSayWhy(t *testing.T) {
	const aTask = "task:\n  - name: lb\n    module: ./lb\n"
	tests := []struct {
		name  string
		files map[string]string
		link  [2]string // name and target of a symbolic link
		want  []string
	}{
		{"an absolute module", map[string]string{"tasks/a.yaml": "task:\n  - name: lb\n    module: /opt/lb\n"}, [2]string{},
			[]string{"tasks/a.yaml:2", "task lb", "/opt/lb is an absolute path"}},
		{"an absolute variable file", map[string]string{"tasks/a.yaml": aTask + "    variable_files: [DIR/v.tfvars]\n", "v.tfvars": "a = 1"}, [2]string{},
			[]string{"tasks/a.yaml:2", "v.tfvars is an absolute path"}},
		{"a module that calls an absolute one", map[string]string{"lb/main.tf": "\nmodule \"x\" {\n source = \"/opt/x\"\n}"}, [2]string{},
			[]string{"main.tf:2", "module x", "/opt/x is an absolute path"}},
		{"a module that calls one that is not there", map[string]string{"lb/main.tf": `module "x" { source = "./x" }`}, [2]string{},
			[]string{"main.tf:1", "there is no module in ./x"}},
		{"a module that cannot be parsed", map[string]string{"lb/main.tf": "\n\nmodule {"}, [2]string{}, []string{"main.tf:3"}},
		{"a way out and back in by name", map[string]string{"tasks/a.yaml": "task:\n  - name: lb\n    module: ../net/lb\n"}, [2]string{},
			[]string{"../net/lb leads out of the folder", "write ./lb"}},
		{"the same in a module", map[string]string{"lb/main.tf": `module "x" { source = "../../net/pool" }`, "pool/main.tf": ""}, [2]string{},
			[]string{"main.tf:1", "write ./pool"}},
		{"a module that reads far outside", map[string]string{"lb/main.tf": "\nlocals { x = file(\"${path.module}/../../secret\") }", "../secret": "x"}, [2]string{},
			[]string{"main.tf:2", "../../secret is outside of the folders that the task files name"}},
		{"a link out of the module", map[string]string{"../passwd": "x"}, [2]string{"lb/passwd", "../../passwd"},
			[]string{"passwd is a symbolic link to", "put a copy in its place"}},
		{"a link that leads nowhere", nil, [2]string{"lb/gone", "nowhere"}, []string{"gone is a symbolic link to a missing file"}},
		{"a link to a folder above", nil, [2]string{"lb/pool", "../lb"}, []string{"a symbolic link to a parent folder"}},
		{"too many bytes", map[string]string{"lb/big": strings.Repeat("x", 21<<20)}, [2]string{}, []string{"big", "more than 20 MB"}},
		{"a name that is kept", map[string]string{"tasks/a.yaml": "task:\n  - name: lb\n    module: ../_/lb\n", "../_/lb/main.tf": ""}, [2]string{}, []string{"its name is reserved"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := written(t, map[string]string{"net/tasks/a.yaml": aTask, "net/lb/main.tf": ""})
			for name, content := range tt.files {
				place(t, dir, map[string]string{name: strings.ReplaceAll(content, "DIR", dir)})
			}
			if tt.link[0] != "" {
				if err := os.Symlink(filepath.FromSlash(tt.link[1]), filepath.Join(dir, filepath.FromSlash(tt.link[0]))); err != nil {
					t.Skip(err)
				}
			}
			_, err := bundle.Pack(load(t, dir, "tasks"))
			if err == nil {
				t.Fatal("it was packed")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("not said: %s\nin: %s", want, err)
				}
			}
		})
	}
}

func TestPack_FollowsLinksInside(t *testing.T) {
	dir := written(t, map[string]string{"net/tasks/a.yaml": "task: [{name: lb, module: ./lb}]", "net/lb/main.tf": "", "net/templates/x": "text"})
	for name, target := range map[string]string{"lb/templates": "../templates", "lb/again.tf": "main.tf"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	got := names(t, pack(t, load(t, dir, "tasks")))
	if want := []string{".terrapulse", "lb/again.tf", "lb/main.tf", "lb/templates/x", "tasks/a.yaml"}; !slices.Equal(want, got) {
		t.Errorf("the bundle holds %q", got)
	}
}

// hostile returns a zip with these entries.
func hostile(t *testing.T, headers ...zip.FileHeader) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, h := range headers {
		w, err := z.CreateHeader(&h)
		if err != nil {
			t.Fatal(err)
		}
		content := h.Comment
		h.Comment = ""
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestUnpack_RefusesOtherZips(t *testing.T) {
	manifest := zip.FileHeader{Name: ".terrapulse", Comment: `{"format": 1, "dir": ".", "files": ["a.yaml"]}`}
	link := zip.FileHeader{Name: "link", Comment: "/etc/passwd"}
	link.SetMode(os.ModeSymlink | 0o777)
	tests := map[string][]byte{
		"no zip":              []byte("PK no zip"),
		"empty":               nil,
		"no manifest":         hostile(t, zip.FileHeader{Name: "a.yaml"}),
		"a newer format":      hostile(t, zip.FileHeader{Name: ".terrapulse", Comment: `{"format": 2}`}),
		"junk for a manifest": hostile(t, zip.FileHeader{Name: ".terrapulse", Comment: `[]`}),
		"a way out":           hostile(t, manifest, zip.FileHeader{Name: "../out"}),
		"a hidden way out":    hostile(t, manifest, zip.FileHeader{Name: "a/../../out"}),
		"an absolute name":    hostile(t, manifest, zip.FileHeader{Name: "/tmp/out"}),
		"a link":              hostile(t, manifest, link),
		"a bomb":              hostile(t, manifest, zip.FileHeader{Name: "x", Method: zip.Deflate, Comment: strings.Repeat("0", 1<<20)}),
		"a name twice":        hostile(t, manifest, zip.FileHeader{Name: "x"}, zip.FileHeader{Name: "x"}),
		"a folder outside":    hostile(t, zip.FileHeader{Name: ".terrapulse", Comment: `{"format": 1, "dir": "../x", "files": ["a.yaml"]}`}),
		"a file outside":      hostile(t, zip.FileHeader{Name: ".terrapulse", Comment: `{"format": 1, "dir": ".", "files": ["../../etc/a.yaml"]}`}),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := bundle.Load(data, filepath.Join(dir, "in"), options(""))
			if invalid := new(bundle.InvalidError); !errors.As(err, &invalid) {
				t.Errorf("the error is %v", err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("something was unpacked: %v %v", entries, err)
			}
		})
	}
}

func TestLoad_InvalidConfigurationIsAnInvalidError(t *testing.T) {
	b := hostile(t, zip.FileHeader{Name: ".terrapulse", Comment: `{"format": 1, "dir": ".", "files": ["a.yaml"]}`},
		zip.FileHeader{Name: "a.yaml", Comment: "tasks: []"})
	_, err := bundle.Load(b, t.TempDir(), options(""))
	if invalid := new(bundle.InvalidError); !errors.As(err, &invalid) || !strings.Contains(err.Error(), `a.yaml:1: tasks: invalid key "tasks"; did you mean "task"?`) {
		t.Error(err)
	}
}

func TestUnpack_RefusesANonEmptyFolder(t *testing.T) {
	dir := written(t, checkout)
	_, _, err := bundle.Unpack(pack(t, load(t, dir, "tasks")).Zip, dir)
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Error(err)
	}
}
