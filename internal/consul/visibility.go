package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/fault"
)

// Consul hides what a reader has no right to read, and does not tell a reader
// without a token that it does. So an entry that is missing from an answer is
// gone only if the reader is known to have the right to read it. Some requests
// are denied instead of filtered: Confirm makes those. They go to the server
// that also answers the reads; /v1/internal/acl/authorize does not, a client
// agent answers it from a cache.

// anonymous is the secret of the token that Consul uses for requests without one.
const anonymous = "anonymous"

// anyName is a name that no policy is written for. Who may read it may read
// every name that no rule of its own denies. It is always the same, as it
// stands in errors that are stored.
const anyName = "terrapulse-asks-for-any-name"

// Visibility is what a reading showed, and finds out whether Consul's access
// control hides more. A nil Visibility confirms everything.
type Visibility struct {
	client   *Client
	parts    []part
	shown    [][]source
	empty    []emptyView
	filtered []view // that show something

	// confirmed are the questions whose answer is yes. All that is read together
	// shares them: where a node has gone, many tasks ask about it.
	confirmed *sync.Map
}

// emptyView is a view that shows nothing of a part.
type emptyView struct {
	view
	part     part
	filtered bool
}

// source is one thing that a view shows: an instance's service and node, a
// service's name, or a key.
type source struct {
	scope              scope
	service, node, key string
}

func (s source) String() string {
	fields := []string{s.scope.datacenter, s.scope.namespace, s.service, s.node, s.key}
	for i := range fields {
		fields[i] = url.PathEscape(fields[i])
	}
	return strings.Join(fields, "/")
}

func parseSource(text string) (source, error) {
	fields := strings.Split(text, "/")
	if len(fields) != 5 {
		return source{}, fmt.Errorf("source %q has %d fields instead of 5", text, len(fields))
	}
	for i := range fields {
		var err error
		if fields[i], err = url.PathUnescape(fields[i]); err != nil {
			return source{}, fmt.Errorf("source %q: %w", text, err)
		}
	}
	return source{scope{fields[0], fields[1]}, fields[2], fields[3], fields[4]}, nil
}

// words describe the source in an error.
func (s source) words() string {
	switch {
	case s.service == "":
		return fmt.Sprintf("key %q%s", s.key, s.scope)
	case s.node == "":
		return fmt.Sprintf("service %q%s", s.service, s.scope)
	}
	return fmt.Sprintf("service %q on node %q%s", s.service, s.node, s.scope)
}

// visibility tells what was loaded of the parts, which must be complete.
func (r *reading[T]) visibility(parts []part) (*Visibility, error) {
	v := &Visibility{client: r.client, parts: parts, confirmed: &r.confirmed}
	for _, p := range parts {
		views, err := r.viewsOf(p)
		if err != nil {
			return nil, err
		}
		if p.byRegexp() {
			names := p.views()[0]
			if r.loaded[names].filtered {
				v.filtered = append(v.filtered, names)
			}
			nothing := true
			for _, service := range views {
				nothing = nothing && len(r.loaded[service].sources) == 0
			}
			if nothing {
				v.empty = append(v.empty, emptyView{names, p, r.loaded[names].filtered})
			}
		}
		for _, seen := range views {
			l := r.loaded[seen]
			shown := l.sources
			if p.kind == config.KindCatalogServices {
				shown = slices.DeleteFunc(slices.Clone(shown), func(s source) bool { return !p.regexp.MatchString(s.service) })
			}
			v.shown = append(v.shown, shown)
			if l.filtered {
				v.filtered = append(v.filtered, seen)
			}
			if len(shown) == 0 && !p.byRegexp() {
				v.empty = append(v.empty, emptyView{seen, p, l.filtered})
			}
		}
	}
	return v, nil
}

// set returns all that the reading showed.
func (v *Visibility) set() map[source]bool {
	n := 0
	for _, shown := range v.shown {
		n += len(shown)
	}
	all := make(map[source]bool, n)
	for _, shown := range v.shown {
		for _, s := range shown {
			all[s] = true
		}
	}
	return all
}

// Sources are what the reading showed, sorted, in a form that can be stored.
// A later reading is compared with them by Confirm.
func (v *Visibility) Sources() []string {
	if v == nil {
		return nil
	}
	var sources []string
	for _, shown := range v.shown {
		for _, s := range shown {
			sources = append(sources, s.String())
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// Hidden says what access control hides from the token beside what it shows,
// or is "". Consul says so only to readers with a token.
func (v *Visibility) Hidden() string {
	if v == nil || len(v.filtered) == 0 {
		return ""
	}
	r := v.filtered[0].request()
	more := ""
	if n := len(v.filtered) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s%s: Consul's access control hides a part of it from the token (consul.token, CONSUL_HTTP_TOKEN); "+
		"to read everything it needs %s", r.act, more, r.needs)
}

// Confirm returns an error, for which IsForbidden may hold, unless it is known
// that everything that was there before and is missing now is gone, and that
// what shows nothing is empty. before are the Sources of what was last applied.
// It costs nothing unless something is missing or empty.
func (v *Visibility) Confirm(ctx context.Context, before []string) error {
	if v == nil {
		return nil
	}
	shown := v.set()
	// What is visible proves the right to its service and to its node. Nothing
	// needs a proof as long as nothing is missing.
	proven := sync.OnceValue(func() map[source]bool {
		all := map[source]bool{}
		for s := range shown {
			if s.node != "" {
				all[source{scope: s.scope, service: s.service}] = true
				all[source{scope: s.scope, node: s.node}] = true
			}
		}
		return all
	})
	var questions []question
	asked := map[question]bool{}
	ask := func(kind questionKind, in scope, name, missing string) {
		q := question{kind: kind, scope: in, name: name}
		if _, known := v.confirmed.Load(q); !known && !asked[q] {
			asked[q] = true
			q.missing = missing
			questions = append(questions, q)
		}
	}
	tokenless := v.client.Tokenless()
	var known []source
	services := map[source]bool{} // among known
	for _, text := range before {
		s, err := parseSource(text)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(v.parts, s.of) {
			continue
		}
		if len(v.empty) > 0 {
			known = append(known, s)
			if s.node != "" {
				services[source{scope: s.scope, service: s.service}] = true
			}
		}
		if shown[s] {
			continue
		}
		missing := s.words() + ", which was applied,"
		if s.key != "" {
			ask(aKey, s.scope, s.key, missing)
			continue
		}
		if !proven()[source{scope: s.scope, service: s.service}] {
			ask(aService, s.scope, s.service, missing)
		}
		switch {
		case s.node == "" && (tokenless || len(v.filtered) > 0):
			ask(anyNode, s.scope, "", missing)
		case s.node != "" && !proven()[source{scope: s.scope, node: s.node}]:
			ask(aNode, s.scope, s.node, missing)
		}
	}
	for _, e := range v.empty {
		// What was applied is asked for by name above.
		if e.kind == serviceView && services[source{scope: e.scope, service: e.name}] ||
			e.kind != serviceView && slices.ContainsFunc(known, func(s source) bool { return s.of(e.part) }) {
			continue
		}
		switch e.kind {
		case serviceView:
			missing := fmt.Sprintf("service %q%s", e.name, e.scope)
			ask(aService, e.scope, e.name, missing)
			if tokenless {
				ask(anyNode, e.scope, "", missing)
			}
		case namesView:
			if missing := "every service that the task selects" + e.scope.String(); tokenless || e.filtered {
				ask(anyService, e.scope, "", missing)
				ask(anyNode, e.scope, "", missing)
			}
		case prefixView:
			if tokenless {
				ask(anyKey, e.scope, e.name, fmt.Sprintf("every key with prefix %q%s", e.name, e.scope))
			}
		}
	}
	return v.client.answerAll(ctx, questions, v.confirmed)
}

// of reports whether the part would show the source if it was there.
func (s source) of(p part) bool {
	if p.scope != s.scope {
		return false
	}
	switch p.kind {
	case config.KindServices:
		if p.regexp != nil {
			return s.node != "" && p.regexp.MatchString(s.service)
		}
		_, listed := slices.BinarySearch(p.names, s.service)
		return s.node != "" && listed
	case config.KindCatalogServices:
		return s.service != "" && s.node == "" && p.regexp.MatchString(s.service)
	}
	// A single key that may not be read is an error already.
	return s.key != "" && p.recurse && strings.HasPrefix(s.key, p.path)
}

// question is one right of the reader that is to be confirmed.
type question struct {
	scope   scope
	kind    questionKind
	name    string // of the service, node or key, or the prefix of anyKey
	missing string // what the answer is needed for, for errors; not part of the question
}

type questionKind int

const (
	aService questionKind = iota
	aNode
	aKey
	anyService // of any name: anyName is asked for
	anyNode
	anyKey // with the prefix
)

// answerAll returns the first error, in the order of the questions. It adds
// those whose answer is yes to confirmed.
func (c *Client) answerAll(ctx context.Context, questions []question, confirmed *sync.Map) error {
	var (
		mu   sync.Mutex
		next int
		wg   sync.WaitGroup
		errs = make([]error, len(questions))
		stop bool
	)
	for range min(maxReads, len(questions)) {
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(questions) && !stop {
				i := next
				next++
				mu.Unlock()
				q := questions[i]
				err := c.answer(ctx, q)
				if q.missing = ""; err == nil {
					confirmed.Store(q, true)
				}
				mu.Lock()
				errs[i] = err
				stop = stop || err != nil
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// answer returns nil if the reader has the right.
func (c *Client) answer(ctx context.Context, q question) error {
	name := q.name
	r := request{act: "confirm that " + q.missing + " is gone and not hidden", scope: q.scope}
	switch q.kind {
	case aService, anyService:
		r.needs = fmt.Sprintf("service:read on %q", name)
		if q.kind == anyService {
			name, r.needs = anyName, "service:read on all services"
		}
		// Consul answers 403 here if the reader may not read the service.
		r.path, r.query = "/v1/health/connect/"+name, nothing("Node.Node")
	case aNode, anyNode:
		r.needs = fmt.Sprintf("node:read on %q", name)
		if q.kind == anyNode {
			name, r.needs = anyName, "node:read on all nodes"
		}
		return c.mayReadNode(ctx, r, name)
	default:
		r.needs = fmt.Sprintf("key:read on %q", name)
		if q.kind == anyKey {
			name, r.needs = name+anyName, fmt.Sprintf("key:read on prefix %q", name)
		}
		return c.mayReadKey(ctx, r, name)
	}
	return c.read(ctx, r, nil)
}

// mayReadKey reads the key. One whose name a path cannot hold is read in a
// transaction: the answer has an element for a key that does not exist, and none
// for one that may not be read.
func (c *Client) mayReadKey(ctx context.Context, r request, key string) error {
	byPath := r
	byPath.path, byPath.missing = "/v1/kv/"+key, true
	if err := c.read(ctx, byPath, nil); !errors.Is(err, badQuery) {
		return err
	}
	op := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key,
		Namespace: cmp.Or(r.scope.namespace, c.resolved.Namespace), Partition: c.resolved.Partition}}
	body, err := json.Marshal(api.TxnOps{op})
	if err != nil {
		return err
	}
	r.path, r.body = "/v1/txn", body
	var resp api.TxnResponse
	if err := c.read(ctx, r, func(d *json.Decoder) error { return d.Decode(&resp) }); err != nil {
		return err
	}
	for _, e := range resp.Errors {
		return c.statusError(r.act, http.StatusConflict, e.What, r.needs)
	}
	if len(resp.Results) == 0 {
		return c.denied(r)
	}
	return nil
}

// mayReadNode asks for the node's coordinates: the one request about a node
// that Consul denies instead of filtering. Where coordinates are switched off,
// the agent is asked.
func (c *Client) mayReadNode(ctx context.Context, r request, node string) error {
	byAgent := r
	r.path, r.partitionOnly, r.missing = "/v1/coordinate/node/"+node, true, true
	err := c.read(ctx, r, nil)
	if err == nil || fault.IsTransient(err) || IsForbidden(err) && !errors.Is(err, errNoCoordinates) {
		return err
	}
	body, err := json.Marshal([]map[string]string{{"Resource": "node", "Access": "read", "Segment": node}})
	if err != nil {
		return err
	}
	byAgent.path, byAgent.method, byAgent.body = "/v1/internal/acl/authorize", http.MethodPost, body
	var answers []struct{ Allow bool }
	err = c.read(ctx, byAgent, func(d *json.Decoder) error { return d.Decode(&answers) })
	switch {
	case errors.Is(err, errNoACL):
		return nil
	case err == nil && (len(answers) != 1 || !answers[0].Allow):
		return c.denied(r)
	}
	return err
}

// denied is the error where an answer shows that the reader lacks a right.
func (c *Client) denied(r request) error {
	return &readError{act: r.act, address: c.address, kind: forbidden, cause: errors.New("permission denied"), advice: c.lacks(r.needs)}
}

// Right is what a look-up that shows nothing needs.
type Right struct {
	Datacenter, Namespace string
	Service, Node         string // "*" stands for all
	Prefix                *string
}

// Access says in words what a person should know about the rights of a client
// without a token, "" if there is nothing to say.
func (c *Client) Access(ctx context.Context) string {
	if !c.Tokenless() {
		return ""
	}
	err := c.read(ctx, request{act: "ask whose token is used", needs: "nothing", path: "/v1/acl/token/self"}, nil)
	if err == nil && c.resolved.Token == "" || err != nil && !errors.Is(err, errUnknownToken) {
		return "" // access control is off, or the agent has a default token
	}
	return "Consul's access control is on and there is no token (consul.token, CONSUL_HTTP_TOKEN): " +
		"what Consul's anonymous token may not read cannot be read, and tasks that need it wait; see docs/acl.md"
}

// MayRead returns an error for which IsForbidden holds if the reader lacks a
// right, so that an empty answer proves nothing.
func (c *Client) MayRead(ctx context.Context, what string, rights ...Right) error {
	var questions []question
	for _, r := range rights {
		q := question{scope: scope{r.Datacenter, r.Namespace}, missing: what}
		switch {
		case r.Service == "*":
			q.kind = anyService
		case r.Service != "":
			q.kind, q.name = aService, r.Service
		case r.Node == "*":
			q.kind = anyNode
		case r.Node != "":
			q.kind, q.name = aNode, r.Node
		default:
			q.kind, q.name = anyKey, *r.Prefix
		}
		questions = append(questions, q)
	}
	return c.answerAll(ctx, questions, new(sync.Map))
}

// Tokenless reports whether Consul takes the client for anonymous, or for
// whomever the agent's own default token belongs to.
func (c *Client) Tokenless() bool { return c.resolved.Token == "" || c.resolved.Token == anonymous }

// lacks is the advice where a right is missing.
func (c *Client) lacks(needs string) string {
	if c.Tokenless() {
		return "there is no token (consul.token, CONSUL_HTTP_TOKEN): set one that has " + needs + ", see docs/acl.md"
	}
	return "the token (consul.token, CONSUL_HTTP_TOKEN) needs " + needs
}

// sources are what the view shows.
func (v view) sources(got contents) []source {
	var all []source
	switch v.kind {
	case serviceView:
		for _, i := range got.instances {
			all = append(all, source{scope: v.scope, service: v.name, node: i.Node.Node})
		}
		slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.node, b.node) })
		all = slices.Compact(all)
	case namesView:
		for _, name := range slices.Sorted(maps.Keys(got.names)) {
			all = append(all, source{scope: v.scope, service: name})
		}
	default:
		for _, p := range got.pairs {
			all = append(all, source{scope: v.scope, key: p.Key})
		}
	}
	return all
}
