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

// Event tells of one transition. The JSON Schemas in docs/events have what each field means, from its doc tag, and which
// kinds of event have it.
type Event struct {
	ID     string    `json:"id,omitempty" doc:"identifies the event"`
	Kind   Kind      `json:"kind" doc:"what happened"`
	Seq    uint64    `json:"seq" doc:"a number that is greater than in every earlier event of the same task"`
	At     time.Time `json:"at" doc:"time of the event"`
	Task   string    `json:"task,omitempty" doc:"the task, in events about a task"`
	Former string    `json:"former,omitempty" doc:"the name that the task had before"` // its events are delivered before this one

	Run       string              `json:"run,omitempty" doc:"id of the run"`
	Launch    string              `json:"launch,omitempty" doc:"id of the launch of the run"`
	Runner    string              `json:"runner,omitempty" doc:"in AWS: id of the container (the ECS task) of the run"`
	Fence     uint64              `json:"fence,omitempty" doc:"fencing token of the leader that decided the run, or of the current leader"`
	Reason    state.ReasonCode    `json:"reason,omitempty" doc:"why the run was decided: a code of reasons.md"`
	Detail    string              `json:"detail,omitempty" doc:"a text, such as the change in Consul, or why the run was decided"`
	Error     string              `json:"error,omitempty" doc:"what went wrong"`
	Cause     string              `json:"cause,omitempty" doc:"what ended the run early, why the lead was taken over, or how Consul was replaced"`
	By        string              `json:"by,omitempty" doc:"the person or program that caused the event"`
	Started   time.Time           `json:"started,omitzero" doc:"when the runner began the run"`
	Took      float64             `json:"duration,omitzero" doc:"for how many seconds the run worked, without its waits"`
	Seen      time.Time           `json:"seen,omitzero" doc:"when the change behind the run was first seen"`
	Since     time.Time           `json:"since,omitzero" doc:"beginning of the state that ends now; for a failed run, when the task began to fail"`
	Until     time.Time           `json:"until,omitzero" doc:"end of the state that begins now"`
	WaitFor   state.WaitFor       `json:"wait_for,omitempty" doc:"what the run waits for: approval, window, remote (a run of another system), remote_plan (its plan) or verification (the rest of its verification)"`
	Plan      string              `json:"plan,omitempty" doc:"id of the plan that waits for an approval"`
	Approvals int                 `json:"approvals,omitempty" doc:"how many different people have approved the plan so far, if several must"`
	Needs     int                 `json:"needs,omitempty" doc:"how many different people must approve the plan, if several must"`
	Changes   *state.Changes      `json:"changes,omitempty" doc:"how many resources were added, changed and destroyed; missing if nothing was applied"`
	Entries   *state.EntryChanges `json:"entries,omitempty" doc:"what was added, removed and changed in Consul since the last apply"`
	Drift     *state.Drifted      `json:"drift,omitempty" doc:"differences from what was applied last: since, the run of the check, count, and the first resources with address, action (what an apply would do) and attributes (without values). digest identifies the drift; persists: an apply has not ended it"`
	RunKind   state.Kind          `json:"run_kind,omitempty" doc:"kind of the run, if it is not an apply"`
	Failures  int                 `json:"failures,omitempty" doc:"how many runs of the task in a row have failed or were lost"`
	Count     int                 `json:"count,omitempty" doc:"number of tasks, if the event is about several"`
	Tasks     []string            `json:"tasks,omitempty" doc:"the names of the first 100 tasks, if the event is about several"`
	// An event is quiet that repeats an earlier one, or if another one is about several tasks, of which this is one.
	Quiet bool `json:"quiet,omitempty" doc:"true if people need no message about it"`

	Config    string `json:"config,omitempty" doc:"digest of the configuration"`
	Bundle    string `json:"bundle,omitempty" doc:"digest of the bundle"`
	RemoteURL string `json:"remote_url,omitempty" doc:"the page of the run in HCP Terraform"`
	Trace     string `json:"traceparent,omitempty" doc:"the first span of the run's trace, if runs are traced"`

	// Deliveries set these: they are not stored. Stack is for commands.
	URL   string `json:"url,omitempty" doc:"the page about it, if api.url is set"`
	Stack string `json:"-"`
	Links *Links `json:"links,omitempty" doc:"in AWS: pages of the AWS console about the run: its container and the logs of that"`
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
	case next.Failing.Count > was.Failing.Count:
		e.Failures, e.Quiet = next.Failing.Count, !next.Failing.Said.Equal(run.Ended)
		if !next.Failing.Since.Equal(run.Ended) {
			e.Since = next.Failing.Since
		}
	case !was.Failing.Since.IsZero() && run.State == state.RunSucceeded:
		recovered := e
		recovered.Kind, recovered.Failures, recovered.Since = TaskRecovered, was.Failing.Count, was.Failing.Since
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
