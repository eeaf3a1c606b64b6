package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestDelete_ARunningTaskIsShownUntilItsRunHasEnded(t *testing.T) {
	e := start(t, files)
	status(t, e.ask("POST", "/v1/tasks?run=now", newTask), http.StatusCreated) // so that it has an event
	hold := e.holds()
	for _, name := range []string{"api", "web"} { // one that was made through the API, one of a file
		status(t, e.ask("POST", "/v1/tasks/"+name+"/run", ""), http.StatusAccepted)
		eventually(t, name+" is applied", func() bool { return e.applies(name) })
		before := map[string]string{}
		paths := []string{"/v1/tasks/" + name, "/v1/status/tasks/" + name + "?include=events"}
		for _, path := range paths {
			before[path] = volatile.ReplaceAllString(e.get(path).body, "*")
		}

		status(t, e.ask("DELETE", "/v1/tasks/"+name, ""), http.StatusAccepted)
		for _, path := range paths {
			if got := volatile.ReplaceAllString(e.get(path).body, "*"); got != before[path] {
				t.Errorf("%s is %s, was %s", path, got, before[path])
			}
		}
		for _, path := range []string{"/v1/tasks", "/v1/status/tasks", "/v1/overview"} {
			if got := e.get(path); !strings.Contains(got.body, `"`+name+`"`) {
				t.Errorf("%s does not show %s: %s", path, name, got.body)
			}
		}
		status(t, e.get("/v1/tasks/"+name+"/overview"), http.StatusOK)
		status(t, e.ask("DELETE", "/v1/tasks/"+name, ""), http.StatusAccepted)
		if got := e.ask("PATCH", "/v1/tasks/"+name, `{"enabled":true}`); got.status != 500 || !strings.Contains(got.body, "is active") {
			t.Errorf("enable: %d %s", got.status, got.body)
		}
	}
	close(hold)
	for _, name := range []string{"api", "web"} {
		eventually(t, name+" is gone", func() bool { return e.get("/v1/tasks/"+name).status == http.StatusNotFound })
		status(t, e.get("/v1/status/tasks/"+name), http.StatusNotFound)
		status(t, e.ask("DELETE", "/v1/tasks/"+name, ""), http.StatusNotFound)
	}
	if got := e.get("/v1/status/tasks"); strings.Contains(got.body, `"api"`) || strings.Contains(got.body, `"web"`) {
		t.Error(got.body)
	}
}
