package reconcilefunction

import (
	"context"
	"slices"
	"sync"

	"github.com/terrapulse/terrapulse/internal/aws/consulsecrets"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// consulClient are the operations of Consul that a tick uses.
type consulClient interface {
	reconcile.Consul
	Leader(ctx context.Context) error
	Watch(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch
}

// connection connects to Consul with the secrets that the stack names. It keeps its client as long
// as the configuration and the secrets are unchanged.
type connection struct {
	secrets *consulsecrets.Consul

	mu             sync.Mutex
	*consul.Client               // nil at first
	complete       config.Consul // of the client, with the secrets
}

// open returns the client with the current secrets. It is safe for concurrent use.
func (c *connection) open(ctx context.Context, cfg config.Consul) (*consul.Client, error) {
	complete, err := c.secrets.Configure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return c.with(complete)
}

// with returns the client with this configuration.
func (c *connection) with(complete config.Consul) (*consul.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Client != nil && c.complete == complete {
		return c.Client, nil
	}
	client, err := consul.New(complete)
	if err == nil {
		c.Client, c.complete = client, complete
	}
	return client, err
}

// client is the client for ticks. If Consul denies its token, it reads the secret again and retries
// the request, so that a token can be replaced without a deployment.
type client struct {
	connection
	written config.Consul // from the task files and the environment
}

// connect sets the configuration.
func (c *client) connect(ctx context.Context, cfg config.Consul) (consulClient, error) {
	_, err := c.open(ctx, cfg)
	c.written = cfg
	return c, err
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

// renew reports whether there is another token to try. If not, the denial says more than an error.
func (c *client) renew(ctx context.Context) bool {
	complete, another, err := c.secrets.Renew(ctx, c.written, c.complete.Token)
	if err == nil && another {
		_, err = c.with(complete)
	}
	return err == nil && another
}
