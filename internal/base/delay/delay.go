// Package delay waits until a time has passed or a context ends, and says how long to
// wait after failures.
package delay

import (
	"context"
	"net/http"
	"strconv"
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

// Outlive returns a context that ends when d has passed since the end of ctx.
func Outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		For(later, d)
		cancel()
	})
	return later, func() { stop(); cancel() }
}

// Doubled is the wait after the n-th failure in a row: at first as given, then twice
// as long after each failure, at most longest.
func Doubled(first, longest time.Duration, n int) time.Duration {
	for ; n > 1 && first < longest; n-- {
		first *= 2
	}
	return min(first, longest)
}

// RetryAfter is the wait that a header of that name asks for, in seconds or as a date: at most an hour.
// It is 0 if the header asks for none.
func RetryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.Atoi(header); err == nil {
		wait = time.Duration(min(seconds, 3600)) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
