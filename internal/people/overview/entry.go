package overview

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// entry is a task, its row of the summary and, as far as it was read, its record.
type entry struct {
	name       string
	definition *config.Task
	configured bool // the effective configuration has the task
	row        summary.Row
	read       bool        // its record was read, or there is none
	there      bool        // it has a record
	known      *state.Task // zero unless its record was read
	corrupt    error
	run        *state.Run // its live run, if that was read before and has not changed since
	facts      *facts     // of a task that is not at rest
}

// unread is what is known of a task whose record was not read. Nobody changes it.
var unread = new(state.Task)

func newEntry(name string) entry { return entry{name: name, known: unread} }

// decode reads the record of the task. A corrupt record concerns its task alone;
// one of a newer version of Terrapulse is an error.
func (e *entry) decode(rec state.Record) error {
	e.read, e.there, e.known, e.corrupt, e.row = true, rec.Version != "", unread, nil, summary.Row{Task: e.name}
	if !e.there {
		return nil
	}
	stored, err := state.Decode[state.Task](rec)
	if errors.As(err, new(*state.NewerError)) {
		return err
	}
	if e.corrupt = err; err == nil {
		e.known, e.row = &stored.Data, summary.Of(e.name, stored.Data)
	}
	return nil
}

// readRecord reads the record of one task.
func (r Reader) readRecord(ctx context.Context, e *entry) error {
	rec, err := r.Store.Get(ctx, state.TaskKey(e.name))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return fmt.Errorf("read task %s: %w", e.name, err)
	}
	return e.decode(rec)
}

// rests reports whether the row of a task says everything by which lists select, order and count it.
func (e *entry) rests(effective *overlay.Effective) bool {
	if e.row.Unapplied || e.corrupt != nil || effective.Corrupt[e.name] != nil {
		return false
	}
	setting := settingOf(effective, e)
	switch e.row.Rest {
	case state.RestApplied:
		return setting == lifecycle.Enabled || setting == lifecycle.Unknown
	case state.RestDisabled:
		return setting == lifecycle.Disabled || setting == lifecycle.Unknown
	}
	return false
}

// brief returns what lists need of a task at rest to select, order and count it. It says the same as
// Reader.show.
func (e *entry) brief() apispec.TaskOverview {
	t := apispec.TaskOverview{Name: e.name, Phase: apispec.PhaseApplied, Enabled: true, Due: apiview.Moment(e.row.Due)}
	reason := state.Reason{Code: state.ReasonUnchanged, Text: e.row.Reason}
	if e.row.Rest == state.RestDisabled {
		t.Phase, t.Enabled, t.Due, reason.Code = apispec.PhaseStopped, false, nil, state.ReasonDisabled
	}
	t.Reason = apiview.Reason(reason)
	if d := e.definition; d != nil {
		t.Enabled, t.Labels = d.Enabled, labelsOf(d)
	}
	return t
}

// entriesOf returns the configured tasks, and then the other ones by their keys: those that have records, and those
// whose override cannot be decoded.
func entriesOf(effective *overlay.Effective, withRecords iter.Seq[string]) []entry {
	configured := effective.Config.Tasks
	entries, known := make([]entry, len(configured)), make(map[string]bool, len(configured))
	for i := range configured {
		e := newEntry(configured[i].Name)
		e.definition, e.configured = &configured[i], true
		entries[i], known[e.name] = e, true
	}
	var others []string
	for name := range withRecords {
		if !known[name] {
			others, known[name] = append(others, name), true
		}
	}
	for name := range effective.Corrupt {
		if !known[name] {
			others = append(others, name)
		}
	}
	slices.SortFunc(others, func(a, b string) int { return strings.Compare(state.TaskKey(a), state.TaskKey(b)) })
	entries = slices.Grow(entries, len(others))
	for _, name := range others {
		entries = append(entries, newEntry(name))
	}
	return entries
}

// oneByOne is how many records are read one by one, rather than with those of all tasks: reading one is
// worth reading four of a list.
func oneByOne(tasks int) int { return max(64, tasks/4) }

// largePart is how many records a part of a list has if the next part is sure to be read, too.
const largePart = 500

// readRecords reads the records of some of the tasks.
func (l *List) readRecords(ctx context.Context, entries []*entry) error {
	if len(entries) > oneByOne(len(l.entries)) {
		records, err := l.records(ctx)
		if err != nil {
			return err
		}
		return decodeAll(entries, records)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, e := range entries {
		group.Go(func() error { return l.reader.readRecord(ctx, e) })
	}
	return group.Wait()
}

// readPart is readRecords for a part of the list. If the part is large, others follow, and all records
// are read at once.
func (l *List) readPart(ctx context.Context, entries []*entry) error {
	if len(entries) < largePart {
		return l.readRecords(ctx, entries)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		var err error
		if l.kept, err = l.records(ctx); err != nil {
			return err
		}
	}
	return decodeAll(entries, l.kept)
}

// records reads the records of all tasks.
func (l *List) records(ctx context.Context) ([]state.Record, error) {
	records, err := l.reader.Store.List(ctx, state.TaskPrefix)
	if err != nil {
		err = fmt.Errorf("read the tasks' records: %w", err)
	}
	return records, err
}

// decodeAll decodes the records of these tasks, on all processors.
func decodeAll(entries []*entry, records []state.Record) error {
	byKey := make(map[string]*state.Record, len(records))
	for i := range records {
		byKey[records[i].Key] = &records[i]
	}
	var group errgroup.Group
	size := max(1, len(entries)/runtime.GOMAXPROCS(0)/4)
	for some := range slices.Chunk(entries, size) {
		group.Go(func() error {
			for _, e := range some {
				var rec state.Record
				if found := byKey[state.TaskKey(e.name)]; found != nil {
					rec = *found
				}
				if err := e.decode(rec); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// read reads records by a function, as far as they are not known. The error is errStale if they are not
// those of which the summary has the rows.
func (r Reader) read(ctx context.Context, entries []*entry, by func(context.Context, []*entry) error) error {
	var missing []*entry
	for _, e := range entries {
		if !r.Known.recall(e) {
			missing = append(missing, e)
		}
	}
	rows := make([]summary.Row, len(missing))
	for i, e := range missing {
		rows[i] = e.row
	}
	if err := by(ctx, missing); err != nil {
		return err
	}
	var had, want []summary.Row
	for i, e := range missing {
		if unsure := rows[i].Task != "" && rows[i].Revision == 0; !unsure && rows[i] != e.row {
			had, want = append(had, rows[i]), append(want, e.row)
		}
	}
	if len(want) == 0 {
		return nil
	}
	stale, err := r.Known.stale(ctx, r.Store, had, want)
	if stale {
		err = errStale
	}
	return err
}
