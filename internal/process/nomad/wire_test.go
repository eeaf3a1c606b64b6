package nomad_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/process/nomad"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// standIn is a Nomad at the wire that dispatches one job for each idempotency token, and can fail.
type standIn struct {
	*httptest.Server
	t *testing.T

	mu          sync.Mutex
	jobs        map[string]map[string]any // by their ids
	allocations string                    // of every job, as JSON
	evaluations string
	requests    []*http.Request
	fail        func(w http.ResponseWriter, r *http.Request) bool // before the request is served; true: it was answered
	lose        int                                               // how many answers are lost
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{t: t, jobs: map[string]map[string]any{}, allocations: "[]", evaluations: "[]"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if s.fail != nil && s.fail(w, r) {
		return
	}
	answer := s.answer(r)
	if s.lose > 0 {
		s.lose--
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Nomad-Index", "7")
	io.WriteString(w, answer)
}

func (s *standIn) answer(r *http.Request) string {
	path, query := r.URL.Path, r.URL.Query()
	switch {
	case r.Method == http.MethodPut && path == "/v1/job/runner/dispatch":
		var body struct{ Meta map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			s.t.Error(err)
		}
		id := "runner/dispatch-" + query.Get("idempotency_token")
		if s.jobs[id] == nil {
			s.jobs[id] = map[string]any{"ID": id, "Status": "pending", "Meta": body.Meta, "SubmitTime": len(s.jobs)}
		}
		return fmt.Sprintf(`{"DispatchedJobID": %q}`, id)
	case path == "/v1/jobs" && query.Get("prefix") == "runner/dispatch-" && query.Get("meta") == "true":
		list := []any{}
		for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
			launch := s.jobs[id]["Meta"].(map[string]string)["launch"]
			filter := query.Get("filter")
			if strings.Contains(filter, fmt.Sprintf(`Meta.launch == %q`, launch)) || filter == `Status != "dead"` && s.jobs[id]["Status"] != "dead" {
				list = append(list, s.jobs[id])
			}
		}
		text, _ := json.Marshal(list)
		return string(text)
	case strings.HasSuffix(path, "/allocations"):
		return s.allocations
	case strings.HasSuffix(path, "/evaluations"):
		return s.evaluations
	}
	s.t.Errorf("unexpected request %s %s", r.Method, r.URL)
	return "{}"
}

func (s *standIn) launcher() *nomad.Launcher {
	return launcher(s.t, config.Nomad{Address: s.URL, Job: "runner", Token: "secret", Namespace: "team", Region: "east"})
}

func TestStart_LostAnswerDispatchesNoSecondJob(t *testing.T) {
	s := newStandIn(t)
	s.lose = 1
	l := s.launcher()
	if err := l.Start(t.Context(), state.Launch{ID: "l1"}); !fault.IsTransient(err) || !strings.Contains(err.Error(), "dispatch Nomad job runner: no answer from "+s.URL) {
		t.Fatalf("got %v", err)
	}
	if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
		t.Fatal(err)
	}
	if len(s.jobs) != 1 || s.jobs["runner/dispatch-l1"]["Meta"].(map[string]string)["launch"] != "l1" {
		t.Errorf("jobs: %v", s.jobs)
	}
	for _, r := range s.requests {
		if q := r.URL.Query(); r.Header.Get("X-Nomad-Token") != "secret" || q.Get("namespace") != "team" || q.Get("region") != "east" {
			t.Errorf("request %s with token %q", r.URL, r.Header.Get("X-Nomad-Token"))
		}
	}
}

func TestStart_ErrorsSayWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		status     int
		text, want string
		kind       fault.Kind
	}{
		{403, "Permission denied", "capabilities list-jobs, read-job and dispatch-job", fault.Person},
		{403, "ACL token not found", "set nomad.token, nomad.token_file or NOMAD_TOKEN", fault.Person},
		{403, "job registration, dispatch, and scale are disabled by the scheduler configuration", "allow them there", fault.Person},
		{500, "parameterized job not found", "register the job, as in examples/nomad/runner.nomad.hcl", fault.Person},
		{500, `Specified job "runner" is not a parameterized job`, "add a parameterized block", fault.Person},
		{500, `Specified job "runner" is stopped`, "nomad job run", fault.Person},
		{500, "Dispatch request included unpermitted metadata keys: [launch]", `meta_required = ["launch"]`, fault.Person},
		{500, "Dispatch did not provide required meta keys: [x]", `no other meta than "launch"`, fault.Person},
		{500, "Payload is not provided but required by parameterized job", `remove payload = "required"`, fault.Person},
		{500, "No path to region", "correct nomad.region", fault.Person},
		{404, "", "check the nomad block", fault.Person},
		{429, "too many requests", "the next tick tries again", fault.Transient},
		{500, "No cluster leader", "the next tick tries again", fault.Transient},
		{502, "<html>", "the next tick tries again", fault.Transient},
		{200, "<html>", "is not what Nomad answers", fault.Transient},
		{200, "{}", "names no dispatched job", fault.Transient},
	} {
		t.Run(fmt.Sprint(tt.status, tt.text), func(t *testing.T) {
			s := newStandIn(t)
			s.fail = func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.text)
				return true
			}
			err := s.launcher().Start(t.Context(), state.Launch{ID: "l1"})
			if err == nil || fault.Of(err) != tt.kind || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "dispatch Nomad job runner: ") {
				t.Errorf("got %q error %v", fault.Of(err), err)
			}
			if _, err := s.launcher().Status(t.Context(), []string{"l1"}); err == nil && tt.status != 200 {
				t.Error("the status is reported although it is not known")
			}
		})
	}
}

func TestStart_NothingListens(t *testing.T) {
	l := launcher(t, config.Nomad{Address: "http://127.0.0.1:1", Job: "runner"})
	err := l.Start(t.Context(), state.Launch{ID: "l1"})
	if !fault.IsTransient(err) || !strings.Contains(err.Error(), "check that a Nomad agent runs there") {
		t.Errorf("got %v", err)
	}
}

func TestStart_ReadsTheTokenFileForEachRequest(t *testing.T) {
	s := newStandIn(t)
	file := filepath.Join(t.TempDir(), "token")
	l := launcher(t, config.Nomad{Address: s.URL, Job: "runner", Token: "old", TokenFile: file})
	if err := l.Start(t.Context(), state.Launch{ID: "l1"}); !fault.NeedsPerson(err) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
			t.Fatal(err)
		}
		if got := s.requests[len(s.requests)-1].Header.Get("X-Nomad-Token"); got != token {
			t.Errorf("token %q, want %q", got, token)
		}
	}
}

func TestStart_OverAUnixSocket(t *testing.T) {
	s := newStandIn(t)
	socket := filepath.Join(t.TempDir(), "api.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	if err := launcher(t, config.Nomad{Address: "unix://" + socket, Job: "runner"}).Start(t.Context(), state.Launch{ID: "l1"}); err != nil {
		t.Error(err)
	}
}

func TestStatus_OfAJob(t *testing.T) {
	const (
		ended = `[{"ID": "0123456789", "NodeName": "n1", "ClientStatus": "failed", "ModifyTime": 2, "TaskStates": {"runner": {"Events": [
			{"Type": "Terminated", "Time": 1, "DisplayMessage": "OOM Killed"}, {"Type": "Not Restarting", "Time": 2, "FailsTask": true, "DisplayMessage": "Policy allows no restarts"}]}}}]`
		running      = `[{"ID": "0123456789", "ClientStatus": "running"}]`
		lost         = `[{"ID": "0123456789", "NodeName": "n1", "ClientStatus": "lost"}]`
		lostReplaced = `[{"ID": "0123456789", "ClientStatus": "lost"}, {"ID": "9876543210", "ClientStatus": "running"}]`
		disconnected = `[{"ID": "0123456789", "ClientStatus": "unknown"}]`
		blocked      = `[{"Status": "complete", "CreateIndex": 1, "FailedTGAllocs": {"runner": {"NodesEvaluated": 3,
			"ConstraintFiltered": {"${attr.kernel.name} = linux": 1}, "DimensionExhausted": {"memory": 2}}}}, {"Status": "blocked", "CreateIndex": 2}]`
		noClient = `[{"Status": "blocked", "CreateIndex": 2, "FailedTGAllocs": {"runner": {}}}]`
		id       = "runner/dispatch-l1"
	)
	type status = reconcile.LaunchStatus
	for _, tt := range []struct {
		name        string
		job         map[string]any
		allocations string
		evaluations string
		want        *status // nil if it is unknown
	}{
		{"it runs", map[string]any{"Status": "running", "JobSummary": summary("Running")}, "no request is sent", "", &status{Running: true}},
		{"its evaluation is on its way", map[string]any{"Status": "pending"}, "[]", "[]", &status{Running: true}},
		{"nothing has room for it", map[string]any{"Status": "pending"}, "[]", blocked,
			&status{Running: true, Blocked: `no client of Nomad takes its job runner/dispatch-l1: of 3 clients, "${attr.kernel.name} = linux" excludes 1, 2 lack memory`}},
		{"there is no client", map[string]any{"Status": "pending"}, "[]", noClient,
			&status{Running: true, Blocked: "no client of Nomad takes its job runner/dispatch-l1: no client is ready in its datacenters and node pool"}},
		{"its process was killed", map[string]any{"Status": "dead"}, ended, "",
			&status{Stopped: "its Nomad job runner/dispatch-l1 ended before the run did: allocation 01234567 on client n1 is failed: OOM Killed", Runner: id}},
		{"it was stopped before it began", map[string]any{"Status": "dead", "Stop": true}, "[]", "",
			&status{Stopped: "somebody stopped its Nomad job runner/dispatch-l1; it had no allocation", Runner: id}},
		{"it was stopped and still interrupts Terraform", map[string]any{"Status": "dead", "Stop": true, "JobSummary": summary("Running")}, running, "", &status{Running: true}},
		{"its client is lost", map[string]any{"Status": "dead"}, lost, "",
			&status{Stopped: "Nomad has lost the client n1 with the allocation 01234567 of its job runner/dispatch-l1", Runner: "unseen: " + id}},
		{"its client is lost, and it was replaced", map[string]any{"Status": "running", "JobSummary": summary("Running", "Lost")}, lostReplaced, "", nil},
		{"its client is disconnected", map[string]any{"Status": "running", "JobSummary": summary("Unknown")}, disconnected, "", nil},
		{"it failed and is about to be replaced", map[string]any{"Status": "pending"}, ended, "", nil},
		{"Nomad has removed it", nil, "[]", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStandIn(t)
			s.allocations, s.evaluations = tt.allocations, tt.evaluations
			if tt.job != nil {
				tt.job["ID"], tt.job["Meta"] = id, map[string]string{"launch": "l1"}
				s.jobs[id] = tt.job
			}
			got, err := s.launcher().Status(t.Context(), []string{"l1", "l2"})
			if err != nil {
				t.Fatal(err)
			}
			if found, known := got["l1"]; known != (tt.want != nil) || known && found != *tt.want || len(got) > 1 {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func summary(states ...string) any {
	counts := map[string]int{}
	for _, s := range states {
		counts[s] = 1
	}
	return map[string]any{"Summary": map[string]any{"runner": counts}}
}

func TestStatus_OfALaunchWithTwoJobsIsThatOfTheOneThatRuns(t *testing.T) {
	s := newStandIn(t)
	launch := map[string]string{"launch": "l1"}
	s.jobs["runner/dispatch-a"] = map[string]any{"ID": "runner/dispatch-a", "Status": "dead", "Meta": launch, "SubmitTime": 1}
	s.jobs["runner/dispatch-b"] = map[string]any{"ID": "runner/dispatch-b", "Status": "running", "Meta": launch, "JobSummary": summary("Starting")}
	got, err := s.launcher().Status(t.Context(), []string{"l1"})
	if err != nil || got["l1"] != (reconcile.LaunchStatus{Running: true}) {
		t.Errorf("got %+v, %v", got, err)
	}
	s.jobs["runner/dispatch-b"]["Status"] = "dead"
	got, err = s.launcher().Status(t.Context(), []string{"l1"})
	if err != nil || got["l1"].Runner != "runner/dispatch-a" {
		t.Errorf("got %+v, %v: it is not that of the latest", got, err)
	}
}

func TestStatus_OfManyLaunchesNeedsFewRequests(t *testing.T) {
	s := newStandIn(t)
	var ids []string
	for i := range 100 {
		id := fmt.Sprintf("l%03d", i)
		ids = append(ids, id)
		s.jobs[id] = map[string]any{"ID": id, "Status": "running", "Meta": map[string]string{"launch": id}, "JobSummary": summary("Running")}
	}
	got, err := s.launcher().Status(t.Context(), ids)
	if err != nil || len(got) != 100 || len(s.requests) != 3 {
		t.Errorf("%d launches by %d requests, %v", len(got), len(s.requests), err)
	}
}

func TestAdmits_RefusesPlansWhileThereAreTooManyJobs(t *testing.T) {
	s := newStandIn(t)
	l := launcher(t, config.Nomad{Address: s.URL, Job: "runner", MaxLaunches: 2})
	for n, want := range []error{nil, nil, reconcile.ErrBusy} {
		if _, err := l.Admits(t.Context(), "ann", 1); !errors.Is(err, want) {
			t.Errorf("with %d jobs: %v", n, err)
		}
		id := fmt.Sprint("l", n)
		s.jobs[id] = map[string]any{"ID": id, "Status": "running", "Meta": map[string]string{"launch": id}}
	}
	for _, j := range s.jobs {
		j["Status"] = "dead"
	}
	if launches, err := l.Admits(t.Context(), "ann", 2*reconcile.MaxPlans); err != nil || launches != 2 {
		t.Errorf("after their end, plans may start in %d jobs (%v)", launches, err)
	}
	if _, err := l.Admits(t.Context(), "ann", 3000); !errors.Is(err, reconcile.ErrBusy) || !strings.Contains(err.Error(), "3000 requested, and at most 500") ||
		!strings.Contains(err.Error(), "raise max_launches (2)") {
		t.Errorf("of 3000 plans it says %v", err)
	}
}

func TestReach_SaysWhetherTheJobCanBeDispatched(t *testing.T) {
	s := newStandIn(t)
	for answer, want := range map[string]string{
		`200 {"ParameterizedJob": {}, "Stop": false}`: "has the job runner",
		`200 {"ParameterizedJob": {}, "Stop": true}`:  "it is stopped",
		`200 {"ParameterizedJob": null}`:              "not parameterized",
		`404 job not found`:                           "Nomad answers 404",
	} {
		s.fail = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/job/runner" {
				t.Errorf("%s %s is requested", r.Method, r.URL.Path)
			}
			var status int
			fmt.Sscan(answer[:3], &status)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer[4:])
			return true
		}
		l, err := nomad.New(config.Nomad{Address: s.URL, Job: "runner"}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		found, err := l.Reach(t.Context())
		if err != nil {
			found = err.Error()
		}
		if !strings.Contains(found, want) || (err == nil) != strings.HasPrefix(want, "has") {
			t.Errorf("to %q it says %q", answer, found)
		}
	}
}
