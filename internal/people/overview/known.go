package overview

import (
	"context"
	"sync"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Known is what a process keeps of a store between reads: the summary of all tasks, and records whose
// rows have not changed since they were read. Its zero value knows nothing.
type Known struct {
	mu      sync.Mutex
	summary summary.Summary
	records map[string]kept // by task
	defined definitions     // of the latest configuration
}

// kept is the record of a task, with its row.
type kept struct {
	row  summary.Row
	task *state.Task
	run  *state.Run // its run that waits; nil if none does. Its record changes only with that of the task
}

// maxKept is how many records are kept: they take about 10 MB.
const maxKept = 2000

// rows brings the summary up to date and lends it out. It is not known if there is none.
func (k *Known) rows(ctx context.Context, store state.Store, use func(*summary.Summary)) (known bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, err = k.summary.Read(ctx, store)
	if known && err == nil {
		use(&k.summary)
	}
	return known && err == nil, err
}

// recall sets the record of a task if it is known. A record that was removed and made again has other
// runs, so its row differs. The row of a task without a run may be the same, so it is read.
func (k *Known) recall(e *entry) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, ok := k.records[e.name]
	if !ok || was.row != e.row || e.row.Newest == "" || e.row.Revision == 0 {
		return false
	}
	e.read, e.there, e.known, e.run = true, true, was.task, was.run
	return true
}

// keep keeps the record of a task that was read, and its live run.
func (k *Known) keep(e *entry, run state.Run) {
	if !e.there || e.corrupt != nil || e.row.Newest == "" || e.row.Revision == 0 {
		return
	}
	var waits *state.Run
	if live := e.known.Run; run.State == state.RunWaiting && live != nil && live.ID == run.ID {
		waits = &run
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.records == nil {
		k.records = map[string]kept{}
	}
	for other := range k.records {
		if len(k.records) < maxKept {
			break
		}
		delete(k.records, other)
	}
	k.records[e.name] = kept{e.row, e.known, waits}
}

// stale reports whether the summary is wrong: of some records, these are the rows as the summary had
// them first, and then as they should have been a moment later.
func (k *Known) stale(ctx context.Context, store state.Store, had, want []summary.Row) (stale bool, err error) {
	_, err = k.rows(ctx, store, func(now *summary.Summary) {
		for i := range want {
			row, ok := now.Row(want[i].Task)
			switch {
			case ok && row.Revision == 0: // it says nothing
			case !ok:
				stale = stale || want[i].Revision > 0
			case had[i].Revision > want[i].Revision: // it was perhaps removed, and made again
				stale = stale || row.Revision >= had[i].Revision
			default:
				stale = stale || row.Revision < want[i].Revision || row.Revision == want[i].Revision && row != want[i]
			}
		}
	})
	return stale, err
}

// definitions are what lists need of a configuration.
type definitions struct {
	of      *config.Config
	digest  string
	watches map[string]string           // by task; nil until somebody searches
	feeds   map[string][]condition.Feed // by task; nil until somebody reads the map
	tasks   map[string]string           // digests by task; nil until somebody reads who may not view all tasks
}

// definitionsOf returns what is known of a configuration.
func (k *Known) definitionsOf(cfg *config.Config, watches bool) definitions {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.defined.of != cfg {
		k.defined = definitions{of: cfg, digest: shownDigest(cfg)}
	}
	if watches && k.defined.watches == nil {
		k.defined.watches = make(map[string]string, len(cfg.Tasks))
		for i := range cfg.Tasks {
			k.defined.watches[cfg.Tasks[i].Name] = cfg.Tasks[i].Watches()
		}
	}
	return k.defined
}

// feedsOf returns what the tasks of a configuration read, by task. Expressions are compiled once.
func (k *Known) feedsOf(cfg *config.Config) map[string][]condition.Feed {
	k.definitionsOf(cfg, false)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.defined.of == cfg && k.defined.feeds != nil {
		return k.defined.feeds
	}
	feeds, same := make(map[string][]condition.Feed, len(cfg.Tasks)), map[string]condition.Feed{}
	for i := range cfg.Tasks {
		all := cfg.Tasks[i].Feeds()
		for n, f := range all {
			if known, ok := same[f.Text]; ok {
				all[n] = known
			} else {
				same[f.Text] = f
			}
		}
		feeds[cfg.Tasks[i].Name] = all
	}
	if k.defined.of == cfg {
		k.defined.feeds = feeds
	}
	return feeds
}

// taskDigests returns a digest of each definition of a configuration, by task.
func (k *Known) taskDigests(cfg *config.Config) map[string]string {
	k.definitionsOf(cfg, false)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.defined.of == cfg && k.defined.tasks != nil {
		return k.defined.tasks
	}
	digests := make(map[string]string, len(cfg.Tasks))
	for i := range cfg.Tasks {
		one := *cfg
		one.Tasks = cfg.Tasks[i : i+1]
		digests[cfg.Tasks[i].Name] = shownDigest(&one)
	}
	if k.defined.of == cfg {
		k.defined.tasks = digests
	}
	return digests
}
