package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/cenkalti/backoff/v5"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// remote is the record of what another system has of a run's task. It implements driver.RemoteRecord.
type remote struct {
	*claim
	kind *config.DriverKind
	done *result
}

// Read reads the record. A driver with a system of its own does not get what another driver has recorded.
func (r remote) Read(ctx context.Context) (state.Remote, error) {
	driver := ""
	if r.kind.Remote {
		driver = r.kind.Name
	}
	rec, err := retry(ctx, func() (state.Remote, error) {
		return state.ReadRemote(ctx, r.Store, r.claimed.Task, driver)
	}, backoff.WithMaxTries(claimTries))
	if err != nil {
		return state.Remote{}, fmt.Errorf("read what another system has of task %s: %w", r.claimed.Task, err)
	}
	return rec, nil
}

// Write writes the record together with a renewal of the claim. A store that fails is retried as in confirm.
func (r remote) Write(ctx context.Context, next state.Remote) error {
	next.Run.Driver = r.kind.Name
	_, err := retry(ctx, func() (struct{}, error) {
		err := r.writeRemote(ctx, next, r.done)
		if errors.Is(err, errTaken) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(max(r.Claim, firstRetry*8)))
	if err != nil && !errors.Is(err, errTaken) {
		return fmt.Errorf("record what another system has of task %s, before that is changed: %w", r.claimed.Task, err)
	}
	return err
}

func (c *claim) writeRemote(ctx context.Context, r state.Remote, done *result) error {
	task := c.claimed.Task
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		rec, err := state.Read[state.Remote](ctx, c.Store, state.RemoteKey(task))
		if err != nil {
			return fmt.Errorf("read what another system has of task %s: %w", task, err)
		}
		before, next := rec.Data, c.current()
		switch {
		case r.By != next.ID:
			next.Staged = false
		case before.By != r.By || before.Run.Version != r.Run.Version || before.Content != r.Content || !next.Staged:
			if next.Kind == state.KindApply {
				if err := state.StageInputs(ctx, claimedStore{c.Store, c}, task, done.inputs()); err != nil {
					return fmt.Errorf("keep what the remote run of task %s applies: %w", task, err)
				}
				next.Cancel = c.run.Data.Cancel
				next.Digest = done.snap.Condition.Digest
			}
			next.Staged, next.Entries, done.staged = true, done.entries, true
		}
		next.Remote, next.ConfirmedLate = nil, r.ConfirmedLate
		if r.Run.Version != "" {
			next.Remote = &r.Run
		}
		next.Expires, next.ClaimFor = c.Now().Add(c.Claim), c.Claim
		err = c.write(ctx, next, rec.Write(r))
		conflict := new(state.ConflictError)
		switch {
		case errors.As(err, &conflict) && conflict.Change.Key == rec.Key:
			// An answer was lost, or a new record was written meanwhile.
		case err != nil:
			return err
		default:
			return nil
		}
	}
}

// inputs are what the run has read, as they are kept.
func (r *result) inputs() state.Inputs {
	read := state.Inputs{Elements: r.snap.Condition.Elements, Sources: r.snap.Visibility.Sources(), Backend: r.backend, Others: map[string]map[string]string{}}
	entries := 0
	for _, in := range r.snap.Inputs {
		entries += len(in.Elements)
		if in.Triggers {
			read.Kind = in.Kind.Name
		} else {
			read.Others[in.Kind.Name] = in.Elements
		}
	}
	if entries <= state.MaxDetails {
		read.Details = make(map[string]string, entries)
		for _, in := range r.snap.Inputs {
			maps.Copy(read.Details, in.Details)
		}
	}
	return read
}

// ofPeople returns the events of what a person has decided in another system.
func (c *claim) ofPeople(run state.Run) []outbox.Event {
	switch before := c.claimed.Approval; {
	case run.Remote == nil:
	case run.Rejected && run.State == state.RunCancelled:
		return []outbox.Event{{Kind: outbox.PlanRejected, At: run.Ended, Task: run.Task, Run: run.ID, By: run.Cancel}}
	case run.Approval != nil && (before == nil || !before.Same(*run.Approval)):
		return []outbox.Event{{Kind: outbox.PlanApproved, At: run.Approval.At, Task: run.Task, Run: run.ID, By: run.Approval.By, Detail: confirmed(*run.Approval, c.claimed.Wait)}}
	}
	return nil
}

// confirmed is what a person said who confirmed a plan in another system, which applies it then.
func confirmed(a state.Approval, wait *state.Wait) string {
	if but := although(wait); but != "" {
		return state.Cut(strings.TrimPrefix(a.Comment+"; confirmed in the other system, which applies it"+but, "; "))
	}
	return a.Comment
}

// although says which approvals a task needs whose plan was confirmed in another system; "" if none. Nothing
// here can stop it.
func although(wait *state.Wait) string {
	if wait == nil || wait.For != state.WaitApproval {
		return ""
	}
	if who := approval.Approvers(max(1, wait.Needs), wait.From); who != "" {
		return ", although " + who
	}
	return ""
}
