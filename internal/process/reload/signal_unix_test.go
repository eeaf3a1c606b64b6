//go:build unix

package reload

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestWatch_SIGHUP(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "tasks.hcl"), "1")
	w := byEvents(t, file)
	write(t, file, "2")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	var files []string
	for asked := false; !asked; {
		select {
		case c := <-w.C():
			asked = c.Asked
			files = append(files, c.Files...)
		case <-time.After(limit):
			t.Fatal("SIGHUP is not told")
		}
	}
	if !slices.Equal(files, []string{file}) {
		t.Errorf("files = %v", files)
	}
	// It also requests a reload if no file has changed.
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-w.C():
		if !c.Asked || len(c.Files) > 0 {
			t.Errorf("change = %+v", c)
		}
	case <-time.After(limit):
		t.Fatal("a second SIGHUP is not told")
	}
}
