package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/browsertest"
)

// addresses are those that ui has printed.
func (p *process) addresses(n int) []string {
	p.t.Helper()
	var found []string
	eventually(p.t, "ui prints its address", func() bool {
		found = regexp.MustCompile(`http://127\.0\.0\.1:\d+/ui/session\S+`).FindAllString(p.stdout.String(), -1)
		return len(found) >= n
	})
	return found
}

func TestUI_AddressWorksOnceAndLeavesNothingInTheBrowser(t *testing.T) {
	s := newParallelSite(t)
	p := s.start("-config-file", s.config(s.task("lb", "enabled = false")))
	ui := s.start("ui", "-http-addr", p.served())
	first := ui.addresses(1)[0]

	mine, other := browsertest.New(t), browsertest.New(t)
	mine.Open(first)
	mine.Until("All tasks", "lb")
	if got := browsertest.Eval[string](mine, "location.href + ' ' + document.referrer + ' ' + document.cookie"); strings.Contains(got, "code") || strings.Contains(got, "terrapulse-") {
		t.Errorf("the browser keeps %s", got)
	}
	mine.Open(first)
	mine.Until("All tasks") // it has a session

	other.Open(first)
	other.Until("This address was used before", "terrapulse ui")
	if text := other.Text("body"); strings.Contains(text, "lb") || strings.Contains(text, "Token") {
		t.Errorf("another user of the machine sees %s", text)
	}
	for _, path := range []string{"/ui/tasks", "/ui/tasks.json", "/ui/events", "/ui/news", "/v1/tasks", "/"} {
		res, err := http.Get(first[:strings.Index(first, "/ui/")] + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if to := res.Request.URL.Path; res.StatusCode == http.StatusOK && to != "/ui/sign-in" {
			t.Errorf("another user of the machine gets %s: %s", to, res.Status)
		}
	}
	other.Open(ui.addresses(2)[1])
	other.Until("All tasks", "lb")
	mine.Quiet()
	if code := ui.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}
