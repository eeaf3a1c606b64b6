package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	tf "github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// grace is how long an interrupted Terraform may take to end before it is killed.
const grace = time.Minute

// What Terraform is asked to do that may take its time.
const (
	working     = "terraform works on "
	interrupted = "terraform was interrupted, and ends with "
)

type runKey struct{}

// taskKey is the key of a run's task in its context: it tells requests apart that
// runs of one process make at the same time.
type taskKey struct{}

func ofRun(ctx context.Context, run state.PlannedRun) context.Context {
	return context.WithValue(context.WithValue(ctx, runKey{}, run.ID), taskKey{}, run.Task)
}

var (
	_ driver.Driver = &hand{}
	_ runner.Logs   = &hand{}
)

// hand is how a process acts: it drives Terraform and stores its output.
type hand struct {
	driver.Driver
	*process
}

// step is a step of Terraform.
func (h *hand) step(ctx context.Context, what string, effect func() error) error {
	_, err := ask(ctx, h.process, terraform, what, func() (any, error) { return nil, effect() })
	return err
}

// Apply implements driver.Driver.
func (h *hand) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	changes, err := h.apply(ctx, job)
	return driver.Outcome{Changes: changes, Unsaved: tf.Unsaved(err)}, err
}

func (h *hand) apply(ctx context.Context, job driver.Job) (*state.Changes, error) {
	t, snap, out := job.Task, job.Snapshot, job.Output
	run := ctx.Value(runKey{}).(string)
	resources := 0
	if err := h.findState(ctx, job); err != nil {
		return nil, err
	}
	if err := h.takeAlong(ctx, job); err != nil {
		return nil, err
	}
	it, err := h.judged(ctx, job, run)
	if err != nil {
		return nil, err
	}
	asked, freezes := time.Now(), h.freezeCount()
	// A program that gets SIGTERM before it starts Terraform does not start it.
	err = h.begin(ctx, t.Name, func() error {
		if err := h.wait(t.Name, run); err != nil {
			return err
		}
		now := h.plan(job)
		now.at = it.at
		if it.judged && it.state != now.state {
			return errors.New("saved plan is stale")
		}
		if !it.judged {
			it = now
		}
		resources = h.rng.IntN(4)
		if err := h.lock(t.Name, run); err != nil {
			return err
		}
		h.olderState(job)
		h.judge.madeTwice(h.process, t.Name, run)
		h.judge.begins(h.process, t.Name, run, t.Module, h.freezes != freezes || time.Since(asked) > localLease/2)
		if job.Run.Kind == state.KindDestroy {
			h.judge.leavesNothing(h.process, t.Name, run, it)
			return nil
		}
		h.judge.showed(h.process, t.Name, run, snap)
		h.judge.toVerify(h.world, job, run)
		h.judge.permitted(h.process, t.Name, run, it)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for range resources {
		if h.step(ctx, working+t.Name, func() error { h.judge.works(t.Name); h.destroysSome(job, it); return nil }) != nil {
			break
		}
	}
	yielded := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.judge.yielding[t.Name] = h.judge.yielding[t.Name] || h.judge.applying[t.Name] == h.process
	})
	defer yielded()
	ending, killed := afterwards(ctx, grace)
	defer killed()
	ends := "terraform ends with "
	if ctx.Err() != nil {
		ends = interrupted
	}
	err = h.step(ending, ends+t.Name, func() error {
		broken := ctx.Err()
		if h.chance(200) {
			broken = errors.New("the module is broken")
		}
		if err := h.save(t.Name, run); err != nil {
			broken = err
		}
		digest := snap.Condition.Digest
		if job.Run.Kind == state.KindDestroy {
			digest = ""
		}
		if job.Run.AppliedElsewhere() {
			digest = job.Run.Digest
		}
		h.judge.ends(h.process, t.Name, run, digest, broken)
		if broken != nil {
			h.destroysSome(job, it)
		} else {
			if h.judge.removal.did[run] = true; job.Run.Kind != state.KindDestroy {
				h.judge.did(t.Name, run, it)
			}
			h.tfstate(t.Name).holds = it.holds
		}
		return broken
	})
	if ending.Err() != nil && err != nil && !h.isDead() {
		h.mu.Lock()
		h.judge.ends(h.process, t.Name, run, "", errors.New("terraform was killed"))
		if s := h.tfstate(t.Name); h.home != inAWS && s.lock != nil && s.lock.ID == run {
			s.lock, s.holder = nil, nil // the backend frees what a dead Terraform has locked
		}
		h.mu.Unlock()
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(out, "Apply complete!")
	return &state.Changes{Add: 1}, nil
}

// destroysSome destroys a part of what an apply is to destroy.
func (h *hand) destroysSome(job driver.Job, it planned) {
	s := h.tfstate(job.Task.Name)
	if job.Run.Kind != state.KindApply || !it.changes || s.holds.module != it.holds.module {
		return
	}
	gone := slices.Sorted(maps.Keys(s.holds.entries))
	gone = slices.DeleteFunc(gone, func(name string) bool { _, stays := it.holds.entries[name]; return stays })
	s.holds.entries = maps.Clone(s.holds.entries)
	for _, name := range gone[:(min(len(gone), max(0, len(s.holds.entries)-len(it.holds.entries)))+1)/2] {
		delete(s.holds.entries, name)
	}
}

// freezeCount returns how often the process was frozen.
func (p *process) freezeCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freezes
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// afterwards returns a context that ends some time after another has ended.
func afterwards(ctx context.Context, d time.Duration) (context.Context, func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-later.Done():
		case <-timer.C:
			cancel()
		}
	})
	return later, func() { stop(); cancel() }
}

// Plan implements driver.Driver.
func (h *hand) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	plan, err := ask(ctx, h.process, terraform, "terraform plans "+job.Task.Name, func() (driver.Plan, error) {
		if job.Run.Kind == state.KindDrift {
			return h.check(job, ctx.Value(runKey{}).(string)), nil
		}
		return driver.Plan{Changes: &state.Changes{Add: 1}, Text: "Plan: 1 to add"}, nil
	})
	if err != nil || job.Run.Kind != state.KindDrift {
		return plan, err
	}
	return plan, h.step(ctx, working+job.Task.Name+", to check it", func() error { return nil })
}

// Save implements runner.Logs.
func (h *hand) Save(ctx context.Context, task, run string, _ []byte, _ time.Time) (string, error) {
	return ask(ctx, h.process, bucket, "keep the output of "+task, func() (string, error) {
		return strings.Join([]string{"s3:/", task, run}, "/"), nil
	})
}
