package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// services are what Consul knows of. Each is watched by a task of its name.
var services = []string{"web", "api", "db", "report", "extra"}

// queryOf maps queries to the services that they ask about.
var queryOf = func() map[string]string {
	ids := map[string]string{}
	add := func(t *config.Task) {
		q, _ := consul.ConditionQuery(t)
		ids[q.ID()] = serviceOf(t.Name)
		for _, q := range consul.InputQueries(t) {
			ids[q.ID()] = serviceOf(t.Name)
		}
	}
	for _, b := range bundles {
		for i := range b.config.Tasks {
			add(&b.config.Tasks[i])
		}
	}
	for _, definition := range slices.Concat(made, onDocuments(made), ofPeer(made)) {
		t, err := new(config.Config).Parse(definition)
		if err != nil {
			panic(err)
		}
		add(t)
	}
	return ids
}()

var errConsulGone = errors.New("no cluster leader")

// server is Consul.
type server struct {
	names   []string          // of services that change
	digests map[string]string // what it says of each service
	before  map[string]string // what it said before
	closed  map[string]bool   // services that cannot be read
	shut    string            // one that cannot be read before the faults end; "" if there is none
	gone    bool
	failing int // the first of its gates, which cannot be read
	index   int // of the gates
	count   int
	watches []chan struct{} // receive when a gate moves

	cluster  string                    // its identity
	earlier  *consulCluster            // that answered before; nil if there was none
	replaced int                       // how often
	lost     map[string]map[string]int // by service: entries that are gone since that replacement

	docs *documents // nil unless tasks watch documents
}

func (s *server) init() {
	s.names = services
	s.digests, s.before, s.closed = map[string]string{}, map[string]string{}, map[string]bool{}
	for _, service := range services {
		s.digests[service] = "d0"
	}
	s.before = maps.Clone(s.digests)
	s.index, s.lost = 1000, map[string]map[string]int{}
	for _, service := range services {
		s.lost[service] = map[string]int{}
	}
}

// fill has every service show entries, as in a history with rules.
func (s *server) fill(w *world) {
	for _, service := range services {
		s.digests[service] = w.someData()
	}
	s.before = maps.Clone(s.digests)
	s.learn()
	if w.rng.IntN(4) > 0 {
		s.cluster = "cluster 0"
	}
	if w.crosses {
		s.index = 20 // a new Consul, which may be replaced by one with a higher index
		if w.rng.IntN(4) == 0 {
			s.cluster, s.shut = "", services[w.rng.IntN(len(services))]
		}
	}
}

// change changes a service.
func (s *server) change(w *world) {
	s.set(w, s.names[w.rng.IntN(len(s.names))])
}

func (s *server) set(w *world, service string) {
	if w.shrinks && !w.settled(service) {
		return
	}
	s.count++
	s.before[service] = s.digests[service]
	if s.digests[service] = fmt.Sprintf("d%d", s.count%5); w.ruled {
		s.digests[service] = w.nextData(s.before[service])
		if w.shrinks {
			s.digests[service] = w.shrunk(service)
		}
	} else if s.docs != nil && s.count%5 == 4 {
		s.digests[service] = none
	}
	s.found(service)
	s.learn()
	if !w.chance(w.weather.still) {
		s.index++
		s.forget(w)
		s.moved()
	}
	w.note("%s is %s now (index %d)", service, s.digests[service], s.index)
}

// weather closes and opens what can be read, and has the index jump.
func (s *server) weather(w *world) {
	switch w.rng.IntN(4) {
	case 0:
		service := s.names[w.rng.IntN(len(s.names))]
		s.close(service, w.chance(w.weather.unread*3))
		w.note("%s can be read: %v", service, !s.closed[service])
	case 1:
		s.gone = !s.gone && w.chance(300)
		w.note("Consul answers: %v", !s.gone)
	case 2: // restored from a backup, perhaps to the very index of before
		s.index -= w.rng.IntN(3)
		if s.docs != nil { // a restored Consul ends its blocking queries
			s.moved()
		}
		w.note("Consul's index is %d", s.index)
	case 3:
		s.index++
		s.forget(w)
	}
}

// close takes the right to read a service, or gives it.
func (s *server) close(service string, closed bool) {
	if s.docs != nil && s.closed[service] != closed {
		s.docs.rights[service]++
	}
	s.closed[service] = closed
}

func (s *server) clear(w *world) {
	s.gone, s.closed = false, map[string]bool{}
}

// comeBack has the data return that guards miss, where nobody approves: then the tasks
// are released, as judge.unsettled checks.
func (s *server) comeBack(w *world) {
	for _, task := range w.tasks() {
		record, service := w.judge.tasks[task], serviceOf(task)
		wait := record.Waits()
		held := wait != nil && wait.Guards() || w.judge.last.Replaced != nil && record.Reason.Code == state.ReasonReplaced
		if w.absent && held && record.Applied.Digest != "" && !w.shrinks {
			s.digests[service] = record.Applied.Digest
			s.found(service)
			s.learn()
			s.index++
			w.note("%s is %s again", service, record.Applied.Digest)
		}
	}
}

// read is what a read of a service shows.
func (s *server) read(w *world, service string) (string, error) {
	switch {
	case s.gone:
		return "", errConsulGone
	case s.closed[service] || w.faults && service == s.shut || w.chance(w.weather.unread):
		return "", errors.New("permission denied")
	case w.chance(w.weather.stale):
		return s.before[service], nil
	}
	return s.digests[service], nil
}

// eyes are Consul as a process sees it.
type eyes struct {
	*process
	act *act
}

// Poll implements reconcile.Consul.
func (e eyes) Poll(ctx context.Context, gates consul.GateSet) (consul.Marks, error) {
	if e.act != nil {
		e.act.seen = nil // of an earlier tick
	}
	if e.consul.docs != nil {
		return e.client().Poll(context.WithValue(ctx, readKey{}, "poll"), gates)
	}
	type polled struct {
		marks consul.Marks
		err   error
	}
	got, err := ask(ctx, e.process, consulServer, "poll", func() (polled, error) {
		got, errs := polled{marks: consul.Marks{}}, make([]error, gates.Len())
		for i, key := range gates.Keys() {
			if e.consul.failing > 0 && (e.consul.gone || i < e.consul.failing) {
				errs[i] = errConsulGone
				got.err = gates.Failed(errs)
				continue
			}
			if e.consul.gone || e.chance(e.weather.unread/4) {
				got.err = errConsulGone
				continue
			}
			got.marks[key] = fmt.Sprint("index ", e.consul.index)
		}
		return got, nil
	})
	return got.marks, errors.Join(got.err, err)
}

// Observe implements reconcile.Consul.
func (e eyes) Observe(ctx context.Context, queries []consul.Query) []consul.Answer {
	unread, seen := map[string]bool{}, map[string]string{} // of this read, however late the answer
	maps.Copy(seen, e.act.seen)                            // a tick reads again what others come after
	if e.act.unread, e.act.seen, e.act.consul = unread, seen, nil; len(queries) == 0 {
		return nil
	}
	if e.consul.docs != nil {
		return e.observeDocuments(ctx, queries)
	}
	answers, err := ask(ctx, e.process, consulServer, "observe", func() ([]consul.Answer, error) {
		e.meets()
		answers := make([]consul.Answer, len(queries))
		for i, q := range queries {
			service := queryOf[q.ID()]
			if first := slices.IndexFunc(queries, func(other consul.Query) bool { return queryOf[other.ID()] == service }); first < i {
				answers[i] = answers[first] // tasks of one family watch the same
				continue
			}
			digest, err := e.consul.read(e.world, service)
			if answers[i].Err = err; err != nil {
				e.note("    %s cannot be read", service)
				unread[service] = true
				continue
			}
			seen[service] = digest
			answers[i].Digest, answers[i].Elements = digest, elements(service, digest)
		}
		return answers, nil
	})
	if err != nil {
		answers = slices.Repeat([]consul.Answer{{Err: err}}, len(queries))
		for _, q := range queries {
			unread[queryOf[q.ID()]] = true
		}
	}
	return answers
}

// Snapshot implements runner.Consul.
func (e eyes) Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	if e.consul.docs != nil {
		return e.snapshotOfDocuments(ctx, t)
	}
	return ask(ctx, e.process, consulServer, "snapshot for "+t.Name, func() (*consul.Snapshot, error) {
		digest, err := e.consul.read(e.world, serviceOf(t.Name))
		if err != nil {
			return nil, err
		}
		snap := e.snapshot(t, digest)
		if e.remote {
			snap.Blocks = rendered(digest)
		}
		e.judge.rules.losses.read[snap] = e.consul.replaced
		return snap, nil
	})
}

// watch is a watch of Consul's gates. It shows what they are when it is asked.
type watch struct {
	eyes
	ctx   context.Context
	gates consul.GateSet
	moved chan struct{}
	shown consul.Marks
}

// C implements reconcile.Watch.
func (w watch) C() <-chan struct{} { return w.moved }

// Marks implements reconcile.Watch: in an outage, it shows what the gates showed before.
func (w watch) Marks() (consul.Marks, error) {
	marks, err := w.Poll(w.ctx, w.gates)
	for key := range w.shown {
		if marks[key] == "" && w.consul.failing > 0 && marks != nil {
			marks[key] = w.shown[key]
		}
	}
	maps.Copy(w.shown, marks)
	return marks, err
}
