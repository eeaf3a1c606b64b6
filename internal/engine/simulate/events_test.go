package simulate

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/outbox/outboxtest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// news is what the judge knows of events. Each transition is written with its
// event, and each event is delivered: not before it is written, in the order of
// its task, and before it is removed or noted as delivered.
type news struct {
	written   map[string][]string // ids by task or other subject, in their order
	known     map[string]string   // by id that was written: its key in written
	delivered map[string]bool     // ids
	kept      map[string][]string // ids by the key of their record
	at        map[string]time.Time
	before    map[string][]string // by id of an event that a task has another name: those of the former name
}

func (n *news) init() {
	n.written, n.known, n.delivered, n.kept = map[string][]string{}, map[string]string{}, map[string]bool{}, map[string][]string{}
	n.at, n.before = map[string]time.Time{}, map[string][]string{}
}

// schemas are those of events.
var schemas = outboxtest.In(filepath.Join("..", "..", "..", "docs", "events"))

// subject is what the order of events is kept for.
func subject(e outbox.Event) string {
	if e.Task != "" {
		return "task " + e.Task
	}
	return string(e.Kind.About().Subject)
}

// ends are the kinds of event of a run that has ended.
var ends = []outbox.Kind{outbox.RunSucceeded, outbox.RunFailed, outbox.RunLost, outbox.RunInterrupted, outbox.RunCancelled, outbox.RunSuperseded}

// transitions looks at the events of a write, and returns what is wrong with them,
// if anything is. It is called before the judge takes in what was written, so
// that what the judge finds then comes first.
func (j *judge) transitions(v view, changes []state.Change) (wrong string) {
	var events []outbox.Event
	delivered := func(key, what string) {
		for _, id := range j.news.kept[key] {
			if first := j.news.kept[key][0]; time.Since(j.news.at[first]) > outbox.MaxAge-maxAhead { // the record was given up
				j.news.delivered[id] = true
			}
			if !j.news.delivered[id] {
				wrong = fmt.Sprintf("an event is delivered before it is %s: %s does that with %s", what, v.name, id)
			}
		}
	}
	for _, c := range changes {
		if c.Key == state.ReconcileKey && c.Op != state.OpCheck {
			for _, name := range decoded[state.Reconcile](c.Value).Delivered {
				delivered(outbox.Prefix+name, "noted as delivered")
			}
		}
		if !strings.HasPrefix(c.Key, outbox.Prefix) {
			continue
		}
		switch c.Op {
		case state.OpCreate:
			for n, e := range decoded[struct{ Events []outbox.Event }](c.Value).Events {
				e.ID = fmt.Sprintf("%s.%d", strings.TrimPrefix(c.Key, outbox.Prefix), n)
				events = append(events, e)
				if err := schemas.CheckEvent(e); err != nil {
					wrong = fmt.Sprintf("an event is as documented: %s writes one that is not: %v", v.name, err)
				}
				key := subject(e)
				j.news.known[e.ID], j.news.at[e.ID] = key, time.Now()
				if e.At.Before(time.Now()) { // the tick had begun long before it wrote
					j.news.at[e.ID] = e.At
				}
				j.news.written[key] = append(j.news.written[key], e.ID)
				if e.Former != "" {
					j.news.before[e.ID] = slices.Clone(j.news.written[subject(outbox.Event{Task: e.Former})])
				}
				j.news.kept[c.Key] = append(j.news.kept[c.Key], e.ID)
			}
		case state.OpDelete:
			delivered(c.Key, "removed")
			delete(j.news.kept, c.Key)
		}
	}
	for _, e := range events {
		if e.Run != "" && !slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == state.TaskKey(e.Task) && c.Op != state.OpCheck }) {
			wrong = fmt.Sprintf("an event is written with its transition: %s writes %s %s of %s, and not the record of the task", v.name, e.Kind, e.ID, e.Task)
		}
	}
	expect := func(what string, is func(outbox.Event) bool) {
		if !slices.ContainsFunc(events, is) {
			wrong = fmt.Sprintf("a transition is written with its event: %s writes that %s, with the events %v", v.name, what, events)
		}
	}
	of := func(task, run string, kinds ...outbox.Kind) func(outbox.Event) bool {
		return func(e outbox.Event) bool { return e.Task == task && e.Run == run && slices.Contains(kinds, e.Kind) }
	}
	moved := j.takenOver(changes)
	for task, former := range moved {
		expect(task+" takes over from "+former, func(e outbox.Event) bool {
			return e.Kind == outbox.TaskMoved && e.Task == task && e.Former == former
		})
	}
	for _, c := range changes {
		collection, name, _ := strings.Cut(c.Key, "/")
		switch {
		case c.Op == state.OpCheck:
		case collection == "override" && (moved[name] != "" || j.movedTo(moved, name) != ""): // it goes along with a rename, whose event is of the new name
		case collection == "override" && c.Op == state.OpDelete, collection == "override" && string(c.Value) != string(state.Encode(j.overrides[name])):
			expect("the override of "+name+" changes", func(e outbox.Event) bool { return e.Task == name && strings.HasPrefix(string(e.Kind), "override_") })
		case collection == "task" && c.Op == state.OpDelete:
			expect(name+" is forgotten", of(name, "", outbox.TaskForgotten))
		case collection == "task":
			before, after := j.tasks[name], decoded[state.Task](c.Value)
			was, is := before.Run, after.Run
			if was != nil && (is == nil || is.ID != was.ID) {
				expect("run "+was.ID+" of "+name+" has ended", of(name, was.ID, ends...))
			}
			if is != nil && (was == nil || is.ID != was.ID) {
				expect("run "+is.ID+" of "+name+" is decided", of(name, is.ID, outbox.RunDecided))
			}
			if was != nil && is != nil && was.ID == is.ID && was.Wait == nil && is.Wait != nil {
				expect("run "+is.ID+" of "+name+" waits", of(name, is.ID, outbox.RunWaiting))
			}
			if was != nil && is != nil && was.ID == is.ID && was.Wait != nil && is.Wait == nil {
				expect("run "+is.ID+" of "+name+" is resumed", of(name, is.ID, outbox.RunResumed))
			}
			if before.Observed.Digest != after.Observed.Digest && moved[name] == "" && !before.Observed.At.IsZero() && !after.Observed.At.IsZero() {
				expect(name+" has changed", of(name, "", outbox.ChangeSeen))
			}
			if before.Drifted() == nil && after.Drifted() != nil {
				expect(name+" is drifted", func(e outbox.Event) bool { return e.Task == name && e.Kind == outbox.DriftFound })
			}
			if late := after.After; late != nil && late.Late && (before.After == nil || !before.After.Late) {
				expect(name+" waits for too long for another task", of(name, "", outbox.TaskDelayed))
			}
			if before.Observed.UnreadableSince.IsZero() && !after.Observed.UnreadableSince.IsZero() {
				expect(name+" cannot be read", of(name, "", outbox.TaskUnreadable))
			}
		case collection == "reconcile":
			before, after := j.last, decoded[state.Reconcile](c.Value)
			if (before.ConsulError == "") != (after.ConsulError == "") {
				expect("Consul was lost or found", func(e outbox.Event) bool { return e.Kind.About().Subject == outbox.Consul })
			}
			if (before.Paused == nil) != (after.Paused == nil) {
				expect("everything is paused or resumed", of("", "", outbox.Paused, outbox.Resumed))
			}
			if before.Config != after.Config || before.Bundle != after.Bundle {
				expect("another configuration is in force", of("", "", outbox.ConfigurationInForce))
			}
		}
	}
	return wrong
}

// undelivered is an event that is still in the store and not noted as delivered; "" if there is none.
func (j *judge) undelivered() string {
	noted := j.reconcile().Delivered
	for _, key := range slices.Sorted(maps.Keys(j.news.kept)) {
		if !slices.Contains(noted, strings.TrimPrefix(key, outbox.Prefix)) {
			return j.news.kept[key][0]
		}
	}
	return ""
}

// sink takes events to people, as a process delivers them.
type sink struct{ *process }

var _ outbox.Sink = sink{}

// Name implements outbox.Sink.
func (sink) Name() string { return "people" }

// Deliver implements outbox.Sink.
func (s sink) Deliver(ctx context.Context, e outbox.Event) error {
	_, err := ask(ctx, s.process, people, "deliver "+string(e.Kind)+" "+e.ID, func() (any, error) {
		n := &s.judge.news
		if n.known[e.ID] == "" {
			s.violated("an event follows its transition: %s delivers %s %s of %s, which is not in the store", s.name, e.Kind, e.ID, e.Task)
		}
		for _, id := range n.written[n.known[e.ID]] {
			if id == e.ID {
				break
			}
			if !n.delivered[id] {
				s.violated("events of a task are delivered in order: %s delivers %s %s of %q before %s", s.name, e.Kind, e.ID, subject(e), id)
			}
		}
		for _, id := range n.before[e.ID] {
			if !n.delivered[id] {
				s.violated("a new name follows all events of the former one: %s delivers %s %s of %q before %s of %q", s.name, e.Kind, e.ID, e.Task, id, e.Former)
			}
		}
		n.delivered[e.ID] = true
		return nil, nil
	})
	return err
}
