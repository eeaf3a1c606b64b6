package overview_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

var listNoon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// listed is a deployment whose tasks change at random, and a process that reads it again and again.
type listed struct {
	*rapid.T
	store     state.Store
	leader    summary.Summary
	reader    overview.Reader
	base      *config.Config
	overrides []state.Override
	corrupt   map[string]error // overrides that cannot be decoded
	runs      int
	begin     int // the millisecond in which runs begin: one for each change
	now       time.Time
}

var listedNames = []string{"web", "web-2", "db", "späti", "dns", "vpn"}

func (l *listed) effective() *overlay.Effective {
	e := overlay.Compose(l.base, slices.Clone(l.overrides))
	e.Corrupt = l.corrupt
	return e
}

func (l *listed) apply(changes ...state.Change) {
	if _, err := l.store.Apply(context.Background(), changes...); err != nil {
		l.Fatal(err)
	}
}

func (l *listed) id() string {
	l.runs++
	return fmt.Sprintf("%08x-%04x-7000-8000-%012x", l.begin>>16, l.begin&0xffff, l.runs)
}

// put writes the record of a task with a run that has ended, and perhaps one that has not.
func (l *listed) put(name string, t state.Task, live *state.Run) {
	old, _, err := state.ReadAnyway[state.Task](context.Background(), l.store, state.TaskKey(name))
	if err != nil {
		l.Fatal(err)
	}
	changes := []state.Change{old.Write(t)}
	if live != nil {
		changes = append(changes, state.Create(state.RunKey(name, live.ID), state.Encode(*live)))
	}
	l.apply(changes...)
}

func (l *listed) ended(name string, how state.RunState) *state.Result {
	return &state.Result{Run: l.id(), State: how, Kind: state.KindApply, Created: l.now, Started: l.now, Ended: l.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(l.T, "ended")) * time.Microsecond),
		Error: "no route", Reason: state.Reason{Code: state.ReasonChanged, Text: "service " + name}}
}

// record is a record of a task in some situation.
func (l *listed) record(name string) (t state.Task, live *state.Run) {
	digest := rapid.SampledFrom([]string{"aaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbb"}).Draw(l.T, "observed")
	t = state.Task{
		Applied: state.Applied{Definition: "d", Digest: digest, At: l.now}, Observed: state.Observed{Digest: digest, At: l.now},
		Reason: state.Reason{Code: state.ReasonUnchanged, Text: rapid.SampledFrom([]string{"nothing changed since the last apply", "next scheduled at noon"}).Draw(l.T, "text")},
	}
	if rapid.Bool().Draw(l.T, "is due") {
		t.Due = l.now.Add(time.Duration(rapid.IntRange(1, 3).Draw(l.T, "due")) * time.Hour)
	}
	if rapid.IntRange(0, 4).Draw(l.T, "ran") == 0 {
		t.Applied.Digest, t.Applied.At = "", time.Time{}
	} else {
		t.Ended.Last = l.ended(name, state.RunSucceeded)
		t.Ended.IDs, t.Ended.Recent = []string{t.Ended.Last.Run}, state.Outcomes("succeeded apply 2026-11-22T10:57:40Z 12.3s")
	}
	runs := func(how state.RunState, wait *state.Wait) {
		live = &state.Run{ID: l.id(), Task: name, Kind: state.KindApply, State: how, Created: l.now, Reason: state.Reason{Code: state.ReasonChanged, Text: "more"}, Waits: state.Waits{Wait: wait}}
		t.Run, t.Reason = &state.LiveRun{ID: live.ID, Created: l.now, Wait: wait}, state.Reason{Code: state.ReasonRunning}
	}
	situations := map[string]func(){
		"rests":      func() {},
		"rests too":  func() {},
		"is checked": func() { t.Drift = &state.Drift{After: l.now, Checked: l.now} },
		"disabled": func() {
			t.Reason = state.Reason{Code: state.ReasonDisabled, Text: "the task is disabled"}
		},
		"failing": func() {
			t.Failing.Count, t.Ended.Last, t.Reason = 2, l.ended(name, state.RunFailed), state.Reason{Code: state.ReasonBackoff, Text: "attempt 2"}
		},
		"cancelled": func() {
			t.Ended.Last, t.Stop, t.Reason = l.ended(name, state.RunCancelled), &state.Stop{Code: state.ReasonCancelled}, state.Reason{Code: state.ReasonCancelled}
		},
		"drifted": func() {
			t.Drift = &state.Drift{After: l.now, Found: &state.Drifted{Since: l.now, Run: "c", Count: 1}}
		},
		"on hold": func() { t.OnHold = &state.OnHold{By: "Jo", At: l.now} },
		"held": func() {
			t.Stop, t.Reason = &state.Stop{Code: state.ReasonHeld, For: state.Attempt{Observed: digest}}, state.Reason{Code: state.ReasonHeld}
		},
		"pending":    func() { t.Pending = &state.Pending{First: l.now, Entries: &state.EntryChanges{Added: 1}} },
		"paused":     func() { t.Reason, t.Forced.By = state.Reason{Code: state.ReasonPaused, Text: "paused"}, "Jo" },
		"unreadable": func() { t.Reason = state.Reason{Code: state.ReasonUnreadable, Text: "denied"} },
		"removed": func() {
			t.Reason, t.Gone = state.Reason{Code: state.ReasonRemoved}, state.Gone{Since: l.now, Final: true}
		},
		"replaced":    func() { t.Reason = state.Reason{Code: state.ReasonReplaced, Text: "lost 3"} },
		"never ran":   func() { t = state.Task{Reason: state.Reason{Code: state.ReasonUnread}} },
		"running":     func() { runs(state.RunRunning, nil) },
		"intended":    func() { runs(state.RunIntended, nil) },
		"asks":        func() { runs(state.RunWaiting, &state.Wait{For: state.WaitApproval, ID: "w", Since: l.now}) },
		"its window":  func() { runs(state.RunWaiting, &state.Wait{For: state.WaitWindow, Since: l.now}) },
		"without run": func() { t.Run = &state.LiveRun{ID: l.id()} },
		"nothing to do, with a rest": func() {
			t.Attempted.Observed, t.Ended.Last = digest, l.ended(name, state.RunUnchanged)
			t.Ended.Last.Entries, t.Ended.Last.Seen = &state.EntryChanges{Removed: 1}, l.now
		},
	}
	names := slices.Sorted(maps.Keys(situations))
	situations[rapid.SampledFrom(names).Draw(l.T, "situation")]()
	return t, live
}

// folds has the leader fold the notes, which may fail after some writes.
func (l *listed) folds(writes int) {
	l.reads()
	write := func(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
		if writes--; writes < 0 {
			return nil, errors.New("no answer")
		}
		return l.store.Apply(ctx, changes...)
	}
	_ = l.leader.Fold(context.Background(), l.store, write, write)
}

func (l *listed) reads() {
	if known, err := l.leader.Read(context.Background(), l.store); err != nil || !known {
		l.rebuilds()
	}
}

// rebuilds has the leader make the summary anew.
func (l *listed) rebuilds() {
	_, _ = l.leader.Read(context.Background(), l.store)
	records, err := l.store.List(context.Background(), state.TaskPrefix)
	if err != nil {
		l.Fatal(err)
	}
	tasks, corrupt := map[string]state.Stored[state.Task]{}, map[string]error{}
	for _, rec := range records {
		name := state.TaskName(rec.Key)
		stored, err := state.Decode[state.Task](rec)
		if tasks[name] = stored; err != nil {
			tasks[name], corrupt[name] = state.Stored[state.Task]{Record: rec}, err
		}
	}
	if _, err := l.leader.Rebuild(context.Background(), l.store.Apply, tasks, corrupt); err != nil { // a record of the summary was edited: the next tick reads it
		_, _ = l.leader.Read(context.Background(), l.store)
		if _, err := l.leader.Rebuild(context.Background(), l.store.Apply, tasks, corrupt); err != nil {
			l.Fatal(err)
		}
	}
}

// change does one of the things that happen to tasks, and to the summary.
func (l *listed) change() {
	name := rapid.SampledFrom(listedNames).Draw(l.T, "task")
	remove := func() {
		if old, err := l.store.Get(context.Background(), state.TaskKey(name)); err == nil {
			l.apply(state.Delete(old))
		}
	}
	put := func() { t, live := l.record(name); l.put(name, t, live) }
	l.now = l.now.Add(time.Duration(rapid.IntRange(0, 2).Draw(l.T, "passes")) * time.Millisecond)
	l.begin++
	changes := map[string]func(){
		"put": put, "put more": put, "put again": put, "put some": func() { put(); name = "web"; put() },
		"removed":   remove,
		"made anew": func() { remove(); put() },
		"corrupt": func() {
			old, err := l.store.Get(context.Background(), state.TaskKey(name))
			if err == nil {
				l.apply(state.Replace(old, []byte(`{"format":1,"run":7}`)))
			}
		},
		"claimed": func() {
			task, corrupt, err := state.ReadAnyway[state.Task](context.Background(), l.store, state.TaskKey(name))
			if err != nil || corrupt != nil || task.Data.Run == nil || task.Data.Run.Wait != nil {
				return
			}
			run, err := state.Read[state.Run](context.Background(), l.store, state.RunKey(name, task.Data.Run.ID))
			if err == nil && run.Exists() {
				run.Data.State, run.Data.Started = state.RunRunning, l.now
				l.apply(run.Write(run.Data))
			}
		},
		"folded":      func() { l.folds(9) },
		"half folded": func() { l.folds(rapid.IntRange(0, 2).Draw(l.T, "writes")) },
		"many notes": func() {
			for range 16 {
				put()
			}
			l.folds(9)
		},
		"rebuilt": l.rebuilds,
		"lost": func() {
			records, err := l.store.List(context.Background(), summary.Prefix)
			if err != nil {
				l.Fatal(err)
			}
			if len(records) > 0 {
				rec := rapid.SampledFrom(records).Draw(l.T, "record of the summary")
				l.apply(state.Replace(rec, []byte("edited by hand")))
			}
		},
		"configured": func() {
			cfg := *l.base
			cfg.Tasks = slices.DeleteFunc(slices.Clone(cfg.Tasks), func(t config.Task) bool { return t.Name == name })
			if rapid.Bool().Draw(l.T, "is there") {
				t := config.Task{Name: name, Enabled: rapid.Bool().Draw(l.T, "enabled"), Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}}
				t.Source.File = rapid.SampledFrom([]string{"a.hcl", "b.hcl"}).Draw(l.T, "file")
				cfg.Tasks = append(cfg.Tasks, t)
			}
			l.base = &cfg
		},
		"overridden": func() {
			l.overrides = slices.DeleteFunc(l.overrides, func(o state.Override) bool { return o.Task == name })
			if rapid.Bool().Draw(l.T, "is overridden") {
				l.overrides = append(l.overrides, state.Override{Task: name, Enabled: new(rapid.Bool().Draw(l.T, "on")), By: "Jo", At: l.now, Made: l.now})
			}
			l.corrupt = map[string]error{}
			if rapid.IntRange(0, 4).Draw(l.T, "corrupt override") == 0 {
				l.corrupt[name] = errors.New("not decoded")
			}
		},
		"later": func() { l.now = l.now.Add(time.Hour) },
	}
	changes[rapid.SampledFrom(slices.Sorted(maps.Keys(changes))).Draw(l.T, "change")]()
}

func (l *listed) selection() selection.Selection {
	s := selection.Selection{Sort: rapid.SampledFrom([]string{"", "name", "-name", "phase", "last", "-last", "due"}).Draw(l.T, "sort"),
		Search: rapid.SampledFrom([]string{"", "", "web", "noon", "b.hcl", "service db", "removed", "jo"}).Draw(l.T, "search"),
		Name:   rapid.SampledFrom([]string{"", "", "web", "d*"}).Draw(l.T, "name"), Urgent: rapid.IntRange(0, 3).Draw(l.T, "urgent"),
		Brief: rapid.Bool().Draw(l.T, "brief")}
	if rapid.Bool().Draw(l.T, "by phase") {
		s.Phases = []apispec.Phase{rapid.SampledFrom([]apispec.Phase{apispec.PhaseApplied, apispec.PhaseStopped, apispec.PhaseFailing, apispec.PhaseSoon, selection.Attention}).Draw(l.T, "phase")}
	}
	if rapid.Bool().Draw(l.T, "limited") {
		s.Limit = new(rapid.IntRange(0, 4).Draw(l.T, "limit"))
		s.After = rapid.SampledFrom(append([]string{""}, listedNames...)).Draw(l.T, "after")
	}
	return s
}

// want is the overview of the selected tasks, made of the records of all.
func (l *listed) want(effective *overlay.Effective, s selection.Selection) apispec.Overview {
	o, err := overview.Reader{Store: l.store, Now: l.reader.Now}.Read(context.Background(), effective)
	if err == nil {
		err = s.Apply(&o)
	}
	if err != nil {
		l.Fatal(err)
	}
	for _, tasks := range [][]apispec.TaskOverview{o.Tasks, apispec.Deref(o.Attention)} {
		for i := range tasks {
			if t := &tasks[i]; s.Brief {
				t.Entries, t.Recent, t.Drift, t.Watches, t.Settings, t.Windows, t.Guards, t.Approval = nil, nil, nil, nil, nil, nil, nil, nil
			}
		}
	}
	return o
}

// asText leaves out the digest.
func asText(t *rapid.T, o apispec.Overview) string {
	o.Digest = nil
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkShown compares the names, the latest runs and the definitions by the summary with those of all records.
func (l *listed) checkShown(r overview.Reader) {
	effective := l.effective()
	records, err := l.store.List(context.Background(), state.TaskPrefix)
	if err != nil {
		l.Fatal(err)
	}
	var names, runs, defined []string
	rows := map[string]summary.Row{}
	for _, rec := range records {
		name := state.TaskName(rec.Key)
		names = append(names, name)
		stored, err := state.Decode[state.Task](rec)
		if err != nil {
			continue
		}
		rows[name] = summary.Of(name, stored.Data)
		runs = append(runs, stored.Data.Ended.IDs...)
		if stored.Data.Run != nil {
			runs = append(runs, stored.Data.Run.ID)
		}
		if t := overview.Leaving(effective, name, stored.Data); t != nil {
			defined = append(defined, t.Name)
		}
	}
	got, err := r.Names(context.Background())
	if slices.Sort(names); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), names) {
		l.Fatalf("the tasks with records are %s, want %s (%v)", got, names, err)
	}
	slices.SortFunc(runs, func(a, b string) int { return strings.Compare(b, a) })
	n := rapid.IntRange(0, 5).Draw(l.T, "runs")
	latest, err := r.Latest(context.Background(), n, func(string) bool { return true })
	if ids := list.Map(latest, func(run overview.NamedRun) string { return run.ID }); err != nil || !slices.Equal(ids, runs[:min(n, len(runs))]) {
		l.Fatalf("the latest %d runs are %s, want %s (%v)", n, ids, runs, err)
	}
	for i := range effective.Config.Tasks {
		defined = append(defined, effective.Config.Tasks[i].Name)
	}
	shown, err := r.Shown(context.Background(), effective, func(t *config.Task, _ summary.Row) bool { return t.Name != "web" })
	if shownNames := list.Map(shown, func(t overview.Shown) string { return t.Definition.Name }); err != nil || !slices.Equal(slices.Sorted(slices.Values(shownNames)), slices.Sorted(slices.Values(defined))) {
		l.Fatalf("the tasks with a definition are %s, want %s (%v)", shownNames, defined, err)
	}
	for _, t := range shown {
		if name := t.Definition.Name; t.Row.Revision > 0 && t.Row != rows[name] || name != "web" && t.Task.Revision != rows[name].Revision {
			l.Fatalf("the row of %s is %+v, want %+v; its record has revision %d", name, t.Row, rows[name], t.Task.Revision)
		}
	}
}

// check compares lists by the summary with those of all records, and returns the digest.
func (l *listed) check(s selection.Selection) string {
	effective := l.effective()
	fresh := l.reader
	fresh.Known = nil
	var digests []string
	for what, r := range map[string]overview.Reader{"that has read it before": l.reader, "that has not": fresh} {
		tasks, err := r.List(context.Background(), effective)
		if err != nil {
			l.Fatal(err)
		}
		o, err := tasks.Select(context.Background(), s)
		if err != nil {
			l.Fatal(err)
		}
		if got, want := asText(l.T, o), asText(l.T, l.want(effective, s)); got != want {
			l.Fatalf("a process %s shows of %+v\n%s\nwant\n%s", what, s, got, want)
		}
		all, err := tasks.Select(context.Background(), selection.None())
		if err != nil {
			l.Fatal(err)
		}
		digests = append(digests, *all.Digest)
	}
	if digests[0] != digests[1] {
		l.Fatalf("two processes have the digests %s", digests)
	}
	return digests[0]
}

func newSQLite(t *testing.T) state.Store {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// listedOn begins anew on a store.
func listedOn(rt *rapid.T, store state.Store) *listed {
	for _, prefix := range []string{state.TaskPrefix, "run/", summary.Prefix} {
		old, err := store.List(context.Background(), prefix)
		if err != nil {
			rt.Fatal(err)
		}
		for some := range slices.Chunk(old, state.MaxChanges) {
			var changes []state.Change
			for _, rec := range some {
				changes = append(changes, state.Delete(rec))
			}
			if _, err := store.Apply(context.Background(), changes...); err != nil {
				rt.Fatal(err)
			}
		}
	}
	l := &listed{T: rt, store: summary.Keep(store), base: new(config.Config), now: listNoon}
	l.reader = overview.Reader{Store: l.store, Now: func() time.Time { return l.now }, Known: new(overview.Known)}
	for _, name := range listedNames[:4] {
		l.base.Tasks = append(l.base.Tasks, config.Task{Name: name, Enabled: name != "db", Condition: config.Condition{Spec: condition.Services{{Names: []string{name}}}}})
		task, live := l.record(name)
		l.put(name, task, live)
	}
	l.rebuilds()
	return l
}

// In every situation, what people see is the same as if the records of all tasks were read.
func TestList_IsThatOfAllRecords(t *testing.T) {
	store := newSQLite(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := listedOn(rt, store)
		before, digest := "", ""
		for range rapid.IntRange(1, 12).Draw(rt, "changes") {
			l.change()
			now := l.check(l.selection())
			l.checkShown(l.reader)
			all := asText(rt, apispec.Overview{Tasks: l.want(l.effective(), selection.Selection{Sort: "name", Brief: true}).Tasks})
			if before != "" && all != before && now == digest {
				rt.Fatalf("what people see has changed, and the digest has not:\n%s\nbefore\n%s", all, before)
			}
			before, digest = all, now
		}
	})
}

// A summary that is behind, as after a repair of the store by hand, is noticed by the records that are shown.
func TestList_OfAStaleSummaryIsThatOfAllRecords(t *testing.T) {
	store := newSQLite(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := listedOn(rt, store)
		old, err := l.store.List(t.Context(), summary.Prefix)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			l.change()
		}
		l.rebuilds()
		for range 17 {
			task, live := l.record("web")
			l.put("web", task, live)
		}
		l.folds(9)
		now, err := l.store.List(t.Context(), summary.Prefix+"tasks/")
		if err != nil {
			rt.Fatal(err)
		}
		for _, rec := range now {
			if i := slices.IndexFunc(old, func(o state.Record) bool { return o.Key == rec.Key }); i >= 0 && rapid.Bool().Draw(rt, "back") {
				l.apply(state.Replace(rec, old[i].Value))
			}
		}
		l.reader.Known = new(overview.Known)
		l.check(selection.Selection{})
	})
}

// A record that was removed and made again may have the revision of the record before.
func TestList_TaskThatWasMadeAnewIsReadAnew(t *testing.T) {
	store := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := listedOn(rt, store)
		for _, code := range []state.ReasonCode{state.ReasonUnread, state.ReasonBlocked} {
			if old, err := l.store.Get(t.Context(), state.TaskKey("web")); err == nil {
				l.apply(state.Delete(old))
			}
			l.put("web", state.Task{Reason: state.Reason{Code: code}}, nil)
			for range 17 {
				l.put("other", state.Task{}, nil)
			}
			l.folds(9)
			l.check(selection.Selection{Name: "web"})
		}
	})
}
