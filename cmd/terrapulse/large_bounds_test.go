package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
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
	few := m.onceWide(s)
	took := map[int]time.Duration{}
	for _, c := range []struct {
		services int
		bound    float64 // 0 if no bare apply is measured
	}{{4_000, 0.5}, {5_000, 0}, {10_000, 0.35}, {20_000, 0}} {
		register(c.services)
		site := m.onceWide(s)
		took[c.services] = site.took
		if c.bound == 0 {
			continue
		}
		bare := filepath.Join(m.b.TempDir(), "bare")
		m.writeUngrouped(bare, few.root, site.root)
		m.terraform(bare, "init", "-input=false", "-no-color")
		plain := m.terraform(bare, "apply", "-auto-approve", "-input=false", "-no-color")
		ratio := site.took.Seconds() / plain.Seconds()
		m.row(fmt.Sprintf("-once, one task with %d services, first run, against a bare apply with one map", c.services),
			fmt.Sprintf("%.2f (%s / %s)", ratio, site.took.Round(10*time.Millisecond), plain.Round(10*time.Millisecond)),
			fmt.Sprintf("<= %.2f", c.bound), ratio <= c.bound)
	}
	growth := took[20_000].Seconds() / took[5_000].Seconds()
	m.row("-once, one task, 20,000 services against 5,000", fmt.Sprintf("%.1f (%s / %s)", growth,
		took[20_000].Round(10*time.Millisecond), took[5_000].Round(10*time.Millisecond)), "<= 5", growth <= 5)
}

// wide is what a first run of one task with all services left.
type wide struct {
	root string // directory of the root module
	took time.Duration
}

// onceWide runs one task with all services in a new folder.
func (m *bounds) onceWide(s *site) wide {
	m.b.Helper()
	at := *s
	at.dir = m.b.TempDir()
	at.write("wide/main.tf", wideModule)
	file := at.config(fmt.Sprintf("task {\n  name = \"wide\"\n  module = %q\n  condition \"services\" {\n    regexp = \"^svc-\"\n  }\n}\n", at.path("wide")))
	return wide{took: m.exec(&at, "-once", "-config-file", file), root: at.path("work/wide")}
}

// wideModule is a module as most are: it declares some of a service's attributes.
const wideModule = `
variable "services" {
  type = map(object({ name = string, port = number }))
}
`

var groupLine = regexp.MustCompile(`(?m)^("\d{6}" = \{|\},)\n`)

// writeUngrouped writes the root module with the values of one and the other
// files of another that has so few services that it is not grouped.
func (m *bounds) writeUngrouped(dir, few, many string) {
	m.b.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.b.Fatal(err)
	}
	for name, from := range map[string]string{"main.tf": few, "variables.tf": few, "terraform.tfvars": many} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			m.b.Fatal(err)
		}
		plain := groupLine.ReplaceAllString(string(text), "")
		if name == "terraform.tfvars" && len(plain) == len(text) {
			m.b.Fatal("the values of many services are not grouped")
		}
		if strings.Contains(plain, "merge(") {
			m.b.Fatalf("%s of few services is grouped", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(plain), 0o600); err != nil {
			m.b.Fatal(err)
		}
	}
}
