//go:build !windows

package terraformcli

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestSweep_RemovesOnlyAbandonedDirectories(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	old := time.Now().Add(-2 * abandonedAfter)
	stay := map[string]bool{}
	// age makes a directory look unchanged for a long time.
	age := func(dir string, stays bool) {
		t.Helper()
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
		stay[dir] = stays
	}
	// leave makes what a killed process leaves.
	leave := func(name string) string {
		dir := filepath.Join(temp, name)
		write(t, filepath.Join(dir, scratchMark), "")
		write(t, filepath.Join(dir, "plugin123"), "")
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}

	age(leave("terrapulse-123"), false)
	inspection := leave("terrapulse-inspect-123")
	elsewhere := filepath.Join(t.TempDir(), "of-a-person")
	write(t, filepath.Join(elsewhere, "file"), "")
	if err := os.Symlink(elsewhere, filepath.Join(inspection, "link")); err != nil {
		t.Fatal(err)
	}
	stay[elsewhere] = true
	age(inspection, false)

	inUse, remove, err := scratch("")
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	age(inUse, true)
	stay[leave("terrapulse-young")] = true
	unmarked := leave("terrapulse-backup")
	if err := os.Remove(filepath.Join(unmarked, scratchMark)); err != nil {
		t.Fatal(err)
	}
	age(unmarked, true)
	age(leave("something-else"), true)
	open := leave("terrapulse-open-to-others")
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	age(open, true)
	linked := leave("linked")
	age(linked, true)
	link := filepath.Join(temp, "terrapulse-link")
	if err := os.Symlink(linked, link); err != nil {
		t.Fatal(err)
	}
	stay[link] = true
	if os.Geteuid() == 0 {
		of := leave("terrapulse-of-somebody-else")
		if err := os.Chown(of, 12345, -1); err != nil {
			t.Fatal(err)
		}
		age(of, true)
	}

	Sweep(slog.New(slog.DiscardHandler))
	for dir, stays := range stay {
		if _, err := os.Lstat(dir); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", filepath.Base(dir), err == nil, stays)
		}
	}
	remove()
	if _, err := os.Lstat(inUse); err == nil {
		t.Error("a directory that was used is left behind")
	}
}

// The directory is free as soon as its process has died, although a process
// that it started lives on.
func TestSweep_ChildProcessesDoNotKeepDirectories(t *testing.T) {
	if dir := os.Getenv("TEST_HOLD_IN"); dir != "" {
		t.Setenv("TMPDIR", dir)
		_, _, err := scratch("")
		_, _, err2 := serve([]byte("a secret"), nil)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		child := exec.Command("sleep", "60")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "child.tmp"), strconv.Itoa(child.Process.Pid))
		if err := os.Rename(filepath.Join(dir, "child.tmp"), filepath.Join(dir, "child")); err != nil {
			t.Fatal(err)
		}
		select {} // until killed
	}
	temp := t.TempDir()
	self := exec.Command(os.Args[0], "-test.run=^TestSweep_ChildProcessesDoNotKeepDirectories$")
	self.Env = append(os.Environ(), "TEST_HOLD_IN="+temp)
	if err := self.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the other process has its directory", func() bool { return exists(filepath.Join(temp, "child")) })
	child, err := strconv.Atoi(read(t, filepath.Join(temp, "child")))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(child, syscall.SIGKILL)
	dirs, err := filepath.Glob(filepath.Join(temp, scratchPrefix+"*"))
	if err != nil || len(dirs) != 2 {
		t.Fatal(dirs, err)
	}
	old := time.Now().Add(-2 * abandonedAfter)
	for _, dir := range dirs {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", temp)
	Sweep(slog.New(slog.DiscardHandler))
	if !exists(dirs[0]) || !exists(dirs[1]) {
		t.Fatal("a directory of a living process was removed")
	}
	if err := self.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = self.Wait() // it was killed
	Sweep(slog.New(slog.DiscardHandler))
	if exists(dirs[0]) || exists(dirs[1]) {
		t.Error("a directory of a killed process stays")
	}
}
