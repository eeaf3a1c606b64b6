package hcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// HCP Terraform permits a user 30 requests a second, but only 30 lists of runs a minute. So a few
// runs are read one by one, ten in a second, as the command line of Terraform reads its run. Many
// are listed, with half of the lists that are permitted: ticks and steps of runs need the others.
const (
	// awaitMin is the time between two polls of a remote run. A run has two waits, for its plan and
	// for its apply. Together with all other requests, they must not add more than 3 seconds to what
	// HCP Terraform needs.
	awaitMin  = 500 * time.Millisecond
	awaitEach = 100 * time.Millisecond // for each run that is read alone

	// readAlone is how many runs are read one by one, readAtOnce how many at the same time, and
	// awaitList the time between two lists of more.
	readAlone  = 25
	readAtOnce = 10
	awaitList  = 4 * time.Second

	// awaitPart is the part of a long wait that passes between two polls: 1 second of 15 minutes, 4 of
	// an hour. A run may wait for days, because its workspace is locked.
	awaitPart = 900

	// awaitMax is the longest time between two polls after failures.
	awaitMax = 30 * time.Second
)

// Await implements reconcile.Remote.
func (d *Driver) Await(ctx context.Context, cfg *config.Config, waits []state.RemoteWait) map[string]state.RemoteStatus {
	for failures := 0; ; {
		pause := awaitPause(waits, d.Now())
		if failures > 0 {
			pause = max(pause, delay.Doubled(awaitMin, awaitMax, failures))
		}
		if d.Wait(ctx, pause) != nil {
			return nil
		}
		moved, err := d.moved(ctx, cfg, waits)
		if len(moved) > 0 {
			return moved
		}
		if failures++; err == nil {
			failures = 0
		}
		if d.polls.turned(failures, err) { // a tick polls, too, and reports what it finds
			return map[string]state.RemoteStatus{}
		}
	}
}

// awaitPause is the time between two polls of remote runs.
func awaitPause(waits []state.RemoteWait, now time.Time) time.Duration {
	n := time.Duration(len(waits))
	least := max(awaitMin, n*awaitEach)
	if n > readAlone {
		least = awaitList * time.Duration(len(grouped(runsOfWaits(waits))))
	}
	latest := waits[0].Since
	for _, w := range waits {
		if w.Since.After(latest) {
			latest = w.Since
		}
	}
	return max(least, min(now.Sub(latest)/awaitPart, awaitMax))
}

// runsOfWaits returns the remote runs of waits, sorted by their workspaces.
func runsOfWaits(waits []state.RemoteWait) []state.RemoteRun {
	runs := make([]state.RemoteRun, len(waits))
	for i, w := range waits {
		runs[i] = state.RemoteRun{ID: w.Run, Workspace: w.Workspace}
	}
	return inTurn(runs, "")
}

// moved returns the status of the remote runs that are in another phase than a tick has seen last.
func (d *Driver) moved(ctx context.Context, cfg *config.Config, waits []state.RemoteWait) (map[string]state.RemoteStatus, error) {
	api, err := d.api(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ctx = toPoll(ctx)
	moved := map[string]state.RemoteStatus{}
	if _, unlisted := d.polls.begin(); len(waits) > readAlone && !d.Now().Before(unlisted) {
		found, err := d.poll(ctx, api, cfg.Cloud().Organization, runsOfWaits(waits))
		for _, w := range waits {
			if now, ok := found[w.Run]; ok && now.Phase != w.Phase {
				moved[w.Run] = now
			}
		}
		return moved, err
	}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(readAtOnce)
	for _, w := range waits {
		group.Go(func() error {
			run, err := api.Run(ctx, w.Run)
			if err != nil {
				return fmt.Errorf("read the run %s: %w", w.Run, err)
			}
			if phase := phaseOf(run); phase != w.Phase {
				mu.Lock()
				defer mu.Unlock()
				moved[w.Run] = state.RemoteStatus{Phase: phase, Text: textOf(run)}
			}
			return nil
		})
	}
	return moved, group.Wait()
}
