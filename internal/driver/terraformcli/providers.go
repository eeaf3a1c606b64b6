package terraformcli

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/terraform-exec/tfexec"
)

// Terraform starts each provider up to four times for one apply: for its schema, to
// validate, to plan and to apply. Each start takes about 10 ms of CPU time with a small
// provider, and up to a second with a large one. Before each command, it also computes
// the checksum of each provider. So a Dir starts the providers itself, once for a command,
// and Terraform connects to them, as it does in the tests of providers.
//
// Terraform starts them itself where one process cannot take the place of several: see
// shareable. It also does so if anything else is in the way.

// attaches is the first version of Terraform that connects to providers of each
// protocol and is tested.
var attaches = version.Must(version.NewVersion("1.0.0"))

// attachable are the commands that use providers.
var attachable = []string{"plan", "apply", "destroy", "show"}

// attach starts the providers for a command of Terraform with this environment. detach
// ends them; if the command has failed, it prints what providers that have ended before
// have said last.
func (d *Dir) attach(ctx context.Context, command string, env map[string]string) (detach func(failed bool)) {
	d.attached = nil
	sockets := env[socketsVariable]
	if sockets == "" || d.opts.PersistLog || !slices.Contains(attachable, command) || d.bin.Version.LessThan(attaches) {
		return func(bool) {}
	}
	packages, ok := d.installedProviders()
	if !ok || !d.shareable(env) {
		return func(bool) {}
	}
	own := maps.Clone(env)
	own["TF_APPEND_USER_AGENT"] = os.Getenv("TF_APPEND_USER_AGENT") // as terraform-exec gives it to Terraform
	started, err := startAll(ctx, packages, d.path, own)
	if err != nil {
		d.opts.Logger.Debug("providers are started by Terraform", "task", d.opts.Task, "error", err)
		return func(bool) {}
	}
	d.attached = tfexec.ReattachInfo{}
	for _, p := range started {
		d.attached[p.source] = tfexec.ReattachConfig{Protocol: "grpc", ProtocolVersion: p.protocol, Pid: p.cmd.Process.Pid, Test: true,
			Addr: tfexec.ReattachConfigAddr{Network: "unix", String: p.socket}}
	}
	return func(failed bool) {
		d.attached = nil
		for _, p := range started {
			if why, ended := p.hasEnded(); ended && failed {
				fmt.Fprintln(d.opts.Log, d.scrub.Clean(fmt.Sprintf("The provider %s has ended: %s\n%s", p.source, why, p.errors.lastWords())))
			}
		}
		stopAll(started)
	}
}

// startAll starts providers at the same time, or none.
func startAll(ctx context.Context, packages []providerPackage, dir string, env map[string]string) ([]*providerProcess, error) {
	started, errs := make([]*providerProcess, len(packages)), make([]error, len(packages))
	for i, p := range packages {
		// From this thread: see runTo.
		started[i], errs[i] = p.start(dir, env)
	}
	var wg sync.WaitGroup
	for i, p := range started {
		if p != nil {
			wg.Go(func() { errs[i] = p.shakeHands(ctx) })
		}
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			stopAll(started)
			return nil, err
		}
	}
	return started, nil
}

func stopAll(started []*providerProcess) {
	var wg sync.WaitGroup
	for _, p := range started {
		if p != nil {
			wg.Go(p.stop)
		}
	}
	wg.Wait()
}

// providerPackage is an installed provider.
type providerPackage struct {
	source string
	binary string // absolute
}

// installedProviders returns the installed providers, not ok if one is missing or is not the one in
// the lock file: Terraform explains that.
func (d *Dir) installedProviders() (packages []providerPackage, ok bool) {
	for _, p := range d.lockedProviders() {
		dir := d.data("providers", filepath.FromSlash(p.Source), p.Version, runtime.GOOS+"_"+runtime.GOARCH)
		sum, err := packageSum(dir)
		if err != nil || !slices.Contains(p.Hashes, sum) {
			return nil, false
		}
		binary := executable(dir, p.Source)
		if binary == "" {
			return nil, false
		}
		packages = append(packages, providerPackage{p.Source, binary})
	}
	return packages, len(packages) > 0
}

// executable returns the program in the directory of a provider, as Terraform finds it:
// the first file with its name, alone or before a version. "" if there is none.
func executable(dir, source string) string {
	name := "terraform-provider-" + source[strings.LastIndex(source, "/")+1:]
	files, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, f := range files {
		rest, ok := strings.CutPrefix(f.Name(), name)
		if ok && !f.IsDir() && (rest == "" || rest[0] == '_' || rest[0] == '.') {
			return filepath.Join(dir, f.Name())
		}
	}
	return ""
}

// overridden reports whether a CLI configuration that Terraform reads may name other programs than
// the installed providers.
func (d *Dir) overridden(env map[string]string) bool {
	return slices.ContainsFunc(cliConfigFiles(d.path, func(name string) string { return env[name] }), func(path string) bool {
		raw, err := os.ReadFile(path)
		return err == nil && bytes.Contains(raw, []byte("dev_overrides"))
	})
}
