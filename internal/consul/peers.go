package consul

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

const (
	// reluctant is how long an answer may take that Consul would deny only after 10 to 14 seconds.
	// Otherwise each tick would wait that long for a right that one task lacks.
	reluctant = 3 * time.Second
	// reluctantAgain is when such a request is sent again after there was no answer.
	reluctantAgain = 30 * time.Second
	// settleTime is how long a loss of a peer must last before a run applies it. If the peering is
	// deleted on the other side, its instances go one by one while the peering is active and names
	// their services: all of them within 0.1 s for 30 instances, then the list of services is empty.
	settleTime = 5 * time.Second
)

// doubtful is the error for a *condition.Doubt.
func (c *Client) doubtful(err error) error {
	doubt, ok := errors.AsType[*condition.Doubt](err)
	if !ok {
		return err
	}
	kind := peerLost
	if doubt.Person {
		kind = badQuery
	}
	return c.failed(request{Request: condition.Request{Act: doubt.Act}}, kind, errors.New(doubt.Problem), doubt.Advice)
}

// slowDenials are requests that got no answer or were denied, by path.
type slowDenials struct {
	mu sync.Mutex
	at map[string]slowDenial
}

type slowDenial struct {
	err error
	at  time.Time
}

func (s *slowDenials) get(path string) slowDenial {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[path]
}

func (s *slowDenials) note(path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[string]slowDenial{}
	}
	if s.at[path] = (slowDenial{err, time.Now()}); err == nil {
		delete(s.at, path)
	}
}

// getReluctant sends a request that Consul denies slowly: it does not wait for that, but finds out
// about the right in another way. While the right is missing, or after no answer for a while, the
// request is not sent.
func (c *Client) getReluctant(ctx context.Context, r request, decode func(*json.Decoder) error) (answer, error) {
	last := c.slow.get(r.Path)
	switch age := time.Since(last.at); {
	case last.err == nil:
	case IsForbidden(last.err):
		if err := c.allowed(ctx, r); IsForbidden(err) {
			return answer{}, err
		}
	case age >= 0 && age < reluctantAgain:
		return answer{}, last.err
	}
	a, err := c.getWithin(ctx, r, min(reluctant, c.timeout), decode)
	if ctx.Err() != nil {
		return a, err
	}
	late := silent(err)
	if late {
		if denied := c.allowed(ctx, r); IsForbidden(denied) {
			err = denied
		}
	}
	err = ofOneThing(err)
	if err == nil || late {
		c.slow.note(r.Path, err)
	}
	return a, err
}

// allowed finds out whether the reader has the right that the request takes.
func (c *Client) allowed(ctx context.Context, r request) error {
	resource := r.SlowDenial
	r.SlowDenial, r.Missing, r.PartitionOnly = "", false, true
	return c.authorized(ctx, r, resource, "read", "")
}

// ofOneThing makes an error that may be about all of Consul one about the request, unless Consul
// cannot be reached or has no leader.
func ofOneThing(err error) error {
	e, ok := errors.AsType[*readError](err)
	if !ok || e.kind != unavailable || errors.Is(err, ErrNoLeader) {
		return err
	}
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		return err
	}
	about := *e
	about.kind, about.silent = peerLost, false
	return &about
}

// stateMark is a digest of a state, or of why it cannot be read: that alone concerns no other view.
func (c *Client) stateMark(ctx context.Context, v condition.Stated) (string, error) {
	var got condition.Contents
	_, err := c.get(ctx, request{Request: v.Request()}, func(d *json.Decoder) (err error) {
		got, err = v.Decode(d)
		return err
	})
	text := "shown " + v.State(got)
	if e, ok := errors.AsType[*readError](err); ok && !IsUnavailable(err) {
		text = "unread " + e.Error()
	} else if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(text))
	return "state " + hex.EncodeToString(sum[:16]), nil
}

// peering reads the state of a peering; nil if there is none.
func (c *Client) peering(ctx context.Context, peer string) (*condition.PeeringState, error) {
	var p *condition.PeeringState
	_, err := c.get(ctx, request{Request: condition.PeeringRequest(peer)}, func(d *json.Decoder) error { return d.Decode(&p) })
	return p, err
}

// identifyPeer is Identify for a peer: the other cluster, and the peering with it.
func (c *Client) identifyPeer(ctx context.Context, peer string) (state.Identity, error) {
	p, err := c.peering(ctx, peer)
	if err != nil {
		return state.Identity{}, err
	}
	r := request{Request: condition.PeeringRequest(peer)}
	if p == nil || p.Cluster() == "" {
		return state.Identity{}, c.failed(r, peerLost, errors.New("it is not known which cluster the peer is"), "")
	}
	return state.Identity{Cluster: p.Cluster()}, nil
}

// confirmPeer returns nil if what is missing of a peer is gone: the reader may read everything of
// peers, the peering is active, and there is nothing of a service that the peer does not export.
func (c *Client) confirmPeer(ctx context.Context, q question) error {
	name := q.Name
	if q.Any {
		name = anyName
	}
	act := "confirm that " + q.missing + " is gone and not hidden"
	r := request{Request: condition.Request{Act: act, Needs: condition.ImportedNeeds, Scope: q.Scope,
		Path: "/v1/health/connect/" + name, Query: condition.NoElement("Node.Node")}}
	if _, err := c.get(ctx, r, nil); err != nil { // denied without the right to everything
		return err
	}
	// Nothing denies the read of nodes, and Consul does not tell this reader that it hides them.
	if c.Tokenless() && c.Access(ctx) != "" {
		return c.denied(r, "without a token, nothing proves it")
	}
	p, err := c.peering(ctx, q.Scope.Peer)
	if err != nil {
		return err
	}
	if doubt := condition.DoubtOf(q.Scope.Peer, p); doubt != nil {
		return c.doubtful(doubt)
	}
	if q.Any || p.Exports(name) {
		return nil
	}
	r.Path, r.Query = "/v1/health/service/"+name, nil
	var left []struct{}
	if _, err := c.get(ctx, r, func(d *json.Decoder) error { return d.Decode(&left) }); err != nil {
		return err
	}
	if len(left) > 0 {
		return c.reappeared(r)
	}
	return nil
}

// settled returns an error unless a loss of peers lasts.
func (v *Visibility) settled(ctx context.Context) error {
	if delay.For(ctx, v.client.settle); ctx.Err() != nil {
		return ctx.Err()
	}
	r := newReading(v.client)
	r.load(ctx, v.peers)
	now, err := r.observe(v.peers)
	if err == nil && now.Digest != v.imported {
		peer := v.peers[0].Scope()
		err = v.client.failed(request{Request: condition.Request{Act: "confirm what is gone" + peer.String()}}, peerLost,
			errors.New("what the peer shows still changes"), "it is read again")
	}
	return err
}
