package main

import (
	"context"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// lingerLife is how long after its start a container takes launches: it has the secrets of its
	// start, and those are rotated.
	lingerLife = time.Hour

	// proceedLimit limits the invocation of functions/reconcile, which the containers' subnets may
	// not reach.
	proceedLimit = 15 * time.Second
)

// linger waits for another launch after last, and takes it. It returns false if the container is
// to end: after a run that did not end well, the next attempt gets a new container.
func (w *worker) linger(ctx context.Context, last state.Launch, began time.Time) (next state.Launch, more bool) {
	now := w.runner.Now()
	until := now.Add(last.Linger)
	if latest := began.Add(lingerLife); until.After(latest) {
		until = latest
	}
	if w.lingering == nil || ctx.Err() != nil || int(w.well.Load()) < len(last.Runs) || !now.Before(until) {
		return next, false
	}
	w.log.Info("this container waits for another launch", "launch", last.ID, "until", until)
	w.lingering.Free = func() { go w.tick(ctx) }
	next, more = w.lingering.Next(ctx, until)
	next.Begun = w.runner.Now()
	if err := w.metrics.Write(next.Begun, metrics.Values{metrics.LingerSeconds: next.Begun.Sub(now).Seconds()}); err != nil {
		w.log.Warn("metrics not written", "error", err)
	}
	return next, more
}

// tick invokes functions/reconcile, as functions/settle does when a container stops: a change may
// have come while its task ran, and launches may wait for capacity. Without it, the next scheduled
// tick finds them.
func (w *worker) tick(ctx context.Context) {
	if w.proceed == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, proceedLimit)
	defer stop()
	if err := w.proceed(ctx); err != nil && ctx.Err() != context.Canceled {
		w.log.Info("cannot invoke functions/reconcile: changes that came during the runs wait for the next scheduled tick; "+
			"let the containers' subnets reach Lambda (port 443), by NAT or a VPC endpoint", "error", err)
	}
}
