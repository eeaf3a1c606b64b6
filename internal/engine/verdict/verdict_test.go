package verdict_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/verdict"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

var noon = time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)

// known is a task at rest whose plan would replace one resource.
func known(change func(*verdict.Case)) verdict.Case {
	at := noon.Add(-time.Hour)
	c := verdict.Case{
		Task: &config.Task{Name: "web", Enabled: true, Condition: config.Condition{Spec: condition.Services{{Names: []string{"web"}}}},
			BufferPeriod: config.BufferPeriod{Enabled: true, Min: 5 * time.Second, Max: 20 * time.Second}},
		Definition: "def", Condition: "B", Changes: &state.Changes{Add: 1, Destroy: 1}, Now: noon,
		State: state.Task{Applied: state.Applied{Definition: "def", Digest: "A", At: at}, Observed: state.Observed{Digest: "A", At: at}},
	}
	change(&c)
	return c
}

// closed is a window that denies changes at noon.
func closed(exceptRemovals bool) []window.Window {
	w, err := window.Window{Kind: window.Deny, Schedule: "0 11 * * *", Duration: 2 * time.Hour, TimeZone: "UTC", AllowRemovalsAlways: exceptRemovals}.Parse()
	if err != nil {
		panic(err)
	}
	return []window.Window{w}
}

func TestOf_SaysWhatWouldHappen(t *testing.T) {
	gone := []state.Cause{{Rule: state.RuleInputGuard, Text: "12 of 20 are gone"}}
	approval := []state.Cause{{Rule: state.RuleApproval, Text: "every plan needs an approval"}}
	replaced := []state.Cause{{Rule: state.RuleReplaced, Text: "1 of 20 are gone, and Consul was replaced since they were applied"}}
	for want, change := range map[string]func(*verdict.Case){
		"applied would be applied: 1 to add, 0 to change, 1 to destroy": func(*verdict.Case) {},
		"unchanged no change":                                                            func(c *verdict.Case) { c.Changes = &state.Changes{} },
		"held would be held: 12 of 20 are gone":                                          func(c *verdict.Case) { c.Causes = gone },
		"approval would wait for an approval: every plan needs an approval":              func(c *verdict.Case) { c.Causes = approval },
		"held would be held: 12 of 20 are gone; every plan needs an approval":            func(c *verdict.Case) { c.Causes = append(gone[:1:1], approval...) },
		"failed would fail: no such image":                                               func(c *verdict.Case) { c.Err, c.Changes = errors.New("no such image"), nil },
		"held would be held: 12 of 20 are gone; there is no plan to show: no such image": func(c *verdict.Case) { c.Err, c.Changes, c.Causes = errors.New("no such image"), nil, gone },
		"failed would fail: policy refuses it":                                           func(c *verdict.Case) { c.Err = errors.New("policy refuses it") },
		"stopped would not run: on hold by ann since 2086-03-14T11:00:00Z; after that it would be held": func(c *verdict.Case) {
			c.State.OnHold, c.Causes = &state.OnHold{By: "ann", At: noon.Add(-time.Hour)}, gone
		},
		"window would wait for its window: 1 to add":                      func(c *verdict.Case) { c.Task.Windows = closed(false) },
		"applied would be applied: 1 to add, 0 to":                        func(c *verdict.Case) { c.Task.Windows, c.Removals = closed(true), true },
		"window would wait for its window: 1":                             func(c *verdict.Case) { c.Task.Windows = closed(true) },
		"applied would be applied after edge-*, vpn: 1 to add":            func(c *verdict.Case) { c.Task.After = []string{"edge-*", "vpn"} },
		"later would change nothing now":                                  func(c *verdict.Case) { c.Condition, c.State.Forced.By = "A", "a-run" },
		"stopped would not run: paused by bob":                            func(c *verdict.Case) { c.Paused = &state.Paused{By: "bob", Since: noon} },
		"stopped would not run: the task is disabled":                     func(c *verdict.Case) { t := *c.Task; t.Enabled = false; c.Task = &t },
		"later would change nothing now, and its next run would apply it": func(c *verdict.Case) { c.Condition = "A" },
		"applied would be applied: 1 to add":                              func(c *verdict.Case) { c.State = state.Task{} },
		"held would be held: 1 of 20 are gone, and Consul was replaced":   func(c *verdict.Case) { c.Causes = replaced },
		"held would be held: 1 of 20 are gone, and Consul was": func(c *verdict.Case) {
			c.Causes, c.Changes = replaced, &state.Changes{} // a tick holds it before there is a plan
		},
		"applied would be applied: 1 to add, 0": func(c *verdict.Case) { c.State.Run = &state.LiveRun{ID: "r"} },
	} {
		outcome, text, _ := strings.Cut(want, " ")
		v := verdict.Of(known(change))
		if string(v.Outcome) != outcome || !strings.HasPrefix(v.Text, text) {
			t.Errorf("%s %q, want %s %q", v.Outcome, v.Text, outcome, text)
		}
	}
}

func TestOf_ChangesNoRecord(t *testing.T) {
	c := known(func(*verdict.Case) {})
	c.State.Run = &state.LiveRun{ID: "r"}
	verdict.Of(c)
	if c.State.Run == nil {
		t.Error("the record has changed")
	}
}

// Tasks that come after one that would apply nothing wait if it does not get to rest either.
func TestOf_SaysWhyATaskWithNothingToApplyKeepsOthersWaiting(t *testing.T) {
	hold := &state.OnHold{By: "ann", At: noon.Add(-time.Hour)}
	unverified := &state.Unverified{State: state.VerifyFailed, Text: "vip failed"}
	for name, tt := range map[string]struct {
		change func(*verdict.Case)
		want   string
	}{
		"no change":                  {func(c *verdict.Case) { c.Changes = &state.Changes{} }, ""},
		"no change, on hold":         {func(c *verdict.Case) { c.Changes, c.State.OnHold = &state.Changes{}, hold }, "on hold by ann"},
		"no change, and verified so": {func(c *verdict.Case) { c.Changes, c.State.Applied.Unverified = &state.Changes{}, unverified }, ""},
		"no change, and no run": {func(c *verdict.Case) {
			c.Changes, c.State.Applied.Unverified, c.Condition = &state.Changes{}, unverified, "A"
		}, "not verified: vip failed"},
		"a later run":               {func(c *verdict.Case) { c.Condition = "A" }, ""},
		"a later run, not verified": {func(c *verdict.Case) { c.Condition, c.State.Applied.Unverified = "A", unverified }, "not verified: vip failed"},
		"a run under way meanwhile": {func(c *verdict.Case) {
			c.Condition, c.State.Run = "A", &state.LiveRun{ID: "r"}
			c.State.RemoteRun = &state.RemoteRun{Driver: "terraform-cloud", ID: "run-1", GivenUp: &state.GivenUp{}}
		}, ""},
	} {
		if got := verdict.Of(known(tt.change)).Keeps; !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: others wait because %q, want %q", name, got, tt.want)
		}
	}
}
