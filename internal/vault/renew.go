package vault

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/vault/api"
)

const (
	// renewLimit limits one attempt to renew the token.
	renewLimit = 30 * time.Second

	// Failed attempts are retried after a wait between these limits.
	firstWait, longestWait = time.Second, 5 * time.Minute

	// shortestWait is the minimum time between two requests, whatever Vault answers.
	shortestWait = 100 * time.Millisecond
)

// renewal renews one token, with a timer that is set again after each attempt.
type renewal struct {
	*Client
	client *api.Client // with the token
	token  string
	timer  *time.Timer
	wait   time.Duration // after the next failure; 0 before the first
}

// Keep begins to renew the token if the configuration says so, as the first Read does. Call it if
// there may be no Read for longer than the token's lifetime.
func (c *Client) Keep(ctx context.Context) error {
	if !c.cfg.RenewToken {
		return nil
	}
	_, err := c.authorised(ctx)
	return err
}

// keep begins to renew the token, and stops renewing the previous one.
func (c *Client) keep(client *api.Client, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewal != nil && c.renewal.token == token || c.ctx.Err() != nil {
		return
	}
	if c.renewal != nil {
		c.renewal.timer.Stop()
	}
	r := &renewal{Client: c, client: client, token: token}
	c.renewal = r
	r.timer = time.AfterFunc(0, r.lookup)
}

// stop ends the renewals.
func (c *Client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewal != nil {
		c.renewal.timer.Stop()
	}
}

// lookup reads the lifetime of the token, and sets the timer for its renewal.
func (r *renewal) lookup() {
	ctx, cancel := context.WithTimeout(r.ctx, renewLimit)
	defer cancel()
	secret, err := r.client.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil {
		r.failed(err, r.lookup)
		return
	}
	ttl, err := secret.TokenTTL()
	if err != nil {
		r.failed(err, r.lookup)
		return
	}
	renewable, err := secret.TokenIsRenewable()
	switch {
	case err != nil:
		r.failed(err, r.lookup)
	case ttl == 0: // never expires
	case !renewable:
		r.log.Warn("the Vault token cannot be renewed: providers that need a secret fail when it has expired", "expires_in", ttl)
	default:
		r.wait = 0
		whole := ttl
		if created, ok := secret.Data["creation_ttl"].(json.Number); ok {
			if seconds, err := created.Int64(); err == nil {
				whole = max(ttl, time.Duration(seconds)*time.Second)
			}
		}
		if ttl < whole-whole/10 {
			r.renew() // the token comes from another process, and the next renewal may be far away
			return
		}
		r.again(ttl-ttl/3, r.renew)
	}
}

// renew renews the token, and sets the timer for the next renewal: when a third of the lifetime is
// left.
func (r *renewal) renew() {
	ctx, cancel := context.WithTimeout(r.ctx, renewLimit)
	defer cancel()
	secret, err := r.client.Auth().Token().RenewSelfWithContext(ctx, 0)
	if err == nil && secret.Auth == nil {
		err = errors.New("the answer contains no token")
	}
	if err != nil {
		r.failed(err, r.renew)
		return
	}
	r.wait = 0
	ttl := time.Duration(secret.Auth.LeaseDuration) * time.Second
	r.log.Debug("the Vault token was renewed", "expires_in", ttl)
	if !secret.Auth.Renewable || ttl <= 0 {
		r.log.Warn("the Vault token cannot be renewed any further: providers that need a secret fail when it has expired", "expires_in", ttl)
		return
	}
	r.again(ttl-ttl/3, r.renew)
}

// failed sets the timer for another attempt, unless a retry is useless.
func (r *renewal) failed(err error, attempt func()) {
	if r.ctx.Err() != nil {
		return
	}
	if statusOf(err) == http.StatusForbidden {
		r.log.Warn("cannot renew the Vault token: it has expired, was revoked, or lacks the right to look itself up and renew itself", "error", r.explain(r.ctx, err))
		return
	}
	if r.wait == 0 {
		r.wait = firstWait
		r.log.Warn("cannot renew the Vault token, will retry", "error", r.explain(r.ctx, err))
	}
	r.again(r.wait, attempt)
	r.wait = min(2*r.wait, longestWait)
}

// again sets the timer, unless another token has replaced this one.
func (r *renewal) again(after time.Duration, attempt func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewal != r || r.ctx.Err() != nil {
		return
	}
	r.timer = time.AfterFunc(max(after, shortestWait), attempt)
}
