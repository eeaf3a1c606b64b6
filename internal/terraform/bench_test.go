package terraform

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
