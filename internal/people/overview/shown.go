package overview

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// Shown is a task with a definition: one of the effective configuration, or one that is being deleted.
type Shown struct {
	Definition *config.Task
	Row        summary.Row // without a revision, it says nothing
	Task       state.Task  // zero if its record cannot be decoded, or was not needed
}

// Shown returns the tasks with a definition, and the records of those for which needed returns true.
func (r Reader) Shown(ctx context.Context, effective *overlay.Effective, needed func(*config.Task, summary.Row) bool) ([]Shown, error) {
	l := r.newList(effective)
	known, err := l.takeRows(ctx)
	if known {
		err = l.readNeeded(ctx, needed)
	}
	if !known && err == nil || errors.Is(err, errStale) {
		r.debug(err)
		err = l.readAll(ctx)
	}
	if err != nil {
		return nil, err
	}
	shown := make([]Shown, 0, len(l.entries))
	for i := range l.entries {
		if e := &l.entries[i]; e.definition != nil {
			shown = append(shown, Shown{e.definition, e.row, *e.known})
		}
	}
	return shown, nil
}

// readNeeded reads the records of the tasks that are needed, and of those without a definition.
func (l *List) readNeeded(ctx context.Context, needed func(*config.Task, summary.Row) bool) error {
	var entries []*entry
	for i := range l.entries {
		if e := &l.entries[i]; !e.configured || needed(e.definition, e.row) {
			entries = append(entries, e)
		}
	}
	if err := l.reader.read(ctx, entries, l.readRecords); err != nil {
		return err
	}
	for _, e := range entries {
		l.reader.Known.keep(e, state.Run{})
	}
	l.drop()
	return nil
}

// Definitions returns the definitions of the tasks that are shown: those of the
// effective configuration, and those that are being deleted.
func (r Reader) Definitions(ctx context.Context, effective *overlay.Effective) ([]*config.Task, error) {
	shown, err := r.Shown(ctx, effective, func(*config.Task, summary.Row) bool { return false })
	return list.Map(shown, func(t Shown) *config.Task { return t.Definition }), err
}

// Names returns the names of the tasks that have records.
func (r Reader) Names(ctx context.Context) ([]string, error) {
	l := r.newList(unconfigured)
	known, err := l.takeRows(ctx)
	if known {
		l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return e.row.Revision == 0 && !r.has(ctx, e.name) })
	}
	if !known && err == nil {
		err = l.readAll(ctx)
	}
	return list.Map(l.entries, func(e entry) string { return e.name }), err
}

// has reports whether a task has a record.
func (r Reader) has(ctx context.Context, task string) bool {
	_, err := r.Store.Get(ctx, state.TaskKey(task))
	return err == nil
}

// NamedRun is a run of a task.
type NamedRun struct{ Task, ID string }

// Latest returns the latest n runs, the latest first, by the records of the tasks that have them. Only
// runs of tasks for which sees returns true are among them.
func (r Reader) Latest(ctx context.Context, n int, sees func(task string) bool) ([]NamedRun, error) {
	l := r.newList(unconfigured)
	known, err := l.takeRows(ctx)
	if known {
		l.entries = slices.DeleteFunc(l.entries, func(e entry) bool { return !sees(e.name) })
		l.entries = newest(l.entries, n)
		err = l.readNeeded(ctx, func(*config.Task, summary.Row) bool { return true })
	}
	if !known && err == nil || errors.Is(err, errStale) {
		r.debug(err)
		err = l.readAll(ctx)
	}
	if err != nil {
		return nil, err
	}
	var all []NamedRun
	for i := range l.entries {
		e := &l.entries[i]
		if !sees(e.name) { // all records were read
			continue
		}
		for _, id := range e.known.Ended.IDs {
			all = append(all, NamedRun{e.name, id})
		}
		if live := e.known.Run; live != nil {
			all = append(all, NamedRun{e.name, live.ID})
		}
	}
	slices.SortFunc(all, func(a, b NamedRun) int { return cmp.Compare(b.ID, a.ID) })
	return all[:min(n, len(all))], nil
}

// newest returns the tasks that have the latest n runs: those n whose newest runs are the latest. Of a
// task whose row says nothing, the record decides.
func newest(entries []entry, n int) []entry {
	if n == 0 || len(entries) <= n {
		return entries
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(b.row.Newest, a.row.Newest) })
	last := entries[n-1].row.Newest
	return slices.DeleteFunc(entries, func(e entry) bool { return e.row.Revision > 0 && e.row.Newest < last })
}
