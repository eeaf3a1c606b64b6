//go:build linux

package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// ask makes a request of the function URL as Ann.
func (c *cloud) ask(method, path, body string) (status int, header map[string]string, said string) {
	c.t.Helper()
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Content-Type", "application/json")
	status, header, text, err := c.handOn(r, []byte(body), ann)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, header, string(text)
}

func (c *cloud) get(path string, into any) {
	c.t.Helper()
	status, _, said := c.ask(http.MethodGet, path, "")
	if status != http.StatusOK {
		c.t.Fatalf("%s: %d %s", path, status, said)
	}
	if err := json.Unmarshal([]byte(said), into); err != nil {
		c.t.Fatalf("%s: %v: %s", path, err, said)
	}
}

func TestTasksAreMadeAndChangedThroughTheFunctionURL(t *testing.T) {
	t.Parallel()
	c := deploy(t, options{})
	c.register("web-1", 8080)
	c.module("")
	c.tasks(consulBackend, "lb")
	if status, _, said := c.ask(http.MethodGet, "/v1/overview", ""); status != http.StatusOK || !strings.Contains(said, `"tasks":[]`) {
		t.Errorf("before there is a bundle: %d %s", status, said)
	}
	if status, _, said := c.ask(http.MethodGet, "/v1/health", ""); status != http.StatusServiceUnavailable || !strings.Contains(said, "no tick has succeeded yet") {
		t.Errorf("health before the first tick: %d %s", status, said)
	}
	c.mustPush()
	c.tickUntil("applied", func() bool { return c.out("lb") == "web-1:8080" && len(c.runs("lb")) == 1 })
	c.tickUntil("its end is seen", func() bool { return c.tick().Idle })
	var health map[string]any
	c.get("/v1/health", &health)
	var tasks map[string]apispec.TaskStatus
	c.get("/v1/status/tasks?include=events", &tasks)
	if lb := tasks["lb"]; lb.Status != apispec.StatusSuccessful || len(*lb.Events) != 1 {
		t.Errorf("%+v", tasks)
	}
	var one apispec.TaskResponse
	c.get("/v1/tasks/lb", &one)

	// A task like it, under another name.
	definition := one.Task
	definition.Name = "made"
	for name, value := range *definition.Variables {
		(*definition.Variables)[name] = strings.ReplaceAll(value, `"lb"`, `"made"`)
	}
	body, err := json.Marshal(apispec.TaskRequest{Task: definition})
	if err != nil {
		t.Fatal(err)
	}
	status, _, said := c.ask(http.MethodPost, "/v1/tasks?run=inspect", string(body))
	var planned apispec.TaskResponse
	if err := json.Unmarshal([]byte(said), &planned); err != nil || status != http.StatusOK || planned.Run == nil || !planned.Run.ChangesPresent ||
		!strings.Contains(planned.Run.Plan, "1 to add") {
		t.Fatalf("inspection: %d %s", status, said)
	}
	// ECS tells only some time after the run that its container has stopped.
	c.ecs.Hold()
	if status, _, said := c.ask(http.MethodPost, "/v1/tasks?run=now", string(body)); status != http.StatusCreated {
		t.Fatalf("creation: %d %s", status, said)
	}
	if status, _, said := c.ask(http.MethodPatch, "/v1/tasks/made", `{"enabled":true}`); status != http.StatusOK {
		t.Errorf("the task that was made cannot be changed: %d %s", status, said)
	}
	c.ecs.Release(1, false)
	var runs apispec.RunsResponse
	c.get("/v1/tasks/made/runs", &runs)
	applied := runs.Runs[0]
	if applied.State != apispec.RunStateSucceeded || !strings.Contains(applied.Reason.Text, "arn:aws:iam::123456789012:user/ann") || applied.LogURL == nil {
		t.Errorf("its run: %+v", applied)
	}
	if status, header, log := c.ask(http.MethodGet, *applied.LogURL, ""); status != http.StatusOK || !strings.Contains(log, "Apply complete!") || !strings.HasPrefix(header["Content-Type"], "text/plain") {
		t.Errorf("its log: %d %v %s", status, header, log)
	}

	made := c.runs("made")
	if l, id := applied.Links, made[len(made)-1].Runner; l == nil || id == "" || !strings.Contains(l.Container, "/tasks/"+id+"?") ||
		!strings.Contains(l.Logs, "log-group/$252Fterrapulse$252Fe2e$252F") || !strings.HasSuffix(l.Logs, "$252Frunner/log-events/runner$252Frunner$252F"+id) {
		t.Errorf("the pages of container %q are %+v", id, l)
	} else if l.Output == nil || !strings.Contains(*l.Output, "/s3/object/") {
		t.Errorf("the page of the output is %v", l.Output)
	}
	var o apispec.Overview
	c.get("/v1/overview", &o)
	if o.Links == nil || !strings.HasSuffix(o.Links.Alarms, "~'e2e-)") {
		t.Errorf("the pages of the deployment are %+v", o.Links)
	}

	// The reconcile function works with what was changed there.
	if status, _, said := c.ask(http.MethodPatch, "/v1/tasks/lb", `{"enabled":false}`); status != http.StatusOK {
		t.Fatalf("disabling: %d %s", status, said)
	}
	c.register("web-2", 8081)
	c.tickUntil("the task that was made follows the change", func() bool {
		c.get("/v1/tasks/made/runs?after="+applied.ID, &runs)
		return len(runs.Runs) == 1 && runs.Runs[0].State == apispec.RunStateSucceeded
	})
	if got := c.out("lb"); got != "web-1:8080" {
		t.Errorf("the disabled task has made %q", got)
	}
	status, header, said := c.ask(http.MethodDelete, "/v1/tasks/lb", "")
	if status != http.StatusAccepted || !strings.Contains(header["Terrapulse-Note"], "comes back") {
		t.Errorf("deletion: %d %v %s", status, header, said)
	}
	c.get("/v1/status/tasks", &tasks)
	tasks = nil
	c.get("/v1/status/tasks", &tasks)
	if _, there := tasks["lb"]; there || len(tasks) != 1 {
		t.Errorf("tasks: %v", tasks)
	}

	// It works with the deletion, too.
	c.register("web-3", 8082)
	c.tickUntil("the task that is left follows the change", func() bool { return strings.Contains(c.out("made"), "web-3") })
	c.tickUntil("all has ended", func() bool { return c.tick().Idle })
	if got := c.out("lb"); got != "web-1:8080" {
		t.Errorf("the task that was deleted has made %q", got)
	}

	// A cold start, with the emulator's own.
	c.lambda.deploy(c.api, c.lambda.functions[c.api].bootstrap, time.Minute, c.lambda.functions[c.api].env)
	began := time.Now()
	c.get("/v1/status", &map[string]any{})
	cold := time.Since(began)
	began = time.Now()
	c.get("/v1/status", &map[string]any{})
	t.Logf("the first answer took %s, the second %s", cold, time.Since(began))
}
