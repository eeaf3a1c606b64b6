package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/terrapulse/terrapulse/internal/browsertest"
)

// writeSlowModule adds to the module of the task lb a resource that prints a line every
// tenth of a second, until the file "go" exists.
func (s *site) writeSlowModule() {
	s.t.Helper()
	s.write("mod/slow.tf", fmt.Sprintf(`
resource "terraform_data" "drain" {
  triggers_replace = keys(var.services)
  provisioner "local-exec" {
    command = "n=0; until [ -e %s ]; do n=$((n+1)); echo \"still draining, step $n\"; sleep 0.1; done"
  }
}
`, s.path("go")))
}

// stays marks the page, and returns whether it is still the same one: that it was not
// loaded again.
func stays(b *browsertest.Browser) (same func() bool) {
	browsertest.Eval[bool](b, "window.stays = true")
	return func() bool { return browsertest.Eval[bool](b, "window.stays === true") }
}

// green reports whether the title of the page has a sign of success with a text.
func green(text string) string {
	return fmt.Sprintf("!!document.querySelector('h1 .good')?.textContent.includes(%q)", text)
}

// applied reports whether the list of tasks shows that a task is applied. The word alone is also in
// "the task has never been applied".
func applied(task string) string {
	return fmt.Sprintf("document.querySelector('#task-%s .chip')?.textContent === 'applied'", task)
}

// What a person sees who sits in front of the pages while two thirds of a service vanish.
func TestPages_StoryOfAHold(t *testing.T) {
	s := newParallelSite(t)
	s.writeSlowModule()
	s.write("go", "")
	s.instances(1, 60, true)
	p := s.start("-config-file", s.config(s.task("lb", onWeb)))
	b := browsertest.New(t)
	b.Open(p.served() + "/ui/")
	b.Holds(applied("lb"))
	if s.applied() != 60 {
		t.Fatalf("%d instances are applied", s.applied())
	}

	// The hold appears on the open page, before everything else.
	same := stays(b)
	s.remove("go")
	s.instances(1, 40, false)
	b.Until("Needs attention", "waiting", "40 of 60")
	if text := b.Text("main"); !same() || strings.Index(text, "Needs attention") > strings.Index(text, "All tasks") {
		t.Errorf("the page was loaded again, or does not begin with what needs attention:\n%s", text)
	}

	// The plan is read: what happens, and which entries in Consul cause it.
	b.Click("lb")
	b.Comes("/ui/tasks/lb")
	b.Until("waiting", "40 of 60", "Changed in Consul", "40 removed", "The plan that waits", "2 to replace", "local_file.out", "because of", "web-01", "60 were applied, 20 are there now")
	b.Accessible()

	// It is approved with a comment. Nothing was applied before.
	if s.applied() != 60 {
		t.Errorf("%d instances are applied before the approval", s.applied())
	}
	b.Click("Approve")
	b.Fill("Comment", "rack 7 is decommissioned"+kb.Enter)
	b.Comes("done=approve")
	b.Until("approved", "running")

	// It is applied while the page shows it.
	run := s.overview().Run.ID
	b.Click(run[len(run)-8:])
	b.Comes("/runs/" + run)
	b.Until("running", "live", "Approved", "still draining, step")
	same = stays(b)
	b.Until("still draining, step 20")
	s.write("go", "")
	b.Until("Apply complete!", "Applied", "2 added, 0 changed, 2 destroyed")
	b.Holds(green("succeeded"))
	b.Until("rack 7 is decommissioned")
	b.Accessible()
	if !same() {
		t.Error("the page of the run was loaded again")
	}
	b.Open(p.served() + "/ui/tasks/lb")
	b.Holds(green("applied"))
	b.Open(p.served() + "/ui/tasks")
	b.Holds(applied("lb"))
	if text := b.Text("main"); strings.Contains(text, "Needs attention") {
		t.Errorf("something needs attention:\n%s", text)
	}
	b.Quiet()
	if s.applied() != 20 {
		t.Errorf("%d instances are applied", s.applied())
	}
}
