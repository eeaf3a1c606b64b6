package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Run is a run in the other system.
type Run struct {
	ID      string
	File    string // of a task
	Version string // chosen by the caller of Begin
	Content string // of everything that it applies
	// Module and Input are what it applies: a module and data of Consul, by its digest.
	Module, Input     string
	Destroy, PlanOnly bool

	Phase   state.RemotePhase
	Result  string // of a run that has ended
	By      string // who has confirmed it; "" if nobody has
	EndedBy string // who has discarded or cancelled it
	At      time.Time
	Plan    driver.Plan // once it is planned
}

// Us is who acts through a System.
const Us = "us"

// The results.
const (
	Applied   = "applied"
	Unchanged = "unchanged"
	Failed    = "failed"
	Discarded = "discarded"
	Cancelled = "cancelled"
)

// ErrConflict says that a run is not in the state that a request expects.
var ErrConflict = errors.New("the run has gone on meanwhile")

// System is the other system.
type System interface {
	// Latest returns the latest run of a file that applies something and was begun through a System;
	// the zero value if there is none.
	Latest(ctx context.Context, file string) (Run, error)
	// Get returns a run by its id.
	Get(ctx context.Context, id string) (Run, error)
	// Begin begins a run. It fails with ErrConflict unless the version of the latest run is after: so
	// a request that comes late has no effect beside a newer run.
	Begin(ctx context.Context, r Run, after string) (Run, error)
	Confirm(ctx context.Context, id string) error
	// End discards or cancels a run. One that is applied is cancelled only if applying is set.
	End(ctx context.Context, id, comment string, applying bool) error
}

// Office is a System in memory. Advance moves its runs.
type Office struct {
	Token string

	mu   sync.Mutex
	runs []*Run
}

var offices sync.Map // by name

// Serve opens an office under a name.
func Serve(name, token string) *Office {
	o := &Office{Token: token}
	offices.Store(name, o)
	return o
}

// opener returns what opens the office of a configuration.
func opener(token func(context.Context, *config.Config, string) (string, error)) func(context.Context, *config.Config) (System, error) {
	return func(ctx context.Context, cfg *config.Config) (System, error) {
		block, ok := cfg.OtherDriver.(*Block)
		if !ok {
			return nil, fmt.Errorf("the configuration has no driver %q any more", Name)
		}
		text, err := token(ctx, cfg, block.Token)
		if err != nil {
			return nil, err
		}
		office, ok := offices.Load(block.Office)
		if !ok || office.(*Office).Token != text {
			return nil, fmt.Errorf("office %s: wrong name or token", block.Office)
		}
		return office.(*Office), nil
	}
}

// Latest implements System.
func (o *Office) Latest(_ context.Context, file string) (Run, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest(file), nil
}

func (o *Office) latest(file string) Run {
	for _, r := range slices.Backward(o.runs) {
		if r.File == file && !r.PlanOnly {
			return *r
		}
	}
	return Run{}
}

// find calls do with a run.
func (o *Office) find(id string, do func(*Run) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.runs, func(r *Run) bool { return r.ID == id }); i >= 0 {
		return do(o.runs[i])
	}
	return fmt.Errorf("there is no run %s", id)
}

// Get implements System.
func (o *Office) Get(_ context.Context, id string) (r Run, err error) {
	err = o.find(id, func(found *Run) error { r = *found; return nil })
	return r, err
}

// Begin implements System.
func (o *Office) Begin(_ context.Context, r Run, after string) (Run, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.PlanOnly && o.latest(r.File).Version != after {
		return Run{}, ErrConflict
	}
	r.ID, r.Phase = fmt.Sprintf("run-%d", len(o.runs)+1), state.RemotePlanning
	o.runs = append(o.runs, &r)
	return r, nil
}

// Confirm implements System.
func (o *Office) Confirm(_ context.Context, id string) error { return o.ConfirmBy(id, Us) }

// ConfirmBy has somebody confirm a run.
func (o *Office) ConfirmBy(id, by string) error {
	return o.find(id, func(r *Run) error {
		if r.Phase != state.RemoteReady {
			return ErrConflict
		}
		r.Phase, r.By, r.At = state.RemoteApplying, by, time.Now()
		return nil
	})
}

// End implements System.
func (o *Office) End(_ context.Context, id, _ string, applying bool) error {
	return o.find(id, func(r *Run) error {
		switch {
		case r.Phase == state.RemoteEnded || r.Phase == state.RemoteApplying && !applying:
			return ErrConflict
		case r.Phase == state.RemoteApplying:
			r.Result = Cancelled
		default:
			r.Result = Discarded
		}
		r.Phase, r.EndedBy = state.RemoteEnded, Us
		return nil
	})
}

// Advance lets all runs take one step: to the end of their plan, or of their apply.
func (o *Office) Advance() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.runs {
		switch {
		case r.Phase == state.RemotePlanning:
			resources := []driver.ResourceChange{{Address: r.Module + " with " + r.Input, Action: driver.Update}}
			r.Plan = driver.Plan{Resources: resources, Digest: r.Content, State: r.File, Changes: driver.Count(resources), Text: "1 to change"}
			if r.Phase = state.RemoteReady; r.PlanOnly {
				r.Phase, r.Result = state.RemoteEnded, Unchanged
			}
		case r.Phase == state.RemoteApplying:
			r.Phase, r.Result = state.RemoteEnded, Applied
		}
	}
}
