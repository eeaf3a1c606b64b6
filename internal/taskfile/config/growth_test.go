package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkGrowthLoad reads and validates n tasks, against a bare read of the same files.
func BenchmarkGrowthLoad(b *testing.B) {
	for name, write := range map[string]func(b *testing.B, dir string, n int){"HCL": oneHCL, "YAML": oneYAML, "files": manyFiles} {
		b.Run(name, func(b *testing.B) {
			testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
				dir := b.TempDir()
				write(b, dir, n)
				o := Options{Paths: []Path{{Name: dir, Dir: true}}, Dir: dir, Hostname: "host", Getenv: func(string) string { return "" }}
				testtools.Growth{
					Do: func() {
						if cfg, err := Load(o); err != nil || len(cfg.Tasks) != n {
							b.Fatalf("not %d tasks: %v", n, err)
						}
					},
					Bare: func() { readFiles(b, dir) },
				}.Measure(b)
			})
		})
	}
}

// BenchmarkGrowthDigest makes the digests of n tasks and of the configuration, against one of 100 tasks.
func BenchmarkGrowthDigest(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		digests := func(n int) func() {
			dir := b.TempDir()
			oneHCL(b, dir, n)
			cfg, err := Load(options(dir, "tasks.hcl"))
			if err != nil {
				b.Fatal(err)
			}
			return func() {
				cfg.Digest()
				for i := range cfg.Tasks {
					cfg.Tasks[i].Digest(cfg)
				}
			}
		}
		testtools.Growth{Do: digests(n), Bare: digests(100)}.Measure(b)
	})
}

// switchTask is the task of one switch.
func switchTask(i int) string {
	return fmt.Sprintf("task {\n  name        = \"switch-%d\"\n  description = \"ports of switch %d\"\n  module      = \"./switch\"\n  condition \"services\" {\n    names = [\"switch-%d\"]\n  }\n"+
		"  buffer_period {\n    min = \"5s\"\n    max = \"1m\"\n  }\n}\n", i, i, i)
}

func oneHCL(b *testing.B, dir string, n int) {
	var text strings.Builder
	for i := range n {
		text.WriteString(switchTask(i))
	}
	writeFile(b, dir, "tasks.hcl", text.String())
}

func oneYAML(b *testing.B, dir string, n int) {
	text := strings.Builder{}
	text.WriteString("task:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - name: switch-%d\n    description: ports of switch %d\n    module: ./switch\n    condition:\n      services: {names: [switch-%d]}\n    buffer_period: {min: 5s, max: 1m}\n", i, i, i)
	}
	writeFile(b, dir, "tasks.yaml", text.String())
}

func manyFiles(b *testing.B, dir string, n int) {
	for i := range n {
		writeFile(b, dir, fmt.Sprintf("switch-%05d.hcl", i), switchTask(i))
	}
}

func readFiles(b *testing.B, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGrowthWrong finds the tasks without an error among n tasks of which each second one has
// one, against reading n tasks without any.
func BenchmarkGrowthWrong(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		var wrong strings.Builder
		for i := range n {
			task := switchTask(i)
			if i%2 == 0 {
				task = strings.Replace(task, "services", "servces", 1)
			}
			wrong.WriteString(task)
		}
		dir, right := b.TempDir(), b.TempDir()
		writeFile(b, dir, "tasks.hcl", wrong.String())
		oneHCL(b, right, n)
		testtools.Growth{
			Do: func() {
				if cfg, err := Examine(options(dir, "tasks.hcl")); err == nil || len(cfg.Tasks) != n/2 {
					b.Fatalf("not %d tasks without an error: %v", n/2, err)
				}
			},
			Bare: func() {
				if _, err := Load(options(right, "tasks.hcl")); err != nil {
					b.Fatal(err)
				}
			},
			Most: 5,
		}.Measure(b)
	})
}

// BenchmarkGrowthWith adds n tasks that were made through the API, against parsing as many alone.
func BenchmarkGrowthWith(b *testing.B) {
	testtools.Grow(b, "tasks", testtools.GrowthTasks, func(b *testing.B, n int) {
		cfg := &Config{WorkingDir: "sync-tasks"}
		changes := make([]Change, n)
		for i := range changes {
			name := fmt.Sprintf("switch-%d", i)
			changes[i] = Change{Task: name, Definition: fmt.Appendf(nil, `{"name":%q,"module":"./switch","condition":{"services":{"names":[%q]}}}`, name, name)}
		}
		testtools.Growth{
			Do: func() {
				if with, problems := cfg.With(changes); len(with.Tasks) != n || len(problems) > 0 {
					b.Fatalf("%d tasks: %v", len(with.Tasks), problems)
				}
			},
			Bare: func() {
				for _, c := range changes {
					if _, err := cfg.Parse(c.Definition); err != nil {
						b.Fatal(err)
					}
				}
			},
			Most: 5,
		}.Measure(b)
	})
}
