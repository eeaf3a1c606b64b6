package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// served is where a process serves its API.
func (p *process) served() string {
	p.t.Helper()
	address := regexp.MustCompile(`serving the HTTP API" address=\S*:(\d+)`)
	var port string
	eventually(p.t, "the API is served", func() bool {
		found := address.FindStringSubmatch(p.stderr.String())
		if found != nil {
			port = found[1]
		}
		return found != nil
	})
	return "http://localhost:" + port
}

// ask asks the API and returns the answer, which must have the status.
func ask(t testing.TB, method, url, body string, status int) map[string]any {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, url, resp.StatusCode, status, text)
	}
	answer := map[string]any{}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%s %s: %v: %s", method, url, err, text)
		}
	}
	return answer
}

func TestScriptsOfConsulTerraformSyncFindTheirAPI(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	p := s.start("-config-file", s.config(s.task("lb", onWeb)))
	at := p.served()
	eventually(t, "the first apply", func() bool { return s.read("lb.txt") != "" })
	ask(t, "GET", at+"/v1/health", "", 200)
	eventually(t, "the task is successful", func() bool {
		tasks := ask(t, "GET", at+"/v1/status/tasks/lb?include=events", "", 200)
		lb, _ := tasks["lb"].(map[string]any)
		events, _ := lb["events"].([]any)
		return lb["status"] == "successful" && len(events) == 1
	})

	more := `{"task": {"name": "more", "module": "` + s.path("mod") + `", "providers": [], "variables": {"file": "\"` + s.path("more.txt") + `\""},
	  "condition": {"services": {"names": ["web"]}}}}`
	planned := ask(t, "POST", at+"/v1/tasks?run=inspect", more, 200)
	if run, _ := planned["run"].(map[string]any); run["changes_present"] != true || !strings.Contains(run["plan"].(string), "local_file.out will be created") {
		t.Errorf("inspected: %v", planned)
	}
	ask(t, "GET", at+"/v1/tasks/more", "", 404)
	ask(t, "POST", at+"/v1/tasks?run=now", more, 201)
	if got := s.read("more.txt"); !strings.Contains(got, "8080") {
		t.Errorf("made: %q", got)
	}
	ask(t, "POST", at+"/v1/tasks", more, 400)
	broken := strings.NewReplacer(`"name": "more"`, `"name": "broken"`, `"file":`, `"fil":`).Replace(more)
	ask(t, "POST", at+"/v1/tasks", broken, 500) // Terraform refuses it
	ask(t, "GET", at+"/v1/tasks/broken", "", 404)
	ask(t, "PATCH", at+"/v1/tasks/lb", `{"enabled": false}`, 200)
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "the new task follows", func() bool { return strings.Contains(s.read("more.txt"), "8081") })
	if strings.Contains(s.read("lb.txt"), "8081") {
		t.Error("the disabled task was applied")
	}
	if code := p.stop(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}

	p = s.start("-config-file", s.config(s.task("lb", onWeb)))
	at = p.served()
	tasks := ask(t, "GET", at+"/v1/tasks", "", 200)["tasks"].([]any)
	if len(tasks) != 2 || tasks[0].(map[string]any)["enabled"] != false {
		t.Errorf("after a restart: %v", tasks)
	}
	wantText(t, s.runInTest("status").stdout, "Changed through the API, beside the task files:", "more: made", "lb: disabled")
	plan := ask(t, "PATCH", at+"/v1/tasks/lb?run=inspect", `{"enabled": true}`, 200)["inspect"].(map[string]any)
	if plan["changes_present"] != true {
		t.Errorf("inspected: %v", plan)
	}
	ask(t, "PATCH", at+"/v1/tasks/lb?run=now", `{"enabled": true}`, 200)
	if got := s.read("lb.txt"); !strings.Contains(got, "8081") {
		t.Errorf("enabled: %q", got)
	}
	ask(t, "DELETE", at+"/v1/tasks/more", "", 202)
	ask(t, "GET", at+"/v1/tasks/more", "", 404)
	ask(t, "PATCH", at+"/v1/tasks/lb", `{"enabled": false}`, 200)
	if code := p.stop(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	s.config("")
	wantText(t, s.run("start", "-once", "-config-file", s.path("tasks.hcl")).stdout, "no tasks configured")
	s.config(s.task("lb", onWeb))
	r := s.run("start", "-once", "-reset-storage", "-config-file", s.path("tasks.hcl"))
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "forgotten: task lb (disabled)")

	var report onceReport
	r = s.run("start", "-once", "-json", "-reset-storage", "-config-file", s.path("tasks.hcl"))
	decode(t, r, &report)
	wantText(t, r.stderr, "there is nothing to undo")
}
