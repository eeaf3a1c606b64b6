package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// modulesBench has a task that watches the service web, and is given the keys of a
// tree as well. It was applied with 12 keys.
func modulesBench(t *testing.T) *bench {
	t.Helper()
	all := tasks(1)
	all[0].ModuleInputs = []condition.Spec{condition.ConsulKV{Path: "cfg", Recurse: true}}
	all[0].Guard = guard.Default
	b := newBench(t, all...)
	b.catalog.identity = oldConsul
	b.keys(12)
	b.settle()
	if err := state.SaveInputs(t.Context(), b.store, "task-0", state.Inputs{Kind: "services", Elements: map[string]string{"A": "1"},
		Others: map[string]map[string]string{"consul-kv": keys(12)}}); err != nil {
		t.Fatal(err)
	}
	b.launcher.forget()
	return b
}

// keys are the first n keys of a tree.
func keys(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all["cfg/"+string(rune('a'+i))] = "1"
	}
	return all
}

// keys has Consul show so many keys.
func (b *bench) keys(n int) {
	b.catalog.mu.Lock()
	defer b.catalog.mu.Unlock()
	b.catalog.keys = keys(n)
}

// content is what the task would apply now.
func (b *bench) content() state.Content {
	queries := consul.InputQueries(&b.Config.Tasks[0])
	var inputs []consul.Input
	for _, q := range queries {
		inputs = append(inputs, consul.Input{Kind: q.Kind, Observation: b.catalog.Observe(b.t.Context(), []consul.Query{q.Query})[0].Observation})
	}
	return state.Content{Definition: b.Config.Tasks[0].Digest(b.Config), Input: consul.DigestOf(inputs)}
}

// heldByKeys has a requested run wait because keys are gone.
func (b *bench) heldByKeys(rule state.Rule) state.PlannedRun {
	b.t.Helper()
	b.must(b.Tick(b.t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}}))
	planned := b.launcher.launches()[0].Runs[0]
	b.claimed(planned, "container")
	content := b.content()
	b.wait(planned, state.Wait{For: state.WaitApproval, ID: "w1", Causes: []state.Cause{{Rule: rule, Text: "keys are gone"}}, Content: &content})
	b.launcher.forget()
	b.tickAfterEnd()
	if got := b.run(planned).Data; got.State != state.RunWaiting {
		b.t.Fatalf("the run is %s: %s", got.State, got.Error)
	}
	return planned
}

// afterWhile is a tick that reads everything.
func (b *bench) afterWhile() {
	b.t.Helper()
	b.now = b.now.Add(refreshEvery + time.Second)
	b.tick()
}

func TestWaiting_RunHeldForAModuleInputEndsWhenThatIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		rule state.Rule
		keys int
		want state.RunState
	}{
		"all are back":                           {state.RuleInputGuard, 12, state.RunSuperseded},
		"enough are back":                        {state.RuleInputGuard, 7, state.RunSuperseded},
		"too few are back":                       {state.RuleInputGuard, 3, state.RunWaiting},
		"none is back":                           {state.RuleInputGuard, 2, state.RunWaiting},
		"all are back after Consul was replaced": {state.RuleReplaced, 12, state.RunSuperseded},
		"most are back after it was replaced":    {state.RuleReplaced, 11, state.RunWaiting},
		"the plan needs an approval":             {state.RuleApproval, 12, state.RunWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			b := modulesBench(t)
			b.keys(2)
			run := b.heldByKeys(c.rule)
			b.keys(c.keys)
			b.afterWhile()
			if got := b.run(run).Data; got.State != c.want {
				t.Errorf("the run is %s: %s", got.State, got.Error)
			}
			b.tick()
			if again := b.begun("task-0") == 1; again != (c.want == state.RunSuperseded) {
				t.Errorf("the request runs again: %v (%+v)", again, b.task("task-0").Reason)
			}
		})
	}
}

func TestWaiting_ModuleInputThatCannotBeReadEndsNoWait(t *testing.T) {
	b := modulesBench(t)
	b.keys(2)
	run := b.heldByKeys(state.RuleInputGuard)
	b.catalog.keysErr = errors.New("permission denied")
	b.afterWhile()
	if got := b.run(run).Data; got.State != state.RunWaiting || b.task("task-0").Reason.Code != state.ReasonWaiting {
		t.Errorf("the run is %s: %+v", got.State, b.task("task-0").Reason)
	}
}

func TestTick_ReadsModuleInputsOnlyWhileTheyDecide(t *testing.T) {
	b := modulesBench(t)
	reads := func() int {
		before := b.catalog.reads
		b.afterWhile()
		return b.catalog.reads - before
	}
	if n := reads(); n != 1 {
		t.Errorf("%d reads, and nothing waits", n)
	}
	b.keys(2)
	b.heldByKeys(state.RuleApproval)
	if n := reads(); n != 1 {
		t.Errorf("%d reads, and the run does not wait because of its input", n)
	}
}

func TestTick_ReplacedConsulHoldsTasksThatLoseModuleInputs(t *testing.T) {
	b := modulesBench(t)
	events := b.recording()
	b.catalog.identity = newConsul
	b.keys(11)
	b.afterWhile()
	if rec := b.record(); rec.Replaced == nil || rec.Replaced.Tasks != 1 || rec.Replaced.Entries != 1 || !slices.Equal(rec.Replaced.Names, []string{"task-0"}) {
		t.Fatalf("%+v", rec.Replaced)
	}
	// Nothing triggers the task, and a request is held.
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "Jo"}}))
	if task := b.task("task-0"); task.Reason.Code != state.ReasonReplaced || b.begun("task-0") != 0 {
		t.Errorf("%+v", task.Reason)
	}
	// Other keys than were approved are held again.
	b.approveAll()
	b.keys(10)
	b.tick()
	if b.record().Replaced == nil || b.begun("task-0") != 0 {
		t.Error("an approval is used for other data")
	}
	b.approveAll()
	b.tick()
	launches := b.launcher.launches()
	if len(launches) != 1 || b.record().Replaced != nil || events.count(outbox.ConsulAccepted) != 1 {
		t.Fatalf("%d launches, %+v", len(launches), b.record().Replaced)
	}
	if a := b.run(launches[0].Runs[0]).Data.Approval; a == nil || a.By != "alice" || a.Content != b.content() {
		t.Errorf("the run was approved by %+v", a)
	}
}

func TestTick_ReplacedConsulHoldsNoLongerWhenModuleInputsAreBack(t *testing.T) {
	b := modulesBench(t)
	b.catalog.identity = newConsul
	b.keys(11)
	b.afterWhile()
	b.catalog.keysErr = errors.New("permission denied")
	b.afterWhile()
	if b.record().Replaced == nil {
		t.Error("the hold ends because keys cannot be read")
	}
	b.catalog.keysErr = nil
	b.keys(12)
	b.afterWhile()
	if rec := b.record(); rec.Replaced != nil || rec.Consuls[""] != newConsul {
		t.Errorf("%+v", rec)
	}
}

func TestApproveAll_ReleasesRunsThatWaitBecauseModuleInputsAreGone(t *testing.T) {
	b := modulesBench(t)
	b.keys(11)
	run := b.heldByKeys(state.RuleReplaced) // the runner sees before the tick that Consul was replaced
	b.catalog.identity = newConsul
	b.afterWhile()
	b.approveAll()
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || got.Approval == nil || got.Approval.Content != b.content() {
		t.Errorf("the run is %s, approved by %+v", got.State, got.Approval)
	}
}

func TestApproveAll_OutlivesTheWaitForALaunch(t *testing.T) {
	b := replacedBench(t)
	b.tick()
	b.approveAll()
	if report, err := b.Tick(t.Context(), TickOptions{Until: b.now}); err != nil || len(report.Postponed) != 3 {
		t.Fatalf("%+v, %v", report.Postponed, err)
	}
	b.tick()
	for _, launch := range b.launcher.launches() {
		for _, planned := range launch.Runs {
			if b.run(planned).Data.Approval == nil {
				t.Errorf("the run of %s has no approval", planned.Task)
			}
		}
	}
	if b.begun("task-0") != 1 {
		t.Error("nothing was launched")
	}
}

// withoutPlan is a wait of a run whose plan could not be made.
func withoutPlan() state.Wait {
	wait := planned
	wait.Content = &state.Content{Definition: "def", Input: "in"}
	return wait
}

func TestApprove_WithoutAPlanPermitsTheInputToLaterRunsToo(t *testing.T) {
	b, run := waiting(t, withoutPlan())
	b.Config.Tasks[0].Approval.Expires = time.Hour
	content := state.Content{Definition: b.Config.Tasks[0].Digest(b.Config), Input: "in"}
	record := b.taskRecord("task-0")
	record.Data.Run.Wait.Content = &content
	b.must(b.store.Apply(t.Context(), record.Write(record.Data)))
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, "yes"))
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || got.Approval == nil || got.Approval.Content != content {
		t.Fatalf("the run is %s, approved by %+v", got.State, got.Approval)
	}
	retried := func() *state.Approval {
		t.Helper()
		b.end(state.RunFailed, "")
		b.now = b.now.Add(time.Minute)
		b.launcher.forget()
		b.tick()
		launches := b.launcher.launches()
		if len(launches) != 1 {
			t.Fatalf("%d launches: %+v", len(launches), b.task("task-0").Reason)
		}
		return b.run(launches[0].Runs[0]).Data.Approval
	}
	if a := retried(); a == nil || a.By != "ann" {
		t.Errorf("the retry was approved by %+v", a)
	}
	b.now = b.now.Add(time.Hour)
	if a := retried(); a != nil {
		t.Errorf("an approval that has expired is used: %+v", a)
	}
}
