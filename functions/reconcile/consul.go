package main

import (
	"context"

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

// connector creates clients of Consul with the secrets that the stack names.
type connector struct {
	secrets *secrets.Consul
	last    *client
}

// connect returns the same client, which keeps its connections, as long as the configuration and
// the secrets are unchanged.
func (c *connector) connect(ctx context.Context, cfg config.Consul) (consulClient, error) {
	complete, err := c.secrets.Configure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if c.last == nil || c.last.written != cfg || c.last.complete != complete {
		connection, err := consul.New(complete)
		if err != nil {
			return nil, err
		}
		c.last = &client{Client: connection, secrets: c.secrets, written: cfg, complete: complete}
	}
	return c.last, nil
}

// client is a client of Consul whose token may come from a secret. If Consul denies the token, it
// reads the secret again and retries the request, so that a token can be replaced without a
// deployment.
type client struct {
	*consul.Client
	secrets  *secrets.Consul
	written  config.Consul // from the task files and the environment
	complete config.Consul // with the secrets
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
	for _, a := range answers {
		if consul.IsForbidden(a.Err) && c.renew(ctx) {
			return c.Client.Observe(ctx, queries)
		}
	}
	return answers
}

func (c *client) Watch(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
	return c.Client.Watch(ctx, gates, since)
}

// renew reports whether there is another token to try.
func (c *client) renew(ctx context.Context) bool {
	complete, another, err := c.secrets.Renew(ctx, c.written, c.complete.Token)
	if err != nil || !another {
		return false // the refusal says more
	}
	connection, err := consul.New(complete)
	if err != nil {
		return false
	}
	c.Client, c.complete = connection, complete
	return true
}
