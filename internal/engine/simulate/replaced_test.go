package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In some histories with rules, Consul is replaced: another cluster answers at the
// address, and most entries are gone. Then the judge checks that a task loses none of
// these entries without a person's approval.

// cluster of Consul servers, with its data.
type consulCluster struct {
	name    string // "" where Connect is off
	index   int
	digests map[string]string
}

const identify = "identify Consul"

// identity is what a read of Consul's identity shows.
func (s *server) identity() state.Identity {
	return state.Identity{Cluster: s.cluster, Index: uint64(s.index)}
}

// replace has another cluster answer at Consul's address: a new one, which lacks most
// entries, or the earlier one.
func (s *server) replace(w *world) {
	earlier := s.earlier
	s.earlier = &consulCluster{s.cluster, s.index, maps.Clone(s.digests)}
	s.replaced++
	was := maps.Clone(s.digests)
	if earlier != nil && w.rng.IntN(3) == 0 {
		s.cluster, s.index, s.digests = earlier.name, earlier.index+1, maps.Clone(earlier.digests)
	} else {
		if s.index = 10 + w.rng.IntN(20); s.cluster != "" {
			s.cluster = fmt.Sprint("cluster ", s.replaced)
		}
		for _, service := range services {
			switch w.rng.IntN(4) {
			case 0: // its data was restored
			case 1:
				s.digests[service] = w.someData()
			default:
				s.digests[service] = fmt.Sprintf("d%d.%d", w.rng.IntN(3), w.rng.IntN(3))
			}
		}
	}
	before, known := w.judge.identified()
	for _, service := range services {
		now := elements(service, s.digests[service])
		for name := range elements(service, was[service]) {
			// What was not identified before, and what has no other identity, cannot be seen.
			if _, there := now[name]; !there && known && before.Replaced(s.identity()) != "" {
				s.lost[service][name] = s.replaced
			}
		}
		s.found(service)
	}
	s.learn()
	s.forget(w)
	if w.rng.IntN(3) == 0 { // its rights are not there yet
		s.close(services[w.rng.IntN(len(services))], true)
	}
	s.before = maps.Clone(s.digests)
	w.note("Consul is %q now (index %d), with %v", s.cluster, s.index, s.digests)
	s.moved()
}

// forget drops what was lost if nothing shows it any more: nobody has seen that Consul was
// replaced, and its index is as high as before. While tasks are held on because an earlier Consul was
// replaced, that is so for all others.
func (s *server) forget(w *world) {
	replaced := w.judge.last.Replaced
	if before, _ := w.judge.identified(); s.cluster != "" || replaced.HoldsAll() || before.Replaced(s.identity()) != "" {
		return
	}
	for _, service := range services {
		if replaced == nil || !w.heldOn(service) {
			clear(s.lost[service])
		}
	}
}

// heldOn reports whether it is not known what a task of a service loses by a replaced Consul.
func (w *world) heldOn(service string) bool {
	for key, record := range w.memory.records {
		if name, ok := strings.CutPrefix(key, state.TaskPrefix); ok && serviceOf(name) == service {
			if decoded[state.Task](record.Value).Unconfirmed {
				return true
			}
		}
	}
	return false
}

// asked is how much likelier than usual Consul is replaced: a process is about to read
// what it shows, or which one it is.
func (s *server) asked(w *world) int {
	if slices.ContainsFunc(w.pending, func(r *request) bool {
		return operation(r.label) == "snapshot" || operation(r.label) == "observe" || r.label == identify
	}) {
		return 5
	}
	return 1
}

// found takes note of the entries that a service shows.
func (s *server) found(service string) {
	for name := range elements(service, s.digests[service]) {
		delete(s.lost[service], name)
	}
}

// moved wakes those that watch a gate.
func (s *server) moved() {
	for _, moved := range s.watches {
		select {
		case moved <- struct{}{}:
		default:
		}
	}
}

// Identify implements reconcile.Consul.
func (e eyes) Identify(ctx context.Context, place string) (state.Identity, error) {
	if !e.ruled || place != e.judge.place { // no other Consul is replaced
		return state.Identity{}, nil
	}
	id, err := ask(ctx, e.process, consulServer, identify, func() (state.Identity, error) {
		if e.consul.gone {
			return state.Identity{}, errConsulGone
		}
		return e.consul.identity(), nil
	})
	if e.act != nil && err == nil {
		e.act.consul = &id
	}
	return id, err
}

// approveAll has somebody approve what all tasks lose by a replaced Consul.
func (w *world) approveAll() {
	n := w.rng.IntN(4 * len(names))
	by := whoIs(names[n%len(names)], n >= len(names) || !w.faults)
	w.person(by.Name+" approves what a replaced Consul has lost", "", func(ctx context.Context, c *control.Control) error {
		return c.ApproveAll(ctx, by, "")
	})
}

// losses is what the judge knows of entries that are gone with a replaced Consul.
type losses struct {
	consul  state.Identity                         // that a tick identified last that read everything
	read    map[*consul.Snapshot]int               // how often Consul was replaced before
	shown   map[string]map[string]state.Attempt    // by digest of what is held: by task
	granted map[string]map[state.Attempt]time.Time // by task: until when; zero for no limit
	given   map[string]map[state.Attempt][]givenAt // by task: by those who have approved what all tasks lose
}

func (l *losses) init() {
	l.read, l.shown, l.granted = map[*consul.Snapshot]int{}, map[string]map[string]state.Attempt{}, map[string]map[state.Attempt]time.Time{}
	l.given = map[string]map[state.Attempt][]givenAt{}
}

// identified is the Consul that showed what was applied, as far as it was identified.
func (j *judge) identified() (id state.Identity, known bool) {
	if id, known = j.last.Consuls[j.place]; !known {
		id, known = j.shown, j.shown != state.Identity{}
	}
	if is := j.rules.losses.consul; is.Cluster == id.Cluster {
		id.Index = max(id.Index, is.Index)
	}
	return id, known
}

// identifies is the Consul that the tick of a write has identified; nil if it has not.
func (v view) identifies() *state.Identity {
	if v.act == nil {
		return nil
	}
	return v.act.consul
}

// grant notes a person's approval of what a task is shown.
func (l *losses) grant(task string, of state.Attempt, until time.Time) {
	if l.granted[task] == nil {
		l.granted[task] = map[state.Attempt]time.Time{}
	}
	l.granted[task][of] = until
}

// replacement looks at what a write says of a replaced Consul.
func (j *judge) replacement(v view, next state.Reconcile) {
	l, before := &j.rules.losses, j.last
	cfg := j.decidedOn(state.Launch{Bundle: next.Bundle, Config: next.Config})
	if r := next.Replaced; r != nil && r.Tasks > 0 && v.act != nil && l.shown[r.Shown] == nil {
		l.shown[r.Shown] = map[string]state.Attempt{}
		for _, name := range r.Names {
			if t, ok := cfg.Task(name); ok {
				l.shown[r.Shown][name] = state.Attempt{Definition: t.Digest(cfg), Observed: v.act.seen[serviceOf(name)]}
			}
		}
	}
	if r := next.Replaced; r != nil && r.Approved != nil && (before.Replaced == nil || before.Replaced.Approved == nil || !before.Replaced.Approved.Same(*r.Approved)) {
		if !v.person() {
			v.violated("a person approves: %s writes an approval of what a replaced Consul has lost", v.name)
		}
		for name, of := range l.shown[r.Approved.Shown] {
			l.give(name, of, givenOf(*r.Approved))
		}
	}
	j.partlyApproved(v, cfg, next.Replaced)
	if id, was := v.identifies(), before.Consuls[j.place]; before.Consuls[j.place] != next.Consuls[j.place] {
		l.consul = state.Identity{}
	} else if id != nil && next.Replaced == nil && !next.Refreshed.Equal(before.Refreshed) && was.Cluster == id.Cluster && was.Index < id.Index {
		l.consul = *id
		v.violated("a newer index of Consul is recorded, whatever cannot be read: %s has identified %+v, and records %+v", v.name, *id, was)
	}
	if was, is := before.Consuls[j.place], next.Consuls[j.place]; is.Cluster == was.Cluster && is.Index >= was.Index {
		return // that Consul was replaced is not known, or not settled
	}
	if was := before.Replaced; was != nil && was.Approved != nil && v.act != nil {
		for name, of := range l.shown[was.Approved.Shown] {
			if t, ok := cfg.Task(name); !ok || l.permits(t.Approval, name, of) {
				j.approvedLoss(v, name, of)
			}
		}
	}
	for _, service := range services { // what is disabled or not configured loses nothing now
		if !slices.ContainsFunc(cfg.Tasks, func(t config.Task) bool { return serviceOf(t.Name) == service && t.Enabled }) {
			clear(v.consul.lost[service])
		}
	}
}

// approvedLoss notes that the engine uses people's approval of what a task loses.
func (j *judge) approvedLoss(v view, task string, of state.Attempt) {
	if !j.permitsLoss(v, task, of) {
		v.violated("a person approves what a replaced Consul has lost: %s permits %s to apply %s", v.name, task, of.Observed)
	}
	service := serviceOf(task)
	shows := elements(service, of.Observed)
	for name := range v.consul.lost[service] {
		if _, there := shows[name]; !there {
			delete(v.consul.lost[service], name)
		}
	}
}

// lost says which entries a run would remove that are gone with a replaced Consul;
// "" if there are none.
func (j *judge) lost(p *process, run string, it planned) string {
	for name, since := range p.consul.lost[serviceOf(it.task.Name)] {
		if _, there := it.holds.entries[name]; there || it.read < since {
			continue
		}
		applied := true
		for _, a := range j.rules.bases(it.task.Name, run) {
			_, has := a.entries[name]
			applied = applied && has
		}
		if applied {
			return fmt.Sprintf("%s is gone with a Consul that was replaced", name)
		}
	}
	return ""
}

// accepted reports whether a person has approved what a run loses by a replaced Consul.
func (j *judge) accepted(it planned) bool {
	l, of := &j.rules.losses, state.Attempt{Definition: it.definition, Observed: it.input}
	until, ok := l.granted[it.task.Name][of]
	return ok && (until.IsZero() || it.at.Before(until)) || enoughOf(it.task.Approval, l.given[it.task.Name][of], it.at)
}
