package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// build compiles the tool into work and returns the program's path.
func (f *fetcher) build(ctx context.Context, t tool, work string) (string, error) {
	args := []string{"install", "-v", "-trimpath", "-ldflags", "-s -w " + t.ldflags}
	dir := work
	if t.module != "" {
		dir = filepath.Join(f.top, filepath.FromSlash(t.module))
		args = append(args, t.pkg)
	} else {
		args = append(args, t.pkg+"@"+t.at)
	}
	f.printf("%s: building %s", t.name, t.version)

	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// The tools run on this machine, whatever target the environment sets.
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	// An interrupt also ends the compilers that it started.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	said := f.follow(t, stderr)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("go %s: %w\n%s\nThe Go module proxy must be reachable (see `go env GOPROXY`)",
			strings.Join(args, " "), err, said)
	}
	return filepath.Join(work, path.Base(t.pkg)+exe()), nil
}

// follow reads the output of a verbose go install until it ends, and reports its progress every 20
// seconds. It returns all lines that are neither downloads nor package names: warnings and errors.
func (f *fetcher) follow(t tool, stderr io.Reader) string {
	var rest bytes.Buffer
	var downloaded, compiled int
	start := time.Now()
	next := start.Add(20 * time.Second)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20) // error messages of a linker can be long
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			downloaded++
		case !strings.ContainsAny(line, " \t"): // the name of a package
			compiled++
		default:
			rest.WriteString(line + "\n")
		}
		if now := time.Now(); now.After(next) {
			f.printf("%s: %s: %d modules downloaded, %d packages compiled",
				t.name, now.Sub(start).Round(time.Second), downloaded, compiled)
			next = now.Add(20 * time.Second)
		}
	}
	return rest.String()
}
