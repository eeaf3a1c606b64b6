package hcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

var (
	_ driver.Driver    = hcp.New(hcp.Options{})
	_ reconcile.Remote = hcp.New(hcp.Options{})
)

const module = `
variable "services" {}
variable "name" { default = "web" }
resource "terraform_data" "named" {
  input = var.name
}
`

// task is a task whose runs go on in the stand-in. Its methods do what the engine does.
type task struct {
	t      *testing.T
	hcp    *hcptest.Server
	driver *hcp.Driver
	job    driver.Job
	out    testtools.Output
	rec    state.Remote
	done   driver.Outcome           // of the latest step
	fail   func(state.Remote) error // of Write; nil for none
}

func newTask(t *testing.T, options ...hcptest.Option) *task {
	t.Helper()
	dir := t.TempDir()
	s := &task{t: t, hcp: hcptest.New(t, options...)}
	s.driver = s.newDriver()
	cfg := &config.Config{WorkingDir: filepath.Join(dir, "work"), OtherDriver: &config.Cloud{
		Hostname: s.hcp.URL, Organization: s.hcp.Organization, Token: s.hcp.Token, WorkspacePrefix: "net-", Tags: []string{config.CloudTag}}}
	s.job = driver.Job{Config: cfg, Snapshot: &consul.Snapshot{Blocks: []consul.Block{{Variable: "services"}}}, Output: &s.out, Continued: true,
		Run: state.Run{ID: "run1", Task: "web", Fence: 7}, Remote: s,
		Task: &config.Task{Name: "web", Module: filepath.Join(dir, "module"), WorkingDir: filepath.Join(dir, "work", "web"),
			Variables: map[string]cty.Value{"name": cty.StringVal("one")}}}
	s.module(module)
	return s
}

// Read implements driver.RemoteRecord.
func (s *task) Read(context.Context) (state.Remote, error) { return s.rec, nil }

// Write implements driver.RemoteRecord.
func (s *task) Write(_ context.Context, r state.Remote) error {
	if s.fail != nil {
		if err := s.fail(r); err != nil {
			return err
		}
	}
	s.rec = r
	return nil
}

// newDriver returns a driver that knows nothing, as that of a new process.
func (s *task) newDriver() *hcp.Driver {
	return hcp.New(hcp.Options{Wait: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(d, 50*time.Millisecond)):
			return nil
		}
	}})
}

func (s *task) module(text string) {
	s.t.Helper()
	s.write("main.tf", text)
}

// write writes a file of the module.
func (s *task) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.job.Task.Module, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		s.t.Fatal(err)
	}
}

// name changes what the module gets.
func (s *task) name(name string) {
	s.job.Task.Variables = map[string]cty.Value{"name": cty.StringVal(name)}
}

// next begins another run of the task.
func (s *task) next(id string) {
	s.job.Run = state.Run{ID: id, Task: "web", Fence: s.job.Run.Fence + 1}
}

// step is one call of the driver. It returns what the run waits for.
func (s *task) step() (*driver.WaitError, *state.Changes, error) {
	s.t.Helper()
	apply := s.driver.Apply
	if s.job.Run.Kind == state.KindDestroy {
		apply = s.driver.Destroy
	}
	var err error
	s.done, err = apply(s.t.Context(), s.job)
	var wait *driver.WaitError
	if errors.As(err, &wait) {
		w := wait.Wait
		s.job.Run.Wait, s.job.Run.Resumed, s.job.Run.Remote = &w, nil, &s.rec.Run
		return wait, s.done.Changes, nil
	}
	return nil, s.done.Changes, err
}

// waits is a step after which the run waits for this.
func (s *task) waits(what state.WaitFor) *driver.WaitError {
	s.t.Helper()
	wait, changes, err := s.step()
	if wait == nil || wait.Wait.For != what {
		s.t.Fatalf("the run has %+v, %v and waits for %+v, not for %s\n%s", changes, err, wait, what, s.out.String())
	}
	return wait
}

// planned begins a run, until its plan can be confirmed.
func (s *task) planned() {
	s.t.Helper()
	s.waits(state.WaitRemotePlan)
	s.poll(state.RemoteReady)
}

// waitsForApproval begins a run whose plan the judge makes wait.
func (s *task) waitsForApproval() {
	s.t.Helper()
	s.planned()
	s.waits(state.WaitApproval)
}

// poll polls until the remote run is in this phase.
func (s *task) poll(phase state.RemotePhase) state.RemoteStatus {
	s.t.Helper()
	return s.pollUntil(func(now state.RemotePhase) bool { return now == phase })
}

// pollPast polls until the remote run is in another phase.
func (s *task) pollPast(phase state.RemotePhase) {
	s.t.Helper()
	s.pollUntil(func(now state.RemotePhase) bool { return now != phase })
}

func (s *task) pollUntil(ends func(state.RemotePhase) bool) state.RemoteStatus {
	s.t.Helper()
	var status state.RemoteStatus
	var err error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var found map[string]state.RemoteStatus
		if found, err = s.driver.Poll(s.t.Context(), s.job.Config, []state.RemoteRun{s.rec.Run}); err != nil {
			continue // the engine polls again, too
		}
		if status = found[s.rec.Run.ID]; ends(status.Phase) {
			s.resume(status.Phase)
			return status
		}
	}
	s.t.Fatalf("the remote run is %+v (%v); %+v", status, err, s.hcp.Run(s.rec.Run.ID))
	return status
}

// resume does what the engine does when a run goes on.
func (s *task) resume(phase state.RemotePhase) {
	remote := s.rec.Run
	remote.Phase = phase
	s.job.Run.Resumed, s.job.Run.Remote = &state.Resume{}, &remote
}

// succeeds takes a run to its end.
func (s *task) succeeds() *state.Changes {
	s.t.Helper()
	for range 10 {
		wait, changes, err := s.step()
		switch {
		case err != nil:
			s.t.Fatalf("%v\n%s", err, s.out.String())
		case wait == nil:
			return changes
		case wait.Wait.For == state.WaitRemotePlan:
			s.pollPast(state.RemotePlanning)
		case wait.Wait.For == state.WaitRemote:
			s.poll(state.RemoteEnded)
		default:
			s.t.Fatalf("the run waits for %+v", wait.Wait)
		}
	}
	s.t.Fatal("the run does not end")
	return nil
}

// runs are the runs of the workspace.
func (s *task) runs() []hcptest.Run { return s.hcp.Workspace("net-web").Runs }

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// pool creates an agent pool, and returns its id.
func (s *task) pool(name string) string {
	s.t.Helper()
	return s.post("organizations/acme/agent-pools", `{"data": {"type": "agent-pools", "attributes": {"name": "`+name+`"}}}`)
}

// post creates something by the API, and returns its id.
func (s *task) post(path, body string) string {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.hcp.URL+"/api/v2/"+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.hcp.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct{ Data struct{ ID string } }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Data.ID == "" {
		s.t.Fatalf("POST %s: %s, %v", path, resp.Status, err)
	}
	return answer.Data.ID
}
