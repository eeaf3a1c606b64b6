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
	// renewLimit is how long one attempt to renew the token may take.
	renewLimit = 30 * time.Second

	// Attempts that fail are made again after these waits, at most.
	firstWait, longestWait = time.Second, 5 * time.Minute

	// shortestWait keeps two requests apart, whatever Vault says.
	shortestWait = 100 * time.Millisecond
)

// renewal keeps one token alive: a timer that is set anew each time it has gone
// off, and nothing between.
type renewal struct {
	*Client
	client *api.Client // with the token
	token  string
	timer  *time.Timer
	wait   time.Duration // after the next failure; 0 before the first
}

// Keep begins to renew the token if the configuration says so, as the first
// Read would do. Whoever may have nothing to read for longer than the token
// lives calls it.
func (c *Client) Keep(ctx context.Context) error {
	if !c.cfg.RenewToken {
		return nil
	}
	_, err := c.authorised(ctx)
	return err
}

// keep sees to it that the token is renewed, and the one before no more.
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
	r.timer = time.AfterFunc(0, r.look)
}

// stop ends the renewals.
func (c *Client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.renewal != nil {
		c.renewal.timer.Stop()
	}
}

// look asks how long the token lives, and sets the timer for its renewal.
func (r *renewal) look() {
	ctx, cancel := context.WithTimeout(r.ctx, renewLimit)
	defer cancel()
	secret, err := r.client.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil {
		r.failed(err, r.look)
		return
	}
	ttl, err := secret.TokenTTL()
	if err != nil {
		r.failed(err, r.look)
		return
	}
	renewable, err := secret.TokenIsRenewable()
	switch {
	case err != nil:
		r.failed(err, r.look)
	case ttl == 0: // lives for ever
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
			r.renew() // it has come from another process, and the next one may be long in coming
			return
		}
		r.again(ttl-ttl/3, r.renew)
	}
}

// renew renews the token, and sets the timer for the next time: when a third of
// the token's life is left.
func (r *renewal) renew() {
	ctx, cancel := context.WithTimeout(r.ctx, renewLimit)
	defer cancel()
	secret, err := r.client.Auth().Token().RenewSelfWithContext(ctx, 0)
	if err == nil && secret.Auth == nil {
		err = errors.New("the answer holds no token")
	}
	if err != nil {
		r.failed(err, r.renew)
		return
	}
	r.wait = 0
	ttl := time.Duration(secret.Auth.LeaseDuration) * time.Second
	r.log.Debug("the token for Vault was renewed", "expires_in", ttl)
	if !secret.Auth.Renewable || ttl <= 0 {
		r.log.Warn("the Vault token cannot be renewed any further: providers that need a secret fail when it has expired", "expires_in", ttl)
		return
	}
	r.again(ttl-ttl/3, r.renew)
}

// failed sets the timer for another attempt, unless that is of no use.
func (r *renewal) failed(err error, attempt func()) {
	if r.ctx.Err() != nil {
		return
	}
	if status := new(api.ResponseError); errors.As(err, &status) && status.StatusCode == http.StatusForbidden {
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

// again sets the timer, unless another token has taken this one's place.
func (r *renewal) again(after time.Duration, attempt func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.renewal != r || r.ctx.Err() != nil {
		return
	}
	r.timer = time.AfterFunc(max(after, shortestWait), attempt)
}
