package consul

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Marks are what gates showed: opaque strings by gate, to be compared and
// nothing else. They are small, whatever the number of queries.
type Marks map[string]string

// GateSet are the gates in front of a number of queries. When a gate has moved,
// what the queries behind it show may have changed; when none has, it has not.
type GateSet struct{ gates []gate }

// Len is the number of gates, each one request of a Poll.
func (g GateSet) Len() int { return len(g.gates) }

// Keys returns what Marks calls the gates.
func (g GateSet) Keys() []string {
	keys := make([]string, len(g.gates))
	for i, gate := range g.gates {
		keys[i] = gate.key
	}
	return keys
}

// gate is one cheap read that tells whether views may have changed.
type gate struct {
	key    string
	family config.Kind // of the parts behind it: services for the whole catalog, or consul-kv
	scope  scope
	// everyNamespace is set where the gate stands for all namespaces of the
	// datacenter.
	everyNamespace bool
	request        request

	// view is set where the gate is the only view behind it.
	view *view
	// byDigest is set where the index of the view is no good, so that what it
	// shows is the mark.
	byDigest bool
	// instead are the views to read where access control closes the gate.
	instead []view
}

// nothing is a filter that no element passes: a gate is read for its index.
func nothing(field string) url.Values {
	return url.Values{"filter": {fmt.Sprintf(`%[1]s == "" and %[1]s != ""`, field)}}
}

// The gates of a catalog, and what they are good for, were measured (the tests
// do it again). Polled, catalog/nodes moves with every registration and every
// change of a node or an instance; what it does not move with is the status of
// checks, which is what health/state/critical does. Blocked on, catalog/nodes
// sleeps through changes of instances and health/state/critical through checks
// that pass, so that catalog/services and health/state/any are needed.

func nodesGate(s scope) gate {
	s.namespace = ""
	return gate{
		key: "nodes" + s.String(), family: config.KindServices, scope: s, everyNamespace: true,
		request: request{act: "watch the nodes" + s.String(), needs: "node:read", path: "/v1/catalog/nodes",
			scope: s, query: nothing("Node"), partitionOnly: true},
	}
}

func checksGate(s scope, state string) gate {
	return gate{
		key: "checks-" + state + s.String(), family: config.KindServices, scope: s,
		request: request{act: "watch the health checks" + s.String(), needs: "service:read and node:read",
			path: "/v1/health/state/" + state, scope: s, query: nothing("Node")},
	}
}

func servicesGate(s scope) gate {
	return gate{
		key: "services" + s.String(), family: config.KindServices, scope: s,
		request: request{act: "watch the names of services" + s.String(), needs: "service:read",
			path: "/v1/catalog/services", scope: s, query: nothing("ServiceName")},
	}
}

func keysGate(s scope, views []view) gate {
	return gate{
		key: "keys" + s.String(), family: config.KindConsulKV, scope: s, instead: views,
		request: request{act: "watch the KV store" + s.String(), needs: "key:list on all keys",
			path: "/v1/kv/", scope: s, query: url.Values{"keys": {""}, "separator": {"/"}}, missing: true},
	}
}

// viewGate is a view that is its own gate.
func viewGate(v view, byDigest bool) gate {
	family := config.KindServices
	if v.kind == keyView || v.kind == prefixView {
		family = config.KindConsulKV
	}
	sum := sha256.Sum256([]byte(encode(strconv.Itoa(int(v.kind)), v.name, v.filter, v.nodeMeta)))
	g := gate{
		key: "view-" + hex.EncodeToString(sum[:8]) + v.scope.String(), family: family, scope: v.scope,
		request: v.request(), view: &v, byDigest: byDigest, instead: []view{v},
	}
	if v.kind == prefixView {
		// The keys alone have the same index, without the values.
		g.request.query = url.Values{"keys": {""}, "separator": {"/"}}
	}
	return g
}

// PollGates returns the gates to Poll for these queries: two for a catalog and
// one for a KV store, whatever is read of them. A single view is read itself.
func PollGates(queries []Query) GateSet {
	set := GateSet{}
	for _, b := range behindGates(queries) {
		switch {
		case b.all == 1:
			set.add(viewGate(b.views[0], true))
		case b.family == config.KindConsulKV:
			set.add(keysGate(b.scope, b.views))
		default:
			set.add(nodesGate(b.scope))
			set.add(checksGate(b.scope, "critical"))
		}
	}
	return set
}

// BlockGates returns the gates to Watch for these queries: three for a catalog
// and one for a KV store. A few keys are held open themselves, so that others'
// keys, such as Terraform's state, wake nobody.
func BlockGates(queries []Query) GateSet {
	const few = 3
	set := GateSet{}
	for _, b := range behindGates(queries) {
		switch {
		case b.family == config.KindConsulKV && b.all <= few:
			for _, v := range b.views {
				set.add(viewGate(v, false))
			}
		case b.family == config.KindConsulKV:
			set.add(keysGate(b.scope, b.views))
		default:
			set.add(nodesGate(b.scope))
			set.add(servicesGate(b.scope))
			set.add(checksGate(b.scope, "any"))
		}
	}
	return set
}

// add adds a gate, unless another scope has it too.
func (g *GateSet) add(n gate) {
	if !slices.ContainsFunc(g.gates, func(have gate) bool { return have.key == n.key }) {
		g.gates = append(g.gates, n)
	}
}

// behind is what is read of one catalog or one KV store.
type behind struct {
	family config.Kind
	scope  scope
	views  []view // known beforehand, each once
	all    int    // how many views there are; a regular expression chooses many
}

func behindGates(queries []Query) []*behind {
	type place struct {
		family config.Kind
		scope  scope
	}
	var list []*behind
	at := map[place]*behind{}
	seen := map[view]bool{}
	for _, q := range queries {
		for _, p := range q.parts {
			where := place{p.family(), p.scope}
			b := at[where]
			if b == nil {
				b = &behind{family: where.family, scope: where.scope}
				at[where] = b
				list = append(list, b)
			}
			for _, v := range p.views() {
				if !seen[v] {
					seen[v] = true
					b.views = append(b.views, v)
					b.all++
				}
			}
			if p.byRegexp() {
				b.all += 2
			}
		}
	}
	return slices.DeleteFunc(list, func(b *behind) bool { return b.all == 0 })
}

// family is the kind of gate that the part is behind.
func (p part) family() config.Kind {
	if p.kind == config.KindConsulKV {
		return config.KindConsulKV
	}
	return config.KindServices
}

// concerns reports whether the part is behind the gate.
func (g gate) concerns(p part) bool {
	if g.view != nil {
		return !p.byRegexp() && slices.Contains(p.views(), *g.view)
	}
	return g.family == p.family() && g.scope.datacenter == p.scope.datacenter &&
		(g.everyNamespace || g.scope.namespace == p.scope.namespace)
}

// Moved returns which queries may show something else than when before was
// taken. What is not known, or has no mark, may have.
func (g GateSet) Moved(before, after Marks) func(Query) bool {
	moved := make([]bool, len(g.gates))
	for i, gate := range g.gates {
		mark := after[gate.key]
		moved[i] = mark == "" || mark != before[gate.key]
	}
	return func(q Query) bool {
		return slices.ContainsFunc(q.parts, func(p part) bool {
			unguarded := len(p.views())
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
				case !gate.everyNamespace: // that one never stands alone
					unguarded = 0
				}
			}
			return unguarded > 0
		})
	}
}

// Poll reads all gates. Where some cannot be read, it returns the marks of the
// others together with the errors; without a mark, a gate counts as moved.
func (c *Client) Poll(ctx context.Context, g GateSet) (Marks, error) {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		marks = Marks{}
		errs  = make([]error, len(g.gates))
	)
	for i, gate := range g.gates {
		wg.Go(func() {
			mark, _, err := c.mark(ctx, gate)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				marks[gate.key] = mark
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return marks, joined(errs)
}

// mark reads a gate at once. The index is 0 where there is none to wait for.
func (c *Client) mark(ctx context.Context, g gate) (mark string, index uint64, err error) {
	if g.byDigest {
		mark, err = c.digestMark(ctx, g.instead)
		return mark, 0, err
	}
	a, err := c.get(ctx, g.request, nil)
	if IsForbidden(err) && len(g.instead) > 0 {
		mark, err = c.digestMark(ctx, g.instead)
		return mark, 0, err
	}
	if err != nil {
		return "", 0, err
	}
	return indexMark(a.index), a.index, nil
}

// indexMark is "", which equals nothing, for an answer without an index.
func indexMark(index uint64) string {
	if index == 0 {
		return ""
	}
	return "index " + strconv.FormatUint(index, 10)
}

// digestMark is a digest of what the views show.
func (c *Client) digestMark(ctx context.Context, views []view) (string, error) {
	r := newReading(c, view.elements)
	r.loadViews(ctx, views)
	var elements []element
	for _, v := range views {
		l := r.loaded[v]
		if l.err != nil {
			return "", l.err
		}
		elements = append(elements, l.value...)
	}
	return "digest " + observation(elements).Digest[:32], nil
}
