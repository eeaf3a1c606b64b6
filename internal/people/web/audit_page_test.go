package web_test

import (
	"encoding/json"
	"html"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// did writes an entry of what somebody did some minutes ago.
func (s *site) did(minutes int, who identity.Identity, e audit.Entry) {
	s.t.Helper()
	ctx := audit.With(s.t.Context(), audit.Actor{Identity: who, From: "192.0.2.7", Via: audit.API})
	if _, err := s.store.Apply(ctx, audit.Write(ctx, e, who.Name, time.Now().Add(-time.Duration(minutes)*time.Minute))); err != nil {
		s.t.Fatal(err)
	}
}

func newAudited(t *testing.T) *site {
	s := newSite(t, "web", "dns")
	s.did(1, identity.OfToken("ann"), audit.Entry{Action: audit.Approve, Task: "web", Plan: "0123456789abcdef", Comment: "<b>rack 7</b>"})
	s.did(2, identity.Identity{Name: identity.Claimed("token:ann")}, audit.Entry{Action: audit.Hold, Task: "dns"})
	s.did(3, identity.OfToken("ci"), audit.Entry{Action: audit.Refused, Detail: "POST /v1/pause: token:ci needs the role administer for all tasks"})
	s.did(60*24*20, identity.OfToken("ann"), audit.Entry{Action: audit.Pause})
	return s
}

func TestAuditPage_IsFilteredAndExported(t *testing.T) {
	s := newAudited(t)
	for query, want := range map[string][]string{
		"":                               {"approve", "hold", "refused"},
		"?task=web":                      {"approve"},
		"?by=ANN":                        {"approve", "hold"},
		"?action=refused":                {"refused"},
		"?range=30d":                     {"approve", "hold", "refused", "pause"},
		"?action=bogus&range=x&task=web": {"approve"},
	} {
		_, said := s.ask("GET", "/ui/audit.json"+query, nil)
		var page struct{ Entries []apispec.AuditEntry }
		if err := json.Unmarshal([]byte(said), &page); err != nil || len(page.Entries) != len(want) {
			t.Errorf("%q: %v %s", query, err, said)
			continue
		}
		resp, err := s.get("/ui/audit/export" + query)
		if err != nil {
			t.Fatal(err)
		}
		exported, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		lines := strings.Split(strings.TrimSpace(string(exported)), "\n")
		for i, e := range page.Entries {
			var line apispec.AuditEntry
			if i >= len(lines) || json.Unmarshal([]byte(lines[i]), &line) != nil || line.ID != e.ID || string(e.Action) != want[i] {
				t.Errorf("%q: entry %d is %+v, and exported as %q", query, i, e, lines)
			}
		}
	}
}

// One request reads only a part of what a search could find.
func TestAuditPage_ALongSearchGoesOnWithALink(t *testing.T) {
	s := newSite(t, "web", "dns")
	ctx := audit.With(t.Context(), audit.Actor{Identity: identity.OfToken("ci"), Via: audit.API})
	var changes []state.Change
	latest := time.Now().Add(-time.Minute)
	for i := range audit.MaxRead + 10 {
		e := audit.Entry{Action: audit.Hold, Task: "dns"}
		if i == audit.MaxRead+5 {
			e = audit.Entry{Action: audit.Approve, Task: "web"}
		}
		changes = append(changes, audit.Write(ctx, e, "token:ci", latest.Add(-time.Duration(i)*time.Millisecond)))
	}
	for some := range slices.Chunk(changes, state.MaxChanges) {
		if _, err := s.store.Apply(t.Context(), some...); err != nil {
			t.Fatal(err)
		}
	}
	_, said := s.ask("GET", "/ui/audit?task=web", nil)
	_, link, _ := strings.Cut(said, `<div class="card empty"><p>Nothing matches in the part that was searched.</p><p><a href="`)
	if link, _, _ = strings.Cut(link, `"`); !strings.HasPrefix(link, "/ui/audit?before=") {
		t.Fatalf("no link goes on: %s", said)
	}
	if _, said = s.ask("GET", html.UnescapeString(link), nil); !strings.Contains(said, "<td data-label=\"Action\">approve</td>") {
		t.Errorf("%s: %s", link, said)
	}
	if _, said = s.ask("GET", "/ui/audit/export?task=web", nil); strings.Count(said, "\n") != 1 || !strings.Contains(said, `"approve"`) {
		t.Errorf("the export has %q", said)
	}
}

func TestAuditPage_IsAccessibleAndShowsWhatProvesANameInTheBrowser(t *testing.T) {
	s := newAudited(t)
	reaches(t, browsertest.New(t), s.url+"/ui/audit", "token:ann (not proven)", "refused", "<b>rack 7</b>", "01234567", "192.0.2.7", "Export")
}

func TestPlan_ShowsWhoHasApprovedAndNoButtonToThem(t *testing.T) {
	s := newSite(t, "web")
	task := s.waits("web", driver.Plan{Digest: "p", Changes: &state.Changes{Destroy: 1}}, "the plan")
	live, wait := *task.Run, *task.Run.Wait
	wait.Needs, wait.From = 2, []string{"group:network"}
	given := state.Given{ID: "1", By: "token:ann", Authenticated: true, As: "group:network", At: time.Now(), Expires: time.Now().Add(time.Hour)}
	if _, err := s.store.Apply(t.Context(), given.Record("web", *wait.Content)); err != nil {
		t.Fatal(err)
	}
	live.Wait, live.Approvals = &wait, []state.Given{given}
	task.Run = &live
	s.write("web", task)
	page, _ := s.page("/ui/tasks/web", "2 different people of group:network must approve: 1 of 2 approvals are there.", "Approved by token:ann", "; expires <time")
	if !strings.Contains(page, "Approve this plan") && !strings.Contains(page, "Approve, and") {
		t.Error("nobody can approve")
	}
}
