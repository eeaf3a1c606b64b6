package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Supposer answers what-ifs. A program whose runs answer none does not link what that needs.
type Supposer struct {
	// Read reads what a task would render under a what-if, as the API takes that, and whether the
	// task is concerned: it reads something that differs.
	Read    func(ctx context.Context, t *config.Task, whatIf json.RawMessage) (snap *consul.Snapshot, concerned bool, err error)
	Verdict func(verdict.Case) state.Verdict
}

// Suppose returns the Supposer that reads this Consul.
func Suppose(c *consul.Client) *Supposer {
	return &Supposer{Verdict: verdict.Of, Read: func(ctx context.Context, t *config.Task, whatIf json.RawMessage) (*consul.Snapshot, bool, error) {
		w, err := condition.ParseWhatIf(whatIf)
		if err != nil {
			return nil, false, err
		}
		s, err := c.Suppose(ctx, []*config.Task{t}, w)
		if err != nil {
			return nil, false, err
		}
		concerned, err := s.Concerned(0)
		if err != nil {
			return nil, false, err
		}
		snap, err := s.Snapshot(0)
		return snap, concerned, err
	}}
}

// snapshot reads what the task renders, or would render if the launch supposes something.
func (c *claim) snapshot(ctx context.Context, launch state.Launch, task *config.Task, done *result) (snap *consul.Snapshot, err error) {
	if launch.WhatIf == nil {
		return c.Consul.Snapshot(ctx, task)
	}
	if c.Suppose == nil {
		return nil, errors.New("this process answers no what-ifs: use `terrapulse inspect` with the task files, on a machine that reaches Consul")
	}
	snap, concerned, err := c.Suppose.Read(ctx, task, launch.WhatIf)
	if err == nil && !concerned {
		done.verdict = &state.Verdict{Outcome: state.WouldNotConcern, Text: "not concerned: nothing that it reads would differ"}
	}
	return snap, err
}

// judgePlanned notes what would happen to the task of a plan run, such as under a what-if, or if it were defined as drafted: the
// judgement of a run that applies, without its effects. failed is why there is no plan. The error is why it is not known.
func (c *claim) judgePlanned(ctx context.Context, cfg *config.Config, task *config.Task, done *result, unknown, drafted bool, failed error, out io.Writer) error {
	if ctx.Err() != nil {
		return nil
	}
	record, err := state.Read[state.Task](ctx, c.Store, state.TaskKey(task.Name))
	if err != nil {
		return fmt.Errorf("read task %s: %w", task.Name, err)
	}
	j, err := c.judge(ctx, task, &record.Data, done, unknown, out)
	if err != nil {
		return err
	}
	j.dir = cfg.Dir()
	all, err := state.ReadReconcile(ctx, c.Store)
	if err != nil {
		return err
	}
	replaced, err := Replacement{Task: task, All: all.Data, Record: record.Data, Content: j.content(driver.Plan{}), Sources: j.sources, Unknown: unknown}.Causes(ctx, c.Consul, c.Now())
	if err != nil {
		return err
	}
	j.input = append(replaced, j.input...)
	known := verdict.Case{Task: task, Definition: done.definition, State: record.Data, Paused: all.Data.Paused, Condition: done.snap.Condition.Digest,
		Causes: j.input, Removals: done.entries.OnlyRemovals(), Now: c.Now()}
	known = known.Planned(done.plan.Changes, failed, func() ([]state.Cause, error) { return j.causes(ctx) })
	v := c.Suppose.Verdict(known)
	done.verdict = &v
	switch w := c.claimed.WhatIf; {
	case w != nil:
		fmt.Fprintf(out, "\nWhat if, %s: %s.\n", w.Supposed, v.Text)
	case drafted:
		fmt.Fprintf(out, "\nIf the task were defined so, it %s.\n", v.Text)
	default:
		fmt.Fprintf(out, "\nAs things are now: %s.\n", v.Text)
	}
	return nil
}
