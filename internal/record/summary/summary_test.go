package summary_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// resting is the record of a task that was applied with what its condition shows.
func resting(observed string) state.Task {
	return state.Task{
		Applied: state.Applied{Definition: "def", Digest: observed, At: noon}, Observed: state.Observed{Digest: observed, At: noon},
		Reason: state.Reason{Code: state.ReasonUnchanged, Text: "nothing changed since the last apply"},
	}
}

type bench struct {
	t     *testing.T
	store state.Store
}

func newBench(t *testing.T) *bench {
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	return &bench{t, summary.Keep(store)}
}

func (b *bench) apply(changes ...state.Change) {
	b.t.Helper()
	if _, err := b.store.Apply(b.t.Context(), changes...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) record(task string) state.Stored[state.Task] {
	b.t.Helper()
	record, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(task))
	if err != nil {
		b.t.Fatal(err)
	}
	return record
}

// put writes the record of a task.
func (b *bench) put(task string, t state.Task) {
	b.t.Helper()
	b.apply(b.record(task).Write(t))
}

func (b *bench) remove(task string) { b.t.Helper(); b.apply(state.Delete(b.record(task).Record)) }

func (b *bench) read(s *summary.Summary) bool {
	b.t.Helper()
	known, err := s.Read(b.t.Context(), b.store)
	if err != nil {
		b.t.Fatal(err)
	}
	return known
}

// rebuild makes the summary anew.
func (b *bench) rebuild(s *summary.Summary) []string {
	b.t.Helper()
	b.read(s)
	tasks, corrupt := map[string]state.Stored[state.Task]{}, map[string]error{}
	all, undecoded, err := state.ReadEach[state.Task](b.t.Context(), b.store, state.TaskPrefix)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, t := range all {
		tasks[state.TaskName(t.Key)] = t
	}
	for _, err := range undecoded {
		name := state.TaskName(err.Record.Key)
		tasks[name], corrupt[name] = state.Stored[state.Task]{Record: err.Record}, err
	}
	wrong, err := s.Rebuild(b.t.Context(), b.store.Apply, tasks, corrupt)
	if err != nil {
		b.t.Fatal(err)
	}
	return wrong
}

// holds checks that a summary has a row of each record, and of nothing else.
func (b *bench) holds(s *summary.Summary) {
	b.t.Helper()
	all, err := state.ReadAll[state.Task](b.t.Context(), b.store, state.TaskPrefix)
	if err != nil {
		b.t.Fatal(err)
	}
	want := map[string]summary.Row{}
	for _, t := range all {
		name := state.TaskName(t.Key)
		want[name] = summary.Of(name, t.Data)
	}
	got := map[string]summary.Row{}
	for row := range s.Rows() {
		got[row.Task] = row
	}
	if !maps.Equal(want, got) {
		b.t.Errorf("the rows are\n%v\nwant\n%v", got, want)
	}
}

func TestKeep_RowsAreWrittenWithTheRecords(t *testing.T) {
	b := newBench(t)
	b.put("web", resting("A"))
	var first, later summary.Summary
	if b.read(&first) {
		t.Error("there is a summary before anybody made one")
	}
	b.rebuild(&first)
	b.holds(&first)
	for i := range 50 { // some of it is folded meanwhile
		task := fmt.Sprintf("task-%d", i%7)
		if i%3 == 0 {
			b.put(task, resting(fmt.Sprint(i)))
		} else {
			b.put(task, state.Task{Reason: state.Reason{Code: state.ReasonFirst}})
		}
		if !b.read(&first) || !b.read(&later) {
			t.Fatal("there is no summary any more")
		}
		b.holds(&first)
		b.holds(&later)
		if err := first.Fold(t.Context(), b.store, b.store.Apply, b.store.Apply); err != nil {
			t.Fatal(err)
		}
	}
	if notes, err := b.store.List(t.Context(), summary.Prefix+"notes/"); err != nil || len(notes) > 20 {
		t.Errorf("%d notes are left (%v)", len(notes), err)
	}
	if wrong := b.rebuild(&later); len(wrong) > 0 {
		t.Errorf("the rows of %v were wrong", wrong)
	}
}

// A write that is refused leaves no row, and the records that it returns are those of its changes.
func TestKeep_RefusedWriteLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.put("web", resting("A"))
	var s summary.Summary
	b.rebuild(&s)
	old := b.record("web")
	b.put("web", resting("B"))
	var conflict *state.ConflictError
	if _, err := b.store.Apply(t.Context(), old.Write(resting("C"))); !errors.As(err, &conflict) || conflict.Change.Key != state.TaskKey("web") {
		t.Errorf("a write over a newer record: %v", err)
	}
	b.read(&s)
	b.holds(&s)
	written, err := b.store.Apply(t.Context(), b.record("web").Write(resting("D")), state.Create("run/web/1", []byte("{}")))
	if err != nil || len(written) != 2 || written[0].Key != state.TaskKey("web") || written[1].Key != "run/web/1" {
		t.Errorf("it returns %v (%v)", written, err)
	}
}

// Clocks differ: a note may sort before another that was written earlier.
func TestRead_TheHigherRevisionCounts(t *testing.T) {
	b := newBench(t)
	b.put("web", resting("A"))
	var s, cold summary.Summary
	b.rebuild(&s)
	b.put("web", state.Task{Reason: state.Reason{Code: state.ReasonFirst}})
	b.put("web", resting("C"))
	// The second note sorts first from now on.
	notes, err := b.store.List(t.Context(), summary.Prefix+"notes/0")
	if err != nil || len(notes) != 2 {
		t.Fatalf("%d records (%v)", len(notes), err)
	}
	last := notes[1]
	b.apply(state.Delete(last), state.Create(summary.Prefix+"notes/00000000-0000-7000-8000-000000000000", last.Value))
	b.read(&s)
	b.holds(&s)
	b.read(&cold)
	b.holds(&cold)
}

// A task that was removed and made again has a low revision again.
func TestRead_RecordOfATaskThatWasRemovedIsRead(t *testing.T) {
	b := newBench(t)
	b.put("web", resting("A"))
	b.put("web", resting("B"))
	b.put("api", resting("A"))
	var s summary.Summary
	b.rebuild(&s)
	b.remove("web")
	b.put("web", resting("C"))
	b.remove("api")
	for _, reader := range []*summary.Summary{&s, {}} {
		b.read(reader)
		for _, task := range []string{"web", "api"} {
			if row, ok := reader.Row(task); ok && row.Rest != "" {
				t.Errorf("%s rests: %+v", task, row)
			}
		}
	}
	for range 20 {
		b.put("other", resting("A"))
	}
	b.read(&s)
	if err := s.Fold(t.Context(), b.store, b.store.Apply, b.store.Apply); err != nil {
		t.Fatal(err)
	}
	b.holds(&s)
	var cold summary.Summary
	b.read(&cold)
	b.holds(&cold)
}

func TestRead_AnotherLeaderHasFoldedMeanwhile(t *testing.T) {
	b := newBench(t)
	b.put("web", resting("A"))
	var s, other summary.Summary
	b.rebuild(&s)
	b.read(&other)
	for i := range 20 {
		b.put("web", resting(fmt.Sprint(i)))
	}
	b.read(&other)
	if err := other.Fold(t.Context(), b.store, b.store.Apply, b.store.Apply); err != nil {
		t.Fatal(err)
	}
	b.read(&s)
	b.holds(&s)
	for i := range 20 {
		b.put("web", resting(fmt.Sprint("more", i)))
	}
	b.read(&s)
	b.read(&other)
	if err := other.Fold(t.Context(), b.store, b.store.Apply, b.store.Apply); err != nil {
		t.Fatal(err)
	}
	if err := s.Fold(t.Context(), b.store, b.store.Apply, b.store.Apply); !errors.As(err, new(*state.ConflictError)) {
		t.Errorf("it folds what is folded: %v", err)
	}
	if !b.read(&s) {
		t.Error("it is lost for one that could not fold it")
	}
	b.holds(&s)
}

func TestRebuild_WhatCannotBeDecodedIsMadeAnew(t *testing.T) {
	for _, key := range []string{"notes/head", "tasks/", "notes/01"} {
		t.Run(key, func(t *testing.T) {
			b := newBench(t)
			for i := range 100 {
				b.put(fmt.Sprintf("task-%d", i), resting("A"))
			}
			var s summary.Summary
			b.rebuild(&s)
			b.put("task-7", resting("B"))
			all, err := b.store.List(t.Context(), summary.Prefix+key)
			if err != nil || len(all) == 0 {
				t.Fatalf("%d records (%v)", len(all), err)
			}
			b.apply(state.Replace(all[0], []byte("edited by hand")))
			s.Forget()
			if b.read(&s) {
				t.Error("it counts as a summary")
			}
			b.rebuild(&s)
			b.holds(&s)
			var cold summary.Summary
			if !b.read(&cold) {
				t.Error("it was not made anew")
			}
			b.holds(&cold)
		})
	}
}

// A fold that fails half way, or whose answer is lost, loses nothing. Processes that knew the summary before
// notice it.
func TestFold_ThatFailsLosesNothing(t *testing.T) {
	for _, after := range []bool{false, true} {
		for fails := 1; ; fails++ {
			b := newBench(t)
			var s, warm summary.Summary
			for i := range 300 {
				b.put(fmt.Sprintf("task-%d", i), resting("A"))
			}
			b.rebuild(&s)
			b.read(&warm)
			for i := range 100 {
				b.put(fmt.Sprintf("task-%d", i), resting("B"))
			}
			b.read(&s)
			n := 0
			write := func(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
				if n++; n == fails && !after {
					return nil, errors.New("no answer")
				}
				records, err := b.store.Apply(ctx, changes...)
				if n == fails {
					return nil, errors.New("the answer was lost")
				}
				return records, err
			}
			err := s.Fold(t.Context(), b.store, write, write)
			if err == nil {
				break
			}
			if !strings.Contains(err.Error(), "write the summary of all tasks: ") {
				t.Errorf("the error is %v", err)
			}
			for _, reader := range []*summary.Summary{&s, {}, &warm} {
				b.read(reader)
				b.holds(reader)
			}
		}
	}
}

// What was noted of a task before its removal, by a clock that was ahead, does not outlast the removal.
func TestFold_ThatFailsDoesNotBringBackATaskThatWasRemoved(t *testing.T) {
	for fails := 1; ; fails++ {
		b := newBench(t)
		b.put("web", resting("A"))
		var s, warm summary.Summary
		b.rebuild(&s)
		b.read(&warm)
		b.put("web", resting("B"))
		notes, err := b.store.List(t.Context(), summary.Prefix+"notes/0")
		if err != nil || len(notes) != 1 {
			t.Fatalf("%d notes (%v)", len(notes), err)
		}
		b.apply(state.Delete(notes[0]), state.Create(summary.Prefix+"notes/ffffffff-0000-7000-8000-000000000000", notes[0].Value))
		b.remove("web")
		b.put("web", state.Task{Reason: state.Reason{Code: state.ReasonFirst}})
		for i := range 60 {
			b.put(fmt.Sprintf("task-%d", i), resting("A"))
		}
		b.read(&s)
		n := 0
		dies := func(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
			if n++; n == fails {
				return nil, errors.New("no answer")
			}
			return b.store.Apply(ctx, changes...)
		}
		if s.Fold(t.Context(), b.store, dies, dies) == nil {
			break
		}
		for _, reader := range []*summary.Summary{{}, &warm} {
			b.read(reader)
			if row, ok := reader.Row("web"); ok && row.Rest != "" {
				t.Errorf("after %d writes, web rests: %+v", fails-1, row)
			}
		}
	}
}

// The summary is lost while it is made anew: the new head does not stand for shards that are gone.
func TestRebuild_ShardsThatAreLostMeanwhileAreMissed(t *testing.T) {
	b := newBench(t)
	var s summary.Summary
	tasks := map[string]state.Stored[state.Task]{}
	for _, task := range []string{"web", "dns"} {
		b.put(task, resting("A"))
	}
	b.rebuild(&s)
	spoil := func(prefix string) {
		records, err := b.store.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			b.apply(state.Delete(rec))
		}
	}
	spoil(summary.Prefix + "notes/")
	if b.read(&s) {
		t.Fatal("there is a summary without its head")
	}
	for _, task := range []string{"web", "dns"} {
		tasks[task] = b.record(task)
	}
	spoil(summary.Prefix)
	_, _ = s.Rebuild(t.Context(), b.store.Apply, tasks, nil)
	for _, reader := range []*summary.Summary{{}, &s} {
		if !b.read(reader) {
			b.rebuild(reader)
		}
		b.holds(reader)
	}
}

// What releases a lease, too, may have taken place in an attempt whose answer was lost: then nothing is
// known of the records.
func TestSummary_LastWriteOfAFoldMayLackTheRecords(t *testing.T) {
	b := newBench(t)
	var s summary.Summary
	b.rebuild(&s)
	for i := range 100 {
		b.put(fmt.Sprintf("task-%d", i), resting("A"))
	}
	b.read(&s)
	lasts := 0
	last := func(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
		lasts++
		_, err := b.store.Apply(ctx, changes...)
		return nil, err
	}
	if err := s.Fold(t.Context(), b.store, b.store.Apply, last); err != nil || lasts != 1 {
		t.Fatalf("%d last writes: %v", lasts, err)
	}
	for range 2 {
		for _, reader := range []*summary.Summary{&s, {}} {
			b.read(reader)
			b.holds(reader)
		}
		for i := range 100 {
			b.put(fmt.Sprintf("task-%d", i), resting("B"))
		}
		b.read(&s)
		if err := s.Fold(t.Context(), b.store, b.store.Apply, b.store.Apply); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOf_TenThousandTasksAreReadInOneRequestOf500KB(t *testing.T) {
	b := newBench(t)
	tasks := map[string]state.Stored[state.Task]{}
	for i := range 10_000 {
		name := fmt.Sprintf("switch-building-%02d-rack-%04d", i%17, i)
		record := resting(fmt.Sprintf("%x", sha256.Sum256([]byte(name))))
		digest := sha256.Sum256([]byte("definition of " + name))
		record.Applied.Definition, record.Revision = fmt.Sprintf("%x", digest), uint64(i%50)
		ran := noon.Add(-time.Duration(binary.BigEndian.Uint64(digest[:]) % uint64(30*24*time.Hour))) // some time in the last month
		record.Ended.IDs = []string{fmt.Sprintf("%012x", ran.UnixMilli())[:8] + fmt.Sprintf("-%04x-7000-8000-000000000000", ran.UnixMilli()&0xffff)}
		record.Ended.Last = &state.Result{State: state.RunSucceeded, Ended: ran.Add(time.Duration(digest[9]) * time.Second / 7)}
		tasks[name] = state.Stored[state.Task]{Record: state.Record{Key: state.TaskKey(name), Version: "1"}, Data: record}
	}
	var s summary.Summary
	b.read(&s)
	if _, err := s.Rebuild(t.Context(), b.store.Apply, tasks, nil); err != nil {
		t.Fatal(err)
	}
	all, err := b.store.List(t.Context(), summary.Prefix)
	size := 0
	for _, rec := range all {
		size += len(rec.Key) + len(rec.Value)
	}
	if err != nil || size > 500_000 {
		t.Errorf("the summary of 10,000 tasks has %d bytes in %d records (%v)", size, len(all), err)
	}
	t.Logf("%d bytes in %d records", size, len(all))
	if got := slices.Collect(s.Rows()); len(got) != 10_000 {
		t.Errorf("%d rows", len(got))
	}
}

// Lists of tasks at rest are ordered, and the newest runs found, without their records.
func TestOf_SaysWhenATaskRanLast(t *testing.T) {
	record := resting("A")
	record.Reason.Text = "next scheduled at noon"
	record.Ended.IDs = []string{"0193a7c0-1234-7000-8000-000000000001", "0193a7c0-1235-7000-8000-000000000002"}
	record.Ended.Last = &state.Result{State: state.RunSucceeded, Ended: noon.Add(1500 * time.Microsecond)}
	row := summary.Of("web", record)
	if row.Rest != state.RestApplied || row.Newest != "0193a7c0-1235" || row.Ended != noon.UnixMilli()+1 || row.Reason != "next scheduled at noon" || row.Unapplied {
		t.Errorf("at rest: %+v", row)
	}
	record.Ended.Last.State, record.Ended.Last.Entries = state.RunUnchanged, &state.EntryChanges{Added: 1}
	if row := summary.Of("web", record); !row.Unapplied {
		t.Errorf("its latest run has left something: %+v", row)
	}
	record.Run = &state.LiveRun{ID: "0193a7c0-2000-7000-8000-000000000003"}
	if row := summary.Of("web", record); row.Rest != "" || row.Newest != "0193a7c0-2000" || row.Ended != 0 {
		t.Errorf("while it runs: %+v", row)
	}
}
