package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// IDs are ids of runs. They are stored as one text with spaces between them: fifty strings would take
// most of the time in which the record of a task is decoded.
type IDs []string

// MarshalText implements encoding.TextMarshaler.
func (ids IDs) MarshalText() ([]byte, error) { return []byte(strings.Join(ids, " ")), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (ids *IDs) UnmarshalText(text []byte) error {
	*ids = strings.Fields(string(text))
	return nil
}

// History is how many ended runs are kept for each task.
const History = 50

// MaxText is the length, in bytes, to which texts of unknown size (errors,
// change summaries) are cut before they are stored, so that a record stays
// far below MaxBytes.
const MaxText = 2000

// KeptResources is how many resources a run's record names.
const KeptResources = 20

// Task is the record of one task. Each of its parts has a concern; together they are one JSON object.
type Task struct {
	Requests
	Stops
	Naming

	// As long as Observed and Applied differ, there is work to do.
	Observed Observed `json:"observed,omitzero"`
	Applied  Applied  `json:"applied,omitzero"`

	Attempted Attempt `json:"attempted,omitzero"` // by the latest run that was decided
	Failing   Failing `json:"failing,omitzero"`

	Gone Gone `json:"gone,omitzero"`
	// OnRemoval is the digest of the Definition that the task is destroyed with when
	// it is removed; empty if what it has made stays then.
	OnRemoval string `json:"on_removal,omitempty"`
	// Follows is the task's `after`, which still counts when the task is removed.
	Follows []string `json:"follows,omitempty"`

	Drift *Drift `json:"drift,omitempty"` // nil if the task is not checked
	// RemoteRun, if set, says that the task may have a record at RemoteKey. If it has a Version, it
	// is not known to have ended: LiveRemote or GivenUp returns it.
	RemoteRun *RemoteRun `json:"remote_run,omitempty"`
	Run       *LiveRun   `json:"run,omitempty"` // that has not ended
	Reason    Reason     `json:"reason"`
	Due       time.Time  `json:"due,omitzero"`
	Ended     Ended      `json:"ended,omitzero"`
	Events    uint64     `json:"events,omitempty"` // number of the task's latest event
	// Revision is how often the record was written since it was made. Stored.Write counts.
	Revision uint64 `json:"revision,omitempty"`
}

// counted makes the record the next revision of what it was.
func (t *Task) counted(was Task) { t.Revision = was.Revision + 1 }

// Observed is what a task's condition showed last.
type Observed struct {
	Digest string    `json:"digest,omitempty"`
	At     time.Time `json:"at,omitzero"` // when it first showed that; zero if it was never read
	// UnreadableSince is when the condition could first not be read, although
	// Consul answers; zero if it can.
	UnreadableSince time.Time `json:"unreadable_since,omitzero"`
	Recheck         bool      `json:"recheck,omitempty"` // a run has ended since it was read
	// Superseded says that this run was superseded: what it was begun for may still be to be done.
	Superseded bool `json:"superseded,omitempty"`
	// Chased is how many runs in a row have succeeded while it changed, without a change since:
	// they may change it themselves.
	Chased int `json:"chased,omitempty"`
}

// Current reports whether the condition was read, and no run has ended since.
func (o Observed) Current() bool { return !o.At.IsZero() && !o.Recheck }

// Applied is what was applied last, and what is known of it.
type Applied struct {
	Definition string    `json:"definition,omitempty"` // digest of the task's definition
	Digest     string    `json:"digest,omitempty"`     // of what the apply rendered
	At         time.Time `json:"at,omitzero"`          // zero if nothing was applied, or if it was destroyed
	// Doubt, if set, says why the infrastructure may not be what Digest says.
	// The task is run again, whatever its condition says.
	Doubt  string  `json:"doubt,omitempty"`
	Counts []Count `json:"counts,omitempty"` // of the condition and the module inputs, in that order
	Sizes  Sizes   `json:"sizes,omitzero"`   // of a task with a plan guard, as far as that counts them
	Made   *Made   `json:"made,omitempty"`   // what is there; nil if it is not known, or destroyed
	// Unverified, if set, says that it was not verified.
	Unverified *Unverified `json:"unverified,omitempty"`
}

// Requests are what a task is to run for.
type Requests struct {
	Pending   *Pending  `json:"pending,omitempty"`  // a change that no run has taken up
	Scheduled time.Time `json:"scheduled,omitzero"` // up to when the times of a schedule are dealt with
	Forced    Forced    `json:"forced,omitzero"`
	// Destroy, if set, is a person's request to destroy everything that the task has
	// made.
	Destroy *Request `json:"destroy,omitempty"`
}

// Forced is a request for a run, whatever the condition shows.
type Forced struct {
	By string `json:"by,omitempty"` // who requests it; empty if nobody does
	// Replaces says that the next run replaces a superseded one.
	Replaces bool `json:"replaces,omitempty"`
}

// Stops are what keeps a task from running, and what a person permits it: see package lifecycle.
type Stops struct {
	Stop     *Stop     `json:"stop,omitempty"`     // of what the task would apply
	OnHold   *OnHold   `json:"on_hold,omitempty"`  // by a person
	Accepted *Accepted `json:"accepted,omitempty"` // what a person permits to apply without having seen a plan
	After    *After    `json:"after,omitempty"`    // the task waits for one that comes before it
	// Unconfirmed says that Consul was replaced, and that the loss of this task is not
	// known or not approved yet, while other tasks run again.
	Unconfirmed bool `json:"unconfirmed,omitempty"`
	// Unsaved, if set, is Terraform's state after the latest run, which the backend has not got.
	Unsaved *Unsaved `json:"unsaved,omitempty"`
}

// Gone says that a task is not in the configuration any more.
type Gone struct {
	// Since is since when the task is in no configuration. Its file may be back in a moment: Final says
	// that it counts as removed, since then. Its records are kept for a while, or, if it was deleted through
	// the API, until its run ends.
	Since   time.Time `json:"since,omitzero"`
	Final   bool      `json:"final,omitempty"`
	Deleted *Deletion `json:"deleted,omitempty"` // through the API; nil if it was not
	// Leaving is the definition of a task that was made through the API and deleted while its run was
	// under way: people see the task until that has ended.
	Leaving json.RawMessage `json:"leaving,omitempty"`
	// MovedTo is the task that has everything that this removed task had.
	MovedTo string `json:"moved_to,omitempty"`
}

// Missing reports whether the task is in no configuration, and does not count as removed yet.
func (g Gone) Missing() bool { return !g.Since.IsZero() && !g.Final }

// Deletion says who has deleted a task through the API.
type Deletion struct {
	By      string `json:"by"`
	Account string `json:"account,omitempty"` // as in identity.Identity
}

// Naming is under which names a task was known.
type Naming struct {
	// Shape is that of the task's definition, as config.Task.Shape says; if Renamed is set, the one by which those
	// tasks were found.
	Shape string `json:"shape,omitempty"`
	// Renamed are the removed tasks of which a task that never ran is perhaps one under a
	// new name: it waits until a person says what it is. MaxRenamed at most.
	Renamed []string `json:"renamed,omitempty"`
	Former  Former   `json:"former,omitzero"`
}

// Former are the names of a task before.
type Former struct {
	// Moving are those under which its Terraform state may still be, the latest first: its next run
	// takes it along.
	Moving []string `json:"moving,omitempty"`
	// Moved are those whose Terraform state a run has taken along.
	Moved []string `json:"moved,omitempty"`
}

// Ended are the runs of a task that have ended.
type Ended struct {
	IDs    IDs      `json:"ids,omitempty"`    // of those that are kept, oldest first
	Last   *Result  `json:"last,omitempty"`   // of the latest one
	Recent Outcomes `json:"recent,omitempty"` // of the newest ones in IDs, RecentRuns at most
}

// In reports whether the latest run has ended in this state.
func (e Ended) In(state RunState) bool { return e.Last != nil && e.Last.State == state }

// Of reports whether the latest run was of this kind.
func (e Ended) Of(kind Kind) bool { return e.Last != nil && e.Last.Kind == kind }

// add returns the runs with one more, and those that are not kept any more.
func (e Ended) add(run Run, last *Result) (next Ended, forgotten []string) {
	next = Ended{IDs: append(slices.Clone(e.IDs), run.ID), Last: last, Recent: e.Recent.add(run)}
	if n := len(next.IDs) - History; n > 0 {
		forgotten, next.IDs = next.IDs[:n:n], next.IDs[n:]
	}
	return next, forgotten
}

// Count is how many entries one source of a task has: its condition or a module input.
type Count struct {
	Of       string `json:"of"`                 // what the entries are, in the plural, such as "service instances"
	Triggers bool   `json:"triggers,omitempty"` // it is the condition
	Applied  int    `json:"applied"`
	Now      int    `json:"now"` // in Consul when the latest run read it
	// Peaks are what was applied before, as far as a guard compares with it. They are written with
	// the outcome of the run that has replaced it.
	Peaks Peaks `json:"peaks,omitempty"`
}

// OnHold is a person's hold: the task does not run until it is released.
type OnHold struct {
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Comment string    `json:"comment,omitempty"`
}

// After is the wait of a task for one that comes before it.
type After struct {
	Since time.Time  `json:"since"`          // when the task could first have run otherwise
	Task  string     `json:"task"`           // that it waits for
	Code  ReasonCode `json:"code,omitempty"` // of the reason of that task
	Late  bool       `json:"late,omitempty"` // it waits for longer than its after_timeout
	// Stuck says that nothing ends the wait until a person helps that task, or a retry of it succeeds.
	Stuck bool `json:"stuck,omitempty"`
}

// Attempt is what a run tries to apply. A failed attempt is repeated, with
// backoff, as long as the task would try the same again.
type Attempt struct {
	Definition string `json:"definition"` // digest of the task's definition
	Observed   string `json:"observed"`   // digest of what the condition showed
}

// Pending is a change of the condition that waits for its run.
type Pending struct {
	First  time.Time `json:"first"`
	Latest time.Time `json:"latest"`
	// Entries are what differs from what was applied last; nil if that is not known.
	Entries *EntryChanges `json:"entries,omitempty"`
}

// LiveRun is a task's one run that has not ended.
type LiveRun struct {
	ID      string    `json:"id"`
	Launch  string    `json:"launch"`
	Created time.Time `json:"created"`
	Kind    Kind      `json:"kind,omitempty"`  // empty for an apply
	Offer   string    `json:"offer,omitempty"` // the runner to which the launch was offered
	For     string    `json:"for,omitempty"`   // as in Launch
	// Entries are what the run was decided on; nil once its own record has them.
	Entries *EntryChanges `json:"entries,omitempty"`
	// Scheduled is Task.Scheduled before the run: if the run is superseded, the schedule is
	// due again.
	Scheduled time.Time `json:"scheduled,omitzero"`

	// Of a waiting run:
	Wait   *Wait   `json:"wait,omitempty"`
	Input  string  `json:"input,omitempty"`  // digest of what it has read
	Resume *Resume `json:"resume,omitempty"` // the request to go on, until it is launched again
	// Approvals are those that were given, while more people must approve.
	Approvals []Given `json:"approvals,omitempty"`
}

// Launch is one start of a runner for the runs of several tasks.
type Launch struct {
	ID     string `json:"id"`
	Config string `json:"config"`           // digest of the configuration that was decided on
	Bundle string `json:"bundle,omitempty"` // digest of the bundle that the configuration was read from
	Kind   Kind   `json:"kind"`             // of its runs
	// Draft is the definition of a task that is not in the configuration, as
	// the API takes it, for a plan run.
	Draft json.RawMessage `json:"draft,omitempty"`
	// Replacing says that Draft may be another definition of a task that is in the configuration.
	Replacing bool `json:"replacing,omitempty"`
	// WhatIf is what is supposed of Consul's data, for plan runs, as the API takes it.
	WhatIf  json.RawMessage `json:"what_if,omitempty"`
	By      string          `json:"by,omitempty"`    // who requested the plans; "" where nobody is known
	Fence   uint64          `json:"fence,omitempty"` // token of the leader that decided; none where nothing is applied
	Created time.Time       `json:"created"`
	Runs    []PlannedRun    `json:"runs"`
	// Begun is when this process began to work on the launch.
	Begun time.Time `json:"-"`
	// Refused is how often the launcher has answered that it starts nothing. It may remember that for the
	// launch, and is asked by another name the next time.
	Refused int `json:"refused,omitempty"`

	// Linger is how long its container waits for another launch afterwards; 0 if it ends
	// at once. Offer is the container to which the launch was offered, and Taker who has it
	// then: that container or TakenByContainer. Each is set once. A launch without an offer
	// gets a container at once.
	Linger time.Duration `json:"linger,omitempty"`
	Offer  string        `json:"offer,omitempty"`
	Taker  string        `json:"taker,omitempty"`
	// For is the instance of a cluster that alone may begin the launch, because the latest state of the task
	// may be in its folder. If the instance is not there, any other may begin the launch, and from ForUntil on,
	// if that is set, also while the instance has no room.
	For      string    `json:"for,omitempty"`
	ForUntil time.Time `json:"for_until,omitzero"`

	// Consuls and Replaced are those of the reconcile record.
	Consuls  map[string]Identity `json:"consuls,omitempty"`
	Replaced *Replaced           `json:"replaced,omitempty"`
}

// PlannedRun names one run of a launch.
type PlannedRun struct {
	ID         string `json:"id"`
	Task       string `json:"task"`
	Definition string `json:"definition"`      // digest of the task's definition that was decided on
	Trace      string `json:"trace,omitempty"` // Traced.Root of the run; empty if it is not traced

	Unconfirmed bool `json:"unconfirmed,omitempty"` // as in Task
}

// RunState is how far a run has come.
type RunState string

// The states of a run.
const (
	RunIntended RunState = "intended" // decided or resumed, not yet claimed by a runner
	RunRunning  RunState = "running"

	// RunWaiting is a run that waits for something named. It has no claim and needs
	// no process: it is never lost, and another process can resume it.
	RunWaiting RunState = "waiting"

	RunSucceeded RunState = "succeeded"
	RunFailed    RunState = "failed"
	RunLost      RunState = "lost"      // its runner died before it recorded an outcome
	RunUnchanged RunState = "unchanged" // a schedule came due with nothing to apply

	// RunInterrupted is a run that ended early because its process was stopped,
	// as by a deployment. It is no failure, and it is run again at once.
	RunInterrupted RunState = "interrupted"

	// RunCancelled is a run that somebody has ended. The task is not run again
	// until its input or definition changes, its schedule is due, or somebody
	// requests a run.
	RunCancelled RunState = "cancelled"

	// RunSuperseded is a run that was replaced before it applied anything: its task
	// was changed before it began, or while it waited. It is not in the task's
	// history.
	RunSuperseded RunState = "superseded"
)

// Ended reports whether the state is final.
func (s RunState) Ended() bool {
	switch s {
	case RunSucceeded, RunFailed, RunLost, RunUnchanged, RunInterrupted, RunCancelled, RunSuperseded:
		return true
	}
	return false
}

// Active reports whether a run in this state has a process, or will have one
// without being resumed.
func (s RunState) Active() bool { return s == RunIntended || s == RunRunning }

// Run is one run of one task: an intent, then a claim, then an outcome. The
// ended runs of a task are its events.
type Run struct {
	ID      string    `json:"id"`
	Task    string    `json:"task"`
	Launch  string    `json:"launch,omitempty"`
	Fence   uint64    `json:"fence,omitempty"`
	Kind    Kind      `json:"kind"`
	Removed bool      `json:"removed,omitempty"` // of a destroy: the task is in no configuration
	ByHand  bool      `json:"by_hand,omitempty"` // of a destroy: a person has requested it
	Reason  Reason    `json:"reason"`
	Seen    time.Time `json:"seen,omitzero"` // when the change behind it was first seen
	Created time.Time `json:"created"`
	// Replaces says that the run replaces a superseded one. It is not superseded
	// itself: if the leader and the runner see different definitions, it fails, and
	// is retried with backoff.
	Replaces bool `json:"replaces,omitempty"`
	// Moves, if set, is the Terraform state that the run takes along first.
	Moves *Move `json:"moves,omitempty"`
	// FromRemote says that another system ran the task until its driver changed: the
	// state of what it has made may still be there.
	FromRemote bool `json:"from_remote,omitempty"`
	// Had is how many resources the task had before; 0 if that is not known.
	Had int `json:"had,omitempty"`
	// WhatIf is set for a plan run with data that is supposed: nothing of it is ever applied.
	WhatIf *WhatIf `json:"what_if,omitempty"`
	// Unsaved is Task.Unsaved, as the run has found or left it.
	Unsaved *Unsaved   `json:"unsaved,omitempty"`
	State   RunState   `json:"state"`
	Cancel  string     `json:"cancel,omitempty"` // who has cancelled the run: its runner sees it when it renews the claim
	Remote  *RemoteRun `json:"remote,omitempty"` // that does its work; nil if there is none
	// ConfirmedLate is Remote.ConfirmedLate: unless the run succeeds, what the task was applied with is
	// not known.
	ConfirmedLate string `json:"confirmed_late,omitempty"`

	Traced *Traced `json:"traced,omitempty"` // nil if there are no traces

	Claimed
	Times
	Waits
	Work
}

// Claimed is the claim of the runner that works on a run, or did last.
type Claimed struct {
	Claim   string    `json:"claim,omitempty"`   // tells this claim from any other
	Owner   string    `json:"owner,omitempty"`   // of the claim: the process
	Runner  string    `json:"runner,omitempty"`  // of the claim: id of the container, if the launcher knows it by one
	Who     string    `json:"who,omitempty"`     // of the claim: whom the state locks of its Terraform name, where that tells it from others
	Version string    `json:"version,omitempty"` // of the claim: the version of the program
	Expires time.Time `json:"expires,omitzero"`  // of the claim, unless renewed
	// ClaimFor is how long the claim lasts from a renewal. A claim that expires
	// later than that was written by a clock that was ahead.
	ClaimFor time.Duration `json:"claim_for,omitempty"`
	Dead     bool          `json:"dead,omitempty"` // of a lost run: its runner is known to have stopped, with all that it had started
}

// Times are the steps of a run.
type Times struct {
	Launched time.Time `json:"launched,omitzero"` // when the runner began that first claimed it
	Started  time.Time `json:"started,omitzero"`  // when it was first claimed
	Planned  time.Time `json:"planned,omitzero"`  // when it was known what it would change; unset if the driver does not plan
	Ended    time.Time `json:"ended,omitzero"`
}

// Waits are what a run waits for, or waited for.
type Waits struct {
	Wait     *Wait         `json:"wait,omitempty"`    // what it waits for, or waited for last
	Resumed  *Resume       `json:"resumed,omitempty"` // who ended its last wait, and when it was launched again
	Waited   time.Duration `json:"waited,omitempty"`  // in all
	Approval *Approval     `json:"approval,omitempty"`
	Rejected bool          `json:"rejected,omitempty"` // a person rejected the plan that the run waited with
}

// Work is what a run read, changed and printed.
type Work struct {
	Digest string `json:"digest,omitempty"` // of what was rendered
	// Staged says that what the run had read when Remote began is kept: it counts as
	// applied when Remote has succeeded. Digest and Entries are of that, too.
	Staged  bool          `json:"staged,omitempty"`
	Error   string        `json:"error,omitempty"`
	Changes *Changes      `json:"changes,omitempty"` // what Terraform did
	Entries *EntryChanges `json:"entries,omitempty"` // what differs in Consul from what was applied before
	Made    *Made         `json:"made,omitempty"`    // what the task has after it; nil if that is not known
	// Verification is what came of the verifications after an apply; nil if nothing was to be verified.
	Verification *Verification `json:"verification,omitempty"`
	// Verifying is how far the verifications have come, of a run that continues them.
	Verifying *Verifying `json:"verifying,omitempty"`
	Logs      int        `json:"logs,omitempty"`     // bytes of its output that are kept
	InState   *int       `json:"in_state,omitempty"` // resources in the state before, if a plan was judged that counted them
	Found     *Drifted   `json:"found,omitempty"`    // by a check for drift that succeeded; nil if nothing differs
	Verdict   *Verdict   `json:"verdict,omitempty"`  // of a plan run of a definition that is not in force
	Begun     *Begun     `json:"begun,omitempty"`    // its apply, as the guards count it; nil if none has begun
	Plan      Kept       `json:"plan,omitzero"`      // of a plan run, in Terraform's words
	PlanData  Kept       `json:"plan_data,omitzero"` // of a plan run: a driver.Plan, unless the driver knows none
	Output    Kept       `json:"output,omitzero"`    // what Terraform printed; where it is zero, it has the name of the run
}

// Result is the short form of an ended run.
type Result struct {
	Task    string    `json:"task,omitempty"` // the former name of a renamed task that the run belongs to
	Run     string    `json:"run"`
	Kind    Kind      `json:"kind"`
	Reason  Reason    `json:"reason"`
	State   RunState  `json:"state"`
	Created time.Time `json:"created"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Error   string    `json:"error,omitempty"`
	Changes *Changes  `json:"changes,omitempty"`
	// Waited is the time between Started and Ended in which the run did not work.
	Waited time.Duration `json:"waited,omitempty"`
	// Rejected is set if a person rejected the plan that the run waited with.
	Rejected bool   `json:"rejected,omitempty"`
	Runner   string `json:"runner,omitempty"` // as in Run

	// Of a run that has not succeeded, what it should have applied:
	Seen    time.Time     `json:"seen,omitzero"` // when the change behind it was first seen
	Entries *EntryChanges `json:"entries,omitempty"`
}

// PrintedTo is where the output of the run is kept.
func (r Run) PrintedTo() Kept { return cmp.Or(r.Output, Kept{Name: r.ID}) }

// Result returns the short form of the run.
func (r Run) Result() *Result {
	res := &Result{Run: r.ID, Kind: r.Kind, Reason: r.Reason, State: r.State, Created: r.Created, Started: r.Started, Ended: r.Ended, Error: r.Error, Rejected: r.Rejected, Runner: r.Runner}
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		res.Waited = r.Ended.Sub(r.Started) - r.Worked(r.Ended)
	}
	res.Changes = r.Changes.Counts()
	return res
}

// TaskPrefix is the collection of the task records.
const TaskPrefix = "task/"

// TaskKey returns the key of a task's record.
func TaskKey(task string) string { return TaskPrefix + element(task) }

// TaskName returns the task of a key made by TaskKey.
func TaskName(key string) string { return unescaped(key[len(TaskPrefix):]) }

// OverrideTask returns the task of a key made by OverrideKey.
func OverrideTask(key string) string { return unescaped(key[len(OverridePrefix):]) }

func unescaped(element string) string {
	name, err := url.PathUnescape(element)
	if err != nil {
		return element
	}
	return name
}

// RunPrefix returns the collection of a task's runs. Ids of runs sort by time.
func RunPrefix(task string) string { return "run/" + element(task) + "/" }

// RunKey returns the key of a run's record.
func RunKey(task, id string) string { return RunPrefix(task) + element(id) }

// LaunchKey returns the key of a launch's record.
func LaunchKey(id string) string { return "launch/" + element(id) }

// OverridePrefix is the collection of the overrides.
const OverridePrefix = "override/"

// OverrideKey returns the key of a task's override.
func OverrideKey(task string) string { return OverridePrefix + element(task) }

// element escapes a name for a key: task names may contain any letter.
func element(name string) string { return url.PathEscape(name) }

// Stored is a record and its decoded content. A record that does not exist yet has
// no Version.
type Stored[T any] struct {
	Record
	Data T
}

// Read reads one record. If it does not exist, there is no error: the result has
// its key and no Version.
func Read[T any](ctx context.Context, s Store, key string) (Stored[T], error) {
	rec, err := s.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Stored[T]{Record: Record{Key: key}}, nil
	}
	if err != nil {
		return Stored[T]{}, err
	}
	return Decode[T](rec)
}

// ReadAnyway reads a record also if it is corrupt: then its data is empty.
func ReadAnyway[T any](ctx context.Context, s Store, key string) (Stored[T], *CorruptError, error) {
	stored, err := Read[T](ctx, s, key)
	if corrupt, ok := errors.AsType[*CorruptError](err); ok {
		return Stored[T]{Record: corrupt.Record}, corrupt, nil
	}
	return stored, nil, err
}

// ReadAll reads the records whose keys begin with prefix, in key order.
func ReadAll[T any](ctx context.Context, s Store, prefix string) ([]Stored[T], error) {
	all, corrupt, err := ReadEach[T](ctx, s, prefix)
	if err == nil && len(corrupt) > 0 {
		return nil, corrupt[0]
	}
	return all, err
}

// ReadEach is ReadAll, but leaves out the records that cannot be decoded, and
// returns the error of each.
func ReadEach[T any](ctx context.Context, s Store, prefix string) ([]Stored[T], []*CorruptError, error) {
	recs, err := s.List(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	all := make([]Stored[T], 0, len(recs))
	var corrupt []*CorruptError
	for _, rec := range recs {
		stored, err := Decode[T](rec)
		if wrong, ok := errors.AsType[*CorruptError](err); ok {
			corrupt = append(corrupt, wrong)
		} else if err != nil {
			return nil, nil, err
		} else {
			all = append(all, stored)
		}
	}
	return all, corrupt, nil
}

// CorruptError is a record that cannot be decoded.
type CorruptError struct {
	Record Record
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record %s in the store is not what Terrapulse writes (was it edited by hand?): %v", e.Record.Key, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Exists reports whether the record existed when it was read.
func (s Stored[T]) Exists() bool { return s.Version != "" }

// Write returns the change that writes data to the record, on the condition that
// the record is still as it was read.
func (s Stored[T]) Write(data T) Change {
	if counts, ok := any(&data).(interface{ counted(was T) }); ok {
		counts.counted(s.Data)
	}
	return s.Record.write(Encode(data))
}

// Cut shortens a text of unknown size to MaxText bytes.
func Cut(text string) string { return CutTo(text, MaxText) }

// Line returns a text of somebody as one line of at most MaxText bytes: without line breaks, control
// characters, and marks that turn the order of letters around. Terminals and chats show it.
func Line(text string) string {
	return Cut(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " "))
}

// CutTo shortens a text of unknown size to so many bytes, and a sign that it is cut.
func CutTo(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + " …" // without part of a character
}
