package linger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// OfferFor is how long an offer is valid.
	OfferFor = 5 * time.Second

	// awaitEvery is the interval at which the process that made an offer reads whether it was taken.
	awaitEvery = 200 * time.Millisecond
)

// Offers makes offers to the runners that linger, in one tick. Its methods are not safe for
// concurrent use, except for Place.
type Offers struct {
	Store state.Store
	// Apply writes changes in one step. A leader writes under its fencing token.
	Apply func(ctx context.Context, changes ...state.Change) ([]state.Record, error)
	// Definition is what new containers are made from: other runners get no offer.
	Definition string
	Now        func() time.Time
	Skew       time.Duration // maximum difference between the clocks
	Log        *slog.Logger

	read bool
	free []state.Stored[state.Runner]
}

// Next returns a runner that may be offered a launch; its ID is "" if there is none. The runners
// are read once.
func (o *Offers) Next(ctx context.Context) state.Stored[state.Runner] {
	if !o.read {
		o.read = true
		if err := o.find(ctx); err != nil && ctx.Err() == nil {
			o.Log.Warn("cannot read which runners linger: all launches get containers of their own", "error", err)
		}
	}
	if len(o.free) == 0 {
		return state.Stored[state.Runner]{}
	}
	return o.free[0]
}

// Drop leaves out the runner that Next returned last: an offer to it was written, or refused.
func (o *Offers) Drop() { o.free = o.free[1:] }

// find reads the free runners. Those that ended a launch last come first, so that runners that
// nobody needs end. Runners of another definition end.
func (o *Offers) find(ctx context.Context) error {
	runners, _, err := state.ReadEach[state.Runner](ctx, o.Store, state.RunnerPrefix)
	if err != nil {
		return err
	}
	now := o.Now()
	for _, runner := range runners {
		switch {
		case !runner.Data.Free():
		case runner.Data.Definition != o.Definition:
			o.end(ctx, runner)
		case now.Before(runner.Data.Until.Add(o.Skew)):
			o.free = append(o.free, runner)
		}
	}
	list.Sort(o.free, func(a, b state.Stored[state.Runner]) int { return b.Data.Since.Compare(a.Data.Since) })
	return nil
}

// end makes a free runner end. It may have ended meanwhile.
func (o *Offers) end(ctx context.Context, runner state.Stored[state.Runner]) {
	_, err := o.Apply(ctx, state.Delete(runner.Record))
	if errors.As(err, new(*state.ConflictError)) {
		return
	}
	if err != nil {
		o.Log.Warn("a runner of another task definition was not told to end: it ends by itself", "runner", runner.Data.ID, "until", runner.Data.Until, "error", err)
		return
	}
	o.Log.Info("a runner ends: new containers are made from another task definition", "runner", runner.Data.ID, "definition", runner.Data.Definition)
}

// Write returns the change that offers the launch to the runner.
func Write(runner state.Stored[state.Runner], launch string) state.Change {
	next := runner.Data
	next.Offer = launch
	return runner.Write(next).Until(next.KeptUntil())
}

// Place waits until an offered launch is taken, and withdraws the offer if it is not taken in time.
// It returns the taker: the launch gets a container only if that is state.TakenByContainer. After
// an error, it must be called again, with any process.
func (o *Offers) Place(ctx context.Context, launch state.Launch) (taker string, err error) {
	// The clock of the process that made the offer may be ahead.
	left := min(launch.Created.Add(OfferFor).Sub(o.Now()), OfferFor)
	over := time.Now().Add(left)
	for {
		now, err := state.Read[state.Launch](ctx, o.Store, state.LaunchKey(launch.ID))
		switch {
		case err != nil:
			return "", fmt.Errorf("read whether launch %s was taken by runner %s: %w", launch.ID, launch.Offer, err)
		case !now.Exists():
			return "", fmt.Errorf("read whether launch %s was taken by runner %s: its record is gone", launch.ID, launch.Offer)
		case now.Data.Taker != "":
			return now.Data.Taker, nil
		case time.Now().Before(over):
			if !delay.For(ctx, awaitEvery) {
				return "", fmt.Errorf("wait until runner %s takes launch %s: %w", launch.Offer, launch.ID, ctx.Err())
			}
			continue
		}
		err = o.withdraw(ctx, now)
		if err == nil {
			return state.TakenByContainer, nil
		}
		if !errors.As(err, new(*state.ConflictError)) {
			return "", fmt.Errorf("withdraw launch %s from runner %s: %w", launch.ID, launch.Offer, err)
		}
	}
}

// withdraw gives an offered launch to a container of its own, and ends the runner.
func (o *Offers) withdraw(ctx context.Context, launch state.Stored[state.Launch]) error {
	runner, _, err := state.ReadAnyway[state.Runner](ctx, o.Store, state.RunnerKey(launch.Data.Offer))
	if err != nil {
		return err
	}
	next := launch.Data
	next.Taker = state.TakenByContainer
	changes := []state.Change{launch.Write(next).Until(next.KeptUntil())}
	if runner.Exists() && runner.Data.Offer == next.ID {
		changes = append(changes, state.Delete(runner.Record))
	}
	if _, err := o.Apply(ctx, changes...); err != nil {
		return err
	}
	o.Log.Info("a launch gets a container: the runner to which it was offered did not take it", "launch", next.ID, "runner", next.Offer, "within", OfferFor)
	return nil
}
