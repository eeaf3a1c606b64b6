package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/releases"
)

const (
	// reachTimeout limits the wait for any answer of HashiCorp's releases: a firewall may drop all
	// packets.
	reachTimeout = 10 * time.Second
	// downloadTimeout suffices for 60 MB over a slow line.
	downloadTimeout = 10 * time.Minute
)

// fetcher installs tools into a checkout.
type fetcher struct {
	top      string   // the checkout
	cache    string   // for binaries of all checkouts
	path     []string // folders that may hold an installed Consul or Terraform
	releases string   // URL of HashiCorp's releases
	log      io.Writer

	unreachable error // why the releases cannot be used; checked once
}

// fetch puts the tools into .tools, each in one atomic step, so that parallel or interrupted runs
// leave only complete files.
func (f *fetcher) fetch(ctx context.Context, chosen []tool) error {
	for _, t := range chosen {
		if err := f.get(ctx, t); err != nil {
			return fmt.Errorf("get %s: %w", t.name, err)
		}
	}
	return f.writeTerraformRC()
}

// get makes sure that the tool is installed.
func (f *fetcher) get(ctx context.Context, t tool) error {
	if t.pin != "" {
		return f.getFolder(ctx, t)
	}
	src := f.installed(ctx, t, f.destination(t))
	if src == "" {
		src = f.cached(t)
		if err := f.cacheOnce(src, "", func(work string) (string, error) { return f.obtain(ctx, t, work) }); err != nil {
			return err
		}
	}
	return f.put(t, src)
}

// cacheOnce creates a file or folder of the cache in one step, unless it exists. A folder exists if
// it contains the file proof.
func (f *fetcher) cacheOnce(cached, proof string, create func(work string) (fresh string, err error)) error {
	exists := func(path string) error { _, err := os.Stat(filepath.Join(path, proof)); return err }
	if exists(cached) == nil {
		return nil
	}
	if err := os.MkdirAll(f.cache, 0o755); err != nil {
		return err
	}
	// In the cache, not in the system's temporary folder: a file can be renamed only within one
	// file system.
	work, err := os.MkdirTemp(f.cache, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fresh, err := create(work)
	if err != nil {
		return err
	}
	if err := exists(fresh); err != nil {
		return fmt.Errorf("the download is incomplete: %w", err)
	}
	if exists(cached) == nil {
		return nil // another run was faster
	}
	if err := os.RemoveAll(cached); err != nil {
		return err
	}
	if err := os.Rename(fresh, cached); err != nil && exists(cached) != nil {
		return err // otherwise another run was faster
	}
	return nil
}

// put installs the tool at src in the checkout. Some tools have a second name: providers, because
// OpenTofu has a different registry for hashicorp/local, and OpenTofu itself, for tests that run a
// program named terraform.
func (f *fetcher) put(t tool, src string) error {
	dst := f.destination(t)
	twin := strings.Replace(dst, "registry.terraform.io", "registry.opentofu.org", 1)
	if t.name == "tofu" {
		twin = filepath.Join(filepath.Dir(dst), "terraform"+exe()) // in Terraform's place
	}
	return errors.Join(f.place(t, src, dst), f.place(t, src, twin))
}

// obtain downloads or builds the tool into work and returns the file's path.
func (f *fetcher) obtain(ctx context.Context, t tool, work string) (string, error) {
	if t.product != nil {
		binary, err := f.download(ctx, t, work)
		if err == nil {
			return binary, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		f.printf("%s: not on PATH, and no download of %s: %v", t.name, t.version, err)
		f.printf("%s: it is built from source instead, once for this machine: about %d minutes on 2 cores", t.name, cmp.Or(t.minutes, 4))
	}
	return f.build(ctx, t, work)
}

// installed returns the path of a suitable installation on PATH, or "".
func (f *fetcher) installed(ctx context.Context, t tool, dst string) string {
	if t.product == nil || t.other {
		return ""
	}
	for binary := range f.programs(t.name) {
		// .tools/bin itself may be on PATH.
		if binary == dst {
			continue
		}
		if same(binary, dst) {
			return binary // its version was checked when it was installed
		}
		found, err := t.product.GetVersion(ctx, binary)
		switch oldest := version.Must(version.NewVersion(t.atLeast)); {
		case err != nil:
			f.printf("%s: %s does not tell its version and is not used: %v", t.name, binary, err)
		case found.LessThan(oldest):
			f.printf("%s: %s is version %s and is not used: %s or newer is needed", t.name, binary, found, oldest)
		default:
			return binary
		}
	}
	return ""
}

// download downloads the tool's pinned version from HashiCorp's releases, and verifies checksum and
// signature.
func (f *fetcher) download(ctx context.Context, t tool, work string) (string, error) {
	if err := f.reach(ctx); err != nil {
		return "", err
	}
	f.printf("%s: downloading %s from %s", t.name, t.version, f.releases)
	release := &releases.ExactVersion{
		Product:    *t.product,
		Version:    version.Must(version.NewVersion(t.version)),
		InstallDir: work,
		Timeout:    downloadTimeout,
		ApiBaseURL: f.releases,
	}
	return release.Install(ctx)
}

// reach reports whether HashiCorp's releases answer; it checks only once.
func (f *fetcher) reach(ctx context.Context) error {
	if f.unreachable != nil {
		return f.unreachable
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, f.releases+"/", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.unreachable = fmt.Errorf("HashiCorp's releases cannot be reached: %w", err)
		return f.unreachable
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		f.unreachable = fmt.Errorf("HashiCorp's releases at %s answer %s", f.releases, resp.Status)
	}
	return f.unreachable
}

// cached returns the path of the tool in the cache. Linters depend on the Go version that built
// them: they cannot read code for a newer one.
func (f *fetcher) cached(t tool) string {
	name := strings.Join([]string{t.name, t.version, runtime.GOOS, runtime.GOARCH}, "_")
	if t.set == "lint" {
		name += "_" + runtime.Version()
	}
	return filepath.Join(f.cache, name+exe())
}

// destination returns the path at which the checkout's tests expect the tool.
func (f *fetcher) destination(t tool) string {
	provider, ok := strings.CutPrefix(t.name, "terraform-provider-")
	switch {
	case t.other:
		return filepath.Join(f.top, ".tools", t.name, t.version, t.name+exe())
	case t.name == "tofu":
		return filepath.Join(f.top, ".tools", "tofu", t.name+exe()) // where there is no Terraform
	case !ok:
		return filepath.Join(f.top, ".tools", "bin", t.name+exe())
	}
	return filepath.Join(f.mirror(), "registry.terraform.io", "hashicorp", provider, t.version,
		runtime.GOOS+"_"+runtime.GOARCH, t.name+"_v"+t.version+exe())
}

func (f *fetcher) mirror() string { return filepath.Join(f.top, ".tools", "mirror") }

// writeTerraformRC writes a Terraform CLI configuration that uses only the mirror.
func (f *fetcher) writeTerraformRC() error {
	content := fmt.Sprintf(`disable_checkpoint = true
provider_installation {
  filesystem_mirror {
    path = %q
  }
}
`, filepath.ToSlash(f.mirror()))
	return f.writeFile(filepath.Join(f.top, ".tools", "terraform.rc"), content, 0o644)
}

// writeFile writes a file in .tools unless it has this content already.
func (f *fetcher) writeFile(file, content string, mode os.FileMode) error {
	if old, err := os.ReadFile(file); err == nil && string(old) == content {
		return nil
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return f.replace(file, func(path string) error { return os.WriteFile(path, []byte(content), mode) })
}

func (f *fetcher) printf(format string, args ...any) {
	fmt.Fprintf(f.log, format+"\n", args...)
}
