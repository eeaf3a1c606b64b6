package terraformcli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkApply compares an apply without changes with the bare command.
func BenchmarkApply(b *testing.B) {
	f := newFixture(b, fileModule)
	f.init(f.open(), true)
	f.apply(f.open())
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			f.bare("apply", "-no-color", "-auto-approve", "-input=false")
		}
	})
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			d := f.open()
			f.init(d, false)
			f.apply(d)
		}
	})
}

// BenchmarkFirstRun compares an init and an apply in a new directory with the
// bare commands.
func BenchmarkFirstRun(b *testing.B) {
	f := newFixture(b, fileModule)
	again := func(b *testing.B) {
		for _, name := range []string{".terraform", lockFile, "terraform.tfstate", "terraform.tfstate.d"} {
			if err := os.RemoveAll(filepath.Join(f.dir, name)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			again(b)
			f.bare("init", "-no-color", "-input=false")
			f.bare("apply", "-no-color", "-auto-approve", "-input=false")
		}
	})
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			again(b)
			d := f.open()
			f.init(d, true)
			f.apply(d)
		}
	})
}

func (f *fixture) bare(args ...string) {
	f.t.Helper()
	cmd := exec.Command(f.bin.Path, args...)
	cmd.Dir = f.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// BenchmarkApplyJudged compares a judged apply with an apply in one step. They take
// turns, so that other work of the machine delays both. For a single small resource,
// nearly half of the time is the start of Terraform and its provider, which a judged
// apply needs twice: that has no bound.
func BenchmarkApplyJudged(b *testing.B) {
	for _, c := range []struct {
		name    string
		module  string
		changes bool
		bound   float64 // of the ratio; 0 for none
	}{
		{"1_resource", fileModule, true, 0},
		{"1_resource_without_changes", fileModule, false, 1.35},
		{"50_resources", filesModule, true, 1.35},
		{"50_resources_with_slow_refresh", filesModule + slowData(b), true, 1.35},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := newFixture(b, c.module)
			f.init(f.open(), true)
			f.apply(f.open())
			renders := 0
			timed := func(apply func(*Dir) error) time.Duration {
				if c.changes {
					renders++
					f.render(fmt.Sprint("x", renders))
				}
				began := time.Now()
				if err := apply(f.open()); err != nil {
					b.Fatalf("%v\n%s", err, f.log.String())
				}
				return time.Since(began)
			}
			var direct, guarded []time.Duration
			for b.Loop() {
				for range 9 {
					direct = append(direct, timed(func(d *Dir) error { _, err := d.Apply(b.Context()); return err }))
					guarded = append(guarded, timed(func(d *Dir) error { _, err := d.ApplyJudged(b.Context(), (&judged{}).judge); return err }))
				}
			}
			slices.Sort(direct)
			slices.Sort(guarded)
			one, two := direct[len(direct)/2], guarded[len(guarded)/2]
			ratio := two.Seconds() / one.Seconds()
			b.ReportMetric(float64(one.Milliseconds()), "ms-direct")
			b.ReportMetric(float64(two.Milliseconds()), "ms-judged")
			b.ReportMetric(ratio, "ratio")
			if c.bound > 0 && ratio > c.bound {
				b.Errorf("a judged apply takes %.2f times an apply in one step, bound %.2f", ratio, c.bound)
			}
		})
	}
}

// filesModule has 50 resources, of which 5 change with the services.
const filesModule = `
variable "services" {}
locals {
  names = join(",", sort([for s in var.services : s.name]))
}
resource "local_file" "file" {
  count    = 50
  filename = "${path.module}/${count.index}.txt"
  content  = count.index < 5 ? local.names : "the same"
}
`

// slowData has 50 data sources, each of which takes 50 ms to be read.
func slowData(b *testing.B) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond)
		fmt.Fprint(w, `{"version": 4, "serial": 1, "lineage": "slow", "outputs": {}, "resources": []}`)
	}))
	b.Cleanup(server.Close)
	return `
data "terraform_remote_state" "slow" {
  count   = 50
  backend = "http"
  config  = { address = "` + server.URL + `" }
}
`
}
