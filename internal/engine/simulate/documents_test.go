package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In histories from documentSeeds on, tasks watch config entries, which have an index, and
// resources, which have none. Then Consul is read by the real client, over HTTP in memory:
// gates, polls by their interval, and the proof that what is missing is gone and not hidden.
// Each entry may be hidden from the token, and an answer may be cut short.
//
// The judge checks that only what Consul has shown is applied.

// documentSeeds is the first seed of such histories. The kinds of history repeat in it.
const documentSeeds = remoteSeeds / 2

// withDocuments is the first of the bundles of such histories: they are the others once more.
const withDocuments = 2 * withRemote

const (
	entriesPath   = "/v1/config/service-intentions"
	resourcesPath = "/api/demo/v2/"
)

// inConfigTable are the services whose documents are config entries; the others have resources.
var inConfigTable = map[string]bool{"web": true, "report": true}

// kindOf returns the kind of the resources of a service. Two intervals need two kinds: otherwise,
// the client sends the same request twice at the same time, and the order is not that of the seed.
func kindOf(service string) string {
	if service == "db" {
		return "album"
	}
	return "artist"
}

// documentsOf selects the documents of a service.
func documentsOf(service string) condition.Spec {
	if inConfigTable[service] {
		return condition.ConfigEntries{Of: "service-intentions", Regexp: "^" + service}
	}
	spec := condition.Resources{Group: "demo", Version: "v2", Of: kindOf(service), NamePrefix: service}
	if service == "db" {
		spec.Interval = time.Minute
	}
	return spec
}

// forDocuments returns the bundles once more, for documents.
func forDocuments(plain []bundle) []bundle {
	all := make([]bundle, len(plain))
	for i, b := range plain {
		cfg := *b.config
		cfg.Tasks = slices.Clone(cfg.Tasks)
		for n := range cfg.Tasks {
			t := &cfg.Tasks[n]
			if spec := documentsOf(t.Name); t.ModuleInputs != nil {
				t.ModuleInputs = []condition.Spec{spec}
			} else {
				t.Condition.Spec = spec
			}
		}
		all[i] = bundle{digest: "e" + b.digest[1:], config: &cfg}
	}
	return all
}

// onDocuments returns definitions of tasks once more, for resources.
func onDocuments(definitions []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, len(definitions))
	for i, d := range definitions {
		for _, name := range []string{"extra", "db"} {
			spec, _ := json.Marshal(documentsOf(name))
			d = bytes.ReplaceAll(d, fmt.Appendf(nil, `"services":{"names":[%q]}`, name), fmt.Appendf(nil, `"resources":%s`, spec))
		}
		all[i] = bytes.ReplaceAll(d, []byte(`"interval":60000000000`), []byte(`"interval":"1m"`))
	}
	return all
}

// documents is what the simulation knows of documents.
type documents struct {
	token string
	hides int                      // how often a right changes, in thousandths
	names map[string]string        // by service and digest of the client: the digest of the history
	shown map[string][]string      // by service: all that it has shown
	since map[*consul.Snapshot]int // the index in shown of the oldest that it may have

	rights map[string]int           // by service: how often its right has changed
	before map[*consul.Snapshot]int // how often it had changed when the run began to read
}

func (s *server) drawDocuments(w *world) {
	s.docs = &documents{token: []string{"", "token"}[w.rng.IntN(2)], hides: []int{0, 2, 10}[w.rng.IntN(3)], names: map[string]string{}, shown: map[string][]string{}, since: map[*consul.Snapshot]int{},
		rights: map[string]int{}, before: map[*consul.Snapshot]int{}}
	for _, service := range services {
		s.name(service, none)
	}
	s.learn()
}

// hide hides the documents of a service, or shows them again.
func (s *server) hide(w *world) {
	service := services[w.rng.IntN(len(services))]
	s.close(service, !s.closed[service])
	w.note("%s can be read: %v", service, !s.closed[service])
}

// none is the digest of every service that has no documents.
const none = "d0.0"

// learn takes note of what services show now.
func (s *server) learn() {
	if s.docs == nil {
		return
	}
	for _, service := range services {
		if len(elements(service, s.digests[service])) == 0 {
			s.digests[service] = none
		}
		digest, shown := s.digests[service], s.docs.shown[service]
		if len(shown) == 0 || shown[len(shown)-1] != digest {
			s.docs.shown[service] = append(shown, digest)
			s.name(service, digest)
		}
	}
}

// name takes note of the digest that a client makes of what a service shows.
func (s *server) name(service, digest string) {
	truth := newClient(roundTripper(func(r *http.Request) (*http.Response, error) {
		return s.list(r, map[string]string{service: digest}, nil), nil
	}), "")
	q, _ := consul.ConditionQuery(&config.Task{Condition: config.Condition{Spec: documentsOf(service)}})
	s.docs.names[service+truth.Observe(context.Background(), []consul.Query{q})[0].Digest] = digest
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newClient(t http.RoundTripper, token string) *consul.Client {
	c, err := consul.New(config.Consul{Address: "consul:8500", Token: token})
	if err != nil {
		panic(err)
	}
	return c.Over(t)
}

// client is the process's client of Consul.
func (e eyes) client() *consul.Client {
	if e.process.consulClient == nil {
		e.process.consulClient = newClient(roundTripper(e.roundTrip), e.consul.docs.token)
	}
	return e.process.consulClient
}

type readKey struct{}

// roundTrip sends a request to Consul. A blocking query waits until a gate moves.
func (e eyes) roundTrip(r *http.Request) (*http.Response, error) {
	what, _ := r.Context().Value(readKey{}).(string)
	moved := make(chan struct{}, 1)
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	if wait > 0 {
		e.mu.Lock()
		e.consul.watches = append(e.consul.watches, moved)
		e.mu.Unlock()
	}
	for until := time.Now().Add(wait); ; {
		resp, err := ask(r.Context(), e.process, consulServer, strings.TrimSpace(what+" "+r.URL.Path), func() (*http.Response, error) {
			return e.consul.answer(e.world, r), nil
		})
		if err != nil || resp.Header.Get("X-Consul-Index") != r.URL.Query().Get("index") || !time.Now().Before(until) {
			return resp, err
		}
		select {
		case <-moved:
		case <-time.After(time.Until(until)):
		case <-r.Context().Done():
		}
	}
}

// answer answers a request, with the faults of the history.
func (s *server) answer(w *world, r *http.Request) *http.Response {
	shown := s.digests
	switch {
	case s.gone:
		return s.respond(r, http.StatusInternalServerError, "No cluster leader")
	case w.chance(w.weather.unread):
		return s.respond(r, http.StatusTooManyRequests, "rate limit exceeded")
	case w.chance(w.weather.stale):
		shown = s.before
	}
	resp := s.list(r, shown, s.closed)
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode == http.StatusOK && w.chance(w.weather.unread/4) {
		resp.Body = io.NopCloser(bytes.NewReader(text[:w.rng.IntN(len(text))]))
	} else {
		resp.Body = io.NopCloser(bytes.NewReader(text))
	}
	return resp
}

// list answers a request without faults. What is closed is hidden.
func (s *server) list(r *http.Request, shown map[string]string, closed map[string]bool) *http.Response {
	entries, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, entriesPath), "/")
	inTable := strings.HasPrefix(r.URL.Path, "/v1/")
	kind := ""
	if !inTable {
		kind, name, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, resourcesPath), "/")
	}
	if inTable && entries != "" { // another kind: it is read for its index
		return s.respond(r, http.StatusNotFound, "Config entry not found")
	}
	list, hidden := []json.RawMessage{}, false
	for _, service := range services {
		if inConfigTable[service] != inTable || !inTable && kindOf(service) != kind || shown[service] == "" {
			continue
		}
		all := elements(service, shown[service])
		hides := closed[service] && (len(all) > 0 || name != "")
		hidden = hidden || hides
		if name != "" && hides && (strings.HasPrefix(name, service) || strings.HasPrefix(name, "terrapulse-")) {
			return s.respond(r, http.StatusForbidden, "Permission denied")
		}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			text := fmt.Sprintf(`{"Name": %q, "Value": %q, "ModifyIndex": %d}`, key, all[key], s.index)
			if !inTable {
				text = fmt.Sprintf(`{"id": {"name": %q, "uid": "%d"}, "data": {"value": %q}, "version": "%[2]d"}`, key, s.index, all[key])
			}
			switch {
			case key == name:
				return s.respond(r, http.StatusOK, text)
			case !hides:
				list = append(list, json.RawMessage(text))
			}
		}
	}
	var text []byte
	switch {
	case name != "" && inTable:
		return s.respond(r, http.StatusNotFound, "Config entry not found")
	case name != "":
		return s.respond(r, http.StatusNotFound, "rpc error: code = NotFound desc = resource not found")
	case inTable:
		text, _ = json.Marshal(list)
	default:
		text, _ = json.Marshal(map[string]any{"resources": list})
	}
	resp := s.respond(r, http.StatusOK, string(text))
	if hidden && inTable && r.Header.Get("X-Consul-Token") != "" {
		resp.Header.Set("X-Consul-Results-Filtered-By-ACLs", "true")
	}
	return resp
}

func (s *server) respond(r *http.Request, status int, text string) *http.Response {
	resp := &http.Response{Request: r, StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}
	if strings.HasPrefix(r.URL.Path, "/v1/") && status != http.StatusInternalServerError {
		resp.Header.Set("X-Consul-Index", strconv.Itoa(s.index))
	}
	return resp
}

// named names the digest that a client has made of a service.
func (d *documents) named(service, digest string) string {
	if name, ok := d.names[service+digest]; ok {
		return name
	}
	return digest
}

// observeDocuments is Observe with the real client.
func (e eyes) observeDocuments(ctx context.Context, queries []consul.Query) []consul.Answer {
	answers := e.client().Observe(context.WithValue(ctx, readKey{}, "observe"), queries)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, q := range queries {
		service := queryOf[q.ID()]
		if a := &answers[i]; a.Err != nil {
			e.act.unread[service] = true
		} else {
			a.Digest = e.consul.docs.named(service, a.Digest)
			e.act.seen[service] = a.Digest
		}
	}
	return answers
}

// snapshotOfDocuments is Snapshot with the real client.
func (e eyes) snapshotOfDocuments(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	d := e.consul.docs
	e.mu.Lock()
	began, rights, replaced := max(0, len(d.shown[t.Name])-2), d.rights[t.Name], e.consul.replaced
	e.mu.Unlock()
	snap, err := e.client().Snapshot(context.WithValue(context.WithValue(ctx, readKey{}, "snapshot for "+t.Name), taskKey{}, t.Name), t)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	snap.Condition.Digest = d.named(t.Name, snap.Condition.Digest)
	for i := range snap.Inputs {
		snap.Inputs[i].Digest = snap.Condition.Digest
	}
	d.since[snap], d.before[snap] = began, rights
	e.judge.rules.losses.read[snap] = replaced
	return snap, nil
}

// watchDocuments is the real client's watch.
func (e eyes) watchDocuments(ctx context.Context, gates consul.GateSet, since consul.Marks) reconcile.Watch {
	return e.client().Watch(context.WithValue(ctx, readKey{}, "poll"), gates, since)
}

// soon is within how long a change is applied that gates show: two intervals of the slowest
// resources, and the time of a tick and a run. All views are read every 5 minutes anyway.
const soon = 4 * time.Minute

// changeOnce changes what services show, once all is applied. It is applied soon.
func (w *world) changeOnce() {
	s := &w.consul
	for _, service := range services {
		if service != "report" { // runs by a schedule
			s.before[service], s.digests[service] = "d9", "d9"
		}
	}
	s.index += 100 // more than it was before it went back: no gate shows a change to the same index
	s.learn()
	s.moved()
	w.note("the services are d9 now (index %d)", s.index)
	for began := time.Now(); time.Since(began) < soon && w.broken == ""; {
		if w.home == inAWS {
			w.invoke(reconcile.TickOptions{})
		}
		if w.unhindered(30 * time.Second); w.unsettled() == "" {
			return
		}
	}
	w.violated("a change that gates show is applied soon: %s after it %s", soon, w.unsettled())
}

// showed checks that what a run applies was in Consul since it was read. If the right to read it
// has changed twice meanwhile, what was hidden may look as if it were gone: it was hidden in each
// read, and could be read for the proof between them.
func (j *judge) showed(p *process, task, run string, snap *consul.Snapshot) {
	d := p.consul.docs
	if d == nil {
		return
	}
	if snap.Condition.Digest == none && d.rights[task]-d.before[snap] >= 2 {
		return
	}
	if had := d.shown[task][d.since[snap]:]; !slices.Contains(had, snap.Condition.Digest) {
		p.violated("only what Consul shows is applied: run %s of %s applies %s, and Consul had %v", run, task, snap.Condition.Digest, had)
	}
}
