package outbox

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Kind says what has happened.
type Kind string

// The JSON Schemas in docs/events are made of the kinds, of docs/reference/events.md and of the fields of Event.
//
//go:generate go test -run Schemas_PublishedFilesAreCurrent -args -update

// The kinds of event. Every kind is listed in kinds, below, and in
// docs/reference/events.md, which a test compares.
const (
	ChangeSeen        Kind = "change_seen"
	RunDecided        Kind = "run_decided"
	RunWaiting        Kind = "run_waiting"
	RunResumed        Kind = "run_resumed"
	PlanApproved      Kind = "plan_approved"
	PlanRejected      Kind = "plan_rejected"
	HoldBegun         Kind = "hold_begun"
	HoldEnded         Kind = "hold_ended"
	RunSucceeded      Kind = "run_succeeded"
	RunFailed         Kind = "run_failed"
	RunLost           Kind = "run_lost"
	RunInterrupted    Kind = "run_interrupted"
	RunCancelled      Kind = "run_cancelled"
	RunSuperseded     Kind = "run_superseded"
	RunUnchanged      Kind = "run_unchanged"
	RunUnverified     Kind = "run_unverified"
	TaskVerified      Kind = "task_verified"
	DriftFound        Kind = "drift_found"
	DriftEnded        Kind = "drift_ended"
	DriftCheckFailed  Kind = "drift_check_failed"
	TaskRecovered     Kind = "task_recovered"
	TaskUnreadable    Kind = "task_unreadable"
	TaskReadable      Kind = "task_readable"
	TaskDelayed       Kind = "task_delayed"
	TaskRemoved       Kind = "task_removed"
	TaskRenamed       Kind = "task_renamed"
	TaskMoved         Kind = "task_moved"
	TaskForgotten     Kind = "task_forgotten"
	OverrideCreated   Kind = "override_created"
	OverrideChanged   Kind = "override_changed"
	OverrideRemoved   Kind = "override_removed"
	OverrideConfirmed Kind = "override_confirmed"
	OverrideReverted  Kind = "override_reverted"

	Paused  Kind = "paused"
	Resumed Kind = "resumed"

	ConsulLost  Kind = "consul_lost"
	ConsulFound Kind = "consul_found"

	TasksUnreadable Kind = "tasks_unreadable"
	TasksReadable   Kind = "tasks_readable"

	ServicesLeftOut Kind = "services_left_out"

	ConsulReplaced Kind = "consul_replaced"
	ConsulAccepted Kind = "consul_accepted"
	ConsulRestored Kind = "consul_restored"

	ConfigurationInForce Kind = "configuration_in_force"
	ConfigurationRefused Kind = "configuration_refused"

	LeadershipTaken   Kind = "leadership_taken"
	LeadershipGivenUp Kind = "leadership_given_up"
)

// Subject is what an event is about. Events are delivered in order for each
// task, and in order for each of the other subjects.
type Subject string

// The subjects.
const (
	Task          Subject = "task"
	Consul        Subject = "Consul"
	Configuration Subject = "configuration"
	Leadership    Subject = "leadership"
	Work          Subject = "work"
)

// About describes a kind of event.
type About struct {
	Subject Subject
	Level   slog.Level // as Event.Level, which needs more than the kind in one case
	// Line is its log line. It is empty if the process that makes the transition
	// logs a line of its own, with more than the event has.
	Line   string
	Fields []string // which fields of an Event it may have, beside those that every event of its subject has
}

// steps are the kinds of events on the way to another one, and the usual end of a run.
var steps = []Kind{ChangeSeen, RunDecided, RunResumed, RunSucceeded, RunUnchanged, RunSuperseded, RunInterrupted, TaskMoved, LeadershipTaken, LeadershipGivenUp}

var kinds = map[Kind]About{
	ChangeSeen:     {Task, slog.LevelInfo, "change seen", []string{"detail", "entries"}},
	RunDecided:     {Task, slog.LevelInfo, "run decided", []string{"run", "launch", "fence", "reason", "detail", "entries", "traceparent"}},
	RunWaiting:     {Task, slog.LevelInfo, "run waits", []string{"run", "launch", "fence", "reason", "started", "seen", "changes", "entries", "run_kind", "wait_for", "plan", "needs", "detail", "until", "remote_url", "traceparent"}},
	RunResumed:     {Task, slog.LevelInfo, "run resumed", []string{"run", "launch", "fence", "since", "wait_for", "by", "traceparent"}},
	PlanApproved:   {Task, slog.LevelInfo, "plan approved", []string{"run", "by", "detail", "until", "approvals", "needs"}},
	PlanRejected:   {Task, slog.LevelWarn, "plan rejected", []string{"run", "by", "detail", "traceparent"}},
	HoldBegun:      {Task, slog.LevelWarn, "the task is on hold", []string{"by", "detail", "quiet"}},
	HoldEnded:      {Task, slog.LevelInfo, "the task is released", []string{"by", "since"}},
	RunSucceeded:   {Task, slog.LevelInfo, "run succeeded", append([]string{"quiet"}, endFields...)},
	RunFailed:      {Task, slog.LevelError, "run failed", append([]string{"error", "failures", "since", "quiet"}, endFields...)},
	RunLost:        {Task, slog.LevelWarn, "a run was lost", append([]string{"cause", "failures", "since", "quiet"}, endFields...)},
	RunInterrupted: {Task, slog.LevelInfo, "run interrupted: the instance that leads next runs the task again", append([]string{"cause"}, endFields...)},
	RunCancelled:   {Task, slog.LevelWarn, "run cancelled", append([]string{"cause", "by"}, endFields...)},
	RunSuperseded:  {Task, slog.LevelInfo, "run superseded", append([]string{"cause"}, endFields...)},
	RunUnchanged:   {Task, slog.LevelInfo, "schedule came due, nothing to apply", []string{"run", "reason", "started", "duration"}},

	RunUnverified: {Task, slog.LevelWarn, "the run is applied and not verified: perhaps what it has applied does not work", []string{"run", "detail", "started", "duration", "since", "changes", "entries", "quiet"}},
	TaskVerified:  {Task, slog.LevelInfo, "the task is verified again", []string{"run", "since", "quiet"}},

	DriftFound:       {Task, slog.LevelWarn, "the task is drifted: something differs from what was applied last", []string{"run", "detail", "changes", "drift"}},
	DriftEnded:       {Task, slog.LevelInfo, "the task is not drifted any more", []string{"since", "detail"}},
	DriftCheckFailed: {Task, slog.LevelWarn, "a check for drift failed: the next one is made at its time", []string{"run", "error"}},

	TaskRecovered:  {Task, slog.LevelInfo, "the task has recovered: a run succeeded after others had failed", append([]string{"failures", "since"}, endFields...)},
	TaskUnreadable: {Task, slog.LevelWarn, "the task cannot be read, it waits", []string{"error", "quiet"}},
	TaskReadable:   {Task, slog.LevelInfo, "the task can be read again", []string{"since", "quiet"}},
	TaskDelayed:    {Task, slog.LevelWarn, "the task waits for longer than its after_timeout for one that comes before it: it does not run until that one is at rest", []string{"detail", "since", "cause"}},
	TaskRemoved: {Task, slog.LevelWarn, "a task is not in the configuration any more: its infrastructure and Terraform state stay, and nothing keeps them in step; " +
		"if it was renamed, set moved_from in the task of the new name; `terrapulse forget` removes its records here", []string{"detail", "until"}},
	TaskRenamed:       {Task, slog.LevelWarn, "a task was perhaps renamed: the new one waits, so that nothing is made twice", []string{"detail"}},
	TaskMoved:         {Task, slog.LevelInfo, "the task has another name: it continues with what it had under its former one", []string{"former"}},
	TaskForgotten:     {Task, slog.LevelInfo, "the records of a task are removed; its infrastructure stays unless it was destroyed", nil},
	OverrideCreated:   {Task, slog.LevelInfo, "a task was changed through the API", []string{"detail", "by"}},
	OverrideChanged:   {Task, slog.LevelInfo, "a change that was made through the API was changed", []string{"detail", "by"}},
	OverrideRemoved:   {Task, slog.LevelInfo, "a change that was made through the API was removed", []string{"detail", "by"}},
	OverrideConfirmed: {Task, slog.LevelInfo, "a provisional change is kept: its run succeeded", []string{"run", "detail", "by"}},
	OverrideReverted:  {Task, slog.LevelInfo, "a provisional change is taken back: its run did not succeed", []string{"run", "detail", "by"}},

	Paused:  {Work, slog.LevelWarn, "everything is paused: nothing is applied until somebody resumes", []string{"by", "detail"}},
	Resumed: {Work, slog.LevelInfo, "everything is resumed", []string{"by", "detail", "since"}},

	ConsulLost:  {Consul, slog.LevelWarn, "cannot watch Consul", []string{"error", "count"}},
	ConsulFound: {Consul, slog.LevelInfo, "Consul can be watched again", []string{"since", "count"}},

	TasksUnreadable: {Consul, slog.LevelWarn, "tasks cannot be read, they wait", []string{"error", "count", "tasks"}},
	TasksReadable:   {Consul, slog.LevelInfo, "tasks can be read again", []string{"since", "count", "tasks"}},

	ServicesLeftOut: {Consul, slog.LevelWarn, "services are left out, because Consul has no address for their names", []string{"detail", "count", "tasks"}},

	ConsulReplaced: {Consul, slog.LevelWarn, "Consul was replaced: tasks that would lose entries wait until the entries are back or somebody approves the loss", []string{"detail", "cause"}},
	ConsulAccepted: {Consul, slog.LevelInfo, "the replaced Consul is approved", []string{"detail", "by", "since"}},
	ConsulRestored: {Consul, slog.LevelInfo, "nothing is missing in Consul any more", []string{"since"}},

	ConfigurationInForce: {Configuration, slog.LevelInfo, "configuration in force", []string{"config", "bundle"}},
	ConfigurationRefused: {Subject: Configuration, Level: slog.LevelError, Fields: []string{"bundle", "error"}},

	LeadershipTaken:   {Subject: Leadership, Level: slog.LevelInfo, Fields: []string{"by", "fence", "cause"}},
	LeadershipGivenUp: {Subject: Leadership, Level: slog.LevelInfo, Fields: []string{"by", "fence"}},
}

// endFields are those of a run that has ended.
var endFields = []string{"run", "launch", "fence", "reason", "detail", "started", "duration", "seen", "changes", "entries", "run_kind", "runner", "links", "remote_url", "traceparent"}

// Kinds returns every kind of event, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kinds)) }

// About describes the kind.
func (k Kind) About() About { return kinds[k] }

// Level is the level of the event, in the log and for people: what needs a person is at least a warning.
func (e Event) Level() slog.Level {
	if e.Kind == RunWaiting && e.WaitFor == state.WaitApproval {
		return slog.LevelWarn
	}
	return e.Kind.About().Level
}

// Step reports whether such an event is a step on the way to another one, or the usual end of a run: no
// news to people.
func (k Kind) Step() bool { return slices.Contains(steps, k) }

// ended is the kind of event of each final state of a run.
var ended = map[state.RunState]Kind{
	state.RunWaiting:     RunWaiting,
	state.RunSucceeded:   RunSucceeded,
	state.RunFailed:      RunFailed,
	state.RunLost:        RunLost,
	state.RunInterrupted: RunInterrupted,
	state.RunCancelled:   RunCancelled,
	state.RunSuperseded:  RunSuperseded,
	state.RunUnchanged:   RunUnchanged,
}

// onHold is the event of a hold that has begun.
func onHold(task string, hold state.OnHold) Event {
	return Event{Kind: HoldBegun, At: hold.At, Task: task, By: hold.By, Detail: hold.Comment}
}
