package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// progressEvery is the interval at which a build that takes long says that it goes on.
const progressEvery = 20 * time.Second

var downloads = regexp.MustCompile(`(?m)^go: downloading .*\n`)

// build compiles the tool into work and returns the program's path.
func (f *fetcher) build(ctx context.Context, t tool, work string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags", "-s -w "+t.ldflags)
	if t.module != "" {
		cmd.Dir = filepath.Join(f.top, filepath.FromSlash(t.module))
		cmd.Args = append(cmd.Args, t.pkg)
	} else {
		cmd.Dir = work
		cmd.Args = append(cmd.Args, t.pkg+"@"+t.at)
	}
	// The tools run on this machine, whatever target the environment sets.
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)

	f.printf("%s: building %s", t.name, t.version)
	start, ended := time.Now(), make(chan error, 1)
	go func() { ended <- command(ctx, cmd) }()
	for {
		select {
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s\nThe Go module proxy must be reachable (see `go env GOPROXY`)", downloads.ReplaceAllString(err.Error(), ""))
			}
			return filepath.Join(work, path.Base(t.pkg)+exe()), err
		case <-time.After(progressEvery):
			f.printf("%s: still building after %s", t.name, time.Since(start).Round(time.Second))
		}
	}
}
