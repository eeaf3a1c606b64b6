package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// goTests builds the tests of the module that the tool's go.mod pins, and copies the files that
// they read.
func (f *fetcher) goTests(ctx context.Context, t tool, dir string) error {
	list := exec.CommandContext(ctx, "go", "mod", "download", "-json", t.pkg)
	list.Dir = filepath.Dir(f.pinned(t))
	list.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	text, err := list.Output()
	if err != nil {
		return fmt.Errorf("download %s: %w\nThe Go module proxy must be reachable (see `go env GOPROXY`)", t.pkg, err)
	}
	var module struct{ Dir, Version string }
	if err := json.Unmarshal(text, &module); err != nil {
		return fmt.Errorf("read where %s is: %w", t.pkg, err)
	}
	f.printf("%s: building the tests of %s", t.name, module.Version)
	compile := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, t.proof), t.pkg)
	compile.Dir, compile.Env = list.Dir, append(list.Env, "CGO_ENABLED=0")
	if err := command(ctx, compile); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, "test-fixtures"), os.DirFS(filepath.Join(module.Dir, "test-fixtures")))
}
