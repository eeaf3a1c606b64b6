package terraformcli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// traceFile is what PersistLog writes, in the task's directory.
const traceFile = "terraform.log"

// traceLimit bounds the trace file, in bytes. One that has grown to this size
// takes the name terraform.log.1, and the one that had it goes: a task keeps
// twice as much at most. The trace of a small apply is some 500 KB.
const traceLimit = 10 << 20

// trace has the next command write a trace, and returns what ends that. The
// trace reaches the task's directory without secrets, line by line.
func (d *Dir) trace() (end func(), err error) {
	dir, remove, err := scratch("")
	if err != nil {
		return nil, fmt.Errorf("create a directory for the trace of task %s: %w", d.opts.Task, err)
	}
	path := filepath.Join(dir, traceFile)
	to := &rotating{path: filepath.Join(d.path, traceFile), limit: traceLimit}
	lines := &lineWriter{line: func(line string) { io.WriteString(to, d.scrub.Clean(line)+"\n") }} // what cannot be written stops no run
	await, err := collect(path, lines)
	if err == nil {
		err = d.tf.SetLogPath(path)
	}
	if err != nil {
		remove()
		return nil, fmt.Errorf("have the trace of task %s written: %w", d.opts.Task, err)
	}
	return func() {
		d.tf.SetLogPath("")
		await()
		lines.flush()
		to.Close()
		remove()
	}, nil
}

// rotating appends to a file until that has reached its limit, and then begins
// a new one in its place. The old one is kept under its name with .1 behind it.
type rotating struct {
	path  string
	limit int64 // bytes
	file  *os.File
	size  int64
}

func (r *rotating) Write(p []byte) (int, error) {
	for {
		if r.file == nil {
			f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
			if err != nil {
				return 0, err
			}
			_ = f.Chmod(0o600) // Consul-Terraform-Sync's file can be read by a group
			if r.size, err = f.Seek(0, io.SeekEnd); err != nil {
				return 0, errors.Join(err, f.Close())
			}
			r.file = f
		}
		if r.size == 0 || r.size+int64(len(p)) <= r.limit {
			break
		}
		r.Close()
		r.file = nil
		if err := os.Rename(r.path, r.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

// Close does nothing if the file was not opened.
func (r *rotating) Close() error { return r.file.Close() }
