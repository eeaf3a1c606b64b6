// Package reconcile makes the ticks: a tick observes Consul, has package decide decide
// about every task, writes the intent and launches the runs. Reconciler makes one tick;
// Loop makes ticks for as long as it leads.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/spans"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// Consul is what a tick reads.
type Consul interface {
	Observe(ctx context.Context, queries []consul.Query) []consul.Answer
	Poll(ctx context.Context, gates consul.GateSet) (consul.Marks, error)
	Identify(ctx context.Context, datacenter string) (state.Identity, error)
}

// Launcher starts runners.
type Launcher interface {
	// Start starts a runner for the launch. To start one again with the same
	// id is harmless. ErrRefused is among its errors if it is certain that none was started.
	Start(ctx context.Context, launch state.Launch) error
	// Status says of each launch whether its runner lives. It is given the ids of
	// launches, and of runners that have taken the launches of others.
	Status(ctx context.Context, ids []string) (map[string]LaunchStatus, error)
}

// ErrRefused says that a launcher has answered, and has started nothing for this launch. Others may begin.
var ErrRefused = errors.New("nothing was started")

// Sharer is a Launcher that lets other instances of a cluster take launches while its process leads.
type Sharer interface {
	Launcher
	// Share begins that. It writes with apply, under the lease.
	Share(ctx context.Context, apply func(context.Context, ...state.Change) ([]state.Record, error)) (stop func())
	// Unreached returns why an instance takes no launches; "" if it does.
	Unreached(ctx context.Context, instance string) (why string, err error)
}

// LaunchStatus is the status of a launch.
type LaunchStatus struct {
	Running bool   // its runner is alive; its runs may still be queued
	Stopped string // why its runner stopped, if it is known to have stopped
	// Neither: the launcher does not know the launch (any more, or yet), or not whether its runner
	// is alive.

	// Blocked is why nothing can start its runner now, such as that there is no capacity. The
	// launch is Running: it starts as soon as that is possible, unless its runs are lost before.
	Blocked string

	// Runner is the one that stopped, as in settle.Stopped: what another runner
	// of the launch has claimed, which may not be seen yet, is left to that one.
	Runner string
}

// alive reports whether the runs of the launch need no further look.
func (s LaunchStatus) alive() bool { return s.Running && s.Blocked == "" }

// Reconciler decides which tasks to run and launches them, one tick at a time.
type Reconciler struct {
	Config *config.Config // what the files say; overrides come from the store
	// Source is the cache of the effective configuration; may be nil.
	Source   *overlay.Source
	Store    state.Store
	Consul   Consul
	Launcher Launcher
	Owner    string        // of the lease; one per process
	LeaseTTL time.Duration // of the lease, which is renewed while it is needed
	// Skew is the maximum difference between the clocks of the processes that share
	// the store. Leases and claims of others end that much later.
	Skew time.Duration
	// Witness and OneClock are those of lease.Options. Witness may be nil.
	Witness  *lease.Witness
	OneClock bool
	// Remote is the system in which runs go on; nil if they go on in no other system.
	Remote Remote
	// Blocked returns the tasks that cannot be run here, and why; may be nil.
	Blocked func() map[string]error
	// ModuleChanged returns when a file of a local module was changed last; nil where the definition of a task
	// has a digest of them.
	ModuleChanged func(folder string) time.Time
	Now           func() time.Time
	Log           *slog.Logger
	// Said are the events that this process has logged. Set it where something
	// else logs events, too.
	Said *outbox.Said
	// Gates, if set, is called with what the gates show in a tick, which may not be
	// written.
	Gates func(map[string]state.Gate)
	// Backlog, if set, is called with the events that are not delivered while this process leads.
	Backlog func(outbox.Backlog)
	// Sinks returns what takes events, beside the log; may be nil.
	Sinks func() []outbox.Sink
	// Stack is the name of the deployment in AWS; messages about events have it in the
	// command that shows the pages. Empty elsewhere.
	Stack string
	// Links returns the pages of the AWS console about a container; nil elsewhere.
	Links func(runner string) *outbox.Links

	// Patience is how long Once waits for a lease that another holds: as long as
	// its holder may be a process that was killed if 0, not at all if negative.
	Patience time.Duration
	// Elsewhere has the leader run the tasks of once-mode, if another leads. The
	// error is ErrNotReached if that cannot be done now. May be nil.
	Elsewhere func(ctx context.Context, leader string, cfg *config.Config) ([]Outcome, error)

	// Secret returns which variables of a task are secret, so that their values are not
	// kept. It returns nil if that is not known yet. Nil where literal values are never
	// secret.
	Secret func(*config.Task) func(name string) bool

	// Bundle is the digest of the bundle that Config was read from; "" where
	// it was read from files.
	Bundle string
	// Refused is a newer configuration that is not in force because it is wrong.
	Refused *state.Refused
	// BeginsPaused says that a store in which nothing was decided yet is paused until
	// somebody resumes.
	BeginsPaused bool
	// MaxLaunches is how many launches may be under way at a time; further runs
	// wait. 0 sets no limit.
	MaxLaunches int
	// Linger is how long the runners of launches wait for another launch; 0 if they end
	// at once. Definition is what new runners are made from: only those get offers.
	Linger     time.Duration
	Definition string
	// Traces says which runs are traced; nil for none. Spans exports spans; may be nil.
	Traces *tracing.Sampler
	Spans  spans.Recorder
	// Apart gives each run a launch of its own, so that other instances can take it.
	Apart bool
	// Windowed polls the gates that a Watch holds open, so that ticks with
	// marks and ticks without can follow each other.
	Windowed bool

	prepared
	deliveries
	summary summary.Summary
	lease   lease.Known // of ticks that take the lease

	rereads   map[string]bool    // tasks whose conditions the next tick reads, whatever their gates show
	waits     []state.RemoteWait // for remote runs, after the latest tick that was not idle
	backoffs  []backoff          // of tasks with local modules, after the same tick
	inLoop    bool               // quiet is kept from tick to tick
	quiet     quietGates
	warned    map[string]string    // of records that cannot be decoded: the errors that were logged, by task
	onVersion func(version string) // called with each version of the reconcile record that a tick reads or writes
}

// prepared is what Prepare derives from the effective configuration.
type prepared struct {
	effective   *overlay.Effective // nil until the first tick
	overrides   string             // which change of the overrides is in effective
	digest      string
	tasks       []task
	order       *config.Order     // nil if there is none
	queries     []consul.Query    // every distinct condition
	definitions map[string]string // digests, by task
	kept        map[string]*kept  // what is kept of definitions, by task
	hidden      map[string]bool   // tasks of which access control was found to hide a part
	polled      consul.GateSet
	watched     consul.GateSet
}

// deliveries are what is known of the deliveries of events.
type deliveries struct {
	rests       *outbox.Rests // of the sinks
	outbox      outbox.Known
	delivers    chan<- struct{} // starts a delivery in the background; nil: a tick delivers
	undelivered int             // deliveries in a row that left events
	deliverAt   time.Time       // when events that were left are delivered again; zero if none were
}

// quietGates are what the gates showed in a tick that had nothing else to write.
// They are not written: with the store in Consul's KV, each write would move a
// gate and start another tick for nothing.
type quietGates struct {
	version string // of the reconcile record, which was not written since
	gates   map[string]state.Gate
}

// task is what the reconciler knows of a task beyond its configuration.
type task struct {
	*config.Task
	definition string
	shape      string
	query      *consul.Query       // nil if it has no condition to read
	inputs     []consul.InputQuery // what it is applied with

	datacenters []string // that it reads
}

// Prepare derives the tasks and gates from the effective configuration, if the
// latest change of the overrides is another one than before. A tick does that by
// itself.
func (r *Reconciler) Prepare(ctx context.Context, overrides string) error {
	if r.effective != nil && r.overrides == overrides {
		return nil
	}
	effective, err := r.Source.At(ctx, r.Store, r.Config, overrides)
	if err != nil {
		return err
	}
	for name, problem := range effective.Problems {
		r.Log.Error("a change that was made through the API is without effect: delete the task through the API, or correct the task files", "task", name, "error", problem)
	}
	cfg := effective.Config
	r.prepared = prepared{effective: effective, overrides: overrides, digest: cfg.Digest(), order: cfg.Order(), definitions: map[string]string{}, kept: map[string]*kept{}}
	for i := range cfg.Tasks {
		t := task{Task: &cfg.Tasks[i], datacenters: consul.Places(&cfg.Tasks[i]), inputs: consul.InputQueries(&cfg.Tasks[i])}
		t.definition, t.shape = t.Digest(cfg), t.Shape(cfg)
		if q, ok := consul.ConditionQuery(t.Task); ok {
			t.query = &q
			r.queries = append(r.queries, q)
		}
		r.definitions[t.Name] = t.definition
		if k := r.toKeep(cfg, t.Task); k != nil {
			r.kept[t.Name] = k
		}
		r.tasks = append(r.tasks, t)
	}
	r.polled, r.watched = consul.PollGates(r.queries), consul.BlockGates(r.queries)
	return nil
}

// prepareStored is Prepare with the stored overrides, before a tick.
func (r *Reconciler) prepareStored(ctx context.Context) error {
	rec, err := state.ReadReconcile(ctx, r.Store)
	if err != nil {
		return err
	}
	return r.Prepare(ctx, rec.Data.Overrides)
}

func (r *Reconciler) noteVersion(version string) {
	if r.onVersion != nil {
		r.onVersion(version)
	}
}
