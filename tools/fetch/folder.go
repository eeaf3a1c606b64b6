package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// getFolder installs a tool that is a folder of files, and its programs in .tools/bin.
func (f *fetcher) getFolder(ctx context.Context, t tool) error {
	cached, err := f.cachedFolder(t)
	if err != nil {
		return err
	}
	err = f.cacheOnce(cached, t.proof, func(work string) (string, error) {
		fresh := filepath.Join(work, t.name)
		return fresh, t.fill(f, ctx, t, fresh)
	})
	if err != nil {
		return err
	}
	if err := f.place(t, cached, filepath.Join(f.top, ".tools", t.name)); err != nil {
		return err
	}
	for name, script := range t.scripts {
		// Called with Python, because scripts contain the name of the folder in which they were
		// installed.
		quoted := strings.ReplaceAll(cached, "'", `'\''`)
		text := fmt.Sprintf("#!/bin/sh\nexec '%s/bin/python' '%s/%s' \"$@\"\n", quoted, quoted, script)
		if err := f.writeFile(filepath.Join(f.top, ".tools", "bin", name), text, 0o755); err != nil {
			return err
		}
	}
	if t.program == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(cached, t.program))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%s holds %d files %s, want one", cached, len(found), t.program)
	}
	return f.place(t, found[0], filepath.Join(f.top, ".tools", "bin", t.as))
}

// cachedFolder returns the folder's path in the cache. Its name changes with the pinned versions.
func (f *fetcher) cachedFolder(t tool) (string, error) {
	pinned, err := os.ReadFile(f.pinned(t))
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(pinned)
	return filepath.Join(f.cache, fmt.Sprintf("%s_%x_%s_%s", t.name, digest[:6], runtime.GOOS, runtime.GOARCH)), nil
}

func (f *fetcher) pinned(t tool) string { return filepath.Join(f.top, filepath.FromSlash(t.pin)) }

// maven copies the libraries of the tool's pom.xml and their dependencies.
func (f *fetcher) maven(ctx context.Context, t tool, dir string) error {
	if _, err := f.find("java", "Java 17 or newer, which runs it (Debian: openjdk-17-jre-headless)"); err != nil {
		return err
	}
	mvn, err := f.find("mvn", "Maven, which downloads it (Debian: maven)")
	if err != nil {
		return err
	}
	f.printf("%s: downloading with Maven, 46 MB", t.name)
	return command(ctx, exec.CommandContext(ctx, mvn, "--quiet", "--batch-mode", "--file", f.pinned(t),
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir))
}

// virtualEnvironment installs the tool's requirements.txt for Python.
func (f *fetcher) virtualEnvironment(ctx context.Context, t tool, dir string) error {
	python, err := f.find("python3", "Python 3.11 or newer with its module venv (Debian: python3 python3-venv)")
	if err != nil {
		return err
	}
	if err := command(ctx, exec.CommandContext(ctx, python, "-c", "import sys; sys.exit(sys.version_info < (3, 11) and "+
		"'Python 3.11 or newer is needed, this is ' + sys.version)")); err != nil {
		return err
	}
	f.printf("%s: installing %s with pip: up to a minute and 400 MB", t.name, t.pin)
	if err := command(ctx, exec.CommandContext(ctx, python, "-m", "venv", dir)); err != nil {
		return fmt.Errorf("%w\nPython needs its module venv (Debian: python3-venv)", err)
	}
	return command(ctx, exec.CommandContext(ctx, filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--quiet", "--no-input",
		"--disable-pip-version-check", "--requirement", f.pinned(t)))
}

// find returns the path of an installed program; the error says what to
// install.
func (f *fetcher) find(name, what string) (string, error) {
	for program := range f.programs(name) {
		return program, nil
	}
	return "", fmt.Errorf("there is no %s on PATH: install %s", name, what)
}

// programs yields the absolute paths of all programs with a name on PATH.
func (f *fetcher) programs(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, dir := range f.path {
			if dir == "" {
				continue
			}
			program, err := exec.LookPath(filepath.Join(dir, name))
			if err == nil {
				program, err = filepath.Abs(program)
			}
			if err == nil && !yield(program) {
				return
			}
		}
	}
}

// command runs a command of the context to its end. The error contains its output.
func command(ctx context.Context, cmd *exec.Cmd) error {
	var said bytes.Buffer
	return commandTo(ctx, cmd, &said, said.Bytes)
}

// commandTo writes what the command prints to out. said returns what an error should show of it.
func commandTo(ctx context.Context, cmd *exec.Cmd, out io.Writer, said func() []byte) error {
	// An interrupt also ends the programs that it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(said()))
	}
	return nil
}
