// Package pause waits until a time has passed or a context ends, and ends work in
// the background.
package pause

import (
	"context"
	"sync"
	"time"
)

// For waits for d. It returns false if the context has ended first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Background starts work. The function that it returns ends the context of the
// work, and waits until the work has ended.
func Background(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var started sync.WaitGroup
	started.Go(func() { work(ctx) })
	return func() {
		cancel()
		started.Wait()
	}
}
