package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver keeps the events of signed requests.
type receiver struct {
	t   *testing.T
	mu  sync.Mutex
	got []outbox.Event
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	verifier, err := standardwebhooks.NewWebhook(webhookSecret)
	if err == nil {
		err = verifier.Verify(body, req.Header)
	}
	var message struct{ Data outbox.Event }
	if err != nil || json.Unmarshal(body, &message) != nil || message.Data.ID != req.Header.Get("webhook-id") {
		r.t.Errorf("request %s %s: %v", req.Header, body, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, message.Data)
}

// heard returns the kinds of the events of the task, each once.
func (r *receiver) heard(task string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []string
	seen := map[string]bool{}
	for _, e := range r.got {
		if e.Task == task && !seen[e.ID] {
			kinds = append(kinds, string(e.Kind))
		}
		seen[e.ID] = true
	}
	return strings.Join(kinds, " ")
}

func TestStart_EventsReachTheEndpointsThatWork(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	hang := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(hang) })
	got := &receiver{t: t}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close() // dead until later
	notify := s.write("notify.hcl", fmt.Sprintf(`
notify "webhook" {
  url    = "http://%s/events"
  secret = "{{ key \"webhook/secret\" }}"
  tasks  = ["lb"]
  events = ["run_*"]
}
notify "slack" {
  url = "%s/services/T/B/hush"
}
notify "command" {
  command = ["sh", "-c", "cat >> $0", %q]
  events  = ["run_succeeded"]
}
`, address, hanging.URL, s.path("commanded")))
	if _, err := s.consul.Client().KV().Put(&api.KVPair{Key: "webhook/secret", Value: []byte(webhookSecret)}, nil); err != nil {
		t.Fatal(err)
	}
	file := s.config(s.task("lb", onWeb) + s.task("other", onWeb))
	p := s.start("-config-file", file, "-config-file", notify)
	eventually(t, "the command has the events of both tasks", func() bool { return strings.Count(s.read("commanded"), `"run_succeeded","timestamp"`) == 2 })

	listener, err = net.Listen("tcp", address)
	if err != nil {
		t.Skipf("another program has taken the port: %v", err)
	}
	server := &http.Server{Handler: got}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	eventually(t, "the webhook has what happened while it was dead", func() bool { return got.heard("lb") == "run_decided run_succeeded" })
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "and what happens then", func() bool {
		return got.heard("lb") == "run_decided run_succeeded run_decided run_succeeded"
	})
	if other := got.heard("other"); other != "" {
		t.Errorf("the webhook was given %s of a task that it does not want", other)
	}

	r := s.run("notify", "test", "-config-file", file, "-config-file", notify, "webhook", "command")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "webhook", "command", "taken in")
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if log := p.stderr.String(); strings.Contains(log, "hush") || strings.Contains(log, webhookSecret) {
		t.Errorf("a secret is in the log:\n%s", log)
	}
}

func TestNotifyTest_SaysWhatCameOfEachEvent(t *testing.T) {
	s := newSite(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(server.Close)
	file := s.write("notify.hcl", fmt.Sprintf("notify \"slack\" {\n  url = %q\n}\nnotify \"command\" {\n  name = \"audit\"\n  command = [\"true\"]\n}\n", server.URL+"/services/hush"))
	r := s.run("notify", "test", "-config-file", file)
	wantCode(t, r, exitError)
	wantText(t, r.stdout, "slack", "not taken: the endpoint answered 410 Gone; it wants no more events", "audit", "taken in")
	if strings.Contains(r.stdout+r.stderr, "hush") {
		t.Errorf("a secret is shown: %s%s", r.stdout, r.stderr)
	}
	var all []notified
	if decode(t, s.run("notify", "test", "-json", "-config-file", file, "audit"), &all); len(all) != 1 || all[0].Name != "audit" || all[0].Error != "" {
		t.Errorf("it prints %+v", all)
	}
	r = s.run("notify", "test", "-config-file", file, "nobody")
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, `no notify block with the name "nobody"`)
}
