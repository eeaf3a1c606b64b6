// Package pause waits until a time has passed or a context ends, says how long to wait
// after failures, and ends work in the background.
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

// Doubled is the wait after the n-th failure in a row: at first as given, then twice
// as long after each failure, at most longest.
func Doubled(first, longest time.Duration, n int) time.Duration {
	for ; n > 1 && first < longest; n-- {
		first *= 2
	}
	return min(first, longest)
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
