package state

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
)

// MaxBackoff is the longest wait between two attempts at a failing task.
const MaxBackoff = 15 * time.Minute

// Backoff is the wait after the n-th failure in a row, n >= 1: about 1, 2, 4 …
// seconds, at most MaxBackoff. A part that depends on the task's name alone
// keeps tasks that failed together from coming back together.
func Backoff(task string, n int) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(task))
	wait := delay.Doubled(time.Second, MaxBackoff, n)
	return min(wait+wait/4*time.Duration(h.Sum32()%256)/256, MaxBackoff)
}

// Conclude returns the task's state after one of its runs has ended, and the
// runs that fall out of its history. The definition is that of the task when
// the run succeeded. The digest that was applied is taken over from a
// successful run only. A superseded run leaves what it was begun for, so that another
// run follows.
func (t Task) Conclude(run Run, definition string) (next Task, forgotten []string) {
	next = t
	if next.Run != nil && next.Run.ID == run.ID {
		if before := next.Run.Scheduled; run.State == RunSuperseded && !before.IsZero() {
			next.Scheduled = before
		}
		next.Run, next.Gone.Leaving = nil, nil
		next.Observed.Recheck, next.Observed.Superseded = true, run.State == RunSuperseded
	}
	next = next.leaveRemote(run).noteUnsaved(run)
	next.Applied.Sizes = next.Applied.Sizes.begun(run)
	if run.Made != nil {
		next.Applied.Made = run.Made
	}
	if run.ConfirmedLate != "" && run.State != RunSucceeded {
		next.Applied.Doubt = confirmedLate(run.ConfirmedLate)
	}
	switch {
	case run.State == RunSuperseded:
		switch {
		case run.Kind == KindDestroy: // what triggered it is still there
			next.Forced.Replaces = run.Wait == nil
		case next.Forced.By != "":
		case run.Wait == nil:
			next.Forced = Forced{By: "an earlier run, which was superseded before it began", Replaces: true}
		case run.Reason.Code == ReasonForced || run.Reason.Code == ReasonDoubt:
			// No other record says that it should run.
			next.Forced = Forced{By: "an earlier request, whose run was superseded while it waited"}
		}
		return next, nil
	case run.Kind == KindDestroy && (run.State == RunSucceeded || run.State == RunCancelled || run.State == RunLost && run.Cancel != ""):
		next = next.destroyed(run)
	case run.State == RunCancelled, run.State == RunLost && run.Cancel != "":
		ended := next.Attempted
		switch live := t.Run; {
		case run.Staged: // there may be other input since
			ended.Observed = run.Digest
		case live != nil && live.ID == run.ID && live.Wait != nil && live.Input != "": // it may have read other input than it was decided on
			ended.Observed = live.Input
		}
		next.StopFor(stopOf(run, ended))
		next.Accepted, next.Failing = nil, next.Failing.cancelled()
	case run.State == RunSucceeded:
		if a := next.Accepted; a != nil && a.Observed == run.Digest {
			next.Accepted = nil
		}
		next.Applied.Definition, next.Applied.Digest, next.Applied.At = definition, run.Digest, run.Ended
		next.Failing = Failing{}
		next = next.endDrift(run.Kind, run.Ended).verified(t, run)
	case run.State == RunFailed, run.State == RunLost:
		next.Failing = next.Failing.failed(run)
	}
	if run.Moves != nil && run.State == RunSucceeded {
		next.Former = Former{Moved: Names(next.Former.Moved, run.Moves.From)}
	}
	if run.FromRemote && run.State == RunSucceeded {
		next.RemoteRun = nil // the state is where the run worked with it
	}
	last := run.Result() // also of an interrupted run: Unfinished reads it
	if run.State != RunSucceeded {
		last.Seen, last.Entries = t.unapplied(run)
	}
	next.Ended, forgotten = t.Ended.add(run, last)
	return next, forgotten
}

// unapplied returns what a run that did not succeed should have applied, and since when.
// A run that ended before it had read Consul had the same to apply as the run before it,
// unless the tick that decided it has found what changed.
func (t Task) unapplied(run Run) (seen time.Time, entries *EntryChanges) {
	seen, entries = run.Seen, run.Entries
	if t.Run != nil && t.Run.ID == run.ID {
		entries = cmp.Or(entries, t.Run.Entries)
	}
	if last := t.Ended.Last; last != nil && last.State != RunSucceeded {
		entries = cmp.Or(entries, last.Entries)
		if seen.IsZero() && entries != nil {
			seen = last.Seen
		}
	}
	return seen, entries
}

// destroyed returns the task's state after a run that destroyed everything that the
// task had made, or that somebody has ended. What a person has destroyed stays so until
// another definition comes than the one that it was destroyed with.
func (t Task) destroyed(run Run) Task {
	byHand := t.Destroy != nil && !run.Removed
	t.Destroy, t.Failing = nil, t.Failing.cancelled()
	switch {
	case run.State == RunSucceeded:
		t.Failing = Failing{}
		t.Applied, t.OnRemoval = Applied{}, ""
		if t.Gone.Final {
			t.Gone.Since = run.Ended // its records are kept from now on
		}
		if byHand { // else the task is gone, or in the configuration again
			t.StopFor(Stop{Code: ReasonDestroyed, For: Attempt{Definition: t.Attempted.Definition}})
			t.Pending = nil
		}
	case !run.Rejected: // perhaps a part is destroyed
		t.StopFor(stopOf(run, t.Attempted))
	}
	return t
}

// Destroyed reports whether everything that the task had made was destroyed since it
// was applied.
func (t Task) Destroyed() bool {
	return t.Ended.Of(KindDestroy) && t.Ended.In(RunSucceeded)
}

// Unfinished reports whether the task's latest run did not apply everything, so
// that there is work to do although the condition shows nothing new.
func (t Task) Unfinished() bool { return t.Failing.Count > 0 || t.Interrupted() || t.Cancelled() }

// UpToDate reports whether everything is applied that the condition showed last.
func (t Task) UpToDate() bool {
	return !t.Applied.At.IsZero() && t.Observed.Digest == t.Applied.Digest && !t.Unfinished()
}

// Interrupted reports whether the task's latest run was interrupted.
func (t Task) Interrupted() bool { return t.Ended.In(RunInterrupted) }

// Doubt records why what a task has made may not be what was applied last, because run
// went on after it was given up. So the task is run again, and a remote run that run may
// have created is stopped if no other run deals with it. A task that was renamed meanwhile is
// in doubt under its new name. A task without a record is left alone. The caller starts a tick, or calls
// WakeLeader.
func Doubt(ctx context.Context, s Store, run Run, why string) error {
	for {
		record, err := readRenamed(ctx, s, run.Task)
		if err != nil || !record.Exists() {
			return err
		}
		next := record.Data
		next.Applied.Doubt = Cut(why)
		if next.Run == nil && next.GivenUp() == nil {
			next = next.leaveRemote(run)
		}
		_, err = s.Apply(ctx, record.Write(next))
		if conflict := new(ConflictError); !errors.As(err, &conflict) {
			return err
		}
	}
}

// WakeLeader makes the next tick due at a time.
func WakeLeader(ctx context.Context, s Store, at time.Time) error {
	for {
		record, err := ReadReconcile(ctx, s)
		if err != nil || !record.Exists() {
			return err
		}
		next := record.Data
		next.Due = at
		_, err = s.Apply(ctx, record.Write(next))
		if conflict := new(ConflictError); !errors.As(err, &conflict) {
			return err
		}
	}
}

// readRenamed reads the record of a task, under its latest name if it was renamed.
func readRenamed(ctx context.Context, s Store, task string) (Stored[Task], error) {
	for seen := map[string]bool{}; ; {
		record, err := Read[Task](ctx, s, TaskKey(task))
		if seen[task] = true; err != nil || record.Data.Gone.MovedTo == "" || seen[record.Data.Gone.MovedTo] {
			return record, err
		}
		task = record.Data.Gone.MovedTo
	}
}

// Cancelled reports whether the task's latest run was cancelled. One whose runner
// died before it could end the run is recorded as lost, without a failure. A destroy
// that was rejected changes nothing about the task.
func (t Task) Cancelled() bool {
	ended := t.Ended.In(RunCancelled) || t.Ended.In(RunLost) && t.Failing.Count == 0
	return ended && !(t.Ended.Of(KindDestroy) && t.Ended.Last.Rejected)
}
