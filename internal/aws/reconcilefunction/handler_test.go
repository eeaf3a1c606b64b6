package reconcilefunction

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestReconcile_RunsOnlyWhatChanged(t *testing.T) {
	s := newStack(t, "web", "api")
	h := s.process()
	answer := s.must(h, schedule)
	if len(answer.Launches) != 1 || len(answer.Runs) != 2 || len(answer.Decisions) != 2 || answer.Bundle != "b1" {
		t.Fatalf("%+v", answer)
	}
	if d := answer.Decisions[0]; d.Task != "web" || !d.Run || d.Reason.Code != state.ReasonFirst {
		t.Errorf("%+v", d)
	}
	s.end(state.RunSucceeded)
	s.must(h, `{"mode":"reconcile","ended":true}`)
	s.measured()
	reads := s.reads
	if answer := s.must(h, schedule); !answer.Idle || len(answer.Launches) != 0 {
		t.Errorf("%+v", answer)
	}
	if s.reads != reads {
		t.Error("an idle tick reads the bundle's pointer")
	}
	want := map[string]float64{"Ticks": 1, "IdleTicks": 1, "GoodTicks": 1, "LastGoodTickAge": 0, "FailuresInARow": 0}
	if got := s.measured(); !maps.Equal(got, want) {
		t.Errorf("measured %v", got)
	}
	s.digest = "B"
	if answer := s.must(h, schedule); len(answer.Runs) != 2 || answer.Decisions[0].Reason.Code != state.ReasonChanged {
		t.Errorf("%+v", answer)
	}
	if got := s.measured(); got["ChangesSeen"] != 2 {
		t.Errorf("measured %v", got)
	}
}

func TestHandle_LogLinesNameTheirTick(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	var log bytes.Buffer
	h.log = slog.New(slog.NewJSONHandler(&log, nil))
	for _, id := range []string{"request-1", "request-2"} {
		log.Reset()
		s.digest = id
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: id})
		if _, err := h.Handle(ctx, json.RawMessage(schedule)); err != nil {
			t.Fatal(err)
		}
		decided := false
		for line := range strings.Lines(log.String()) {
			decided = decided || strings.Contains(line, "run decided")
			if !strings.Contains(line, `"tick":"`+id+`"`) {
				t.Errorf("no tick %s in %s", id, line)
			}
		}
		if !decided {
			t.Errorf("nothing was decided in %s:\n%s", id, log.String())
		}
		s.end(state.RunSucceeded)
	}
}

func TestReconcile_OneOfTwoInvocationsLeads(t *testing.T) {
	s := newStack(t, "web")
	held, err := lease.Acquire(t.Context(), s.store, state.LeaderLease, "another", lease.Options{TTL: leaseTTL})
	if err != nil {
		t.Fatal(err)
	}
	answer := s.must(s.process(), schedule)
	if !strings.Contains(answer.Skipped, "another") || len(s.started) != 0 {
		t.Errorf("%+v", answer)
	}
	got := s.measured()
	if got["LeaseRefused"] != 1 || got["GoodTicks"] != 0 {
		t.Errorf("measured %v", got)
	}
	if n, ok := got["FailuresInARow"]; ok {
		t.Errorf("a tick that has read no task measured %v failures: the alarm would be over", n)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.must(s.process(), schedule)
	if len(s.started) != 1 {
		t.Errorf("%d launches", len(s.started))
	}
}

// The leader may have read the records before.
func TestReconcile_RequestOrEndOfARunWaitsForTheLeader(t *testing.T) {
	for _, reason := range []string{"ended", "notified"} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t, "web")
				h := s.changed()
				s.leads("another", 2*time.Second)
				if answer := s.must(h, `{"mode":"reconcile","`+reason+`":true}`); answer.Skipped != "" || len(s.started) != 2 {
					t.Errorf("%+v; %d launches", answer, len(s.started))
				}
			})
		})
	}
}

func TestReconcile_LaterLeaderServesAllEndsOfRuns(t *testing.T) {
	for reason, served := range map[string]bool{"ended": true, "notified": false, "refresh": false} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStack(t, "web")
				h := s.changed()
				s.leads("another", 1500*time.Millisecond)
				go func() {
					time.Sleep(1600 * time.Millisecond)
					s.leads("a third", 20*time.Second)
				}()
				began := time.Now()
				answer := s.must(h, `{"mode":"reconcile","`+reason+`":true}`)
				if took := time.Since(began); (answer.Skipped != "") != served || (took < 10*time.Second) != served {
					t.Errorf("after %s: %+v", took, answer)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestOnce_RunsTheRequestedTasksAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web", "api", "db")
		h := s.process()
		s.must(h, schedule)
		s.end(state.RunSucceeded)
		time.Sleep(time.Minute)
		s.must(h, schedule)
		s.leads("a tick on its way", 2*time.Second)
		go func() {
			time.Sleep(7 * time.Second)
			s.end(state.RunSucceeded)
		}()
		answer := s.must(h, `{"mode":"once","tasks":["db","web"],"wait":true}`)
		if len(answer.Runs) != 2 {
			t.Fatalf("%+v", answer)
		}
		for _, run := range answer.Runs {
			if run.State != state.RunSucceeded || run.Ended == nil || run.Task == "api" {
				t.Errorf("%+v", run)
			}
		}
	})
}

func TestOnce_WaitEndsBeforeTheInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		began := time.Now()
		answer := s.must(s.process(), `{"mode":"once","wait":true}`)
		if took := time.Since(began); took > time.Minute-reserve || took < 30*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(answer.Runs) != 1 || answer.Runs[0].State != state.RunIntended {
			t.Errorf("%+v", answer)
		}
	})
}

func TestOnce_WithoutTimeLeftStartsNoLaunch(t *testing.T) {
	s := newStack(t, "web")
	ctx, stop := context.WithTimeout(t.Context(), launchReserve-time.Second)
	defer stop()
	answer, err := s.process().Handle(ctx, json.RawMessage(schedule))
	if err != nil || len(answer.Launches) != 0 || len(answer.Decisions) != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
	if answer := s.must(s.process(), schedule); len(answer.Launches) != 1 {
		t.Errorf("the next one: %+v", answer)
	}
}

func TestInspect_DoesNotChangeTheTasks(t *testing.T) {
	s := newStack(t, "web", "api")
	h := s.process()
	answer := s.must(h, `{"mode":"inspect"}`)
	if len(answer.Runs) != 2 || len(s.started) != 1 || s.started[0].Kind != state.KindPlan || s.started[0].Bundle != "b1" {
		t.Fatalf("%+v, %+v", answer, s.started)
	}
	tasks, err := state.ReadAll[state.Task](t.Context(), s.store, state.TaskPrefix)
	if err != nil || len(tasks) != 0 {
		t.Errorf("%+v, %v", tasks, err)
	}
}

// A bundle that was never pushed is planned, also if no bundle is in force.
func TestInspect_PlansABundleThatIsNotInForce(t *testing.T) {
	s := newStack(t)
	s.push("b1", "web", "api")
	s.pointer = ""
	answer := s.must(s.process(), `{"mode":"inspect","bundle":"b1","tasks":["api"]}`)
	if len(answer.Runs) != 1 || answer.Bundle != "b1" || len(s.started) != 1 || s.started[0].Kind != state.KindPlan || s.started[0].Bundle != "b1" {
		t.Fatalf("%+v, %+v", answer, s.started)
	}
	if now := s.record().Bundle; now != "" {
		t.Errorf("bundle %s is in force", now)
	}
	if _, err := s.invoke(s.process(), `{"mode":"inspect","bundle":"b1","tasks":["db"]}`); err == nil || !strings.Contains(err.Error(), `task "db" is not in the bundle b1`) {
		t.Errorf("%v", err)
	}
}

func TestHandle_RefusesInvalidRequests(t *testing.T) {
	s := newStack(t, "web")
	s.configs["b1"].Tasks = append(s.configs["b1"].Tasks, config.Task{Name: "off"})
	for payload, says := range map[string]string{
		`{"mode":"once","tasks":["nope"]}`:        `task "nope" is not in the bundle b1`,
		`{"mode":"inspect","tasks":["nope"]}`:     `task "nope" is not in the bundle b1`,
		`{"mode":"once","tasks":["off"]}`:         `task "off" is disabled`,
		`{"mode":"explode"}`:                      "is unknown",
		`{"detail-type":"EC2 State Change"}`:      "unknown field",
		`[` + strings.Repeat("1,", 500000) + `1]`: "send at most",
	} {
		if _, err := s.invoke(s.process(), payload); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v", payload, err)
		}
	}
	if len(s.started) != 0 {
		t.Errorf("launched %+v", s.started)
	}
}

// Who may invoke only the alias inspect, such as a workflow of pull requests, runs nothing.
func TestHandle_AliasInspectOnlyPlans(t *testing.T) {
	s := newStack(t, "web")
	s.must(s.process(), schedule)
	s.end(state.RunSucceeded)
	const function = "arn:aws:lambda:eu-west-1:123456789012:function:prod-reconcile"
	pushed := `{"source":"aws.s3","detail-type":"Object Created"}`
	for _, payload := range []string{schedule, pushed, `{"mode":"once"}`, `{"mode":"doctor"}`, `{"mode":"output","tasks":["web"],"run":"1"}`, `{"mode":"inspect","tasks":["web"]}`} {
		for alias, permits := range map[string]bool{"": true, ":inspect": strings.Contains(payload, "inspect"), ":other": true} {
			began := len(s.started)
			ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{InvokedFunctionArn: function + alias})
			_, err := s.process().Handle(ctx, json.RawMessage(payload))
			if permits != (err == nil) || !permits && (!strings.Contains(err.Error(), "only plans: invoke the function itself") || len(s.started) > began) {
				t.Errorf("%s by the alias %q: %v", payload, alias, err)
			}
		}
	}
}

func TestReconcile_ContinuesAfterAnOutageOfConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		s.must(h, schedule)
		s.end(state.RunSucceeded)
		time.Sleep(time.Minute)
		s.must(h, schedule)
		s.measured()
		s.gone = errors.New("connection refused")
		for range 15 {
			time.Sleep(time.Minute)
			if answer := s.must(h, schedule); !strings.Contains(answer.Problem, "connection refused") || len(answer.Launches) != 0 {
				t.Fatalf("%+v", answer)
			}
		}
		got := s.measured()
		if got["GoodTicks"] != 0 || got["ConsulErrors"] < 15 || got["LastGoodTickAge"] < 15*60 {
			t.Errorf("measured %v", got)
		}
		if rec := s.record(); !strings.Contains(rec.ConsulError, "connection refused") {
			t.Errorf("status would not say so: %+v", rec)
		}
		s.gone, s.digest = nil, "B"
		time.Sleep(time.Minute)
		if answer := s.must(h, schedule); len(answer.Runs) != 1 || answer.Problem != "" {
			t.Errorf("%+v", answer)
		}
	})
}

func TestReconcile_RetriesALaunchWithoutCapacity(t *testing.T) {
	s := newStack(t, "web")
	s.running = false
	h := s.process()
	s.refuse = errors.New("no capacity")
	answer := s.must(h, schedule)
	if !strings.Contains(answer.Problem, "no capacity") || !strings.Contains(s.record().Stalled, "no capacity") || s.measured()["GoodTicks"] != 0 {
		t.Fatalf("%+v", answer)
	}
	s.refuse = nil
	s.must(h, schedule)
	if len(s.started) != 1 || s.started[0].ID != answer.Launches[0] {
		t.Errorf("started %+v, decided %v", s.started, answer.Launches)
	}
}

func TestReconcile_WindowEndsBeforeTheInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		h.window = 50 * time.Second
		began := time.Now()
		answer := s.must(h, `{"mode":"reconcile","window":true}`)
		if took := time.Since(began); took < 40*time.Second || took > time.Minute-reserve {
			t.Errorf("it took %s", took)
		}
		if len(answer.Launches) != 1 {
			t.Errorf("%+v", answer)
		}
	})
}

// Otherwise forty ended containers would be forty invocations that keep polling Consul, and a push
// of a bundle would wait for a minute.
func TestReconcile_OnlyRequestsWithAWindowContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		h.window = 50 * time.Second
		for n, payload := range []string{
			`{"mode":"reconcile"}`, `{"mode":"reconcile","ended":true}`, `{"mode":"reconcile","refresh":true}`,
			`{"source":"aws.s3","detail-type":"Object Created","detail":{}}`,
		} {
			began := time.Now()
			if answer := s.must(h, payload); len(answer.Launches) != 1 {
				t.Errorf("%s: %+v", payload, answer)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s took %s", payload, took)
			}
			s.end(state.RunSucceeded)
			s.digest = fmt.Sprint(n)
		}
	})
}

func TestReconcile_WindowUsesANewBundleInForce(t *testing.T) {
	const window = `{"mode":"reconcile","window":true}`
	s := newStack(t, "web")
	h := s.process()
	h.window = time.Nanosecond
	s.must(h, window)
	s.push("b2", "db")
	s.must(s.process(), schedule)
	if answer := s.must(h, window); answer.Bundle != "b2" {
		t.Errorf("%+v", answer)
	}
}

func TestDoctor_ReportsProblemsAndFixes(t *testing.T) {
	s := newStack(t, "web")
	h := s.process()
	h.engine.common.Stack, h.engine.common.BeginsPaused = "network", true
	h.checks = []doctor.Check{{Name: "table", Look: func(context.Context) (string, error) { return "", errors.New("no such table") }, Fix: "deploy the stack again"}}
	answer := s.must(h, `{"mode":"doctor"}`)
	found := map[string]invoke.Check{}
	for _, c := range answer.Checks {
		found[c.Name] = c
	}
	if c := found["consul"]; !c.OK || answer.Enabled != "web" {
		t.Errorf("%+v, and %q is to be planned", c, answer.Enabled)
	}
	if c := found["table"]; c.OK || c.Found != "no such table" || c.Fix != "deploy the stack again" {
		t.Errorf("%+v", c)
	}
	for name, want := range map[string]string{"tasks": "1 soon", "bundle": "b1 with 1 task; the loss of the last entry is applied without an approval (guard { on_empty = \"hold\" } holds it): web", "consul rights": "1 condition can be read",
		"paused": "the next tick pauses the new deployment: nothing is applied until `terrapulse resume -stack=network`"} {
		if c := found[name]; !c.OK || c.Found != want {
			t.Errorf("%+v, want %q", c, want)
		}
	}
	failing := state.Task{Failing: state.Failing{Count: 2}, Reason: state.Reason{Code: state.ReasonBackoff}}
	if _, err := s.store.Apply(t.Context(), state.Create(state.TaskKey("web"), state.Encode(failing))); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
		if c.Name == "tasks" && (c.OK || c.Found != "1 failing (failing: web)" || c.Fix == "") {
			t.Errorf("%+v", c)
		}
	}
	s.gone = errors.New("i/o timeout")
	for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
		if strings.HasPrefix(c.Name, "consul") && (c.OK || c.Fix == "") {
			t.Errorf("%+v", c)
		}
	}
	s.pointer, s.wrong["b2"] = "b2", "bad.yaml:1: nonsense"
	for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
		if c.Name == "bundle" && (c.OK || !strings.Contains(c.Found, "bad.yaml:1")) {
			t.Errorf("%+v", c)
		}
	}
}

func TestMeasure_UnreadableAndUnpolledTasksAreCounted(t *testing.T) {
	if got := measure(reconcile.Report{Record: state.Reconcile{Unpolled: &state.Unpolled{Count: 3}}}, time.Now())[metrics.TasksUnpolled]; got != 3 {
		t.Errorf("TasksUnpolled = %g", got)
	}
	if got := measure(reconcile.Report{Record: state.Reconcile{Unreadable: &state.Unreadable{Count: 2}}}, time.Now())[metrics.TasksUnreadable]; got != 2 {
		t.Errorf("TasksUnreadable = %g", got)
	}
	if _, written := measure(reconcile.Report{}, time.Now())[metrics.TasksUnreadable]; written {
		t.Error("a metric is written, and paid for, where all tasks can be read")
	}
}

func TestMeasure_WritesStatesOfTasksIfThereAreAny(t *testing.T) {
	now := time.Now()
	got := measure(reconcile.Report{Record: state.Reconcile{Unreadable: &state.Unreadable{Count: 1}, Tasks: state.TaskCounts{Phases: map[string]int{"failing": 2, "soon": 1, "waiting": 6, "stopped": 3, "drifted": 4}, Approval: 5}}}, now)
	want := metrics.Values{metrics.Ticks: 1, metrics.FailuresInARow: 0, metrics.TasksUnreadable: 1, metrics.TasksIn(lifecycle.Failing): 2, metrics.TasksIn(lifecycle.Soon): 1, metrics.TasksIn(lifecycle.Waiting): 6, metrics.TasksIn(lifecycle.Stopped): 3, metrics.TasksApproval: 5, metrics.TasksIn(lifecycle.Drifted): 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDoctor_EmptyAnswerWithoutRightsIsAProblem(t *testing.T) {
	server := consultest.Start(t, consultest.WithACLs())
	s := newStack(t, "web")
	for token, ok := range map[string]bool{"": false, consultest.ManagementToken: true} {
		reader, err := consul.New(config.Consul{Address: server.Addr(), Token: token})
		if err != nil {
			t.Fatal(err)
		}
		h := s.process()
		h.engine.connect = func(context.Context, config.Consul) (consulClient, error) {
			return &client{connection: connection{Client: reader}}, nil
		}
		for _, c := range s.must(h, `{"mode":"doctor"}`).Checks {
			if c.Name == "consul rights" && (c.OK != ok || !ok && (!strings.Contains(c.Found, "service:read") || !strings.Contains(c.Fix, "consul_token"))) {
				t.Errorf("with a token %v: %+v", ok, c)
			}
		}
	}
}

func TestOnce_WaitingRunIsReplacedWhenTheInputChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, "web")
		h := s.process()
		first := s.must(h, schedule).Runs[0]
		task, err := state.Read[state.Task](t.Context(), s.store, state.TaskKey("web"))
		if err != nil {
			t.Fatal(err)
		}
		run, err := state.Read[state.Run](t.Context(), s.store, state.RunKey("web", first.Run))
		if err != nil {
			t.Fatal(err)
		}
		run.Data.State, run.Data.Digest = state.RunWaiting, "what it has read"
		run.Data.Wait = &state.Wait{For: state.WaitApproval, ID: "w1", Since: time.Now(), Content: &state.Content{}}
		if _, err := s.store.Apply(t.Context(), run.Write(run.Data), task.Write(task.Data.BeginWait(run.Data))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		go func() {
			time.Sleep(5 * time.Second)
			s.end(state.RunSucceeded)
		}()
		answer := s.must(h, `{"mode":"once","wait":true}`)
		if len(answer.Runs) != 1 || answer.Runs[0].Run == first.Run || answer.Runs[0].State != state.RunSucceeded {
			t.Errorf("%+v", answer)
		}
	})
}
