package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
)

// large compares -once with thousands of services to a bare apply of the same
// root module, written as it is for few services: as one map. It also measures
// how the time grows with the number of services.
func (m *bounds) large() {
	s := newSite(m.b)
	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprintf("svc-%05d", i)
	}
	registered := 0
	register := func(n int) {
		registerAll(m.b, s.consul, names[registered:n])
		registered = n
	}

	register(1)
	few := m.onceWide(s, wideModule)
	// A module with this declaration needs every attribute, as most modules do
	// that were written for CTS.
	whole, err := os.ReadFile(filepath.Join(few.root, rootmodule.VariablesFile))
	if err != nil {
		m.b.Fatal(err)
	}
	wholeModule := string(whole)
	took := map[int]time.Duration{}
	for _, c := range []struct {
		services int
		module   string
		bound    limits // zero if no bare apply is measured
	}{{4_000, wideModule, limits{0.3, 0.3}}, {4_000, wholeModule, limits{0.5, 0.5}}, {5_000, wideModule, limits{}},
		{10_000, wideModule, limits{0.35, 0.35}}, {10_000, wholeModule, limits{0.35, 0.35}}, {20_000, wideModule, limits{}}} {
		if c.services > registered {
			register(c.services)
		}
		rounds := 1
		if c.services == 4_000 { // seconds, which differ by a tenth between runs
			rounds = 3
		}
		var ours, bare durations
		for range rounds {
			site := m.onceWide(s, c.module)
			took[c.services] = site.took
			ours.add(site.took, m.cpu)
			if c.bound == (limits{}) {
				continue
			}
			root := filepath.Join(m.b.TempDir(), "bare")
			m.writeUngrouped(root, few.root, site.file, c.module)
			m.terraform(root, "init", "-input=false", "-no-color")
			bare.add(m.terraform(root, "apply", "-auto-approve", "-input=false", "-no-color"), m.cpu)
		}
		if c.bound == (limits{}) {
			continue
		}
		declares := "2 attributes"
		if c.module == wholeModule {
			declares = "all attributes"
		}
		what := fmt.Sprintf("-once, %d services, module declares %s, against a bare apply with one map", c.services, declares)
		m.against(what, ours.took, bare.took, c.bound.time)
		m.against(what+": CPU time", ours.cpu, bare.cpu, c.bound.cpu)
	}
	growth := took[20_000].Seconds() / took[5_000].Seconds()
	m.row("-once, one task, 20,000 services against 5,000", fmt.Sprintf("%.1f (%s / %s)", growth,
		took[20_000].Round(10*time.Millisecond), took[5_000].Round(10*time.Millisecond)), "<= 5", growth <= 5)
}

// wide is what a first run of one task with all services left.
type wide struct {
	root string // directory of the root module
	file string // task file
	took time.Duration
}

// onceWide runs one task with this module and all services in a new folder.
func (m *bounds) onceWide(s *site, module string) wide {
	m.b.Helper()
	at := *s
	at.dir = m.b.TempDir()
	at.write("wide/main.tf", module)
	file := at.config(fmt.Sprintf("task {\n  name = \"wide\"\n  module = %q\n  condition \"services\" {\n    regexp = \"^svc-\"\n  }\n}\n", at.path("wide")))
	return wide{took: m.exec(&at, "-once", "-config-file", file), root: at.path("work/wide"), file: file}
}

// wideModule declares some of a service's attributes.
const wideModule = `
variable "services" {
  type = map(object({ name = string, port = number }))
}
`

var groupLine = regexp.MustCompile(`(?m)^("\d{6}" = \{|\},)\n`)

// writeUngrouped writes the root module of the task in the file as one map, with
// the files of another root module that has too few services to be grouped.
func (m *bounds) writeUngrouped(dir, few, file, module string) {
	m.b.Helper()
	cfg := m.load(file)
	client, err := consul.New(cfg.Consul)
	if err != nil {
		m.b.Fatal(err)
	}
	snap, err := client.Snapshot(m.b.Context(), &cfg.Tasks[0])
	if err != nil {
		m.b.Fatal(err)
	}
	if _, err := (rootmodule.Module{Config: cfg, Task: &cfg.Tasks[0], Blocks: snap.Blocks}).Write(dir); err != nil {
		m.b.Fatal(err)
	}
	for name, from := range map[string]string{rootmodule.MainFile: few, rootmodule.VariablesFile: few, rootmodule.ValuesFile: dir} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			m.b.Fatal(err)
		}
		plain := groupLine.ReplaceAll(text, nil)
		if grouped := len(plain) < len(text) || bytes.Contains(text, []byte("merge(")); grouped != (from == dir) {
			m.b.Fatalf("%s: grouped is %v", filepath.Join(from, name), grouped)
		}
		if name == rootmodule.MainFile { // the other one's module is elsewhere
			plain = regexp.MustCompile(`source( +)= ".*"`).ReplaceAll(plain, []byte(`source$1= "./module"`))
		}
		if err := os.WriteFile(filepath.Join(dir, name), plain, 0o600); err != nil {
			m.b.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "module"), 0o755); err != nil {
		m.b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "module", "main.tf"), []byte(module), 0o600); err != nil {
		m.b.Fatal(err)
	}
}
