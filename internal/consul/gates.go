package consul

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Marks are what gates showed: opaque strings by gate, only for comparison. They are
// small, whatever the number of queries.
type Marks map[string]string

// GateSet are the gates of a number of queries. What queries show has changed only
// if one of their gates has moved.
type GateSet struct {
	gates []gate
	bare  bool // some query has no gate
}

// Len is the number of gates, each one request of a Poll.
func (g GateSet) Len() int { return len(g.gates) }

// Keys returns what Marks calls the gates.
func (g GateSet) Keys() []string {
	return list.Map(g.gates, func(one gate) string { return one.Key })
}

// About describes a gate for people.
type About struct {
	Key        string // as in Marks
	Name       string // what it watches, such as: nodes
	Datacenter string // "" for that of the agent
	Namespace  string
}

// About describes the gates.
func (g GateSet) About() []About {
	all := make([]About, len(g.gates))
	for i, gate := range g.gates {
		name := strings.TrimSuffix(gate.Act, gate.Scope.String())
		name = strings.TrimPrefix(strings.TrimPrefix(name, "read "), "watch ")
		if gate.Scope.Peer != "" {
			name += condition.Scope{Peer: gate.Scope.Peer}.String()
		}
		all[i] = About{gate.Key, strings.TrimPrefix(name, "the "), gate.Scope.Datacenter, gate.Scope.Namespace}
	}
	return all
}

// Index is the index of Consul that a gate showed; 0 if there is none.
func (m Marks) Index(key string) uint64 {
	var index uint64
	_, _ = fmt.Sscanf(m[key], "index %d", &index) // a digest has none
	return index
}

// gate is one cheap read that shows whether views may have changed.
type gate struct {
	condition.Gate
	family *condition.Family // of the parts behind it

	// view is set if the gate is the only view behind it.
	view condition.View
	// covers are the views behind the gate; nil if these are all of the family and scope.
	covers map[condition.View]bool
	// byDigest is set if the mark is a digest of the view: its index says too little.
	byDigest bool
}

// PollGates returns the gates to Poll for these queries: two for a catalog, one for a KV
// store and one for config entries, whatever is read of them. A single view is read
// itself, unless the gate costs less.
func PollGates(queries []Query) GateSet {
	return gatesOf(queries, true, func(f *condition.Family) (int, condition.Gates) {
		if f.CheapPoll {
			return 0, f.Poll
		}
		return 1, f.Poll
	})
}

// BlockGates returns the gates to Watch for these queries: three for a catalog, one for
// a KV store and one for each kind of config entries. A few keys are held open one by
// one, so that other keys, such as Terraform's state, start no tick.
func BlockGates(queries []Query) GateSet {
	return gatesOf(queries, false, func(f *condition.Family) (int, condition.Gates) { return f.Few, f.Block })
}

// gatesOf returns the gates of families that shared gives. Up to a few views, or
// without such gates, each view is its own gate.
func gatesOf(queries []Query, byDigest bool, shared func(*condition.Family) (few int, gates condition.Gates)) GateSet {
	var set GateSet
	var folders []gate // there may be many: not all gates can be held open
	known := map[string]bool{}
	for _, b := range behindGates(queries) {
		few, gates := shared(b.family)
		if b.all <= few || gates == nil {
			for _, v := range b.views {
				r := v.Gate()
				sum := sha256.Sum256([]byte(condition.Encode(r.Path, v.Request().Query.Encode())))
				own := condition.Gate{Key: "view-" + hex.EncodeToString(sum[:8]) + r.Scope.String(), Request: r, Instead: []condition.View{v}}
				set.gates = append(set.gates, gate{Gate: own, family: b.family, view: v, byDigest: byDigest || b.family.NoIndex})
			}
			continue
		}
		for _, g := range gates(b.scope, b.views) {
			switch {
			case known[g.Key]: // another scope or family has the gate, too
			case g.Only:
				folders = append(folders, gate{Gate: g, family: b.family, covers: setOf(g.Instead)})
			default:
				set.gates = append(set.gates, gate{Gate: g, family: b.family})
			}
			known[g.Key] = true
		}
	}
	set.gates = append(set.gates, folders...)
	same := Marks{}
	for _, key := range set.Keys() {
		same[key] = "read"
	}
	set.bare = slices.ContainsFunc(queries, set.Moved(same, same))
	return set
}

func setOf(views []condition.View) map[condition.View]bool {
	all := make(map[condition.View]bool, len(views))
	for _, v := range views {
		all[v] = true
	}
	return all
}

// behind is what is read of one family in one scope.
type behind struct {
	family *condition.Family
	scope  condition.Scope
	views  []condition.View // known beforehand, each once
	all    int              // how many views there are; a Chooser chooses many
}

func behindGates(queries []Query) []*behind {
	type place struct {
		family *condition.Family
		scope  condition.Scope
	}
	var list []*behind
	at := map[place]*behind{}
	seen := map[condition.View]bool{}
	for _, q := range queries {
		for _, p := range q.parts {
			where := place{p.Family(), p.Scope()}
			b := at[where]
			if b == nil {
				b = &behind{family: where.family, scope: where.scope}
				at[where] = b
				list = append(list, b)
			}
			for _, v := range p.Views() {
				if !seen[v] {
					seen[v] = true
					b.views = append(b.views, v)
					b.all++
				}
			}
			if _, chooses := p.(condition.Chooser); chooses {
				b.all += 2
			}
		}
	}
	return slices.DeleteFunc(list, func(b *behind) bool { return b.all == 0 })
}

// concerns reports whether the part is behind the gate.
func (g gate) concerns(p condition.Selection) bool {
	if g.view != nil {
		_, chooses := p.(condition.Chooser)
		return !chooses && slices.Contains(p.Views(), g.view)
	}
	if g.covers != nil {
		return g.covered(p) > 0
	}
	return g.family == p.Family() && g.Scope.Datacenter == p.Scope().Datacenter && g.Scope.Peer == p.Scope().Peer &&
		(g.EveryNamespace || g.Scope.Namespace == p.Scope().Namespace)
}

// covered is how many views of the part are behind the gate, of a gate that covers some only.
func (g gate) covered(p condition.Selection) (n int) {
	for _, v := range p.Views() {
		if g.covers[v] {
			n++
		}
	}
	return n
}

// Moved returns which queries may show something else than before: those with a gate
// that has no mark or another one, and those without a gate.
func (g GateSet) Moved(before, after Marks) func(Query) bool {
	moved := make([]bool, len(g.gates))
	for i, gate := range g.gates {
		mark := after[gate.Key]
		moved[i] = mark == "" || mark != before[gate.Key]
	}
	return func(q Query) bool {
		return slices.ContainsFunc(q.parts, func(p condition.Selection) bool {
			unguarded := len(p.Views())
			for i, gate := range g.gates {
				if !gate.concerns(p) {
					continue
				}
				if moved[i] {
					return true
				}
				switch {
				case gate.view != nil:
					unguarded--
				case gate.covers != nil:
					unguarded -= gate.covered(p)
				case !gate.EveryNamespace: // such a gate is never the only one
					unguarded = 0
				}
			}
			return unguarded > 0
		})
	}
}

// AnyMoved reports whether Moved holds for any of the queries of the set. It takes the same time for
// any number of queries.
func (g GateSet) AnyMoved(before, after Marks) bool {
	return g.bare || slices.ContainsFunc(g.gates, func(one gate) bool { return after[one.Key] == "" || after[one.Key] != before[one.Key] })
}

// Failing returns which queries have a gate that cannot be read, by the error of all gates.
func (g GateSet) Failing(all error) func(Query) bool {
	before, after := Marks{}, Marks{}
	for _, key := range g.Keys() {
		if before[key] = "read"; GateError(all, key) == nil {
			after[key] = "read"
		}
	}
	return g.Moved(before, after)
}

// Sees reports whether any gate shows something now, given why others fail. A gate that is not read
// for a while says nothing of a Consul that does not answer.
func (g GateSet) Sees(marks Marks, failed error) bool {
	return slices.ContainsFunc(g.gates, func(one gate) bool {
		return marks[one.Key] != "" && GateError(failed, one.Key) == nil && (every(one.view) == 0 || !IsUnavailable(failed))
	})
}

// Poll reads all gates. It returns the marks of those that it can read, and the
// errors of the others. A gate without a mark has moved.
func (c *Client) Poll(ctx context.Context, g GateSet) (Marks, error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		marks = Marks{}
		errs  = make([]error, len(g.gates))
		began = time.Now()
	)
	for i, gate := range g.gates {
		wg.Go(func() {
			mark, _, err := c.mark(ctx, gate)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				marks[gate.Key] = mark
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return marks, g.failed(errs, time.Since(began))
}

// gateErrors are why gates cannot be read.
type gateErrors struct {
	error
	by      map[string]error // by key
	silence time.Duration
}

func (e *gateErrors) Unwrap() error { return e.error }

// Failed is one error for those of the gates, in their order.
func (g GateSet) Failed(errs []error) error { return g.failed(errs, 0) }

func (g GateSet) failed(errs []error, silence time.Duration) error {
	all := joined(errs)
	if all == nil {
		return nil
	}
	e := &gateErrors{all, map[string]error{}, silence}
	for i, err := range errs {
		if err != nil {
			e.by[g.gates[i].Key] = err
		}
	}
	return e
}

// GateError returns why one gate cannot be read, by the error of all gates; nil if it
// can.
func GateError(all error, key string) error {
	if e := (*gateErrors)(nil); errors.As(all, &e) {
		return e.by[key]
	}
	return nil
}

// Silence returns, by the error of all gates, how long ago the request began with which
// the latest of them failed: a Consul that is silent is noticed only at its timeout.
func Silence(all error) time.Duration {
	if e := (*gateErrors)(nil); errors.As(all, &e) {
		return e.silence
	}
	return 0
}

// mark reads a gate without waiting. The index is 0 if there is none to wait for.
func (c *Client) mark(ctx context.Context, g gate) (mark string, index uint64, err error) {
	if mark := c.paced.fresh(g.view, time.Now()); mark != "" {
		return mark, 0, nil
	}
	if g.State != nil {
		mark, err := c.stateMark(ctx, g.State)
		return mark, 0, err
	}
	var a answer
	if !g.byDigest {
		a, err = c.get(ctx, request{Request: g.Request}, nil)
	}
	if g.byDigest || IsForbidden(err) && len(g.Instead) > 0 {
		mark, err = c.digestMark(ctx, g.Instead)
		return mark, 0, err
	}
	return g.indexMark(a), a.index, err
}

// indexMark is "", which equals nothing, for an answer without an index.
func (g gate) indexMark(a answer) string {
	switch {
	case a.missing && g.family.Loose:
		return "nothing"
	case a.index == 0:
		return ""
	}
	return "index " + strconv.FormatUint(a.index, 10)
}

// digestMark is a digest of what the views show.
func (c *Client) digestMark(ctx context.Context, views []condition.View) (string, error) {
	r := newReading(c)
	r.loadViews(ctx, views)
	var elements []condition.Element
	for _, v := range views {
		l := r.loaded[v]
		if l.err != nil {
			return "", l.err
		}
		elements = append(elements, l.elements...)
	}
	return markOf(elements), nil
}

func markOf(elements []condition.Element) string {
	return "digest " + observation(slices.Clone(elements)).Digest[:32]
}
