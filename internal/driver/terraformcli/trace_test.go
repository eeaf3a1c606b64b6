package terraformcli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/redact"
)

func TestPersistLog_TraceHasNoSecrets(t *testing.T) {
	f := newFixture(t, fileModule)
	const secret = "env-secret-value"
	d := f.open(func(o *Options) {
		o.PersistLog = true
		o.Env = map[string]string{"AWS_SECRET": secret}
	})
	// Terraform traces the path from which it reads a module.
	f.task.Module = filepath.Join(t.TempDir(), secret)
	write(t, filepath.Join(f.task.Module, "main.tf"), fileModule)
	f.render("api")
	f.init(d, true)
	f.apply(d)
	got := read(t, filepath.Join(f.dir, traceFile))
	for _, want := range []string{"[TRACE]", "CLI command args: []string{\"init\"", "CLI command args: []string{\"apply\"", redact.Redacted} {
		if !strings.Contains(got, want) {
			t.Errorf("the trace of %d bytes lacks %q", len(got), want)
		}
	}
	if strings.Contains(got, secret) {
		t.Error("the trace holds a secret")
	}
	if !strings.HasSuffix(got, "\n") {
		t.Errorf("the trace ends in %q", got[max(0, len(got)-80):])
	}
	if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
		t.Errorf("left in the temporary directory: %v", left)
	}

	// Without it, nothing is added.
	f.apply(f.open())
	if again := read(t, filepath.Join(f.dir, traceFile)); again != got {
		t.Error("a trace was written that nobody has asked for")
	}
}

func TestPersistLog_TraceIsRotatedAtItsLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), traceFile)
	line := strings.Repeat("x", 99) + "\n"
	for run := range 5 { // each continues what the earlier runs have written
		r := &rotating{path: path, limit: 1000}
		for n := range 7 {
			if _, err := fmt.Fprintf(r, "%d.%d %s", run, n, line[4:]); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// 35 lines of 100 bytes: the latest 15 are left, in whole files.
	now, before := read(t, path), read(t, path+".1")
	if !strings.HasPrefix(before, "2.6 ") || !strings.HasPrefix(now, "4.2 ") || len(before) != 1000 || len(now) != 500 {
		t.Errorf("%d bytes from %.4q and %d from %.4q are left", len(before), before, len(now), now)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 2 {
		t.Errorf("the directory holds %v", entries)
	}

	// A file that is longer than the limit already is moved away at once.
	write(t, path, strings.Repeat(line, 30))
	r := &rotating{path: path, limit: 1000}
	if _, err := io.WriteString(r, "new\n"); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if now := read(t, path); now != "new\n" || len(read(t, path+".1")) != 3000 {
		t.Errorf("the file holds %.20q", now)
	}
}

func TestPersistLog_UnwritableTraceDoesNotStopRun(t *testing.T) {
	f := newFixture(t, fileModule)
	if err := os.Mkdir(filepath.Join(f.dir, traceFile), 0o755); err != nil {
		t.Fatal(err)
	}
	d := f.open(func(o *Options) { o.PersistLog = true })
	f.init(d, true)
	f.apply(d)
}

func TestTrace_OnlyThisUserReadsIt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	path := filepath.Join(t.TempDir(), traceFile)
	if err := os.WriteFile(path, []byte("of an earlier program\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one that is there, and a new one
		r := rotating{path: path, limit: 10}
		if _, err := r.Write([]byte("a line\n")); err != nil {
			t.Fatal(err)
		}
		r.Close()
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}
