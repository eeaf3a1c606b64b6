package decide

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// chain are inputs and their order. The input of "lb", which has changed, comes last.
type chain struct {
	inputs []Input
	order  Order
	now    time.Time
}

// closed is a window that is not open at noon.
var closed = func() []window.Window {
	w, err := window.Window{Kind: window.Allow, Schedule: "0 22 * * *", Duration: time.Hour, TimeZone: "UTC"}.Parse()
	if err != nil {
		panic(err)
	}
	return []window.Window{w}
}()

// named returns the input of a task at rest that comes after others.
func named(name string, after ...string) Input {
	t := webTask()
	t.Name, t.After, t.BufferPeriod = name, after, config.BufferPeriod{}
	return Input{Task: t, Definition: "def", State: applied(), Removal: Removal{Keep: keptRemoved}}
}

// afterFirewall is a change of lb, which comes after firewall.
func afterFirewall(change func(*Input)) *chain { return afterEntry("firewall", change) }

func afterEntry(entry string, change func(*Input)) *chain {
	firewall, lb := named("firewall"), named("lb", entry)
	change(&firewall)
	lb.Observed = &Observed{Digest: "B", Entries: cameAPI}
	return &chain{inputs: []Input{firewall, lb}, now: noon}
}

// decide decides with the order of the tasks that are in the configuration.
func (c *chain) decide() map[string]Decision {
	cfg := &config.Config{}
	for _, in := range c.inputs {
		if !in.Removed {
			cfg.Tasks = append(cfg.Tasks, *in.Task)
		}
	}
	c.order.Tasks = cfg.Order()
	all := map[string]Decision{}
	for _, d := range c.order.Decide(c.inputs, c.now) {
		all[d.Task.Name] = d
	}
	return all
}

func changedTo(digest string) Reading {
	return Reading{Observed: &Observed{Digest: digest, Entries: cameAPI}}
}

func endedAs(s state.RunState) func(*Input) {
	return func(in *Input) {
		in.State.Ended.Last = &state.Result{Run: "r0", State: s, Kind: state.KindApply}
	}
}

func removed(in *Input) {
	in.Removed, in.State.Gone = true, state.Gone{Since: noon.Add(-time.Hour), Final: true}
}

// situations bring firewall into each situation that a predecessor can be in.
var situations = map[string]func() *chain{
	"applied": func() *chain { return afterFirewall(func(*Input) {}) },
	"never applied": func() *chain {
		return afterFirewall(func(in *Input) { in.State = state.Task{}; in.Reading = changedTo("A") })
	},
	"changed": func() *chain { return afterFirewall(func(in *Input) { in.Reading = changedTo("B") }) },
	"buffering": func() *chain {
		return afterFirewall(func(in *Input) { in.Task.BufferPeriod, in.Reading = webTask().BufferPeriod, changedTo("B") })
	},
	"changed, and its schedule is not due": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Task.Condition = config.Condition{Spec: condition.Schedule{Cron: "0 3 * * *"}}
			in.Reading = changedTo("B")
		})
	},
	"running": func() *chain {
		return afterFirewall(func(in *Input) { in.State.Run = &state.LiveRun{ID: "r1", Created: noon} })
	},
	"waiting for an approval": func() *chain {
		return afterFirewall(func(in *Input) {
			in.State.Observed.Digest = "B"
			in.State.Run = &state.LiveRun{ID: "r1", Input: "B", Wait: &state.Wait{ID: "w", For: state.WaitApproval, Since: noon}}
		})
	},
	"outside its window": func() *chain {
		return afterFirewall(func(in *Input) { in.Task.Windows, in.Reading = closed, changedTo("B") })
	},
	"Consul was replaced": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Reading = changedTo("B")
			in.Observed.Lost, in.Replaced = &Loss{Entries: 2, Text: "2 of 3 are gone"}, &state.Replaced{Why: "another cluster id"}
		})
	},
	"queued": func() *chain {
		return afterFirewall(func(in *Input) {
			in.State.Observed.Digest, in.State.Reason = "B", state.Reason{Code: state.ReasonQueued, Text: "1 launch is under way"}
		})
	},
	"failed": func() *chain {
		return afterFirewall(func(in *Input) {
			endedAs(state.RunFailed)(in)
			in.State.Failing.Count, in.State.Failing.RetryAt = 1, noon.Add(5*time.Second)
		})
	},
	"its Terraform state is not saved": func() *chain {
		return afterFirewall(func(in *Input) {
			endedAs(state.RunFailed)(in)
			in.State.Failing.Count, in.State.Unsaved = 1, &state.Unsaved{Run: "r0", Runner: "node-2", Instance: true, Place: "/tasks/firewall/errored.tfstate"}
			in.Unreached = "node-2 is not there"
		})
	},
	"not verified": func() *chain {
		return afterFirewall(func(in *Input) {
			in.State.Applied.Unverified = &state.Unverified{State: state.VerifyFailed, Since: noon, Text: "vip failed"}
		})
	},
	"being verified": func() *chain {
		return afterFirewall(func(in *Input) { in.State, in.Driver = halfVerified(), "terraform-cloud" })
	},
	"interrupted": func() *chain { return afterFirewall(endedAs(state.RunInterrupted)) },
	"cancelled or rejected": func() *chain {
		return afterFirewall(func(in *Input) {
			endedAs(state.RunCancelled)(in)
			in.State.Stop = &state.Stop{Code: state.ReasonCancelled, For: state.Attempt{Definition: "def", Observed: "A"}}
		})
	},
	"a run is requested": func() *chain { return afterFirewall(func(in *Input) { in.State.Forced.By = "ann" }) },
	"on hold": func() *chain {
		return afterFirewall(func(in *Input) { in.State.OnHold = &state.OnHold{By: "ann", At: noon} })
	},
	"created or enabled without a run": func() *chain {
		return afterFirewall(func(in *Input) {
			in.State = state.Task{}
			in.State.Stop, in.Reading = &state.Stop{Code: state.ReasonHeld, Next: true}, changedTo("A")
		})
	},
	"perhaps renamed": func() *chain {
		return afterFirewall(func(in *Input) {
			in.State, in.Reading = state.Task{Naming: state.Naming{Renamed: []string{"edge"}}}, changedTo("A")
		})
	},
	"destroyed by hand": func() *chain {
		return afterFirewall(func(in *Input) {
			in.State = state.Task{}
			in.State.Observed.At, in.State.Observed.Digest = noon, "A"
			in.State.Ended.Last = &state.Result{Run: "r0", Kind: state.KindDestroy, State: state.RunSucceeded}
			in.State.Stop = &state.Stop{Code: state.ReasonDestroyed, For: state.Attempt{Definition: "def"}}
		})
	},
	"unreadable": func() *chain {
		return afterFirewall(func(in *Input) { in.Unreadable = errors.New("permission denied") })
	},
	"blocked":              func() *chain { return afterFirewall(func(in *Input) { in.Blocked = errors.New("no module") }) },
	"its record is broken": func() *chain { return afterFirewall(func(in *Input) { in.Corrupt = errors.New("no JSON") }) },
	"a remote run of it is given up": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Driver = "terraform-cloud"
			in.State.RemoteRun = &state.RemoteRun{ID: "run-1", Version: "v", Driver: "terraform-cloud", GivenUp: &state.GivenUp{Since: noon}}
		})
	},
	"drifted": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Task.Drift = drift.Spec{Enabled: true, Action: drift.Report}
			in.State.Drift = &state.Drift{After: noon.Add(time.Hour), Found: &state.Drifted{Since: noon}}
		})
	},
	"checked for drift": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Task.Drift = drift.Spec{Enabled: true, Action: drift.Report}
			in.State.Drift = &state.Drift{Run: &state.LiveRun{ID: "c1"}}
		})
	},
	"disabled": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Task.Enabled = false
			endedAs(state.RunFailed)(in)
			in.State.Failing.Count = 1
		})
	},
	"disabled while its run is under way": func() *chain {
		return afterFirewall(func(in *Input) {
			in.Task.Enabled, in.State.Run = false, &state.LiveRun{ID: "r1", Created: noon}
		})
	},
	"at rest, after one that is not": func() *chain { return behind(func(*Input) {}) },
	"disabled, after one that is not at rest": func() *chain {
		return behind(func(in *Input) { in.Task.Enabled = false })
	},
	"removed, named by its name":    func() *chain { return afterFirewall(removed) },
	"removed, matched by a pattern": func() *chain { return afterEntry("fire*", removed) },
	"missing for less than 30 seconds, matched by a pattern": func() *chain {
		return afterEntry("fire*", func(in *Input) { in.Removed = true })
	},
	"removed while its run is under way, matched by a pattern": func() *chain {
		return afterEntry("fire*", func(in *Input) { removed(in); in.State.Run = &state.LiveRun{ID: "r1", Created: noon} })
	},
	"renamed while its run is under way, matched by a pattern": func() *chain {
		return afterEntry("fire*", func(in *Input) {
			in.Removed, in.MovedTo, in.State.Run = true, "edge", &state.LiveRun{ID: "r1", Created: noon}
		})
	},
	"renamed, named by its former name": func() *chain {
		return afterEntry("gateway", func(in *Input) { in.Task.MovedFrom = []string{"gateway"} })
	},
	"there is no such task":               func() *chain { return afterEntry("firewal", func(*Input) {}) },
	"the pattern matches nothing":         func() *chain { return afterEntry("x-*", func(*Input) {}) },
	"the pattern matches the task itself": func() *chain { return afterEntry("lb*", func(*Input) {}) },
}

// behind is a change of lb, which comes after firewall, which comes after core, which has changed.
func behind(change func(*Input)) *chain {
	c := afterFirewall(change)
	c.inputs[0].Task.After = []string{"core"}
	core := named("core")
	core.Reading = changedTo("B")
	c.inputs = append(c.inputs, core)
	return c
}

// passing are the situations of firewall in which lb does not wait.
var passing = []string{
	"applied", "drifted", "checked for drift", "disabled", "removed, matched by a pattern", "renamed, named by its former name",
	"the pattern matches nothing", "the pattern matches the task itself",
}

func TestOrder_ATaskWaitsInEachSituationOfAPredecessorExceptThese(t *testing.T) {
	for is, set := range situations {
		t.Run(is, func(t *testing.T) {
			d, want := set().decide()["lb"], !slices.Contains(passing, is)
			if waits := d.Action == Wait && d.Reason.Code == state.ReasonAfter; waits != want || !waits && d.Action != Run {
				t.Errorf("action %d, reason %+v; want that it waits: %t", d.Action, d.Reason, want)
			}
			if want && !strings.HasPrefix(d.Reason.Text, "waits for ") {
				t.Error(d.Reason.Text)
			}
		})
	}
}

// The tables in docs/order.md have situations that are tried, and say what happens.
func TestOrder_TheRowsOfTheDocumentAreTrue(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "order.md"))
	if err != nil {
		t.Fatal(err)
	}
	for head, table := range map[string]struct {
		tried   map[string]func() *chain
		passing []string
	}{
		"\n| a task that comes before is | the task waits | because |\n|---|---|---|\n":   {situations, passing},
		"\n| a task that comes after is | the destroy waits | because |\n|---|---|---|\n": {successors, passed},
	} {
		_, rows, found := strings.Cut(string(doc), head)
		if rows, _, _ = strings.Cut(rows, "\n\n"); !found {
			t.Errorf("docs/order.md has no table with the head %s", head)
		}
		for row := range strings.Lines(rows) {
			cells := strings.Split(row, " | ")
			is := strings.TrimPrefix(cells[0], "| ")
			waits := "**yes**"
			if slices.Contains(table.passing, is) {
				waits = "no"
			}
			if table.tried[is] == nil || len(cells) != 3 || cells[1] != waits {
				t.Errorf("docs/order.md has the row %q; tried: %t, waits: %s", row, table.tried[is] != nil, waits)
			}
		}
	}
}

func TestOrder_SaysWhichTaskAndWhy(t *testing.T) {
	for name, want := range map[string]string{
		"waiting for an approval":        "waits for firewall: run r1 waits for approval",
		"on hold":                        "waits for firewall: on hold by ann since",
		"at rest, after one that is not": "waits for firewall, which waits for core: web: +api-1",
		"there is no such task":          "waits for firewal: there is no such task: create it, or take its name out of `after`",
	} {
		if got := situations[name]().decide()["lb"].Reason.Text; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Every trigger passes the rule, and every run but one that another system applies already.
func TestOrder_HoldsEveryTrigger(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"first run":    func(in *Input) { in.State, in.Reading = state.Task{}, changedTo("A") },
		"definition":   func(in *Input) { in.Definition = "other" },
		"request":      func(in *Input) { in.State.Forced.By = "ann" },
		"-once":        func(in *Input) { in.Force, in.All = "-once", true },
		"retry":        func(in *Input) { endedAs(state.RunFailed)(in); in.State.Failing.Count = 1 },
		"interruption": endedAs(state.RunInterrupted),
		"doubt":        func(in *Input) { in.State.Applied.Doubt = "a run went on" },
		"schedule": func(in *Input) {
			in.Task.Condition, in.State.Observed.Digest = hourlyTask().Condition, "B"
		},
		"drift": func(in *Input) {
			in.Task.Drift = drift.Spec{Enabled: true, Action: drift.Apply}
			in.State.Drift = &state.Drift{Found: &state.Drifted{Since: noon}}
		},
		"approval": func(in *Input) {
			in.State.Run = &state.LiveRun{ID: "r1", Input: "A", Wait: &state.Wait{ID: "w", For: state.WaitApproval, Since: noon}, Resume: &state.Resume{By: "ann", At: noon}}
		},
		"window": func(in *Input) {
			in.State.Run = &state.LiveRun{ID: "r1", Input: "A", Wait: &state.Wait{ID: "w", For: state.WaitWindow, Since: noon}}
		},
		"a planned remote run": func(in *Input) {
			in.Driver, in.Remote = "terraform-cloud", &state.RemoteStatus{Phase: state.RemoteReady}
			in.State.RemoteRun = &state.RemoteRun{ID: "run-1", Version: "v", Driver: "terraform-cloud"}
			in.State.Run = &state.LiveRun{ID: "r1", Input: "A", Wait: &state.Wait{ID: "w", For: state.WaitRemotePlan, Since: noon}}
		},
	} {
		for _, rests := range []bool{true, false} {
			firewall, lb := named("firewall"), named("lb", "firewall")
			if !rests {
				firewall.Reading = changedTo("B")
			}
			change(&lb)
			d := (&chain{inputs: []Input{lb, firewall}, now: noon}).decide()["lb"]
			if runs := d.Action == Run || d.Action == Resume; runs != rests || !rests && d.Reason.Code != state.ReasonAfter {
				t.Errorf("%s, firewall at rest %t: action %d, %+v", name, rests, d.Action, d.Reason)
			}
		}
	}
}

func TestOrder_AWaitForTooLongIsReported(t *testing.T) {
	c := situations["on hold"]()
	c.inputs[1].Task.AfterTimeout = time.Minute
	lb := c.decide()["lb"]
	if after := lb.State.After; after == nil || after.Late || after.Task != "firewall" || after.Code != state.ReasonOnHold || !lb.State.Due.Equal(noon.Add(time.Minute)) {
		t.Fatalf("%+v, due %s", after, lb.State.Due)
	}
	c.inputs[1].State, c.inputs[1].Observed, c.now = lb.State, nil, noon.Add(time.Minute)
	lb = c.decide()["lb"]
	if after := lb.State.After; after == nil || !after.Late || lb.Action != Wait || !lb.State.Due.IsZero() {
		t.Fatalf("%+v, action %d, due %s", after, lb.Action, lb.State.Due)
	}
	if v := (lifecycle.Facts{Name: "lb", Task: lb.State, Setting: lifecycle.Enabled}).Assess(); v.Phase != lifecycle.Waiting || !v.Person {
		t.Errorf("%+v", v)
	}
	c.inputs[0].State.OnHold, c.inputs[1].State = nil, lb.State
	if lb = c.decide()["lb"]; lb.Action != Run || lb.State.After != nil {
		t.Errorf("action %d, %+v", lb.Action, lb.State.After)
	}
}

// Otherwise each step of one task would write the records of all that wait for it.
func TestOrder_TheReasonChangesOnlyWithThatOfThePredecessor(t *testing.T) {
	c := situations["buffering"]()
	lb := c.decide()["lb"]
	c.inputs[1].State, c.inputs[1].Observed = lb.State, nil
	c.inputs[0].Reading = changedTo("C")
	if next := c.decide()["lb"]; next.Reason != lb.Reason {
		t.Errorf("%+v, before %+v", next.Reason, lb.Reason)
	}
	c.inputs[0].Unreadable, c.inputs[0].Observed = errors.New("permission denied"), nil
	if next := c.decide()["lb"]; !strings.Contains(next.Reason.Text, "permission denied") {
		t.Errorf("%+v", next.Reason)
	}
}

// Who reads why a task waits for a failing one does not have to look for the error there.
func TestOrder_TaskThatWaitsForAFailingOneSaysWhyThatFails(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*state.Task)
		want   string
	}{
		"it waits for its retry": {func(s *state.Task) { s.Failing.RetryAt = noon.Add(time.Minute) }, "waits for firewall: it fails: apply: the device does not answer"},
		"it is retried":          {func(s *state.Task) {}, "waits for firewall: it fails: apply: the device does not answer"},
		"it is on hold, too":     {func(s *state.Task) { s.OnHold = &state.OnHold{By: "Ann", At: noon} }, "waits for firewall: it fails: apply: the device does not answer; on hold by Ann"},
	} {
		c := afterFirewall(func(in *Input) {
			s := &in.State
			s.Failing, s.Attempted = state.Failing{Count: 4, Since: noon, Error: "apply:\n  the device does not answer"}, state.Attempt{Definition: "def", Observed: s.Observed.Digest}
			tt.change(s)
		})
		if got := c.decide()["lb"].Reason; got.Code != state.ReasonAfter || !strings.HasPrefix(got.Text, tt.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A runner that was away may take up its run again until the record says that it was lost.
func TestOrder_TaskWaitsUntilTheLossOfARunBeforeItIsWritten(t *testing.T) {
	c := afterFirewall(func(in *Input) {
		in.Task.Enabled = false // else it would run again first
		in.State.Run = &state.LiveRun{ID: "r1", Created: noon.Add(-time.Hour)}
		in.Dead = Dead{Lost: &state.Run{ID: "r1", Task: "firewall", Kind: state.KindApply, State: state.RunLost}}
	})
	all := c.decide()
	if d := all["lb"]; d.Action == Run || !strings.Contains(d.Reason.Text, "its run was lost") || !d.State.Due.Equal(noon) {
		t.Errorf("in the tick that finds the loss: %d, %+v, due %s", d.Action, d.Reason, d.State.Due)
	}
	c.inputs[0].State, c.inputs[0].Dead = all["firewall"].State, Dead{}
	c.inputs[1].State = all["lb"].State
	if d := c.decide()["lb"]; d.Action != Run {
		t.Errorf("then: %d, %+v", d.Action, d.Reason)
	}
}
