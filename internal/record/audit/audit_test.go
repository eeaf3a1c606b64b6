package audit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) state.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir()+"/terrapulse.db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func as(t *testing.T, who identity.Identity) context.Context {
	return audit.With(t.Context(), audit.Actor{Identity: who, From: "192.0.2.7", Via: audit.API, Request: "r"})
}

func write(t *testing.T, s state.Store, ctx context.Context, e audit.Entry, by string, at time.Time) {
	t.Helper()
	if _, err := s.Apply(ctx, audit.Write(ctx, e, by, at)); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s state.Store, f audit.Filter) []audit.Entry {
	t.Helper()
	if f.Until.IsZero() {
		f.Until = noon.AddDate(1, 0, 0)
	}
	if f.Limit == 0 {
		f.Limit = 1000
	}
	all, _, err := audit.List(t.Context(), s, f, func(audit.Entry) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWrite_ClaimedNameIsNeverProven(t *testing.T) {
	s := newStore(t)
	ci := identity.OfToken("ci")
	for i, tt := range []struct {
		who   identity.Identity
		by    string
		proof identity.Proof
		kept  string
	}{
		{ci, ci.Name, identity.Token, "token:ci"},
		{ci, "user:boss@example.com", identity.None, "user:boss@example.com"}, // not the name that was proven
		{identity.Identity{Proof: identity.Local}, identity.Claimed("token:ci"), identity.Local, "token:ci (not proven)"},
		{identity.Identity{}, identity.Claimed("ann\n2026-11-26 token:ci approve"), identity.None, "ann 2026-11-26 token:ci approve (not proven)"},
		{identity.Identity{}, identity.Claimed("\u202eic:nekot\u2066\u200b"), identity.None, "ic:nekot (not proven)"},
		{identity.Identity{Name: "token:ci"}, "token:ci", identity.None, "token:ci"},
	} {
		at := noon.Add(time.Duration(i) * time.Hour)
		write(t, s, as(t, tt.who), audit.Entry{Action: audit.Hold, Comment: "a\r\nb\x1b[2J"}, tt.by, at)
		e := list(t, s, audit.Filter{Since: at, Until: at.Add(time.Second)})[0]
		if e.Proof != tt.proof || e.By != tt.kept || strings.ContainsAny(e.Comment, "\r\n\x1b") || e.From != "192.0.2.7" {
			t.Errorf("%+v as %q: %+v", tt.who, tt.by, e)
		}
	}
}

func TestList_FindsByTimeTaskPersonAndAction(t *testing.T) {
	s := newStore(t)
	ctx := as(t, identity.OfToken("ann"))
	for month := range 4 {
		for i := range 3 {
			at := noon.AddDate(0, -month, 0).Add(-time.Duration(i) * time.Minute)
			write(t, s, ctx, audit.Entry{Action: []audit.Action{audit.Hold, audit.Release, audit.Hold}[i], Task: fmt.Sprint("task-", i)}, []string{"token:ann", "bob", "token:ann"}[i], at)
		}
	}
	for name, tt := range map[string]struct {
		filter audit.Filter
		want   int
	}{
		"an hour":           {audit.Filter{Since: noon.Add(-time.Hour)}, 3},
		"two months":        {audit.Filter{Since: noon.AddDate(0, -1, -1)}, 6},
		"a year":            {audit.Filter{Since: noon.AddDate(-1, 0, 0)}, 12},
		"a task":            {audit.Filter{Since: noon.AddDate(-1, 0, 0), Task: "task-1"}, 4},
		"a person":          {audit.Filter{Since: noon.AddDate(-1, 0, 0), By: "ANN"}, 8},
		"an action":         {audit.Filter{Since: noon.AddDate(-1, 0, 0), Action: audit.Release}, 4},
		"until is excluded": {audit.Filter{Since: noon.AddDate(0, 0, -1), Until: noon}, 2},
	} {
		if got := list(t, s, tt.filter); len(got) != tt.want || !slices.IsSortedFunc(got, func(a, b audit.Entry) int { return strings.Compare(b.ID, a.ID) }) {
			t.Errorf("%s: %d entries, want %d: %+v", name, len(got), tt.want, got)
		}
	}
	var pages []audit.Entry
	f := audit.Filter{Since: noon.AddDate(-1, 0, 0), Limit: 5}
	for {
		page := list(t, s, f)
		pages = append(pages, page...)
		if len(page) < 5 {
			break
		}
		f.Before = page[4].ID
	}
	if all := list(t, s, audit.Filter{Since: noon.AddDate(-1, 0, 0)}); !slices.EqualFunc(all, pages, func(a, b audit.Entry) bool { return a.ID == b.ID }) {
		t.Errorf("%d entries page by page, want %d", len(pages), len(all))
	}
}

// counted counts the records that are read.
type counted struct {
	*sqlite.Store
	read int
}

func (c *counted) List(ctx context.Context, prefix string) ([]state.Record, error) {
	all, err := c.Store.List(ctx, prefix)
	c.read += len(all)
	return all, err
}

func (c *counted) Last(ctx context.Context, prefix, before string, n int) ([]state.Record, error) {
	all, err := c.Store.Last(ctx, prefix, before, n)
	c.read += len(all)
	return all, err
}

func TestList_PageOfADayWithVeryManyEntriesReadsAboutAsManyAsItShows(t *testing.T) {
	opened, err := sqlite.Open(t.Context(), t.TempDir()+"/terrapulse.db")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	c, ctx := &counted{Store: opened}, as(t, identity.OfToken("ci"))
	s := summary.Keep(&state.Noting{Store: c, Now: time.Now}) // as an instance opens it
	const entries, limit = 6_000, 100
	day := noon.Truncate(24 * time.Hour)
	var changes []state.Change
	for i := range entries {
		at := day.Add(time.Duration(i) * 24 * time.Hour / entries)
		if i > entries/2 {
			at = day.Add(20*time.Hour + time.Duration(i)*time.Millisecond) // a script has gone wild
		}
		changes = append(changes, audit.Write(ctx, audit.Entry{Action: audit.Hold, Task: fmt.Sprint(i)}, "token:ci", at))
	}
	for some := range slices.Chunk(changes, state.MaxChanges) {
		if _, err := s.Apply(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
	for name, f := range map[string]audit.Filter{
		"a day":   {Since: day, Until: day.Add(24 * time.Hour)},
		"a month": {Since: day.AddDate(0, 0, -29), Until: day.AddDate(0, 0, 1)},
		"a year":  {Since: day.AddDate(-1, 0, 0), Until: day.AddDate(0, 0, 1)},
		"a noon":  {Since: day, Until: noon},
	} {
		var seen []string
		for pages := 0; ; pages++ {
			c.read, f.Limit = 0, limit
			found, next, err := audit.List(t.Context(), s, f, func(audit.Entry) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			if c.read > 2*(limit+1) {
				t.Fatalf("page %d of %s reads %d entries", pages, name, c.read)
			}
			for _, e := range found {
				seen = append(seen, e.Task)
			}
			if f.Before = next; next == "" {
				break
			}
		}
		want := entries
		if name == "a noon" {
			want = entries / 2
		}
		if len(seen) != want || !slices.IsSortedFunc(seen, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(b, a)) }) {
			t.Errorf("%s: %d entries are listed, want %d, the latest first", name, len(seen), want)
		}
	}
}

// counting counts the writes.
// Who may view one task may search a year of entries for what nobody finds.
func TestList_ARequestDecodesOnlySoManyEntriesWhateverItSearches(t *testing.T) {
	opened, err := sqlite.Open(t.Context(), t.TempDir()+"/terrapulse.db")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	s := &counted{Store: opened}
	const entries = 2*audit.MaxRead + 300
	var changes []state.Change
	for i := range entries {
		at := noon.AddDate(0, -i*10/entries, 0).Add(-time.Duration(i) * time.Second)
		changes = append(changes, audit.Write(t.Context(), audit.Entry{Action: audit.Hold, Task: fmt.Sprint("task-", i%3000)}, "ci", at))
	}
	for some := range slices.Chunk(changes, state.MaxChanges) {
		if _, err := opened.Apply(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
	for name, since := range map[string]time.Time{"a year": noon.AddDate(-1, 0, 0), "a month": noon.AddDate(0, 0, -30)} {
		for task, want := range map[string]int{"nobody": 0, "task-7": 4} {
			found := map[string]bool{}
			f := audit.Filter{Since: since, Until: noon.Add(time.Hour), Task: task, Limit: 1}
			for {
				s.read = 0
				got, next, err := audit.List(t.Context(), s, f, func(audit.Entry) bool { return true })
				if err != nil {
					t.Fatal(err)
				}
				if s.read > audit.MaxRead+1000 {
					t.Fatalf("%s: a request for %s reads %d entries", name, task, s.read)
				}
				for _, e := range got {
					found[e.ID] = true
				}
				if f.Before = next; next == "" {
					break
				}
			}
			if name == "a month" {
				want = min(want, 1)
			}
			if len(found) != want {
				t.Errorf("%s: %d entries about %s, want %d", name, len(found), task, want)
			}
		}
	}
}

type counting struct {
	state.Store
	writes int
}

func (c *counting) Apply(ctx context.Context, changes ...state.Change) ([]state.Record, error) {
	c.writes++
	return c.Store.Apply(ctx, changes...)
}

func TestRefusals_NobodyFillsTheStore(t *testing.T) {
	s := newStore(t)
	for process := range 3 { // each has its own memory
		c, r := &counting{Store: s}, new(audit.Refusals)
		for i := range 500 {
			at := noon.Add(time.Duration(i) * time.Second)
			for _, who := range []identity.Identity{identity.OfToken("ci"), {Name: fmt.Sprint("token:", i), Proof: identity.None}, {Name: "x", Proof: identity.Local}} {
				if err := r.Keep(as(t, who), c, "approve", fmt.Sprint("task-", i), "approve", at); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.writes != 1 {
			t.Errorf("process %d writes %d times", process, c.writes)
		}
	}
	if all := list(t, s, audit.Filter{Since: noon.AddDate(0, 0, -1)}); len(all) != 1 || all[0].By != "token:ci" || all[0].Proof != identity.Token || all[0].Task != "task-0" {
		t.Errorf("%+v", all)
	}
	if err := new(audit.Refusals).Keep(as(t, identity.OfToken("ci")), s, "approve", "", "", noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if all := list(t, s, audit.Filter{Since: noon.AddDate(0, 0, -1)}); len(all) != 2 {
		t.Errorf("an hour later, there are %d", len(all))
	}
}

func TestRefusals_AreListedAtTheirTime(t *testing.T) {
	s := newStore(t)
	write := func(by string, at time.Time) {
		if _, err := s.Apply(t.Context(), audit.Write(t.Context(), audit.Entry{Action: audit.Hold}, by, at)); err != nil {
			t.Fatal(err)
		}
	}
	write("first", noon.Add(10*time.Minute))
	if err := new(audit.Refusals).Keep(as(t, identity.OfToken("ci")), s, "approve", "web", "approve", noon.Add(20*time.Minute)); err != nil {
		t.Fatal(err)
	}
	write("last", noon.Add(15*time.Minute))
	all, _, err := audit.List(t.Context(), s, audit.Filter{Since: noon.AddDate(0, 0, -1), Until: noon.Add(time.Hour), Limit: 2}, func(audit.Entry) bool { return true })
	if err != nil || len(all) != 2 || all[0].By != "token:ci" || all[1].By != "last" {
		t.Errorf("the latest two are %+v, %v", all, err)
	}
}

func TestWrite_EntryIsKeptForTheRetention(t *testing.T) {
	for keep, want := range map[time.Duration]time.Time{0: noon.Add(audit.Retention), time.Hour: noon.Add(time.Hour)} {
		ctx := audit.With(t.Context(), audit.Actor{})
		if keep > 0 {
			ctx = audit.With(t.Context(), audit.Actor{Keep: func(context.Context) time.Duration { return keep }})
		}
		if c := audit.Write(ctx, audit.Entry{}, "x", noon); !c.Expires.Equal(want) || c.Op != state.OpCreate {
			t.Errorf("kept for %s: %+v", keep, c)
		}
	}
	var conflict *state.ConflictError
	s := newStore(t)
	change := audit.Write(t.Context(), audit.Entry{Action: audit.Pause}, "x", noon)
	if _, err := s.Apply(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), change); !errors.As(err, &conflict) {
		t.Errorf("an entry is written over: %v", err)
	}
}
