package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/aws/ecs"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/base/logging"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
)

// patience limits how long a test waits.
const patience = 20 * time.Second

// The names in testdata/stopped.json.
const (
	cluster  = "arn:aws:ecs:eu-west-1:111122223333:cluster/prod"
	taskID   = "cd189a933e5849daa93386466019ab50"
	launchID = "0190b5a0-0000-7000-8000-000000000001"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// fixture is a handler with its dependencies.
type fixture struct {
	handler
	t       *testing.T
	logged  *output
	invoked int   // number of invocations of reconcile
	refuse  error // by Lambda
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	b := &fixture{t: t, logged: &output{}}
	b.handler = handler{store: store, cluster: cluster, family: "prod-runner", now: func() time.Time { return noon },
		log: logging.JSON(b.logged, slog.LevelInfo), metrics: metrics.New(b.logged, "prod"),
		proceed: func(context.Context) error {
			b.invoked++
			return b.refuse
		}}
	return b
}

// launch writes a launch with one run for each task. If a runner is named, it has claimed them.
func (b *fixture) launch(runner string, tasks ...string) state.Launch {
	b.t.Helper()
	launch := state.Launch{ID: uuid.Must(uuid.NewV7()).String(), Kind: state.KindApply, Fence: 3}
	var changes []state.Change
	for _, task := range tasks {
		run := state.Run{ID: uuid.Must(uuid.NewV7()).String(), Task: task, Kind: state.KindApply, Launch: launch.ID, Fence: 3, State: state.RunIntended, Created: noon}
		if runner != "" {
			run.State, run.Owner, run.Runner, run.Claim, run.Expires = state.RunRunning, "host-1-"+runner, runner, "claim", noon.Add(time.Minute)
		}
		launch.Runs = append(launch.Runs, state.PlannedRun{ID: run.ID, Task: task})
		changes = append(changes, state.Create(state.RunKey(task, run.ID), state.Encode(run)),
			state.Create(state.TaskKey(task), state.Encode(state.Task{Run: &state.LiveRun{ID: run.ID, Launch: launch.ID, Created: noon}})))
	}
	changes = append(changes, state.Create(state.LaunchKey(launch.ID), state.Encode(launch)))
	if _, err := b.store.Apply(b.t.Context(), changes...); err != nil {
		b.t.Fatal(err)
	}
	return launch
}

func (b *fixture) run(planned state.PlannedRun) state.Run {
	b.t.Helper()
	run, err := state.Read[state.Run](b.t.Context(), b.store, state.RunKey(planned.Task, planned.ID))
	if err != nil || !run.Exists() {
		b.t.Fatalf("the run of %s: %v", planned.Task, err)
	}
	return run.Data
}

func (b *fixture) failures(task string) int {
	b.t.Helper()
	t, err := state.Read[state.Task](b.t.Context(), b.store, state.TaskKey(task))
	if err != nil {
		b.t.Fatal(err)
	}
	return t.Data.Failing.Count
}

// invoke sends a payload as Lambda does.
func (b *fixture) invoke(payload []byte) error {
	b.t.Helper()
	_, err := lambda.NewHandler(b.handle).Invoke(b.t.Context(), payload)
	return err
}

// stopped returns the event of the task's end, as documented.
func stopped(t *testing.T, launch string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/stopped.json")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(text, []byte(launchID), []byte(launch))
}

// with returns the event with other words in it.
func with(event []byte, oldNew ...string) []byte {
	return []byte(strings.NewReplacer(oldNew...).Replace(string(event)))
}

// output collects the log.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

func TestHandle_SettlesTheRunsOfADeadContainer(t *testing.T) {
	b := newFixture(t)
	launch := b.launch(taskID, "web", "api")
	if err := b.invoke(stopped(t, launch.ID)); err != nil {
		t.Fatal(err)
	}
	for _, planned := range launch.Runs {
		if run := b.run(planned); run.State != state.RunLost || !strings.Contains(run.Error, "its container ran out of memory") ||
			!strings.Contains(run.Error, "OutOfMemoryError: Container killed due to memory usage") {
			t.Errorf("the run of %s is %s: %s", run.Task, run.State, run.Error)
		}
		if n := b.failures(planned.Task); n != 1 {
			t.Errorf("%s counts %d failures", planned.Task, n)
		}
	}
	if b.invoked != 1 {
		t.Errorf("reconcile was invoked %d times", b.invoked)
	}
	for _, says := range []string{`"RunsLost":2`, `"msg":"a run was lost"`, `"run":"` + launch.Runs[0].ID, `"fence":3`, `"ecs_task":"` + taskID} {
		if !strings.Contains(b.logged.String(), says) {
			t.Errorf("%s is not in the log:\n%s", says, b.logged)
		}
	}
}

func TestHandle_DuplicateAndLateEvents(t *testing.T) {
	b := newFixture(t)
	first := b.launch(taskID, "web")
	event := stopped(t, first.ID)
	early := with(event, `"lastStatus": "STOPPED",
    "memory"`, `"lastStatus": "RUNNING",
    "memory"`)
	if bytes.Equal(early, event) {
		t.Fatal("the event is as it was")
	}
	for _, payload := range [][]byte{event, event, early} {
		if err := b.invoke(payload); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.failures("web"); n != 1 || b.invoked != 2 {
		t.Errorf("%d failures are counted, reconcile was invoked %d times", n, b.invoked)
	}

	// The task runs again in another launch when the event comes once more.
	again := state.Run{ID: "again", Task: "web", Kind: state.KindApply, Launch: "second", State: state.RunRunning, Claimed: state.Claimed{Owner: "host-1-other", Runner: "other"}}
	task, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey("web"))
	if err != nil {
		t.Fatal(err)
	}
	task.Data.Run = &state.LiveRun{ID: "again", Launch: "second"}
	if _, err := b.store.Apply(t.Context(), task.Write(task.Data), state.Create(state.RunKey("web", "again"), state.Encode(again))); err != nil {
		t.Fatal(err)
	}
	if err := b.invoke(event); err != nil {
		t.Fatal(err)
	}
	if run := b.run(state.PlannedRun{ID: "again", Task: "web"}); run.State != state.RunRunning || b.failures("web") != 1 {
		t.Errorf("the run of the next launch is %s, %d failures are counted", run.State, b.failures("web"))
	}
}

func TestHandle_RunsOfAnotherContainerContinue(t *testing.T) {
	b := newFixture(t)
	launch := b.launch("0123456789abcdef0123456789abcdef", "web")
	if err := b.invoke(stopped(t, launch.ID)); err != nil {
		t.Fatal(err)
	}
	if run := b.run(launch.Runs[0]); run.State != state.RunRunning {
		t.Errorf("it is %s: %s", run.State, run.Error)
	}
}

func TestHandle_ContainerThatNeverStarted(t *testing.T) {
	b := newFixture(t)
	launch := b.launch("", "web")
	event := with(stopped(t, launch.ID), `"TERRAPULSE_LAUNCH"`, `"OTHER"`, `"exitCode": 137,`, ``,
		"OutOfMemoryError: Container killed due to memory usage", "", "EssentialContainerExited", "TaskFailedToStart",
		"Essential container in task exited", "CannotPullContainerError: not found")
	if err := b.invoke(event); err != nil {
		t.Fatal(err)
	}
	if run := b.run(launch.Runs[0]); run.State != state.RunLost || !strings.Contains(run.Error, "its image cannot be pulled") {
		t.Errorf("it is %s: %s", run.State, run.Error)
	}
}

func TestHandle_InvokesReconcileAfterANormalEnd(t *testing.T) {
	b := newFixture(t)
	if err := b.invoke(stopped(t, "0190b5a0-0000-7000-8000-000000000000")); err != nil {
		t.Fatal(err)
	}
	if b.invoked != 1 || strings.Contains(b.logged.String(), "RunsLost") {
		t.Errorf("invoked %d times; logged\n%s", b.invoked, b.logged)
	}
}

func TestHandle_DropsOtherEvents(t *testing.T) {
	event := stopped(t, "l-1")
	for _, tt := range []struct {
		name    string
		payload []byte
		says    string
	}{
		{"an empty object", []byte(`{}`), "not a task state change of ECS"},
		{"a list", []byte(`[1]`), "not an event of EventBridge"},
		{"a text", []byte(`"hello"`), "not an event of EventBridge"},
		{"null", []byte(`null`), "not a task state change of ECS"},
		{"a megabyte", []byte(`{"source":"` + strings.Repeat("x", 1<<20) + `"}`), "not a task state change of ECS"},
		{"another source", with(event, "aws.ecs", "aws.s3"), `from \"aws.s3\"`},
		{"another event of ECS", with(event, "ECS Task State Change", "ECS Deployment State Change"), "ECS Deployment State Change"},
		{"no detail", []byte(`{"source":"aws.ecs","detail-type":"ECS Task State Change"}`), "detail cannot be decoded"},
		{"a detail of another shape", []byte(`{"source":"aws.ecs","detail-type":"ECS Task State Change","detail":{"containers":7}}`), "detail cannot be decoded"},
		{"an empty detail", []byte(`{"source":"aws.ecs","detail-type":"ECS Task State Change","detail":{}}`), "has no task"},
		{"another cluster", with(event, "cluster/prod", "cluster/other"), "cluster/other, not"},
		{"another family", with(event, "task-definition/prod-runner", "task-definition/web"), "not of family prod-runner"},
		{"a task of someone else", with(event, `"TERRAPULSE_LAUNCH"`, `"OTHER"`, `"startedBy": "l-1"`, `"startedBy": ""`), "was not started by Terrapulse"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newFixture(t)
			if err := b.invoke(tt.payload); err != nil {
				t.Errorf("it would be tried again: %v", err)
			}
			if !strings.Contains(b.logged.String(), tt.says) || b.invoked != 0 {
				t.Errorf("invoked %d times; logged %s, want %q", b.invoked, b.logged, tt.says)
			}
			if len(b.logged.String()) > 2000 {
				t.Errorf("logged %d bytes", len(b.logged.String()))
			}
		})
	}
}

func TestHandle_RefusedRequestsAreRetried(t *testing.T) {
	b := newFixture(t)
	launch := b.launch(taskID, "web", "api")
	event := stopped(t, launch.ID)
	writes := 0
	b.store = &statetest.Faulty{Store: b.store, Before: func([]state.Change) error {
		if writes++; writes == 2 {
			return errors.New("throttled")
		}
		return nil
	}}
	if err := b.invoke(event); err == nil || !strings.Contains(err.Error(), "throttled") || !strings.Contains(err.Error(), launch.ID) {
		t.Errorf("said %v", err)
	}
	if b.invoked != 0 || !strings.Contains(b.logged.String(), `"RunsLost":1`) {
		t.Errorf("invoked %d times; logged %s", b.invoked, b.logged)
	}
	b.refuse = errors.New("TooManyRequestsException")
	if err := b.invoke(event); err == nil || !strings.Contains(err.Error(), "TooManyRequestsException") {
		t.Errorf("said %v", err)
	}
	b.refuse = nil
	if err := b.invoke(event); err != nil {
		t.Error(err)
	}
	if b.failures("web") != 1 || b.failures("api") != 1 || b.invoked != 2 {
		t.Errorf("failures %d and %d, invoked %d times", b.failures("web"), b.failures("api"), b.invoked)
	}
}

func TestHandle_SettlesALaunchOnECSWithAnyOrderOfEvents(t *testing.T) {
	b := newFixture(t)
	s := ecstest.Start(t, ecstest.Options{Events: func(event []byte) {
		if err := b.invoke(event); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}})
	client := awsecs.NewFromConfig(aws.Config{Region: ecstest.Region, BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
	launcher := &ecs.Launcher{Client: client, Cluster: s.Cluster(), TaskDefinition: s.TaskDefinition(), Subnets: []string{"subnet-1"}, Now: time.Now}
	b.cluster, b.family = s.Cluster(), ecstask.Family(s.TaskDefinition())

	launch := b.launch("", "web")
	s.Hold()
	if err := launcher.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	task := s.Tasks(launch.ID)[0]
	s.Kill(task, "OutOfMemoryError: Container killed due to memory usage")
	for deadline := time.Now().Add(patience); s.LastStatus(task) != "STOPPED"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the task does not stop")
		}
	}
	s.Release(2, true)
	s.Close() // when all events are delivered
	if run := b.run(launch.Runs[0]); run.State != state.RunLost || !strings.Contains(run.Error, "ran out of memory") {
		t.Errorf("the run is %s: %s", run.State, run.Error)
	}
	if b.failures("web") != 1 || b.invoked != 2 {
		t.Errorf("%d failures, reconcile invoked %d times", b.failures("web"), b.invoked)
	}
}

func TestHandle_LostRunsAreThoseOfTheLaunchThatTheContainerHadTaken(t *testing.T) {
	b := newFixture(t)
	first, taken := b.launch("", "api"), b.launch(taskID, "web")
	launch, err := state.Read[state.Launch](t.Context(), b.store, state.LaunchKey(first.ID))
	if err != nil {
		t.Fatal(err)
	}
	launch.Data.Linger, launch.Data.Runs = time.Minute, nil // they have ended
	lingers := state.Runner{ID: taskID, Until: noon, Launch: taken.ID}
	if _, err := b.store.Apply(t.Context(), launch.Write(launch.Data), state.Create(state.RunnerKey(taskID), state.Encode(lingers))); err != nil {
		t.Fatal(err)
	}
	if err := b.invoke(stopped(t, first.ID)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.logged.String()) {
		if strings.Contains(line, `"msg":"a run was lost"`) && strings.Contains(line, `"run":"`+taken.Runs[0].ID) && !strings.Contains(line, `"launch":`) {
			return
		}
	}
	t.Errorf("no line says that a run of launch %s was lost:\n%s", taken.ID, b.logged)
}
