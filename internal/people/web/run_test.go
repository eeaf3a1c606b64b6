package web_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// liveRun is a run of the task web that is under way, and whose output a test writes.
type liveRun struct {
	*site
	run state.Run
	log *state.LogWriter
}

func (s *site) live() *liveRun {
	s.t.Helper()
	now := time.Now().UTC()
	run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: "web", Launch: "launch", Kind: state.KindApply, State: state.RunRunning,
		Reason: state.Reason{Code: state.ReasonChanged, Text: "service web: +web-1"}, Seen: now.Add(-3 * time.Second), Created: now.Add(-2 * time.Second),
		Times: state.Times{Started: now.Add(-time.Second)}, Claimed: state.Claimed{Expires: now.Add(time.Hour)}}
	s.put(state.RunKey("web", run.ID), run)
	s.write("web", state.Task{Run: &state.LiveRun{ID: run.ID, Launch: run.Launch, Created: run.Created}})
	return &liveRun{s, run, state.NewLogWriter(s.store, "web", run.ID, time.Time{})}
}

func (l *liveRun) page() string { return "/ui/tasks/web/runs/" + l.run.ID }

// prints adds to the output.
func (l *liveRun) prints(text string) {
	l.t.Helper()
	if err := l.log.Append(l.t.Context(), []byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

// ends ends the run.
func (l *liveRun) ends(how state.RunState, wrong string) {
	l.t.Helper()
	if err := l.log.Close(l.t.Context(), nil); err != nil {
		l.t.Fatal(err)
	}
	run := l.run
	run.State, run.Error, run.Ended, run.Logs = how, wrong, time.Now().UTC(), l.log.Len()
	l.put(state.RunKey("web", run.ID), run)
	task, _ := state.Task{}.Conclude(run, "definition")
	l.write("web", task)
}

// part returns a part of the output as the page asks for it, and the address of the next
// one.
func (s *site) part(path string) (text, next string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("HX-Request", "true")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	var page strings.Builder
	if err := res.Write(&page); err != nil {
		s.t.Fatal(err)
	}
	for _, pre := range regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindAllStringSubmatch(page.String(), -1) {
		text += html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(pre[1], ""))
	}
	if found := regexp.MustCompile(`hx-get="([^"]*)"`).FindStringSubmatch(page.String()); found != nil {
		next = html.UnescapeString(found[1])
	}
	return text, next
}

func TestOutput_PartsContinueEachOther(t *testing.T) {
	s := newSite(t, "web")
	run := s.live()
	text := strings.Repeat("line été €10 𝄞 <b>&amp;\n", 20000) + strings.Repeat("x", 300<<10) + "\nthe end"
	run.prints(text)
	run.ends(state.RunSucceeded, "")
	var got strings.Builder
	parts := 0
	for next := run.page() + "/output"; next != ""; parts++ {
		var part string
		if part, next = s.part(next); part == "" {
			t.Fatalf("part %d is empty, and the next one is %q", parts, next)
		}
		got.WriteString(part)
	}
	if got.String() != text || parts < 3 {
		t.Errorf("%d parts have %d bytes: want %d in at least 3", parts, got.Len(), len(text))
	}
	whole, header := s.page(run.page() + "/output.txt")
	if whole != text || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") || !strings.HasPrefix(header.Get("Content-Disposition"), "attachment; filename=web-") {
		t.Errorf("the download has %d bytes, want %d: %v", len(whole), len(text), header)
	}
	s.page(run.page()+"?offset=20", "From the beginning")
	if raw, header := s.page(run.page() + "/output.json?offset=5"); header.Get("Content-Type") != "application/json" || !strings.Contains(raw, `"offset": 5`) {
		t.Errorf("%v: %.200s", header, raw)
	}
}

func TestRun_OutputIsShownWhileTheRunGoesOn(t *testing.T) {
	s := newSite(t, "web")
	run := s.live()
	run.prints("Terraform will perform the following actions\n\x1b[32m  + create")
	b := browsertest.New(t)
	b.Open(s.url + run.page())
	b.Until("live", "Terraform will perform", "Terraform runs")
	browsertest.Eval[chromedp.Void](b, "window.kept = true")

	// The page stays at the end of the output, until the viewer scrolls away from it.
	run.prints(" local_file.out\x1b[0m\n" + strings.Repeat("Still creating...\n", 200) + "the latest line\n")
	b.Until("+ create local_file.out", "the latest line")
	const atEnd = "(l => l.scrollHeight - l.scrollTop - l.clientHeight < 5)(document.querySelector('.output'))"
	b.Holds(atEnd)
	browsertest.Eval[chromedp.Void](b, "document.querySelector('.output').scrollTop = 10")
	run.prints("while the viewer reads\n")
	b.Until("while the viewer reads")
	if at := browsertest.Eval[float64](b, "document.querySelector('.output').scrollTop"); at != 10 {
		t.Errorf("the output moved to %v while the viewer read it", at)
	}
	b.Click("Jump to the end")
	b.Holds(atEnd)
	run.prints(strings.Repeat("more\n", 50) + "after the jump\n")
	b.Until("after the jump")
	b.Holds(atEnd)

	// The end comes to the open page.
	run.prints("│ Error: no route to host\n")
	run.ends(state.RunFailed, "terraform apply: no route to host\n\n  on main.tf line 3")
	b.Until("failed", "terraform apply: no route to host", "on main.tf line 3", "Error: no route to host")
	if strings.Contains(b.Text("main"), "live") {
		t.Error("the output of an ended run is live")
	}
	if !browsertest.Eval[bool](b, "window.kept === true") {
		t.Error("the page was loaded again")
	}
	b.Holds("document.getElementById('news') === null") // nothing will change
	if n := strings.Count(b.Text(".output"), "after the jump"); n != 1 {
		t.Errorf("a line is shown %d times", n)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.Prefers(scheme)
		b.Accessible()
	}
	b.Quiet()
}

func TestRun_LongOutputStaysUsable(t *testing.T) {
	s := newSite(t, "web")
	run := s.live()
	for n := range 100 {
		run.prints(strings.Repeat("module.web.local_file.out[\""+string(rune('a'+n%26))+"\"]: \x1b[1mCreation complete\x1b[0m after 0s [id=adc83b19e793491b1c6ea0fd8b46cd9f32e592fc]\n", 1000))
	}
	run.prints("the last line of all\n")
	run.ends(state.RunSucceeded, "")
	b := browsertest.New(t)
	b.Open(s.url + run.page())
	b.Holds("document.querySelector('.output').textContent.includes('the last line of all')")
	b.Click("Jump to the end")
	b.Holds(`(() => { // the last line is in the window
		const walk = document.createTreeWalker(document.querySelector('.output'), NodeFilter.SHOW_TEXT);
		let last; while (walk.nextNode()) if (walk.currentNode.data.trim()) last = walk.currentNode;
		const range = document.createRange(); range.selectNodeContents(last);
		const box = [...range.getClientRects()].at(-1); return box.bottom > 0 && box.bottom < innerHeight; })()`)
	b.Quiet()
}

func TestRun_WithoutScriptsItsOutputIsInParts(t *testing.T) {
	s := newSite(t, "web")
	run := s.live()
	run.prints("the first line\n" + strings.Repeat("0123456789\n", 30000) + "the last line\n")
	run.ends(state.RunSucceeded, "")
	page, _ := s.page(run.page())
	if !strings.Contains(page, "the first line") || strings.Contains(page, "the last line") {
		t.Fatal("the page does not begin with the first part")
	}
	found := regexp.MustCompile(`<noscript><a href="([^"]*)">What follows`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page does not lead to the next part")
	}
	if next, _ := s.page(html.UnescapeString(found[1])); !strings.Contains(next, "the last line") || strings.Contains(next, "What follows") {
		t.Error("the last part is not the last")
	}
}

func TestRun_ShowsEveryStepAndWhatChanged(t *testing.T) {
	s := newSite(t, "web")
	run := s.live()
	from := run.run.Created.Add(-time.Hour)
	at := func(seconds int) time.Time { return from.Add(time.Duration(seconds) * time.Second) }
	r := run.run
	r.Seen, r.Created, r.Launched, r.Started, r.Planned, r.Ended, r.State = at(0), at(2), at(32), at(33), at(40), at(4000), state.RunSucceeded
	r.Approval = &state.Approval{Given: state.Given{By: "alice", At: at(3700), Comment: "rack 7 is gone"}}
	r.Entries = &state.EntryChanges{Removed: 40, Added: 1, Entries: []state.EntryChange{{Action: state.EntryRemoved, Name: "web-01", Group: "web"}}}
	r.Resumed = &state.Resume{By: "alice", At: at(3703)}
	s.put(state.RunKey("web", r.ID), r)
	raw, _ := s.page(run.page() + ".json")
	var page struct {
		Timeline []struct{ Name, By, Gap string }
	}
	if err := json.Unmarshal([]byte(raw), &page); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range page.Timeline {
		got = append(got, strings.Trim(m.Name+" "+m.By+" "+m.Gap, " "))
	}
	want := []string{"Change seen", "Decided  2.0 s later", "Launched  30.0 s later", "Started  1.0 s later", "Planned  7.0 s later",
		"Approved alice 1 h 1 min later", "Launched again  3.0 s later", "Applied  4 min 57 s later"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s.page(run.page(), "rack 7 is gone", "40 removed, 1 added", "web-01", "and 40 more")
}

// A plan run has one step for its plan, and its page shows the end a second later.
func TestRun_PlanRunIsPlannedOnce(t *testing.T) {
	for _, ended := range []bool{false, true} {
		s := newSite(t, "web")
		run := s.live()
		r := run.run
		if r.Kind, r.Planned = state.KindPlan, r.Created.Add(time.Second); ended {
			r.State, r.Ended = state.RunSucceeded, r.Planned.Add(time.Millisecond)
		}
		s.put(state.RunKey("web", r.ID), r)
		shown, _ := s.page(run.page())
		if n := strings.Count(shown, "<b>Planned</b>"); n != 1 {
			t.Errorf("ended is %v: it is planned %d times", ended, n)
		}
		if reads := strings.Contains(shown, `"every 1s"`); reads == ended {
			t.Errorf("ended is %v: that the page is read each second is %v", ended, reads)
		}
	}
}
