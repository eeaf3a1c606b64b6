// Package launch starts runners for decided runs.
package launch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// checkShare is how many runs are made at a time for each check for drift.
const checkShare = 4

// Local executes the runs of launches in this process, several in parallel. A failed run does not
// affect the others.
type Local struct {
	run   func(ctx context.Context, launch state.Launch, run state.PlannedRun) error
	log   *slog.Logger
	ended chan struct{}
	work  sync.WaitGroup

	mu      sync.Mutex
	runs    lane
	checks  lane             // checks for drift: runs must not wait for these
	alive   map[string]int   // number of runs that have not ended, by launch
	lost    map[string]error // why runs have no outcome in the store, by run
	changed []chan struct{}  // receive when runs have come, begun or ended
	count   uint64           // runs that have ended
	closed  bool             // there is no room for launches of others
	ctx     context.Context
}

// lane executes runs in the order in which they came.
type lane struct {
	size    int // how many are executed at a time
	free    int // how many more may begin now
	waiting []waiting
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
		runs: laneOf(max(parallel, 1)), checks: laneOf(max(parallel/checkShare, 1)),
		ended: make(chan struct{}, 1),
		alive: map[string]int{}, lost: map[string]error{},
	}
}

func laneOf(size int) lane { return lane{size: size, free: size} }

// Start begins to execute the launch's runs and returns. A launch under way is not started again.
func (l *Local) Start(_ context.Context, launch state.Launch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.lane(launch)
	in.waiting = append(in.waiting, l.comes(launch)...)
	l.begin(in)
	l.signal()
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
	if launch.Kind == state.KindDrift {
		return &l.checks
	}
	return &l.runs
}

// begin begins the runs that are next. The caller holds the lock.
func (l *Local) begin(in *lane) {
	for in.free > 0 && len(in.waiting) > 0 {
		next := in.waiting[0]
		in.free--
		in.waiting = in.waiting[1:]
		l.work.Go(func() {
			defer l.end(next.launch.ID, in)
			l.execute(next.launch, next.run)
		})
	}
}

// signal signals that the room may have changed. The caller holds the lock.
func (l *Local) signal() {
	for _, c := range l.changed {
		select {
		case c <- struct{}{}:
		default: // an earlier signal was not read yet
		}
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
		l.log.Error("outcome of a run not recorded", "task", run.Task, "run", run.ID, "fence", launch.Fence, "error", err)
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
	l.signal()
	l.mu.Unlock()
	l.tellEnded()
}

// tellEnded signals that a run has ended.
func (l *Local) tellEnded() {
	select {
	case l.ended <- struct{}{}:
	default: // an earlier signal was not read yet
	}
}

// Status reports which launches are under way in this process.
func (l *Local) Status(_ context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := map[string]reconcile.LaunchStatus{}
	for _, id := range launches {
		status[id] = reconcile.LaunchStatus{Running: l.alive[id] > 0}
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
