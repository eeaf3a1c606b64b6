package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/background"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// liveWrite is how long one write of a growing log may take.
	liveWrite = 10 * time.Second

	// keepFor is how long the end of a run keeps what only people read: the claim is not renewed meanwhile.
	keepFor = 30 * time.Second

	// keptLive is how long the growing log of a run stays in the store where
	// the whole one is kept elsewhere: of a run whose container died, it is all
	// that there is.
	keptLive = 7 * 24 * time.Hour
)

// Logs keeps the output of runs that have ended.
type Logs interface {
	// Save returns the URL by which the output is found. The output may be
	// removed after until, if that is set.
	Save(ctx context.Context, task, name string, output []byte, until time.Time) (url string, err error)
}

// output takes what the driver prints in a run, in whole lines and without
// secrets, and writes it to the store while the run goes on.
type output struct {
	state.Output
	watch io.Writer
	live  *state.LogWriter
	name  string // under which it is kept
	every time.Duration
	log   *slog.Logger
}

func (r *Runner) newOutput(run state.Run) *output {
	o := &output{watch: io.Discard, name: outputName(run), every: r.Live, log: r.Log}
	if r.Watch != nil {
		o.watch = r.Watch(run)
	}
	until := run.KeptUntil()
	if r.Logs != nil && until.IsZero() {
		until = run.Intended().Add(keptLive)
	}
	o.live = state.NewLogWriter(r.Store, run.Task, o.name, until)
	return o
}

// outputName is the name under which the output is kept. After a wait, a run has
// a new one.
func outputName(run state.Run) string {
	if run.Resumed == nil {
		return run.ID
	}
	return run.ID + "-" + run.Launch
}

// carryOver begins the output of a step with what earlier steps of the run have printed, and
// reports whether it could. The steps have one output then, which people follow while a
// remote run works between them.
func (r *Runner) carryOver(ctx context.Context, c *claim, o *output) bool {
	if c.before == (state.Kept{}) || c.before.URL != "" && r.Printed == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, liveWrite)
	defer cancel()
	text, err := c.before.Load(ctx, r.Store, c.run.Data.Task, r.Printed)
	if err != nil {
		if !errors.Is(err, state.ErrNotFound) {
			r.Log.Warn("what earlier steps of a run have printed cannot be read", "error", err)
		}
		return false
	}
	_, _ = o.Output.Write(text) // a buffer takes everything
	return true
}

// Write implements io.Writer.
func (o *output) Write(lines []byte) (int, error) {
	_, _ = o.watch.Write(lines) // a terminal that is gone stops no run
	return o.Output.Write(lines)
}

// keepWriting writes to the store what is new, until what it returns is called.
func (o *output) keepWriting(ctx context.Context) (stop func()) {
	if o.every <= 0 {
		return func() {}
	}
	ctx = context.WithoutCancel(ctx) // also while an interrupted driver ends
	return background.Run(ctx, func(ctx context.Context) {
		failed := false
		for delay.For(ctx, o.every) {
			if err := o.flush(ctx); err != nil && ctx.Err() == nil && !failed {
				failed = true // logged once: the whole output is kept at the end
				o.log.Warn("the output of a run cannot be written while the run goes on", "error", err)
			}
		}
	})
}

func (o *output) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, liveWrite)
	defer cancel()
	return o.live.Append(ctx, o.Head(o.live.Len()))
}

// keepForPeople keeps what only people read, all at the same time: a slow write takes none of another's
// time. Writes may fail, and must not take the time that the outcome needs.
func (r *Runner) keepForPeople(ctx context.Context, run *state.Run, done result, output *output, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var writes sync.WaitGroup
	defer writes.Wait()
	of := *run // the writes set fields of run meanwhile
	part := func(kept *state.Kept, suffix string, text []byte) {
		writes.Go(func() { *kept = r.keepPart(ctx, of, suffix, text) })
	}

	writes.Go(func() { run.Logs, run.Output = r.keepOutput(ctx, of, output) })
	if done.Made != nil {
		made, text := state.NewMade(run.ID, done.Made)
		if run.Made = made; text != "" {
			part(&made.Addresses, "resources", []byte(text))
		}
	}
	if of.State != state.RunSucceeded && (of.State != state.RunWaiting || done.plan.Changes == nil) {
		return
	}
	if !of.Kind.Applies() || of.State == state.RunWaiting {
		part(&run.Plan, "plan", []byte(done.plan.Text))
		if done.plan.Resources != nil {
			data, err := json.Marshal(done.plan.WithCauses(done.changedEntries()).Bounded())
			if err != nil {
				r.Log.Warn("the data of a plan was not kept", "error", err)
				return
			}
			part(&run.PlanData, "plan-data", data)
		}
	}
}

// keepOutput keeps what the run has printed, and returns its length and where it is. If that fails, these are what they were.
func (r *Runner) keepOutput(ctx context.Context, run state.Run, output *output) (length int, kept state.Kept) {
	text := output.Bytes()
	kept, err := run.Output, error(nil)
	switch {
	case r.Logs != nil:
		kept = state.Kept{}
		kept.URL, err = r.Logs.Save(ctx, run.Task, output.name, text, run.KeptUntil())
	case len(text) > 0: // else the run ended before the driver printed anything
		err = output.live.Close(ctx, text[output.live.Len():])
	}
	if err != nil {
		r.Log.Warn("the output of a run was not kept", "error", err)
		return run.Logs, run.Output
	}
	return len(text), kept
}

// keepInputs keeps what the run has applied: the guard compares with that, so an
// apply is not recorded without it. Nothing is kept of a run that was given up. What it
// returns is written with the outcome.
func keepInputs(ctx context.Context, s claimedStore, run state.Run, done result) (withOutcome *state.PackedInputs, err error) {
	switch {
	case run.State != state.RunSucceeded || !run.Kind.Applies():
		return nil, nil
	case run.Kind == state.KindApply && run.Staged:
		return nil, state.ApplyStaged(ctx, s, run.Task)
	case run.AppliedElsewhere() && run.Remote == nil:
		return nil, nil
	case run.Kind == state.KindDestroy:
		return nil, state.ForgetInputs(ctx, s, run.Task)
	}
	packed := done.inputs().Pack(run.Task)
	if packed.Joins() {
		return &packed, nil
	}
	if err := packed.Save(ctx, s); err != nil {
		return nil, fmt.Errorf("keep what the task was applied with: %w", err)
	}
	return nil, nil
}

// keepPart keeps a text about a run, and returns where. If that fails, it is
// not kept.
func (r *Runner) keepPart(ctx context.Context, run state.Run, suffix string, text []byte) (kept state.Kept) {
	name := run.ID + "-" + suffix
	var err error
	if r.Logs == nil {
		kept.Name, err = name, state.SaveLog(ctx, r.Store, run.Task, name, text, run.KeptUntil())
	} else {
		kept.URL, err = r.Logs.Save(ctx, run.Task, name, text, run.KeptUntil())
	}
	if err != nil {
		r.Log.Warn("a part of what is known of a run was not kept", "part", suffix, "error", err)
		return state.Kept{}
	}
	return kept
}

// lineLog logs the lines that are written to it; empty ones say nothing.
type lineLog struct {
	log    *slog.Logger
	driver string // its name
}

func (l lineLog) Write(lines []byte) (int, error) {
	for line := range strings.Lines(string(lines)) {
		if line = strings.TrimRight(line, " \r\n"); line != "" {
			l.log.Info(l.driver, "says", line)
		}
	}
	return len(lines), nil
}
