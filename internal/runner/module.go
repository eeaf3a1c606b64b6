package runner

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/dynamic"
	"github.com/terrapulse/terrapulse/internal/panos"
	"github.com/terrapulse/terrapulse/internal/rootmodule"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/terraform"
)

// keptResources is how many of the resources that an apply changed are named
// in its run's record.
const keptResources = 20

// Module applies a task's module with Terraform, in the task's directory.
type Module struct {
	Terraform *terraform.Binary
	// Values looks up what the templates in provider blocks stand for; a new
	// evaluator without AWS if nil.
	Values *dynamic.Evaluator
	// Orphaned, if set, says in words why the holder of a lock of the task's
	// state is dead, so that it is released; "" if that is not certain.
	Orphaned func(ctx context.Context, task string, lock *terraform.LockError) (why string)
	// Unlocked has Inspect and Plan take no lock of the task's state.
	Unlocked bool
	// Keep, if set, keeps a state of the task that could not be written to its
	// backend, and returns where: for a home whose disk ends with the run.
	Keep func(ctx context.Context, task, name string, state []byte) (place string, err error)
	Log  *slog.Logger // nil for nowhere
	// Parallel is how many runs there may be at a time; 1 if zero.
	Parallel int
}

// Check finds what would make every run of the task fail, as far as that can be
// told without Consul and Terraform: a local module that is not there or does
// not declare what it is given, a task_env that Terraform cannot be given, a
// template in a provider that calls for what there is not, and a backend that
// would have the task share its state.
func (m *Module) Check(cfg *config.Config, t *config.Task) error {
	if _, err := rootmodule.Backend(cfg, t); err != nil {
		return err
	}
	if err := terraform.CheckModule(t, rootmodule.Inputs(t)); err != nil {
		return err
	}
	if err := dynamic.Check(cfg, t); err != nil {
		return err
	}
	return terraform.CheckEnv(t.Name, rootmodule.Env(t, cfg))
}

// Findings returns what Check finds and what else Terraform would refuse, all of
// it, with the place of each.
func (m *Module) Findings(cfg *config.Config, t *config.Task) []config.Diagnostic {
	var all []config.Diagnostic
	add := func(err error) {
		if err != nil {
			all = append(all, config.Diagnostic{Position: t.Source, Problem: err.Error()})
		}
	}
	_, err := rootmodule.Backend(cfg, t)
	add(err)
	all = append(all, terraform.ModuleFindings(t, rootmodule.InputTypes(t, terraform.VariableTypes(t)))...)
	add(dynamic.Check(cfg, t))
	add(terraform.CheckEnv(t.Name, rootmodule.Env(t, cfg)))
	return all
}

// Apply renders the root module, initialises its directory where that is
// needed, applies it, and commits to PAN-OS where a provider has auto_commit.
func (m *Module) Apply(ctx context.Context, cfg *config.Config, t *config.Task, snap *consul.Snapshot, out io.Writer) (*state.Changes, error) {
	if err := m.Check(cfg, t); err != nil {
		return nil, err
	}
	values, err := m.values(ctx, cfg, t)
	if err != nil {
		return nil, err
	}
	commits, err := committers(values, t)
	if err != nil {
		return nil, err
	}
	opts, err := m.options(cfg, values, t, out)
	if err != nil {
		return nil, err
	}
	if err := m.write(t.WorkingDir, cfg, t, snap, nil); err != nil {
		return nil, err
	}
	dir, err := m.Terraform.Open(t.WorkingDir, opts)
	if err != nil {
		return nil, err
	}
	if _, err := dir.Init(ctx); err != nil {
		return nil, err
	}
	if installed := dir.InstalledTypes(); installed != nil {
		if err := m.write(t.WorkingDir, cfg, t, snap, installed); err != nil {
			return nil, err
		}
	}
	summary, err := dir.Apply(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range commits {
		// Also where nothing was changed: the run before may have failed to commit.
		if err := c.Commit(ctx, out); err != nil {
			return changes(summary), err
		}
	}
	return changes(summary), nil
}

// Inspect counts what Apply would do, and leaves nothing behind.
func (m *Module) Inspect(ctx context.Context, cfg *config.Config, t *config.Task, snap *consul.Snapshot, out io.Writer) (*state.Changes, string, error) {
	summary, err := m.Plan(ctx, cfg, t, snap, out)
	if err != nil {
		return nil, "", err
	}
	return changes(summary), summary.Text, nil
}

// Plan says what Apply would do, in Terraform's words too, and leaves nothing
// behind. What Terraform prints on the way goes to out.
func (m *Module) Plan(ctx context.Context, cfg *config.Config, t *config.Task, snap *consul.Snapshot, out io.Writer) (terraform.Summary, error) {
	if err := m.Check(cfg, t); err != nil {
		return terraform.Summary{}, err
	}
	values, err := m.values(ctx, cfg, t)
	if err != nil {
		return terraform.Summary{}, err
	}
	opts, err := m.options(cfg, values, t, out)
	if err != nil {
		return terraform.Summary{}, err
	}
	return m.Terraform.Inspect(ctx, t.WorkingDir, func(dir string, installed map[string]string) error {
		return m.write(dir, cfg, t, snap, installed)
	}, opts)
}

// write writes the root module. After init, installed are the types that a
// module which init has fetched declares: they are not known before.
func (m *Module) write(dir string, cfg *config.Config, t *config.Task, snap *consul.Snapshot, installed map[string]string) error {
	root := m.root(cfg, t, snap)
	if installed != nil {
		if root.Types != nil || !rootmodule.WantsPorts(installed) {
			return nil // nothing that was not known before
		}
		root.Types = installed
	}
	_, err := root.Write(dir)
	return err
}

func (m *Module) root(cfg *config.Config, t *config.Task, snap *consul.Snapshot) rootmodule.Module {
	return rootmodule.Module{Config: cfg, Task: t, Blocks: snap.Blocks, Terraform: m.Terraform.Version,
		Types: terraform.VariableTypes(t)}
}

// values looks up what the templates of the task's providers stand for.
func (m *Module) values(ctx context.Context, cfg *config.Config, t *config.Task) (dynamic.Values, error) {
	return cmp.Or(m.Values, &dynamic.Evaluator{Context: ctx}).Evaluate(ctx, cfg, t)
}

// committers are what commits the changes of the task's providers that have
// auto_commit.
func committers(values dynamic.Values, t *config.Task) ([]*panos.Committer, error) {
	var commits []*panos.Committer
	for _, id := range t.Providers {
		p, _ := values.Config.Provider(id)
		c, err := panos.New(p, t.WorkingDir)
		if err != nil {
			return nil, err
		}
		if c != nil {
			c.Redact = func(text string) string { return terraform.Redact(text, values.Secrets) }
			commits = append(commits, c)
		}
	}
	return commits, nil
}

// options are what Terraform is run with.
func (m *Module) options(cfg *config.Config, values dynamic.Values, t *config.Task, out io.Writer) (terraform.Options, error) {
	variables, err := rootmodule.SecretValues(t, values.Config, values.Variables)
	if err != nil {
		return terraform.Options{}, fmt.Errorf("values of task %s: %w", t.Name, err)
	}
	backend, err := rootmodule.Backend(cfg, t)
	if err != nil {
		return terraform.Options{}, err
	}
	opts := terraform.Options{
		Task: t.Name, Backend: backend, Consul: cfg.Consul,
		Env: rootmodule.Env(t, values.Config), VarJSON: variables, Secrets: append(values.Secrets, cfg.Vault.Token), Log: out, PersistLog: cfg.Terraform.PersistLog, Unlocked: m.Unlocked,
		Logger: m.Log, Parallel: m.Parallel,
	}
	for _, id := range t.Providers {
		name, _, _ := strings.Cut(id, ".")
		opts.Providers = append(opts.Providers, name)
	}
	if m.Keep != nil {
		opts.Keep = func(ctx context.Context, name string, state []byte) (string, error) {
			return m.Keep(ctx, t.Name, name, state)
		}
	}
	if m.Orphaned != nil {
		opts.Orphaned = func(ctx context.Context, lock *terraform.LockError) string { return m.Orphaned(ctx, t.Name, lock) }
	}
	return opts, nil
}

// changes is the summary as it is recorded.
func changes(s terraform.Summary) *state.Changes {
	c := &state.Changes{Add: max(s.Add, 0), Change: max(s.Change, 0), Destroy: max(s.Destroy, 0)}
	for _, r := range s.Resources[:min(len(s.Resources), keptResources)] {
		c.Resources = append(c.Resources, state.Resource{Address: state.Cut(r.Address), Action: r.Action})
	}
	return c
}
