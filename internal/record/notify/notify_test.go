package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/consul/dynamic"
	"github.com/terrapulse/terrapulse/internal/record/notify"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

var failed = outbox.Event{ID: "e1.0", Kind: outbox.RunFailed, Seq: 7, At: noon, Task: "web", Run: "r1", Error: "no route to the firewall"}

// endpoint is a server that keeps requests and answers as the test says.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	got    []*http.Request
	bodies []string
	answer http.HandlerFunc
}

func newEndpoint(t *testing.T, answer http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{answer: answer}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.got, e.bodies = append(e.got, r), append(e.bodies, string(body))
		e.mu.Unlock()
		if e.answer != nil {
			e.answer(w, r)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func load(t *testing.T, file string) *config.Config {
	t.Helper()
	cfg, err := examine(t, file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func examine(t *testing.T, file string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f.hcl"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Options{Paths: []config.Path{{Name: "f.hcl"}}, Dir: dir, Hostname: "host", Getenv: func(string) string { return "" }})
}

// sinkOf returns the sink of the one block of a file, with these environment
// variables for its templates.
func sinkOf(t *testing.T, file string, env map[string]string) *notify.Sink {
	t.Helper()
	cfg := load(t, file)
	values := &dynamic.Evaluator{LookupEnv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	return notify.New(cfg.Notify[0], func(ctx context.Context, key, text string) (string, error) { return values.Text(ctx, cfg, key, text) })
}

func TestWebhook_IsSignedAsStandardWebhooksSay(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s := sinkOf(t, fmt.Sprintf(`notify "webhook" {
  url     = "%s/events?key={{ env \"KEY\" }}"
  secret  = "{{ env \"SECRET\" }}"
  headers = { Authorization = "Bearer {{ env \"TOKEN\" }}" }
}`, e.URL), map[string]string{"KEY": "k1", "SECRET": secret, "TOKEN": "t1"})
	if err := s.Deliver(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	req, body := e.got[0], e.bodies[0]
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify([]byte(body), req.Header); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if err := verifier.Verify([]byte(body+" "), req.Header); err == nil {
		t.Error("the signature is also that of another body")
	}
	if req.Header.Get("webhook-id") != failed.ID || req.Header.Get("Authorization") != "Bearer t1" || req.URL.RequestURI() != "/events?key=k1" || req.Method != http.MethodPost {
		t.Errorf("the request is %s %s %v", req.Method, req.URL, req.Header)
	}
	var got struct {
		Type      string
		Timestamp time.Time
		Data      outbox.Event
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Type != "run_failed" || !got.Timestamp.Equal(noon) || got.Data.Task != "web" || got.Data.ID != failed.ID {
		t.Errorf("the body is %s: %v", body, err)
	}
}

func TestWebhook_AnswersAreTold(t *testing.T) {
	for _, tt := range []struct {
		status int
		header string
		down   bool // all events wait
		person bool
		after  time.Duration
		says   string
	}{
		{200, "", false, false, 0, ""},
		{299, "", false, false, 0, ""},
		{302, "", true, true, 0, "redirects are not followed"},
		{400, "", false, true, 0, "400 Bad Request: what is this"},
		{401, "", true, true, 0, "check the secret"},
		{404, "", true, true, 0, "check the url"},
		{410, "", true, true, 0, "wants no more events"},
		{422, "", false, true, 0, "422"},
		{429, "7", true, false, 7 * time.Second, "429"},
		{500, "", true, false, 0, "500 Internal Server Error: what is this"},
		{503, "120", true, false, 2 * time.Minute, "503"},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(tt.status)
				fmt.Fprint(w, "what is\nthis")
			})
			err := sinkOf(t, `notify "webhook" { url = "`+e.URL+`" }`, nil).Deliver(t.Context(), failed)
			if tt.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			down := new(outbox.DownError)
			if err == nil || !strings.Contains(err.Error(), tt.says) || errors.As(err, &down) != tt.down || fault.NeedsPerson(err) != tt.person || down.After != tt.after {
				t.Errorf("%v; down %v, for %s, needs a person %v", err, tt.down, down.After, fault.NeedsPerson(err))
			}
			if len(e.got) != 1 {
				t.Errorf("%d requests", len(e.got))
			}
		})
	}
}

func TestWebhook_EndpointThatIsDeadOrHangsIsDown(t *testing.T) {
	hang := make(chan struct{})
	hanging := newEndpoint(t, func(http.ResponseWriter, *http.Request) { <-hang })
	defer close(hang)
	dead := newEndpoint(t, nil)
	dead.Close()
	for _, down := range []struct{ url, timeout, says string }{{dead.URL, "1m", "connection refused"}, {hanging.URL, "50ms", "no answer within 50ms"}} {
		s := sinkOf(t, fmt.Sprintf("notify \"webhook\" {\n url = %q\n timeout = %q\n}", down.url, down.timeout), nil)
		if err := s.Deliver(t.Context(), failed); !errors.As(err, new(*outbox.DownError)) || !strings.Contains(err.Error(), down.says) {
			t.Errorf("%s: %v, want %s", down.url, err, down.says)
		}
	}
}

func TestSink_SecretsAreInNoError(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, r.URL.RequestURI(), " ", path.Base(r.URL.Path), " ", r.Header.Get("X-Token"), " ", r.Host, " ", secret, " and more")
	})
	env := map[string]string{"URL": e.URL + "/services/T000/B000/hush?key=hush", "HUSH": "hushhush", "SECRET": secret, "PATH": "services/T1/hush"}
	for _, block := range []string{
		`webhook" {
  url     = "{{ env \"URL\" }}"
  secret  = "{{ env \"SECRET\" }}"
  headers = { X-Token = "Bearer {{ env \"HUSH\" }}" }
}`,
		`slack" { url = "` + e.URL + `/{{ env \"PATH\" }}" }`,
		`slack" { url = "` + e.URL + `/services/T1/hush" }`,
	} {
		err := sinkOf(t, `notify "`+block, env).Deliver(t.Context(), failed)
		if err == nil || strings.Contains(err.Error(), "hush") || strings.HasPrefix(block, "webhook") && strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "and more") {
			t.Errorf("%s: %v", block, err)
		}
	}
	e.Close()
	if err := sinkOf(t, `notify "webhook" { url = "{{ env \"URL\" }}" }`, env).Deliver(t.Context(), failed); err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "http://") {
		t.Error(err)
	}
	if err := sinkOf(t, `notify "webhook" { url = "{{ mustEnv \"NONE\" }}" }`, env).Deliver(t.Context(), failed); err == nil || !strings.Contains(err.Error(), `notify[0].webhook.url: mustEnv "NONE"`) {
		t.Error(err)
	}
}

func TestSink_SecretIsLookedUpAgainAfterAFailure(t *testing.T) {
	accept := "new"
	e := newEndpoint(t, nil)
	e.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != accept {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	env := map[string]string{"TOKEN": "old1"}
	s := sinkOf(t, "notify \"webhook\" {\n url = \""+e.URL+"\"\n headers = { X-Token = \"{{ env \\\"TOKEN\\\" }}\" }\n}", env)
	accept = "old1"
	if err := s.Deliver(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	env["TOKEN"] = "new1"
	if err := s.Deliver(t.Context(), failed); err != nil {
		t.Errorf("a value is looked up for each event: %v", err)
	}
	accept = "new1"
	if err := s.Deliver(t.Context(), failed); err == nil {
		t.Error("the old secret is accepted")
	}
	if err := s.Deliver(t.Context(), failed); err != nil {
		t.Error(err)
	}
}

func TestSlack_MessageSaysWhatAndWhyAndHowToApprove(t *testing.T) {
	e := newEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	s := sinkOf(t, `notify "slack" { url = "`+e.URL+`/services/T/B/x" }`, nil)
	waiting := outbox.Event{ID: "e2.0", Kind: outbox.RunWaiting, At: noon, Task: "web", Reason: state.ReasonChanged, WaitFor: state.WaitApproval,
		Detail: "waits for approval: 3 <b> & <!channel> `go`", Until: noon.Add(time.Hour), Changes: &state.Changes{Add: 1, Change: 2, Destroy: 3}}
	window := waiting
	window.WaitFor = state.WaitWindow
	done := outbox.Event{ID: "e3.0", Kind: outbox.RunSucceeded, At: noon, Task: "web", Reason: state.ReasonChanged, Started: noon.Add(-90 * time.Second), Took: 90, Changes: &state.Changes{Add: 4}}
	gone := &state.EntryChanges{Removed: 1, Entries: []state.EntryChange{{Action: state.EntryRemoved, Name: "web-3.n.dc1", Group: "web", ID: "web-3", Address: "10.0.0.3:8080"}}}
	seen := outbox.Event{ID: "e4.0", Kind: outbox.ChangeSeen, At: noon, Task: "web", Detail: gone.String(), Entries: gone}
	held, cancelled := waiting, outbox.Event{ID: "e5.0", Kind: outbox.RunCancelled, At: noon, Task: "web", Run: "r1", Detail: gone.String(), Entries: gone, Cause: "somebody cancelled it", By: "jo"}
	held.Entries = gone
	for event, want := range map[*outbox.Event]string{
		&seen:      "*web: change seen*\nWhy: web: -web-3 (10.0.0.3:8080)",
		&held:      "*web: run waits*\nWhy: waits for approval: 3 &lt;b&gt; &amp; &lt;!channel&gt; 'go'\nChanged in Consul: web: -web-3 (10.0.0.3:8080)\nResources: 1 to add, 2 to change, 3 to destroy\nUntil: 2026-07-01T13:00:00Z\nTo approve: `terrapulse approve web`",
		&cancelled: "*web: run cancelled*\nWhy: somebody cancelled it\nChanged in Consul: web: -web-3 (10.0.0.3:8080)\nBy: jo",
		&waiting:   "*web: run waits*\nWhy: waits for approval: 3 &lt;b&gt; &amp; &lt;!channel&gt; 'go'\nResources: 1 to add, 2 to change, 3 to destroy\nUntil: 2026-07-01T13:00:00Z\nTo approve: `terrapulse approve web`",
		&window:    "*web: run waits*\nWhy: waits for approval: 3 &lt;b&gt; &amp; &lt;!channel&gt; 'go'\nResources: 1 to add, 2 to change, 3 to destroy\nUntil: 2026-07-01T13:00:00Z",
		&done:      "*web: run succeeded*\nWhy: " + strings.ReplaceAll(string(state.ReasonChanged), "_", " ") + "\nResources: 4 added, 0 changed, 0 destroyed\nDuration: 1m30s",
		&failed:    "*web: run failed*\nError: no route to the firewall",
	} {
		if err := s.Deliver(t.Context(), *event); err != nil {
			t.Fatal(err)
		}
		var got struct{ Text string }
		if err := json.Unmarshal([]byte(e.bodies[len(e.bodies)-1]), &got); err != nil || got.Text != want {
			t.Errorf("the message is\n%s\nwant\n%s", got.Text, want)
		}
	}
}

func TestSink_FiltersByKindAndTask(t *testing.T) {
	s := sinkOf(t, "notify \"webhook\" {\n url = \"http://x\"\n events = [\"run_failed\", \"task_*\"]\n tasks = [\"web\", \"db-*\"]\n}\ntask {\n name = \"web\"\n module = \"./m\"\n}", nil)
	all := sinkOf(t, `notify "webhook" { url = "http://x" }`, nil)
	for _, tt := range []struct {
		event outbox.Event
		want  bool
	}{
		{failed, true},
		{outbox.Event{Kind: outbox.RunSucceeded, Task: "web"}, false},
		{outbox.Event{Kind: outbox.TaskRemoved, Task: "db-1"}, true},
		{outbox.Event{Kind: outbox.RunFailed, Task: "website"}, false},
		{outbox.Event{Kind: outbox.ConsulLost}, false},
	} {
		if s.Wants(tt.event) != tt.want || !all.Wants(tt.event) {
			t.Errorf("%s of %q", tt.event.Kind, tt.event.Task)
		}
	}

	people := sinkOf(t, `notify "slack" { url = "http://x" }`, nil)
	for wait, want := range map[state.WaitFor]bool{state.WaitApproval: true, state.WaitWindow: true, state.WaitRemote: false, state.WaitRemotePlan: false} {
		if e := (outbox.Event{Kind: outbox.RunWaiting, Task: "web", WaitFor: wait}); people.Wants(e) != want || !all.Wants(e) {
			t.Errorf("a run that waits for %s", wait)
		}
	}
}

// messages returns which events of a run that ends the sink is given.
func messages(s *notify.Sink, was state.Task, run state.Run) (all []outbox.Event) {
	next, _ := was.Conclude(run, "d")
	decided := outbox.Event{Kind: outbox.RunDecided, At: noon, Task: run.Task, Run: run.ID}
	for _, e := range append([]outbox.Event{decided}, outbox.OfEnd(was, next, run)...) {
		if s.Wants(e) {
			all = append(all, e)
		}
	}
	return all
}

func TestMessages_FirstStartOfManyTasksIsNone(t *testing.T) {
	const webhook = `notify "webhook" {
  url      = "http://x"
  messages = true
  %s
}`
	people, asking := sinkOf(t, fmt.Sprintf(webhook, ""), nil), sinkOf(t, fmt.Sprintf(webhook, `events = ["run_succeeded"]`), nil)
	bot := sinkOf(t, `notify "slack" {
  token   = "t"
  channel = "C0123456789"
}`, nil)
	for i := range 300 {
		run := state.Run{ID: "r", Task: fmt.Sprintf("web-%d", i), Kind: state.KindApply, State: state.RunSucceeded, Times: state.Times{Ended: noon}}
		if got := messages(people, state.Task{}, run); len(got) > 0 {
			t.Fatalf("the first start of %s: people hear %+v", run.Task, got)
		}
		if got := messages(asking, state.Task{}, run); len(got) != 1 || got[0].Kind != outbox.RunSucceeded {
			t.Fatalf("people who ask for run_succeeded hear %+v", got)
		}
		if got := messages(bot, state.Task{}, run); len(got) != 1 || got[0].Kind != outbox.RunSucceeded {
			t.Fatalf("the bot, which may have a thread to end, is given %+v", got)
		}
	}
}

func TestMessages_FailingCanaryIsOne(t *testing.T) {
	people := sinkOf(t, `notify "slack" { url = "http://x" }`, nil)
	run := state.Run{ID: "r1", Task: "web-muc", Kind: state.KindApply, State: state.RunSucceeded, Times: state.Times{Ended: noon}}
	run.Verification = state.NewVerification([]state.Verified{{Name: "vip", State: state.VerifyFailed, Detail: "connection refused", Holds: true}})
	for _, was := range []state.Task{{}, {Applied: state.Applied{Unverified: &state.Unverified{Names: "vip", State: state.VerifyFailed}}}} { // the second one was released, and fails again
		got := messages(people, was, run)
		if len(got) != 1 || got[0].Kind != outbox.RunUnverified {
			t.Fatalf("people hear %+v", got)
		}
		if lines := strings.Join(notify.Lines(got[0]), "\n"); !strings.Contains(lines, "vip failed: connection refused; the task is on hold until somebody releases it") {
			t.Errorf("the message is\n%s", lines)
		}
	}
}

func TestSpecs_MistakesAreReportedWithTheirPlaces(t *testing.T) {
	_, err := examine(t, `notify "webhook" {
  url     = "events.example.com"
  secret  = "abc"
  headers = { "a b" = "x", Webhook-Id = "y" }
  events  = ["run_failed", "run.*", "run_exploded"]
  timeout = "0s"
}
notify "slack" {
  url  = "https://hooks/{{ now }}"
  name = "log"
}
notify "slack" {}
notify "webhook" {
  url = "{{ with secret \"a\" }}{{ .Data.url }}{{ end }}"
}
notify "command" { command = [] }
notify "email" {}
notify {}
`)
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	for _, want := range []string{
		`f.hcl:2: notify[0].webhook.url: the url is not one with a scheme and a host; such as "https://example.com/events"`,
		`f.hcl:3: notify[0].webhook.secret: the secret is not the base64 of 16 bytes or more`,
		`notify[0].webhook.headers.a b: not the name of a header: "a b"`,
		`notify[0].webhook.headers.Webhook-Id: the header Webhook-Id is set by Terrapulse`,
		`f.hcl:5: notify[0].webhook.events[1]: no kind of event is "run.*"; such as run_cancelled, `,
		`f.hcl:5: notify[0].webhook.events[2]: no kind of event is "run_exploded"`,
		`f.hcl:6: notify[0].webhook.timeout: the timeout must be longer than 0s`,
		`notify[1].slack.url: the template looks nothing up`,
		`f.hcl:10: notify[1].slack.name: not a name for a notify block: "log"`,
		`notify[2].slack.url: the notify block has no url`,
		`notify[3].webhook: another notify block (f.hcl:1) has the name "webhook"`,
		`notify[3].webhook.url: detected dynamic configuration using Vault: missing Vault configuration`,
		`notify[4].command.command: the notify block has no command`,
		`unsupported notify type "email"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no\n%s\nin\n%s", want, got)
		}
	}
}

func TestSet_UnchangedBlockKeepsItsSink(t *testing.T) {
	const one = "notify \"webhook\" { url = \"http://a\" }\n"
	set := &notify.Set{}
	before := set.Sinks(load(t, one+`notify "slack" { url = "http://b" }`).Notify)
	after := set.Sinks(load(t, one+`notify "slack" { url = "http://c" }`).Notify)
	if before[0] != after[0] || before[1] == after[1] {
		t.Errorf("%v and %v", before, after)
	}
	inAWS := &notify.Set{InAWS: true}
	if got := inAWS.Sinks(load(t, one+`notify "command" { command = ["true"] }`).Notify); len(got) != 1 {
		t.Errorf("in AWS: %v", got)
	}
}

func TestSimple_EvaluatesCallsAlone(t *testing.T) {
	evaluate := notify.Simple(func(_ context.Context, function string, arguments []string) (string, error) {
		if arguments[0] == "none" {
			return "", errors.New("there is no none")
		}
		return function + ":" + strings.Join(arguments, ","), nil
	})
	for text, want := range map[string]string{
		"plain":                              "plain",
		`https://x/{{ ssm "a" }}/y`:          "https://x/ssm:a/y",
		"{{- secretsmanager `a:b` \"k\" -}}": "secretsmanager:a:b,k",
		`{{env "A"}}{{ env "B\"" }}`:         `env:Aenv:B"`,
	} {
		if got, err := evaluate(t.Context(), "k", text); err != nil || got != want || notify.CheckSimple(text) != nil {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{`{{ key "a" }}`, `{{ with secret "a" }}{{ .Data.x }}{{ end }}`, `{{ env "A" | toUpper }}`} {
		if _, err := evaluate(t.Context(), "k", text); err == nil || notify.CheckSimple(text) == nil {
			t.Errorf("%s is evaluated", text)
		}
	}
	if _, err := evaluate(t.Context(), "notify[0].slack.url", `{{ env "none" }}`); err == nil || err.Error() != "notify[0].slack.url: there is no none" {
		t.Error(err)
	}
}

func TestConfig_BlocksMeanTheSameInEveryFormat(t *testing.T) {
	var all []string
	for name, text := range map[string]string{
		"f.hcl":  "notify \"slack\" {\n url = \"https://b\"\n}\nnotify \"webhook\" {\n url = \"https://a\"\n headers = { A = \"b\" }\n}\n",
		"f.yaml": "notify:\n  - slack: {url: https://b}\n  - webhook: {url: https://a, headers: {A: b}}\n",
		"f.json": `{"notify": [{"slack": {"url": "https://b"}}, {"webhook": {"url": "https://a", "headers": {"A": "b"}}}]}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: name}}, Dir: dir, Hostname: "host"})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, s := range cfg.Notify {
			said = append(said, fmt.Sprint(s.Name, s.Kind, s.Timeout, s.Values()))
		}
		all = append(all, strings.Join(said, "; "))
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 1 {
		t.Errorf("%q", all)
	}
}
