package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
)

func TestKeys_MoveThroughTheListOfTasks(t *testing.T) {
	n := newNetwork(t)
	b := browsertest.New(t)
	open := func() {
		b.Open(n.url + "/ui/tasks?sort=name")
		b.Until("edge-firewall", "All tasks")
		b.Holds("!document.getElementById('keys-button').hidden")
	}
	focus := func(when, want string) {
		t.Helper()
		if got := b.Focused(); got != want {
			t.Errorf("%s, the focus is on %q, want %q", when, got, want)
		}
	}
	holds := func(script string) { t.Helper(); b.Holds(script) }
	open()
	b.Press("jj")
	focus("after j and j", "dns-internal")
	b.Press(kb.ArrowDown)
	focus("after an arrow", "edge-firewall")
	b.Press("kkkkk")
	focus("at the first task", "cdn-origins")
	b.Press("j" + kb.Enter)
	b.Until("connection refused", "Definition in force")

	open()
	b.Press("/")
	b.Press("jk?") // the driver of the browser also types the /, which a browser does not
	holds("document.getElementById('search').value.endsWith('jk?') && !document.getElementById('keys').open")
	open()
	b.Press("?")
	holds("document.getElementById('keys').open")
	b.Accessible()
	b.Prefers("dark")
	b.Accessible()
	b.Press("j")
	holds("document.getElementById('keys').contains(document.activeElement)")
	b.Press(" ") // on the check box, which has the focus
	b.Click("Close")
	open()
	b.Press("j?/")
	holds("!document.getElementById('keys').open && document.activeElement === document.body")
	b.Click("Keyboard")
	holds("document.getElementById('keys').open")
	b.Press(" ") // on the check box, which has the focus
	b.Press(kb.Escape)
	b.Press("j")
	holds("document.activeElement.textContent === 'cdn-origins'")
	if complaints := b.Complaints(); len(complaints) > 0 {
		t.Errorf("the browser complains: %q", complaints)
	}
}

func TestKeys_ChooseSeveralPlansAndApproveThem(t *testing.T) {
	s := newSites(t) // fw-1, fw-2 and fw-3 wait
	b := browsertest.New(t)
	b.Open(s.url + "/ui/tasks?sort=name")
	b.Until("fw-3", "Review and approve several")
	b.Holds("!document.getElementById('keys-button').hidden")
	b.Press("jx") // dns, which does not wait
	b.Press("jx") // fw-1
	b.Press("jx") // fw-2
	b.Press("jxx")
	b.Holds("[...document.querySelectorAll('[name=task]')].map((c) => c.checked).join() === 'true,true,false'")
	b.Accessible()
	plan, text := poolPlan()
	s.write("fw-3", s.waits("fw-3", plan, text)) // the list refreshes itself
	b.Until("fw-3")
	time.Sleep(3 * time.Second)
	b.Holds("[...document.querySelectorAll('[name=task]')].map((c) => c.checked).join() === 'true,true,false'")
	b.Press("a")
	if got := b.Focused(); got != "Review and approve several" {
		t.Fatalf("a leads to %q", got)
	}
	b.Press(kb.Enter)
	b.Until("of the tasks that you have chosen", "fw-1", "fw-2")
	if text := b.Text("main"); strings.Contains(text, "fw-3") {
		t.Errorf("a task that was not chosen is shown: %s", text)
	}
	b.Holds("!document.getElementById('keys-button').hidden")
	b.Press("jjx") // not fw-2
	b.Press("a")
	b.Press(kb.Enter)
	b.Until("You have approved the plans")
	if got := strings.Join(s.approved(), " "); got != "fw-1" {
		t.Errorf("approved are %q", got)
	}
}
