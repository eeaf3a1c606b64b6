package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// asking is a site that starts a what-if with one plan, and notes for which tasks.
func asking(t *testing.T) (s *site, run *state.Run, tasks *atomic.Pointer[[]string]) {
	tasks = new(atomic.Pointer[[]string])
	run = &state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: "web", Kind: state.KindPlan, State: state.RunRunning, Created: time.Now().UTC()}
	s = newSiteOf(t, tasksOnWeb("web", "dns"), func(o *api.Options) {
		o.Control.WhatIf = func(ctx context.Context, w condition.WhatIf, names []string, by string) (state.Question, error) {
			if w.String() == "without service none" {
				return state.Question{}, errors.New("consul.example:8500: connection refused")
			}
			tasks.Store(&names)
			q := state.Question{ID: uuid.Must(uuid.NewV7()).String(), Supposed: w.String(), By: by, Created: run.Created, Tasks: 2, NotConcerned: 1,
				Runs: []state.Answering{{Task: "web", Run: run.ID}}}
			_, err := o.Control.Store.Apply(ctx, state.Create(state.QuestionKey(q.ID), state.Encode(q)))
			return q, err
		}
	})
	s.put(state.RunKey("web", run.ID), *run)
	return s, run, tasks
}

func TestWhatIf_ThePageShowsVerdictsWhenPlansAreThere(t *testing.T) {
	s, run, tasks := asking(t)
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks/web")
	b.Until("What if this goes?")
	b.Fill("Name;", "n7")
	b.Click("Plan it, apply nothing")
	b.Comes("what-if/")
	b.Until("What if, without node n7", "2 tasks: 1 being planned, 1 not concerned", "1 plan is being made")
	if got := *tasks.Load(); len(got) != 1 || got[0] != "web" {
		t.Errorf("planned are %v, want the task alone", got)
	}
	run.State, run.Ended = state.RunSucceeded, time.Now().UTC()
	run.Changes = &state.Changes{Add: 1, Destroy: 3, Resources: []state.Resource{{Address: "module.web.a", Action: "create"}, {Address: "module.web.b", Action: "replace"}}}
	run.WhatIf = &state.WhatIf{Supposed: "without node n7", Verdict: &state.Verdict{Outcome: state.WouldHold, Text: "would be held: 12 of 20 service instances are gone"}}
	s.put(state.RunKey("web", run.ID), *run)
	b.Until("2 tasks: 1 would be held, 1 not concerned", "12 of 20", "+1 ~0 -3", "replaces module.web.b", "and 2 more")
	b.Quiet()
	b.Click(run.ID[len(run.ID)-8:])
	b.Comes("runs/" + run.ID)
}

func TestWhatIf_LostPlansAreAskedForAgain(t *testing.T) {
	s, run, tasks := asking(t)
	run.Expires = time.Now().Add(-time.Hour)
	s.put(state.RunKey("web", run.ID), *run)
	q := state.Question{ID: "q1", Supposed: "without node n7", By: "ann", Created: run.Created.Add(-2 * time.Hour), Tasks: 1,
		Runs: []state.Answering{{Task: "web", Run: run.ID}}}.Asked([]byte(`{"without":[{"node":"n7"}]}`), []string{"web"})
	s.put(state.QuestionKey(q.ID), q)
	b := browsertest.New(t)
	b.Open(s.url + "/ui/what-if/q1")
	b.Until("1 task: 1 lost", "its process has ended, or cannot write to the store. Ask again")
	b.Quiet()
	b.Click("Ask again, apply nothing")
	b.Until("What if, without node n7", "2 tasks:")
	if got := tasks.Load(); got == nil || len(*got) != 1 || (*got)[0] != "web" {
		t.Errorf("planned are %v, want the task alone", got)
	}
	if status, page := s.post("/ui/what-if", url.Values{"again": {"{"}}); status != http.StatusBadRequest || !strings.Contains(page, "say what is gone") {
		t.Errorf("%d %s", status, page)
	}
}

func TestWhatIf_TheFormIsRefusedWithWords(t *testing.T) {
	s, _, _ := asking(t)
	for _, c := range []struct {
		gone, name, task string
		status           int
		words            string
	}{
		{"node", " ", "web", http.StatusBadRequest, "say what is gone"},
		{"rack", "r1", "web", http.StatusBadRequest, "say what is gone"},
		{"node", "n7", "nobody", http.StatusNotFound, "nobody"},
		{"service", "none", "", http.StatusInternalServerError, "connection refused"},
	} {
		status, page := s.post("/ui/what-if", url.Values{"gone": {c.gone}, "name": {c.name}, "task": {c.task}})
		if status != c.status || !strings.Contains(page, c.words) {
			t.Errorf("%+v: %d %s", c, status, page)
		}
	}
}

func TestWhatIf_OnlyThoseWhoOperateAllTasksAsk(t *testing.T) {
	s, _, tasks := asking(t)
	for _, c := range []struct {
		rights roles.Rights
		may    bool
	}{
		{roles.Viewing(), false},
		{roles.Given(map[roles.Role][]string{roles.Operate: {"web"}}), false},
		{roles.Given(map[roles.Role][]string{roles.Operate: {"*"}}), true},
	} {
		ann := access.Caller{Identity: identity.OfToken("ann"), Rights: c.rights}
		if _, page := s.as(ann, http.MethodGet, "/ui/tasks/web", nil); strings.Contains(page, "What if this goes?") != c.may {
			t.Errorf("%s: the page has the form: %t", c.rights, !c.may)
		}
		tasks.Store(nil)
		status, page := s.as(ann, http.MethodPost, "/ui/what-if", url.Values{"gone": {"node"}, "name": {"n7"}})
		if started := tasks.Load() != nil; started != c.may || (status == http.StatusSeeOther) != c.may || !c.may && (status != http.StatusForbidden || !strings.Contains(page, "operate")) {
			t.Errorf("%s: started %t, %d %s", c.rights, started, status, page)
		}
	}
	page, _ := s.page("/ui/audit?action=what_if", "what_if", "token:ann", "pages", "without node n7")
	if n := strings.Count(page, `<tr id="entry-`); n != 1 {
		t.Errorf("one question leaves %d entries", n)
	}
}

func TestWhatIf_ManyTasksHaveSeveralPages(t *testing.T) {
	s := newSite(t, "web")
	q := state.Question{ID: "q1", Supposed: "without node n7", Created: time.Now(), Tasks: 120}
	for i := range q.Tasks {
		q.Unreadable = append(q.Unreadable, state.UnreadTask{Task: fmt.Sprintf("task-%03d", i), Error: "403"})
	}
	s.put(state.QuestionKey(q.ID), q)
	for path, want := range map[string]struct {
		rows int
		says []string
	}{
		"/ui/what-if/q1":         {50, []string{"120 tasks: 120 cannot be planned", "task-049", `href="/ui/what-if/q1?page=2"`, "1–50 of 120"}},
		"/ui/what-if/q1?page=3":  {20, []string{"task-100", "task-119", `href="/ui/what-if/q1?page=2"`, "101–120 of 120"}},
		"/ui/what-if/q1?page=99": {20, []string{"task-119"}},
	} {
		text, err := s.load(path)
		if err != nil || strings.Count(text, `<th scope="row">`) != want.rows {
			t.Errorf("%s shows %d tasks: %v", path, strings.Count(text, `<th scope="row">`), err)
		}
		s.has(path, text, want.says...)
	}
}
