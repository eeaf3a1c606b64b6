// Package outbox keeps events: what people and other systems want to hear of,
// such as a run that failed or a configuration that was refused.
//
// An event is written to the store in the same conditional write as the
// transition that it tells of. So there is no event without its transition, and
// none is missing, whichever process dies at which moment. All events of one
// write are one record, which Events makes.
//
// The process that leads delivers the events to every sink and then removes
// them (Delivery): at least once, and in order for each task. A sink is one file.
package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Prefix is the collection of the outbox records.
const Prefix = "outbox/"

// Event tells of one transition. docs/reference/events.md describes the fields, and which
// kinds of event have them.
type Event struct {
	// ID is unlike any other: a sink that gets an event twice recognises it.
	ID   string    `json:"id,omitempty"`
	Kind Kind      `json:"kind"`
	Seq  uint64    `json:"seq"` // greater than that of every earlier event of the task or other subject
	At   time.Time `json:"at"`
	Task string    `json:"task,omitempty"`
	// Former is the name that the task had before. No earlier event of that name is delivered after this one.
	Former string `json:"former,omitempty"`

	Run     string           `json:"run,omitempty"`
	Launch  string           `json:"launch,omitempty"`
	Runner  string           `json:"runner,omitempty"` // container of the run, if it has a name
	Fence   uint64           `json:"fence,omitempty"`
	Reason  state.ReasonCode `json:"reason,omitempty"`   // why the run was decided
	Detail  string           `json:"detail,omitempty"`   // in words: what changed, or why the run was decided
	Error   string           `json:"error,omitempty"`    // what went wrong
	Cause   string           `json:"cause,omitempty"`    // what ended the run early
	By      string           `json:"by,omitempty"`       // who caused it
	Started time.Time        `json:"started,omitzero"`   // when a runner claimed the run
	Took    float64          `json:"duration,omitzero"`  // how many seconds the run worked, without its waits, if it has ended
	Seen    time.Time        `json:"seen,omitzero"`      // when the change behind the run was first seen
	Since   time.Time        `json:"since,omitzero"`     // when the state began that ends now
	Until   time.Time        `json:"until,omitzero"`     // when the state ends that begins now
	WaitFor state.WaitFor    `json:"wait_for,omitempty"` // what the run waits for
	Plan    string           `json:"plan,omitempty"`     // id of the plan that waits for an approval
	// Approvals is how many people have approved the plan, of Needs that must.
	Approvals int            `json:"approvals,omitempty"`
	Needs     int            `json:"needs,omitempty"`
	Changes   *state.Changes `json:"changes,omitempty"`
	// Entries are what differs in Consul from what was applied before.
	Entries *state.EntryChanges `json:"entries,omitempty"`
	// Drift is what differs from what was applied last.
	Drift   *state.Drifted `json:"drift,omitempty"`
	RunKind state.Kind     `json:"run_kind,omitempty"` // of the run, if it is no apply
	// Failures are how many runs in a row have failed or were lost.
	Failures int `json:"failures,omitempty"`
	// Count is how many tasks the event concerns, if it is about several, and Tasks are the
	// names of the first ones.
	Count int      `json:"count,omitempty"`
	Tasks []string `json:"tasks,omitempty"`
	// Quiet says that the event is no news to people: it repeats an earlier event, or another
	// one is about several tasks, of which this is one.
	Quiet bool `json:"quiet,omitempty"`

	Config string `json:"config,omitempty"` // digest of the configuration
	Bundle string `json:"bundle,omitempty"` // digest of the bundle
	// RemoteURL is the page of the run in another system.
	RemoteURL string `json:"remote_url,omitempty"`

	// Trace is the first span of the run's trace.
	Trace string `json:"traceparent,omitempty"`

	// URL is that of the page about the event, Stack the deployment in AWS, for commands,
	// and Links are the pages of the AWS console about the run. Deliveries set them: they
	// are not stored.
	URL   string `json:"url,omitempty"`
	Stack string `json:"-"`
	Links *Links `json:"links,omitempty"`
}

// Links are the pages of the AWS console about a run.
type Links struct {
	Container string `json:"container"` // the ECS task
	Logs      string `json:"logs"`      // of the container
}

// Worked is how long the run of the event worked; 0 if it has not ended.
func (e Event) Worked() time.Duration { return time.Duration(e.Took * float64(time.Second)) }

// took is how many seconds a run worked that has ended, as people see it wherever they see the run.
func took(run state.Run) float64 {
	if run.Started.IsZero() || run.Ended.IsZero() {
		return 0
	}
	return run.Worked(run.Ended).Seconds()
}

// stream is what the order of events is kept for: a task, or another subject.
func (e Event) stream() string {
	if e.Task != "" {
		return string(Task) + "/" + e.Task
	}
	return string(e.Kind.About().Subject)
}

// streams are the streams in whose order the event is: its own, and that of the task's former name.
func (e Event) streams() []string {
	if e.Former == "" {
		return []string{e.stream()}
	}
	return []string{e.stream(), Event{Task: e.Former}.stream()}
}

// OfRun is the event of a run that has ended, or that begins to wait.
func OfRun(run state.Run) Event {
	kind, ok := ended[run.State]
	if !ok {
		panic(fmt.Sprintf("outbox: run %s is %s, which is no end", run.ID, run.State))
	}
	e := Event{Kind: kind, At: run.Ended, Task: run.Task, Run: run.ID, Launch: run.Launch, Runner: run.Runner, Fence: run.Fence,
		Reason: run.Reason.Code, Started: run.Started, Took: took(run), Seen: run.Seen,
		Detail: run.Entries.String(), Entries: run.Entries}
	e.Trace = run.Trace().String()
	if run.State == state.RunWaiting || run.State != state.RunSuperseded && !run.Unclaimed() { // else its plan is void
		e.Changes = run.Changes.Counts()
	}
	if run.Kind != state.KindApply {
		e.RunKind = run.Kind
	}
	if run.WhatIf != nil { // nothing of it is real
		e.Detail, e.Entries = run.WhatIf.String(), nil
	}
	if run.Remote != nil {
		e.RemoteURL = run.Remote.URL
	}
	if run.State == state.RunCancelled {
		e.By = run.Cancel
	}
	switch run.State {
	case state.RunWaiting:
		e.At, e.Until, e.WaitFor, e.Detail = run.Wait.Since, run.Wait.Until, run.Wait.For, run.Wait.String()
		if run.Wait.For == state.WaitApproval {
			e.Plan, e.Needs = run.Wait.ID, run.Wait.Needs
		}
	case state.RunFailed:
		e.Error = run.Error
	default:
		e.Cause = run.Error
	}
	return e
}

// MaxTasks is how many tasks an event names.
const MaxTasks = 100

// About returns the event with the tasks that it concerns.
func (e Event) About(tasks []string) Event {
	e.Count, e.Tasks = len(tasks), tasks[:min(len(tasks), MaxTasks)]
	return e
}

// OfEnd returns the events of a run that has ended, or that begins to wait, which changes its
// task from was to next. People hear when the task begins to fail, sometimes while it fails, and
// when it has recovered.
func OfEnd(was, next state.Task, run state.Run) []Event {
	return append(ofEnd(was, next, run), ofVerification(was, next, run)...)
}

func ofEnd(was, next state.Task, run state.Run) []Event {
	e := OfRun(run)
	switch {
	case next.Failures > was.Failures:
		e.Failures, e.Quiet = next.Failures, !next.Failing.Said.Equal(run.Ended)
		if !next.Failing.Since.Equal(run.Ended) {
			e.Since = next.Failing.Since
		}
	case !was.Failing.Since.IsZero() && run.State == state.RunSucceeded:
		recovered := e
		recovered.Kind, recovered.Failures, recovered.Since = TaskRecovered, was.Failures, was.Failing.Since
		e.Quiet = true
		return []Event{e, recovered}
	}
	return []Event{e}
}

// Number numbers the event of a task after the task's earlier events. The task's
// record must be written in the same step as the event.
func Number(task *state.Task, e Event) Event {
	e.Seq = next(&task.Events, e.At)
	return e
}

// NumberShared does what Number does for an event that concerns no single task,
// whose record is the reconcile record.
func NumberShared(rec *state.Reconcile, e Event) Event {
	e.Seq = next(&rec.Events, e.At)
	return e
}

// NumberAll does what Number does for several events of a task. Those of a task that is made
// again follow the events of the earlier task of this name: rec must have been read after that
// one was seen to be gone, or be written in the same step.
func NumberAll(task *state.Task, rec state.Reconcile, events []Event) []Event {
	if len(events) > 0 {
		task.Events = max(task.Events, rec.Events)
	}
	for i := range events {
		events[i] = Number(task, events[i])
	}
	return events
}

// Pause writes a pause into the reconcile record, and returns its event.
func Pause(rec *state.Reconcile, p state.Paused) Events {
	rec.Paused = &p
	return NewEvents(NumberShared(rec, Event{Kind: Paused, At: p.Since, By: p.By, Detail: p.Reason}))
}

// Forget returns the changes that remove the record of a task, and their event. They are
// written with rec, which keeps the number of the task's latest event.
func Forget(rec *state.Reconcile, task state.Stored[state.Task], now time.Time) ([]state.Change, Events) {
	events := NewEvents(Number(&task.Data, Event{Kind: TaskForgotten, At: now, Task: state.TaskName(task.Key)}))
	rec.Events = max(rec.Events, task.Data.Events)
	return append([]state.Change{state.Delete(task.Record)}, events.Changes()...), events
}

// next counts on. It begins with the time, so that after somebody
// has removed a record by hand the numbers go on as well.
func next(last *uint64, now time.Time) uint64 {
	*last = max(*last+1, uint64(max(now.UnixMicro(), 0)))
	return *last
}

// Events are the events of one write.
type Events struct {
	id  string
	all []Event
}

// NewEvents makes the events of one write of numbered ones.
func NewEvents(numbered ...Event) Events { return Events{}.Again(numbered...) }

// Again returns other events under the same ids, for another attempt at the
// write: an attempt whose answer was lost may have taken place.
func (e Events) Again(numbered ...Event) Events {
	all := Events{id: e.id}
	if all.id == "" {
		all.id = uuid.Must(uuid.NewV7()).String()
	}
	for i, e := range numbered {
		e.ID = fmt.Sprintf("%s.%d", all.id, i)
		all.all = append(all.all, e)
	}
	return all
}

// Changes is the change that writes the events, for the Apply that makes the
// transition; none if there are no events.
func (e Events) Changes() []state.Change {
	if len(e.all) == 0 {
		return nil
	}
	return []state.Change{state.Create(Prefix+e.id, state.Encode(record{Events: e.all}))}
}

// Size is how many bytes an event that has no ID yet takes in its record, at most.
func Size(e Event) int {
	e.ID = uuid.Nil.String() + ".999999"
	return len(state.Encode(e)) + 1
}

// All returns the events, with their ids.
func (e Events) All() []Event { return e.all }

// Sink takes events to where somebody hears of them.
type Sink interface {
	// Name is the same in every process that has the sink.
	Name() string
	// Deliver delivers one event. After an error the event is delivered again,
	// and until then no later event of the same task. See DownError.
	Deliver(ctx context.Context, e Event) error
}

// Batcher is a sink that takes several events at once.
type Batcher interface {
	Sink
	// Most is how many events DeliverAll takes.
	Most() int
	// DeliverAll delivers events of which no two are of the same task or other
	// subject, and returns the error of each, as Deliver does.
	DeliverAll(ctx context.Context, events []Event) []error
}

// Choosy is a sink that does not want every event.
type Choosy interface {
	Sink
	// Wants reports whether the sink is to be given the event.
	Wants(e Event) bool
}

// Patient is a sink that is given an event only some time after it has happened, and others with
// it: what happens at about the same time is then one message.
type Patient interface {
	Sink
	// Patience is how long that is.
	Patience() time.Duration
}

// record is the stored form of the events of one write.
type record struct {
	Events []Event `json:"events"`
	// Taken are the indexes of the events that a sink has taken, by its name. It
	// is written only where not all sinks have taken all events.
	Taken map[string][]int `json:"taken,omitempty"`
}
