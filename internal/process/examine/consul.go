package examine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/mod/semver"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const (
	// maxSkew is more than the difference between machines that use NTP. Claims in a cluster allow
	// for it.
	maxSkew = 5 * time.Second
	// testedConsul is the oldest Consul that is tested: docs/operate.md.
	testedConsul = "v1.19.2"
	// clusterConsul is the oldest Consul that a cluster works with.
	clusterConsul = "v1.14.0"
)

// reach returns nil if Consul answers and has a leader.
func (e *examination) reach(ctx context.Context) error {
	if e.unset != nil {
		return fmt.Errorf("set up the connection to Consul: %w", e.unset)
	}
	return e.client.Leader(ctx)
}

// agent is what an agent says of itself.
type agent struct {
	Config struct{ Version, Datacenter, NodeName string }
}

func (e *examination) self(ctx context.Context) (a agent, err error) {
	_, err = e.client.API().Raw().Query("/v1/agent/self", &a, (&api.QueryOptions{}).WithContext(ctx))
	return a, err
}

func (e *examination) checkConsul(ctx context.Context) (string, error) {
	if err := e.answers(); err != nil {
		return "", err
	}
	found := fmt.Sprintf("%s answers, and has a leader", e.client.Address())
	a, err := e.self(ctx)
	if err != nil || a.Config.Version == "" {
		return found + "; its version is not known: the token has no agent:read", nil
	}
	found += fmt.Sprintf("; version %s, datacenter %s", a.Config.Version, a.Config.Datacenter)
	switch version := "v" + a.Config.Version; {
	case e.cfg.HighAvailability != nil && semver.Compare(version, clusterConsul) < 0:
		return "", fmt.Errorf("%s; a cluster needs Consul %s: upgrade it", found, clusterConsul[1:])
	case semver.Compare(version, testedConsul) < 0:
		return found + "; the oldest version that is tested is " + testedConsul[1:], nil
	}
	return found, nil
}

// checkClock compares the clocks.
func (e *examination) checkClock(ctx context.Context) (string, error) {
	if e.answers() != nil {
		return "", notChecked("Consul does not answer")
	}
	ahead, within, err := e.client.Clock(ctx)
	if err != nil {
		return "", err
	}
	return clockFound(ahead, within)
}

// clockFound judges how far Consul's clock is ahead.
func clockFound(ahead, within time.Duration) (string, error) {
	if ahead.Abs() <= within {
		return "the same as Consul's, to the second", nil
	}
	words := fmt.Sprintf("Consul's is %s ahead", ahead.Round(time.Second))
	if ahead < 0 {
		words = fmt.Sprintf("Consul's is %s behind", (-ahead).Round(time.Second))
	}
	if ahead.Abs()-within > maxSkew {
		return "", errors.New(words)
	}
	return words, nil
}

// Rights is what a token may read of what tasks watch and get.
type Rights struct {
	Errors   []error
	Warnings []string
	Unsure   bool // access control hides something, or may do so
}

// RightsOf reads from Consul what every task reads.
func RightsOf(ctx context.Context, client *consul.Client, cfg *config.Config) (r Rights) {
	if access := client.Access(ctx); access != "" {
		r.Warnings = append(r.Warnings, access)
	}
	var readable []*config.Task
	for i := range cfg.Tasks {
		task := &cfg.Tasks[i]
		snap, err := client.Preview(ctx, task)
		if err != nil {
			r.Errors = append(r.Errors, fmt.Errorf("task %s: %w", task.Name, err))
			if fault.IsTransient(err) {
				return r // the others would fail in the same way
			}
			continue
		}
		readable = append(readable, task)
		named, other := snap.Visibility.Lacks(ctx)
		hidden := snap.Visibility.Hidden()
		r.Unsure = r.Unsure || hidden != "" || other != nil
		switch {
		case named != nil:
			r.Errors = append(r.Errors, fmt.Errorf("task %s: %w", task.Name, named))
		case other != nil:
			r.Warnings = append(r.Warnings, fmt.Sprintf("task %s: Consul has nothing yet that the task selects, so nothing shows whether the token may read it: %v", task.Name, other))
		}
		for _, warning := range []string{hidden, snap.Warning()} {
			if warning != "" {
				r.Warnings = append(r.Warnings, fmt.Sprintf("task %s: %s", task.Name, warning))
			}
		}
	}
	r.Warnings = append(r.Warnings, Misspelt(ctx, client, readable)...)
	return r
}

// checkRights reads what the tasks read.
func (e *examination) checkRights(ctx context.Context) (string, error) {
	if e.answers() != nil {
		return "", notChecked("Consul does not answer")
	}
	r := RightsOf(ctx, e.client, e.cfg)
	if len(r.Errors) > 0 {
		return "", oneLine(errors.Join(r.Errors...))
	}
	return strings.Join(append([]string{"what the tasks read can be read"}, r.Warnings...), "; "), nil
}

// write is a right to write that an instance needs.
type write struct{ what, resource, name string }

// writes are the rights to write that the configuration needs, without that to create sessions.
func writes(cfg *config.Config) (all []write, locks bool) {
	if b := cfg.Terraform.Backend; b.Type == "consul" {
		if path, ok := b.Body.Attributes["path"]; ok && !path.IsNull() && path.IsKnown() {
			all, locks = append(all, write{"Terraform's state", "key", path.AsString()}), true
		}
	}
	if h := cfg.HighAvailability; h != nil {
		all = append(all, write{"the cluster's state", "key", h.Cluster.Path() + "/terrapulse/"})
	}
	if r := cfg.Consul.ServiceRegistration; r.Enabled {
		all = append(all, write{"the registration of this instance", "service", r.ServiceName})
	}
	return all, locks
}

// checkWrites asks Consul for the rights to write. It writes nothing.
func (e *examination) checkWrites(ctx context.Context) (string, error) {
	if e.answers() != nil {
		return "", notChecked("Consul does not answer")
	}
	all, locks := writes(e.cfg)
	if locks {
		if a, err := e.self(ctx); err == nil && a.Config.NodeName != "" {
			all = append(all, write{"the locks of Terraform's state", "session", a.Config.NodeName})
		}
	}
	var lacks []error
	var may []string
	for _, w := range all {
		if err := e.client.MayWrite(ctx, w.what, w.resource, w.name); err != nil {
			lacks = append(lacks, err)
			continue
		}
		may = append(may, w.what)
	}
	switch {
	case len(lacks) > 0:
		return "", oneLine(errors.Join(lacks...))
	case len(may) == 0:
		return "nothing is written into Consul", nil
	}
	return strings.Join(may, ", ") + " can be written", nil
}
