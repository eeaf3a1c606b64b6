package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// holds has runs go on until the channel that it returns is closed.
func (e *engine) holds() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = make(chan struct{})
	return e.hold
}

// holdRun has a change start a run of web that goes on like that.
func (e *engine) holdRun(t *testing.T) chan struct{} {
	t.Helper()
	hold := e.holds()
	e.change("B")
	eventually(t, "web is applied", func() bool { return e.applies("web") })
	return hold
}

func TestRunTask_RunAfterTheCurrentOneIsListed(t *testing.T) {
	e := start(t, files)
	hold := e.holdRun(t)
	asked := e.ask("POST", "/v1/tasks/web/run", "")
	status(t, asked, http.StatusAccepted)
	where := asked.header.Get("Location")
	same(t, e.get(where), `{"request_id":"*","runs":[]}`) // the one under way is another
	close(hold)
	eventually(t, "it has run", func() bool { return strings.Contains(e.get(where).body, `"succeeded"`) })
}

// lines are what several goroutines have logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A run that fails is a matter of its module: it is the runner's to log, and no
// fault of the API.
func TestLog_NamesTheRunOfARequest(t *testing.T) {
	e := newEngine(t, files)
	var log lines
	e.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	e.serve()
	e.options.Log = slog.New(slog.DiscardHandler) // the engine's
	e.work()
	e.settled("web")
	e.fail("api", errors.New("the module is broken"))
	for path, want := range map[string]int{"/v1/tasks": 500, "/v1/tasks?run=now": 500, "/v1/tasks?run=inspect": 400} {
		got := e.ask("POST", path, newTask)
		status(t, got, want)
		var runs apispec.RunsResponse
		decode(t, e.get("/v1/tasks/api/runs?limit=1"), &runs)
		id, _ := got.json(t)["request_id"].(string)
		said := "level=WARN msg=\"the run that was asked for through the API has failed\" request_id=" + id + " task=api run=" + runs.Runs[0].ID
		if !strings.Contains(log.String(), said) || strings.Contains(log.String(), "ERROR") {
			t.Errorf("%s: the log lacks %q:\n%s", path, said, log.String())
		}
	}
}

func TestRunTask_DeletedTaskEndsTheWait(t *testing.T) {
	e := newEngine(t, files) // nobody leads
	var log lines
	e.options.Log = slog.New(slog.NewTextHandler(&log, nil))
	e.serve()
	made := make(chan answer, 1)
	go func() { made <- e.ask("POST", "/v1/tasks?run=now", newTask) }()
	eventually(t, "the change is provisional", func() bool { return e.get("/v1/tasks/api").status == http.StatusOK })
	status(t, e.ask("DELETE", "/v1/tasks/api", ""), http.StatusAccepted)
	got := <-made
	if m := got.message(t); got.status != http.StatusInternalServerError || !strings.Contains(m, "the run is given up: task api was disabled or deleted") {
		t.Errorf("%d %s", got.status, m)
	}
	if strings.Contains(log.String(), "ERROR") { // it is nobody's fault
		t.Error(log.String())
	}
}

func TestGetRuns_HaveLogAndPlan(t *testing.T) {
	e := start(t, files)
	asked := e.ask("POST", "/v1/tasks/web/run", "")
	status(t, asked, http.StatusAccepted)
	where := asked.header.Get("Location")
	if where == "" || where != asked.json(t)["runs_url"] {
		t.Fatalf("it is found at %q: %s", where, asked.body)
	}
	var runs apispec.RunsResponse
	eventually(t, "the run has ended", func() bool {
		decode(t, e.get(where), &runs)
		return len(runs.Runs) == 1 && runs.Runs[0].Ended != nil
	})
	run := runs.Runs[0]
	if run.State != apispec.RunStateSucceeded || run.Reason.Code != state.ReasonForced || !strings.Contains(run.Reason.Text, "API client 127.0.0.1") || run.Changes.Add != 1 {
		t.Errorf("%+v", run)
	}
	if log := e.get(*run.LogURL); log.body != "Apply complete! for web\n" || !strings.HasPrefix(log.header.Get("Content-Type"), "text/plain") {
		t.Errorf("log: %+v", log)
	}
	if run.PlanURL != nil {
		t.Error("it has a plan")
	}
	status(t, e.get("/v1/tasks/web/runs/"+run.ID+"/plan"), http.StatusNotFound)
	same(t, e.get("/v1/tasks/web/runs/"+run.ID), `{"request_id":"*","run":`+marshal(t, run)+`}`)

	e.ask("PATCH", "/v1/tasks/web?run=inspect", `{"enabled":true}`)
	decode(t, e.get("/v1/tasks/web/runs?limit=1"), &runs)
	inspection := runs.Runs[0]
	if len(runs.Runs) != 1 || inspection.Kind != apispec.RunKindPlan || inspection.PlanURL == nil {
		t.Fatalf("%+v", runs.Runs)
	}
	if plan := e.get(*inspection.PlanURL); !strings.HasPrefix(plan.body, "Plan: 1 to add") {
		t.Errorf("plan: %+v", plan)
	}
	same(t, e.get(*inspection.PlanDataURL), `{"request_id":"*","plan":{"resources":`+marshal(t, somePlan)+`}}`)
	status(t, e.get("/v1/tasks/web/runs/"+run.ID+"/plan-data"), http.StatusNotFound)
	decode(t, e.get("/v1/runs"), &runs)
	if len(runs.Runs) != 2 || runs.Runs[0].ID != run.ID {
		t.Errorf("all runs: %+v", runs.Runs)
	}
}

func TestReconcile_RequestsATick(t *testing.T) {
	e := start(t, files)
	before, err := state.Read[state.Reconcile](t.Context(), e.store, state.ReconcileKey)
	if err != nil {
		t.Fatal(err)
	}
	status(t, e.ask("POST", "/v1/reconcile", ""), http.StatusAccepted)
	eventually(t, "a tick was done", func() bool {
		after, err := state.Read[state.Reconcile](t.Context(), e.store, state.ReconcileKey)
		if err != nil {
			t.Fatal(err)
		}
		return after.Data.LastSuccess.After(before.Data.LastSuccess)
	})
}

func TestCreateTask_DisconnectedClientLeavesNothingIncomplete(t *testing.T) {
	e := start(t, files)
	hold := e.holds()
	e.fail("api", errors.New("the module is broken"))
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", e.server.URL+"/v1/tasks?run=now", strings.NewReader(newTask))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	gone := make(chan error, 1)
	go func() { _, err := http.DefaultClient.Do(req); gone <- err }()
	eventually(t, "it runs", func() bool { return strings.Contains(e.get("/v1/tasks/api/runs").body, `"running"`) })
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(hold)
	eventually(t, "the task is gone", func() bool { return e.get("/v1/tasks/api").status == http.StatusNotFound })

	conn, err := net.Dial("tcp", strings.TrimPrefix(e.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + newTask)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	status(t, e.get("/v1/tasks/api"), http.StatusNotFound)
}

func TestRunTask_TimeoutSaysThatTheRunGoesOn(t *testing.T) {
	e := newEngine(t, files) // nobody leads
	late := api.New(e.options)
	var end context.CancelFunc // of the request that is answered
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		end = cancel
		late.ServeHTTP(w, r.WithContext(ctx))
	}))
	defer e.server.Close()
	e.Wake = func(context.Context) { end() } // when the task is written
	got := e.ask("POST", "/v1/tasks?run=now", newTask)
	if m := got.message(t); got.status != http.StatusGatewayTimeout || !strings.Contains(m, "goes on: /v1/tasks/api/runs") || got.header.Get("Location") != "/v1/tasks/api/runs" {
		t.Errorf("%d %s %v", got.status, m, got.header)
	}

	// A plan that was begun is shown, too.
	plan := e.Plan
	const id = "01a2b3c4-0000-7000-8000-000000000001"
	e.Plan = func(context.Context, string, json.RawMessage) (state.PlannedRun, error) {
		end()
		return state.PlannedRun{ID: id, Task: "other"}, nil
	}
	got = e.ask("POST", "/v1/tasks?run=inspect", strings.Replace(newTask, `"api"`, `"other"`, 1))
	if got.status != http.StatusGatewayTimeout || got.header.Get("Location") != "/v1/tasks/other/runs/"+id {
		t.Errorf("%d %s %v", got.status, got.body, got.header)
	}
	e.Plan = plan

	// What nobody goes on with is not said to go on.
	base := e.Base
	e.Base = func(context.Context) (*config.Config, error) { end(); return nil, context.DeadlineExceeded }
	for method, path := range map[string]string{"GET": "/v1/tasks", "DELETE": "/v1/tasks/web"} {
		got = e.ask(method, path, "")
		if m := got.message(t); got.status != http.StatusInternalServerError || strings.Contains(m, "goes on") {
			t.Errorf("%s %s: %d %s", method, path, got.status, m)
		}
	}
	notMade := func(path string) {
		t.Helper()
		got := e.ask("POST", path, strings.Replace(newTask, `"api"`, `"other"`, 1))
		if m := got.message(t); got.status != http.StatusGatewayTimeout || !strings.HasPrefix(m, "the task is not made") || strings.Contains(m, "goes on") {
			t.Errorf("%s: %d %s", path, got.status, m)
		}
	}
	notMade("/v1/tasks")
	notMade("/v1/tasks?run=now")
	e.Base = base
	e.Plan = func(context.Context, string, json.RawMessage) (state.PlannedRun, error) {
		end()
		return state.PlannedRun{}, context.DeadlineExceeded
	}
	notMade("/v1/tasks")
}

func TestCancel_RunEndsAndTheTaskWaitsUntilARunIsRequested(t *testing.T) {
	e := start(t, files)
	hold := e.holdRun(t)
	cancelled := e.ask("POST", "/v1/tasks/web/cancel", "")
	status(t, cancelled, http.StatusAccepted)
	where := cancelled.header.Get("Location")
	eventually(t, "the run ends", func() bool { return strings.Contains(e.get(where).body, `"state":"cancelled"`) })
	if said := e.get(where).body; !strings.Contains(said, "cancelled by") {
		t.Errorf("the run reads %s", said)
	}
	eventually(t, "the task waits", func() bool { return strings.Contains(e.get("/v1/tasks/web/overview").body, `"code":"cancelled"`) })
	if status := e.get("/v1/status/tasks/web").body; !strings.Contains(status, "errored") {
		t.Errorf("the status reads %s", status)
	}
	close(hold)
	before := e.runs("web")
	status(t, e.ask("POST", "/v1/tasks/web/run?wait=true", ""), http.StatusOK)
	if e.runs("web") != before+1 {
		t.Errorf("applied %d times, then %d times", before, e.runs("web"))
	}
}
