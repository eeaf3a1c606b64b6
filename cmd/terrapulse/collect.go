package main

import (
	"os"
	"runtime/debug"
)

// collectLess has once-mode, which ends soon, collect garbage half as often. What the user has
// set stays.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}
