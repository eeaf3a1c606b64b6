package apiclient

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// A server behind API Gateway waits for 29 seconds at most, and a container needs longer to start. The client
// waits for what the server had to leave.
func TestClient_WaitsForWhatTheServerCannotWaitFor(t *testing.T) {
	const id = "01a2b3c4-0000-7000-8000-000000000001"
	run := func(kind, state, more string) string {
		ended := ""
		if state == "succeeded" || state == "failed" {
			ended = `"ended": "2026-01-01T00:01:00Z",`
		}
		return fmt.Sprintf(`{"id": %q, "task": "web", "kind": %q, "state": %q, "created": "2026-01-01T00:00:00Z", %s %s "reason": {"code": "created", "text": "created"}}`, id, kind, state, ended, more)
	}
	planned, applied := "", "" // the run
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.URL.RequestURI()
		asked[what]++
		switch what {
		case "POST /v1/tasks?run=inspect", "PATCH /v1/tasks/web?run=inspect":
			w.Header().Set("Location", "/v1/tasks/web/runs/"+id)
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"error": {"message": "context deadline exceeded; what was asked for goes on"}, "request_id": "1"}`)
		case "POST /v1/tasks?run=now", "PATCH /v1/tasks/web?run=now":
			w.Header().Set("Location", "/v1/tasks/web/runs?after=0")
			w.WriteHeader(http.StatusGatewayTimeout)
			fmt.Fprint(w, `{"error": {"message": "context deadline exceeded; what was asked for goes on"}, "request_id": "1"}`)
		case "GET /v1/tasks/web/runs/" + id:
			if asked[what] == 1 {
				fmt.Fprintf(w, `{"run": %s}`, run("plan", "running", ""))
				return
			}
			fmt.Fprintf(w, `{"run": %s}`, planned)
		case "GET /v1/tasks/web/runs/" + id + "/plan":
			fmt.Fprint(w, "Plan: 1 to add")
		case "GET /v1/tasks/web/runs?after=0&limit=200":
			if asked[what] == 1 {
				fmt.Fprintf(w, `{"runs": [%s]}`, run("apply", "running", ""))
				return
			}
			fmt.Fprintf(w, `{"runs": [%s]}`, applied)
		default:
			http.NotFound(w, r)
			t.Errorf("unexpected: %s", what)
		}
	}))
	defer server.Close()
	c, task := client(t, Options{Address: server.URL}), apispec.Task{Name: "web"}
	for what, inspect := range map[string]func() (Inspection, error){
		"create": func() (Inspection, error) { return c.InspectTask(t.Context(), task) },
		"enable": func() (Inspection, error) { return c.InspectEnable(t.Context(), "web") },
	} {
		clear(asked)
		planned = run("plan", "succeeded", `"changes": {"add": 1, "change": 0, "destroy": 0},`)
		if got, err := inspect(); err != nil || !got.ChangesPresent || got.Plan != "Plan: 1 to add" {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		planned = run("plan", "succeeded", `"changes": {"add": 0, "change": 0, "destroy": 0, "uncounted": true},`)
		if got, err := inspect(); err != nil || !got.ChangesPresent {
			t.Errorf("%s: changes of outputs alone: %+v, %v", what, got, err)
		}
		planned = run("plan", "failed", `"error": "no such provider",`)
		if _, err := inspect(); err == nil || !strings.Contains(err.Error(), "inspect task 'web': no such provider") {
			t.Errorf("%s: a plan that failed: %v", what, err)
		}
	}
	for otherwise, change := range map[string]func() error{
		"the task is not kept":     func() error { return c.CreateTask(t.Context(), task) },
		"the task stays as it was": func() error { return c.EnableTask(t.Context(), "web") },
	} {
		clear(asked)
		applied = run("apply", "succeeded", "")
		if err := change(); err != nil {
			t.Error(err)
		}
		applied = run("apply", "failed", `"error": "quota exceeded",`)
		if err := change(); err == nil || !strings.Contains(err.Error(), "run task 'web': quota exceeded; "+otherwise) {
			t.Errorf("a run that failed: %v", err)
		}
	}
}
