package examine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/registry"
	"github.com/terrapulse/terrapulse/internal/driver/builds"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/process/instance"
	"github.com/terrapulse/terrapulse/internal/process/nomad"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// registryTimeout is how long a registry may take to answer.
const registryTimeout = 5 * time.Second

// programChecks are those of what carries out the runs.
func (e *examination) programChecks() []doctor.Check {
	if k := remotes.Of(e.cfg); k != nil {
		return []doctor.Check{{Name: strings.ToLower(k.System), Look: e.checkRemote, Fix: k.Fix}}
	}
	if e.cfg.Nomad != nil {
		return []doctor.Check{{Name: "nomad", Look: e.checkNomad, Fix: "start Nomad's agent, correct the nomad block or NOMAD_ADDR, and run the job of the runner: " + docs.Page("nomad.md")}}
	}
	return []doctor.Check{
		{Name: "terraform", Look: e.checkTerraform, Fix: "install Terraform 1.0 or later (or OpenTofu) on PATH, or in the folder path of the driver \"terraform\" block. " +
			"Without it, start downloads Terraform from releases.hashicorp.com, if this machine reaches that"},
		{Name: "providers", Look: e.checkProviders, Fix: "let this machine reach the registry (HTTPS_PROXY names a proxy), or keep the providers in a mirror on it: " + docs.Page("modules.md#providers")},
	}
}

// checkRemote asks the system that carries out the runs.
func (e *examination) checkRemote(ctx context.Context) (string, error) {
	carrier, stop := instance.Carry(ctx, e.cfg, 1, slog.New(slog.DiscardHandler))
	defer stop()
	c, err := carrier()
	if err != nil {
		return "", err
	}
	return c.Driver.(remotes.Driver).Reach(ctx, e.cfg)
}

// checkNomad asks for the job that the leader dispatches. Terraform is where that job runs.
func (e *examination) checkNomad(ctx context.Context) (string, error) {
	launcher, err := nomad.New(*e.cfg.Nomad, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	return launcher.Reach(ctx)
}

// checkTerraform looks for the program that start would use.
func (e *examination) checkTerraform(ctx context.Context) (string, error) {
	found, err := terraformcli.FindLocal(ctx, e.cfg.Terraform, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	name := map[string]string{config.EngineTofu: "OpenTofu"}[found.Program()]
	if name == "" {
		name = "Terraform"
	}
	words := fmt.Sprintf("%s %s at %s", name, found.Version, found.Path)
	if !found.Tested() {
		return "", fmt.Errorf("%s is older than 1.0, the oldest version that is tested", words)
	}
	return words, nil
}

// checkProviders looks for the providers of the tasks' local modules on this machine, and for the
// registries of the others.
func (e *examination) checkProviders(ctx context.Context) (string, error) {
	var modules []string
	for i := range e.cfg.Tasks {
		if m := e.cfg.Tasks[i].Module; filepath.IsAbs(m) {
			modules = append(modules, m)
		}
	}
	p := terraformcli.Provided(e.cfg.WorkingDir, modules)
	switch {
	case len(p.Needed) == 0:
		return "local modules need none that must be downloaded", nil
	case p.By != "":
		for i := range e.cfg.Tasks {
			if why := terraformcli.MissingCLIConfig(e.cfg.Tasks[i].WorkingDir, os.Getenv); why != "" {
				return "", fmt.Errorf("%s: %s", strings.Join(p.Needed, ", "), why)
			}
		}
		return fmt.Sprintf("%s: Terraform gets them as %s says", strings.Join(p.Needed, ", "), p.By), nil
	case len(p.Missing) == 0:
		return strings.Join(p.Needed, ", ") + " on this machine", nil
	}
	var silent []string
	for _, host := range registries(p.Missing, e.cfg.Terraform.Engine) {
		if err := reachable(ctx, host); err != nil {
			silent = append(silent, fmt.Sprintf("%s cannot be reached: %v", host, err))
		}
	}
	if len(silent) > 0 {
		return "", fmt.Errorf("%s must be downloaded, and %s", strings.Join(p.Missing, ", "), strings.Join(silent, "; "))
	}
	there := slices.DeleteFunc(p.Needed, func(source string) bool { return slices.Contains(p.Missing, source) })
	if wrong := builds.Missing(ctx, e.cfg, runtime.GOOS+"_"+runtime.GOARCH, there); len(wrong) > 0 {
		return "", errors.New(strings.Join(wrong, "; "))
	}
	return strings.Join(p.Missing, ", ") + ": the next run downloads them", nil
}

// registries are the hosts of these providers, each once.
func registries(sources []string, engine string) []string {
	hosts := list.Map(sources, func(source string) string {
		if host, _, _ := strings.Cut(source, "/"); strings.Count(source, "/") > 1 {
			return host
		}
		return terraformcli.Registry(engine)
	})
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// reachable returns nil if a registry answers.
func reachable(ctx context.Context, host string) error {
	ctx, stop := context.WithTimeout(ctx, registryTimeout)
	defer stop()
	_, err := registry.Services(ctx, http.DefaultClient, host)
	if ctx.Err() != nil {
		return fmt.Errorf("no answer within %s", registryTimeout)
	}
	return err
}
