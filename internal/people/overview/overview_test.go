package overview_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

func newStore(t *testing.T) state.Store {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	return store
}

func write(t *testing.T, store state.Store, key string, record any) {
	t.Helper()
	if _, err := store.Apply(t.Context(), state.Create(key, state.Encode(record))); err != nil {
		t.Fatal(err)
	}
}

// endsMeanwhile ends the run of the task web after that task's record was read.
type endsMeanwhile struct{ state.Store }

func (s endsMeanwhile) Get(ctx context.Context, key string) (state.Record, error) {
	if key != state.RunKey("web", "r1") {
		return s.Store.Get(ctx, key)
	}
	run, err := state.Read[state.Run](ctx, s.Store, key)
	if err != nil || run.Data.State.Ended() {
		return s.Store.Get(ctx, key)
	}
	task, err := state.Read[state.Task](ctx, s.Store, state.TaskKey("web"))
	if err != nil {
		return state.Record{}, err
	}
	ended := run.Data
	ended.State, ended.Ended = state.RunFailed, ended.Created.Add(time.Minute)
	next, _ := task.Data.Conclude(ended, "")
	if _, err := s.Store.Apply(ctx, run.Write(ended), task.Write(next)); err != nil {
		return state.Record{}, err
	}
	return s.Store.Get(ctx, key)
}

func TestRead_ShowsTheNewestOfEachGate(t *testing.T) {
	store := newStore(t)
	noon := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	at := func(minute int, mark string, index uint64) state.Gate {
		return state.Gate{Mark: mark, Name: "nodes", Index: index, Moved: noon.Add(time.Duration(minute) * time.Minute)}
	}
	recorded := map[string]state.Gate{"a": at(1, "index 1", 1), "b": at(3, "index 9", 9), "c": {Name: "health checks", Datacenter: "far", Error: "no path"},
		"d": at(1, "index 12", 12)}
	write(t, store, state.ReconcileKey, state.Reconcile{Sight: state.Sight{Gates: recorded}})
	seen := map[string]state.Gate{"a": at(2, "index 2", 2), "b": at(2, "index 8", 8), "gone": at(9, "index 9", 9),
		"d": at(60, "index 11", 11)} // this process has led before, and its clock is ahead
	reader := overview.Reader{Store: store, Now: time.Now, Gates: func() map[string]state.Gate { return seen }}
	o, err := reader.Read(t.Context(), overlay.Compose(&config.Config{API: config.API{URL: "https://a.example.com"}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if apispec.Deref(o.URL) != "https://a.example.com/ui/" {
		t.Errorf("the pages are at %q", apispec.Deref(o.URL))
	}
	got, err := json.Marshal(o.Gates)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"index":2,"moved":"2086-03-14T12:02:00Z","name":"nodes"},{"index":9,"moved":"2086-03-14T12:03:00Z","name":"nodes"},{"index":12,"moved":"2086-03-14T12:01:00Z","name":"nodes"},` +
		`{"datacenter":"far","error":"no path","name":"health checks"}]`
	if string(got) != want {
		t.Errorf("the gates are %s, want %s", got, want)
	}
}

func TestRead_NamesInWhatAnInstanceDiffersFromTheLeader(t *testing.T) {
	store, now := newStore(t), time.Now()
	if _, err := lease.Acquire(t.Context(), store, state.LeaderLease, "a", lease.Options{TTL: time.Minute, Now: func() time.Time { return now }}); err != nil {
		t.Fatal(err)
	}
	for _, i := range []struct{ id, definition, module, terraform string }{{"a", "1", "1", "1.13.5"}, {"b", "1", "1", "1.13.5"}, {"c", "2", "2", "1.14.0"}, {"d", "3", "1", "1.13.5"}} {
		write(t, store, state.InstanceKey(i.id), state.Instance{ID: i.id, Owner: i.id, Terraform: i.terraform, Seen: now, Silent: time.Minute, Parts: map[string]string{"module": i.module}})
		write(t, store, state.RunnerKey(i.id), state.Runner{ID: i.id, Definition: i.definition, Parallel: 4})
	}
	o, err := overview.Reader{Store: store, Now: func() time.Time { return now }, Where: apispec.Store{Kind: "consul"}}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, i := range apispec.Deref(o.Instances) {
		got[i.ID] = apispec.Deref(i.Differs)
	}
	want := map[string][]string{"a": nil, "b": nil, "c": {"module", "Terraform"}, "d": {"its files, its modules or its version of Terrapulse"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("they differ in %q, want %q", got, want)
	}
}

func TestRead_ARunThatEndsMeanwhileIsNotShownAsRunning(t *testing.T) {
	now := time.Now()
	store := newStore(t)
	write(t, store, state.TaskKey("web"), state.Task{Applied: state.Applied{At: now}, Run: &state.LiveRun{ID: "r1"}, Reason: state.Reason{Code: state.ReasonRunning}})
	write(t, store, state.RunKey("web", "r1"), state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunRunning, Created: now})
	o, err := overview.Reader{Store: endsMeanwhile{store}, Now: time.Now}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Tasks[0]; got.Phase != apispec.PhaseFailing || got.Run != nil || got.Failures == nil || *got.Failures != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRead_ReasonSaysThatAClaimExpiredWhileNobodyLeads(t *testing.T) {
	now := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	const want = "the runner should have reported by 2086-03-14T11:59:00Z and has not, and nobody leads"
	for name, test := range map[string]struct {
		expires time.Time
		leads   bool
		want    bool
	}{
		"expired and nobody leads":   {now.Add(-time.Minute), false, true},
		"expired and a leader finds": {now.Add(-time.Minute), true, false},
		"renewed":                    {now.Add(time.Minute), false, false},
	} {
		store := newStore(t)
		write(t, store, state.TaskKey("web"), state.Task{Applied: state.Applied{At: now}, Run: &state.LiveRun{ID: "r1"}, Reason: state.Reason{Code: state.ReasonRunning}})
		write(t, store, state.RunKey("web", "r1"), state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunRunning,
			Reason: state.Reason{Code: state.ReasonChanged, Text: "added web-2"}, Created: now, Claimed: state.Claimed{Claim: "c1", Expires: test.expires}})
		if test.leads {
			opts := lease.Options{TTL: time.Minute, Now: func() time.Time { return now }}
			if _, err := lease.Acquire(t.Context(), store, state.LeaderLease, "node-1", opts); err != nil {
				t.Fatal(err)
			}
		}
		reader := overview.Reader{Store: store, Now: func() time.Time { return now }}
		o, err := reader.Recorded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		base := &config.Config{Tasks: []config.Task{{Name: "web", Enabled: true}}}
		one, err := reader.ReadTask(t.Context(), overlay.Compose(base, nil), &base.Tasks[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []apispec.TaskOverview{o.Tasks[0], one} {
			if got.Phase != apispec.PhaseRunning || strings.HasPrefix(got.Reason.Text, want) != test.want || !strings.HasSuffix(got.Reason.Text, "added web-2") {
				t.Errorf("%s: %s because %+v", name, got.Phase, got.Reason)
			}
		}
	}
}

func TestReadTask_SaysThatItsRemoteRunCannotBePolled(t *testing.T) {
	for _, what := range []state.WaitFor{state.WaitRemote, state.WaitRemotePlan} {
		store := newStore(t)
		wait := &state.Wait{For: what, Since: time.Now()}
		write(t, store, state.ReconcileKey, state.Reconcile{Unpolled: &state.Unpolled{Tasks: []string{"web"}, Error: "the token was revoked", Since: time.Now()}})
		write(t, store, state.TaskKey("web"), state.Task{Reason: state.Reason{Code: state.ReasonWaiting},
			Run: &state.LiveRun{ID: "r1", Wait: wait}, RemoteRun: &state.RemoteRun{ID: "run-1", Version: "cv-1", Phase: what.RemotePhase()}})
		write(t, store, state.RunKey("web", "r1"), state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: wait}, Created: time.Now()})
		base := &config.Config{Tasks: []config.Task{{Name: "web", Enabled: true}}}
		got, err := overview.Reader{Store: store, Now: time.Now}.ReadTask(t.Context(), overlay.Compose(base, nil), &base.Tasks[0])
		if err != nil || !strings.Contains(got.Reason.Text, "cannot be polled since") {
			t.Errorf("%s: %+v, %v", what, got.Reason, err)
		}
	}
}

func TestRead_WhatPeopleChangedCountsBeforeTheNextTick(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		reason  state.ReasonCode // of the latest decision
		enabled *bool            // what the configuration says since; nil if the task is not in it any more
		task    state.Task
		want    apispec.Phase
	}{
		"enabled with a run":    {state.ReasonDisabled, new(true), state.Task{Requests: state.Requests{Forced: state.Forced{By: "Jo"}}}, apispec.PhaseSoon},
		"enabled without a run": {state.ReasonDisabled, new(true), state.Task{Applied: state.Applied{At: now}, Stops: state.Stops{Stop: &state.Stop{Code: state.ReasonHeld, Next: true}}}, apispec.PhaseStopped},
		"disabled":              {state.ReasonUnchanged, new(false), state.Task{Applied: state.Applied{At: now}}, apispec.PhaseStopped},
		"removed":               {state.ReasonUnchanged, nil, state.Task{Applied: state.Applied{At: now}}, apispec.PhaseRemoved},
		"back":                  {state.ReasonRemoved, new(true), state.Task{Applied: state.Applied{At: now}}, apispec.PhaseApplied},
		"cancelled, and a run requested since": {state.ReasonCancelled, new(true),
			state.Task{Applied: state.Applied{At: now}, Requests: state.Requests{Forced: state.Forced{By: "Jo"}}, Ended: state.Ended{Last: &state.Result{State: state.RunCancelled}}}, apispec.PhaseSoon},
		"cancelled, and no tick since": {state.ReasonRunning, new(true), state.Task{Applied: state.Applied{At: now}, Stops: state.Stops{Stop: &state.Stop{Code: state.ReasonCancelled}}, Ended: state.Ended{Last: &state.Result{State: state.RunCancelled}}}, apispec.PhaseStopped},
	} {
		store := newStore(t)
		test.task.Reason = state.Reason{Code: test.reason, Text: "as the latest tick decided"}
		write(t, store, state.TaskKey("web"), test.task)
		base := &config.Config{}
		if test.enabled != nil {
			base.Tasks = []config.Task{{Name: "web", Enabled: *test.enabled}}
		}
		o, err := overview.Reader{Store: store, Now: time.Now}.Read(t.Context(), overlay.Compose(base, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Tasks[0]; got.Phase != test.want || got.Reason.Code == test.reason {
			t.Errorf("%s: %s because %+v, want %s", name, got.Phase, got.Reason, test.want)
		}
	}
}

func TestCount_EveryEnabledTaskCountsOnce(t *testing.T) {
	live := &state.LiveRun{ID: "r"}
	reason := func(k state.ReasonCode) state.Reason { return state.Reason{Code: k} }
	waits := func(rule state.Rule) *state.LiveRun {
		return &state.LiveRun{ID: "r", Wait: &state.Wait{For: state.WaitApproval, Content: &state.Content{}, Causes: []state.Cause{{Rule: rule, Text: "too much"}}}}
	}
	for name, test := range map[string]struct {
		task state.Task
		want state.TaskCounts
	}{
		"applied":                       {state.Task{Reason: reason(state.ReasonUnchanged), Applied: state.Applied{At: time.Unix(1, 0)}}, state.TaskCounts{}},
		"failing":                       {state.Task{Reason: reason(state.ReasonBackoff), Failing: state.Failing{Count: 2}}, state.TaskCounts{Phases: map[string]int{"failing": 1}}},
		"failing and running again":     {state.Task{Reason: reason(state.ReasonRunning), Failing: state.Failing{Count: 2}, Run: live}, state.TaskCounts{Phases: map[string]int{"failing": 1}}},
		"failing and disabled":          {state.Task{Reason: reason(state.ReasonDisabled), Failing: state.Failing{Count: 2}}, state.TaskCounts{}},
		"removed":                       {state.Task{Reason: reason(state.ReasonRemoved), Failing: state.Failing{Count: 2}}, state.TaskCounts{}},
		"running":                       {state.Task{Reason: reason(state.ReasonRunning), Run: live}, state.TaskCounts{}},
		"unreadable":                    {state.Task{Reason: reason(state.ReasonUnreadable)}, state.TaskCounts{}},
		"waiting for more changes":      {state.Task{Reason: reason(state.ReasonBuffering)}, state.TaskCounts{Phases: map[string]int{"soon": 1}}},
		"waiting for a runner":          {state.Task{Reason: reason(state.ReasonQueued)}, state.TaskCounts{Phases: map[string]int{"soon": 1}}},
		"outside of its window":         {state.Task{Reason: reason(state.ReasonOutside), Requests: state.Requests{Forced: state.Forced{By: "Jo"}}}, state.TaskCounts{Phases: map[string]int{"soon": 1}}},
		"paused":                        {state.Task{Reason: reason(state.ReasonPaused), Requests: state.Requests{Forced: state.Forced{By: "start"}}}, state.TaskCounts{Phases: map[string]int{"stopped": 1}}},
		"held after a takeover":         {state.Task{Reason: reason(state.ReasonReplaced), Requests: state.Requests{Forced: state.Forced{By: "start"}}}, state.TaskCounts{Phases: map[string]int{"waiting": 1}}},
		"on hold":                       {state.Task{Reason: reason(state.ReasonUnchanged), Stops: state.Stops{OnHold: &state.OnHold{By: "Jo"}}}, state.TaskCounts{Phases: map[string]int{"stopped": 1}}},
		"on hold and disabled":          {state.Task{Reason: reason(state.ReasonDisabled), Stops: state.Stops{OnHold: &state.OnHold{By: "Jo"}}}, state.TaskCounts{}},
		"on hold and still running":     {state.Task{Reason: reason(state.ReasonRunning), Run: live, Stops: state.Stops{OnHold: &state.OnHold{By: "Jo"}}}, state.TaskCounts{}},
		"held by a guard":               {state.Task{Reason: reason(state.ReasonWaiting), Run: waits(state.RuleInputGuard)}, state.TaskCounts{Phases: map[string]int{"waiting": 1}, Approval: 1}},
		"waiting for an approval":       {state.Task{Reason: reason(state.ReasonWaiting), Run: waits(state.RuleApproval)}, state.TaskCounts{Phases: map[string]int{"waiting": 1}, Approval: 1}},
		"rejected":                      {state.Task{Reason: reason(state.ReasonRejected), Ended: state.Ended{Last: &state.Result{State: state.RunCancelled, Rejected: true}}}, state.TaskCounts{Phases: map[string]int{"stopped": 1}}},
		"rejected, no tick since":       {state.Task{Reason: reason(state.ReasonWaiting), Stops: state.Stops{Stop: &state.Stop{Code: state.ReasonRejected}}, Ended: state.Ended{Last: &state.Result{State: state.RunCancelled, Rejected: true}}}, state.TaskCounts{Phases: map[string]int{"stopped": 1}}},
		"made without a run":            {state.Task{Reason: reason(state.ReasonHeld), Stops: state.Stops{Stop: &state.Stop{Code: state.ReasonHeld, Next: true}}}, state.TaskCounts{Phases: map[string]int{"stopped": 1}}},
		"on hold and failing":           {state.Task{Reason: reason(state.ReasonBackoff), Failing: state.Failing{Count: 2}, Stops: state.Stops{OnHold: &state.OnHold{By: "Jo"}}}, state.TaskCounts{Phases: map[string]int{"failing": 1}}},
		"failing, and not readable":     {state.Task{Reason: reason(state.ReasonUnreadable), Failing: state.Failing{Count: 1}}, state.TaskCounts{Phases: map[string]int{"failing": 1}}},
		"not verified":                  {state.Task{Reason: reason(state.ReasonUnchanged), Applied: state.Applied{At: time.Now(), Unverified: &state.Unverified{State: state.VerifyFailed}}}, state.TaskCounts{Phases: map[string]int{"unverified": 1}}},
		"failing, and its retry queued": {state.Task{Reason: reason(state.ReasonQueued), Failing: state.Failing{Count: 1}}, state.TaskCounts{Phases: map[string]int{"failing": 1}}},
		"failing, and its plan waits":   {state.Task{Reason: reason(state.ReasonWaiting), Failing: state.Failing{Count: 1}, Run: waits(state.RuleApproval)}, state.TaskCounts{Phases: map[string]int{"failing": 1}, Approval: 1}},
		"not verified, and on hold":     {state.Task{Reason: reason(state.ReasonOnHold), Applied: state.Applied{Unverified: &state.Unverified{State: state.VerifyFailed}}, Stops: state.Stops{OnHold: &state.OnHold{By: "verify"}}}, state.TaskCounts{Phases: map[string]int{"unverified": 1}}},
		"not verified, and queued":      {state.Task{Reason: reason(state.ReasonQueued), Applied: state.Applied{Unverified: &state.Unverified{State: state.VerifyFailed}}}, state.TaskCounts{Phases: map[string]int{"unverified": 1}}},
		"new, and not yet read":         {state.Task{}, state.TaskCounts{Phases: map[string]int{"soon": 1}}},
	} {
		var got state.TaskCounts
		lifecycle.Count(&got, test.task)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// codes are all codes of reasons.
func codes(t *testing.T) []state.ReasonCode {
	t.Helper()
	source, err := os.ReadFile("../../record/state/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []state.ReasonCode
	for _, m := range regexp.MustCompile(`ReasonCode = "([a-z_]+)"`).FindAllSubmatch(source, -1) {
		all = append(all, state.ReasonCode(m[1]))
	}
	return all
}

func TestRead_EveryReasonBelongsToAPhase(t *testing.T) {
	want := map[state.ReasonCode]apispec.Phase{
		state.ReasonUnreadable: apispec.PhaseUnreadable, state.ReasonBlocked: apispec.PhaseFailing, state.ReasonUnsaved: apispec.PhaseFailing, state.ReasonCorrupt: apispec.PhaseFailing,
		state.ReasonDisabled: apispec.PhaseStopped, state.ReasonRemoved: apispec.PhaseRemoved, state.ReasonHeld: apispec.PhaseStopped, state.ReasonDestroyed: apispec.PhaseStopped,
		state.ReasonReplaced: apispec.PhaseWaiting, state.ReasonRenamed: apispec.PhaseWaiting, state.ReasonCancelled: apispec.PhaseStopped, state.ReasonQueued: apispec.PhaseSoon, state.ReasonBuffering: apispec.PhaseSoon,
		state.ReasonUnread: apispec.PhaseSoon, "of a newer version": apispec.PhaseSoon,
		// The run that had one of these reasons has ended, and a failure would show.
		state.ReasonUnchanged: apispec.PhaseApplied, state.ReasonBackoff: apispec.PhaseApplied, state.ReasonRunning: apispec.PhaseApplied,
		state.ReasonWaiting: apispec.PhaseApplied, state.ReasonFirst: apispec.PhaseApplied, state.ReasonDefinition: apispec.PhaseApplied,
		state.ReasonChanged: apispec.PhaseApplied, state.ReasonSchedule: apispec.PhaseApplied, state.ReasonForced: apispec.PhaseApplied,
		state.ReasonRetry: apispec.PhaseApplied, state.ReasonLost: apispec.PhaseApplied, state.ReasonInterrupted: apispec.PhaseApplied,
		state.ReasonDoubt: apispec.PhaseApplied, state.ReasonWindow: apispec.PhaseApplied, state.ReasonRules: apispec.PhaseApplied, state.ReasonDestroy: apispec.PhaseApplied,
		state.ReasonOnHold:   apispec.PhaseApplied, // it was released since
		state.ReasonPaused:   apispec.PhaseSoon,    // somebody has resumed since
		state.ReasonRejected: apispec.PhaseStopped, state.ReasonOutside: apispec.PhaseSoon, state.ReasonAfter: apispec.PhaseSoon,
		state.ReasonUnverified: apispec.PhaseApplied, // the run was verified
		state.ReasonDrift:      apispec.PhaseApplied, // the run has ended the drift
	}
	all := append(codes(t), "of a newer version")
	if len(all) != len(want) {
		t.Errorf("there are %d codes, and %d have a phase here", len(all), len(want))
	}
	store := newStore(t)
	for _, code := range all {
		write(t, store, state.TaskKey(string(code)), state.Task{Applied: state.Applied{At: time.Now()}, Reason: state.Reason{Code: code}})
	}
	o, err := overview.Reader{Store: store, Now: time.Now}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range o.Tasks {
		if got := want[state.ReasonCode(task.Name)]; task.Phase != got {
			t.Errorf("a task whose reason is %s is %s, want %s", task.Name, task.Phase, got)
		}
	}
}

func TestRead_RecordOfANewerVersionIsNotShownAsCorrupt(t *testing.T) {
	store := newStore(t)
	value := bytes.Replace(state.Encode(state.Task{}), []byte(`"format":1`), []byte(`"format":2`), 1)
	if _, err := store.Apply(t.Context(), state.Create(state.TaskKey("web"), value)); err != nil {
		t.Fatal(err)
	}
	effective := overlay.Compose(&config.Config{Tasks: []config.Task{{Name: "web", Enabled: true}}}, nil)
	r := overview.Reader{Store: store, Now: time.Now}
	if o, err := r.Read(t.Context(), effective); !errors.As(err, new(*state.NewerError)) {
		t.Errorf("of all tasks: %+v, %v", o.Tasks, err)
	}
	if got, err := r.ReadTask(t.Context(), effective, &effective.Config.Tasks[0]); !errors.As(err, new(*state.NewerError)) {
		t.Errorf("of one task: %+v, %v", got, err)
	}
}

func TestRead_ChangeAfterACancelledRunIsPending(t *testing.T) {
	store := newStore(t)
	for _, code := range []state.ReasonCode{state.ReasonBuffering, state.ReasonQueued} {
		write(t, store, state.TaskKey("cancelled-"+string(code)), state.Task{Applied: state.Applied{At: time.Now()}, Stops: state.Stops{Stop: &state.Stop{Code: state.ReasonHeld, For: state.Attempt{Observed: "B"}}},
			Ended: state.Ended{Last: &state.Result{State: state.RunCancelled}}, Reason: state.Reason{Code: code}})
		write(t, store, state.TaskKey("held-"+string(code)), state.Task{Stops: state.Stops{Stop: &state.Stop{Code: state.ReasonHeld, For: state.Attempt{Observed: "B"}}}, Reason: state.Reason{Code: code}})
	}
	o, err := overview.Reader{Store: store, Now: time.Now}.Recorded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range o.Tasks {
		if task.Phase != apispec.PhaseSoon {
			t.Errorf("%s: %s", task.Name, task.Phase)
		}
	}
}
