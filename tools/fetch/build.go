package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// progressEvery is the interval at which a build that takes long says that it goes on.
const progressEvery = 20 * time.Second

// otherConsul is the module in which another version of Consul is built. `go install` refuses
// Consul with its version, because its go.mod replaces modules. tools/consul has the same
// exclusions and replacement for the pinned version.
const otherConsul = `module github.com/terrapulse/terrapulse/tools/consul

go 1.26

require github.com/hashicorp/consul v%s

exclude (
	github.com/hashicorp/go-msgpack v1.1.5
	github.com/hashicorp/go-msgpack v1.1.6
)

replace github.com/hashicorp/go-discover => %s
`

var downloads = regexp.MustCompile(`(?m)^go: downloading .*\n`)

// build compiles the tool into work and returns the program's path.
func (f *fetcher) build(ctx context.Context, t tool, work string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "-ldflags", "-s -w "+t.ldflags)
	cgo := "0"
	if t.cgo {
		cgo = "1"
	}
	// The tools run on this machine, whatever target the environment sets.
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED="+cgo,
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.Dir = work
	switch {
	case t.module != "":
		cmd.Dir = filepath.Join(f.top, filepath.FromSlash(t.module))
		cmd.Args = append(cmd.Args, t.pkg)
	case t.other:
		module := fmt.Sprintf(otherConsul, t.version, filepath.ToSlash(filepath.Join(f.top, "tools", "consul", "discover")))
		if err := os.WriteFile(filepath.Join(work, "go.mod"), []byte(module), 0o644); err != nil {
			return "", err
		}
		cmd.Args = append(cmd.Args, "-mod=mod", t.pkg)
		// The checksum database does not have every version of Consul's own modules.
		cmd.Env = append(cmd.Env, "GONOSUMDB="+strings.Join([]string{os.Getenv("GONOSUMDB"), "github.com/hashicorp/consul*"}, ","))
	default:
		cmd.Args = append(cmd.Args, t.pkg+"@"+t.at)
	}

	f.printf("%s: building %s", t.name, t.version)
	start, ended := time.Now(), make(chan error, 1)
	go func() { ended <- command(ctx, cmd) }()
	for {
		select {
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s\nThe Go module proxy must be reachable (see `go env GOPROXY`)", downloads.ReplaceAllString(err.Error(), ""))
			}
			return filepath.Join(work, t.name+exe()), err
		case <-time.After(progressEvery):
			f.printf("%s: still building after %s", t.name, time.Since(start).Round(time.Second))
		}
	}
}
