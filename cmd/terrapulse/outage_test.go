package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// channel is a channel of Slack.
type channel struct {
	mu  sync.Mutex
	got []string
}

func (c *channel) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var message struct{ Text string }
	_ = json.Unmarshal(body, &message)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, message.Text)
}

// about returns the messages with a text.
func (c *channel) about(text string) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, message := range c.got {
		if strings.Contains(message, text) {
			all = append(all, message)
		}
	}
	return all
}

// TestStart_OutageOfConsulAndAFailingTaskAreFewMessages runs 15 tasks, of which one fails, with a
// Consul that dies and comes back.
func TestStart_OutageOfConsulAndAFailingTaskAreFewMessages(t *testing.T) {
	s := newParallelSite(t, consultest.WithData())
	s.register("web", "web-1", 8080, "passing")
	people := new(channel)
	slack := httptest.NewServer(people)
	t.Cleanup(slack.Close)
	var tasks string
	for i := range 15 {
		tasks += s.task(fmt.Sprintf("lb-%02d", i), onWeb)
	}
	s.write("lb-07.txt/in-the-way", "") // a folder where the file should be
	p := s.start("-config-file", s.config(tasks), "-config-file", s.write("notify.hcl", fmt.Sprintf("notify \"slack\" {\n  url = %q\n}\n", slack.URL+"/services/T/B/x")))
	eventually(t, "all tasks are applied, and people know of the failing one", func() bool {
		return s.read("lb-14.txt") != "" && len(people.about("*lb-07: run failed*")) > 0
	})
	eventually(t, "it has failed three times", func() bool { return strings.Contains(s.runInTest("status", "-json").stdout, `"failures": 3`) })
	if err := os.RemoveAll(s.path("lb-07.txt")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has recovered", func() bool { return len(people.about("*lb-07: the task has recovered")) > 0 })

	s.consul.Stop()
	eventually(t, "people know of the outage", func() bool { return len(people.about("*cannot watch Consul*")) > 0 })
	time.Sleep(3 * time.Second)
	s.consul.Restart()
	eventually(t, "people know that it is over", func() bool { return len(people.about("*Consul can be watched again*")) > 0 })
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "a change after the outage is applied", func() bool { return strings.Contains(s.read("lb-14.txt"), "8081") })
	if strings.Contains(p.stderr.String(), saysReplaced) {
		t.Errorf("a Consul that has its data is taken for another:\n%s", p.stderr)
	}
	time.Sleep(6 * time.Second) // as long as messages are gathered

	for text, want := range map[string]int{"cannot watch Consul": 1, "Tasks concerned: 15": 2, "Consul can be watched again": 1, "cannot be read": 0, "can be read again": 0,
		"lb-07: run failed": 1, "run succeeded*": 0, "lb-07: the task has recovered": 1, "change seen": 0, "run decided": 0} {
		if got := people.about(text); len(got) != want {
			t.Errorf("%d messages say %q, not %d: %q", len(got), text, want, got)
		}
	}
	people.mu.Lock()
	defer people.mu.Unlock()
	if len(people.got) > 6 {
		t.Errorf("%d messages: %q", len(people.got), people.got)
	}
}
