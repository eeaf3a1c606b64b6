//go:build linux

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// mount mounts a small file system at a new folder, if the tests have the right to.
func mount(t *testing.T, options string) (dir string, remount func(flags uintptr)) {
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a file system here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStore_RealFullDiskLosesNothing(t *testing.T) {
	dir, _ := mount(t, "size=400k")
	s := open(t, filepath.Join(dir, "state.db"))
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 200_000), 0o600); err != nil {
		t.Fatal(err)
	}
	kept := write(t, s, state.Create("task/a", []byte("kept")))[0]
	full(t, s, kept)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	write(t, s, state.Replace(kept, []byte("more")))
}

func TestOpen_OnAFullDisk(t *testing.T) {
	dir, _ := mount(t, "size=64k")
	ballast := filepath.Join(dir, "ballast")
	os.WriteFile(ballast, make([]byte, 1<<20), 0o600) // as much as fits
	path := filepath.Join(dir, "state.db")
	_, err := Open(t.Context(), path)
	says(t, err, "open store "+path, "space")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	// 64 KiB are too small for the store and its index together. With more space, the store can be
	// created.
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	write(t, open(t, path), state.Create("task/a", nil))
}

func TestOpen_ReportsAReadOnlyDisk(t *testing.T) {
	dir, remount := mount(t, "size=4m")
	path := filepath.Join(dir, "state.db")
	filled(t, path)
	remount(syscall.MS_RDONLY)
	refuses(t, path, "open store", "allow reading and writing of the file and its folder", "-store")
	_, err := Open(t.Context(), filepath.Join(dir, "other.db"))
	says(t, err, "create store", "other.db", "-store")
	remount(0)
	if records, err := open(t, path).List(t.Context(), "run/"); err != nil || len(records) != 100 {
		t.Errorf("after the disk could be written again: %d records, %v", len(records), err)
	}
}

func TestReadOnly_ReadsAStoreOnAReadOnlyDisk(t *testing.T) {
	dir, remount := mount(t, "size=4m")
	path := filepath.Join(dir, "state.db")
	t.Setenv("TMPDIR", t.TempDir())
	writer := open(t, path)
	rec := write(t, writer, state.Create("task/a", []byte("old")))[0]
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	remount(syscall.MS_RDONLY)
	store, err := ReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if got, err := store.Get(t.Context(), "task/a"); err != nil || string(got.Value) != "old" {
		t.Errorf("read %q, %v", got.Value, err)
	}
	if _, err := store.Apply(t.Context(), state.Delete(rec)); err == nil {
		t.Error("it was written")
	}

	// Another process may write now, here or on another machine.
	remount(0)
	writer = open(t, path)
	rec, err = writer.Get(t.Context(), "task/a")
	if err != nil {
		t.Fatal(err)
	}
	write(t, writer, state.Replace(rec, []byte("new")))
	if got, err := store.List(t.Context(), "task/"); err != nil || len(got) != 1 || string(got[0].Value) != "new" {
		t.Errorf("after a change read %v, %v", got, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("copies are left: %v, %v", left, err)
	}
}
