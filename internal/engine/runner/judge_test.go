package runner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// planner is a driver that plans if the job has a judge.
type planner struct {
	driver.Driver
	plan      driver.Plan
	fails     error
	failsLate error // of the apply itself
	judged    int
	detailed  int // plans of which the details were read
	printed   int // plans of which the text was read
	applied   int
}

// judgeable is the plan as a judge gets it, without what takes time.
func (p *planner) judgeable() driver.Plan {
	print := func(context.Context) (string, error) { p.printed++; return p.plan.Text, nil }
	plan := driver.Plan{Changes: p.plan.Changes, State: p.plan.State, InState: p.plan.InState, Commits: p.plan.Commits, Causes: p.plan.Causes, Print: print}
	plan.Detail = func(context.Context) (driver.Plan, error) {
		p.detailed++
		full := p.plan
		full.Text, full.Print, full.Causes = "", print, nil
		return full, nil
	}
	return plan
}

func (p *planner) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	if p.fails != nil {
		return driver.Outcome{}, p.fails
	}
	if job.PlansFirst() {
		p.judged++
		if err := job.Judge(ctx, p.judgeable()); err != nil {
			return driver.Outcome{}, err
		}
	}
	p.applied++
	if p.failsLate != nil {
		return driver.Outcome{}, p.failsLate
	}
	return driver.Outcome{Changes: p.plan.Changes}, nil
}

// instances is a Consul with so many instances of web.
type instances struct {
	count int

	identity state.Identity
}

func (c *instances) Identify(context.Context, string) (state.Identity, error) { return c.identity, nil }

func (c *instances) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	o := consul.Observation{Digest: fmt.Sprint("digest of ", c.count), Elements: map[string]string{}, Details: map[string]string{}}
	for i := range c.count {
		name := fmt.Sprintf("web-%02d", i)
		o.Elements[name] = "x"
		o.Details[name] = condition.Detail{Group: "web", ID: name, Address: fmt.Sprintf("10.0.0.%d:80", i)}.String()
	}
	return &consul.Snapshot{Condition: o, Inputs: []consul.Input{{Kind: condition.ServicesKind, Triggers: true, Observation: o}}}, nil
}

// judging is a task that was applied with 60 instances.
type judging struct {
	*fixture
	driver *planner
	consul *instances
	runs   int
	ann    state.Given // her approval, apart from its times
}

func newJudging(t *testing.T, rules config.Rules) *judging {
	t.Helper()
	j := &judging{ann: state.Given{By: "ann"}, fixture: newFixture(t, nil), consul: &instances{count: 60}, driver: &planner{plan: driver.Plan{
		Digest: "plan", State: "lineage/1", InState: new(60), Resources: []driver.ResourceChange{}, Text: "the plan", Changes: &state.Changes{Change: 1}}}}
	j.Driver, j.Consul = j.driver, j.consul
	j.Config().Tasks[0].Rules = rules
	j.apply() // the intended run
	return j
}

// apply carries out the intended run, and intends another.
func (j *judging) apply() state.Run {
	j.t.Helper()
	if err := j.run(j.t.Context()); err != nil {
		j.t.Fatal(err)
	}
	run := j.stored(j.launch.Runs[0].ID)
	if run.State.Ended() {
		j.runs++
		j.intend(fmt.Sprintf("r%d", j.runs+1), j.task())
	}
	return run
}

// resume resumes the waiting run, as a leader does, with an approval of its content.
func (j *judging) resume(expires time.Time) state.Run {
	j.t.Helper()
	run, err := state.Read[state.Run](j.t.Context(), j.store, state.RunKey("web", j.launch.Runs[0].ID))
	if err != nil {
		j.t.Fatal(err)
	}
	next := run.Data
	next.State, next.Launch, next.Resumed = state.RunIntended, j.launch.ID+"-again", &state.Resume{By: "ann", At: j.Now()}
	if next.Wait.Content != nil {
		next.Approval = j.given(*next.Wait.Content, expires)
	}
	j.launch.ID = next.Launch
	if _, err := j.store.Apply(j.t.Context(), run.Write(next)); err != nil {
		j.t.Fatal(err)
	}
	return j.apply()
}

// given returns ann's approval, which is recorded.
func (j *judging) given(content state.Content, expires time.Time) *state.Approval {
	j.t.Helper()
	g := j.ann
	g.ID, g.At, g.Expires = uuid.NewString(), j.Now(), expires
	if _, err := j.store.Apply(j.t.Context(), g.Record("web", content)); err != nil {
		j.t.Fatal(err)
	}
	return &state.Approval{Given: g, Content: content}
}

// waits checks that the run waits for an approval, and why.
func (j *judging) waits(run state.Run, text string, rules ...state.Rule) {
	j.t.Helper()
	if run.State != state.RunWaiting || run.Wait.For != state.WaitApproval {
		j.t.Fatalf("the run %s %s (%s), and should wait for an approval", run.State, run.Error, run.Wait)
	}
	var got []state.Rule
	for _, c := range run.Wait.Causes {
		got = append(got, c.Rule)
	}
	if fmt.Sprint(got) != fmt.Sprint(rules) || !strings.Contains(run.Wait.Text, text) {
		j.t.Errorf("it waits because of %v: %s; want %v: %s", got, run.Wait.Text, rules, text)
	}
}

// counted checks how many entries the record of the task says that there are.
func (j *judging) counted(applied, now int) {
	j.t.Helper()
	want := []state.Count{{Of: "service instances", Triggers: true, Applied: applied, Now: now}}
	if diff := cmp.Diff(want, j.task().Applied.Counts); diff != "" {
		j.t.Error(diff)
	}
}

func TestJudge_TaskWithoutRulesIsAppliedWithoutAPlan(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.consul.count = 30
	if run := j.apply(); run.State != state.RunSucceeded || j.driver.judged != 0 || j.driver.applied != 2 {
		t.Errorf("%s %s: %d plans, %d applies", run.State, run.Error, j.driver.judged, j.driver.applied)
	}
}

func TestJudge_TooManyEntriesGoneWaitWithTheirPlan(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.consul.count = 20
	run := j.apply()
	j.waits(run, "40 of 60 service instances are gone: web-20 (10.0.0.20:80), web-21", state.RuleInputGuard)
	if j.driver.applied != 1 || run.Plan.Name == "" || run.Changes.Change != 1 {
		t.Errorf("%d applies; the plan is %+v of %+v", j.driver.applied, run.Plan, run.Changes)
	}
	if j.task().Failing.Count != 0 || !j.task().Failing.RetryAt.IsZero() {
		t.Error("a hold is taken for a failure")
	}
	j.counted(60, 20)
	if run = j.resume(time.Time{}); run.State != state.RunSucceeded || j.driver.applied != 2 {
		t.Errorf("approved: %s %s", run.State, run.Error)
	}
	j.counted(20, 20)
	// From now on, 20 are what was applied.
	j.consul.count = 12
	if run = j.apply(); run.State != state.RunSucceeded {
		t.Errorf("8 of 20 are gone: %s %v", run.State, run.Wait)
	}
}

// withKeys is a Consul that also shows keys, which are a module input.
type withKeys struct {
	*instances
	keys int
}

func (c *withKeys) Snapshot(ctx context.Context, task *config.Task) (*consul.Snapshot, error) {
	snap, err := c.instances.Snapshot(ctx, task)
	o := consul.Observation{Digest: fmt.Sprint("digest of keys ", c.keys), Elements: map[string]string{}}
	for i := range c.keys {
		o.Elements[fmt.Sprintf("app/%02d", i)] = "x"
	}
	snap.Inputs = append(snap.Inputs, consul.Input{Kind: condition.ConsulKVKind, Observation: o})
	return snap, err
}

func TestJudge_TooManyEntriesOfAModuleInputGoneWait(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	shown := &withKeys{instances: j.consul, keys: 50}
	j.Consul = shown
	if run := j.apply(); run.State != state.RunSucceeded {
		t.Fatalf("%s: %s", run.State, run.Error)
	}
	shown.keys, shown.count = 5, 59 // one instance, and most keys
	j.waits(j.apply(), "45 of 50 keys are gone", state.RuleInputGuard)
}

func TestJudge_EntriesAreComparedWithTheLastAppliedOnes(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.driver.fails = errors.New("the firewall does not answer")
	for _, left := range []int{50, 40, 32} {
		j.consul.count = left
		if run := j.apply(); run.State != state.RunFailed {
			t.Fatalf("%d are left: %s", left, run.State)
		}
	}
	j.counted(60, 32)
	j.driver.fails = nil
	j.consul.count = 29
	j.waits(j.apply(), "31 of 60", state.RuleInputGuard)
}

func TestJudge_HeldWithoutAPlanIfDataIsTooIncompleteToPlan(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	j.consul.count, j.driver.fails = 0, errors.New("at least one server is required")
	run := j.apply()
	j.waits(run, "at least one server is required", state.RuleInputGuard, state.RuleInputGuard)
	if run.Wait.Content.Plan != "" || run.Plan.Name != "" {
		t.Errorf("it has a plan: %+v", run.Wait.Content)
	}
}

func TestJudge_ApprovalWithoutAPlanIsForTheInput(t *testing.T) {
	invalid := errors.New("at least one server is required")
	most := 5
	for name, c := range map[string]struct {
		rules   config.Rules
		change  func(*judging)
		expires time.Time
		state   state.RunState
		causes  []state.Rule
		text    string
	}{
		"the plan can be made": {config.Rules{Guard: guard.Default}, func(*judging) {}, time.Time{}, state.RunSucceeded, nil, ""},
		"the plan exceeds the plan guard": {config.Rules{Guard: guard.Spec{Enabled: true, HoldEmpty: true, MaxDestroy: &most}},
			func(j *judging) { j.driver.plan.Changes = &state.Changes{Destroy: 6} }, time.Time{}, state.RunWaiting, []state.Rule{state.RulePlanGuard}, "max_destroy is 5"},
		"plans need an approval": {config.Rules{Guard: guard.Default, Approval: approval.Spec{Rule: approval.Always}},
			func(*judging) {}, time.Time{}, state.RunWaiting, []state.Rule{state.RuleApproval}, "every plan"},
		"the plan fails again": {config.Rules{Guard: guard.Default}, func(j *judging) { j.driver.fails = invalid }, time.Time{}, state.RunFailed, nil, ""},
		"other data": {config.Rules{Guard: guard.Default}, func(j *judging) { j.consul.count = 1 }, time.Time{}, state.RunWaiting,
			[]state.Rule{state.RuleInputGuard, state.RuleChanged}, "ann approved other data: since then, the data in Consul changed"},
		"other data, and the plan fails again": {config.Rules{Guard: guard.Default}, func(j *judging) { j.consul.count, j.driver.fails = 1, invalid }, time.Time{}, state.RunWaiting,
			[]state.Rule{state.RuleInputGuard, state.RuleInputGuard, state.RuleChanged}, "the data in Consul changed"},
		"too late": {config.Rules{Guard: guard.Default}, func(*judging) {}, noon.Add(-time.Hour), state.RunWaiting,
			[]state.Rule{state.RuleInputGuard, state.RuleChanged}, "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudging(t, config.Rules{})
			j.Config().Tasks[0].Rules = c.rules
			j.consul.count, j.driver.fails = 0, invalid
			if run := j.apply(); run.State != state.RunWaiting {
				t.Fatalf("%s %s", run.State, run.Error)
			}
			j.driver.fails = nil
			c.change(j)
			run := j.resume(c.expires)
			if run.State != c.state {
				t.Fatalf("%s %s (%s)", run.State, run.Error, run.Wait)
			}
			if c.state == state.RunWaiting {
				j.waits(run, c.text, c.causes...)
			}
		})
	}
}

func TestJudge_PlansWaitByTheRulesOfTheTask(t *testing.T) {
	limit := 5
	for _, c := range []struct {
		name    string
		rules   config.Rules
		changes state.Changes
		text    string
		rule    state.Rule
	}{
		{"destructive, the plan has no numbers", config.Rules{Approval: approval.Spec{Rule: approval.Destructive}}, state.Changes{Unknown: true}, "does not say how many resources it destroys", state.RuleApproval},
		{"plan guard, the plan has no numbers", config.Rules{Guard: guard.Spec{Enabled: true, MaxDestroy: &limit}}, state.Changes{Unknown: true}, "max_destroy is 5", state.RulePlanGuard},
		{"plan guard in percent, the plan has no numbers", config.Rules{Guard: guard.Spec{Enabled: true, MaxDestroyPercent: &limit}}, state.Changes{Unknown: true}, "max_destroy_percent is 5", state.RulePlanGuard},
		{"always", config.Rules{Approval: approval.Spec{Rule: approval.Always}}, state.Changes{Add: 1}, "every plan", state.RuleApproval},
		{"always, nothing to do", config.Rules{Approval: approval.Spec{Rule: approval.Always}}, state.Changes{}, "", ""},
		{"destructive", config.Rules{Approval: approval.Spec{Rule: approval.Destructive}}, state.Changes{Destroy: 2}, "2 resources would be destroyed", state.RuleApproval},
		{"destructive, nothing destroyed", config.Rules{Approval: approval.Spec{Rule: approval.Destructive}}, state.Changes{Add: 2, Change: 1}, "", ""},
		{"plan guard", config.Rules{Guard: guard.Spec{Enabled: true, MaxDestroy: &limit}}, state.Changes{Destroy: 6}, "6 of 60 resources would be destroyed", state.RulePlanGuard},
		{"plan guard, below the limit", config.Rules{Guard: guard.Spec{Enabled: true, MaxDestroy: &limit}}, state.Changes{Destroy: 5}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJudging(t, config.Rules{})
			j.Config().Tasks[0].Rules = c.rules
			j.driver.plan.Changes = &c.changes
			run := j.apply()
			if j.driver.judged != 1 {
				t.Errorf("%d plans were judged", j.driver.judged)
			}
			if c.rule == "" {
				details := 0
				if c.rules.Guard.PlanLimited() {
					details = 1 // which say how many resources there are
				}
				if run.State != state.RunSucceeded || j.driver.detailed != details || j.driver.printed > 0 {
					t.Errorf("%s: %v; %d details and %d texts were read", run.State, run.Wait, j.driver.detailed, j.driver.printed)
				}
				return
			}
			j.waits(run, c.text, c.rule)
			if j.driver.detailed != 1 || j.driver.printed != 1 || run.Plan.Name == "" || run.PlanData.Name == "" {
				t.Errorf("%d details and %d texts were read; kept: %+v and %+v", j.driver.detailed, j.driver.printed, run.Plan, run.PlanData)
			}
		})
	}
}

func TestJudge_TimeOfThePlanIsThatOfTheApprovedOne(t *testing.T) {
	j := newJudging(t, config.Rules{})
	clock := noon
	j.Now = func() time.Time { clock = clock.Add(time.Second); return clock }
	j.Config().Tasks[0].Rules = config.Rules{Approval: approval.Spec{Rule: approval.Always}}
	j.launch.Begun = noon
	first := j.apply()
	if !first.Launched.Equal(noon) || !first.Planned.After(first.Started) || first.Planned.After(first.Wait.Since) || first.Approved() != nil {
		t.Errorf("before the approval the run is %+v", first)
	}
	j.driver.plan.Digest = "other"
	second := j.resume(time.Time{})
	if !second.Planned.After(first.Wait.Since) || second.Approved() != nil {
		t.Errorf("with another plan the run is %+v", second)
	}
	j.launch.Begun = clock
	run := j.resume(time.Time{})
	if run.State != state.RunSucceeded || !run.Planned.Equal(second.Planned) || run.Approved() == nil || run.Approved().At.Before(run.Planned) || !run.Launched.Equal(noon) {
		t.Errorf("after the approval the run is %+v", run)
	}
}

func TestJudge_ApprovalIsForItsContentAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*judging)
		expires time.Time
		want    string
	}{
		"other input":   {func(j *judging) { j.consul.count = 61 }, time.Time{}, "since then, the data in Consul changed"},
		"other plan":    {func(j *judging) { j.driver.plan.Digest = "other" }, time.Time{}, "since then, the planned changes changed"},
		"other state":   {func(j *judging) { j.driver.plan.State = "lineage/2" }, time.Time{}, "since then, the Terraform state changed"},
		"too late":      {func(j *judging) { j.Now = func() time.Time { return noon.Add(25 * time.Hour) } }, noon.Add(24 * time.Hour), "the approval by ann has expired"},
		"all the same":  {func(*judging) {}, noon.Add(24 * time.Hour), ""},
		"nothing to do": {func(j *judging) { j.driver.plan.Changes, j.driver.plan.Digest = &state.Changes{}, "none" }, time.Time{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudging(t, config.Rules{})
			j.Config().Tasks[0].Rules = config.Rules{Approval: approval.Spec{Rule: approval.Always}}
			first := j.apply()
			j.waits(first, "every plan", state.RuleApproval)
			c.change(j)
			run := j.resume(c.expires)
			if c.want == "" {
				if run.State != state.RunSucceeded || run.Approval.By != "ann" {
					t.Errorf("%s %s, approved by %+v", run.State, run.Error, run.Approval)
				}
				return
			}
			j.waits(run, c.want, state.RuleApproval, state.RuleChanged)
			if run.Wait.ID == first.Wait.ID {
				t.Error("the new plan has the id of the approved one")
			}
			if j.driver.applied != 1 {
				t.Error("it was applied")
			}
		})
	}
}

// The run has begun with the approval by then.
func TestJudge_ApprovalOfARevokedTokenDoesNotCount(t *testing.T) {
	j := newJudging(t, config.Rules{})
	j.Config().Tasks[0].Rules = config.Rules{Approval: approval.Spec{Rule: approval.Always}}
	tokens := credentials.New(j.store, j.Now)
	_, made, err := tokens.Create(t.Context(), "ann", "eve", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	who := made.Identity()
	j.ann = state.Given{By: who.Name, Proof: who.Proof, Authenticated: true, Account: who.Account}
	j.waits(j.apply(), "every plan", state.RuleApproval)
	if err := tokens.Revoke(t.Context(), "ann", "eve"); err != nil {
		t.Fatal(err)
	}
	j.waits(j.resume(time.Time{}), "token:ann approved it, and since then a token was revoked", state.RuleApproval, state.RuleChanged)
	if _, made, err = tokens.Create(t.Context(), "ann", "eve", time.Time{}); err != nil {
		t.Fatal(err)
	}
	j.waits(j.resume(time.Time{}), "since then a token was revoked", state.RuleApproval, state.RuleChanged)
	j.ann.Account = made.Identity().Account
	if run := j.resume(time.Time{}); run.State != state.RunSucceeded {
		t.Errorf("with a valid token, the run is %s: %s", run.State, run.Error)
	}
}

// A module or provider may change the records of runs and tasks, as the runner does, but not those of approvals.
func TestJudge_ApprovalThatOnlyTheRecordOfTheRunHasDoesNotCount(t *testing.T) {
	for name, forge := range map[string]func(j *judging, a *state.Approval){
		"without a record":              func(_ *judging, a *state.Approval) { a.ID = "" },
		"with an id that has no record": func(_ *judging, a *state.Approval) { a.ID = "other" },
		"of another person":             func(_ *judging, a *state.Approval) { a.By = "eve" },
		"that expires later":            func(_ *judging, a *state.Approval) { a.Expires = a.Expires.Add(time.Hour) },
		"of another plan": func(j *judging, a *state.Approval) {
			other := a.Content
			other.Plan = "another plan"
			*a = state.Approval{Given: j.given(other, a.Expires).Given, Content: a.Content}
		},
		"by a second person": func(_ *judging, a *state.Approval) { a.Before = []state.Given{{By: "eve", ID: a.ID}} },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudging(t, config.Rules{})
			j.Config().Tasks[0].Rules = config.Rules{Approval: approval.Spec{Rule: approval.Always}}
			if name == "by a second person" {
				j.Config().Tasks[0].Approval.Require = 2
				j.ann.Authenticated = true
			}
			j.waits(j.apply(), "every plan", state.RuleApproval)
			run, err := state.Read[state.Run](t.Context(), j.store, state.RunKey("web", j.launch.Runs[0].ID))
			if err != nil {
				t.Fatal(err)
			}
			next := run.Data
			next.State, next.Launch, next.Resumed = state.RunIntended, j.launch.ID+"-again", &state.Resume{By: "ann", At: j.Now()}
			next.Approval = j.given(*next.Wait.Content, j.Now().Add(time.Hour))
			forge(j, next.Approval)
			j.launch.ID = next.Launch
			if _, err := j.store.Apply(t.Context(), run.Write(next)); err != nil {
				t.Fatal(err)
			}
			if run := j.apply(); run.State != state.RunWaiting || run.Wait == nil || !run.Wait.Has(state.RuleChanged) {
				t.Errorf("the run is %s (%s)", run.State, run.Wait)
			}
		})
	}
}

func TestJudge_NothingIsCommittedOutsideOfTheWindow(t *testing.T) {
	j := newJudging(t, config.Rules{})
	night, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "UTC"}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	j.Config().Tasks[0].Rules = config.Rules{Windows: []window.Window{night}, Approval: approval.Spec{Rule: approval.Always}}
	j.driver.plan.Changes, j.driver.plan.Commits = &state.Changes{}, true
	if run := j.apply(); run.State != state.RunWaiting || run.Wait.For != state.WaitWindow || j.driver.applied != 1 {
		t.Errorf("by day: %s %s; %d applies", run.State, run.Error, j.driver.applied)
	}
	j.Now = func() time.Time { return noon.Add(11 * time.Hour) }
	if run := j.resume(time.Time{}); run.State != state.RunSucceeded {
		t.Errorf("at night: %s %s %v", run.State, run.Error, run.Wait)
	}
}

func TestJudge_NothingIsAppliedOutsideOfTheWindow(t *testing.T) {
	night, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "UTC", AllowRemovalsAlways: true}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for name, rules := range map[string]config.Rules{
		"without a plan": {Windows: []window.Window{night}},
		"with a plan":    {Windows: []window.Window{night}, Guard: guard.Spec{Enabled: true, MaxDestroy: new(int)}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudging(t, config.Rules{})
			j.Config().Tasks[0].Rules = rules
			j.consul.count = 61
			run := j.apply()
			if run.State != state.RunWaiting || run.Wait.For != state.WaitWindow || !strings.Contains(run.Wait.Text, "22:00") || j.driver.applied != 1 {
				t.Fatalf("%s: %v", run.State, run.Wait)
			}
			if j.driver.judged > 0 && run.PlanData.Name == "" {
				t.Error("the plan that waits is not kept")
			}
			j.Now = func() time.Time { return noon.Add(10 * time.Hour) }
			if run = j.resume(time.Time{}); run.State != state.RunSucceeded {
				t.Errorf("at night: %s %v", run.State, run.Wait)
			}
		})
	}
}

func TestJudge_IncompleteRecordOfWhatWasAppliedIsNoReasonToApply(t *testing.T) {
	j := newJudging(t, config.Rules{Guard: guard.Default})
	records, err := j.store.List(t.Context(), "inputs/")
	if err != nil || len(records) == 0 {
		t.Fatal(err)
	}
	torn := append([]byte(nil), records[0].Value...)
	torn[len(torn)-1] ^= 1
	if _, err := j.store.Apply(t.Context(), state.Replace(records[0], torn)); err != nil {
		t.Fatal(err)
	}
	j.waits(j.apply(), "not known what is gone", state.RuleInputGuard)
}

func TestJudge_RemovalPassesTheWindowOnlyIfTheRunIsForIt(t *testing.T) {
	night, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: 8 * time.Hour, TimeZone: "UTC", AllowRemovalsAlways: true}.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for code, passes := range map[state.ReasonCode]bool{state.ReasonChanged: true, state.ReasonSchedule: true,
		state.ReasonDefinition: false, state.ReasonForced: false, state.ReasonRetry: false, state.ReasonDrift: false} {
		j := newJudging(t, config.Rules{})
		j.Config().Tasks[0].Rules = config.Rules{Windows: []window.Window{night}}
		run, err := state.Read[state.Run](t.Context(), j.store, state.RunKey("web", j.launch.Runs[0].ID))
		if err != nil {
			t.Fatal(err)
		}
		next := run.Data
		next.Reason.Code = code
		if _, err := j.store.Apply(t.Context(), run.Write(next)); err != nil {
			t.Fatal(err)
		}
		j.consul.count = 59
		if got := j.apply(); (got.State == state.RunSucceeded) != passes {
			t.Errorf("a run for %s that only removes entries is %s: %v", code, got.State, got.Wait)
		}
	}
}

// The driver says so before the details of the plan are read, for which the plan guard asks.
func TestRun_PlanThatIsBelowALimitWaitsForTheCausesOfTheDriver(t *testing.T) {
	limit := 5
	j := newJudging(t, config.Rules{Guard: guard.Spec{Enabled: true, MaxDestroy: &limit}})
	j.driver.plan.Changes = &state.Changes{Destroy: 1}
	j.driver.plan.Causes = []state.Cause{{Rule: state.RuleApproval, Text: "the state may be an older one"}}
	if run := j.apply(); run.State != state.RunWaiting || run.Wait.Text != "the state may be an older one" {
		t.Errorf("got %s, %+v", run.State, run.Wait)
	}
}
