package simulate

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// In every tenth history, the summary is lost or damaged now and then, while ticks run: all of its records
// or its head are removed, or one of its records is cut. Processes that have read it before continue with
// what they know. The judge checks that the next ticks make it anew.

const (
	spoiltEvery = 10 // histories
	spoiltFirst = 7

	// spoiltTicks is how many ticks may end after that without a summary: some had begun before, and one
	// tick may write the reconcile record several times.
	spoiltTicks = 5
)

// spoilSummary has a part of the summary, or all of it, be lost or damaged.
func (w *world) spoilSummary() {
	all := w.memory.list(summary.Prefix)
	if len(all) == 0 {
		return
	}
	w.judge.withoutSummary = 0
	switch w.rng.IntN(3) {
	case 0:
		if len(w.pending) > 0 {
			return // a tick would write rows of before, and what others have noted since would be lost with the notes
		}
		w.note("the summary is lost")
		for _, rec := range all {
			w.memory.spoil(rec.Key, nil)
		}
	case 1:
		if w.memory.records[summary.Head].Version != "" {
			w.note("the head of the summary is lost")
			w.memory.spoil(summary.Head, nil)
		}
	default:
		rec := all[w.rng.IntN(len(all))]
		w.note("a record of the summary is damaged: %s", rec.Key)
		w.memory.spoil(rec.Key, rec.Value[:len(rec.Value)/2])
	}
}

// spoil replaces a record, or removes it if the value is nil.
func (m *memory) spoil(key string, value []byte) {
	m.version++
	m.change(key)
	if value == nil {
		delete(m.records, key)
		return
	}
	m.records[key] = state.Record{Key: key, Value: value, Version: "spoilt-" + m.records[key].Version}
}

// madeAnew looks at a write of the leader's reconcile record: the summary is not without effect for long.
func (j *judge) madeAnew(v view, changes []state.Change) {
	has := func(prefix string) bool {
		return slices.ContainsFunc(changes, func(c state.Change) bool { return strings.HasPrefix(c.Key, prefix) })
	}
	if !v.spoils || v.person() || !has("lease/") || !has(state.ReconcileKey) {
		return
	}
	if j.withoutSummary++; json.Valid(v.memory.records[summary.Head].Value) {
		j.withoutSummary = 0
	}
	if j.withoutSummary > spoiltTicks {
		v.violated("a summary that was lost is made anew: there is none after %d ticks", spoiltTicks)
	}
}
