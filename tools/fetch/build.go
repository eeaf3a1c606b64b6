package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// progressEvery is the interval at which a build that takes long says how far it is.
const progressEvery = 20 * time.Second

// otherModule is the module in which another version of a tool is built. `go install` refuses Consul
// and Terraform with their versions, because their go.mod replaces modules.
const otherModule = `module github.com/terrapulse/terrapulse/tools/other

go 1.26

require %s v%s

%s`

var downloads = regexp.MustCompile(`(?m)^go: downloading .*\n`)

// build compiles the tool into work and returns the program's path.
func (f *fetcher) build(ctx context.Context, t tool, work string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "install", "-v", "-trimpath", "-ldflags", "-s -w "+t.ldflags, "-tags", t.tags)
	cgo := "0"
	if t.cgo {
		cgo = "1"
	}
	// The tools run on this machine, whatever target the environment sets.
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOFLAGS=", "GOWORK=off", "CGO_ENABLED="+cgo,
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.Dir = work
	source := t.pkg
	switch {
	case t.module != "":
		cmd.Dir = filepath.Join(f.top, filepath.FromSlash(t.module))
	case t.other:
		module := fmt.Sprintf(otherModule, t.pkg, t.version, strings.ReplaceAll(t.directives, "TOP", filepath.ToSlash(f.top)))
		for name, content := range map[string]string{"go.mod": module, "go.sum": ""} {
			if err := os.WriteFile(filepath.Join(work, name), []byte(content), 0o644); err != nil {
				return "", err
			}
		}
		cmd.Args = append(cmd.Args, "-mod=mod")
		// The checksum database does not have every version of Consul's own modules.
		cmd.Env = append(cmd.Env, "GONOSUMDB="+strings.Join([]string{os.Getenv("GONOSUMDB"), "github.com/hashicorp/consul*"}, ","))
	default:
		source += "@" + t.at
	}
	if t.edits != nil {
		modfile, err := f.trimmed(ctx, t, cmd.Dir, work)
		if err != nil {
			return "", err
		}
		cmd.Args = append(cmd.Args, "-mod=mod", "-modfile="+modfile)
	}
	for _, of := range t.undebugged { // the linker removes what debuggers read; not to write it saves a fifth
		cmd.Args = append(cmd.Args, "-gcflags="+of+"/...=-dwarf=false")
	}
	cmd.Args = append(cmd.Args, source)

	f.printf("%s: building %s", t.name, t.version)
	start, ended, out := time.Now(), make(chan error, 1), &buildOutput{}
	go func() { ended <- commandTo(ctx, cmd, out, out.said) }()
	for {
		select {
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("%s\nThe Go module proxy must be reachable (see `go env GOPROXY`)", downloads.ReplaceAllString(err.Error(), ""))
			}
			return filepath.Join(work, t.name+exe()), err
		case <-time.After(progressEvery):
			f.printf("%s: still building after %s: %s", t.name, time.Since(start).Round(time.Second), out.progress(t.packages))
		}
	}
}

// buildOutput counts the packages that `go install -v` names when it compiles them, and keeps what else
// the command prints.
type buildOutput struct {
	mu    sync.Mutex
	built int
	line  []byte // that has not ended yet
	other bytes.Buffer
}

var packageLine = regexp.MustCompile(`^[a-zA-Z0-9_.~-]+(/[a-zA-Z0-9_.~-]+)*\n$`)

func (o *buildOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line = append(o.line, p...)
	for {
		end := bytes.IndexByte(o.line, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		if packageLine.Match(o.line[:end]) {
			o.built++
		} else {
			o.other.Write(o.line[:end])
		}
		o.line = o.line[end:]
	}
}

func (o *buildOutput) said() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append(bytes.Clone(o.other.Bytes()), o.line...)
}

// progress says how far the build is. Packages that another build has compiled are not compiled again.
func (o *buildOutput) progress(of int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.built == 0:
		return "downloading the source"
	case of > 0:
		return fmt.Sprintf("%d of at most %d packages are compiled", o.built, of)
	}
	return fmt.Sprintf("%d packages are compiled", o.built)
}
