package runner

import (
	"context"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/tracing"
	"github.com/terrapulse/terrapulse/internal/driver"
)

// step begins a step of the run. The function that is returned ends it.
func (c *claim) step(name string) (end func(error)) {
	if c.Spans == nil || !c.claimed.Trace().Valid() {
		return func(error) {}
	}
	began := c.Now()
	return func(err error) { c.Spans.Step(c.claimed, name, "", began, c.Now(), err) }
}

// call is a method of a driver that applies or destroys.
type call func(context.Context, driver.Job) (driver.Outcome, error)

// traced makes the call a step of the run, in which a plan, its judgement and what follows are steps.
// The driver gets the context of the whole.
func (c *claim) traced(change call) call {
	if c.Spans == nil || !c.claimed.Trace().Valid() {
		return change
	}
	return func(ctx context.Context, job driver.Job) (driver.Outcome, error) {
		d := c.drive(&job)
		done, err := change(ctx, job)
		d.end(err)
		return done, err
	}
}

// plan calls the driver's Plan as a step of the run.
func (c *claim) plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	if c.Spans == nil || !c.claimed.Trace().Valid() {
		return c.Driver.Plan(ctx, job)
	}
	d := c.drive(&job)
	plan, err := c.Driver.Plan(ctx, job)
	d.planned = c.Now()
	d.end(err)
	return plan, err
}

// drive is the work of the driver in a run.
type drive struct {
	*claim
	name                   string
	began, planned, judged time.Time
	goesOn                 bool // something is applied after the plan
}

// drive begins the work of the driver.
func (c *claim) drive(job *driver.Job) *drive {
	d := &drive{claim: c, name: job.Config.Driver().Kind().Name, began: c.Now()}
	job.Trace = c.claimed.Step(d.name).String()
	job.Notes = d
	if judge := job.Judge; judge != nil {
		job.Judge = func(ctx context.Context, plan driver.Plan) error {
			d.planned = d.Now()
			err := judge(ctx, plan)
			d.judged, d.goesOn = d.Now(), err == nil && plan.Changes.Any()
			return err
		}
	}
	return d
}

// Planned implements driver.Notes.
func (d *drive) Planned() {
	d.planned, d.goesOn = d.Now(), true
	d.claim.Planned()
}

// end exports the spans of what the driver has done. A wait is no failure: the first span of the trace
// says what the run waits for.
func (d *drive) end(err error) {
	if errors.As(err, new(*driver.WaitError)) {
		err = nil
	}
	part := func(name string, start, end time.Time, err error) {
		d.Spans.Step(d.claimed, name, d.name, start, end, err)
	}
	ended, work := d.Now(), string(d.claimed.Kind)
	switch {
	case d.planned.IsZero():
		part(work, d.began, ended, err)
	case d.goesOn:
		part("plan", d.began, d.planned, nil)
		part(work, later(d.planned, d.judged), ended, err)
	case d.judged.IsZero():
		part("plan", d.began, d.planned, err)
	default:
		part("plan", d.began, d.planned, nil)
	}
	if !d.judged.IsZero() {
		part("judge", d.planned, d.judged, nil)
	}
	d.Spans.Step(d.claimed, d.name, "", d.began, ended, err)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// environ is the environment of checks and verifications, with the context of the trace.
func (c *claim) environ() []string {
	env := c.Environ()
	if trace := c.claimed.Trace(); trace.Valid() {
		env = append(env, tracing.Variable+"="+trace.String())
	}
	return env
}
