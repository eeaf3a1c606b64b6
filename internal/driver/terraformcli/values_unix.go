//go:build !windows

package terraformcli

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// serve offers content at a path that Terraform reads as a variable file. The content
// is never on disk: the path is a named pipe in a temporary directory, and a goroutine
// writes to each reader. stop ends that and removes the path; Sweep removes the pipe
// of a killed process.
//
// A reader gets the content only if allowed, which is called with the path; others find
// an empty file. A nil allowed allows all.
func serve(content []byte, allowed func(path string) bool) (path string, stop func(), err error) {
	dir, remove, err := scratch("")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "values.tfvars.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		remove()
		return "", nil, err
	}
	var stopping atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stopping.Load() {
			pipe, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for a reader
			if err != nil {
				return
			}
			given := content
			if allowed != nil && !stopping.Load() && !allowed(path) {
				given = nil
			}
			// The next reader gets a new pipe, and not what is meant for this one.
			next := path + ".next"
			if stopping.Load() || syscall.Mkfifo(next, 0o600) != nil || os.Rename(next, path) != nil {
				pipe.Close()
				return
			}
			pipe.Write(given) // fails if the reader has closed the pipe
			pipe.Close()
		}
	}()
	return path, func() {
		stopping.Store(true)
		// Opening the pipe for reading releases the goroutine, which waits at the pipe
		// with this path: it checks stopping after each renaming.
		if r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			defer r.Close()
		}
		<-done
		remove()
	}, nil
}
