package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

func every(outbox.Event) bool { return true }

// pages lists everything that a query finds, in parts.
func (b *bench) pages(q outbox.Query, finds func(outbox.Event) bool) (all []outbox.Event) {
	b.Helper()
	for range 100_000 {
		events, next, err := outbox.List(b.Context(), b.store, q, finds)
		if err != nil {
			b.Fatal(err)
		}
		if all = append(all, events...); next == "" {
			return all
		}
		if enough := strings.Contains(next, fmt.Sprint(math.MaxInt64)); len(events) != q.Limit && !enough { // enough was read
			b.Fatalf("a page that is not the last has %d events, want %d", len(events), q.Limit)
		}
		q.Before = next
	}
	b.Fatal("the list has no end")
	return nil
}

func details(events []outbox.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.Detail)
	}
	return all
}

func TestList_HasEveryEventOnceInOrder(t *testing.T) {
	b := inMemory(t)
	var want []string
	for i := range 1234 {
		at := noon.Add(time.Duration(i) * time.Minute)
		b.happens(fmt.Sprintf("%04d", i), at, "web")
		want = append(want, fmt.Sprintf("%04d", i))
		if i%37 == 0 {
			b.deliver(0, nil)
		}
	}
	slices.Reverse(want)
	for _, limit := range []int{1, 7, 50, 51, 100, 5000} {
		if got := details(b.pages(outbox.Query{Limit: limit}, every)); !slices.Equal(got, want) {
			t.Errorf("in parts of %d, the list has %d events, want %d; it begins with %v", limit, len(got), len(want), got[:min(5, len(got))])
		}
	}
	from, to := noon.Add(300*time.Minute), noon.Add(900*time.Minute)
	if got := details(b.pages(outbox.Query{Since: from, Until: to, Limit: 70}, every)); !slices.Equal(got, want[1234-900:1234-300]) {
		t.Errorf("a range of time has %d events, from %v to %v", len(got), got[0], got[len(got)-1])
	}
	sevens := func(e outbox.Event) bool { return strings.HasSuffix(e.Detail, "7") }
	if got := details(b.pages(outbox.Query{Limit: 10}, sevens)); len(got) != 123 || got[0] != "1227" || got[122] != "0007" {
		t.Errorf("a filter finds %d: %v", len(got), got)
	}
	if at, err := outbox.Oldest(t.Context(), b.store); err != nil || !at.Equal(noon) {
		t.Errorf("the oldest event is from %s, %v", at, err)
	}
	if events, _, err := outbox.List(t.Context(), b.store, outbox.Query{Before: "nonsense", Limit: 1}, every); !errors.Is(err, outbox.ErrCursor) {
		t.Errorf("%v, %v", events, err)
	}
}

// A sink that is down keeps events of some tasks in the outbox: they leave it long after others.
func TestList_EventsThatWereDeliveredLateAreInOrder(t *testing.T) {
	b := inMemory(t)
	random := rand.New(rand.NewPCG(1, 2))
	var want []string
	for i := range 600 {
		at := noon.Add(time.Duration(random.IntN(10_000)) * time.Minute)
		b.happens(at.Format(time.RFC3339)+fmt.Sprintf(" %03d", i), at, fmt.Sprintf("task-%d", i))
		if i%60 == 59 {
			b.deliver(0, nil)
		}
	}
	want = details(b.pages(outbox.Query{Limit: 10_000}, every))
	if len(want) != 600 || !slices.IsSortedFunc(want, func(a, b string) int { return strings.Compare(b[:20], a[:20]) }) {
		t.Errorf("%d events, in the order %v", len(want), want[:10])
	}
	for _, limit := range []int{3, 64} {
		if got := details(b.pages(outbox.Query{Limit: limit}, every)); !slices.Equal(got, want) {
			t.Errorf("in parts of %d, the list has %d events", limit, len(got))
		}
	}
}

// read counts the records of the history that a list reads.
type read struct {
	state.Store
	records int
}

func (r *read) List(ctx context.Context, prefix string) ([]state.Record, error) {
	all, err := r.Store.List(ctx, prefix)
	if strings.HasPrefix(prefix, "history/") {
		r.records += len(all)
	}
	return all, err
}

// An event is dated by the process in which it happens. Its clock may have been years ahead for a while.
func TestList_EventFromAClockFarAheadCostsFewReadsAndIsListedOnce(t *testing.T) {
	b := inMemory(t)
	const records, wrong, bound = 330, 6_030, 220 // of the history, each with 50 events
	var want []string
	for n := range records {
		var changes []state.Change
		for i := range 50 {
			id := n*50 + i
			at := noon.Add(time.Duration(id) * time.Minute)
			if id == wrong {
				at = noon.AddDate(70, 0, 0)
			}
			changes = append(changes, outbox.NewEvents(outbox.Event{Kind: outbox.ChangeSeen, Seq: uint64(id + 1), At: at, Task: "web", Detail: fmt.Sprint(id)}).Changes()...)
			want = append(want, fmt.Sprint(id))
		}
		if _, err := b.store.Apply(t.Context(), changes...); err != nil {
			t.Fatal(err)
		}
		b.deliver(0, nil)
	}
	slices.Reverse(want)
	counted := &read{Store: b.store}
	var got []string
	most, pages := 0, 0
	for q := (outbox.Query{Limit: 500}); ; pages++ {
		counted.records = 0
		events, next, err := outbox.List(t.Context(), counted, q, every)
		if err != nil {
			t.Fatal(err)
		}
		got, most = append(got, details(events)...), max(most, counted.records)
		if pages == 0 && counted.records > 31 {
			t.Errorf("the first page reads %d records of the history", counted.records)
		}
		if q.Before = next; next == "" {
			break
		}
	}
	t.Logf("%d pages; one reads at most %d of %d records", pages, most, records)
	if most > bound {
		t.Errorf("a page reads %d records of the history", most)
	}
	at := slices.Index(got, fmt.Sprint(wrong))
	if at < 0 {
		t.Fatal("the event from the wrong clock is not listed")
	}
	inOrder := func(all []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == fmt.Sprint(wrong) })
	}
	if !slices.Equal(inOrder(got), inOrder(want)) || len(got) != len(want) {
		t.Errorf("%d events are listed, want each of %d once and in order", len(got), len(want))
	}
	if whole := details(b.pages(outbox.Query{Limit: len(want)}, every)); len(whole) != len(want) {
		t.Errorf("on one page, there are %d events, want %d", len(whole), len(want))
	}
	near := func(e outbox.Event) bool { return e.Seq > wrong-10 && e.Seq < wrong+10 }
	few := details(b.pages(outbox.Query{Limit: 3}, near))
	slices.Sort(few)
	if len(slices.Compact(slices.Clone(few))) != 19 || len(few) != 19 {
		t.Errorf("in parts of 3, there are %d events around it, want each of 19 once: %v", len(few), few)
	}
}

// Who may view one task may search for what nobody finds.
func TestList_ARequestDecodesOnlySoManyEventsWhateverItSearches(t *testing.T) {
	const events = 2*outbox.MaxRead + 120
	for name, late := range map[string]func(i int) time.Duration{
		"in order":                 func(int) time.Duration { return 0 },
		"clocks are far ahead":     func(i int) time.Duration { return time.Duration(i%40/39) * 70 * 365 * 24 * time.Hour },
		"some are delivered late":  func(i int) time.Duration { return -time.Duration(i%53/52) * 12 * time.Hour },
		"all are from one instant": func(i int) time.Duration { return -time.Duration(i) * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			b := inMemory(t)
			for i := 0; i < events; i += 200 {
				var all []outbox.Event
				for n := i; n < min(i+200, events); n++ {
					all = append(all, outbox.Event{Kind: outbox.ChangeSeen, Seq: uint64(n + 1), At: noon.Add(time.Duration(n)*time.Minute + late(n)), Task: "web", Detail: fmt.Sprint(n)})
				}
				if _, err := b.store.Apply(t.Context(), outbox.NewEvents(all...).Changes()...); err != nil {
					t.Fatal(err)
				}
				b.deliver(0, nil)
			}
			for what, finds := range map[string]func(outbox.Event) bool{
				"nothing": func(outbox.Event) bool { return false },
				"a few":   func(e outbox.Event) bool { return e.Seq%1999 == 1 },
				"many":    func(e outbox.Event) bool { return e.Seq%31 == 1 },
			} {
				want := 0
				for n := range events {
					if finds(outbox.Event{Seq: uint64(n + 1)}) {
						want++
					}
				}
				found := map[string]bool{}
				for q := (outbox.Query{Limit: 500}); ; {
					read := map[string]bool{}
					got, next, err := outbox.List(t.Context(), b.store, q, func(e outbox.Event) bool { read[e.ID] = true; return finds(e) })
					if err != nil {
						t.Fatal(err)
					}
					if len(read) > outbox.MaxRead+300 {
						t.Fatalf("%s: a request looks at %d events", what, len(read))
					}
					for _, e := range got {
						if found[e.Detail] {
							t.Fatalf("%s: %s is listed twice", what, e.Detail)
						}
						found[e.Detail] = true
					}
					if q.Before = next; next == "" {
						break
					}
				}
				if len(found) != want {
					t.Errorf("%s: %d events are found, want %d", what, len(found), want)
				}
			}
		})
	}
}

// While somebody reads page by page, events go on to be delivered.
func TestList_PagesMissNothingWhileEventsAreDelivered(t *testing.T) {
	b := inMemory(t)
	happened := 0
	more := func(n int) {
		for range n {
			b.happens(fmt.Sprintf("%04d", happened), noon.Add(time.Duration(happened)*time.Second), "web")
			happened++
		}
	}
	more(130)
	b.deliver(0, nil)
	more(20)
	q, got := outbox.Query{Limit: 9}, []string(nil)
	for {
		events, next, err := outbox.List(t.Context(), b.store, q, every)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, details(events)...); next == "" {
			break
		}
		q.Before = next
		more(13)
		b.deliver(0, nil)
	}
	for i, detail := range got {
		if want := fmt.Sprintf("%04d", 149-i); detail != want {
			t.Fatalf("event %d is %s, want %s", i, detail, want)
		}
	}
	if len(got) != 150 {
		t.Errorf("%d events", len(got))
	}
}

func TestHistory_DoesNotGrowWithoutLimit(t *testing.T) {
	b := inMemory(t)
	if _, err := b.store.Apply(t.Context(), state.Create("events/latest", []byte(fmt.Sprintf(`{"format":1,"next":%d}`, outbox.MaxHistory+5)))); err != nil {
		t.Fatal(err)
	}
	for n := range 10 { // of which 5 are the oldest, and one is missing
		if n == 7 {
			continue
		}
		if _, err := b.store.Apply(t.Context(), state.Create(fmt.Sprintf("history/%09d", n), []byte(`{"format":1,"from":"2026-01-01T00:00:00Z","to":"2026-01-02T00:00:00Z"}`))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 520 {
		b.happens(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second), "web")
	}
	b.deliver(0, nil)
	left, err := b.store.List(t.Context(), "history/000000")
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range left {
		if rec.Key >= "history/000000005" {
			t.Errorf("%s is left", rec.Key)
		}
	}
	if all := b.pages(outbox.Query{Since: noon, Limit: 100}, every); len(all) != 520 {
		t.Errorf("%d events", len(all))
	}
}

func TestHistory_GoesOnAfterItsNumberWasLost(t *testing.T) {
	for name, lose := range map[string]func(*bench, state.Record) state.Change{
		"removed": func(_ *bench, rec state.Record) state.Change { return state.Delete(rec) },
		"edited":  func(_ *bench, rec state.Record) state.Change { return state.Replace(rec, []byte("{")) },
	} {
		b := inMemory(t)
		for i := range 180 {
			b.happens(fmt.Sprint(i), noon.Add(time.Duration(i)*time.Second), "web")
		}
		b.deliver(0, nil)
		rec, err := b.store.Get(t.Context(), "events/latest")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.Apply(t.Context(), lose(b, rec)); err != nil {
			t.Fatal(err)
		}
		kept := len(b.pages(outbox.Query{Limit: 1000}, every))
		for i := range 180 {
			b.happens(fmt.Sprint(200+i), noon.Add(time.Duration(200+i)*time.Second), "web")
		}
		b.deliver(0, nil)
		if all := b.pages(outbox.Query{Limit: 1000}, every); kept < 100 || len(all) != kept+180 {
			t.Errorf("%s: %d events were kept, and %d after 180 more", name, kept, len(all))
		}
	}
}

func TestHistory_ManyLargeEventsAtOnceFitIntoTheirRecords(t *testing.T) {
	b := inMemory(t)
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		raw := make([]byte, 400)
		for i := range raw {
			raw[i] = byte('!' + random.IntN(90))
		}
		return string(raw)
	}
	for i := range 20 {
		var all []outbox.Event
		for n := range 60 {
			all = append(all, outbox.Event{ID: "", Kind: outbox.RunFailed, Seq: uint64(i*60 + n + 1), At: noon.Add(time.Duration(i*60+n) * time.Second), Task: fmt.Sprintf("task-%d", n), Detail: text(), Error: text(), Cause: text()})
		}
		if _, err := b.store.Apply(t.Context(), outbox.NewEvents(all...).Changes()...); err != nil {
			t.Fatal(err)
		}
	}
	b.deliver(0, nil)
	left, err := b.store.List(t.Context(), outbox.Prefix)
	if all := b.pages(outbox.Query{Limit: 1000}, every); err != nil || len(left) != 0 || len(all) != 1200 {
		t.Errorf("%d records are left in the outbox, %d events are listed, %v", len(left), len(all), err)
	}
}

// BenchmarkList measures pages of 100,000 events in a store.
func BenchmarkList(b *testing.B) {
	s := filled(b, 100_000)
	for name, q := range map[string]struct {
		outbox.Query
		finds func(outbox.Event) bool
	}{
		"first":    {outbox.Query{Limit: 100}, every},
		"rare":     {outbox.Query{Limit: 100}, func(e outbox.Event) bool { return e.Task == "nobody" }},
		"last day": {outbox.Query{Limit: 100, Until: noon.Add(24 * time.Hour)}, every},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := outbox.List(b.Context(), s, q.Query, q.finds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for q := (outbox.Query{Limit: 1000}); ; {
				events, next, err := outbox.List(b.Context(), s, q, every)
				if err != nil {
					b.Fatal(err)
				}
				for _, e := range events {
					raw, _ := json.Marshal(e)
					n += len(raw)
				}
				if next == "" {
					break
				}
				q.Before = next
			}
			b.ReportMetric(float64(n)/1e6, "MB")
		}
	})
}

// filled is a SQLite store with so many delivered events, one each minute.
func filled(b *testing.B, n int) state.Store {
	b.Helper()
	s, err := sqlite.Open(b.Context(), b.TempDir()+"/terrapulse.db")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	for done := 0; done < n; {
		var changes []state.Change
		for range 10 {
			var all []outbox.Event
			for range 20 {
				e := outbox.Event{Kind: outbox.RunSucceeded, Seq: uint64(done + 1), At: noon.Add(time.Duration(done) * time.Minute), Task: fmt.Sprintf("load-balancer-%d", done%500),
					Run: fmt.Sprintf("01a202ff-bb0d-748c-80c6-a08ad1%06x", done*977), Reason: state.ReasonChanged, Detail: fmt.Sprintf("service web: +web-%d", done), Changes: &state.Changes{Add: 1}}
				all = append(all, e)
				done++
			}
			changes = append(changes, outbox.NewEvents(all...).Changes()...)
		}
		if _, err := s.Apply(b.Context(), changes...); err != nil {
			b.Fatal(err)
		}
		d := outbox.Delivery{Store: s, Apply: s.Apply, Sinks: func() []outbox.Sink { return nil }, Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)}
		if _, err := d.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return s
}
