package reload

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// limit limits how long a test waits.
const limit = 20 * time.Second

// write makes or replaces a file at once: one that is half written is a change of its own.
func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next") // in no folder that is watched
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// overwrite writes one letter in place, so that the file is never half written.
func overwrite(t *testing.T, path, letter string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(letter); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// byEvents returns a watcher that compares only after events.
func byEvents(t *testing.T, paths ...string) *Watcher {
	t.Helper()
	events, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	return watch(t.Context(), slog.New(slog.DiscardHandler), pace{200 * time.Millisecond, time.Second, time.Hour}, events, paths)
}

// byPoll returns a watcher on a file system without events.
func byPoll(t *testing.T, paths ...string) *Watcher {
	return watch(t.Context(), slog.New(slog.DiscardHandler), pace{20 * time.Millisecond, time.Second, 20 * time.Millisecond}, nil, paths)
}

// expect waits until each of the files was in a change, and fails for any other file.
func expect(t *testing.T, w *Watcher, files ...string) {
	t.Helper()
	missing := slices.Clone(files)
	deadline := time.After(limit)
	for len(missing) > 0 {
		select {
		case c := <-w.C():
			for _, f := range c.Files {
				if !slices.Contains(files, f) {
					t.Errorf("a change of %s is told", f)
				}
				missing = slices.DeleteFunc(missing, func(m string) bool { return m == f })
			}
		case <-deadline:
			t.Fatalf("no change of %v is told", missing)
		}
	}
}

func TestWatch_ReportsChangedFiles(t *testing.T) {
	for name, start := range map[string]func(*testing.T, ...string) *Watcher{"by events": byEvents, "by polling": byPoll} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := write(t, filepath.Join(dir, "tasks.hcl"), "1")
			folder := filepath.Join(dir, "conf.d")
			a, b := write(t, filepath.Join(folder, "a.yaml"), "1"), write(t, filepath.Join(folder, "b.json"), "1")
			w := start(t, file, folder)

			overwrite(t, file, "2")
			expect(t, w, file)

			// This is how editors save.
			write(t, file+".tmp", "3")
			if err := os.Rename(file+".tmp", file); err != nil {
				t.Fatal(err)
			}
			expect(t, w, file)

			// The same content is not a change: the next change comes alone.
			overwrite(t, file, "3")
			write(t, filepath.Join(dir, "terrapulse.db"), "x")
			write(t, filepath.Join(folder, "notes.txt"), "x")
			write(t, a, "2")
			expect(t, w, a)

			added := write(t, filepath.Join(folder, "c.hcl"), "1")
			expect(t, w, added)
			if err := os.Remove(b); err != nil {
				t.Fatal(err)
			}
			expect(t, w, b)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			expect(t, w, file)
			write(t, file, "4")
			expect(t, w, file)
		})
	}
}

func TestWatch_KubernetesVolumeIsReplacedAtOnce(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"..1", "..2"} {
		write(t, filepath.Join(dir, version, "a.yaml"), version)
		write(t, filepath.Join(dir, version, "b.yaml"), version)
		write(t, filepath.Join(dir, version, "same.yaml"), "same")
	}
	link(t, "..1", filepath.Join(dir, "..data"))
	for _, name := range []string{"a.yaml", "b.yaml", "same.yaml"} {
		link(t, filepath.Join("..data", name), filepath.Join(dir, name))
	}
	w := byEvents(t, dir)
	file := byEvents(t, filepath.Join(dir, "b.yaml"))
	link(t, "..2", filepath.Join(dir, "..data"))
	expect(t, w, filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"))
	expect(t, file, filepath.Join(dir, "b.yaml"))
}

func TestWatch_FollowsLinks(t *testing.T) {
	dir := t.TempDir()
	target := write(t, filepath.Join(dir, "elsewhere", "tasks.hcl"), "1")
	name := filepath.Join(dir, "here", "tasks.hcl")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, target, name)
	w := byEvents(t, name)
	overwrite(t, target, "2")
	expect(t, w, name)
	other := write(t, filepath.Join(dir, "third", "tasks.hcl"), "3")
	link(t, other, name)
	expect(t, w, name)
	overwrite(t, other, "4")
	expect(t, w, name)
}

func TestWatch_ReplacedFolderIsStillWatched(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "conf.d")
	a := write(t, filepath.Join(folder, "a.yaml"), "1")
	w := byEvents(t, folder)
	next := filepath.Join(dir, "next")
	write(t, filepath.Join(next, "a.yaml"), "2")
	if err := os.Rename(folder, filepath.Join(dir, "before")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, folder); err != nil {
		t.Fatal(err)
	}
	expect(t, w, a)
	b := write(t, filepath.Join(folder, "b.yaml"), "1")
	expect(t, w, b)
}

func TestFollow_VariableFiles(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "tasks.hcl"), "1")
	began := time.Now().Add(-time.Minute)
	v1 := write(t, filepath.Join(dir, "vars", "one.tfvars"), "1")
	v2 := write(t, filepath.Join(dir, "vars", "two.tfvars"), "1")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(v2, old, old); err != nil {
		t.Fatal(err)
	}
	w := byEvents(t, file)
	// One was written after the configuration began to be read.
	w.Follow(began, v1, v2)
	expect(t, w, v1)
	write(t, v2, "2")
	expect(t, w, v2)

	w.Follow(time.Now(), v1)
	write(t, v2, "3")
	write(t, v1, "2")
	expect(t, w, v1)
}

func TestFollow_UnansweredChangeIsRepeated(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "tasks.hcl"), "1")
	w := byPoll(t, file)
	write(t, file, "one that names a variable file which is missing")
	expect(t, w, file)
	for range 3 {
		select {
		case c := <-w.C():
			if c.Asked || len(c.Files) > 0 {
				t.Errorf("change = %+v", c)
			}
		case <-time.After(limit):
			t.Fatal("it is not repeated")
		}
	}
	missing := write(t, filepath.Join(dir, "one.tfvars"), "1")
	w.Follow(time.Now().Add(time.Minute), missing)
	select {
	case c := <-w.C():
		t.Errorf("after the answer, it is repeated: %+v", c)
	case <-time.After(200 * time.Millisecond): // ten times as long as it took before
	}
	write(t, file, "2")
	expect(t, w, file)
}

func TestWatch_MergesABurstOfChanges(t *testing.T) {
	dir := t.TempDir()
	events, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t.Context(), slog.New(slog.DiscardHandler), pace{quietFor, atMost, time.Hour}, events, []string{dir})
	var files []string
	for i := range 200 {
		files = append(files, write(t, filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), "1"))
	}
	seen, changes := map[string]bool{}, 0
	deadline := time.After(limit)
	for len(seen) < len(files) {
		select {
		case c := <-w.C():
			changes++
			for _, f := range c.Files {
				seen[f] = true
			}
		case <-deadline:
			t.Fatalf("%d of %d files were told of", len(seen), len(files))
		}
	}
	if changes > 5 {
		t.Errorf("%d changes for one burst", changes)
	}
}

func TestWatch_ReportsFilesThatChangeAllTheTime(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "tasks.hcl"), "1")
	events, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t.Context(), slog.New(slog.DiscardHandler), pace{limit, 100 * time.Millisecond, time.Hour}, events, []string{file})
	deadline := time.After(limit / 2)
	for i := 0; ; i++ {
		write(t, file, fmt.Sprint(i))
		select {
		case <-w.C():
			return
		case <-deadline:
			t.Fatal("nothing is told while a file keeps changing")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestWatch_EndsCleanly(t *testing.T) {
	dir := t.TempDir()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	var watchers []*Watcher
	for range 10 {
		watchers = append(watchers, Watch(ctx, slog.New(slog.NewTextHandler(io.Discard, nil)), dir))
	}
	cancel()
	for _, w := range watchers {
		select {
		case _, open := <-w.C():
			if open {
				t.Error("a change is told after the end")
			}
		case <-time.After(limit):
			t.Fatal("the channel is still open")
		}
		w.Follow(time.Now(), dir) // must not block after the end
	}
	deadline := time.Now().Add(limit)
	for runtime.NumGoroutine() > before+1 { // os/signal keeps one
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
