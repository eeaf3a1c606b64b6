package nomad

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
)

const (
	// watchTime is how long Nomad holds a query open if nothing changes.
	watchTime = time.Minute
	// endingTime is the same while the runner of a job that has ended is still alive.
	endingTime = 2 * time.Second
	// watchPause lies between two queries, so that changes that come together cost one.
	watchPause = 200 * time.Millisecond
	// firstWatchRetry and longestWatchRetry are the waits after a query that failed.
	firstWatchRetry   = time.Second
	longestWatchRetry = 30 * time.Second
)

// Watch calls changed when something has happened to dispatched jobs, until ctx ends: with the
// launches whose runners have stopped since, and with none if a job got a client or Nomad answers
// again. It does not report what happened before its first query.
func (l *Launcher) Watch(ctx context.Context, changed func(stopped map[string]reconcile.LaunchStatus)) {
	w := watch{Launcher: l}
	for failures := 0; ctx.Err() == nil; {
		stopped, placed, err := w.next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Debug("cannot watch the jobs in Nomad", "error", err)
			}
			failures++
			w.index = ""
			delay.For(ctx, delay.Doubled(firstWatchRetry, longestWatchRetry, failures))
			continue
		}
		if len(stopped) > 0 || placed || failures > 0 {
			changed(stopped)
		}
		failures = 0
		delay.For(ctx, watchPause)
	}
}

// watch is what was seen of dispatched jobs.
type watch struct {
	*Launcher
	index  string
	before map[string]job  // the jobs that had not ended; nil at first
	ending map[string]bool // launches whose jobs have ended, while their runners still interrupt Terraform
}

// next waits until something has happened to the jobs.
func (w *watch) next(ctx context.Context) (stopped map[string]reconcile.LaunchStatus, placed bool, err error) {
	wait := watchTime
	if len(w.ending) > 0 {
		wait = endingTime
	}
	now, index, err := w.undead(ctx, w.index, wait)
	if err != nil {
		return nil, false, err
	}
	ended, placed := differences(w.before, now)
	if w.ending == nil {
		w.ending = map[string]bool{}
	}
	for _, launch := range ended {
		w.ending[launch] = true
	}
	w.before, w.index = now, index
	if len(w.ending) == 0 {
		return nil, placed, nil
	}
	stopped, err = w.Status(ctx, slices.Collect(maps.Keys(w.ending)))
	if err != nil {
		return nil, false, err
	}
	for launch := range w.ending {
		if !stopped[launch].Running {
			delete(w.ending, launch)
		}
	}
	maps.DeleteFunc(stopped, func(_ string, s reconcile.LaunchStatus) bool { return s.Stopped == "" })
	return stopped, placed, nil
}

// undead returns the dispatched jobs that have not ended, by their ids, as soon as they have changed
// since an index.
func (l *Launcher) undead(ctx context.Context, index string, wait time.Duration) (map[string]job, string, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime+callTime)
	defer cancel()
	query := url.Values{"meta": {"true"}, "filter": {`Status != "dead"`}}
	if index != "" {
		query.Set("index", index)
		query.Set("wait", wait.String())
	}
	list, next, err := l.list(ctx, query)
	if err != nil {
		return nil, "", err
	}
	jobs := map[string]job{}
	for _, j := range list {
		jobs[j.ID] = j
	}
	return jobs, next, nil
}

// differences returns the launches whose jobs have ended, and whether a job has got a client.
func differences(before, now map[string]job) (ended []string, placed bool) {
	for id, was := range before {
		j, there := now[id]
		if launch := was.Meta[metaLaunch]; !there && launch != "" {
			ended = append(ended, launch)
		}
		placed = placed || there && j.Status == statusRunning && was.Status != statusRunning
	}
	slices.Sort(ended)
	return ended, placed
}
