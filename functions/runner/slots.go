package main

import (
	"context"
	"sync"

	"github.com/terrapulse/terrapulse/internal/driver"
)

// slots limit how many runs are at work. A run gives its slot back when its driver has ended: the
// next one begins while its outcome and its output are written.
type slots chan struct{}

type slotKey struct{}

// take waits for a slot. The context that it returns has what gives the slot back.
func (s slots) take(ctx context.Context) (withSlot context.Context, giveBack func()) {
	s <- struct{}{}
	giveBack = sync.OnceFunc(func() { <-s })
	return context.WithValue(ctx, slotKey{}, giveBack), giveBack
}

// slotted is a driver that gives the slot of its run back.
type slotted struct{ driver.Driver }

func giveSlotBack(ctx context.Context) {
	if giveBack, ok := ctx.Value(slotKey{}).(func()); ok {
		giveBack()
	}
}

func (d slotted) Plan(ctx context.Context, job driver.Job) (driver.Plan, error) {
	defer giveSlotBack(ctx)
	return d.Driver.Plan(ctx, job)
}

func (d slotted) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	defer giveSlotBack(ctx)
	return d.Driver.Apply(ctx, job)
}

func (d slotted) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	defer giveSlotBack(ctx)
	return d.Driver.Destroy(ctx, job)
}
