package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

func TestAudit_PrintsWhatWasDoneToAStore(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	store, err := sqlite.Open(t.Context(), s.path("terrapulse.db"))
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	at := "-store=sqlite:" + s.path("terrapulse.db")
	wantCode(t, s.bare("pause", at, "-reason=new switches\nfake"), exitOK)
	wantCode(t, s.bare("pause", at, "-reason=again"), exitOK) // changes nothing
	wantCode(t, s.bare("resume", at), exitOK)
	r := s.bare("audit", at)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "resume", "pause", "(not proven)", "local", "new switches fake")
	r = s.bare("audit", at, "-json", "-since=1h")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	var actions []string
	for _, line := range lines {
		var e apispec.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		actions = append(actions, string(e.Action)+" "+apispec.Deref(e.Via)+" "+e.Proof)
	}
	if got := strings.Join(actions, ", "); got != "resume command local, pause command local" {
		t.Error(got)
	}
	wantText(t, s.bare("audit", at, "-action=pause", "-json").stdout, `"action":"pause"`)
	if got := s.bare("audit", at, "-by=nobody-else", "-json").stdout; got != "" {
		t.Error(got)
	}
	wantText(t, s.bare("audit", at, "-csv").stdout, "time,action,task,by,", "pause", "new switches fake")
	if got := s.bare("audit", at, "-json", "-until=1h").stdout; got != "" {
		t.Error(got)
	}
	wantCode(t, s.bare("audit", at, "-json", "-csv"), exitFlags)
	wantCode(t, s.bare("audit", at, "-action=bogus"), exitFlags)
	wantCode(t, s.bare("audit", at, "-since=x"), exitFlags)
	wantCode(t, s.bare("audit", at, "lb"), exitFlags)
}

func TestEvents_AreFilteredAndExported(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	store, err := sqlite.Open(t.Context(), s.path("terrapulse.db"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	var all []outbox.Event
	for i := range 120 {
		all = append(all, outbox.Event{Kind: outbox.ChangeSeen, Seq: uint64(i + 1), At: now.Add(-time.Duration(i+2)*time.Hour + 30*time.Minute), Task: "lb", Detail: fmt.Sprintf("service web: +web-%03d", i)})
	}
	all = append(all, outbox.Event{Kind: outbox.RunFailed, Seq: 500, At: now.Add(-time.Hour), Task: "dns", Error: "=1+1", By: "Ann"})
	if _, err := store.Apply(t.Context(), outbox.NewEvents(all...).Changes()...); err != nil {
		t.Fatal(err)
	}
	store.Close()
	at := "-store=sqlite:" + s.path("terrapulse.db")
	for flags, want := range map[string]int{"": 50, "-limit=0": 121, "-limit=70": 70, "-task=dns": 1, "-level=warning": 1, "-kind=change_seen -limit=0": 120, "-by=ann": 1, "-text=WEB-007": 1, "-since=5h": 5, "-until=100h -limit=0": 21} {
		r := s.bare("events", append([]string{at, "-json"}, strings.Fields(flags)...)...)
		wantCode(t, r, exitOK)
		if got := strings.Count(r.stdout, "\n"); got != want {
			t.Errorf("%s prints %d events, want %d", flags, got, want)
		}
	}
	r := s.bare("events", at, "-task=dns", "-csv")
	wantCode(t, r, exitOK)
	if rows, err := csv.NewReader(strings.NewReader(r.stdout)).ReadAll(); err != nil || len(rows) != 2 || rows[1][4] != "dns" || strings.HasPrefix(rows[1][8], "=") {
		t.Errorf("%q, %v", r.stdout, err)
	}
	wantText(t, s.bare("events", at, "-task=dns").stdout, "TIME", "dns", "run failed", "Error: =1+1; By: Ann")
	for _, wrong := range []string{"-kind=bogus", "-level=bogus", "-since=x", "-limit=-1"} {
		wantCode(t, s.bare("events", at, wrong), exitFlags)
	}
}
