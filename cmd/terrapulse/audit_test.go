package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
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
	wantCode(t, s.bare("audit", at, "-action=bogus"), exitFlags)
	wantCode(t, s.bare("audit", at, "-since=x"), exitFlags)
	wantCode(t, s.bare("audit", at, "lb"), exitFlags)
}
