package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

const newTask = `{"task":{"name":"api","module":"./modules/api","condition":{"services":{"names":["api"]}}}}`

// volatile matches what differs each time.
var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`)

// same compares a body with JSON in which ids and times are "*".
func same(t *testing.T, got answer, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(volatile.ReplaceAllString(got.body, "*")), &g); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func status(t *testing.T, got answer, want int) {
	t.Helper()
	if got.status != want {
		t.Errorf("status %d, want %d: %s", got.status, want, got.body)
	}
}

func TestAPI_SessionOfACTSUser(t *testing.T) {
	e := start(t, files)
	same(t, e.get("/v1/health"), `{}`)
	same(t, e.get("/v1/status"), `{"task_summary":{"status":{"successful":1,"errored":0,"critical":0,"unknown":1},"enabled":{"true":1,"false":1}}}`)
	same(t, e.get("/v1/status/tasks"), `{
		"web":{"task_name":"web","status":"successful","enabled":true,"events_url":"/v1/status/tasks/web?include=events","providers":["local"],"services":[]},
		"off":{"task_name":"off","status":"unknown","enabled":false,"events_url":"","providers":[],"services":[]}}`)
	events := e.get("/v1/status/tasks/web?include=events")
	module := e.base.Load().Tasks[0].Module
	same(t, events, `{"web":{"task_name":"web","status":"successful","enabled":true,"events_url":"/v1/status/tasks/web?include=events","providers":["local"],"services":[],
		"events":[{"id":"*","success":true,"start_time":"*","end_time":"*","task_name":"web","error":null,"config":{"providers":["local"],"services":[],"source":"`+module+`"}}]}}`)
	same(t, e.get("/v1/status/tasks/off?include=events"), `{"off":{"task_name":"off","status":"unknown","enabled":false,"events_url":"","events":[],"providers":[],"services":[]}}`)
	same(t, e.get("/v1/tasks/web"), `{"request_id":"*","task":{"name":"web","description":"the web servers","enabled":true,"module":"./modules/web","version":"",
		"providers":["local"],"variables":{"count":"1","name":"\"it\""},"module_input":{},
		"condition":{"services":{"names":["web"],"datacenter":"","namespace":"","filter":"","cts_user_defined_meta":{},"use_as_module_input":true}}}}`)

	plan := e.ask("POST", "/v1/tasks?run=inspect", newTask)
	status(t, plan, http.StatusOK)
	made := `{"name":"api","description":"","enabled":true,"module":"./modules/api","version":"","providers":[],"variables":{},"module_input":{},
		"condition":{"services":{"names":["api"],"datacenter":"","namespace":"","filter":"","cts_user_defined_meta":{},"use_as_module_input":true}}}`
	same(t, plan, `{"request_id":"*","task":`+made+`,"run":{"changes_present":true,"plan":"Plan: 1 to add, 0 to change, 0 to destroy."}}`)
	status(t, e.get("/v1/tasks/api"), http.StatusNotFound)

	created := e.ask("POST", "/v1/tasks?run=now", newTask)
	status(t, created, http.StatusCreated)
	same(t, created, `{"request_id":"*","task":`+made+`}`)
	if e.runs("api") != 1 {
		t.Errorf("it ran %d times", e.runs("api"))
	}
	same(t, e.get("/v1/status"), `{"task_summary":{"status":{"successful":2,"errored":0,"critical":0,"unknown":1},"enabled":{"true":2,"false":1}}}`)
	if n := len(e.get("/v1/tasks").json(t)["tasks"].([]any)); n != 3 {
		t.Errorf("%d tasks", n)
	}

	same(t, e.ask("PATCH", "/v1/tasks/off?run=inspect", `{"enabled":true}`), `{"inspect":{"changes_present":true,"plan":"Plan: 1 to add, 0 to change, 0 to destroy."}}`)
	if e.runs("off") != 0 {
		t.Error("it was applied by an inspection")
	}
	same(t, e.ask("PATCH", "/v1/tasks/off?run=now", `{"enabled":true}`), `{}`)
	if e.runs("off") != 1 {
		t.Errorf("it ran %d times", e.runs("off"))
	}
	same(t, e.ask("PATCH", "/v1/tasks/off", `{"Enabled":false}`), `{}`)

	deleted := e.ask("DELETE", "/v1/tasks/api", "")
	status(t, deleted, http.StatusAccepted)
	same(t, deleted, `{"request_id":"*"}`)
	if note := deleted.header.Get("Terrapulse-Note"); note != "" {
		t.Errorf("note: %s", note)
	}
	deleted = e.ask("DELETE", "/v1/tasks/web", "")
	status(t, deleted, http.StatusAccepted)
	if note := deleted.header.Get("Terrapulse-Note"); !strings.Contains(note, "comes back") {
		t.Errorf("note: %q", note)
	}
	same(t, e.get("/v1/status/tasks"), `{"off":{"task_name":"off","status":"successful","enabled":false,"events_url":"/v1/status/tasks/off?include=events","providers":[],"services":[]}}`)
}

func TestAPI_ErrorsHaveTheTextOfCTS(t *testing.T) {
	e := start(t, files)
	const (
		old   = `{"error":{"message":"*"}}`
		newer = `{"error":{"message":"*"},"request_id":"*"}`
	)
	task := func(fields string) string {
		return `{"task":{"name":"x","module":"./x",` + fields + `}}`
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		shape, message     string
	}{
		{"GET", "/v1/status/tasks/nope", "", 404, old, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"GET", "/v1/status/tasks?status=bad", "", 400, old, "unsupported status parameter value. only supporting status values successful, errored, critical, and unknown but got bad"},
		{"GET", "/v1/status/tasks?include=bad", "", 400, old, "unsupported ?include parameter value. only supporting 'include=events' but got 'include=bad'"},
		{"GET", "/v1/status/tasks?status=errored&status=unknown", "", 400, old, "cannot support more than one status query parameter, got status values: errored, unknown"},
		{"GET", "/v1/status/tasks/a/b", "", 400, old, "unsupported path '/v1/status/tasks/a/b'. request must be format 'path/{task-name}'. task name cannot have '/ ' and api does not support further resources"},
		{"POST", "/v1/status", "", 405, old, "'POST' in an unsupported method. The overallStatus API currently supports the method(s): 'GET'"},
		{"PUT", "/v1/status/tasks", "", 405, old, "'PUT' in an unsupported method. The taskStatus API currently supports the method(s): 'GET'"},
		{"GET", "/v1/status/cluster", "", 405, old, "this endpoint is only available with high availability configured"},
		{"GET", "/v1/tasks/nope", "", 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"DELETE", "/v1/tasks/nope", "", 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"PUT", "/v1/tasks/web", "", 405, old, "'PUT' in an unsupported method. The task API currently supports the method(s): 'PATCH'"},

		{"PATCH", "/v1/tasks/web", `{}`, 400, old, "/v1/tasks/:task_name currently only supports the 'enabled' field. Missing 'enabled' from the request body"},
		{"PATCH", "/v1/tasks/web", `{"enabled":true,"bogus":1}`, 400, old, "request body's JSON contains unsupported keys: bogus"},
		{"PATCH", "/v1/tasks/web", `{"enabled":"yes"}`, 400, old, `unable to decode 'enabled' of the request body: it must be true or false, and is "yes"`},
		{"PATCH", "/v1/tasks/web", `{"enabled":tr`, 400, old, "unable to decode the request body: invalid character"},
		{"PATCH", "/v1/tasks/off?run=now&run=inspect", `{"enabled":true}`, 400, newer, "the parameter run is there more than once: choose now or inspect"},
		{"PATCH", "/v1/tasks/off?run=inspect&run=now", `{"enabled":true}`, 400, newer, "the parameter run is there more than once: choose now or inspect"},
		{"POST", "/v1/tasks?run=now&run=inspect", newTask, 400, newer, "the parameter run is there more than once: choose now or inspect"},
		{"PATCH", "/v1/tasks/web?run=foo", `{"enabled":true}`, 400, old, "unsupported run parameter value. only supporting run values now and inspect but got foo"},
		{"PATCH", "/v1/tasks/", `{"enabled":true}`, 400, old, "no task name was included in the api request. Updating a task requires the task name: '/v1/tasks/:task_name'"},
		{"PATCH", "/v1/tasks/nope", `{"enabled":true}`, 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"PATCH", "/v1/tasks/nope?run=inspect", `{"enabled":true}`, 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},

		{"POST", "/v1/tasks", `{"task":{"name":"x","condition":{}}}`, 400, newer, `request body has an error: doesn't match schema #/components/schemas/TaskRequest: Error at "/task/module": property "module" is missing`},
		{"POST", "/v1/tasks", task(`"condition":{},"bogus":1`), 400, newer, `request body has an error: doesn't match schema #/components/schemas/TaskRequest: Error at "/task": property "bogus" is unsupported`},
		{"POST", "/v1/tasks", task(`"condition":{},"enabled":"yes"`), 400, newer, `request body has an error: doesn't match schema #/components/schemas/TaskRequest: Error at "/task/enabled": value must be a boolean`},
		{"POST", "/v1/tasks?run=later", newTask, 400, newer, `parameter "run" in query has an error: value is not one of the allowed values ["now","inspect"]`},
		{"POST", "/v1/tasks", `{"task":{"name":"x"`, 400, newer, "request body has an error: failed to decode request body: unexpected EOF"},
		{"POST", "/v1/tasks", "", 400, newer, "request body has an error: value is required but missing"},

		{"POST", "/v1/tasks", strings.ReplaceAll(newTask, `"api"`, `"web"`), 400, newer, "task with name web already exists"},
		{"POST", "/v1/tasks", strings.ReplaceAll(newTask, `"name":"api"`, `"name":"a/b"`), 400, newer,
			`task.name: a task name must start with a letter or underscore and may contain only letters, digits, underscores, and dashes: "a/b"`},
		{"POST", "/v1/tasks", task(`"condition":{"consul_kv":{"path":"a"},"schedule":{"cron":"* * * * *"}}`), 400, newer, "expected only one condition but got 2: consul-kv, schedule"},
		{"POST", "/v1/tasks?run=inspect", task(`"condition":{"services":{}}`), 400, newer, "either the regexp or names field must be configured"},
		{"POST", "/v1/tasks?run=now", task(`"condition":{"schedule":{"cron":"invalid"}}`), 400, newer, "unable to parse schedule condition's cron config"},
		{"POST", "/v1/tasks", task(`"condition":{},"terraform_version":"1.0.0"`), 400, newer, "unsupported configuration 'terraform_version' for task \"x\"; it needs driver"},
		{"POST", "/v1/tasks", task(`"condition":{},"variables":{"a":"example.field"}`), 400, newer, "task.variables"},

		{"POST", "/v1/tasks/nope/run", "", 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"POST", "/v1/tasks/off/run", "", 409, newer, "task 'off' is disabled: enable it first"},
		{"POST", "/v1/tasks/nope/cancel", "", 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"POST", "/v1/tasks/web/cancel", "", 409, newer, "task 'web' has no run under way"},
		{"POST", "/v1/tasks/web/run?wait=perhaps", "", 400, newer, `parameter "wait" in query has an error`},
		{"GET", "/v1/tasks/nope/runs", "", 404, newer, "a task with name 'nope' does not exist or has not been initialized yet"},
		{"GET", "/v1/tasks/web/runs?limit=0", "", 400, newer, `parameter "limit" in query has an error: number must be at least 1`},
		{"GET", "/v1/tasks/web/runs/nope", "", 404, newer, "task 'web' has no run nope"},
		{"GET", "/v1/tasks/" + strings.Repeat("x", 5000) + "/runs", "", 404, newer, "a task with name 'xxx"},
		{"GET", "/v1/tasks/web/runs/" + strings.Repeat("x", 5000), "", 404, newer, "task 'web' has no run xxx"},
		{"GET", "/v1/tasks/a%2Fb", "", 404, newer, "a task with name 'a/b' does not exist or has not been initialized yet"},
		{"GET", "/v1/tasks/web/runs/nope/log", "", 404, newer, "task 'web' has no run nope"},
	} {
		got := e.ask(tt.method, tt.path, tt.body)
		if got.status != tt.status || !strings.Contains(got.message(t), tt.message) {
			t.Errorf("%s %s %s\n got %d %s\nwant %d %s", tt.method, tt.path, tt.body, got.status, got.message(t), tt.status, tt.message)
		}
		fields := got.json(t)
		if _, has := fields["request_id"]; has != (tt.shape == newer) || len(fields) > 2 {
			t.Errorf("%s %s: the shape is %s", tt.method, tt.path, got.body)
		}
	}

	schema := e.ask("POST", "/v1/tasks", `{}`)
	if ct := schema.header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("a schema error is %s", ct)
	}
	media := e.ask("POST", "/v1/tasks", newTask, "Content-Type", "text/html")
	if m := media.message(t); media.status != 400 || m != `request body has an error: header Content-Type has unexpected value "text/html"` {
		t.Errorf("%d %s", media.status, m)
	}
	for _, path := range []string{"/v1/tasks/web/approval", "/v1/approvals", "/v1/what-if", "/v1/pause"} { // curl -d says that it sends a form
		if got := e.ask("POST", path, `{"none": 1}`, "Content-Type", "application/x-www-form-urlencoded"); strings.Contains(got.body, "Content-Type") {
			t.Errorf("POST %s: %s", path, got.body)
		}
	}
	large := e.ask("POST", "/v1/tasks", strings.Repeat(" ", 2<<20)+newTask)
	status(t, large, http.StatusRequestEntityTooLarge)
	large = e.ask("PATCH", "/v1/tasks/web", strings.Repeat(" ", 2<<20)+`{"enabled":false}`)
	status(t, large, http.StatusRequestEntityTooLarge)
	if unknown := e.get("/v1/nope"); unknown.status != 404 || unknown.body != "404 page not found\n" {
		t.Errorf("an unknown path: %d %q", unknown.status, unknown.body)
	}
	status(t, e.ask("OPTIONS", "/v1/tasks/web", ""), http.StatusOK)
	same(t, e.get("/v1/status"), `{"task_summary":{"status":{"successful":1,"errored":0,"critical":0,"unknown":1},"enabled":{"true":1,"false":1}}}`)
}

func TestUpdateTask_ActiveTaskIsRefused(t *testing.T) {
	e := start(t, files)
	defer close(e.holdRun(t))
	got := e.ask("PATCH", "/v1/tasks/web", `{"enabled":false}`)
	if m := got.message(t); got.status != 500 || !strings.HasPrefix(m, "task 'web' is active and cannot be updated at this time") || !strings.Contains(m, "`terrapulse cancel web`") {
		t.Errorf("%d %s", got.status, m)
	}
	// Requests that Consul-Terraform-Sync does not have do not blame the server.
	status(t, e.ask("POST", "/v1/tasks/web/forget", ""), http.StatusConflict)
}

func TestCreateTask_EnabledBufferPeriodHasTheDefaults(t *testing.T) {
	e := start(t, files)
	with := strings.Replace(newTask, `"name"`, `"buffer_period":{"enabled":true},"name"`, 1)
	status(t, e.ask("POST", "/v1/tasks", with), http.StatusCreated)
	got := e.get("/v1/tasks/api").json(t)["task"].(map[string]any)["buffer_period"]
	if want := map[string]any{"enabled": true, "min": "5s", "max": "20s"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestGetTask_AnswerCreatesTheSameTask(t *testing.T) {
	e := start(t, `
task { # everything that a task may say
  name = "all"
  description = "d"
  module = "./m"
  version = ""
  variables = {
    a = "[1, \"x\"]"
    b = "{ c = true }"
    d = "null"
    e = "\"$${x}\""
  }
  buffer_period { min = "2s" }
  condition "services" {
    regexp = "^web"
    datacenter = "dc1"
    filter = "Service.Tags contains \"a\""
    cts_user_defined_meta { k = "v" }
    use_as_module_input = false
  }
  module_input "consul-kv" {
    path = "p"
    recurse = true
  }
}
task {
  name = "catalog"
  module = "./m"
  condition "catalog-services" {
    regexp = ".*"
    node_meta { k = "v" }
  }
  module_input "services" { names = ["a"] }
}
task {
  name = "kv"
  module = "hashicorp/consul/aws"
  version = "0.1.0"
  condition "consul-kv" { path = "p" }
}
task {
  name = "cron"
  module = "./m"
  condition "schedule" { cron = "*/10 * * * *" }
}
`)
	for _, task := range e.base.Load().Tasks {
		shown := e.get("/v1/tasks/" + task.Name).json(t)["task"].(map[string]any)
		shown["name"] = "again"
		definition, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		status(t, e.ask("POST", "/v1/tasks", `{"task":`+string(definition)+`}`), http.StatusCreated)
		effective, err := e.Config(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, ok := effective.Config.Task("again")
		if !ok {
			t.Fatalf("%s is not there again: %v", task.Name, effective.Problems)
		}
		want, got := task, *again
		got.Name, got.WorkingDir = want.Name, want.WorkingDir
		if want.Digest(effective.Base) != got.Digest(effective.Config) || want.BufferPeriod != got.BufferPeriod || want.Description != got.Description {
			t.Errorf("%s is another task: %s", task.Name, definition)
		}
		status(t, e.ask("DELETE", "/v1/tasks/again", ""), http.StatusAccepted)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return volatile.ReplaceAllString(string(body), "*")
}

func TestGetTask_MasksSensitiveValuesForReaders(t *testing.T) {
	e := newEngine(t, strings.Replace(strings.Replace(files, "count = 1", `token = "\"hunter2\""`, 1), `condition "services"`, `verify "vip" {
    http {
      url = "https://10.0.0.1/health?sig=hunter2"
      headers = { X-Auth = "hunter2" }
    }
  }
  condition "services"`, 1))
	get := func(path string, rights roles.Rights) map[string]string {
		t.Helper()
		w := httptest.NewRecorder()
		api.New(e.options).ServeHTTP(w, httptest.NewRequestWithContext(access.With(t.Context(), access.Caller{Rights: rights}), "GET", path, nil))
		var got struct {
			Task  apispec.Task
			Tasks []apispec.Task
		}
		if seen := strings.Count(w.Body.String(), "hunter2"); seen > 0 != rights.May(roles.Administer, "web") {
			t.Errorf("%s has %d secrets for somebody who may %s", path, seen, rights)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if len(got.Tasks) > 0 {
			got.Task = got.Tasks[0]
		}
		return *got.Task.Variables
	}
	hidden := map[string]string{"token": `"(sensitive value)"`, "name": `"(sensitive value)"`}
	if got := get("/v1/tasks/web", roles.Viewing()); !reflect.DeepEqual(got, hidden) {
		t.Errorf("without knowledge of the module a reader gets %v", got)
	}
	e.options.Sensitive = func(task *config.Task) func(string) bool {
		return func(name string) bool { return task.Name == "web" && name == "token" }
	}
	for _, path := range []string{"/v1/tasks/web", "/v1/tasks"} {
		if got, want := get(path, roles.Viewing()), (map[string]string{"token": `"(sensitive value)"`, "name": `"it"`}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: a reader gets %v", path, got)
		}
		if got, want := get(path, roles.Everything()), (map[string]string{"token": `"hunter2"`, "name": `"it"`}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: who may act gets %v", path, got)
		}
	}
}

func TestOpenAPI_EveryOperationIsServed(t *testing.T) {
	e := newEngine(t, files)
	e.options.Login = &api.Login{Issuer: "https://dex.example.com", ClientID: "cli", Scopes: []string{"openid"}}
	e.serve()
	served, err := openapi3.NewLoader().LoadFromData([]byte(e.get("/v1/openapi.json").body))
	if err != nil {
		t.Fatal(err)
	}
	if err := served.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, item := range served.Paths.Map() {
		for method := range item.Operations() {
			path := strings.NewReplacer("{name}", "nope", "{id}", "nope", "{token}", "nope").Replace("/v1" + path)
			got := e.ask(method, path, "")
			if got.status == http.StatusNotFound && !strings.Contains(got.body, "nope") || got.status == http.StatusMethodNotAllowed && path != "/v1/status/cluster" {
				t.Errorf("%s %s is described and not there: %d %s", method, path, got.status, got.body)
			}
		}
	}
}
