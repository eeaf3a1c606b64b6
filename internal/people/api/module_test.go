package api_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestAPI_InvalidModuleIsAnErrorOfTheServerOnlyWhereCTSSaysSo has a task of a file and one of the API
// whose modules Terraform refuses.
func TestAPI_InvalidModuleIsAnErrorOfTheServerOnlyWhereCTSSaysSo(t *testing.T) {
	e := start(t, files)
	for _, task := range []string{"web", "off", "api"} {
		e.fail(task, errors.New("Error: Module not found"))
	}
	// The requests of Consul-Terraform-Sync have its answers. A task whose module Terraform refuses is not made, also if it
	// is disabled, and stays as it was.
	disabled := strings.Replace(newTask, `"name"`, `"enabled":false,"name"`, 1)
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/tasks", newTask, http.StatusInternalServerError},
		{"POST", "/v1/tasks?run=now", newTask, http.StatusInternalServerError},
		{"POST", "/v1/tasks", disabled, http.StatusInternalServerError},
		{"POST", "/v1/tasks?run=now", disabled, http.StatusInternalServerError},
		{"POST", "/v1/tasks?run=inspect", newTask, http.StatusBadRequest},
		{"PATCH", "/v1/tasks/off?run=now", `{"enabled":true}`, http.StatusInternalServerError},
		{"PATCH", "/v1/tasks/off?run=inspect", `{"enabled":true}`, http.StatusInternalServerError},
		{"PATCH", "/v1/tasks/off", `{"enabled":true}`, http.StatusOK},
	} {
		got := e.ask(c.method, c.path, c.body)
		status(t, got, c.status)
		if c.status != http.StatusOK && !strings.Contains(got.message(t), "Module not found") {
			t.Errorf("%s %s: %s", c.method, c.path, got.body)
		}
		status(t, e.get("/v1/tasks/api"), http.StatusNotFound)
		if enabled := e.get("/v1/tasks/off").json(t)["task"].(map[string]any)["enabled"]; enabled != (c.status == http.StatusOK) {
			t.Errorf("%s %s: it is enabled: %v", c.method, c.path, enabled)
		}
	}
	e.fail("api", nil)
	before := e.runs("api")
	status(t, e.ask("POST", "/v1/tasks?run=now", disabled), http.StatusCreated)
	if e.runs("api") != before {
		t.Error("a disabled task was applied")
	}

	for _, c := range []struct{ method, path string }{
		{"POST", "/v1/tasks/web/run?wait=true"}, {"POST", "/v1/tasks/web/cancel"},
		{"GET", "/v1/tasks/web"}, {"GET", "/v1/tasks/web/overview"}, {"GET", "/v1/overview"}, {"GET", "/v1/tasks/web/plan"},
		{"GET", "/v1/tasks/web/runs"}, {"GET", "/v1/runs"}, {"GET", "/v1/events"}, {"POST", "/v1/reconcile"},
		{"POST", "/v1/tasks/web/hold"}, {"DELETE", "/v1/tasks/web/hold"}, {"POST", "/v1/tasks/web/destroy"}, {"POST", "/v1/tasks/web/forget"},
	} {
		got := e.ask(c.method, c.path, "")
		if got.status >= http.StatusInternalServerError {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.body)
		}
	}
	for _, run := range e.get("/v1/tasks/web/runs").json(t)["runs"].([]any) {
		url := "/v1/tasks/web/runs/" + run.(map[string]any)["id"].(string)
		for _, path := range []string{"", "/log", "/output", "/plan", "/plan-data"} {
			if got := e.get(url + path); got.status >= http.StatusInternalServerError {
				t.Errorf("GET %s%s: %d %s", url, path, got.status, got.body)
			}
		}
	}
}
