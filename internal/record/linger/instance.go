package linger

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// announcedFor is how long the record of an instance is valid. It is written again when half of
	// that has passed: an instance that does nothing writes once in 5 minutes at most. That an instance
	// has died is seen earlier, by its record in the cluster (launch/lives.go), which is kept for longer.
	announcedFor = 12 * time.Minute

	// leaderPace is how often the leader writes how much room it has: only people read it.
	leaderPace = 5 * time.Second

	// retryEvery is how long to wait after the store has failed.
	retryEvery = time.Second

	// leavePatience limits the removal of the record of an instance that ends.
	leavePatience = 3 * time.Second
)

// Host carries out the launches that an instance takes.
type Host interface {
	Parallel() int
	// Room is how many more runs can begin now; 0 once the process is being stopped.
	Room() int
	Ended() uint64 // number of runs that have ended
	// Changed receives when one of these may have changed.
	Changed() <-chan struct{}
	// Reserve keeps room for so many runs, if there is room. Then either Begin or Release follows.
	Reserve(runs int) bool
	Release(runs int)
	Begin(launch state.Launch)
	// Leads reports whether the instance offers launches itself, so that it gets no offers.
	Leads() bool
}

// Instance is an instance of a cluster that takes launches. Fill in Store, ID, Now and Log of Runner.
type Instance struct {
	Runner
	Host Host
	// Works returns what the instance works with now: its configuration and programs. It takes
	// only launches of leaders that work with the same.
	Works func() string

	since   time.Time
	written time.Time // when the record was last written
	attempt string    // the launch that it tries to take, and for which room is reserved
	runs    int       // of that launch
	refused string    // the launch that it does not take, which was logged
}

// Serve announces how much room the instance has, and takes launches, until ctx ends. Then it removes
// the instance's record.
func (i *Instance) Serve(ctx context.Context) {
	i.since = i.Now()
	i.rec.Key = state.RunnerKey(i.ID)
	offers := Changes(ctx, i.Store, i.rec.Key, i.Log)
	for ctx.Err() == nil {
		wait := time.NewTimer(i.round(ctx))
		select {
		case <-ctx.Done():
		case <-offers:
		case <-i.Host.Changed():
		case <-wait.C:
		}
		wait.Stop()
	}
	i.leave(ctx)
}

// round takes what is offered, and announces what has changed. It returns when to do so again, even if
// nothing happens.
func (i *Instance) round(ctx context.Context) time.Duration {
	read, err := state.Read[state.Runner](ctx, i.Store, i.rec.Key)
	if err != nil && !errors.As(err, new(*state.CorruptError)) {
		i.Log.Debug("cannot read whether a launch is offered", "instance", i.ID, "error", err)
		return retryEvery
	}
	i.rec = read
	if id := cmp.Or(i.attempt, read.Data.Offer); id != "" && id != i.refused {
		if err := i.take(ctx, id); err != nil {
			i.Log.Debug("cannot take a launch", "instance", i.ID, "launch", id, "error", err)
			if errors.As(err, new(*state.ConflictError)) {
				return 0 // it was withdrawn, or the record was written meanwhile
			}
			return retryEvery
		}
	}
	return i.announce(ctx)
}

// take takes the launch. It returns nil if the launch can never be taken.
func (i *Instance) take(ctx context.Context, id string) error {
	launch, err := state.Read[state.Launch](ctx, i.Store, state.LaunchKey(id))
	switch {
	case errors.As(err, new(*state.NewerError)), errors.As(err, new(*state.CorruptError)):
		i.refuse(id, err.Error())
		return nil
	case err != nil:
		return err
	case i.attempt == id && launch.Data.Taker == i.ID: // the answer was lost
		i.begin(launch.Data)
		return nil
	case !launch.Exists() || launch.Data.Taker != "" || i.rec.Data.Offer != id:
		i.giveUp()
		return nil
	case launch.Data.Definition != i.Works():
		i.refuse(id, "the leader works with another configuration or another Terraform")
		return nil
	case i.attempt != id && !i.Host.Reserve(len(launch.Data.Runs)):
		i.Log.Debug("there is no room for a launch", "instance", i.ID, "launch", id)
		return nil
	}
	i.attempt, i.runs = id, len(launch.Data.Runs)
	working := i.now()
	working.Offer = ""
	taken, err := i.takes(ctx, launch, working)
	if err != nil {
		return err
	}
	i.Log.Info("launch taken", "launch", id, "instance", i.ID)
	i.begin(taken)
	return nil
}

// begin carries out a launch for which room is reserved.
func (i *Instance) begin(launch state.Launch) {
	i.attempt = ""
	i.Host.Begin(launch)
}

// giveUp ends the attempt to take a launch.
func (i *Instance) giveUp() {
	if i.attempt != "" {
		i.attempt = ""
		i.Host.Release(i.runs)
	}
}

// refuse leaves a launch to the leader.
func (i *Instance) refuse(id, why string) {
	i.giveUp()
	i.refused = id
	i.Log.Info("a launch is left to the leader", "launch", id, "instance", i.ID, "why", why)
}

// now is the record as it should be now.
func (i *Instance) now() state.Runner {
	now := i.Now()
	next := state.Runner{ID: i.ID, Definition: i.Works(), Since: i.since, Until: now.Add(announcedFor), Offer: i.rec.Data.Offer,
		Ended: i.Host.Ended(), Parallel: i.Host.Parallel(), Room: i.Host.Room()}
	if i.rec.Exists() && i.rec.Data.Since.Equal(i.since) && i.rec.Data.Until.After(now.Add(announcedFor/2)) {
		next.Until = i.rec.Data.Until
	}
	return next
}

// announce writes the record if it is not as it should be.
func (i *Instance) announce(ctx context.Context) time.Duration {
	next := i.now()
	if !i.rec.Data.Since.Equal(i.since) {
		next.Offer = "" // to an earlier process with this id
	}
	was := i.rec.Data
	was.Since = next.Since // times may lose their zones
	if i.rec.Exists() && was == next && i.rec.Data.Since.Equal(i.since) {
		return announcedFor / 4
	}
	if rest := leaderPace - i.Now().Sub(i.written); i.Host.Leads() && i.rec.Exists() && was.Definition == next.Definition && rest > 0 && rest <= leaderPace {
		return rest
	}
	written, err := i.Store.Apply(ctx, i.rec.Write(next).Until(next.KeptUntil()))
	if err != nil {
		if errors.As(err, new(*state.ConflictError)) {
			return 0
		}
		i.Log.Debug("cannot announce how much room there is", "instance", i.ID, "error", err)
		return retryEvery
	}
	i.rec, i.written = state.Stored[state.Runner]{Record: written[0], Data: next}, i.Now()
	return announcedFor / 4
}

// leave removes the record. An offer that has just come is withdrawn by the leader.
func (i *Instance) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavePatience)
	defer cancel()
	for ctx.Err() == nil && i.rec.Exists() {
		_, err := i.Store.Apply(ctx, state.Delete(i.rec.Record))
		conflict := new(state.ConflictError)
		if !errors.As(err, &conflict) || conflict.Current == nil {
			return
		}
		i.rec.Record = *conflict.Current
	}
}

// Changes returns what receives when a record below a prefix may have changed, until ctx ends.
func Changes(ctx context.Context, store state.Store, prefix string, log *slog.Logger) <-chan struct{} {
	changes := make(chan struct{}, 1)
	go func() {
		mark := ""
		for failures := 0; ctx.Err() == nil; {
			next, err := state.Await(ctx, store, prefix, mark)
			if mark = next; err != nil {
				if failures++; ctx.Err() == nil {
					log.Debug("cannot wait for changes of the store", "below", prefix, "error", err)
				}
				delay.For(ctx, delay.Doubled(retryEvery, 30*retryEvery, failures))
			} else {
				failures = 0
			}
			select {
			case changes <- struct{}{}:
			default: // an earlier signal was not read yet
			}
		}
	}()
	return changes
}

// Roomiest returns the instances that may be offered a launch, those with most room first. Self is
// the one that makes the offers.
func (o *Offers) Roomiest(runners []state.Stored[state.Runner], self string) []state.Stored[state.Runner] {
	var free []state.Stored[state.Runner]
	for _, r := range runners {
		if r.Data.Free() && r.Data.ID != self && o.refuses(r) == "" {
			free = append(free, r)
		}
	}
	list.Sort(free, func(a, b state.Stored[state.Runner]) int { return cmp.Compare(b.Data.Room, a.Data.Room) })
	return free
}

// Unreached returns why a launch must not wait for room on an instance; "" if it may. An instance that
// is dead and had a wrong clock has written a time that may be hours ahead.
func (o *Offers) Unreached(r state.Stored[state.Runner]) string {
	if why := o.refuses(r); why != "" {
		return why
	}
	if r.Data.Until.After(o.Now().Add(announcedFor + o.Skew)) {
		return "that instance is not there, or its clock is wrong"
	}
	return ""
}

// refuses returns why an instance can be offered no launch, also if it has room; "" if it can.
func (o *Offers) refuses(r state.Stored[state.Runner]) string {
	switch {
	case !r.Exists(), r.Data.Parallel == 0, !o.Now().Before(r.Data.Until.Add(o.Skew)):
		return "that instance is not there"
	case r.Data.Definition != o.Definition:
		return "that instance works with other files or another Terraform than the leader"
	}
	return ""
}
