package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

const (
	// lostTokens is more than the fencing tokens that can be issued between a backup and its
	// restoration: about one in ten seconds, for three centuries.
	lostTokens = 1_000_000_000

	restoreTTL = 2 * time.Minute // of the lease while a store is restored

	// restored is why a task runs again after that.
	restored = "the store was restored from a backup; what was applied after the backup is not known"
)

// ErrAlive is returned by Restore while a run is under way.
var ErrAlive = errors.New("a run is under way")

// Restore brings a store into the state of a backup: another store with the records of an
// earlier time, or the store itself, into which the backup was written already. What the backup
// says of live runs, requests and approvals is dropped. What it says was applied is in
// doubt: each task runs once more. Fencing tokens that were issued after the backup are not
// issued again. Everything is paused until somebody resumes. Restore returns the number of
// tasks. To repeat it is harmless.
func Restore(ctx context.Context, to, backup state.Store, by string, skew time.Duration, now func() time.Time) (tasks int, err error) {
	skip := uint64(lostTokens)
	if to != backup { // the store may be new, and know of no token
		last, err := lease.Read(ctx, backup, state.LeaderLease)
		if err != nil {
			return 0, fmt.Errorf("backup: %w", err)
		}
		skip += last.Fence
	}
	held, err := lease.Acquire(ctx, to, state.LeaderLease, lease.NewOwner(), lease.Options{TTL: restoreTTL, Skew: skew, Now: now, Skip: skip})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, held.Release(context.WithoutCancel(ctx))) }()
	r := &restoration{to: to, backup: backup, held: held, same: to == backup, now: now(), skew: skew}
	if err := r.nothingLives(ctx); err != nil {
		return 0, err
	}
	if err := r.reconcileRecord(ctx, by); err != nil { // first: nothing is applied from a half of it
		return 0, err
	}
	none := func(_, _ *state.Record) (restoredRecord, error) { return restoredRecord{}, nil }
	for _, collection := range []struct {
		prefix string
		keep   func(was, backup *state.Record) (restoredRecord, error)
	}{
		{"launch/", none},
		{state.OpenPrefix, none},
		{state.ApprovalPrefix, none},
		{state.RunnerPrefix, none}, // containers that linger end
		{"run/", r.run},
		{"inputs/", asIs},
		{"definition/", asIs},
		{"remote/", newest},
		{"staged/", none}, // of runs that are dropped
		{state.OverridePrefix, asIs},
		{state.TaskPrefix, r.task},
		{summary.Head, none},
		{summary.Prefix, none}, // the next tick makes it anew
	} {
		if err := r.collection(ctx, collection.prefix, collection.keep); err != nil {
			return 0, fmt.Errorf("restore the records %s*: %w", collection.prefix, err)
		}
	}
	return r.tasks, nil
}

// restoration is a Restore on its way.
type restoration struct {
	to, backup state.Store
	held       *lease.Lease
	same       bool // the backup was written into the store already
	now        time.Time
	skew       time.Duration
	tasks      int
}

// restoredRecord is what a record becomes. Without a value it is removed.
type restoredRecord struct {
	value []byte
	until time.Time // when it expires; never if zero
}

// nothingLives returns ErrAlive if the store has a run whose claim is valid.
func (r *restoration) nothingLives(ctx context.Context) error {
	all, err := r.to.List(ctx, "run/")
	if err != nil {
		return fmt.Errorf("read the runs of the store: %w", err)
	}
	for _, rec := range all {
		if err := r.refuseLive(rec); err != nil {
			return err
		}
	}
	return nil
}

// refuseLive returns ErrAlive if the record is that of a run whose claim is valid.
func (r *restoration) refuseLive(rec state.Record) error {
	run, err := state.Decode[state.Run](rec) // what cannot be read is replaced
	if err == nil && run.Data.State == state.RunRunning && r.now.Before(run.Data.Expires.Add(r.skew)) {
		return fmt.Errorf("%w: %s of task %s: run `terrapulse pause`, wait for its end, and try again", ErrAlive, run.Data.ID, run.Data.Task)
	}
	return nil
}

// reconcileRecord writes the reconcile record of the backup, paused. The next tick reads
// everything.
func (r *restoration) reconcileRecord(ctx context.Context, by string) error {
	change := state.Create(state.ReconcileKey, nil)
	var number uint64
	is, err := r.to.Get(ctx, state.ReconcileKey)
	switch {
	case err == nil:
		change = state.Replace(is, nil)
		if decoded, err := state.Decode[state.Reconcile](is); err == nil { // otherwise the backup's replaces it
			number = decoded.Data.Events
		}
	case !errors.Is(err, state.ErrNotFound):
		return fmt.Errorf("read the reconcile record: %w", err)
	}
	was, err := state.ReadReconcile(ctx, r.backup)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	next := was.Data
	next.Events = max(next.Events, number) // numbers of events do not repeat
	next.Config, next.Overrides, next.Gates, next.Due, next.Refreshed, next.Tasks = "", uuid.NewString(), nil, r.now, time.Time{}, state.TaskCounts{}
	next.Paused = nil
	events := outbox.Pause(&next, state.Paused{By: someone(by), Since: r.now, Reason: "the store was restored from a backup: check the plans, then run `terrapulse resume`"})
	change.Value = state.Encode(next)
	entry := audit.Write(ctx, audit.Entry{Action: audit.Restore}, by, r.now)
	_, err = r.held.Apply(ctx, append(events.Changes(), change, entry)...)
	return err
}

func asIs(_, backup *state.Record) (restoredRecord, error) {
	if backup == nil {
		return restoredRecord{}, nil
	}
	return restoredRecord{value: backup.Value}, nil
}

// newest prefers the store's record to that of the backup: the other system was not restored.
func newest(was, backup *state.Record) (restoredRecord, error) {
	if was != nil {
		backup = was
	}
	return asIs(nil, backup)
}

// run keeps the history of the backup. A container that was starting may have claimed its run
// since nothingLives.
func (r *restoration) run(was, backup *state.Record) (restoredRecord, error) {
	if was != nil {
		if err := r.refuseLive(*was); err != nil {
			return restoredRecord{}, err
		}
	}
	if backup == nil {
		return restoredRecord{}, nil
	}
	run, err := state.Decode[state.Run](*backup)
	if err != nil || !run.Data.State.Ended() {
		return restoredRecord{}, nil
	}
	return restoredRecord{backup.Value, run.Data.KeptUntil()}, nil
}

// task keeps what the backup knows of a task, except what may not be true any more.
func (r *restoration) task(was, backup *state.Record) (restoredRecord, error) {
	if backup == nil {
		return restoredRecord{}, nil
	}
	task, err := state.Decode[state.Task](*backup)
	switch {
	case err != nil && r.same: // as before: status shows it
		return restoredRecord{value: backup.Value}, nil
	case err != nil:
		return restoredRecord{}, fmt.Errorf("task %s of the backup: %w", state.TaskName(backup.Key), err)
	}
	r.tasks++
	next := task.Data
	if was != nil {
		if is, err := state.Decode[state.Task](*was); err == nil {
			next.Events = max(next.Events, is.Data.Events)
		}
	}
	next.Restore(restored, r.now)
	return restoredRecord{value: state.Encode(next)}, nil
}

// collection writes the records of one kind: what keep returns for each record of the
// store or of the backup.
func (r *restoration) collection(ctx context.Context, prefix string, keep func(was, backup *state.Record) (restoredRecord, error)) error {
	was, err := byKey(ctx, r.to, prefix)
	if err != nil {
		return err
	}
	backup := was
	if !r.same {
		if backup, err = byKey(ctx, r.backup, prefix); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	all := maps.Clone(was)
	maps.Copy(all, backup)
	var changes []state.Change
	size := 0
	flush := func() error {
		if len(changes) == 0 {
			return nil
		}
		_, err := r.held.Apply(ctx, changes...)
		changes, size = nil, 0
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		next, err := keep(was[key], backup[key])
		if err != nil {
			return err
		}
		value := next.value
		var change state.Change
		switch is := was[key]; {
		case value == nil && is == nil, is != nil && string(is.Value) == string(value):
			continue
		case value == nil:
			change = state.Delete(*is)
		case is == nil:
			change = state.Create(key, value).Until(next.until)
		default:
			change = state.Replace(*is, value).Until(next.until)
		}
		if len(changes) == lease.MaxChanges || size+len(key)+len(value) > state.MaxBytes/2 {
			if err := flush(); err != nil {
				return err
			}
			if err := r.held.Renew(ctx, time.Now()); err != nil {
				return err
			}
		}
		changes, size = append(changes, change), size+len(key)+len(value)
	}
	return flush()
}

func byKey(ctx context.Context, store state.Store, prefix string) (map[string]*state.Record, error) {
	all, err := store.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	records := map[string]*state.Record{}
	for _, rec := range all {
		records[rec.Key] = &rec
	}
	return records, nil
}
