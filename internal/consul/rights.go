package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Some requests are denied instead of filtered: those prove a right. They go to
// the server that also answers the reads; /v1/internal/acl/authorize does not, a
// client agent answers it from a cache.

// anonymous is the secret of the token that Consul uses for requests without one.
const anonymous = "anonymous"

// anyName is a name without a policy of its own: a reader who may read it may read
// every name that no rule denies by itself. It never changes, because stored errors
// contain it.
const anyName = "terrapulse-asks-for-any-name"

// question is one right of the reader that is to be confirmed.
type question struct {
	condition.Right
	missing string // what the answer is needed for, for errors
}

// answerAll returns the first error, in the order of the questions. It adds the
// rights that are proven to confirmed.
func (c *Client) answerAll(ctx context.Context, questions []question, confirmed *sync.Map) error {
	var (
		group  errgroup.Group
		errs   = make([]error, len(questions))
		failed atomic.Bool
	)
	group.SetLimit(maxReads)
	for i, q := range questions {
		if failed.Load() {
			break
		}
		group.Go(func() error {
			if errs[i] = c.answer(ctx, q); errs[i] == nil {
				confirmed.Store(q.Right, true)
			} else {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // errs has the errors
	return cmp.Or(errs...)
}

// answer returns nil if the reader has the right.
func (c *Client) answer(ctx context.Context, q question) error {
	name := q.Name
	if q.Of == condition.OfPeer {
		return c.confirmPeer(ctx, q)
	}
	r := request{Request: condition.Request{
		Act: "confirm that " + q.missing + " is gone and not hidden", Needs: fmt.Sprintf("%s:read on %q", q.Of, name), Scope: q.Scope}}
	if q.Any {
		name, r.Needs = anyName, fmt.Sprintf("%[1]s:read on all %[1]ss", q.Of)
	}
	if q.Path != "" {
		if name = q.Name; q.Any {
			name += anyName
		} else if !condition.Addressable(q.Path + name) { // it was in a list: the right to read all proves it
			name, q.Any = anyName, true
		}
		r.Path, r.Needs, r.Missing, r.Query = q.Path+name, q.Needs, true, url.Values{"consistent": {""}}
		a, err := c.get(ctx, r, nil)
		if err == nil && !a.missing && !q.Any {
			return c.reappeared(r)
		}
		return err
	}
	switch q.Of {
	case condition.OfService:
		// Consul answers 403 here if the reader may not read the service.
		r.Path, r.Query = "/v1/health/connect/"+name, condition.NoElement("Node.Node")
		if !condition.Addressable(r.Path) {
			return c.authorized(ctx, r, "service", "read", name)
		}
		_, err := c.get(ctx, r, nil)
		return err
	case condition.OfNode:
		return c.mayReadNode(ctx, r, name)
	default:
		if q.Any {
			name, r.Needs = q.Name+anyName, fmt.Sprintf("key:read on prefix %q", q.Name)
		}
		return c.mayReadKey(ctx, r, name)
	}
}

// mayReadKey reads the key. If a path cannot hold its name, it is read in a
// transaction: the answer has an element even for a key that does not exist, and none
// for a key that may not be read.
func (c *Client) mayReadKey(ctx context.Context, r request, key string) error {
	byPath := r
	byPath.Path, byPath.Missing = "/v1/kv/"+key, true
	switch a, err := c.get(ctx, byPath, nil); {
	case err == nil && !a.missing:
		return c.reappeared(r)
	case !errors.Is(err, badQuery):
		return err
	}
	op := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key,
		Namespace: cmp.Or(r.Scope.Namespace, c.resolved.Namespace), Partition: c.resolved.Partition}}
	body, err := json.Marshal(api.TxnOps{op})
	if err != nil {
		return err
	}
	r.Path, r.body = "/v1/txn", body
	var resp api.TxnResponse
	if _, err := c.get(ctx, r, func(d *json.Decoder) error { return d.Decode(&resp) }); err != nil {
		return err
	}
	for _, e := range resp.Errors {
		return c.statusError(r, http.StatusConflict, e.What)
	}
	if len(resp.Results) == 0 {
		return c.denied(r, "permission denied")
	}
	return nil
}

// mayReadNode reads the node's coordinates: the only request about a node that
// Consul denies instead of filtering. Without coordinates, the request goes to the
// agent.
func (c *Client) mayReadNode(ctx context.Context, r request, node string) error {
	byAgent := r
	r.Path, r.PartitionOnly, r.Missing = "/v1/coordinate/node/"+node, true, true
	_, err := c.get(ctx, r, nil)
	if err == nil || fault.IsTransient(err) || IsForbidden(err) && !errors.Is(err, errNoCoordinates) {
		return err
	}
	return c.authorized(ctx, byAgent, "node", "read", node)
}

// MayWrite returns an error for which IsForbidden holds if the token may not write a resource, such as
// a key. Nothing is written.
func (c *Client) MayWrite(ctx context.Context, what, resource, name string) error {
	r := request{Request: condition.Request{Act: "see whether it may write " + what, Needs: fmt.Sprintf("%s:write on %q", resource, name)}}
	return c.authorized(ctx, r, resource, "write", name)
}

// authorized asks the agent about a right that no other request proves, as for a name that no path can
// hold.
func (c *Client) authorized(ctx context.Context, r request, resource, access, name string) error {
	body, err := json.Marshal([]map[string]string{{"Resource": resource, "Access": access, "Segment": name}})
	if err != nil {
		return err
	}
	r.Path, r.Query, r.method, r.body = "/v1/internal/acl/authorize", nil, http.MethodPost, body
	var answers []struct{ Allow bool }
	_, err = c.get(ctx, r, func(d *json.Decoder) error { return d.Decode(&answers) })
	switch {
	case errors.Is(err, errNoACL):
		return nil
	case err == nil && (len(answers) != 1 || !answers[0].Allow):
		return c.denied(r, "permission denied")
	}
	return err
}

// denied is the error where an answer shows that the reader lacks a right.
func (c *Client) denied(r request, problem string) error {
	return c.failed(r, forbidden, errors.New(problem), c.lacks(r.Needs))
}

// reappeared is the error where something is there that was not in the answer before:
// it was created meanwhile, or it was hidden, and the right was given meanwhile.
func (c *Client) reappeared(r request) error {
	return c.failed(r, unavailable, errors.New("it was not in an earlier answer, and is there now"), "it is read again")
}

// Access warns people about the rights of a client without a token; "" if there is
// no reason.
func (c *Client) Access(ctx context.Context) string {
	if !c.Tokenless() {
		return ""
	}
	_, err := c.get(ctx, request{Request: condition.Request{Act: "read the token", Needs: "nothing", Path: "/v1/acl/token/self"}}, nil)
	if err == nil && c.resolved.Token == "" || err != nil && !errors.Is(err, errUnknownToken) {
		return "" // access control is off, or the agent has a default token
	}
	return "Consul's access control is on and there is no token (consul.token, CONSUL_HTTP_TOKEN): " +
		"what Consul's anonymous token may not read cannot be read, and tasks that need it wait; see " + docs.Page("acl.md")
}

// MayRead returns an error for which IsForbidden holds if the reader lacks a
// right, so that an empty answer proves nothing.
func (c *Client) MayRead(ctx context.Context, what string, rights ...condition.Right) error {
	questions := list.Map(rights, func(right condition.Right) question { return question{right, what} })
	return c.answerAll(ctx, questions, new(sync.Map))
}

// Tokenless reports whether Consul uses the anonymous token for the client, or the
// agent's default token.
func (c *Client) Tokenless() bool { return c.resolved.Token == "" || c.resolved.Token == anonymous }

// lacks is the advice where a right is missing.
func (c *Client) lacks(needs string) string {
	if c.Tokenless() {
		return "there is no token (consul.token, CONSUL_HTTP_TOKEN): set one that has " + needs + ", see " + docs.Page("acl.md")
	}
	return "the token (consul.token, CONSUL_HTTP_TOKEN) needs " + needs
}
