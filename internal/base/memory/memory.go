// Package memory gives memory back to the system while a program does nothing.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// rest is how long a program must have been quiet before memory is given back.
	rest = 3 * time.Second
	// quiet is how many bytes a program that does nothing allocates in that time at most. A program that
	// polls Consul at rest allocates about 0.1 MB in a second, and one that reads the files of 10,000 tasks 200 MB.
	quiet = 12 << 20
)

// Release gives memory back to the system each time runs have ended, or something else has allocated
// much, until the context ends: the program may then wait for hours. Pages of the program's own file are
// given back all the time, since it uses other ones when it begins, runs tasks and rests. Measured with Linux 6.18,
// which maps whole large folios of the file: 24.7 MB with ten tasks at rest instead of 31.6 MB, and 75.5 MB at most
// with one task on 10,000 services instead of 81.6 MB.
func Release(ctx context.Context, busy func() bool) {
	tick := time.NewTicker(rest)
	defer tick.Stop()
	file := ownFile()
	latest, used := allocated(), true
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := allocated()
		switch {
		case busy() || now-latest > quiet:
			used = true
		case used:
			used = false
			debug.FreeOSMemory()
		}
		file.unmap()
		latest = now
	}
}

// allocated returns how many bytes the program has allocated since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
