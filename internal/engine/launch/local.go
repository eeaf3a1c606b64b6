// Package launch starts runners for decided runs.
package launch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// planShare and checkShare are how many runs are executed at a time for each plan and for each check for
	// drift.
	planShare  = 2
	checkShare = 4

	// maxPlans limits how many plans wait.
	maxPlans = 6000
)

// Local executes the runs of launches in this process, several in parallel. A failed run does not
// affect the others.
type Local struct {
	run     func(ctx context.Context, launch state.Launch, run state.PlannedRun) error
	log     *slog.Logger
	ended   chan struct{} // receives when a run has ended
	changed chan struct{} // receives when runs have come, begun or ended
	work    sync.WaitGroup

	mu     sync.Mutex
	runs   lane
	plans  lane             // that somebody requested, also for a what-if: runs must not wait for these,
	checks lane             // nor for checks for drift
	alive  map[string]int   // number of runs in a lane that have not ended, by launch; 0 while it waits for a lane
	lost   map[string]error // why runs have no outcome in the store, by run
	count  uint64           // runs that have ended
	closed bool             // there is no room for launches of others
	ctx    context.Context
}

// lane executes runs in the order in which they came, those of several senders in turns.
type lane struct {
	size    int // how many are executed at a time
	free    int // how many more may begin now
	waiting []waiting
	turns   uint64            // how many have begun
	turn    map[string]uint64 // the latest of each sender
}

// waiting is a run that has not begun.
type waiting struct {
	launch state.Launch
	run    state.PlannedRun
}

// NewLocal returns a launcher that calls run for up to parallel runs at a time. When ctx ends, runs
// are interrupted.
func NewLocal(ctx context.Context, parallel int, log *slog.Logger, run func(context.Context, state.Launch, state.PlannedRun) error) *Local {
	return &Local{
		run: run, log: log, ctx: ctx,
		runs: laneOf(parallel), plans: laneOf(parallel / planShare), checks: laneOf(parallel / checkShare),
		ended: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		alive: map[string]int{}, lost: map[string]error{},
	}
}

func laneOf(size int) lane {
	size = max(size, 1)
	return lane{size: size, free: size, turn: map[string]uint64{}}
}

// next removes the first run of the sender whose latest turn is longest ago.
func (in *lane) next() waiting {
	at := 0
	for i, w := range in.waiting {
		if in.turn[w.launch.By] < in.turn[in.waiting[at].launch.By] {
			at = i
		}
	}
	next := in.waiting[at]
	in.waiting = slices.Delete(in.waiting, at, at+1)
	if in.turns++; len(in.waiting) > 0 {
		in.turn[next.launch.By] = in.turns
	} else {
		clear(in.turn)
	}
	return next
}

// Admits implements reconcile.Bounded. A sender may have as many plans waiting as there are places left, so
// there is always one for somebody else.
func (l *Local) Admits(_ context.Context, by string, plans int) (launches int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := len(l.plans.waiting)
	for _, w := range l.plans.waiting {
		if w.launch.By == by {
			taken++
		}
	}
	permitted := (maxPlans - taken + 1) / 2 // each is one more that waits, and one more of its sender
	return plans, reconcile.Fit(plans, permitted, fmt.Sprintf(
		"%d wait for their turn on this instance: try again when some have ended, or name fewer tasks", len(l.plans.waiting)))
}

// Start begins to execute the launch's runs and returns. A launch under way is not started again.
func (l *Local) Start(_ context.Context, launch state.Launch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.lane(launch)
	in.waiting = append(in.waiting, l.comes(launch)...)
	l.begin(in)
	notify(l.changed)
	return nil
}

// comes returns the runs of a launch that has come; none if it is under way already. The caller holds the lock.
func (l *Local) comes(launch state.Launch) []waiting {
	if l.alive[launch.ID] > 0 {
		return nil
	}
	l.alive[launch.ID] = len(launch.Runs)
	if launch.Begun.IsZero() {
		launch.Begun = time.Now()
	}
	return list.Map(launch.Runs, func(run state.PlannedRun) waiting { return waiting{launch, run} })
}

// lane returns what executes the runs of a launch.
func (l *Local) lane(launch state.Launch) *lane {
	switch launch.Kind {
	case state.KindPlan:
		return &l.plans
	case state.KindDrift:
		return &l.checks
	case state.KindApply, state.KindDestroy:
	}
	return &l.runs
}

// begin begins the runs that are next. The caller holds the lock.
func (l *Local) begin(in *lane) {
	for in.free > 0 && len(in.waiting) > 0 {
		next := in.next()
		in.free--
		l.work.Go(func() {
			defer l.end(next.launch.ID, in)
			l.execute(next.launch, next.run)
		})
	}
}

// notify signals, unless an earlier signal was not read yet.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// execute executes one run.
func (l *Local) execute(launch state.Launch, run state.PlannedRun) {
	if l.ctx.Err() != nil {
		return // unclaimed: the next leader launches it again
	}
	if err := l.run(l.ctx, launch, run); err != nil {
		l.mu.Lock()
		l.lost[run.ID] = err
		l.mu.Unlock()
		l.log.Error("outcome of a run not recorded: the run counts as lost, and its task runs again", "task", run.Task, "run", run.ID, "fence", launch.Fence, "error", err)
	}
}

func (l *Local) end(launch string, in *lane) {
	l.mu.Lock()
	in.free++
	l.begin(in)
	if l.alive[launch]--; l.alive[launch] == 0 {
		delete(l.alive, launch)
	}
	l.count++
	l.mu.Unlock()
	notify(l.changed)
	notify(l.ended)
}

// Status reports which launches are under way in this process.
func (l *Local) Status(_ context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := map[string]reconcile.LaunchStatus{}
	for _, id := range launches {
		_, is := l.alive[id]
		status[id] = reconcile.LaunchStatus{Running: is}
	}
	return status, nil
}

// Lost returns why a run that this process executed has no outcome in the store; nil if it has one,
// as far as is known.
func (l *Local) Lost(run string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost[run]
}

// Busy reports whether any run is under way or waits to start.
func (l *Local) Busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.alive) > 0
}

// Ended receives after a run has ended; several ends may be merged.
func (l *Local) Ended() <-chan struct{} { return l.ended }

// Wait returns when every started run has ended.
func (l *Local) Wait() { l.work.Wait() }
