package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/sqlite"
)

// fakeStack is a stack as the command line sees it: CloudFormation's outputs,
// a function whose answers the test chooses, and a store.
type fakeStack struct {
	t      *testing.T
	store  state.Store
	path   string
	mu     sync.Mutex
	asked  []invoke.Request
	answer func(invoke.Request) (invoke.Answer, error)

	api atomic.Value // string: the address of its HTTP API; "" if it has none
	log string       // a line of each log
	aws stackFaults
}

func newFakeStack(t *testing.T, answer func(invoke.Request) (invoke.Answer, error)) *fakeStack {
	t.Helper()
	d := &fakeStack{t: t, answer: answer, path: filepath.Join(t.TempDir(), "state.db")}
	d.api.Store("")
	var err error
	if d.store, err = sqlite.Open(t.Context(), d.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.store.Close() })
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_CONFIG_FILE": "none", "AWS_SHARED_CREDENTIALS_FILE": "none",
		"AWS_ENDPOINT_URL_CLOUDFORMATION": server.URL + "/cloudformation", "AWS_ENDPOINT_URL_LAMBDA": server.URL,
		"AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": server.URL + "/json", "AWS_ENDPOINT_URL_CLOUDWATCH": server.URL + "/json", "AWS_ENDPOINT_URL_SQS": server.URL + "/json",
		"AWS_ENDPOINT_URL_S3": server.URL + "/s3",
	} {
		t.Setenv(name, value)
	}
	return d
}

// ServeHTTP is CloudFormation and Lambda, as far as they are needed.
func (d *fakeStack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Error(err)
	}
	if strings.HasPrefix(r.URL.Path, "/cloudformation") {
		w.Header().Set("Content-Type", "text/xml")
		if !strings.Contains(string(body), "StackName=prod") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>Stack with id nope does not exist</Message></Error></ErrorResponse>`)
			return
		}
		fmt.Fprintf(w, `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>prod</StackName>
			<Parameters><member><ParameterKey>Architecture</ParameterKey><ParameterValue>arm64</ParameterValue></member></Parameters>
			<Outputs>
			<member><OutputKey>ReconcileFunction</OutputKey><OutputValue>prod-reconcile</OutputValue></member>
			<member><OutputKey>InspectFunction</OutputKey><OutputValue>prod-reconcile:inspect</OutputValue></member>
			<member><OutputKey>Version</OutputKey><OutputValue>v1.4.0</OutputValue></member>
			<member><OutputKey>BundleUrl</OutputKey><OutputValue>s3://files/some/prefix</OutputValue></member>
			<member><OutputKey>StoreUrl</OutputKey><OutputValue>sqlite:%s</OutputValue></member>
			<member><OutputKey>ApiUrl</OutputKey><OutputValue>%s</OutputValue></member>
			<member><OutputKey>LogGroups</OutputKey><OutputValue>/terrapulse/prod/1</OutputValue></member>
			<member><OutputKey>DeadLetters</OutputKey><OutputValue>https://sqs.eu-west-1.amazonaws.com/1/prod-dead</OutputValue></member>
			</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`, d.path, d.api.Load())
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/json"):
		d.serveJSON(w, r.Header.Get("X-Amz-Target"), body)
		return
	case strings.HasPrefix(r.URL.Path, "/s3"):
		d.serveBucket(w, r)
		return
	}
	name, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/2015-03-31/functions/"), "/invocations")
	if name, _, _ := strings.Cut(name, ":"); !ok || name != "prod-reconcile" {
		http.NotFound(w, r)
		return
	}
	req, err := invoke.Parse(body)
	if err != nil {
		d.t.Errorf("the function would refuse %s: %v", body, err)
	}
	if strings.HasSuffix(name, ":inspect") != (req.Mode == invoke.Inspect) {
		d.t.Errorf("the mode %s is requested of %s", req.Mode, name)
	}
	d.mu.Lock()
	d.asked = append(d.asked, req)
	d.mu.Unlock()
	answer, err := d.answer(req)
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		fmt.Fprintf(w, `{"errorMessage":%q,"errorType":"errorString"}`, err)
		return
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		d.t.Error(err)
	}
}

// run has a run intended, and ended some time after.
func (d *fakeStack) run(task, id string, outcome state.Run) invoke.Run {
	outcome.ID, outcome.Task, outcome.Created = id, task, time.Now()
	intended := state.Run{ID: id, Task: task, Kind: outcome.Kind, State: state.RunIntended, Created: outcome.Created}
	written, err := d.store.Apply(d.t.Context(), state.Create(state.RunKey(task, id), state.Encode(intended)))
	if err != nil {
		d.t.Error(err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		outcome.Started, outcome.Ended = time.Now(), time.Now()
		d.store.Apply(d.t.Context(), state.Replace(written[0], state.Encode(outcome)))
	}()
	return invoke.Run{Task: task, Run: id, Launch: "l1", State: state.RunIntended}
}

// command runs the program and returns its exit code and what it printed.
func (d *fakeStack) command(args ...string) (int, string, string) {
	var out, errs bytes.Buffer
	code := run(d.t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestInvokeFollowsTheRunsThatItStarted(t *testing.T) {
	var d *fakeStack
	d = newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
		return invoke.Answer{Mode: req.Mode, Launches: []string{"l1"}, Runs: []invoke.Run{
			d.run("web", "r1", state.Run{Kind: state.KindApply, State: state.RunSucceeded, Work: state.Work{Changes: &state.Changes{Add: 3}}}),
			d.run("api", "r2", state.Run{Kind: state.KindApply, State: state.RunFailed, Work: state.Work{Error: "no such module"}}),
		}, Decisions: []invoke.Decision{{Task: "other", Reason: state.Reason{Code: state.ReasonUnchanged}}}}, nil
	})
	code, out, errs := d.command("invoke", "-stack=prod", "-once", "-task=web", "-task=api", "-wait")
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantText(t, out, "web   succeeded")
	wantText(t, errs, "web: succeeded (3 added, 0 changed, 0 destroyed)")
	wantText(t, errs, "Task api failed: no such module")
	if strings.Contains(out+errs, "other") {
		t.Errorf("a task that nobody asked for is told of:\n%s%s", out, errs)
	}
	if len(d.asked) != 1 || d.asked[0].Mode != invoke.Once || len(d.asked[0].Tasks) != 2 || d.asked[0].By != userAtHost() {
		t.Errorf("asked for %+v", d.asked)
	}
}

func TestInvokeWaitsForWhatHadNoRoomAtFirst(t *testing.T) {
	var d *fakeStack
	d = newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
		written, err := d.store.Apply(t.Context(), state.Create(state.TaskKey("web"), state.Encode(state.Task{Requests: state.Requests{Forced: state.Forced{By: "someone"}}, Reason: state.Reason{Code: state.ReasonQueued}})))
		if err != nil {
			return invoke.Answer{}, err
		}
		go func() {
			time.Sleep(50 * time.Millisecond)
			r := d.run("web", "r1", state.Run{Kind: state.KindApply, State: state.RunSucceeded})
			d.store.Apply(t.Context(), state.Replace(written[0], state.Encode(state.Task{Run: &state.LiveRun{ID: r.Run, Created: time.Now()}})))
		}()
		return invoke.Answer{Mode: req.Mode, Decisions: []invoke.Decision{{Task: "web", Reason: state.Reason{Code: state.ReasonQueued, Text: "its run has to wait"}}}}, nil
	})
	code, out, errs := d.command("invoke", "-stack=prod", "-once", "-wait")
	if code != exitOK || !strings.Contains(out, "succeeded") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	wantText(t, errs, "web: queued: its run has to wait")
}

func TestInvokePrintsThePlansOfAnInspection(t *testing.T) {
	var d *fakeStack
	d = newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
		if err := state.SaveLog(t.Context(), d.store, "web", "r1", []byte("Plan: 1 to add\n"), time.Time{}); err != nil {
			return invoke.Answer{}, err
		}
		return invoke.Answer{Mode: req.Mode, Runs: []invoke.Run{d.run("web", "r1", state.Run{Kind: state.KindPlan, State: state.RunSucceeded})}}, nil
	})
	code, out, errs := d.command("invoke", "-stack=prod", "-inspect", "-wait")
	if code != exitOK {
		t.Errorf("%d: %s", code, errs)
	}
	wantText(t, out, "### Task web\nPlan: 1 to add\n")
}

func TestInvokeSaysWhyItCouldNot(t *testing.T) {
	d := newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
		return invoke.Answer{}, fmt.Errorf(`task "nope" is not in the bundle b1`)
	})
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"invoke", exitMissing, "name the stack with -stack"},
		{"invoke -stack=nope", exitConfig, "find stack nope in eu-west-1: Stack with id nope does not exist"},
		{"invoke -stack=prod -once -task=nope", exitError, `task "nope" is not in the bundle b1`},
		{"invoke -stack=prod -once -inspect", exitFlags, "exclude each other"},
		{"invoke -stack=prod -task=web", exitFlags, "-task goes with -once or -inspect"},
		{"doctor", exitMissing, "name the task files of an instance with -config-file or -config-dir, or a deployment in AWS with -stack"},
		{"doctor -stack=prod -config-file=tasks.yaml", exitFlags, "give one of them"},
		{"doctor -quick -config-file=tasks.yaml", exitFlags, "they need -stack"},
	} {
		if code, _, errs := d.command(strings.Fields(tt.args)...); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: %d %s", tt.args, code, errs)
		}
	}
}

func TestDoctorShowsWhatTheFunctionFoundAndPlansInAContainer(t *testing.T) {
	var d *fakeStack
	broken := false
	d = newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
		if req.Mode == invoke.Doctor {
			return invoke.Answer{Checks: []invoke.Check{{Name: "table", OK: !broken, Found: "prod-table", Fix: "deploy the stack again"}}, Version: "v1.4.0"}, nil
		}
		outcome := state.Run{Kind: state.KindPlan, State: state.RunSucceeded, Claimed: state.Claimed{Version: "v1.3.2", Runner: "c1"}}
		if broken {
			outcome.State, outcome.Error, outcome.Version = state.RunLost, "the image cannot be pulled", "v1.2.0"
		}
		return invoke.Answer{Mode: req.Mode, Runs: []invoke.Run{d.run(req.Tasks[0], fmt.Sprint("r", time.Now().UnixNano()), outcome)}}, nil
	})
	if code, out, errs := d.command("doctor", "-stack=prod", "-task=web"); code != exitOK || !strings.Contains(out, "planned task web") ||
		!strings.Contains(out, "functions v1.4.0, template v1.4.0, container v1.3.2") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	broken = true
	code, _, errs := d.command("doctor", "-stack=prod", "-task=web")
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	wantText(t, errs, "table: prod-table\n  To fix it: deploy the stack again")
	wantText(t, errs, "container: the plan of task web lost: the image cannot be pulled")
	wantText(t, errs, "set RunnerImage to an image of version v1.4.0")
	if code, _, errs := d.command("doctor", "-stack=prod", "-quick"); code != exitError || strings.Contains(errs, "container") {
		t.Errorf("-quick: %d %s", code, errs)
	}
}

func TestInvoke_WhatIsHeldOrWaitsHasItsOwnExitCode(t *testing.T) {
	waiting := func(id string, causes ...state.Cause) state.Run {
		return state.Run{ID: id, Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: &state.Wait{For: state.WaitApproval, Text: "40 of 60 service instances are gone", Causes: causes}}}
	}
	guard := state.Cause{Rule: state.RuleInputGuard, Text: "40 of 60 service instances are gone"}
	for name, c := range map[string]struct {
		answer func(d *fakeStack) invoke.Answer
		code   int
		says   []string
	}{
		"a run of the invocation": {func(d *fakeStack) invoke.Answer {
			return invoke.Answer{Runs: []invoke.Run{d.run("web", "r1", waiting("r1", guard)), d.run("api", "r2", state.Run{Kind: state.KindApply, State: state.RunSucceeded})}}
		}, exitWaits, []string{"web   waiting", "api   succeeded", "40 of 60 service instances are gone"}},
		"a run that waits already": {func(d *fakeStack) invoke.Answer {
			run := waiting("r1", guard)
			run.Task, run.Created = "web", time.Now().Add(-time.Hour)
			task := state.Task{Run: &state.LiveRun{ID: "r1", Created: run.Created, Wait: run.Wait}, Reason: state.Reason{Code: state.ReasonWaiting, Text: "it waits"}}
			if _, err := d.store.Apply(t.Context(), state.Create(state.RunKey("web", "r1"), state.Encode(run)), state.Create(state.TaskKey("web"), state.Encode(task))); err != nil {
				t.Error(err)
			}
			return invoke.Answer{Decisions: []invoke.Decision{{Task: "web", Reason: task.Reason}}}
		}, exitWaits, []string{"web   waiting", "40 of 60 service instances are gone"}},
		"Consul was replaced": {func(d *fakeStack) invoke.Answer {
			reason := state.Reason{Code: state.ReasonReplaced, Text: "Consul was replaced"}
			if _, err := d.store.Apply(t.Context(), state.Create(state.TaskKey("web"), state.Encode(state.Task{Reason: reason}))); err != nil {
				t.Error(err)
			}
			return invoke.Answer{Decisions: []invoke.Decision{{Task: "web", Reason: reason}}}
		}, exitWaits, []string{"web   waiting", "was not run: Consul was replaced"}},
		"and another task fails": {func(d *fakeStack) invoke.Answer {
			return invoke.Answer{Runs: []invoke.Run{d.run("web", "r1", waiting("r1", guard)), d.run("api", "r2", state.Run{Kind: state.KindApply, State: state.RunFailed, Work: state.Work{Error: "no"}})}}
		}, exitError, []string{"web   waiting", "api   failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			var d *fakeStack
			d = newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) {
				answer := c.answer(d)
				answer.Mode = req.Mode
				return answer, nil
			})
			code, out, errs := d.command("invoke", "-stack=prod", "-once", "-wait")
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				wantText(t, out+errs, text)
			}
		})
	}
}

func TestInvoke_SaysWhoPlans(t *testing.T) {
	d := newFakeStack(t, func(req invoke.Request) (invoke.Answer, error) { return invoke.Answer{Mode: req.Mode}, nil })
	s := &site{t: t, dir: t.TempDir()}
	wantCode(t, s.bare("invoke", "-stack=prod", "-inspect", "-task=lb"), exitOK)
	wantCode(t, s.bare("invoke", "-stack=prod"), exitOK)
	if len(d.asked) != 2 || d.asked[0].Mode != invoke.Inspect || d.asked[0].By != userAtHost() || d.asked[1].By != "" {
		t.Errorf("asked for %+v", d.asked)
	}
}
