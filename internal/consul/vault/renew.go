package vault

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

const (
	// renewLimit limits one attempt to renew the token.
	renewLimit = 30 * time.Second

	// Failed attempts are retried after a wait between these limits.
	firstWait, longestWait = time.Second, 5 * time.Minute

	// shortestWait is the minimum time between two requests, whatever Vault answers.
	shortestWait = 100 * time.Millisecond
)

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
	if c.stopRenewal != nil && c.renewed == token {
		return
	}
	if c.stopRenewal != nil {
		c.stopRenewal()
	}
	ctx, stop := context.WithCancel(c.ctx)
	c.renewed, c.stopRenewal = token, stop
	go c.renewals(ctx, client.Auth().Token())
}

// renewals renews a token until ctx ends or the token cannot or need not be renewed any more.
func (c *Client) renewals(ctx context.Context, token *api.TokenAuth) {
	attempt, wait := c.lookup, time.Duration(0)
	for {
		limited, cancel := context.WithTimeout(ctx, renewLimit)
		next, err := attempt(limited, token)
		cancel()
		switch {
		case ctx.Err() != nil, err == nil && next == 0:
			return
		case err == nil:
			attempt, wait = c.renew, 0
		case statusOf(err) == http.StatusForbidden:
			c.log.Warn("cannot renew the Vault token: it has expired, was revoked, or lacks the right to look itself up and renew itself", "error", c.explain(ctx, err))
			return
		default:
			if wait == 0 {
				c.log.Warn("cannot renew the Vault token, will retry", "error", c.explain(ctx, err))
			}
			wait = min(max(2*wait, firstWait), longestWait)
			next = wait
		}
		if !delay.For(ctx, max(next, shortestWait)) {
			return
		}
	}
}

// lookup reads the lifetime of the token, and returns the wait until its renewal; 0 for never.
func (c *Client) lookup(ctx context.Context, token *api.TokenAuth) (time.Duration, error) {
	secret, err := token.LookupSelfWithContext(ctx)
	if err != nil {
		return 0, err
	}
	ttl, err := secret.TokenTTL()
	if err != nil {
		return 0, err
	}
	renewable, err := secret.TokenIsRenewable()
	switch {
	case err != nil:
		return 0, err
	case ttl == 0: // never expires
		return 0, nil
	case !renewable:
		c.log.Warn("the Vault token cannot be renewed: providers that need a secret fail when it has expired", "expires_in", ttl)
		return 0, nil
	}
	if created, ok := secret.Data["creation_ttl"].(json.Number); ok {
		seconds, _ := created.Int64() // 0 if it is not a whole number
		if whole := time.Duration(seconds) * time.Second; ttl < whole-whole/10 {
			return shortestWait, nil // another process has used the token, and the next renewal may be far away
		}
	}
	return ttl - ttl/3, nil
}

// renew renews the token, and returns the wait until the next renewal, when a third of the lifetime
// is left; 0 for never.
func (c *Client) renew(ctx context.Context, token *api.TokenAuth) (time.Duration, error) {
	secret, err := token.RenewSelfWithContext(ctx, 0)
	if err == nil && secret.Auth == nil {
		err = errors.New("the answer contains no token")
	}
	if err != nil {
		return 0, err
	}
	ttl := time.Duration(secret.Auth.LeaseDuration) * time.Second
	c.log.Debug("the Vault token was renewed", "expires_in", ttl)
	if !secret.Auth.Renewable || ttl <= 0 {
		c.log.Warn("the Vault token cannot be renewed any further: providers that need a secret fail when it has expired", "expires_in", ttl)
		return 0, nil
	}
	return ttl - ttl/3, nil
}
