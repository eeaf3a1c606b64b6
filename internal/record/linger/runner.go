package linger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// readEvery is the interval at which a runner reads whether a launch is offered to it.
	readEvery = 500 * time.Millisecond

	// endPatience limits how long a runner that ends tries to delete its record. Otherwise the
	// next offer to it is withdrawn.
	endPatience = 5 * time.Second
)

// Runner is a runner that lingers. Its methods are not safe for concurrent use.
type Runner struct {
	Store      state.Store
	ID         string // as in the claims of its runs
	Definition string // what its container was made from
	Now        func() time.Time
	Log        *slog.Logger
	// Free, if set, is called once launches can be offered to the runner.
	Free func()

	rec state.Stored[state.Runner] // as last read or written
}

// Next waits for a launch until a time, and takes it. It returns false if there was none, or if the
// leader or the end of ctx ended the runner: then it must not be called again.
func (r *Runner) Next(ctx context.Context, until time.Time) (state.Launch, bool) {
	if !r.announce(ctx, until) {
		return state.Launch{}, false
	}
	if r.Free != nil {
		r.Free()
	}
	for {
		read, err := state.Read[state.Runner](ctx, r.Store, state.RunnerKey(r.ID))
		switch {
		case err != nil:
			r.Log.Debug("cannot read whether a launch is offered", "runner", r.ID, "error", err)
		case !read.Exists():
			r.Log.Info("this container ends: the leader has withdrawn an offer, or makes containers from another task definition", "runner", r.ID)
			return state.Launch{}, false
		default:
			r.rec = read
			if launch, err := r.take(ctx); err == nil && launch.ID != "" {
				return launch, true
			} else if errors.As(err, new(*state.ConflictError)) {
				continue // withdrawn, or the answer to an attempt was lost
			} else if err != nil {
				r.Log.Debug("cannot take a launch", "runner", r.ID, "launch", read.Data.Offer, "error", err)
			}
		}
		if ctx.Err() != nil || !r.Now().Before(until) {
			if r.end(ctx) || ctx.Err() != nil {
				return state.Launch{}, false
			}
			if !r.Now().Before(until.Add(endPatience)) {
				r.Log.Warn("this container ends, and its record stays: the next launch that is offered to it starts 5 s late", "runner", r.ID)
				return state.Launch{}, false
			}
		}
		delay.For(ctx, readEvery)
	}
}

// announce writes that the runner is free. It reports whether it did.
func (r *Runner) announce(ctx context.Context, until time.Time) bool {
	next := state.Runner{ID: r.ID, Definition: r.Definition, Since: r.Now(), Until: until}
	r.rec.Key = state.RunnerKey(r.ID)
	for {
		written, err := r.Store.Apply(ctx, r.rec.Write(next).Until(next.KeptUntil()))
		if err == nil {
			r.rec = state.Stored[state.Runner]{Record: written[0], Data: next}
			return true
		}
		if conflict := new(state.ConflictError); errors.As(err, &conflict) {
			// Only this runner writes the record while it works, so this is an earlier attempt
			// whose answer was lost. Since then an offer may be in it.
			return conflict.Current != nil
		}
		if !delay.For(ctx, readEvery) || !r.Now().Before(until) {
			r.Log.Warn("this container does not linger: the table cannot be written", "runner", r.ID, "error", err)
			return false
		}
	}
}

// take takes the launch that is offered to the runner, if there is one. It returns the launch, too,
// if an earlier attempt has taken it.
func (r *Runner) take(ctx context.Context) (state.Launch, error) {
	id := r.rec.Data.Offer + r.rec.Data.Launch // one of them at most
	if id == "" || ctx.Err() != nil {
		return state.Launch{}, nil
	}
	launch, err := state.Read[state.Launch](ctx, r.Store, state.LaunchKey(id))
	if err != nil {
		return state.Launch{}, err
	}
	switch {
	case launch.Data.Taker == r.ID:
		return launch.Data, nil
	case !launch.Exists() || launch.Data.Taker != "":
		return state.Launch{}, fmt.Errorf("launch %s cannot be taken any more", id)
	}
	taken, working := launch.Data, r.rec.Data
	taken.Taker, working.Offer, working.Launch = r.ID, "", id
	written, err := r.Store.Apply(ctx, launch.Write(taken).Until(taken.KeptUntil()), r.rec.Write(working).Until(working.KeptUntil()))
	if err != nil {
		return state.Launch{}, err
	}
	r.rec = state.Stored[state.Runner]{Record: written[1], Data: working}
	r.Log.Info("launch taken", "launch", id, "runner", r.ID, "lingered", r.Now().Sub(working.Since))
	return taken, nil
}

// end deletes the record, and reports whether it is gone. An offer that has just come is declined
// only if the container is being stopped.
func (r *Runner) end(ctx context.Context) bool {
	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	for {
		_, err := r.Store.Apply(ctx, state.Delete(r.rec.Record))
		if err == nil {
			return true
		}
		conflict := new(state.ConflictError)
		switch {
		case !errors.As(err, &conflict):
			if !stopping || !delay.For(ctx, readEvery) {
				return false
			}
		case conflict.Current == nil:
			return true // an attempt whose answer was lost, or the leader
		case !stopping:
			return false // an offer
		default:
			read, err := state.Decode[state.Runner](*conflict.Current)
			if err != nil || read.Data.Launch != "" {
				return false // it was taken, and the answer was lost: settle reads it
			}
			r.rec = read
		}
	}
}
