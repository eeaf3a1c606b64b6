package overview

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// List is all tasks. Of tasks at rest it has what the summary says, by which lists select, order and
// count them. Their records are read when they are shown. It is safe for concurrent use.
type List struct {
	reader    Reader
	effective *overlay.Effective
	rec       state.Reconcile
	common    apispec.Overview // what concerns all tasks
	entries   []entry
	tasks     []apispec.TaskOverview // of the entries
	digest    func() (string, error)
	sees      func(task string) bool // nil if it has all tasks

	mu   sync.Mutex
	kept []state.Record // of all tasks, for the parts of a long list
}

// errStale says that the summary is not that of the records.
var errStale = errors.New("the summary of all tasks is wrong")

// List reads the summary, and the records of the tasks that are not at rest. Without a summary it is
// ListAll.
func (r Reader) List(ctx context.Context, effective *overlay.Effective) (*List, error) {
	l, err := r.begin(ctx, effective)
	if err != nil {
		return nil, err
	}
	known, err := l.readSummary(ctx)
	switch {
	case errors.Is(err, errStale):
		r.debug(err)
		known = false
	case err != nil:
		return nil, err
	}
	if !known {
		if err := l.readAll(ctx); err != nil {
			return nil, err
		}
	}
	return l, l.assess(ctx)
}

// ListAll reads the records of all tasks.
func (r Reader) ListAll(ctx context.Context, effective *overlay.Effective) (*List, error) {
	l, err := r.begin(ctx, effective)
	if err != nil {
		return nil, err
	}
	if err := l.readAll(ctx); err != nil {
		return nil, err
	}
	return l, l.assess(ctx)
}

func (r Reader) debug(why error) {
	if r.Log != nil {
		r.Log.Debug("the records of all tasks are read", "error", why)
	}
}

func (r Reader) newList(effective *overlay.Effective) *List {
	if r.Known == nil {
		r.Known = new(Known)
	}
	l := &List{reader: r, effective: effective}
	l.digest = sync.OnceValues(l.makeDigest)
	return l
}

// begin reads what concerns all tasks.
func (r Reader) begin(ctx context.Context, effective *overlay.Effective) (*List, error) {
	l := r.newList(effective)
	var err error
	l.common, l.rec, err = r.common(ctx, effective)
	return l, err
}

// readSummary makes the entries from the summary, and reads the records of tasks of which the summary
// does not say enough. The error is errStale if it is wrong.
func (l *List) readSummary(ctx context.Context) (bool, error) {
	known, err := l.takeRows(ctx)
	if !known {
		return false, err
	}
	var busy []*entry
	for i := range l.entries {
		if e := &l.entries[i]; !e.rests(l.effective) {
			busy = append(busy, e)
		}
	}
	if err := l.reader.read(ctx, busy, l.readRecords); err != nil {
		return true, err
	}
	l.drop()
	return true, nil
}

// takeRows makes the entries from the summary. It is not known if there is none.
func (l *List) takeRows(ctx context.Context) (known bool, err error) {
	return l.reader.Known.rows(ctx, l.reader.Store, func(s *summary.Summary) {
		l.entries = entriesOf(l.effective, func(yield func(string) bool) {
			for row := range s.Rows() {
				if !yield(row.Task) {
					return
				}
			}
		})
		for i := range l.entries {
			e := &l.entries[i]
			e.row, e.there = s.Row(e.name)
		}
	})
}

// readAll makes the entries from the records of all tasks.
func (l *List) readAll(ctx context.Context) error {
	records, err := l.records(ctx)
	if err != nil {
		return err
	}
	l.entries = entriesOf(l.effective, func(yield func(string) bool) {
		for _, rec := range records {
			if !yield(state.TaskName(rec.Key)) {
				return
			}
		}
	})
	all := make([]*entry, len(l.entries))
	for i := range l.entries {
		all[i] = &l.entries[i]
	}
	if err := decodeAll(all, records); err != nil {
		return err
	}
	l.drop()
	return nil
}

// drop leaves out tasks that are gone, and finds the definitions of those that leave.
func (l *List) drop() {
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool {
		return e.read && !e.there && !e.configured && l.effective.Corrupt[e.name] == nil
	})
	for i := range l.entries {
		if e := &l.entries[i]; !e.configured {
			e.definition = Leaving(l.effective, e.name, *e.known)
		}
	}
}

// assess makes the overviews of all tasks, those of tasks at rest from their rows.
func (l *List) assess(ctx context.Context) error {
	l.tasks = make([]apispec.TaskOverview, len(l.entries))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i := range l.entries {
		e := &l.entries[i]
		if e.rests(l.effective) {
			l.tasks[i] = e.brief()
			continue
		}
		group.Go(func() error {
			f, err := l.reader.facts(ctx, l.effective, e, l.rec)
			if err == nil {
				l.tasks[i], e.facts = l.reader.show(l.effective, e, f, true), &f
				l.reader.Known.keep(e, f.Run)
			}
			return err
		})
	}
	return group.Wait()
}

// Tasks returns the overviews of all tasks, which callers do not change. Of a task at rest, it has the
// name, the phase, the reason and when it is due.
func (l *List) Tasks() []apispec.TaskOverview { return l.tasks }

// Part returns the selected tasks for which in returns true, with what Tasks has of them; in may be nil.
func (l *List) Part(selected selection.Selection, in func(name string) bool) selection.Part {
	return selected.Of(l.comparable(selected), in)
}

// Select returns the overview of the selected tasks.
func (l *List) Select(ctx context.Context, selected selection.Selection) (apispec.Overview, error) {
	if l.effective.Unknown != nil && len(selected.Labels) > 0 {
		return apispec.Overview{}, l.effective.Unknown // the files have them
	}
	o, err := l.selected(ctx, selected)
	if !errors.Is(err, errStale) {
		return o, err
	}
	l.reader.debug(err)
	all, err := l.reader.ListAll(ctx, l.effective)
	if err != nil {
		return apispec.Overview{}, err
	}
	if l.sees != nil {
		all = all.Only(l.sees)
	}
	return all.selected(ctx, selected)
}

func (l *List) selected(ctx context.Context, selected selection.Selection) (apispec.Overview, error) {
	o := l.common
	digest, err := l.digest()
	if err != nil {
		return o, err
	}
	o.Tasks, o.Digest = l.comparable(selected), &digest
	if err := selected.Apply(&o); err != nil {
		return o, err
	}
	err = l.complete(ctx, selected.Brief, o.Tasks, apispec.Deref(o.Attention))
	if len(selected.Tasks) > 0 && !selected.Brief {
		for i := range o.Tasks {
			noteOrder(&o.Tasks[i], l.effective.Config.Order(), l.sees)
		}
	}
	return o, err
}

// comparable returns the tasks with what the selection compares: not all is there if it compares nothing.
func (l *List) comparable(selected selection.Selection) []apispec.TaskOverview {
	byRun, bySearch := strings.TrimPrefix(selected.Sort, "-") == "last", selected.Search != ""
	if !byRun && !bySearch {
		return l.tasks
	}
	tasks := slices.Clone(l.tasks)
	var watches map[string]string
	if bySearch {
		watches = l.reader.Known.definitionsOf(l.effective.Config, true).watches
	}
	for i := range tasks {
		t, e := &tasks[i], &l.entries[i]
		if byRun && e.facts == nil && e.row.Ended != 0 {
			t.LastRun = &apispec.Run{Ended: new(time.UnixMilli(e.row.Ended))}
		}
		if d := e.definition; d != nil && bySearch {
			t.Origin.File = apiview.Optional(d.Source.File)
			if e.configured {
				t.Watches = apiview.Optional(watches[t.Name])
			} else {
				t.Watches = apiview.Optional(d.Watches())
			}
		}
	}
	return tasks
}

// complete makes overviews of a list whole, and reads the records for that.
func (l *List) complete(ctx context.Context, brief bool, lists ...[]apispec.TaskOverview) error {
	shown := map[string][]*apispec.TaskOverview{}
	for _, tasks := range lists {
		for i := range tasks {
			shown[tasks[i].Name] = append(shown[tasks[i].Name], &tasks[i])
		}
	}
	entries, missing := make([]*entry, 0, len(shown)), []*entry(nil)
	for i := range l.entries {
		if len(shown[l.entries[i].name]) == 0 {
			continue
		}
		e := l.entries[i] // others may use it
		if entries = append(entries, &e); !e.read {
			missing = append(missing, &e)
		}
	}
	if err := l.reader.read(ctx, missing, l.readPart); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, e := range entries {
		group.Go(func() error {
			if e.facts == nil {
				f, err := l.reader.facts(ctx, l.effective, e, l.rec)
				if err != nil {
					return err
				}
				e.facts = &f
				l.reader.Known.keep(e, f.Run)
			}
			whole := l.reader.show(l.effective, e, *e.facts, brief)
			for _, t := range shown[e.name] {
				*t = whole
			}
			return nil
		})
	}
	return group.Wait()
}

// makeDigest returns a text that changes with the record, the live run or the definition of any task.
func (l *List) makeDigest() (string, error) {
	h := sha256.New()
	var definitions map[string]string // without those of tasks that the list does not have
	if cfg := l.effective.Config; l.sees != nil {
		definitions = l.reader.Known.taskDigests(cfg)
	} else {
		_, _ = h.Write([]byte(l.reader.Known.definitionsOf(cfg, false).digest))
	}
	encoder := json.NewEncoder(h)
	var line []byte
	for i := range l.entries {
		e, t := &l.entries[i], &l.tasks[i]
		line = append(append(line[:0], e.name...), 0)
		line = append(line, definitions[e.name]...)
		line = append(append(line, e.row.Observed...), 0)
		line = append(append(line, e.row.Newest...), 0)
		line = strconv.AppendUint(line, e.row.Revision, 10)
		line = e.row.Due.AppendFormat(append(line, 0), time.RFC3339Nano) // of a task made anew, which has an old revision
		line = append(strconv.AppendBool(append(line, 0), t.Enabled), 0)
		_, _ = h.Write(line)
		var err error
		if e.facts != nil {
			err = encoder.Encode(t) // its run changes without its record
		} else if o := overrideOf(l.effective, e.name); o != nil {
			err = encoder.Encode(o)
		}
		if err != nil {
			return "", fmt.Errorf("encode the overview of task %s: %w", e.name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// shownDigest identifies what people see of the definitions of a configuration.
func shownDigest(cfg *config.Config) string {
	h := sha256.New()
	fmt.Fprintln(h, cfg.Digest())
	for i := range cfg.Tasks {
		t := &cfg.Tasks[i]
		fmt.Fprintf(h, "%t %s %d %v\n", t.FromAPI, t.Source.File, t.Source.Line, t.Labels)
	}
	return hex.EncodeToString(h.Sum(nil))
}
