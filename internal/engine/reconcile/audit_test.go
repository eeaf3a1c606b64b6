package reconcile

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// counting counts the records that are read of the audit record.
type counting struct {
	state.Store
	all, audit int
}

func (r *counting) note(records ...state.Record) {
	for _, rec := range records {
		if r.all++; strings.HasPrefix(rec.Key, "audit-") {
			r.audit++
		}
	}
}

func (r *counting) Get(ctx context.Context, key string) (state.Record, error) {
	rec, err := r.Store.Get(ctx, key)
	r.note(rec)
	return rec, err
}

func (r *counting) List(ctx context.Context, prefix string) ([]state.Record, error) {
	all, err := r.Store.List(ctx, prefix)
	r.note(all...)
	return all, err
}

func TestTick_ReadsNothingOfTheAuditRecord(t *testing.T) {
	counts := map[int][]int{}
	for _, entries := range []int{0, 5_000} {
		b := newBench(t, tasks(3)...)
		b.settle()
		var changes []state.Change
		for i := range entries {
			changes = append(changes, audit.Write(t.Context(), audit.Entry{Action: audit.Hold, Task: "task-1"}, "token:ci", b.now.Add(-time.Duration(i)*time.Minute)))
		}
		for some := range slices.Chunk(changes, state.MaxChanges) {
			if _, err := b.store.Apply(t.Context(), some...); err != nil {
				t.Fatal(err)
			}
		}
		read := &counting{Store: b.Reconciler.Store}
		b.Reconciler.Store = read
		for _, change := range []string{"", "B"} {
			if read.all = 0; change != "" {
				b.catalog.set(change, nil)
			}
			report := b.tick()
			if counts[entries] = append(counts[entries], read.all); read.audit != 0 || report.Idle != (change == "") || read.all == 0 {
				t.Errorf("with %d entries and the change %q: %d records were read, %d of them of the audit record; idle: %t", entries, change, read.all, read.audit, report.Idle)
			}
		}
	}
	if !slices.Equal(counts[0], counts[5_000]) {
		t.Errorf("without entries, ticks read %d records, with 5,000 entries %d", counts[0], counts[5_000])
	}
}
