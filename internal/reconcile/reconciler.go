package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/lease"
	"github.com/terrapulse/terrapulse/internal/overlay"
	"github.com/terrapulse/terrapulse/internal/state"
)

const (
	// refreshEvery is how often every view is read, whatever the gates say: a
	// gate is a hint, and a hint that failed once must not cost a change.
	refreshEvery = 5 * time.Minute

	// liveCheck is how often the runs under way are looked at.
	liveCheck = 10 * time.Second

	// yieldPatience is how long a run whose claim has expired is waited for while
	// the launcher cannot say whether its runner lives. A runner that cannot renew
	// its claim interrupts Terraform, which has 60 seconds to end before it is
	// killed; the rest is for a state that a backend does not take at once.
	yieldPatience = 5 * time.Minute

	// intentPatience is how long a launch that its launcher does not know is
	// asked for again and again, before its runs are taken for lost.
	intentPatience = 15 * time.Minute

	// runsPerLaunch is how many runs one launch carries at most. They are
	// written at once with the launch and the check of the lease: two records
	// each, three where a run was lost, so that 20 lost ones fill a launch.
	runsPerLaunch = 25
)

// LeaseName is the lease that a tick holds while it acts.
const LeaseName = "reconcile"

// Consul is what a tick reads.
type Consul interface {
	Observe(ctx context.Context, queries []consul.Query) []consul.Answer
	Poll(ctx context.Context, gates consul.GateSet) (consul.Marks, error)
}

// Launcher starts runners.
type Launcher interface {
	// Start starts a runner for the launch. To start one again with the same
	// id is harmless.
	Start(ctx context.Context, launch state.Launch) error
	// Status says of each launch whether its runner lives.
	Status(ctx context.Context, launches []string) (map[string]LaunchStatus, error)
}

// LaunchStatus is what a launcher knows of a launch.
type LaunchStatus struct {
	Running bool   // its runner lives, whatever it is at: its runs may be waiting for their turn
	Stopped string // why its runner stopped, if it is known to have stopped
	// Neither: the launcher does not know the launch (any more, or yet).

	// Runner is the one that stopped, as in Stopped.Runner: what another runner
	// of the launch has claimed, which may not be seen yet, is left to that one.
	Runner string
}

// Reconciler takes Consul's changes to runs, a tick at a time.
type Reconciler struct {
	Config   *config.Config // what the files say; overrides come from the store
	Store    state.Store
	Consul   Consul
	Launcher Launcher
	Owner    string        // of the lease; one per process
	LeaseTTL time.Duration // of the lease, which is renewed while it is needed
	// Skew is how far the clocks of the processes that share the store may be
	// apart: another's lease or claim counts as expired only so long after.
	Skew time.Duration
	// Witness and OneClock are those of lease.Options. Witness may be nil.
	Witness  *lease.Witness
	OneClock bool
	// Blocked returns the tasks that cannot be run here, and why; may be nil.
	Blocked func() map[string]error
	Now     func() time.Time
	Log     *slog.Logger

	// Patience is how long Once waits for a lease that another holds: as long as
	// its holder may be a process that was killed if 0, not at all if negative.
	Patience time.Duration
	// Elsewhere has the leader run the tasks of once-mode, if another leads. The
	// error is ErrNotReached if that cannot be done now. May be nil.
	Elsewhere func(ctx context.Context, leader string, tasks []*config.Task) ([]Outcome, error)

	// Bundle is the digest of the bundle that Config was read from; "" where
	// it was read from files.
	Bundle string
	// Refused is a newer configuration that is not in force because it is wrong.
	Refused *state.Refused
	// MaxLaunches is how many launches may be under way at a time; what does
	// not fit waits. 0 sets no limit.
	MaxLaunches int
	// Windowed polls the gates that a Watch holds open, so that ticks with
	// marks and ticks without can follow each other.
	Windowed bool

	effective   *overlay.Effective // nil until the first tick
	overrides   string             // which change of the overrides is in effective
	digest      string
	tasks       []task
	queries     []consul.Query    // every distinct condition
	definitions map[string]string // digests, by task
	hidden      map[string]bool   // tasks of which access control was found to hide a part
	polled      consul.GateSet
	watched     consul.GateSet
	stays       bool // in a Loop, so that calm is kept
	calm        calm
	corrupt     corrupt
	seen        func(version string) // told which version of the reconcile record a tick has seen
}

// calm is what the gates showed in a tick that had nothing else to write. Were
// it written all the same, a store in Consul's KV would move a gate with every
// write, and wake the next tick for nothing but another.
type calm struct {
	version string // of the reconcile record, which has stood since
	marks   consul.Marks
}

// task is what the reconciler knows of a task beyond its configuration.
type task struct {
	*config.Task
	definition string
	query      *consul.Query // nil if it has no condition to read
}

// Prepare makes the configuration that counts from the files and the overrides,
// if the change of the overrides is another than the one that is in it. A tick
// does that by itself.
func (r *Reconciler) Prepare(ctx context.Context, overrides string) error {
	if r.effective != nil && r.overrides == overrides {
		return nil
	}
	effective := overlay.Compose(r.Config, nil)
	if overrides != "" {
		var err error
		if effective, err = overlay.Load(ctx, r.Store, r.Config); err != nil {
			return err
		}
	}
	for name, problem := range effective.Problems {
		r.Log.Error("a change that was made through the API is without effect", "task", name, "error", problem)
	}
	cfg := effective.Config
	r.effective, r.overrides, r.digest = effective, overrides, cfg.Digest()
	r.tasks, r.queries, r.definitions, r.hidden = nil, nil, map[string]string{}, map[string]bool{}
	for i := range cfg.Tasks {
		t := task{Task: &cfg.Tasks[i]}
		t.definition = t.Digest(cfg)
		if q, ok := consul.ConditionQuery(t.Task); ok {
			t.query = &q
			r.queries = append(r.queries, q)
		}
		r.definitions[t.Name] = t.definition
		r.tasks = append(r.tasks, t)
	}
	r.polled, r.watched = consul.PollGates(r.queries), consul.BlockGates(r.queries)
	return nil
}

// prepareStored is Prepare before a tick, for who needs the tasks then.
func (r *Reconciler) prepareStored(ctx context.Context) error {
	rec, err := state.Read[state.Reconcile](ctx, r.Store, state.ReconcileKey)
	if err != nil {
		return fmt.Errorf("read the reconcile record: %w", err)
	}
	return r.Prepare(ctx, rec.Data.Overrides)
}

func (r *Reconciler) saw(version string) {
	if r.seen != nil {
		r.seen(version)
	}
}

// TickOptions say what is special about one tick.
type TickOptions struct {
	// Lease is one that is held already. Without it the tick takes the lease
	// if it finds something to do, and releases it.
	Lease *lease.Lease
	// Marks are what the watched gates showed last, and GatesErr why some of
	// them cannot be read. Without marks, gates are polled.
	Marks    consul.Marks
	GatesErr error
	// Ended says that a run has ended, so that there is something to look at
	// although no gate has moved.
	Ended bool
	// Force asks for a run of these tasks and says who asks.
	Force map[string]string
	// Until, if set, is when the tick begins no further launch: what is left
	// waits for the next tick.
	Until time.Time
	// Replaces is the version of the reconcile record whose bundle the
	// Reconciler's bundle may replace. The caller that sets it has read after that
	// record that the Reconciler's bundle is the one to be in force. A digest
	// would not do: the same bundle may be in force a second time.
	Replaces string
}

// OtherBundleError is returned by a tick whose bundle is not the one in force.
type OtherBundleError struct {
	Bundle  string // digest of the one that is
	Version string // of the reconcile record that says so
}

func (e *OtherBundleError) Error() string {
	return fmt.Sprintf("bundle %.12s is in force, not the one that this process has read", e.Bundle)
}

// Report is what a tick did.
type Report struct {
	Idle      bool // nothing had moved and nothing was due
	Decisions []Decision
	Launches  []state.Launch
	Dropped   []string  // tasks whose records were changed meanwhile: decided anew by the next tick
	Postponed []string  // tasks to be run whose launch has to wait, for want of room, time or capacity
	Problem   string    // why Consul's gates cannot be read
	Stalled   error     // why a launch could not be started: it will be asked for again
	Good      time.Time // when a tick last did its work, as the store has it; an idle one does not write it
	Failing   int       // most runs in a row that failed or were lost, of any task
	// Unreadable is how many tasks' conditions Consul does not show.
	Unreadable int
	Tasks      state.TaskCounts
	Due        time.Time // when to tick again even if no gate moves
	Again      bool      // something is due at once that may not be possible yet: tick again before long
}

// Tick looks once, decides and launches. A tick that finds nothing to do reads
// one record and the gates, and writes nothing. It returns a *lease.HeldError
// if there is something to do and another leads, and an *OtherBundleError if
// another bundle is in force.
func (r *Reconciler) Tick(ctx context.Context, opts TickOptions) (Report, error) {
	t := &tick{Reconciler: r, TickOptions: opts, dead: map[string]state.Stored[state.Run]{}}
	before := r.watched
	rec, err := t.read(ctx)
	if err != nil {
		return Report{}, err
	}
	if !slices.Equal(before.Keys(), r.watched.Keys()) {
		t.Marks = nil // they are those of other gates
	}
	if t.gates = r.watched; t.Marks == nil {
		if !r.Windowed {
			t.gates = r.polled
		}
		t.own = true
		t.Marks, t.GatesErr = r.Consul.Poll(ctx, t.gates)
		if err := ctx.Err(); err != nil {
			return Report{}, fmt.Errorf("look at Consul's gates: %w", err)
		}
	}
	if t.idle(rec.Data) {
		return Report{Idle: true, Due: rec.Data.Due, Problem: rec.Data.Problem, Good: rec.Data.Good, Failing: rec.Data.Failing, Unreadable: unreadableCount(rec.Data), Tasks: rec.Data.Tasks}, nil
	}

	if t.Lease == nil {
		held, err := r.acquire(ctx)
		if err != nil {
			return Report{}, err
		}
		defer r.holding(ctx, held)()
		t.Lease = held
		// What another tick wrote before this one led counts, too.
		overrides := r.overrides
		if rec, err = t.read(ctx); err != nil {
			return Report{}, err
		}
		if overrides != r.overrides {
			return t.again(ctx)
		}
	}
	return t.act(ctx, rec)
}

// acquire takes the lease, or returns a *lease.HeldError.
func (r *Reconciler) acquire(ctx context.Context) (*lease.Lease, error) {
	return lease.Acquire(ctx, r.Store, LeaseName, r.Owner, lease.Options{TTL: r.LeaseTTL, Skew: r.Skew, Witness: r.Witness, OneClock: r.OneClock, Now: r.Now})
}

// holding renews the lease until what it returns is called, which gives the
// lease back.
func (r *Reconciler) holding(ctx context.Context, held *lease.Lease) (release func()) {
	ctx = context.WithoutCancel(ctx)
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		// Whatever is written is written under the lease: nothing has to be
		// stopped when it is lost.
		if err := r.keep(keeping, held); keeping.Err() == nil {
			r.Log.Error("the lease was lost while there was something to do", "fence", held.Fence(), "error", err)
		}
	}()
	return func() {
		stop()
		<-kept
		// The answer matters more than the release: a lease that is not
		// released ends by itself.
		if err := held.Release(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
			r.Log.Warn("the lease is left to expire", "fence", held.Fence(), "error", err)
		}
	}
}

// read reads the record that the last tick has left.
func (t *tick) read(ctx context.Context) (state.Stored[state.Reconcile], error) {
	rec, err := state.Read[state.Reconcile](ctx, t.Store, state.ReconcileKey)
	if err != nil {
		return rec, fmt.Errorf("read the reconcile record: %w", err)
	}
	if inForce := rec.Data.Bundle; inForce != "" && inForce != t.Bundle && rec.Version != t.Replaces {
		return rec, &OtherBundleError{Bundle: inForce, Version: rec.Version}
	}
	t.saw(rec.Version)
	t.version = rec.Version
	return rec, t.Prepare(ctx, rec.Data.Overrides)
}

// tick is one tick on its way.
type tick struct {
	*Reconciler
	TickOptions
	version string // of the reconcile record
	gates   consul.GateSet
	own     bool                               // Marks were polled by this tick
	expiry  time.Time                          // when the first claim of a runner that cannot be seen expires
	dead    map[string]state.Stored[state.Run] // runs found lost, as they were read
	live    map[string]bool                    // launches under way
	report  Report
}

// idle reports whether nothing has moved since rec was written and nothing is due.
func (t *tick) idle(rec state.Reconcile) bool {
	now := t.Now()
	if t.Ended || len(t.Force) > 0 || rec.Config != t.digest || reached(rec.Due, now) {
		return false
	}
	if rec.Bundle != t.Bundle || !sameRefusal(rec.Refused, t.Refused) || rec.Problem != t.problem() || passed(rec.Refreshed, refreshEvery, now, t.Skew) {
		return false
	}
	moved := t.moved(rec)
	for _, q := range t.queries {
		if moved(q) {
			return false
		}
	}
	return true
}

func sameRefusal(a, b *state.Refused) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Bundle == b.Bundle && (a.Bundle != "" || a.Error == b.Error)
}

// problem is why gates cannot be read, as it is recorded.
func (t *tick) problem() string {
	if t.GatesErr == nil {
		return ""
	}
	return state.Cut(t.GatesErr.Error())
}

// sighted reports whether any gate showed something.
func (t *tick) sighted() bool {
	for _, mark := range t.Marks {
		if mark != "" {
			return true
		}
	}
	return false
}

// moved returns which conditions may have changed since rec was written.
func (t *tick) moved(rec state.Reconcile) func(consul.Query) bool {
	var before consul.Marks
	if t.calm.marks != nil && t.calm.version == t.version {
		before = t.calm.marks
	} else if len(rec.Gates) > 0 {
		if err := json.Unmarshal(rec.Gates, &before); err != nil {
			before = nil // then everything may have moved
		}
	}
	return t.gates.Moved(before, t.Marks)
}

// act does what is to be done, under the lease.
func (t *tick) act(ctx context.Context, rec state.Stored[state.Reconcile]) (Report, error) {
	states, err := t.readStates(ctx)
	if err != nil {
		return Report{}, err
	}
	if settled, err := t.settleTrials(ctx, states); err != nil {
		return Report{}, err
	} else if settled {
		return t.again(ctx)
	}
	inputs, err := t.observe(ctx, rec.Data, states)
	if err != nil {
		return Report{}, err
	}
	// Who changes an override writes its task's record, too: what was read of
	// the tasks fits the overrides only if those are the same still.
	last, err := state.Read[state.Reconcile](ctx, t.Store, state.ReconcileKey)
	if err != nil {
		return Report{}, fmt.Errorf("read the reconcile record: %w", err)
	}
	if last.Data.Overrides != t.overrides {
		return t.again(ctx)
	}
	now := t.Now()
	t.report.Decisions = Decide(inputs, now)
	t.corrupt.tell(t.Log, t.report.Decisions)
	if err := t.carryOut(ctx, states, now); err != nil {
		return t.report, err
	}
	err = t.finish(ctx, rec, now)
	return t.report, err
}

// again ticks once more under the lease, for the overrides are others by now,
// and with them, perhaps, the gates.
func (t *tick) again(ctx context.Context) (Report, error) {
	opts := t.TickOptions
	if t.own {
		opts.Marks, opts.GatesErr = nil, nil
	}
	return t.Reconciler.Tick(ctx, opts)
}

// readStates returns the records of all tasks by name; also of tasks that are
// in the store only.
func (r *Reconciler) readStates(ctx context.Context) (map[string]state.Stored[state.Task], error) {
	all, corrupt, err := state.ReadEach[state.Task](ctx, r.Store, state.TaskPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the tasks' records: %w", err)
	}
	states := make(map[string]state.Stored[state.Task], len(all))
	for _, s := range all {
		states[state.TaskName(s.Key)] = s
	}
	r.corrupt.begin(r.effective.Corrupt)
	for _, err := range corrupt {
		name := state.TaskName(err.Record.Key)
		states[name] = state.Stored[state.Task]{Record: err.Record}
		r.corrupt.add(name, err)
	}
	for _, task := range r.tasks {
		if _, ok := states[task.Name]; !ok {
			s := state.Stored[state.Task]{}
			s.Key = state.TaskKey(task.Name)
			states[task.Name] = s
		}
	}
	return states, nil
}

// observe collects what the decision needs: it reads the conditions that may
// have changed or that something hangs on, and looks after the runs under way.
func (t *tick) observe(ctx context.Context, rec state.Reconcile, states map[string]state.Stored[state.Task]) ([]Input, error) {
	now := t.Now()
	// After an outage Consul may be another one, whose index happens to be the
	// same: everything is read then.
	recovered := rec.Problem != "" && t.problem() == ""
	all := recovered || rec.Config != t.digest || passed(rec.Refreshed, refreshEvery, now, t.Skew)
	moved := t.moved(rec)
	// Where no gate at all can be read, nothing else can: what needs reading waits.
	blind := t.GatesErr != nil && !t.sighted()
	if blind {
		moved = func(consul.Query) bool { return false }
	}

	var blocked map[string]error
	if t.Blocked != nil {
		blocked = t.Blocked()
	}
	inputs := make([]Input, len(t.tasks))
	for i, task := range t.tasks {
		s := states[task.Name].Data
		inputs[i] = Input{Task: task.Task, Definition: task.definition, State: s, Force: t.Force[task.Name], Blocked: blocked[task.Name], Skew: t.Skew}
		if t.corrupt.has(task.Name) {
			inputs[i] = Input{Task: task.Task, Corrupt: true}
			continue
		}
		if o := t.effective.Overrides[task.Name]; o.Trial != nil && s.Run == nil && s.Forced == "" && !tried(o, s) {
			inputs[i].Force = o.By // what was asked for is forgotten where the task was not there for a while
		}
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		if _, ok := t.effective.Config.Task(name); !ok {
			inputs = append(inputs, Input{Task: &config.Task{Name: name}, Removed: true, Blocked: t.effective.Problems[name], State: states[name].Data,
				Corrupt: t.corrupt.has(name)})
		}
	}
	if err := t.lookAfterRuns(ctx, inputs, states); err != nil {
		return nil, err
	}
	t.live = map[string]bool{}
	for _, in := range inputs {
		if in.State.Run != nil && in.Lost == nil {
			t.live[in.State.Run.Launch] = true
		}
	}

	var queries []consul.Query
	var asked []int // which input each query is for
	for i, task := range t.tasks {
		in := &inputs[i]
		s := in.State
		switch {
		case !task.Enabled, in.Corrupt:
		case task.query == nil:
			in.Observed = &Observed{}
		case all || moved(*task.query) || s.ObservedAt.IsZero() || s.Recheck || in.Lost != nil || reached(s.Due, now) ||
			in.Force != "" || s.Forced != "" || s.Held == state.HoldNext || s.Definition != task.definition:
			queries, asked = append(queries, *task.query), append(asked, i)
		}
	}

	if blind {
		for _, i := range asked {
			inputs[i].Unreadable, inputs[i].Blind = t.GatesErr, true
		}
	} else {
		for n, answer := range t.Consul.Observe(ctx, queries) {
			in := &inputs[asked[n]]
			if answer.Err != nil {
				in.Unreadable = answer.Err
				continue
			}
			in.Observed, in.Unreadable = t.observed(ctx, in, answer)
			t.warnHidden(in.Task.Name, answer.Visibility.Hidden())
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// warnHidden logs, once in this process, that a task works with a part of what
// it selects.
func (r *Reconciler) warnHidden(task, hidden string) {
	if hidden != "" && !r.hidden[task] {
		r.Log.Warn(hidden, "task", task)
	}
	r.hidden[task] = hidden != ""
}

// observed returns what the condition showed, and in words how that differs
// from what was last applied; or why what is missing may only be hidden.
func (t *tick) observed(ctx context.Context, in *Input, answer consul.Answer) (*Observed, error) {
	o := &Observed{Digest: answer.Digest}
	if answer.Digest == in.State.Applied {
		return o, nil
	}
	before, err := state.LoadInputs(ctx, t.Store, in.Task.Name)
	if err != nil && !errors.Is(err, state.ErrTorn) {
		return nil, fmt.Errorf("read what the task was applied with: %w", err)
	}
	if err := answer.Visibility.Confirm(ctx, before.Sources); err != nil {
		return nil, err
	}
	if err != nil {
		t.Log.Debug("what changed cannot be said in detail", "task", in.Task.Name, "error", err)
		return o, nil
	}
	o.Changed = state.Cut(consul.Diff(before.Elements, answer.Elements).String())
	return o, nil
}

// lookAfterRuns finds out which of the runs under way are dead, and asks once
// more for those whose launch may never have been asked for.
func (t *tick) lookAfterRuns(ctx context.Context, inputs []Input, states map[string]state.Stored[state.Task]) error {
	var launches []string
	for _, in := range inputs {
		if in.State.Run != nil {
			launches = append(launches, in.State.Run.Launch)
		}
	}
	if len(launches) == 0 {
		return nil
	}
	statuses, err := t.Launcher.Status(ctx, launches)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// Only the claims show which runs are alive then, and what no runner has
		// claimed waits. The other tasks go on.
		t.Log.Warn("cannot read the status of the launches under way: their runs wait until their claims have expired",
			"wait", yieldPatience, "error", err)
	}
	known := err == nil
	relaunched := map[string]relaunch{} // by launch
	for i := range inputs {
		live := inputs[i].State.Run
		if live == nil || statuses[live.Launch].Running {
			continue
		}
		run, err := state.Read[state.Run](ctx, t.Store, state.RunKey(inputs[i].Task.Name, live.ID))
		if wrong := (*state.CorruptError)(nil); errors.As(err, &wrong) {
			t.corrupt.add(inputs[i].Task.Name, wrong)
			inputs[i].Corrupt = true
			continue
		}
		if err != nil {
			return fmt.Errorf("read run %s: %w", live.ID, err)
		}
		if run.Data.State.Ended() {
			// Its task was told in the same step: after the task was read.
			name := inputs[i].Task.Name
			if states[name], err = state.Read[state.Task](ctx, t.Store, state.TaskKey(name)); err != nil {
				return fmt.Errorf("read task %s: %w", name, err)
			}
			inputs[i].State = states[name].Data
			if again := inputs[i].State.Run; again == nil || again.ID != live.ID {
				continue
			}
		}
		if !known && run.Data.State == state.RunIntended {
			continue
		}
		if run, err = t.boundClaim(ctx, t.Lease, run); err != nil {
			return err
		}
		now := t.Now()
		grace := t.Skew
		if !known {
			grace += yieldPatience
		}
		stopped := ""
		if status := statuses[live.Launch]; (Stopped{Runner: status.Runner}).left(run.Data) {
			stopped = status.Stopped
		}
		lost := lifeless(run.Data, stopped, now, grace)
		if lost == "" && run.Data.State == state.RunIntended {
			again, done := relaunched[live.Launch]
			if !done {
				if again, err = t.relaunch(ctx, live.Launch); err != nil {
					return err
				}
				relaunched[live.Launch] = again
			}
			if lost = again.useless; lost == "" && again.definitions[live.ID] != inputs[i].Definition {
				lost = "it was decided on another definition of the task and had not begun"
			}
		}
		if lost == "" {
			if !run.Data.Expires.IsZero() {
				t.expiry = earlier(t.expiry, run.Data.Expires.Add(grace))
			}
			continue
		}
		ended := run.Data
		ended.ID, ended.Task = live.ID, inputs[i].Task.Name
		ended.State, ended.Ended, ended.Error = state.RunLost, now, state.Cut(lost)
		ended.Dead = stopped != ""
		inputs[i].Lost = &ended
		t.dead[live.ID] = run
	}
	return nil
}

// boundClaim cuts a claim that ends later than a renewal could make it, because
// a clock was ahead, to its full time from now. A runner that lives renews it.
func (r *Reconciler) boundClaim(ctx context.Context, held *lease.Lease, run state.Stored[state.Run]) (state.Stored[state.Run], error) {
	now, next := r.Now(), run.Data
	if next.State != state.RunRunning || next.ClaimFor == 0 || next.Expires.Sub(now) <= next.ClaimFor+r.Skew {
		return run, nil
	}
	next.Expires = now.Add(next.ClaimFor)
	written, err := held.Apply(ctx, run.Write(next))
	if conflict := new(state.ConflictError); errors.As(err, &conflict) {
		return state.Read[state.Run](ctx, r.Store, run.Key) // it was renewed, or has ended
	}
	if err != nil {
		return run, fmt.Errorf("shorten the claim of run %s, which expires too late: %w", run.Data.ID, err)
	}
	r.Log.Info("the claim of a run was shortened: it was written by a clock that was ahead", "task", next.Task, "run", next.ID, "expires", next.Expires)
	return state.Stored[state.Run]{Record: written[0], Data: next}, nil
}

// lifeless says why a task's run is lost whose runner is not seen alive, and
// is known to have stopped if stopped says why. It is empty if the run may
// still come to its end. A claim counts for a grace after it has expired.
func lifeless(run state.Run, stopped string, now time.Time, grace time.Duration) string {
	switch {
	case run.ID == "":
		return "its record is gone"
	case run.State.Ended():
		return "it ended without its task being told"
	case stopped != "":
		return stopped
	case run.State == state.RunIntended && passed(run.Created, intentPatience, now, grace):
		return fmt.Sprintf("no runner claimed it within %s", intentPatience)
	case run.State == state.RunRunning && !now.Before(run.Expires.Add(grace)):
		return fmt.Sprintf("its runner %s has given no sign of life since %s", run.Owner, stamp(run.Expires, now))
	}
	return ""
}

// relaunch is what came of asking for a launch once more.
type relaunch struct {
	useless     string            // why it was not asked for
	definitions map[string]string // that its runs were decided on, by run
}

// relaunch asks once more for a launch that may never have been asked for: a
// process may have died between writing the intent and launching it. Runs that
// were decided on another definition of their task are refused by the runner.
func (t *tick) relaunch(ctx context.Context, id string) (relaunch, error) {
	launch, err := state.Read[state.Launch](ctx, t.Store, state.LaunchKey(id))
	corrupt := (*state.CorruptError)(nil)
	switch {
	case errors.As(err, &corrupt):
		return relaunch{useless: corrupt.Error()}, nil
	case err != nil:
		return relaunch{}, fmt.Errorf("read launch %s: %w", id, err)
	case !launch.Exists():
		return relaunch{useless: "the record of its launch is gone"}, nil
	case launch.Data.Bundle != t.Bundle:
		return relaunch{useless: "it was decided on another bundle and had not begun"}, nil
	}
	again := relaunch{definitions: map[string]string{}}
	valid := false
	for _, run := range launch.Data.Runs {
		again.definitions[run.ID] = run.Definition
		valid = valid || run.Definition == t.definitions[run.Task]
	}
	if valid {
		t.Log.Info("launching again what was decided before", "launch", id)
		t.start(ctx, launch.Data)
	}
	return again, nil
}

// startsAtOnce is how many launches are asked for side by side: ECS takes up
// to a second for one, and 20 a second in the long run.
const startsAtOnce = 8

// start starts launches. Where that fails, their intents stand, so that the
// next tick asks again under the same ids, and this one begins no others.
func (t *tick) start(ctx context.Context, launches ...state.Launch) {
	errs := make([]error, len(launches))
	var work sync.WaitGroup
	for i, launch := range launches[1:] {
		work.Go(func() { errs[i+1] = t.Launcher.Start(ctx, launch) })
	}
	errs[0] = t.Launcher.Start(ctx, launches[0])
	work.Wait()
	for i, err := range errs {
		if err == nil {
			continue
		}
		t.Log.Error("launch not started, it will be asked for again", "launch", launches[i].ID, "fence", launches[i].Fence, "error", err)
		if t.report.Stalled == nil {
			t.report.Stalled = fmt.Errorf("start launch %s: %w", launches[i].ID, err)
		}
	}
}

// carryOut writes what was decided and launches the runs, a batch at a time:
// an intent is never far from its launch.
func (t *tick) carryOut(ctx context.Context, states map[string]state.Stored[state.Task], now time.Time) error {
	quiet := batch{tick: t, now: now, limit: state.MaxChanges - 1}
	runs := batch{tick: t, now: now, limit: state.MaxChanges - 2, launches: true}
	erased := 0
	for _, d := range t.report.Decisions {
		if d.Reason.Kind == state.ReasonCorrupt {
			continue // what is there may be worth more than what would be written
		}
		if d.Action == Erase {
			if erased++; erased <= erasedPerTick {
				if err := t.erase(ctx, states[d.Task.Name]); err != nil {
					return err
				}
			}
			continue
		}
		target := &quiet
		if d.Action == Run {
			target = &runs
		}
		if err := target.add(ctx, states[d.Task.Name], d); err != nil {
			return errors.Join(err, runs.startWritten(ctx))
		}
	}
	err := errors.Join(runs.flush(ctx), runs.startWritten(ctx))
	for _, d := range runs.postponed {
		err = errors.Join(err, quiet.add(ctx, states[d.Task.Name], d))
	}
	return errors.Join(err, quiet.flush(ctx))
}

// full says why no further launch may begin now, if so.
func (t *tick) full() string {
	under := len(t.live) + len(t.report.Launches)
	switch {
	case t.report.Stalled != nil:
		return state.Cut(t.report.Stalled.Error())
	case !t.Until.IsZero() && !t.Now().Before(t.Until):
		return "this tick has no time left"
	case t.MaxLaunches > 0 && under >= t.MaxLaunches:
		return fmt.Sprintf("%d launches are under way, and no more than %d may be", under, t.MaxLaunches)
	}
	return ""
}

// finish leaves word for the next tick.
func (t *tick) finish(ctx context.Context, rec state.Stored[state.Reconcile], now time.Time) error {
	next := rec.Data
	next.Config, next.Bundle, next.Refused, next.Overrides = t.digest, t.Bundle, t.Refused, t.overrides
	if t.Refused != nil && sameRefusal(rec.Data.Refused, t.Refused) {
		next.Refused = rec.Data.Refused // since when counts
	}
	next.Stalled, next.Failing, next.Unreadable, next.Tasks = "", 0, t.unreadable(), state.TaskCounts{}
	if t.report.Stalled != nil {
		next.Stalled = state.Cut(t.report.Stalled.Error())
	}
	t.report.Problem = t.problem()
	next.Due, t.report.Due = t.expiry, t.expiry
	for _, d := range t.report.Decisions {
		if d.Reason.Kind != state.ReasonRemoved && d.Reason.Kind != state.ReasonDisabled {
			next.Failing = max(next.Failing, d.State.Failures)
		}
		if d.Action != Run || d.State.Failures > 0 {
			next.Tasks.Count(d.State)
		}
		due := d.State.Due
		if d.Action == Run || d.State.Run != nil {
			due = now.Add(liveCheck)
		}
		next.Due = earlier(next.Due, due)
		// What is due and could not be done must not hide what will be due.
		if reached(due, now) {
			t.report.Again = true
		} else {
			t.report.Due = earlier(t.report.Due, due)
		}
	}
	next.Tasks.Waiting += len(t.report.Postponed)
	looked := false
	if len(t.report.Dropped)+len(t.report.Postponed) > 0 || t.report.Stalled != nil {
		t.report.Again = true
		next.Due = now // the gates stay as they were: everything behind them is read again
	} else if looked = t.sighted() || t.gates.Len() == 0; looked {
		gates, err := json.Marshal(t.Marks)
		if err != nil {
			return fmt.Errorf("encode the gates: %w", err)
		}
		next.Gates = gates
		if next.Config != rec.Data.Config || passed(next.Refreshed, refreshEvery, now, t.Skew) {
			next.Refreshed = now
		}
	}
	switch problem := t.problem(); {
	case problem == "" && t.report.Stalled != nil: // no good tick, but no fault of Consul's
		next.Problem, next.Since = "", time.Time{}
	case problem == "":
		if next.Problem != "" {
			t.Log.Info("Consul's gates can be read again", "since", next.Since)
		}
		next.Good, next.Problem, next.Since = now, "", time.Time{}
	case next.Problem == "":
		next.Problem, next.Since = problem, now
		t.Log.Warn("Consul's gates cannot be read", "error", problem)
	default:
		next.Problem = problem
	}
	next.Blind = next.Problem != "" && !t.sighted()
	if next.Blind && !rec.Data.Blind {
		next.Since = now
	}
	t.report.Good, t.report.Failing, t.report.Unreadable, t.report.Tasks = next.Good, next.Failing, unreadableCount(next), next.Tasks
	if t.stays && looked {
		quiet := next
		quiet.Gates, quiet.Good = rec.Data.Gates, rec.Data.Good // written when everything is read again
		if bytes.Equal(state.Encode(quiet), state.Encode(rec.Data)) {
			t.calm = calm{rec.Version, t.Marks}
			return nil
		}
	}
	if bytes.Equal(state.Encode(next), state.Encode(rec.Data)) {
		return nil
	}
	return t.leave(ctx, rec, next)
}

// unreadable sums up which tasks cannot be read, nil if all can.
func (t *tick) unreadable() *state.Unreadable {
	u := state.Unreadable{All: true}
	for _, d := range t.report.Decisions {
		switch since := d.State.UnreadableSince; {
		case !since.IsZero():
			u.Count++
			if len(u.Tasks) < state.MaxNames {
				u.Tasks = append(u.Tasks, d.Task.Name)
			}
			if u.Error == "" && d.Unreadable != nil {
				u.Error = state.Cut(d.Unreadable.Error())
			}
			if since.After(u.Since) {
				u.Since = since
			}
		case d.Reason.Kind != state.ReasonRemoved && d.Reason.Kind != state.ReasonDisabled && d.Task.Condition.Kind != config.KindNone:
			u.All = false
		}
	}
	if u.Count == 0 {
		return nil
	}
	return &u
}

func unreadableCount(rec state.Reconcile) int {
	if rec.Unreadable == nil {
		return 0
	}
	return rec.Unreadable.Count
}

// leave writes the record. Who changes an override meanwhile, or asks for a
// tick, writes it too: that stands, and the next tick looks at once.
func (t *tick) leave(ctx context.Context, rec state.Stored[state.Reconcile], next state.Reconcile) error {
	for {
		written, err := t.Lease.Apply(ctx, rec.Write(next))
		if err == nil {
			t.saw(written[0].Version)
			return nil
		}
		conflict := new(state.ConflictError)
		if !errors.As(err, &conflict) || conflict.Change.Key != state.ReconcileKey {
			return fmt.Errorf("write the reconcile record: %w", err)
		}
		if rec, err = state.Read[state.Reconcile](ctx, t.Store, state.ReconcileKey); err != nil {
			return fmt.Errorf("read the reconcile record: %w", err)
		}
		now := t.Now()
		next.Overrides, next.Due, t.report.Due = rec.Data.Overrides, now, now
	}
}

// reached reports whether a due time is set and has come.
func reached(due, now time.Time) bool { return !due.IsZero() && !now.Before(due) }

// passed reports whether the interval has passed since a time that was stored.
// A time that lies ahead by more than clocks may be apart was written by a
// clock that was wrong: the interval counts as passed.
func passed(since time.Time, interval time.Duration, now time.Time, skew time.Duration) bool {
	return !now.Before(since.Add(interval)) || since.After(now.Add(skew))
}

// earlier returns the earlier of two times, where zero stands for never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// newID returns an id that sorts by the time of its making.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
