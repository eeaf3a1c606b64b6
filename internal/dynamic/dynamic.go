// Package dynamic evaluates the templates in terraform_provider blocks:
// {{ env "NAME" }}, {{ key "path" }}, {{ with secret "path" }}{{ .Data.password }}{{ end }},
// {{ ssm "name" }} and the others in functions.go. It evaluates them for each run, and
// only for the providers that the run uses, so that the next run uses changed values.
//
// The values are secret. They are in no error and in no file.
package dynamic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/notify"
	"github.com/terrapulse/terrapulse/internal/vault"
)

// defaultPatience is long enough for an election of Vault's leader, and short enough for a person
// who waits.
const defaultPatience = 10 * time.Second

// atOnce is the number of templates that are evaluated in parallel.
const atOnce = 8

// AWS reads secrets from AWS.
type AWS interface {
	// Secret returns the value of a secret in Secrets Manager, by its ARN or name; with a key, the
	// value of that key of a secret in JSON.
	Secret(ctx context.Context, id, key string) (string, error)
	// Parameter returns the value of an SSM parameter, by its ARN or name.
	Parameter(ctx context.Context, name string) (string, error)
}

// Evaluator evaluates the templates of runs. The zero value works without AWS. It is safe for
// concurrent use.
type Evaluator struct {
	// AWS returns the client for the functions secretsmanager and ssm. It is called only if a
	// template uses them.
	AWS func(context.Context) (AWS, error)
	// LookupEnv is os.LookupEnv if nil.
	LookupEnv func(string) (string, bool)
	// Patience limits one look-up; 10 s if 0.
	Patience time.Duration
	// Context ends the renewals of Vault's token. If nil, they end with the program.
	Context context.Context
	Log     *slog.Logger // slog.Default() if nil

	// The clients, and their configurations, which may change with a reload.
	mu        sync.Mutex
	consul    *consul.Client
	consulCfg config.Consul
	vault     *vault.Client
	vaultCfg  config.Vault
	stop      context.CancelFunc // of the Vault client's renewals
}

// Values are the providers of a task with evaluated templates.
type Values struct {
	// Config is the configuration with evaluated templates in the task's providers.
	Config *config.Config
	// Variables are the values of the task's variables with templates.
	Variables map[string]string
	// Secrets are all values and parts of values: output may contain a part without the whole
	// value.
	Secrets []string
}

// Check validates the templates of the task's providers without looking anything up.
func Check(cfg *config.Config, t *config.Task) error {
	var errs []error
	for _, v := range templates(cfg, t) {
		if _, err := parseText(v.text, new(lookups).functions(v.place)); err != nil {
			errs = append(errs, v.wrap(err))
		}
	}
	return errors.Join(errs...)
}

// Evaluate evaluates the templates of the task's providers. An error names the provider, the
// argument and what was looked up.
func (e *Evaluator) Evaluate(ctx context.Context, cfg *config.Config, t *config.Task) (Values, error) {
	all := templates(cfg, t)
	if len(all) == 0 {
		return Values{Config: cfg}, nil
	}
	l := &lookups{Evaluator: e, ctx: ctx, cfg: cfg, task: t.Name}
	results := make([]result, len(all))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, v := range all {
		group.Go(func() error {
			results[i] = l.evaluate(v)
			return nil
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return Values{}, fmt.Errorf("look up the values of task %s's providers: %w", t.Name, context.Cause(ctx))
	}
	var errs []error
	values := Values{Variables: map[string]string{}}
	texts := map[place]string{}
	for i, r := range results {
		if r.err != nil {
			errs = append(errs, all[i].wrap(r.err))
		}
		if at := all[i].place; at.provider == "" {
			values.Variables[at.argument] = r.text
		} else {
			texts[at] = r.text
		}
		values.Secrets = append(values.Secrets, r.pieces...)
	}
	if len(errs) > 0 {
		return Values{}, errors.Join(errs...)
	}
	next := *cfg
	next.Providers = each(cfg, t, func(p place, text string) string {
		if other, ok := texts[p]; ok {
			return other
		}
		return text
	})
	values.Config = &next
	return values, nil
}

// Text evaluates a template in a key outside of the provider blocks. Any other text is returned
// unchanged. An error names the key and what was looked up.
func (e *Evaluator) Text(ctx context.Context, cfg *config.Config, key, text string) (string, error) {
	if !config.IsTemplate(text) {
		return text, nil
	}
	l := &lookups{Evaluator: e, ctx: ctx, cfg: cfg}
	r := l.evaluate(site{place{argument: key}, text})
	if r.err != nil {
		return "", fmt.Errorf("%s: %w", key, r.err)
	}
	return r.text, nil
}

// Keep begins to renew the Vault token if a template needs it and the configuration says so.
// It sends a request to Vault only if the token is wrapped.
func (e *Evaluator) Keep(ctx context.Context, cfg *config.Config) error {
	if !cfg.Vault.Enabled || !cfg.Vault.RenewToken {
		return nil
	}
	if !usesVault(cfg) {
		return nil
	}
	client, err := e.vaultClient(cfg)
	if err != nil {
		return err
	}
	return client.Keep(ctx)
}

// usesVault reports whether a template of a task's provider or of a notify block reads from Vault.
func usesVault(cfg *config.Config) bool {
	for i := range cfg.Tasks {
		if slices.ContainsFunc(templates(cfg, &cfg.Tasks[i]), func(v site) bool { return config.UsesVault(v.text) }) {
			return true
		}
	}
	return slices.ContainsFunc(cfg.Notify, func(s notify.Spec) bool {
		return slices.ContainsFunc(s.Values(), func(v notify.Text) bool { return config.UsesVault(v.Text) })
	})
}

// place is the place of a template.
type place struct {
	provider string // id; "" for a variable of the task
	argument string // such as token, auth.password or hosts[2]; task_env.NAME; or the variable's name
}

// site is a place with a template to evaluate.
type site struct {
	place
	text string
}

func (p place) wrap(err error) error {
	if p.provider == "" {
		return fmt.Errorf("variable %q: %w", p.argument, err)
	}
	return fmt.Errorf("provider %q, %s: %w", p.provider, p.argument, err)
}

// templates returns the templates of the task's providers and variables, in a
// fixed order.
func templates(cfg *config.Config, t *config.Task) []site {
	var all []site
	each(cfg, t, func(p place, text string) string {
		if config.IsTemplate(text) {
			all = append(all, site{p, text})
		}
		return text
	})
	for _, name := range slices.Sorted(maps.Keys(t.VariableTemplates)) {
		all = append(all, site{place{argument: name}, t.VariableTemplates[name]})
	}
	return all
}

// each calls f for every text of the task's providers, in a fixed order, and returns all providers,
// with the results in place of the texts.
func each(cfg *config.Config, t *config.Task, f func(place, string) string) []config.Provider {
	providers := slices.Clone(cfg.Providers)
	for i := range providers {
		p := &providers[i]
		if !p.Dynamic() || !slices.Contains(t.Providers, p.ID()) {
			continue
		}
		of := func(argument, text string) string { return f(place{p.ID(), argument}, text) }
		p.Body = p.Body.Map(of)
		p.Env = maps.Clone(p.Env)
		for _, name := range slices.Sorted(maps.Keys(p.Env)) {
			p.Env[name] = of("task_env."+name, p.Env[name])
		}
	}
	return providers
}

// consulClient returns a client for the configured Consul.
func (e *Evaluator) consulClient(in *config.Config) (*consul.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.consul == nil || e.consulCfg != in.Consul {
		client, err := consul.New(in.Consul)
		if err != nil {
			return nil, err
		}
		e.consul, e.consulCfg = client, in.Consul
	}
	return e.consul, nil
}

// vaultClient returns a client for the configured Vault.
func (e *Evaluator) vaultClient(in *config.Config) (*vault.Client, error) {
	cfg := in.Vault
	if !cfg.Enabled {
		return nil, errors.New("there is no Vault: add a vault block with an address, or set VAULT_ADDR")
	}
	if cfg.AgentTokenFile != "" {
		cfg.Token = "" // the file's, when the task files were read
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.vault == nil || e.vaultCfg != cfg {
		ctx, stop := context.WithCancel(cmp.Or(e.Context, context.Background()))
		client, err := vault.New(ctx, cfg, cmp.Or(e.Log, slog.Default()))
		if err != nil {
			stop()
			return nil, err
		}
		if e.stop != nil {
			e.stop()
		}
		e.vault, e.vaultCfg, e.stop = client, cfg, stop
	}
	return e.vault, nil
}

func (e *Evaluator) lookupEnv(name string) (string, bool) {
	if e.LookupEnv == nil {
		return os.LookupEnv(name)
	}
	return e.LookupEnv(name)
}
