package api_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// ttl is how long leases and claims last here.
const ttl = 10 * time.Second

// engine is all of Terrapulse but Consul and Terraform, with its API served over
// a socket.
type engine struct {
	t     testing.TB
	store state.Store
	base  atomic.Pointer[config.Config]
	asked chan struct{}
	gates chan struct{}
	*control.Control
	options api.Options
	server  *httptest.Server
	leader  summary.Summary // of the benchmark
	stop    func()

	mu      sync.Mutex
	digest  string           // what every condition shows
	mark    int              // what the gates show
	broken  map[string]error // tasks whose module fails
	hold    chan struct{}    // if set, applies wait until it is closed
	waiting []string         // the tasks whose applies have begun to wait for that
	applied []string
	planned *state.Changes // what plans find; nil for one resource to add
}

// files is what most tests have for task files.
const files = `
port = 8558
buffer_period { enabled = false }
working_dir = "work"
task {
  name = "web"
  description = "the web servers"
  module = "./modules/web"
  providers = ["local"]
  variables = {
    count = 1
    name = "\"it\""
  }
  condition "services" { names = ["web"] }
}
task {
  name = "off"
  enabled = false
  module = "./modules/off"
  condition "consul-kv" { path = "off" }
}
`

func load(t testing.TB, hcl string) *config.Config {
	t.Helper()
	return configtest.Load(t, t.TempDir(), "tasks.hcl", hcl)
}

// newEngine makes an engine that does not work yet.
func newEngine(t testing.TB, hcl string) *engine {
	t.Helper()
	store := summary.Keep(statetest.NewMemory())
	t.Cleanup(func() { store.Close() })
	e := &engine{t: t, store: store, asked: make(chan struct{}, 1), gates: make(chan struct{}, 1), digest: "A", broken: map[string]error{}}
	e.base.Store(load(t, hcl))
	e.Control = &control.Control{
		Store: store, Source: new(overlay.Source), Now: time.Now, Poll: 2 * time.Millisecond,
		Base: func(context.Context) (*config.Config, error) { return e.base.Load(), nil },
		Wake: func(context.Context) {
			select {
			case e.asked <- struct{}{}:
			default:
			}
		},
	}
	e.options = api.Options{Control: e.Control, Began: time.Now(), Log: slog.New(slog.DiscardHandler), Version: "0.0.0-test", Store: apispec.Store{Kind: "sqlite", Where: "records.db"}, Tokens: credentials.New(store, time.Now),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintln(w, "a 1")
		})}
	return e
}

// serve serves the API.
func (e *engine) serve() *engine {
	e.server = httptest.NewServer(http.MaxBytesHandler(api.New(e.options), middleware.MaxBody)) // as the servers limit it
	e.t.Cleanup(e.server.Close)
	return e
}

// work has the engine lead.
func (e *engine) work() *engine {
	ctx, cancel := context.WithCancel(e.t.Context())
	log, owner := e.options.Log, lease.NewOwner()
	run := &runner.Runner{Config: e.base.Load, Store: e.store, Consul: e, Driver: terraform{engine: e}, Owner: owner, Claim: ttl, Now: time.Now, Log: log, Live: time.Millisecond}
	launcher := launch.NewLocal(ctx, 2, log, run.Run)
	loop := &reconcile.Loop{
		Reconciler: &reconcile.Reconciler{Config: e.base.Load(), Store: e.store, Consul: e, Launcher: launcher, Owner: owner, LeaseTTL: ttl, Now: time.Now, Log: log},
		Ended:      launcher.Ended(), Asked: e.asked,
		Watch: func(_ context.Context, set consul.GateSet, _ consul.Marks) reconcile.Watch {
			e.moved()
			return watch{e, set.Keys()}
		},
	}
	e.Plan = func(ctx context.Context, task string, draft json.RawMessage) (state.PlannedRun, error) {
		planner := reconcile.Planner{Store: e.store, Launcher: launcher, Config: e.base.Load(), Now: time.Now}
		return planner.Plan(ctx, task, draft, "a test")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = loop.Run(ctx)
		launcher.Wait()
	}()
	e.stop = func() { cancel(); <-ended }
	e.t.Cleanup(e.stop)
	return e
}

// start has an engine work, and waits until its tasks have had their first run.
func start(t *testing.T, hcl string) *engine {
	t.Helper()
	e := newEngine(t, hcl).serve().work()
	for _, task := range e.base.Load().Tasks {
		if task.Enabled {
			e.settled(task.Name)
		}
	}
	return e
}

type watch struct {
	e    *engine
	keys []string
}

func (w watch) C() <-chan struct{} { return w.e.gates }

func (w watch) Marks() (consul.Marks, error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	marks := consul.Marks{}
	for _, key := range w.keys {
		marks[key] = fmt.Sprint(w.e.mark)
	}
	return marks, nil
}

// moved tells the engine that its gates have moved.
func (e *engine) moved() {
	select {
	case e.gates <- struct{}{}:
	default:
	}
}

// change changes what every condition shows.
func (e *engine) change(digest string) {
	e.mu.Lock()
	e.digest = digest
	e.mark++
	e.mu.Unlock()
	e.moved()
}

// fail has the module of a task fail, or not any more.
func (e *engine) fail(task string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken[task] = err
}

func (e *engine) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		answers[i].Digest = e.digest
	}
	return answers
}

func (e *engine) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	return watch{e, gates.Keys()}.Marks()
}

func (*engine) Identify(context.Context, string) (state.Identity, error) {
	return state.Identity{}, nil
}

func (e *engine) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &consul.Snapshot{Condition: consul.Observation{Digest: e.digest}}, nil
}

// applies reports whether the apply of a task waits for hold. A run that is claimed is not
// yet that far: it ends if the task is deleted before.
func (e *engine) applies(task string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.waiting, task)
}

// terraform is the driver of an engine.
type terraform struct {
	driver.Driver
	*engine
}

// Apply implements driver.Driver.
func (e terraform) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	t, out := job.Task, job.Output
	e.mu.Lock()
	hold := e.hold
	if hold != nil {
		e.waiting = append(e.waiting, t.Name)
	}
	e.mu.Unlock()
	if hold != nil {
		fmt.Fprintln(out, "Creating…")
		select {
		case <-hold:
		case <-ctx.Done():
			return driver.Outcome{}, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.applied = append(e.applied, t.Name)
	fmt.Fprintf(out, "Apply complete! for %s\n", t.Name)
	return driver.Outcome{Changes: &state.Changes{Add: 1, Resources: []state.Resource{{Address: "terraform_data.it", Action: "create"}}}}, e.broken[t.Name]
}

// somePlan has a value in every field.
var somePlan = []driver.ResourceChange{{
	Address: "terraform_data.it", Type: "terraform_data", Provider: "terraform.io/builtin/terraform", Action: driver.Replace,
	CreateFirst: true, Previous: "terraform_data.was", Imported: true, Deposed: true, Reason: "replace_because_tainted",
	Attributes: []driver.AttributeChange{{Path: "input", Before: json.Number("1"), After: false, Sensitive: true, Unknown: true, Replaces: true}},
}}

// Plan implements driver.Driver.
func (e terraform) Plan(_ context.Context, job driver.Job) (driver.Plan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.broken[job.Task.Name]; err != nil {
		return driver.Plan{}, err
	}
	return driver.Plan{Changes: cmp.Or(e.planned, &state.Changes{Add: 1}), Text: "Plan: 1 to add, 0 to change, 0 to destroy.", Resources: somePlan}, nil
}

// runs is how often a task was applied.
func (e *engine) runs(task string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range e.applied {
		if name == task {
			n++
		}
	}
	return n
}

// settled waits until a task has nothing to do.
func (e *engine) settled(task string) {
	e.t.Helper()
	eventually(e.t, task+" is settled", func() bool {
		rec, err := state.Read[state.Task](e.t.Context(), e.store, state.TaskKey(task))
		if err != nil {
			e.t.Fatal(err)
		}
		return rec.Data.Run == nil && rec.Data.Ended.Last != nil && rec.Data.Reason.Code == state.ReasonUnchanged
	})
}

func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for range 4000 {
		if so() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("not within 20 seconds: %s", what)
}

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   string
}

// json returns the body without what differs each time.
func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(a.body), &fields); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return fields
}

// message is the message of an error.
func (a answer) message(t testing.TB) string {
	t.Helper()
	var said apispec.ErrorResponse
	if err := json.Unmarshal([]byte(a.body), &said); err != nil || said.Error.Message == "" {
		t.Fatalf("no error: %s", a.body)
	}
	return said.Error.Message
}

// ask makes a request. What is described must be answered as it is described.
func (e *engine) ask(method, path, body string, header ...string) answer {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.server.URL+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	asDescribed(e.t, req, res, said)
	return answer{res.StatusCode, res.Header, string(said)}
}

func (e *engine) get(path string) answer { e.t.Helper(); return e.ask(http.MethodGet, path, "") }

// described is the description of the API, with its ways.
var described = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromData(apispec.Document)
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// asDescribed checks an answer against the description of the API.
func asDescribed(t testing.TB, req *http.Request, res *http.Response, body []byte) {
	t.Helper()
	router, err := described()
	if err != nil {
		t.Fatal(err)
	}
	clone := req.Clone(req.Context())
	clone.URL.Scheme, clone.URL.Host, clone.Host = "", "", ""
	route, params, err := router.FindRoute(clone)
	if undescribed := (*routers.RouteError)(nil); errors.As(err, &undescribed) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	err = openapi3filter.ValidateResponse(req.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: clone, PathParams: params, Route: route},
		Status:                 res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		t.Errorf("%s %s was answered otherwise than described: %v\n%s", req.Method, req.URL, err, body)
	}
}
