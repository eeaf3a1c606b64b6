package terraform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestOrphaned_OnlyIfTheRunThatHeldTheLockIsDead(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const who = "terrapulse-l1@ip-10-0-1-2"
	began, ended := noon, noon.Add(time.Minute)
	run := state.Run{ID: "r1", Task: "web", Kind: state.KindApply, Claimed: state.Claimed{Who: who, Dead: true}, Times: state.Times{Started: began, Ended: ended}, State: state.RunLost, Work: state.Work{Error: "out of memory"}}
	lock := terraformcli.LockError{ID: "0d6d8b1c", Who: who, Operation: "OperationTypeApply", Created: fmt.Sprint(began.Add(time.Second))}
	created := func(at time.Time) func(*state.Run, *terraformcli.LockError) {
		return func(_ *state.Run, l *terraformcli.LockError) { l.Created = fmt.Sprint(at) }
	}
	for _, tt := range []struct {
		name   string
		change func(*state.Run, *terraformcli.LockError)
		dead   bool
	}{
		{"its container stopped", func(*state.Run, *terraformcli.LockError) {}, true},
		{"its Terraform was killed, and its runner said so", func(r *state.Run, _ *terraformcli.LockError) { r.State, r.Dead = state.RunFailed, false }, true},
		{"a plan run", func(r *state.Run, _ *terraformcli.LockError) { r.Kind = state.KindPlan }, true},
		{"only no sign of life", func(r *state.Run, _ *terraformcli.LockError) { r.Dead = false }, false},
		{"under way", func(r *state.Run, _ *terraformcli.LockError) { r.State, r.Ended = state.RunRunning, time.Time{} }, false},
		{"not begun", func(r *state.Run, _ *terraformcli.LockError) { r.State = state.RunIntended }, false},
		{"another user on its host", func(_ *state.Run, l *terraformcli.LockError) { l.Who = "ann@ip-10-0-1-2" }, false},
		{"another host", func(_ *state.Run, l *terraformcli.LockError) { l.Who = "terrapulse-l1@laptop" }, false},
		{"nobody is named", func(r *state.Run, l *terraformcli.LockError) { r.Who, l.Who = "", "" }, false},
		{"no time is named", func(_ *state.Run, l *terraformcli.LockError) { l.Created = "" }, false},
		{"taken before it began", created(began.Add(-time.Second)), false},
		{"taken when it began", created(began), true},
		{"taken while it waited", func(r *state.Run, _ *terraformcli.LockError) {
			r.Resumed = &state.Resume{At: began.Add(30 * time.Second)}
		}, false},
		{"found lost by a clock that is behind", created(ended.Add(29 * time.Second)), true},
		{"taken after it was found lost", created(ended.Add(31 * time.Second)), false},
		{"taken after it failed", func(r *state.Run, l *terraformcli.LockError) {
			r.State, l.Created = state.RunFailed, fmt.Sprint(ended.Add(time.Second))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := statetest.NewMemory()
			defer store.Close()
			run, lock := run, lock
			tt.change(&run, &lock)
			if _, err := store.Apply(t.Context(), state.Create(state.RunKey("web", "a"), state.Encode(run))); err != nil {
				t.Fatal(err)
			}
			locks := Locks{Store: store, Log: slog.New(slog.DiscardHandler)}
			if why := locks.Orphaned(t.Context(), "web", &lock); (why != "") != tt.dead {
				t.Errorf("orphaned because %q", why)
			}
			if why := locks.Orphaned(t.Context(), "other", &lock); why != "" {
				t.Errorf("another task's lock is orphaned because %q", why)
			}
		})
	}
}

func TestOrphaned_NotWithoutTheStore(t *testing.T) {
	log := &testtools.Output{}
	locks := Locks{Store: deaf{}, Log: slog.New(slog.NewTextHandler(log, nil))}
	lock := terraformcli.LockError{ID: "0d6d8b1c", Who: "terrapulse@host", Created: "2026-03-01 12:00:00 +0000 UTC"}
	if why := locks.Orphaned(t.Context(), "web", &lock); why != "" || log.String() == "" {
		t.Errorf("orphaned because %q, and the log says %q", why, log)
	}
}

// deaf is a store that does not answer.
type deaf struct{ state.Store }

func (deaf) List(context.Context, string) ([]state.Record, error) {
	return nil, errors.New("throttled")
}
