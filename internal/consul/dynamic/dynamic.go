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
	"os"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/vault"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// defaultPatience is long enough for an election of Vault's leader, and short enough for a person
// who waits.
const defaultPatience = 10 * time.Second

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
	// Hidden are secrets that Terraform can read although they are in no variable, such as logins in
	// files of git. They are among the secrets of all values.
	Hidden []string

	// The clients, and their configurations, which may change with a reload.
	mu        sync.Mutex
	consul    *consul.Client
	consulCfg config.Consul
	vault     *vault.Client
	vaultCfg  config.Vault
	stop      context.CancelFunc // of the Vault client's renewals

	names    []string       // of environment variables
	namesCfg *config.Config // whose templates may read them
}

// Values are the providers of a task with evaluated templates.
type Values = values.Values

// Check validates the templates of the task's providers without looking anything up.
func Check(cfg *config.Config, t *config.Task) error {
	var errs []error
	for _, v := range values.Templates(cfg, t) {
		if _, err := parseText(v.Text, new(lookups).functions(v.Place)); err != nil {
			errs = append(errs, v.Wrap(err))
		}
	}
	return errors.Join(errs...)
}

// Evaluate evaluates the templates of the task's providers. An error names the provider, the
// argument and what was looked up.
func (e *Evaluator) Evaluate(ctx context.Context, cfg *config.Config, t *config.Task) (Values, error) {
	l := &lookups{Evaluator: e, ctx: ctx, cfg: cfg, task: t.Name}
	v, err := values.Evaluate(ctx, cfg, t, l.evaluate)
	if err == nil {
		v.Secrets = slices.Concat(v.Secrets, e.inherited(cfg))
	}
	return v, err
}

// inherited returns the secrets that Terraform can read whatever the task: it inherits the
// environment, with the values for the templates of all tasks.
func (e *Evaluator) inherited(cfg *config.Config) []string {
	e.mu.Lock()
	if e.namesCfg != cfg {
		e.names, e.namesCfg = cfg.EnvNames(), cfg
	}
	names := e.names
	e.mu.Unlock()
	secrets := slices.Concat(e.Hidden, redact.Environment(os.Environ()))
	for _, name := range names {
		if value, ok := e.lookupEnv(name); ok {
			secrets = append(secrets, value)
		}
	}
	return secrets
}

// Text evaluates a template in a key outside of the provider blocks. Any other text is returned
// unchanged. An error names the key and what was looked up.
func (e *Evaluator) Text(ctx context.Context, cfg *config.Config, key, text string) (string, error) {
	if !config.IsTemplate(text) {
		return text, nil
	}
	l := &lookups{Evaluator: e, ctx: ctx, cfg: cfg}
	r := l.evaluate(values.Site{Place: values.Place{Argument: key}, Text: text})
	if r.Err != nil {
		return "", fmt.Errorf("%s: %w", key, r.Err)
	}
	return r.Text, nil
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

// usesVault reports whether a template of a task's provider, of a notify block or of the driver
// reads from Vault.
func usesVault(cfg *config.Config) bool {
	for i := range cfg.Tasks {
		if slices.ContainsFunc(values.Templates(cfg, &cfg.Tasks[i]), func(v values.Site) bool { return config.UsesVault(v.Text) }) {
			return true
		}
	}
	uses := func(v notify.Text) bool { return config.UsesVault(v.Text) }
	return slices.ContainsFunc(cfg.Driver().Texts(), uses) ||
		slices.ContainsFunc(cfg.Notify, func(s notify.Spec) bool { return slices.ContainsFunc(s.Values(), uses) })
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
