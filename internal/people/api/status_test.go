package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestStatus_FollowsTheNewestFiveRuns(t *testing.T) {
	e := start(t, files)
	for i, tt := range []struct {
		fails bool
		want  string
		n     int
	}{{true, "errored", 2}, {true, "critical", 3}, {false, "successful", 4}, {true, "critical", 5}, {false, "successful", 5}, {false, "successful", 5}, {false, "successful", 5}} {
		e.fail("web", nil)
		if tt.fails {
			e.fail("web", errors.New("the module is broken"))
		}
		status(t, e.ask("POST", "/v1/tasks/web/run?wait=true", ""), http.StatusOK)
		var got map[string]apispec.TaskStatus
		decode(t, e.get("/v1/status/tasks/web?include=events"), &got)
		web := got["web"]
		if string(web.Status) != tt.want && !(tt.fails && e.runs("web") > i+2) { // a retry may have come in between
			t.Errorf("after run %d: %s, want %s", i, web.Status, tt.want)
		}
		if events := *web.Events; tt.fails {
			if events[0].Success || events[0].Error == nil || events[0].Error.Message != "the module is broken" {
				t.Errorf("the latest event is %+v", events[0])
			}
			if filtered := e.get("/v1/status/tasks?status=successful").json(t); len(filtered) != 0 {
				t.Errorf("successful: %v", filtered)
			}
		} else if !events[0].Success || len(events) > 5 {
			t.Errorf("events: %+v", events)
		}
	}
}

func TestOverview_SaysWhyATaskWaitsAndWhereItIsDefined(t *testing.T) {
	e := start(t, files)
	status(t, e.ask("POST", "/v1/tasks", newTask), http.StatusCreated)
	status(t, e.ask("PATCH", "/v1/tasks/web", `{"enabled":false}`), http.StatusOK)
	var all apispec.Overview
	eventually(t, "both changes are seen", func() bool {
		decode(t, e.get("/v1/overview"), &all)
		return len(all.Tasks) == 3 && all.Tasks[0].Reason.Code == state.ReasonDisabled && all.Tasks[2].Reason.Code == state.ReasonHeld
	})
	if !all.Healthy || all.Leader == nil || all.Leader.Fence != 1 || *all.Version != "0.0.0-test" || *all.Store != (apispec.Store{Kind: "sqlite", Where: "records.db"}) {
		t.Errorf("%+v", all)
	}
	web, made := all.Tasks[0], all.Tasks[2]
	if web.Origin.API || web.Origin.File == nil || filepath.Base(*web.Origin.File) != "tasks.hcl" || *web.Origin.Line != 5 || web.Override == nil || web.Override.Change != "disabled" ||
		*web.Override.By != "API client 127.0.0.1" || web.LastRun == nil || web.LastRun.State != apispec.RunStateSucceeded {
		t.Errorf("%+v", web)
	}
	if !made.Origin.API || made.Override.Change != "made" || made.LastRun != nil {
		t.Errorf("%+v", made)
	}
	var one apispec.TaskOverviewResponse
	decode(t, e.get("/v1/tasks/api/overview"), &one)
	if diff := cmp.Diff(made, one.Task); diff != "" {
		t.Errorf("the overview of one task (-of all +of one):\n%s", diff)
	}
}

func TestHealth_ShowsTheReasonOnlyToReaders(t *testing.T) {
	now := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	e := newEngine(t, files)
	e.Now = func() time.Time { return now }
	e.options.Began = now.Add(-time.Minute)
	rec := state.Reconcile{LastSuccess: now, Unreadable: &state.Unreadable{Count: 1, Tasks: []string{"web"}, Since: now.Add(-time.Hour)}}
	e.put(t, state.ReconcileKey, rec)
	same(t, e.serve().get("/v1/health"), `{"unreadable_tasks":["web"],"unreadable_count":1}`)
	anybody := httptest.NewRecorder()
	api.New(e.options).ServeHTTP(anybody, httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{}), "GET", api.HealthPath, nil))
	if anybody.Code != 200 || anybody.Body.String() != "{}\n" {
		t.Errorf("without a token: %d %s", anybody.Code, anybody.Body)
	}
	e = newEngine(t, files).serve()
	outage := state.Reconcile{Sight: state.Sight{ConsulError: "connection refused", ConsulUnreachable: true, Since: now.Add(-100 * 365 * 24 * time.Hour)}}
	e.put(t, state.ReconcileKey, outage)
	if got := e.get("/v1/health"); got.status != 503 || !strings.HasPrefix(got.message(t), "Consul cannot be watched since") {
		t.Errorf("during an outage: %d %s", got.status, got.body)
	}
	e.store.Close()
	unknown := httptest.NewRecorder()
	api.New(e.options).ServeHTTP(unknown, httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{}), "GET", api.HealthPath, nil))
	if body := unknown.Body.String(); unknown.Code != 503 || !strings.Contains(body, "a request with a token shows why") || strings.Contains(body, "store") {
		t.Errorf("without a token: %d %s", unknown.Code, body)
	}
	if got := e.get("/v1/health"); got.status != 503 || !strings.HasPrefix(got.message(t), "the store cannot be read") {
		t.Errorf("without a store: %d %s", got.status, got.body)
	}
}

type cluster struct{ apispec.ClusterStatus }

func (c cluster) Status(context.Context) (apispec.ClusterStatus, error) { return c.ClusterStatus, nil }

func TestClusterStatus_ListsMembers(t *testing.T) {
	e := newEngine(t, files)
	at := "10.0.0.1"
	e.options.Cluster = cluster{apispec.ClusterStatus{ClusterName: "c", Members: []apispec.ClusterMember{
		{ID: "a", Address: &at, Leader: true, Healthy: true, ServiceName: "cts"}, {ID: "b", ServiceName: "cts"}}}}
	same(t, e.serve().get("/v1/status/cluster"), `{"cluster_name":"c","members":[
		{"id":"a","address":"10.0.0.1","leader":true,"healthy":true,"service_name":"cts"},
		{"id":"b","leader":false,"healthy":false,"service_name":"cts"}],"request_id":"*"}`)
}

// slow is a store that reads the tasks' records when it is let.
type slow struct {
	state.Store
	reading chan struct{}
	let     chan struct{}
}

func (s *slow) List(ctx context.Context, prefix string) ([]state.Record, error) {
	records, err := s.Store.List(ctx, prefix)
	if prefix == state.TaskPrefix {
		s.reading <- struct{}{}
		<-s.let
	}
	return records, err
}

func TestStatus_ConcurrentReadersSeeTheLatestChange(t *testing.T) {
	e := newEngine(t, files)
	store := &slow{Store: e.store, reading: make(chan struct{}), let: make(chan struct{})}
	e.Store = store
	e.serve()
	answers := make(chan string, 20)
	ask := func() { answers <- e.get("/v1/status/tasks?status=errored").body }
	go ask()
	<-store.reading // before the change
	e.ends(t, "web", state.RunFailed)
	for range 19 {
		go ask()
	}
	time.Sleep(100 * time.Millisecond) // so that most of them wait together
	go func() {
		for {
			select {
			case store.let <- struct{}{}:
			case <-store.reading:
			case <-t.Context().Done():
				return
			}
		}
	}()
	old := 0
	for range 20 {
		if !strings.Contains(<-answers, "web") {
			old++
		}
	}
	if old != 1 {
		t.Errorf("%d of 20 answers are from before the change", old)
	}
}

func TestStatus_InterruptedRunIsNotAnEventOfCTS(t *testing.T) {
	e := newEngine(t, files).serve()
	e.ends(t, "web", state.RunFailed)
	e.ends(t, "web", state.RunInterrupted)
	var got map[string]apispec.TaskStatus
	decode(t, e.get("/v1/status/tasks/web?include=events"), &got)
	if web := got["web"]; web.Status != apispec.StatusErrored || len(*web.Events) != 1 || (*web.Events)[0].Success {
		t.Errorf("the status reads %+v with events %+v, want that of the failed run alone", web, *web.Events)
	}
	if runs := e.get("/v1/tasks/web/runs").body; !strings.Contains(runs, `"state":"interrupted"`) {
		t.Errorf("the runs read %s", runs)
	}
}

func TestStatus_RecordOfANewerVersionIsAnError(t *testing.T) {
	e := newEngine(t, files)
	value := strings.Replace(string(state.Encode(state.Task{})), `"format":1`, `"format":2`, 1)
	if _, err := e.store.Apply(t.Context(), state.Create(state.TaskKey("web"), []byte(value))); err != nil {
		t.Fatal(err)
	}
	if got := e.serve().get("/v1/status/tasks/web"); got.status != 500 || !strings.Contains(got.body, "newer version of Terrapulse") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
