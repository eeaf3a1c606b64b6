// Package background runs work beside its caller, and ends it with its caller.
package background

import (
	"context"
	"sync"
)

// Run starts work. The function that it returns ends the context of the work, and
// waits until the work has ended.
func Run(ctx context.Context, work func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var started sync.WaitGroup
	started.Go(func() { work(ctx) })
	return func() {
		cancel()
		started.Wait()
	}
}
