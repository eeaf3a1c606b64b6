package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// can returns what people can do with a task, as its page says.
func (s *site) can(name string) []string {
	s.t.Helper()
	text, _ := s.page("/ui/tasks/" + name + ".json")
	var page struct {
		Actions []struct{ Name, Consequence string }
	}
	if err := json.Unmarshal([]byte(text), &page); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	var names []string
	for _, a := range page.Actions {
		if a.Consequence == "" {
			s.t.Errorf("%s: the page does not say what %s does", name, a.Name)
		}
		names = append(names, a.Name)
	}
	return names
}

// task returns the record of a task.
func (s *site) task(name string) state.Task {
	s.t.Helper()
	task, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return task.Data
}

// post does what a form of a page does, and returns the page that says how it went.
func (s *site) post(path string, form url.Values) (status int, page string) {
	s.t.Helper()
	res, err := http.PostForm(s.url+path, form)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func TestTaskPage_OffersWhatTheAPIDoesNow(t *testing.T) {
	s := newSite(t, "fresh", "applied", "failing", "held", "waiting", "running", "disabled")
	plan, text := poolPlan()
	s.write("applied", s.history("applied"))
	s.write("failing", s.ran("failing", state.RunFailed, "no route"))
	held := s.history("held")
	held.OnHold = &state.OnHold{By: "ada", At: time.Now()}
	s.write("held", held)
	s.write("waiting", s.waits("waiting", plan, text))
	run := state.Run{ID: "r1", Task: "running", Kind: state.KindApply, State: state.RunRunning, Created: time.Now(), Claimed: state.Claimed{Expires: time.Now().Add(time.Hour)}}
	s.put(state.RunKey("running", "r1"), run)
	s.write("running", state.Task{Run: &state.LiveRun{ID: "r1", Created: run.Created}})
	for name, want := range map[string]string{
		"fresh":   "run hold plan disable",
		"applied": "run hold plan disable",
		"failing": "run hold plan disable",
		"held":    "release plan disable",
		"waiting": "approve reject hold cancel plan disable",
		"running": "hold cancel plan",
	} {
		if got := strings.Join(s.can(name), " "); got != want {
			t.Errorf("with the task %s people can %s, want %s", name, got, want)
		}
		for _, action := range s.can(name) {
			if action == "approve" || action == "reject" {
				continue // tested with its plan
			}
			if status, page := s.post("/ui/tasks/"+name+"/"+action, nil); status != http.StatusOK {
				t.Errorf("%s of the task %s, which its page offers, is refused: %s", action, name, page)
			}
			break // the first one may end the others
		}
	}
	if got := strings.Join(s.can("running"), " "); got != "release cancel plan" {
		t.Errorf("with a task that was put on hold while its run works people can %s", got)
	}
	if status, _ := s.post("/ui/tasks/disabled/disable", nil); status != http.StatusOK {
		t.Fatal("a task cannot be disabled")
	}
	if got := s.can("disabled"); !slices.Equal(got, []string{"plan", "enable"}) {
		t.Errorf("with a disabled task people can %s", got)
	}
	if status, page := s.post("/ui/tasks/disabled/enable", url.Values{"run": {"yes"}}); status != http.StatusOK || s.task("disabled").Forced.By == "" {
		t.Errorf("it does not run at once when it is enabled so: %d %s", status, page)
	}
}

func TestTaskPage_RefusesAPlanThatHasChangedMeanwhile(t *testing.T) {
	s := newSite(t, "web")
	plan, text := poolPlan()
	s.write("web", s.waits("web", plan, text))
	old := s.task("web").Run.Wait.ID
	s.write("web", s.waits("web", plan, text))
	for _, action := range []string{"approve", "reject"} {
		status, page := s.post("/ui/tasks/web/"+action, url.Values{"plan": {old}, "comment": {"no"}})
		if status != http.StatusConflict || !strings.Contains(page, "another plan of task") || !strings.Contains(page, `href="/ui/tasks/web"`) {
			t.Errorf("%s of the plan that does not wait any more: %d %s", action, status, page)
		}
	}
	if status, page := s.post("/ui/tasks/web/reject", url.Values{"plan": {s.task("web").Run.Wait.ID}}); status != http.StatusBadRequest || !strings.Contains(page, "say why") {
		t.Errorf("a rejection without a comment, which the command refuses: %d %s", status, page)
	}
	task := s.task("web")
	if task.Run == nil || task.Run.Resume != nil {
		t.Fatalf("the other plan was decided on: %+v", task.Run)
	}
	if status, page := s.post("/ui/tasks/web/approve", url.Values{"plan": {task.Run.Wait.ID}, "comment": {"as discussed"}}); status != http.StatusOK || !strings.Contains(page, "Approved by") || !strings.Contains(page, "as discussed") {
		t.Errorf("an approval of the plan that waits: %d %s", status, page)
	}
	if got := s.can("web"); slices.Contains(got, "approve") || slices.Contains(got, "reject") {
		t.Errorf("it can still be decided on: %s", got)
	}
}

func TestTaskPage_SaysWhatWasDoneOfTwoThings(t *testing.T) {
	s := handled(t, io.Discard, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"error": {"message": "the task is on hold"}}`)
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
	status, page := s.post("/ui/tasks/web/enable", url.Values{"run": {"yes"}})
	if want := "the task is enabled, but its run was refused: the task is on hold"; status != http.StatusConflict || !strings.Contains(page, want) {
		t.Errorf("%d: the page lacks %q:\n%s", status, want, page)
	}
}

func TestTaskPage_SendsAFormOnce(t *testing.T) {
	s := newSite(t, "web")
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks/web")
	b.Until("Hold")
	const twice = `(() => {
		const form = document.querySelector('.act form'), send = () => form.dispatchEvent(new Event('submit', { bubbles: true, cancelable: true }));
		return send() + ' ' + send();
	})()`
	if got := browsertest.Eval[string](b, twice); got != "true false" {
		t.Errorf("two clicks send the form: %s", got)
	}
}

func TestTaskPage_CancelsTheRunThatItShows(t *testing.T) {
	s := newSite(t, "web")
	live := s.live()
	cancel := func(form url.Values) int {
		status, _ := s.post("/ui/tasks/web/cancel", form)
		return status
	}
	if page, _ := s.page("/ui/tasks/web"); !strings.Contains(page, `name="run" value="`+live.run.ID+`"><input type="hidden" name="state" value="running"`) {
		t.Errorf("the button does not say which run it cancels:\n%s", page)
	}
	for _, c := range []struct {
		run, state string
		want       int
	}{{"", "", http.StatusBadRequest}, {"none", "running", http.StatusNotFound}, {live.run.ID, "waiting", http.StatusConflict}, {live.run.ID, "running", http.StatusOK}} {
		if got := cancel(url.Values{"run": {c.run}, "state": {c.state}}); got != c.want {
			t.Errorf("run %q, shown as %q: %d, want %d", c.run, c.state, got, c.want)
		}
		run, err := state.Read[state.Run](t.Context(), s.store, state.RunKey("web", live.run.ID))
		if err != nil || (run.Data.Cancel != "") != (c.want == http.StatusOK) {
			t.Errorf("run %q, shown as %q: it is cancelled by %q, %v", c.run, c.state, run.Data.Cancel, err)
		}
	}
}

func TestTaskPage_ShowsThePlanAndItsTextOfAnySize(t *testing.T) {
	s := newSite(t, "web", "large")
	plan, text := poolPlan()
	s.write("web", s.waits("web", plan, text+"\n<script>alert(1)</script>"))
	for range 300 {
		plan.Resources = append(plan.Resources, driver.ResourceChange{Address: "f5_node.n", Type: "f5_node", Action: driver.Delete})
	}
	s.write("large", s.waits("large", plan, strings.Repeat(text, 20)))
	page, _ := s.page("/ui/tasks/web")
	at := 0
	for _, want := range []string{"Destroy <span", `<span class="cause removed"><b>−</b> web-3</span>`, "its key is not in for_each any more", "Replace <span", `<span class="cause changed"><b>~</b> web-1</span>`, "cannot be changed in place", "forces the replacement", "sensitive, not shown", "Change <span", "Create <span", `<span class="cause added"><b>&#43;</b> web-12</span>`, "known after the apply", "Others <span",
		`<span class="removed">  - resource`, `<span class="removed">-/+ resource`, "&lt;script&gt;alert", "/ui/tasks/web/plan.txt"} {
		next := strings.Index(page[at:], want)
		if next < 0 {
			t.Errorf("the page lacks %q after %q", want, page[max(0, at-80):at])
			continue
		}
		at += next
	}
	whole, header := s.page("/ui/tasks/web/plan.txt")
	if whole != text+"\n<script>alert(1)</script>" || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("as text it is %v\n%s", header, whole)
	}
	if page, _ = s.page("/ui/tasks/large"); !strings.Contains(page, "<b>306</b> to destroy") || !strings.Contains(page, "and 106 more") || strings.Contains(page, "in-place") || !strings.Contains(page, "/ui/tasks/large/plan.txt") {
		t.Errorf("a large plan makes a page of %d bytes", len(page))
	}
}

func TestTaskPage_StaysAsTheReaderLeftItWhileItRefreshes(t *testing.T) {
	s := newSite(t, "web")
	plan, text := poolPlan()
	task := s.waits("web", plan, text)
	s.write("web", task)
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks/web")
	b.Until("The plan that waits for approval", "web-3.node-3.dc1", "10.0.0.21:8080 was 10.0.0.1:8080")
	b.Click("Approve")
	b.Fill("Comment", "seen with Ben")
	browsertest.Eval[chromedp.Void](b, "document.querySelectorAll('.resources details')[7].open = true; document.querySelector('.group').open = false")
	task.Failing.Count = 3 // the page shows it
	s.write("web", task)
	b.Until("3 in a row", "Terraform will destroy 6 resources, replace 5, change 24 and create 4.", "forces the replacement")
	const shown = `[document.querySelectorAll('.resources details')[7].open, !document.querySelector('.group').open, document.activeElement.name === 'comment', document.activeElement.value].join()`
	if got := browsertest.Eval[string](b, shown); got != "true,true,true,seen with Ben" {
		t.Errorf("after the page has refreshed itself: %s", got)
	}
	// Another plan must not be approved with what was written for this one.
	s.write("web", s.waits("web", plan, text))
	b.Until(s.task("web").Run.Wait.ID)
	if got := browsertest.Eval[int](b, "document.querySelectorAll('.act[open]').length + document.querySelectorAll('.resources details[open]').length"); got != 0 {
		t.Error("what was open for the other plan is open for this one")
	}
	b.Accessible()
	b.Quiet()
}

func TestTaskPage_ActsInTwoStepsWithoutScripts(t *testing.T) {
	s := newSite(t, "web")
	plan, text := poolPlan()
	s.write("web", s.waits("web", plan, text))
	b := browsertest.New(t)
	b.WithoutScripts()
	b.Open(s.url + "/ui/tasks/web")
	b.Click("Approve")
	b.Fill("Comment", "seen with Ben")
	b.Click("Approve, and destroy 6 resources and replace 5")
	b.Until("You have approved the plan", "Approved by", "seen with Ben")
	if a := s.task("web").Run.Resume; a == nil || a.Approval == nil || a.Approval.Comment != "seen with Ben" {
		t.Errorf("the plan is not approved: %+v", a)
	}
	b.Click("Hold")
	b.Fill("Comment", "maintenance")
	b.Click("Put on hold")
	b.Until("maintenance")
	b.Click("Release")
	b.Click("Release the task")
	b.Until("You have released the task")
	b.Quiet()
}

func TestPages_PauseAndResumeInTwoStepsWithoutScripts(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.ran("web", state.RunSucceeded, "api came"))
	b := browsertest.New(t)
	b.WithoutScripts()
	b.Open(s.url + "/ui/health")
	b.Click("Pause")
	b.Fill("Comment", "maintenance of the switches")
	b.Click("Pause all tasks")
	b.Until("You have paused all tasks", "maintenance of the switches", "Nothing is applied until somebody resumes")
	b.Open(s.url + "/ui/tasks/web")
	b.Until("maintenance of the switches")
	b.Open(s.url + "/ui/tasks")
	b.Click("Resume")
	b.Click("Resume all tasks")
	b.Until("You have resumed all tasks")
	if text := b.Text("main"); strings.Contains(text, "maintenance") {
		t.Errorf("resumed, the page still shows the pause:\n%s", text)
	}
	b.Quiet()
}

func TestTaskPage_ShowsTheRulesInForce(t *testing.T) {
	s := newSiteOf(t, `task {
  name     = "web"
  module   = "./m"
  approval = "always"
  condition "services" { names = ["web"] }
  guard { max_destroy = 5 }
  window {
    kind      = "deny"
    schedule  = "* * * * *"
    duration  = "2m"
    time_zone = "UTC"
  }
}
`)
	plan, text := poolPlan()
	s.write("web", s.waits("web", plan, text))
	s.page("/ui/tasks/web", "every plan needs an approval", `<span class="chip ask">closed</span>`, `<span class="chip calm">now</span>`, "11", `<span class="chip ask">exceeded</span>`, "Watches</dt><dd>service web", "the task is not checked for drift")
}

// ended has a run of the task end, so many minutes ago.
func (s *site) ended(name string, task state.Task, ago time.Duration, outcome state.RunState, how state.VerifyState, reason string) (state.Task, string) {
	s.t.Helper()
	at := time.Now().UTC().Add(-ago)
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: name, Kind: state.KindApply, State: outcome, Work: state.Work{Digest: "A", Changes: &state.Changes{Change: 3}},
		Created: at, Times: state.Times{Started: at, Ended: at}, Reason: state.Reason{Code: state.ReasonChanged, Text: reason}}
	if outcome == state.RunSucceeded {
		run.Verification = state.NewVerification([]state.Verified{{Name: "vip", State: how, Detail: "connection refused"}})
	} else {
		run.Error = "no route to the firewall"
	}
	s.put(state.RunKey(name, run.ID), run)
	next, _ := task.Conclude(run, "definition")
	return next, run.ID
}

func TestTaskPage_ShowsWhatChangedSinceTheLastVerifiedApply(t *testing.T) {
	s := newSite(t, "web", "new")
	var task state.Task
	ids := map[string]string{}
	for i, of := range []struct {
		run     string
		outcome state.RunState
		how     state.VerifyState
	}{
		{"verified", state.RunSucceeded, state.VerifyPassed}, {"first", state.RunSucceeded, state.VerifyFailed},
		{"broken", state.RunFailed, ""}, {"second", state.RunSucceeded, state.VerifyFailed}, {"stopped", state.RunSuperseded, ""},
	} {
		task, ids[of.run] = s.ended("web", task, time.Duration(60-10*i)*time.Minute, of.outcome, of.how, of.run+" change")
	}
	s.write("web", task)
	never, _ := s.ended("new", state.Task{}, time.Minute, state.RunSucceeded, state.VerifyFailed, "it is new")
	s.write("new", never)

	b := browsertest.New(t)
	reaches(t, b, s.url+"/ui/tasks/web", "Applied, and not verified", "vip failed", "What changed since the last verified apply", "The latest verified run ended")
	section := b.Text("section[aria-labelledby=unverified]")
	for run, listed := range map[string]bool{"verified": false, "first": true, "broken": true, "second": true, "stopped": false} {
		if strings.Contains(section, run+" change") != listed {
			t.Errorf("the %s run is listed: %v; the page says\n%s", run, !listed, section)
		}
	}
	page, _ := s.page("/ui/tasks/web")
	_, page, _ = strings.Cut(page, `id="unverified"`)
	page, _, _ = strings.Cut(page, "</section>")
	if link := `href="/ui/tasks/web/runs/` + ids["first"]; !strings.Contains(page, link) || strings.Contains(page, ids["verified"]) {
		t.Errorf("the list has no %s, or links to the verified run:\n%s", link, page)
	}
	reaches(t, b, s.url+"/ui/tasks/new", "No run was verified before", "it is new")
}

// 60 were applied within the window of the guard or before it, 35 last, and 25 are there.
func TestTaskPage_SaysWhatTheGuardComparesWith(t *testing.T) {
	const exceeded = `<span class="chip ask">exceeded</span>`
	s := newSite(t, "web", "calm")
	for name, ago := range map[string]time.Duration{"web": time.Minute, "calm": time.Hour} {
		task := s.history(name)
		task.Applied.Counts = []state.Count{{Of: "service instances", Triggers: true, Applied: 35, Now: 25, Peaks: state.Peaks{{Count: 60, Until: time.Now().UTC().Add(-ago)}}}}
		s.write(name, task)
	}
	s.page("/ui/tasks/web", "at most 50 % of the service instances, which is 30, may go within 15m", "60 were applied within the last 15m, 35 were applied last, 25 are there now", exceeded)
	if page, _ := s.page("/ui/tasks/calm", "which is 17, may go within 15m: 35 were applied, 25 are there now"); strings.Contains(page, exceeded) {
		t.Error("after the window, the page compares with what was applied in it")
	}
}

func TestTaskPage_SaysWhyTheViewerCannotAct(t *testing.T) {
	s := newSite(t, "web")
	s.write("web", s.history("web"))
	_, page := s.as(access.Caller{Rights: roles.Viewing()}, http.MethodGet, "/ui/tasks/web", nil)
	s.has("the page", page, "You may only read here", `href="/ui/sign-in?next=%2fui%2ftasks%2fweb"`)
	if strings.Contains(page, `<form method="post"`) {
		t.Error("the page has buttons that are refused")
	}
}

func TestTaskPage_ShowsTasksThatAreRemovedOrCannotBeRead(t *testing.T) {
	s := newSite(t, "web", "corrupt")
	s.write("gone", s.history("gone"))
	if _, err := s.store.Apply(t.Context(), state.Create(state.TaskKey("corrupt"), []byte("{"))); err != nil {
		t.Fatal(err)
	}
	for name, words := range map[string]string{"gone": "In no configuration", "corrupt": "corrupt"} {
		page, _ := s.page("/ui/tasks/" + name)
		if !strings.Contains(page, "<h1>"+name) || !strings.Contains(page, words) || strings.Contains(page, `action="/ui/tasks/gone`) {
			t.Errorf("the page of the task %s:\n%s", name, page[strings.Index(page, "<main"):])
		}
	}
}

func TestTaskPage_ShowsDriftAndItsChecks(t *testing.T) {
	s := newSite(t, "drifted", "held", "new")
	drifted := s.history("drifted")
	drifted.Drift = &state.Drift{Checked: time.Now().Add(-time.Hour), Found: &state.Drifted{Since: time.Now().Add(-50 * time.Hour), Run: "none", Count: 3, Persists: true, Resources: []state.DriftedResource{
		{Address: "f5_pool.http", Action: "update", Attributes: []string{"mode", "monitors"}}, {Address: "f5_node.a", Action: "create"}, {Address: "f5_node.b", Action: "delete"}}}}
	s.write("drifted", drifted)
	held := s.history("held")
	held.OnHold = &state.OnHold{By: "ada", At: time.Now()}
	s.write("held", held)
	s.page("/ui/tasks/drifted", "3 resources differ from what was applied", "an apply has not ended it", `f5_pool.http</code> <span class="muted">mode, monitors<`, `f5_node.a</code> <span class="muted">is missing<`, `f5_node.b</code> <span class="muted">would be destroyed<`, "<dt>Last check</dt>", "<dt>Next</dt><dd>on change")
	s.page("/ui/tasks/new", "it was never applied")
	if page, _ := s.page("/ui/tasks/held"); strings.Contains(page, "<dt>Next</dt>") {
		t.Error("the page says when a task runs next that is on hold")
	}
}
