// Package memory gives memory back to the system while nothing runs.
package memory

import (
	"context"
	"runtime/debug"
	"time"
)

// restAfter is how long no run may have been under way before memory is given back.
const restAfter = 3 * time.Second

// Release gives memory back to the system each time runs have ended, until the
// context ends: the program may then wait for hours.
func Release(ctx context.Context, busy func() bool) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for idle := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch idle += time.Second; {
		case busy():
			idle = 0
		case idle == restAfter:
			debug.FreeOSMemory()
			unmap()
		}
	}
}
