package main

import (
	"context"
	"runtime/debug"
	"time"
)

// restAfter is how long no run has been under way before memory is given back.
const restAfter = 3 * time.Second

// rest gives memory back to the system whenever runs have ended, until the
// context ends: a program that waits for hours should hold what it needs for
// waiting, and no more.
func rest(ctx context.Context, busy func() bool) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for still := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch still += time.Second; {
		case busy():
			still = 0
		case still == restAfter:
			debug.FreeOSMemory()
			unmap()
		}
	}
}
