package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	tfdriver "github.com/terrapulse/terrapulse/internal/driver/terraform"
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const noBundle = "0000000000000000000000000000000000000000000000000000000000000000"

// catalog is a Consul with one service.
type catalog struct {
	snapshot func(ctx context.Context, task string)
}

func (catalog) Identify(context.Context, string) (state.Identity, error) {
	return state.Identity{}, nil
}

func (c catalog) Snapshot(ctx context.Context, t *config.Task) (*consul.Snapshot, error) {
	if c.snapshot != nil {
		c.snapshot(ctx, t.Name)
	}
	block := consul.Block{Variable: "services", Entries: condition.Instances{{ID: "web", Name: "web"}}}
	return &consul.Snapshot{Blocks: []consul.Block{block}, Condition: consul.Observation{Digest: "B"}}, nil
}

// container is a worker with a decided launch and a real Terraform.
type container struct {
	*worker
	t      *testing.T
	dir    string
	cfg    *config.Config
	store  *statetest.Faulty
	launch state.Launch
	out    *testtools.Output
}

// newContainer creates a launch with one run for each task, whose modules are in these folders.
func newContainer(t *testing.T, modules ...string) *container {
	t.Helper()
	return newContainerWith(t, `backend "local" {}`, modules...)
}

// newContainerWith also sets the backend of the tasks' states.
func newContainerWith(t *testing.T, backend string, modules ...string) *container {
	t.Helper()
	t.Setenv("TF_CLI_CONFIG_FILE", testtools.TerraformRC(t))
	t.Setenv("PATH", filepath.Dir(testtools.Terraform(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
	c := &container{t: t, dir: t.TempDir(), out: &testtools.Output{}}
	t.Chdir(c.dir) // the parent of the working directories
	text := "driver \"terraform\" {\n" + backend + "\n}\n"
	for i, module := range modules {
		text += fmt.Sprintf("task {\n  name = \"t%d\"\n  module = \"./m%d\"\n  condition \"services\" {\n    names = [\"web\"]\n  }\n}\n", i, i)
		c.write(fmt.Sprintf("m%d/main.tf", i), "variable \"services\" {}\n"+module)
	}
	c.write("tasks.hcl", text)
	c.cfg = loadTasks(t, c.dir)
	c.store = &statetest.Faulty{Store: openStore(t, c.dir)}
	c.worker = newTestWorker(c.store, c.cfg, c.out)
	c.decide("l1", state.KindApply)
	return c
}

func loadTasks(t testing.TB, dir string) *config.Config {
	t.Helper()
	cfg, err := config.Load(config.Options{Paths: []config.Path{{Name: "tasks.hcl"}}, Dir: dir, Getenv: func(string) string { return "" }, Hostname: "h"})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func openStore(t testing.TB, dir string) state.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

func newTestWorker(store state.Store, cfg *config.Config, out io.Writer) *worker {
	log := slog.New(slog.NewJSONHandler(out, nil))
	return &worker{
		runner:   &runner.Runner{Store: store, Owner: "host-1-task", ID: "task", Who: "terrapulse-l1@host", Environ: terraformcli.Environ, Now: time.Now, Log: log},
		bundle:   func(context.Context, string) (*config.Config, error) { return cfg, nil },
		connect:  func(config.Consul) (runner.Consul, error) { return catalog{}, nil },
		driver:   testDriver(store, log).prepare,
		parallel: 2,
		metrics:  metrics.New(out, "stack"),
		log:      log,
	}
}

// testDriver makes the driver of a container in tests.
func testDriver(store state.Store, log *slog.Logger) *terraformDriver {
	return &terraformDriver{Options: tfdriver.Options{Orphaned: tfdriver.Locks{Store: store, Log: log}.Orphaned, Log: log, Parallel: 2}}
}

func (c *container) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(c.dir, name))
	return string(text)
}

// decide writes a launch of every task, as a leader does.
func (c *container) decide(id string, kind state.Kind) {
	c.t.Helper()
	now := time.Now()
	c.launch = state.Launch{ID: id, Config: c.cfg.Digest(), Bundle: noBundle, Kind: kind, Fence: 1, Created: now}
	var changes []state.Change
	for i := range c.cfg.Tasks {
		name := c.cfg.Tasks[i].Name
		run := state.Run{ID: id + "-" + name, Task: name, Launch: id, Fence: 1, Kind: kind, State: state.RunIntended, Created: now, Seen: now.Add(-time.Minute)}
		c.launch.Runs = append(c.launch.Runs, state.PlannedRun{ID: run.ID, Task: name, Definition: c.cfg.Tasks[i].Digest(c.cfg)})
		changes = append(changes, state.Create(state.RunKey(name, run.ID), state.Encode(run)))
		if kind.Occupies() {
			task := state.Task{Observed: state.Observed{Digest: "B", At: now}, Run: &state.LiveRun{ID: run.ID, Launch: id, Created: now}}
			changes = append(changes, state.Create(state.TaskKey(name), state.Encode(task)))
		}
	}
	changes = append(changes, state.Create(state.LaunchKey(id), state.Encode(c.launch)))
	if _, err := c.store.Apply(c.t.Context(), changes...); err != nil {
		c.t.Fatal(err)
	}
}

// run returns the record of a task's run.
func (c *container) run(task string) state.Run {
	c.t.Helper()
	run, err := state.Read[state.Run](context.WithoutCancel(c.t.Context()), c.store, state.RunKey(task, c.launch.ID+"-"+task))
	if err != nil {
		c.t.Fatal(err)
	}
	return run.Data
}

const (
	good   = "resource \"local_file\" \"out\" {\n  filename = \"${path.module}/out\"\n  content = \"done\"\n}\n"
	broken = "resource \"local_file\" \"out\" {\n  filename = \"/proc/none/out\"\n  content = \"done\"\n}\n"
)

// slow creates a file when it has begun, and waits.
const slow = "resource \"terraform_data\" \"slow\" {\n  provisioner \"local-exec\" {\n    command = \"echo > ${path.module}/begun; exec sleep 300\"\n  }\n}\n"

func TestWork_ExecutesEveryRun(t *testing.T) {
	c := newContainer(t, good, broken, good)
	if err := c.work(t.Context(), "l1"); err != nil {
		t.Fatalf("a task that fails is no failure of the container: %v", err)
	}
	for task, want := range map[string]state.RunState{"t0": state.RunSucceeded, "t1": state.RunFailed, "t2": state.RunSucceeded} {
		if run := c.run(task); run.State != want || run.Owner != "host-1-task" || run.Who != "terrapulse-l1@host" || run.Logs == 0 ||
			run.Launched.IsZero() || run.Launched.After(run.Started) || run.Planned.Before(run.Started) {
			t.Errorf("%s: %+v", task, run)
		}
	}
	if c.read("m0/out") != "done" || c.read("m2/out") != "done" {
		t.Error("not everything was applied")
	}
	c.measured(metrics.RunsSucceeded, 2)
	c.measured(metrics.RunsFailed, 1)
	c.measured(metrics.SeenToAppliedSeconds, 2)
	c.measured(metrics.ResourcesDestroyed, 0)
	for _, want := range []string{`"msg":"launch begun"`, `"task":"t1","run":"l1-t1","fence":1`, `"msg":"launch ended"`} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, c.out)
		}
	}
}

// measured expects this number of lines with the metric.
func (c *container) measured(m metrics.Metric, want int) {
	c.t.Helper()
	n := 0
	for line := range strings.Lines(c.out.String()) {
		var values map[string]any
		if json.Unmarshal([]byte(line), &values) == nil && values[m.Name] != nil && values["_aws"] != nil {
			n++
		}
	}
	if n != want {
		c.t.Errorf("%d lines of metrics have %s, want %d", n, m.Name, want)
	}
}

func TestWorker_PlanRunIsNotMeasured(t *testing.T) {
	c := newContainer(t, good)
	c.decide("l2", state.KindPlan)
	if err := c.work(t.Context(), "l2"); err != nil {
		t.Fatal(err)
	}
	if run := c.run("t0"); run.State != state.RunSucceeded || run.Changes == nil || run.Changes.Add != 1 || c.read("m0/out") != "" {
		t.Errorf("the run reads %+v, the file %q", run, c.read("m0/out"))
	}
	text, err := state.LoadLog(t.Context(), c.store, "t0", "l2-t0")
	if err != nil || !strings.Contains(string(text), "1 to add") {
		t.Errorf("the plan is not kept: %q, %v", text, err)
	}
	c.measured(metrics.RunSeconds, 0)
}

func TestWork_LimitsParallelRuns(t *testing.T) {
	c := newContainer(t, good, good, good, good)
	var now, most atomic.Int32
	c.connect = func(config.Consul) (runner.Consul, error) {
		return catalog{func(ctx context.Context, _ string) {
			n := now.Add(1)
			defer now.Add(-1)
			for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
			}
			for deadline := time.Now().Add(10 * time.Second); most.Load() < 2 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // until a second run begins
			}
			for deadline := time.Now().Add(200 * time.Millisecond); most.Load() < 3 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // no third run may begin
			}
		}}, nil
	}
	if err := c.work(t.Context(), "l1"); err != nil || most.Load() != 2 {
		t.Errorf("%d at once, %v", most.Load(), err)
	}
}

func TestWork_RecordsAFailureOnItsRuns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*container)
		want  string
	}{
		{"the bundle cannot be read", func(c *container) {
			c.bundle = func(context.Context, string) (*config.Config, error) { return nil, errors.New("access denied") }
		}, "get the task files of the launch: access denied"},
		{"Consul's certificate is broken", func(c *container) {
			c.connect = func(config.Consul) (runner.Consul, error) { return nil, errors.New("no PEM data") }
		}, "set up the connection to Consul: no PEM data"},
		{"an image without Terraform", func(c *container) { c.t.Setenv("PATH", c.t.TempDir()) },
			"the runner's image cannot be used: no Terraform in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newContainer(t, good, good)
			tt.spoil(c)
			err := c.work(t.Context(), "l1")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			for _, task := range []string{"t0", "t1"} {
				if run := c.run(task); run.State != state.RunFailed || !strings.Contains(run.Error, tt.want) {
					t.Errorf("the run of %s reads %+v", task, run)
				}
				stored, err := state.Read[state.Task](t.Context(), c.store, state.TaskKey(task))
				if err != nil || stored.Data.Run != nil || stored.Data.Failing.Count != 1 || stored.Data.Failing.RetryAt.IsZero() {
					t.Errorf("%s reads %+v, %v", task, stored.Data, err)
				}
			}
		})
	}
}

func TestWork_RefusesAnotherDefinition(t *testing.T) {
	c := newContainer(t, good)
	other := *c.cfg
	other.Tasks = slices.Clone(other.Tasks)
	other.Tasks[0].Version = "2.0.0"
	c.bundle = func(context.Context, string) (*config.Config, error) { return &other, nil }
	if err := c.work(t.Context(), "l1"); err != nil {
		t.Fatal(err)
	}
	if run := c.run("t0"); run.State != state.RunSuperseded || !strings.Contains(run.Error, "decided on another definition") || c.read("m0/out") != "" {
		t.Errorf("the run reads %+v", run)
	}
}

func TestWork_RefusesAnotherLaunch(t *testing.T) {
	c := newContainer(t, good)
	c.bundle = func(context.Context, string) (*config.Config, error) {
		t.Error("the bundle was read")
		return nil, errors.New("not needed")
	}
	err := c.work(t.Context(), "l9")
	if err == nil || !strings.Contains(err.Error(), "the table has no launch l9") {
		t.Errorf("got %v", err)
	}
	// A launch without a bundle was never meant for a container.
	launch := c.launch
	launch.ID, launch.Bundle = "l8", ""
	if _, err := c.store.Apply(t.Context(), state.Create(state.LaunchKey("l8"), state.Encode(launch))); err != nil {
		t.Fatal(err)
	}
	if err := c.work(t.Context(), "l8"); err == nil || !strings.Contains(err.Error(), "has no bundle") {
		t.Errorf("got %v", err)
	}
	if run := c.run("t0"); run.State != state.RunIntended {
		t.Errorf("the run of another launch reads %+v", run)
	}
}

func TestWork_ReportsAnUnreadableTable(t *testing.T) {
	c := newContainer(t, good)
	c.worker.runner.Store = silent{}
	if err := c.work(t.Context(), "l1"); err == nil || err.Error() != "read launch l1: access denied" {
		t.Errorf("got %v", err)
	}
}

// silent is a table that cannot be read.
type silent struct{ state.Store }

func (silent) Get(context.Context, string) (state.Record, error) {
	return state.Record{}, errors.New("access denied")
}

func TestWork_ReportsUnrecordedOutcomes(t *testing.T) {
	c := newContainer(t, good, good)
	c.store.Before = func(changes []state.Change) error {
		for _, change := range changes {
			if change.Key == state.RunKey("t1", "l1-t1") {
				return errors.New("throttled")
			}
		}
		return nil
	}
	err := c.work(t.Context(), "l1")
	if err == nil || err.Error() != "1 of 2 runs of launch l1 have no outcome in the table" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(c.out.String(), "throttled") || c.run("t0").State != state.RunSucceeded {
		t.Errorf("the log says %s", c.out)
	}
}

func TestWork_StopInterruptsTerraformAndStartsNoRun(t *testing.T) {
	c := newContainer(t, slow, good)
	c.parallel = 1
	ctx, stop := context.WithCancelCause(t.Context())
	go func() {
		for deadline := time.Now().Add(time.Minute); c.read("m0/begun") == "" && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		stop(errStopped)
	}()
	if err := c.work(ctx, "l1"); err != nil {
		t.Errorf("got %v, and it did as it was told", err)
	}
	c.measured(metrics.RunsInterrupted, 1)
	if run := c.run("t0"); run.State != state.RunInterrupted || !strings.Contains(run.Error, "interrupted: ECS stopped the container") {
		t.Errorf("the run that was under way reads %+v", run)
	}
	if run := c.run("t1"); run.State != state.RunIntended {
		t.Errorf("the run that had not begun reads %+v", run)
	}
	if !strings.Contains(c.out.String(), `"runs":1`) {
		t.Errorf("nobody is told: %s", c.out)
	}
}

func TestWork_StopBeforeTheBundleIsRead(t *testing.T) {
	c := newContainer(t, good)
	ctx, stop := context.WithCancelCause(t.Context())
	c.bundle = func(context.Context, string) (*config.Config, error) {
		stop(errStopped)
		return nil, ctx.Err()
	}
	if err := c.work(ctx, "l1"); err != nil {
		t.Errorf("got %v", err)
	}
	if run := c.run("t0"); run.State != state.RunIntended {
		t.Errorf("the run reads %+v", run)
	}
}

func TestFindTerraform_DownloadsAConfiguredVersion(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // nothing is reached
	_, err := findTerraform(t.Context(), config.Terraform{Path: t.TempDir(), Version: "1.9.5"}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "could not be installed") {
		t.Errorf("got %v", err)
	}
	var none *terraformcli.Binary
	if none, err = findTerraform(t.Context(), config.Terraform{Path: t.TempDir()}, slog.New(slog.DiscardHandler)); err == nil || strings.Contains(err.Error(), "installed") {
		t.Errorf("got %v, %v", none, err)
	}
}

func TestMeasure_DestroyedResourcesAreCounted(t *testing.T) {
	var out bytes.Buffer
	w := newTestWorker(nil, nil, &out)
	w.measure(state.Run{Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Changes: &state.Changes{Add: 1, Destroy: 2}}})
	if !strings.Contains(out.String(), `"ResourcesDestroyed":2`) {
		t.Error(out.String())
	}
}
