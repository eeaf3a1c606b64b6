// Package terraformcli finds or installs Terraform, runs it in the directory of a
// task, and reads its results. terraform-exec starts the processes. OpenTofu can
// replace Terraform: it has the same commands and output.
//
// Find returns a Binary and Open a Dir, which is a task's directory with
// everything that Terraform needs. Dir.Init and Dir.Apply make the task's
// infrastructure what its root module says, Dir.Destroy deletes it, and Inspect
// plans without a trace. States and workspaces have the places of
// Consul-Terraform-Sync: each task has the workspace of its name.
//
// Several tasks may run at once, each in its own directory. They share providers: in a
// plugin cache that a user has configured, else in a folder of Terrapulse's.
package terraformcli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-version"

	"github.com/terrapulse/terrapulse/internal/base/program"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Source is where a Binary was found.
type Source string

// The places of a binary, in the order of the search.
const (
	FromDriverPath  Source = "driver path" // the directory that the driver "terraform" block names
	FromEnvironment Source = "PATH"
	Installed       Source = "installed" // just now, into the driver's path
)

// Binary is a Terraform or OpenTofu that can be run.
type Binary struct {
	Path    string // absolute
	Version *version.Version
	Source  Source
}

// Program returns the name of the binary: "terraform" or "tofu".
func (b *Binary) Program() string { return strings.TrimSuffix(filepath.Base(b.Path), exe) }

// The oldest Terraform that is run at all, and the oldest that is tested.
var (
	oldest = version.Must(version.NewVersion("0.13.0"))
	tested = version.Must(version.NewVersion("1.0.0"))
)

// Find returns the Terraform in the driver's path, otherwise the one on PATH if it has
// the configured version, otherwise it installs one from HashiCorp's releases into the
// driver's path. If the driver's path holds only OpenTofu, that is used. If OpenTofu
// is the configured engine, Find searches only OpenTofu and installs nothing.
func Find(ctx context.Context, cfg config.Terraform, log *slog.Logger) (*Binary, error) {
	f := finder{cfg: cfg, log: log, lookPath: exec.LookPath, install: &install{connect: 10 * time.Second}}
	return f.find(ctx)
}

// FindInBackground begins a Find, which takes the time of a process or of a
// download. wait returns what Find returns; stop ends it.
func FindInBackground(ctx context.Context, cfg config.Terraform, log *slog.Logger) (wait func() (*Binary, error), stop func()) {
	ctx, stop = context.WithCancel(ctx)
	wait = sync.OnceValues(func() (*Binary, error) { return Find(ctx, cfg, log) })
	go wait()
	return wait, stop
}

// FindLocal does the same as Find but installs nothing.
func FindLocal(ctx context.Context, cfg config.Terraform, log *slog.Logger) (*Binary, error) {
	f := finder{cfg: cfg, log: log, lookPath: exec.LookPath}
	return f.find(ctx)
}

// named are the names of the programs for people.
var named = map[string]string{config.EngineTerraform: "Terraform", config.EngineTofu: "OpenTofu"}

type finder struct {
	cfg      config.Terraform
	log      *slog.Logger
	lookPath func(string) (string, error)
	install  *install // nil to install nothing
}

// engine returns the configured program.
func (f finder) engine() string { return cmp.Or(f.cfg.Engine, config.EngineTerraform) }

func (f finder) find(ctx context.Context) (*Binary, error) {
	b, err := f.inDriverPath(ctx, f.engine())
	if b == nil && err == nil && f.engine() == config.EngineTerraform {
		b, err = f.inDriverPath(ctx, config.EngineTofu)
	}
	if b == nil && err == nil {
		b = f.onPATH(ctx)
	}
	if b == nil && err == nil {
		switch {
		case f.install == nil:
			return nil, fmt.Errorf("%s in %s or on PATH", f.missing(), f.cfg.Path)
		case f.engine() == config.EngineTofu:
			return nil, fmt.Errorf("%s in %s or on PATH: install OpenTofu, and put it on PATH or name its directory as path in the driver \"terraform\" block",
				f.missing(), f.cfg.Path)
		}
		b, err = f.installed(ctx)
	}
	if err != nil {
		return nil, err
	}
	f.log.Debug("Terraform found", "path", b.Path, "version", b.Version, "source", b.Source)
	if !b.Tested() {
		f.log.Warn("this Terraform is older than any with which Terrapulse is known to work: use 1.0 or later", "version", b.Version, "path", b.Path)
	}
	return b, nil
}

// inDriverPath returns nil if there is no such binary.
func (f finder) inDriverPath(ctx context.Context, program string) (*Binary, error) {
	const remedy = "remove it, or name another directory as path in the driver \"terraform\" block"
	path := filepath.Join(f.cfg.Path, program+exe)
	if _, err := os.Stat(path); err != nil {
		return nil, nil // an installation reports other errors
	}
	v, err := Version(ctx, path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("incompatible %s binary: %w: %s", named[program], err, remedy)
	case v.Core().LessThan(oldest):
		return nil, fmt.Errorf("unsupported %s version: %s is %s and %s or later is needed: %s", named[program], path, v, oldest, remedy)
	case !f.suits(v):
		f.log.Warn("the "+named[program]+" in the driver's path has another version than the configured one, and is used",
			"path", path, "version", v, "configured", f.cfg.Version)
	}
	return &Binary{Path: path, Version: v, Source: FromDriverPath}, nil
}

// onPATH returns nil if there is no suitable binary.
func (f finder) onPATH(ctx context.Context) *Binary {
	path, err := f.lookPath(f.engine() + exe)
	if err != nil {
		return nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil
	}
	v, err := Version(ctx, path)
	switch {
	case ctx.Err() != nil: // the version is unknown
	case err != nil:
		f.log.Warn("the "+named[f.engine()]+" on PATH does not work and is skipped", "error", err)
	case v.Core().LessThan(oldest) || !f.suits(v):
		f.log.Info("the "+named[f.engine()]+" on PATH has an unsuitable version and is skipped",
			"path", path, "version", v, "configured", f.cfg.Version)
	default:
		return &Binary{Path: path, Version: v, Source: FromEnvironment}
	}
	return nil
}

func (f finder) installed(ctx context.Context) (*Binary, error) {
	f.log.Info("installing Terraform from HashiCorp's releases", "path", f.cfg.Path, "version", f.cfg.Version)
	path, err := f.install.into(ctx, f.cfg.Path, f.cfg.Version)
	if err != nil {
		return nil, fmt.Errorf("%s in %s or on PATH, and it could not be installed from HashiCorp's releases: %w: "+
			"install Terraform yourself, put it on PATH or name its directory as path in the driver \"terraform\" block", f.missing(), f.cfg.Path, err)
	}
	v, err := Version(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("the Terraform that was just installed does not work: %w", err)
	}
	return &Binary{Path: path, Version: v, Source: Installed}, nil
}

// missing returns what was not found.
func (f finder) missing() string {
	return strings.TrimSpace("no " + named[f.engine()] + " " + f.cfg.Version)
}

func (f finder) suits(v *version.Version) bool {
	if f.cfg.Version == "" {
		return true
	}
	want, err := version.NewVersion(f.cfg.Version)
	return err == nil && v.Equal(want)
}

// exe is the suffix of program files.
var exe = map[bool]string{false: "", true: ".exe"}[runtime.GOOS == "windows"]

// versions caches the versions of binaries until their files change.
var versions sync.Map // of fileID to *version.Version

type fileID struct {
	path  string
	mtime int64 // nanoseconds
	size  int64
}

// versionTimeout is how long a binary may take to print its version.
var versionTimeout = time.Minute

// versionIn finds the version in what a binary prints, in JSON or, before 0.13, as text.
var versionIn = regexp.MustCompile(`(?:"terraform_version": *"|^Terraform v)([^"\s]+)`)

// Version runs a Terraform binary to get its version. The result is cached until
// the file changes.
func Version(ctx context.Context, path string) (*version.Version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the Terraform binary: %w", err)
	}
	id := fileID{path, info.ModTime().UnixNano(), info.Size()}
	if v, ok := versions.Load(id); ok {
		return v.(*version.Version), nil
	}
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := program.Program{Command: []string{path, "version", "-json"}, Dir: os.TempDir(), Env: Environ()}.Run(limited)
	found := versionIn.FindStringSubmatch(output)
	var v *version.Version
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case limited.Err() != nil:
		err = fmt.Errorf("it did not end within %s, and was killed", versionTimeout)
	case err != nil:
		err = fmt.Errorf("%w: %s", err, program.Line(output))
	case found == nil:
		err = fmt.Errorf("it printed no version: %s", program.Line(output))
	default:
		v, err = version.NewVersion(found[1])
	}
	if err != nil {
		return nil, fmt.Errorf("read the version of %s: %w", path, err)
	}
	versions.Store(id, v)
	return v, nil
}

// Tested reports whether the version is one that tests run with, or a newer one.
func (b *Binary) Tested() bool { return !b.Version.Core().LessThan(tested) }
