package overview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRead_HeldAndWaitingTasksSayWhatEndsIt(t *testing.T) {
	noon := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	run := func(what state.WaitFor, resume *state.Resume, causes ...state.Cause) *state.LiveRun {
		return &state.LiveRun{ID: "r1", Resume: resume, Wait: &state.Wait{For: what, ID: "w1", Since: noon, Content: &state.Content{}, Causes: causes}}
	}
	guard := state.Cause{Rule: state.RuleInputGuard, Text: "40 of 60 instances of web are gone"}
	rule := state.Cause{Rule: state.RuleApproval, Text: "every plan needs an approval"}
	outside := state.Reason{Code: state.ReasonOutside, Text: "outside its window, which opens at noon"}
	replaced := state.Reason{Code: state.ReasonReplaced, Text: "3 keys are gone, and Consul was replaced since they were applied"}
	renamed := state.Reason{Code: state.ReasonRenamed, Text: "perhaps this is task old under a new name"}
	onHold := &state.OnHold{By: "Jo", At: noon, Comment: "change freeze"}
	behind := run(state.WaitRemotePlan, nil)
	behind.Wait.Text, behind.Wait.Person = "pending: the run run-9 of the same workspace is first: confirm or discard it in HCP Terraform", true
	byAnn := func(causes ...state.Cause) *state.LiveRun {
		live := run(state.WaitApproval, nil, causes...)
		live.Wait.Needs, live.Approvals = 2, []state.Given{{By: "token:ann"}}
		return live
	}
	check := state.Cause{Rule: state.RuleCheck, Text: "check public refused the plan"}
	const oneOf2 = "; 1 of 2 approvals: token:ann has approved"
	for name, test := range map[string]struct {
		task  state.Task
		phase apispec.Phase
		says  []string
		due   bool
	}{
		"guard-1-of-2":    {state.Task{Run: byAnn(guard)}, apispec.PhaseWaiting, []string{"the data comes back", oneOf2}, false},
		"check-1-of-2":    {state.Task{Run: byAnn(check)}, apispec.PhaseWaiting, []string{"the check is changed", oneOf2}, false},
		"approval-1-of-2": {state.Task{Run: byAnn(rule)}, apispec.PhaseWaiting, []string{"waits for approval since", oneOf2}, false},
		"guard": {state.Task{Run: run(state.WaitApproval, nil, guard, rule)}, apispec.PhaseWaiting, []string{"waits since 2086-03-14T12:00:00Z: 40 of 60 instances of web are gone; every plan needs an approval",
			"the data comes back", "`terrapulse approve -plan=w1 guard`", "limit is raised"}, false},
		"check": {state.Task{Run: run(state.WaitApproval, nil, state.Cause{Rule: state.RuleCheck, Text: "check public refused the plan"}, rule)}, apispec.PhaseWaiting,
			[]string{"waits since 2086-03-14T12:00:00Z: check public refused the plan; every plan needs an approval", "the data changes", "`terrapulse approve -plan=w1 check`", "the check is changed"}, false},
		"approval":         {state.Task{Run: run(state.WaitApproval, nil, rule)}, apispec.PhaseWaiting, []string{"waits for approval since 2086-03-14T12:00:00Z: every plan needs", "`terrapulse approve -plan=w1 approval`"}, false},
		"approved":         {state.Task{Run: run(state.WaitApproval, &state.Resume{By: "Jo"}, guard)}, apispec.PhaseSoon, []string{"resumed by Jo"}, false},
		"approved-outside": {state.Task{Run: run(state.WaitApproval, &state.Resume{By: "Jo"}, guard), Reason: outside, Due: noon}, apispec.PhaseSoon, []string{"outside its window, which opens at noon"}, true},
		"approved-replaced": {state.Task{Run: run(state.WaitApproval, &state.Resume{By: "Jo"}, guard), Reason: state.Reason{Code: state.ReasonReplaced, Text: "Consul was replaced"}},
			apispec.PhaseWaiting, []string{"resumed by Jo, and Consul was replaced"}, false},
		"approved-unreadable": {state.Task{Run: run(state.WaitApproval, &state.Resume{By: "Jo"}, guard), Reason: state.Reason{Code: state.ReasonUnreadable, Text: "permission denied"}},
			apispec.PhaseUnreadable, []string{"permission denied"}, false},
		"run-for-window":  {state.Task{Run: run(state.WaitWindow, nil), Due: noon}, apispec.PhaseSoon, []string{"waits for its window"}, true},
		"window":          {state.Task{Reason: outside, Due: noon}, apispec.PhaseSoon, []string{"outside its window"}, true},
		"replaced":        {state.Task{Reason: replaced}, apispec.PhaseWaiting, []string{"Consul was replaced"}, false},
		"replaced-run":    {state.Task{Reason: replaced, Requests: state.Requests{Forced: state.Forced{By: "Jo"}}}, apispec.PhaseWaiting, []string{"Consul was replaced"}, false},
		"renamed-destroy": {state.Task{Reason: renamed, Naming: state.Naming{Renamed: []string{"old"}}, Requests: state.Requests{Destroy: &state.Request{By: "Jo"}}}, apispec.PhaseWaiting, []string{"under a new name"}, false},
		"renamed-run":     {state.Task{Reason: renamed, Requests: state.Requests{Forced: state.Forced{By: "Jo"}}}, apispec.PhaseWaiting, []string{"under a new name"}, false}, // the request has not ended it
		"renamed-new":     {state.Task{Reason: renamed, Naming: state.Naming{Renamed: []string{"old"}}, Requests: state.Requests{Forced: state.Forced{By: "Jo"}}}, apispec.PhaseSoon, []string{"requested by Jo"}, false},
		"hold":            {state.Task{Stops: state.Stops{OnHold: onHold}}, apispec.PhaseStopped, []string{"on hold by Jo since 2086-03-14T12:00:00Z: change freeze", "`terrapulse release hold` ends it"}, false},
		"hold-waiting":    {state.Task{Stops: state.Stops{OnHold: onHold}, Run: run(state.WaitApproval, nil, guard)}, apispec.PhaseStopped, []string{"on hold by Jo", "its run waits for approval"}, false},
		"hold-running":    {state.Task{Stops: state.Stops{OnHold: onHold}, Run: &state.LiveRun{ID: "r1"}}, apispec.PhaseRunning, nil, false},
		"remote-behind":   {state.Task{Run: behind}, apispec.PhaseWaiting, []string{"waits for the plan of the remote run", "discard it"}, false},
		"remote":          {state.Task{Stops: state.Stops{OnHold: onHold}, Run: run(state.WaitRemote, nil)}, apispec.PhaseRunning, []string{"waits for the remote run"}, false},
	} {
		store := newStore(t)
		test.task.Applied.At = noon
		write(t, store, state.TaskKey(name), test.task)
		if live := test.task.Run; live != nil {
			now := state.RunRunning
			if live.Wait != nil {
				now = state.RunWaiting
			}
			write(t, store, state.RunKey(name, live.ID), state.Run{ID: live.ID, Task: name, Kind: state.KindApply, State: now, Waits: state.Waits{Wait: live.Wait}, Created: noon})
		}
		o, err := overview.Reader{Store: store, Now: func() time.Time { return noon }}.Recorded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := o.Tasks[0]
		if got.Phase != test.phase || (got.Due != nil) != test.due {
			t.Errorf("%s: %s, due %v, because %+v", name, got.Phase, got.Due, got.Reason)
		}
		for _, text := range test.says {
			if !strings.Contains(got.Reason.Text, text) {
				t.Errorf("%s: %q does not say %q", name, got.Reason.Text, text)
			}
		}
	}
}

// What is due next is a run: neither the end of a wait, nor the removal of records.
func TestRead_OnlyARunIsDue(t *testing.T) {
	noon := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	at := noon.Add(time.Hour)
	because := func(code state.ReasonCode) state.Task {
		return state.Task{Reason: state.Reason{Code: code, Text: "because"}, Due: at}
	}
	waits := because(state.ReasonWaiting)
	waits.Run = &state.LiveRun{ID: "r1", Wait: &state.Wait{ID: "w1", For: state.WaitApproval, Since: noon, Until: at, Content: &state.Content{Plan: "p"}}}
	for name, test := range map[string]struct {
		task state.Task
		due  bool
	}{
		"scheduled":       {because(state.ReasonUnchanged), true},
		"buffered":        {because(state.ReasonBuffering), true},
		"waits-for-retry": {because(state.ReasonBackoff), true},
		"outside-window":  {because(state.ReasonOutside), true},
		"approval-ends":   {waits, false},
		"removed":         {because(state.ReasonRemoved), false},
		"behind-another":  {because(state.ReasonAfter), false},
		"unreadable":      {because(state.ReasonUnreadable), false},
	} {
		store := newStore(t)
		test.task.Applied.At = noon
		write(t, store, state.TaskKey(name), test.task)
		if test.task.Run != nil {
			write(t, store, state.RunKey(name, "r1"), state.Run{ID: "r1", Task: name, Kind: state.KindApply, State: state.RunWaiting, Waits: state.Waits{Wait: test.task.Run.Wait}, Created: noon})
		}
		o, err := overview.Reader{Store: store, Now: func() time.Time { return noon }}.Recorded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Tasks[0]; (got.Due != nil) != test.due {
			t.Errorf("%s: due %v, because %+v", name, got.Due, got.Reason)
		}
	}
}
