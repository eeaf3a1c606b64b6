// Package consulsecrets adds to the configuration of Consul's client what the stack keeps as secrets.
package consulsecrets

import (
	"cmp"
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Source reads the stack's secret. A *secrets.Source is one.
type Source interface {
	Stack(ctx context.Context, arn string) (secrets.Stack, error)
	Drop(arn, denied string) // Stack reads it again, if its Consul token is the denied one
}

// Consul adds the secrets for Consul to the configuration of its client.
type Consul struct {
	Source Source
	ARN    string // of the stack's secret; empty without one
	Dir    string // folder for the certificates and the key, readable only by this user
}

// Configure returns cfg with the current token, certificates and key from the secret. Values of
// the task files have precedence. The result is equal as long as the secret is unchanged, so that
// a caller can compare with == whether its client is current.
func (c *Consul) Configure(ctx context.Context, cfg config.Consul) (config.Consul, error) {
	held, err := c.Source.Stack(ctx, c.ARN)
	if err != nil {
		return cfg, err
	}
	cfg.Token = cmp.Or(cfg.Token, string(held.ConsulToken))
	for _, pem := range []struct {
		text secrets.Text
		path *string
	}{
		{held.ConsulCACert, &cfg.TLS.CACert},
		{held.ConsulClientCert, &cfg.TLS.Cert},
		{held.ConsulClientKey, &cfg.TLS.Key},
	} {
		if pem.text == "" || *pem.path != "" {
			continue
		}
		if *pem.path, err = secrets.Keep(c.Dir, string(pem.text)+"\n"); err != nil {
			return cfg, fmt.Errorf("keep a certificate or key for Consul: %w", err)
		}
	}
	return cfg, nil
}

// Renew is Configure after Consul has denied a token: it reads the secret again. It reports whether
// there is another token to try.
func (c *Consul) Renew(ctx context.Context, cfg config.Consul, refused string) (fresh config.Consul, another bool, err error) {
	if c.ARN == "" || cfg.Token != "" {
		return cfg, false, nil
	}
	c.Source.Drop(c.ARN, refused)
	fresh, err = c.Configure(ctx, cfg)
	return fresh, err == nil && fresh.Token != refused, err
}
