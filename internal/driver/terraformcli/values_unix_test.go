//go:build !windows

package terraformcli

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

func TestServe_RemovesUnreadPipe(t *testing.T) {
	for range 200 {
		path, stop, err := serve([]byte("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
			t.Fatalf("still there: %v", err)
		}
	}
}

func TestServe_EveryReaderGetsTheWholeContentOnce(t *testing.T) {
	content := bytes.Repeat([]byte("secret "), 50_000) // more than a pipe holds
	path, stop, err := serve(content, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("read %d bytes of %d, %v", len(got), len(content), err)
		}
	}
	// A reader that closes the pipe early does not block others.
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	stop()
}

func TestServe_StopDuringReadEnds(t *testing.T) {
	for range 200 {
		path, stop, err := serve([]byte("x"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			// Nonblocking: the pipe may be removed at any moment.
			if f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
				f.Close()
			}
		})
		stop()
		wg.Wait()
	}
}
