//go:build !unix

package testtools

import "time"

var began = time.Now()

// processor is the time since the process has begun, which is at least what it has used of a processor.
func processor() time.Duration { return time.Since(began) }
