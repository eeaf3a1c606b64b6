package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// place makes dst the program at src: as a link if the system allows one, else as a copy.
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

// same reports whether b is a, or place's copy of it.
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

// replace creates a new dst in .tools with create, and replaces an old one in one step.
func (f *fetcher) replace(dst string, create func(path string) error) error {
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	// A separate folder, because a link or a copy cannot replace an existing file; and not beside
	// dst, where Terraform would treat it as a part of the mirror.
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

// copyProgram copies a program with its modification time, by which same recognises it.
func copyProgram(src, dst string) error {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	if err := os.WriteFile(dst, content, 0o755); err != nil {
		return err
	}
	return os.Chtimes(dst, info.ModTime(), info.ModTime())
}
