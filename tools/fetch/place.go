package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// place makes dst the program at src: a link where the system allows one, else
// a copy.
func (f *fetcher) place(t tool, src, dst string) error {
	if same(src, dst) {
		return nil
	}
	err := f.replace(dst, func(path string) error {
		if os.Symlink(src, path) == nil {
			return nil
		}
		return copyProgram(src, path)
	})
	if err != nil {
		return fmt.Errorf("put %s into %s: %w", src, filepath.Dir(dst), err)
	}
	f.printf("%s: %s", t.name, src)
	return nil
}

// same reports whether b is a, or the copy that place made of it.
func same(a, b string) bool {
	ai, err := os.Stat(a)
	if err != nil {
		return false
	}
	bi, err := os.Stat(b)
	if err != nil {
		return false
	}
	return os.SameFile(ai, bi) || ai.Size() == bi.Size() && ai.ModTime().Equal(bi.ModTime())
}

// replace makes a new dst, somewhere in .tools, with create and puts it in the
// place of an old one in one step.
func (f *fetcher) replace(dst string, create func(path string) error) error {
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	// A folder of its own, because neither a link nor a copy may meet a file
	// that is already there; and not beside dst, where Terraform would take
	// it for a part of the mirror.
	work, err := os.MkdirTemp(filepath.Join(f.top, ".tools"), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fresh := filepath.Join(work, filepath.Base(dst))
	if err := create(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, dst)
}

// copyProgram copies a program with its time, by which same knows it again.
func copyProgram(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Chtimes(dst, info.ModTime(), info.ModTime())
}
