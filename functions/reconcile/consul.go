package main

import (
	"context"
	"slices"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/secrets"
)

// consulClient are the operations of Consul that a tick uses.
type consulClient interface {
	reconcile.Consul
	Leader(ctx context.Context) error
	Watch(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch
}

// client is a client of Consul with the secrets that the stack names. If Consul denies its token,
// it reads the secret again and retries the request, so that a token can be replaced without a
// deployment.
type client struct {
	*consul.Client // nil before the first connect
	secrets        *secrets.Consul
	written        config.Consul // from the task files and the environment
	complete       config.Consul // with the secrets
}

// connect sets the configuration. It keeps the connections as long as the configuration and the
// secrets are unchanged.
func (c *client) connect(ctx context.Context, cfg config.Consul) (consulClient, error) {
	complete, err := c.secrets.Configure(ctx, cfg)
	if err == nil && (c.Client == nil || c.complete != complete) {
		err = c.use(complete)
	}
	c.written = cfg
	return c, err
}

func (c *client) use(complete config.Consul) error {
	connection, err := consul.New(complete)
	if err == nil {
		c.Client, c.complete = connection, complete
	}
	return err
}

func (c *client) Poll(ctx context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks, err := c.Client.Poll(ctx, gates)
	if consul.IsForbidden(err) && c.renew(ctx) {
		return c.Client.Poll(ctx, gates)
	}
	return marks, err
}

func (c *client) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := c.Client.Observe(ctx, queries)
	denied := func(a consul.Answer) bool { return consul.IsForbidden(a.Err) }
	if slices.ContainsFunc(answers, denied) && c.renew(ctx) {
		return c.Client.Observe(ctx, queries)
	}
	return answers
}

func (c *client) Watch(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
	return c.Client.Watch(ctx, gates, since)
}

// renew reports whether there is another token to try.
func (c *client) renew(ctx context.Context) bool {
	complete, another, err := c.secrets.Renew(ctx, c.written, c.complete.Token)
	return err == nil && another && c.use(complete) == nil // otherwise the denial says more
}
