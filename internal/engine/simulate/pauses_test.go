package simulate

import (
	"context"
	"strings"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// In every eighth history, people pause and resume all tasks: late, twice and at any
// moment. In AWS, half of these deployments begin paused. The judge checks that no run is
// decided by a tick that has read the pause, that no run is applied that was claimed during
// it, and that only people end it. In half of them nobody resumes at the end: then each
// task that would run says that it is paused, and ticks are idle.

const (
	pauseEvery = 8 // histories
	pauseFirst = 3
)

// pauses is what the judge knows of pauses.
type pauses struct {
	some   bool // people pause in this history
	begins bool // the deployment begins paused
	stays  bool // the faults have ended, and nobody resumes

	count   int            // pauses until now
	resumed bool           // somebody has resumed, or has begun without a pause
	claimed map[string]int // by run: the pause during which it was claimed
}

// drawPauses says whether people pause in the history of a seed.
func (w *world) drawPauses(seed uint64) {
	p := &w.judge.pauses
	if p.some = seed%pauseEvery == pauseFirst; p.some {
		p.begins = w.home == inAWS && w.rng.IntN(2) == 0
	}
}

// pauseOrResume has somebody pause or resume, mostly what makes a difference.
func (w *world) pauseOrResume() {
	if paused := w.judge.last.Paused != nil; paused == (w.rng.IntN(10) < 7) {
		w.resumeTasks()
		return
	}
	w.pauseTasks()
}

func (w *world) pauseTasks() {
	w.person("pauses all tasks", "", func(ctx context.Context, c *control.Control) error {
		_, err := c.PauseAll(ctx, "a person", "maintenance")
		return err
	})
}

func (w *world) resumeTasks() {
	w.person("resumes all tasks", "", func(ctx context.Context, c *control.Control) error {
		_, err := c.ResumeAll(ctx, "a person", "")
		return err
	})
}

// agreeOnPause has people resume at the end, or pause if that is to stay.
func (w *world) agreeOnPause() {
	switch p := &w.judge.pauses; {
	case !p.some || p.stays == (w.judge.last.Paused != nil):
	case p.stays:
		w.pauseTasks()
	default:
		w.resumeTasks()
	}
}

// pause is the number of the pause in effect; 0 if there is none.
func (j *judge) pause() int {
	if j.last.Paused == nil {
		return 0
	}
	return j.pauses.count
}

// pausing looks at a write of the reconcile record.
func (j *judge) pausing(v view, next state.Reconcile) {
	p, was := &j.pauses, j.last.Paused
	switch {
	case was == nil && next.Paused != nil:
		if !v.person() && (!p.begins || p.count > 0 || p.resumed) {
			v.violated("a person pauses: %s does", v.name)
		}
		p.count++
	case was != nil && next.Paused == nil && !v.person():
		v.violated("a pause lasts until a person resumes: %s ends it", v.name)
	case was != nil && next.Paused != nil && *was != *next.Paused:
		v.violated("the earlier pause stays: %s replaces it", v.name)
	}
	p.resumed = p.resumed || v.person() && !next.Resumed.IsZero()
}

// paused looks at a run that is written, perhaps with its launch.
func (j *judge) paused(v view, launch state.Launch, before, run state.Run) {
	p := &j.pauses
	switch {
	case launch.ID == "" || launch.ID != run.Launch || run.Kind == state.KindPlan || run.AppliedElsewhere():
	case p.begins && !p.resumed:
		v.violated("a new deployment applies nothing while everything is paused: %s launches run %s of %s", v.name, run.ID, run.Task)
	case v.home == inAWS && v.knew != 0 && v.knew == j.pause():
		v.violated("nothing is decided while everything is paused: %s launches run %s of %s", v.name, run.ID, run.Task)
	}
	if before.State != state.RunRunning && run.State == state.RunRunning {
		j.pauses.claimed[run.ID] = j.pause()
	}
	if run.State == state.RunFailed && strings.Contains(run.Error, "everything is paused") {
		v.violated("a pause is no failure: that of %s is: %s", run.Task, run.Error)
	}
}

// appliesPaused reports whether a run that begins to apply was claimed during the pause.
func (j *judge) appliesPaused(run state.Run) bool {
	claimed := j.pauses.claimed[run.ID]
	return claimed != 0 && claimed == j.pause() && !run.AppliedElsewhere()
}

// explainedByPause reports whether a task says that it would run, but for the pause.
func (j *judge) explainedByPause(record state.Task, want string) bool {
	paused, wait := j.last.Paused, record.Waits()
	return paused != nil && record.Reason.Code == state.ReasonPaused && (record.Run == nil || wait != nil && record.Run.Resume != nil) &&
		record.Observed.Digest == want && strings.Contains(record.Reason.Text, paused.By)
}
