package decide

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
)

// destroyed is a chain in which a person requests that firewall is destroyed. lb comes after it.
func destroyed(change func(lb *Input)) *chain {
	firewall, lb := named("firewall"), named("lb", "firewall")
	firewall.State.Destroy = &state.Request{By: "ann", At: noon}
	change(&lb)
	return &chain{inputs: []Input{firewall, lb}, now: noon}
}

// leaving has what a removed task has made be destroyed.
func leaving(in *Input) {
	removed(in)
	in.Destroy = true
}

// destroyedTo is destroyed with one more task, dns, which comes after lb.
func destroyedTo(lb, dns func(*Input)) *chain {
	c := destroyed(lb)
	c.inputs = append(c.inputs, named("dns", "lb"))
	dns(&c.inputs[2])
	return c
}

// remotely has a run of the task wait while its remote run is in a phase.
func remotely(wait state.WaitFor, phase, now state.RemotePhase) func(*Input) {
	return func(in *Input) {
		in.Driver, in.Remote = "terraform-cloud", &state.RemoteStatus{Phase: now}
		in.State.RemoteRun = &state.RemoteRun{ID: "run-1", Version: "v", Driver: "terraform-cloud", Phase: phase}
		in.State.Run = &state.LiveRun{ID: "r1", Input: "A", Wait: &state.Wait{ID: "w", For: wait, Since: noon}}
		in.State.Attempted = state.Attempt{Definition: "def", Observed: "A"}
	}
}

func runs(in *Input) { in.State.Run = &state.LiveRun{ID: "r1", Created: noon} }

func stays(*Input) {}

// successors bring lb into each situation that a successor can be in.
var successors = map[string]func() *chain{
	"at rest": func() *chain { return destroyed(stays) },
	"changed": func() *chain { return destroyed(func(in *Input) { in.Reading = changedTo("B") }) },
	"waiting for an approval": func() *chain {
		return destroyed(func(in *Input) {
			in.State.Run = &state.LiveRun{ID: "r1", Input: "A", Wait: &state.Wait{ID: "w", For: state.WaitApproval, Since: noon}, Resume: &state.Resume{By: "ann", At: noon}}
		})
	},
	"on hold": func() *chain {
		return destroyed(func(in *Input) { in.State.OnHold = &state.OnHold{By: "ann", At: noon} })
	},
	"running": func() *chain { return destroyed(runs) },
	"being verified": func() *chain {
		return destroyed(func(in *Input) { in.State, in.Driver = halfVerified(), "terraform-cloud" })
	},
	"planned in HCP Terraform": func() *chain {
		return destroyed(remotely(state.WaitRemotePlan, state.RemotePlanning, state.RemoteReady))
	},
	"applied in HCP Terraform": func() *chain {
		return destroyed(remotely(state.WaitRemote, state.RemoteApplying, state.RemoteApplying))
	},
	"confirmed in HCP Terraform": func() *chain {
		return destroyed(remotely(state.WaitApproval, state.RemoteReady, state.RemoteApplying))
	},
	"a remote run of it is given up": func() *chain {
		return destroyed(func(in *Input) {
			in.Driver = "terraform-cloud"
			in.State.RemoteRun = &state.RemoteRun{ID: "run-1", Version: "v", Driver: "terraform-cloud", GivenUp: &state.GivenUp{Since: noon}}
		})
	},
	"its run was lost": func() *chain {
		return destroyed(func(in *Input) {
			runs(in)
			in.Lost = &state.Run{ID: "r1", State: state.RunLost, Times: state.Times{Ended: noon}}
		})
	},
	"checked for drift": func() *chain {
		return destroyed(func(in *Input) {
			in.Task.Drift = drift.Spec{Enabled: true, Action: drift.Report}
			in.State.Drift = &state.Drift{Run: &state.LiveRun{ID: "c1"}}
		})
	},
	"its record is broken":          func() *chain { return destroyed(func(in *Input) { in.Corrupt = errors.New("no JSON") }) },
	"running, after one that stays": func() *chain { return destroyedTo(stays, runs) },
	"renamed while its run is under way": func() *chain {
		c := destroyed(func(in *Input) {})
		was := named("proxy")
		was.Removed, was.MovedTo = true, "lb"
		runs(&was)
		c.inputs = append(c.inputs, was)
		return c
	},
	"removed without `on_removal: destroy`": func() *chain { return destroyed(removed) },
	"removed without `on_removal: destroy`, and running": func() *chain {
		return destroyed(func(in *Input) { removed(in); runs(in) })
	},
	"to be destroyed, after one that was removed and stays": func() *chain { return destroyedTo(removed, leaving) },
	"to be destroyed": func() *chain { return destroyed(leaving) },
	"to be destroyed, and waiting for an approval": func() *chain {
		return destroyed(func(in *Input) {
			leaving(in)
			in.State.Attempted = state.Attempt{Definition: "def", Observed: "A"}
			in.State.Run = &state.LiveRun{ID: "r1", Kind: state.KindDestroy, Wait: &state.Wait{ID: "w", For: state.WaitApproval, Since: noon}}
		})
	},
	"to be destroyed, and on hold": func() *chain {
		return destroyed(func(in *Input) { leaving(in); in.State.OnHold = &state.OnHold{By: "ann", At: noon} })
	},
	"to be destroyed, and put on hold by its verification": func() *chain {
		return destroyed(func(in *Input) {
			in.State.Destroy = &state.Request{By: "ann", At: noon}
			in.State.OnHold = &state.OnHold{By: "verification vip", At: noon}
			in.State.Applied.Unverified = &state.Unverified{State: state.VerifyFailed, Since: noon, Text: "vip failed"}
		})
	},
	"to be destroyed, and outside its window": func() *chain {
		return destroyed(func(in *Input) { leaving(in); in.Task.Windows = closed })
	},
	"to be destroyed, and the destroy has failed": func() *chain {
		return destroyed(func(in *Input) {
			leaving(in)
			in.State.Ended.Last, in.State.Failing.Count, in.State.Failing.RetryAt = &state.Result{Kind: state.KindDestroy, State: state.RunFailed}, 1, noon.Add(time.Second)
		})
	},
	"to be destroyed, and that is not possible": func() *chain {
		return destroyed(func(in *Input) { removed(in); in.Undestroyable = errors.New("its provider is gone") })
	},
	"to be destroyed, and perhaps renamed": func() *chain {
		return destroyed(func(in *Input) { leaving(in); in.Kept = "perhaps it was renamed to edge" })
	},
	"to be destroyed, and missing for less than 30 seconds": func() *chain {
		return destroyed(func(in *Input) { in.Removed, in.Destroy = true, true })
	},
	"to be destroyed, after one that stays": func() *chain { return destroyedTo(stays, leaving) },
	"to be destroyed, after one that was renamed": func() *chain {
		c := destroyed(stays)
		was, dns := named("proxy"), named("dns", "proxy")
		removed(&was)
		was.State.Gone.MovedTo = "lb"
		leaving(&dns)
		c.inputs = append(c.inputs, was, dns)
		return c
	},
	"destroyed": func() *chain {
		return destroyed(func(in *Input) {
			removed(in)
			in.State.Ended.Last = &state.Result{Kind: state.KindDestroy, State: state.RunSucceeded}
		})
	},
	"its destroy was rejected or cancelled": func() *chain {
		return destroyed(func(in *Input) {
			leaving(in)
			in.State.Ended.Last = &state.Result{Kind: state.KindDestroy, State: state.RunCancelled, Rejected: true}
		})
	},
	"to be destroyed, in a cycle of definitions of different times": func() *chain {
		c := destroyed(leaving)
		leaving(&c.inputs[0])
		c.inputs[0].Task.After = []string{"lb"}
		c.inputs[0], c.inputs[1] = c.inputs[1], c.inputs[0]
		return c
	},
}

// passed are the situations of lb in which the destroy of firewall does not wait.
var passed = []string{
	"at rest", "changed", "waiting for an approval", "on hold", "planned in HCP Terraform", "checked for drift",
	"removed without `on_removal: destroy`", "destroyed", "its destroy was rejected or cancelled",
	"to be destroyed, in a cycle of definitions of different times",
}

func TestOrder_ADestroyWaitsInEachSituationOfASuccessorExceptThese(t *testing.T) {
	for is, set := range successors {
		t.Run(is, func(t *testing.T) {
			all, want := set().decide(), !slices.Contains(passed, is)
			d := all["firewall"]
			if waits := d.Action == Wait && d.Reason.Code == state.ReasonAfter; waits != want || !waits && (d.Action != Run || d.Kind != state.KindDestroy) {
				t.Errorf("action %d, reason %+v; want that it waits: %t", d.Action, d.Reason, want)
			}
			if lb := all["lb"]; !want && lb.Action != Wait && lb.Action != End {
				t.Errorf("its successor begins, too: action %d, %+v", lb.Action, lb.Reason)
			}
			if want && !strings.HasPrefix(d.Reason.Text, "waits for ") {
				t.Error(d.Reason.Text)
			}
		})
	}
}

// What is known to have ended is recorded in this tick: the next one destroys.
func TestOrder_ADestroyIsDecidedAgainOnceAnEndIsRecorded(t *testing.T) {
	c := successors["its run was lost"]()
	all := c.decide()
	if d := all["firewall"]; d.Action != Wait || !d.State.Due.Equal(noon) {
		t.Errorf("action %d, due %s: %+v", d.Action, d.State.Due, d.Reason)
	}
	for i := range c.inputs {
		c.inputs[i].State, c.inputs[i].Lost = all[c.inputs[i].Task.Name].State, nil
	}
	if d := c.decide()["firewall"]; d.Action != Run {
		t.Errorf("then action %d: %+v", d.Action, d.Reason)
	}
}

func TestOrder_ADestroySaysWhichTaskAndWhy(t *testing.T) {
	for name, want := range map[string]string{
		"running":                        "waits for lb: it comes after this task, and its run r1 is under way",
		"being verified":                 "waits for lb: it comes after this task, and its run r1 waits for the rest of its verification",
		"applied in HCP Terraform":       "waits for lb: it comes after this task, and its run r1 waits for the remote run",
		"a remote run of it is given up": "waits for lb: it comes after this task, and its remote run run-1 is to be stopped first",
		"to be destroyed, and on hold":   "waits for lb: it comes after this task, and is destroyed first: on hold by ann since",
	} {
		if got := successors[name]().decide()["firewall"].Reason.Text; !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Between the task that is destroyed and the one that is applied is a task that was removed and stays.
func TestOrder_ADestroyWaitsForWhatTheSameTickBegins(t *testing.T) {
	for name, dns := range map[string]func(*Input){
		"applied for the first time": func(in *Input) { in.State = state.Task{}; in.Reading = changedTo("B") },
		"approved": func(in *Input) {
			in.State.Run = &state.LiveRun{ID: "r1", Input: "A", Wait: &state.Wait{ID: "w", For: state.WaitApproval, Since: noon}, Resume: &state.Resume{By: "ann", At: noon}}
		},
	} {
		all := destroyedTo(removed, func(in *Input) {
			in.Task.After = []string{"l*"} // a name would be missed
			dns(in)
		}).decide()
		if d := all["dns"]; d.Action != Run && d.Action != Resume {
			t.Errorf("%s: dns does not begin: action %d, %+v", name, d.Action, d.Reason)
		}
		if d := all["firewall"]; d.Action != Wait || !strings.HasPrefix(d.Reason.Text, "waits for dns: it comes after this task, and begins now: ") {
			t.Errorf("%s: firewall does not wait for dns: action %d, %+v", name, d.Action, d.Reason)
		}
	}
}

// What a task made is destroyed after what those made that come after it.
func TestOrder_DestroysInTheOppositeOrder(t *testing.T) {
	gone := func(name string, after ...string) Input {
		in := named(name, after...)
		leaving(&in)
		return in
	}
	firewall, lb, dns := gone("firewall"), gone("lb", "firewall"), gone("dns", "lb")
	destroyed := func(in *Input) {
		in.Destroy = false
		in.State.Ended.Last = &state.Result{Kind: state.KindDestroy, State: state.RunSucceeded}
	}
	for _, test := range []struct {
		name   string
		change func(firewall, lb, dns *Input)
		begin  string
	}{
		{"all are removed", func(_, _, _ *Input) {}, "dns"},
		{"one is destroyed", func(_, _, dns *Input) { destroyed(dns) }, "lb"},
		{"two are", func(_, lb, dns *Input) { destroyed(dns); destroyed(lb) }, "firewall"},
		{"one between stays in the configuration", func(_, lb, _ *Input) { lb.Removed, lb.Destroy = false, false }, "dns"},
		{"what one between made stays", func(_, lb, _ *Input) { lb.Destroy = false }, "dns"},
		{"one between stays, and the last is destroyed", func(_, lb, dns *Input) { lb.Removed, lb.Destroy = false, false; destroyed(dns) }, "firewall"},
		{"a run is under way of one that stays", func(_, lb, _ *Input) {
			lb.Removed, lb.Destroy, lb.State.Run = false, false, &state.LiveRun{ID: "r", Created: noon}
		}, "dns"},
		{"one is on hold", func(_, lb, dns *Input) { destroyed(dns); lb.State.OnHold = &state.OnHold{By: "ann", At: noon} }, ""},
		{"one cannot be destroyed", func(_, lb, dns *Input) {
			destroyed(dns)
			lb.Destroy, lb.Undestroyable = false, errors.New("its provider is gone")
		}, ""},
		{"the destroy of one was rejected", func(_, lb, dns *Input) {
			destroyed(dns)
			lb.State.Ended.Last = &state.Result{Kind: state.KindDestroy, State: state.RunCancelled, Rejected: true}
		}, "firewall"},
		{"one has failed", func(_, lb, dns *Input) {
			destroyed(dns)
			lb.State.Ended.Last, lb.State.Failing.Count, lb.State.Failing.RetryAt = &state.Result{Kind: state.KindDestroy, State: state.RunFailed}, 1, noon.Add(time.Second)
		}, ""},
		{"one is missing for some seconds", func(_, lb, dns *Input) { destroyed(dns); lb.State.Gone = state.Gone{} }, ""},
		{"their definitions are of different times, and form a cycle", func(firewall, _, _ *Input) { firewall.Task.After = []string{"dns"} }, "dns"},
		{"a person destroys one", func(firewall, lb, dns *Input) {
			for _, in := range []*Input{firewall, lb, dns} {
				in.Removed, in.Destroy = false, false
			}
			firewall.State.Destroy = &state.Request{By: "ann", At: noon}
		}, "firewall"},
	} {
		f, l, d := firewall, lb, dns
		for _, in := range []*Input{&f, &l, &d} {
			own := *in.Task
			in.Task = &own
		}
		test.change(&f, &l, &d)
		var begin []string
		decisions := (&chain{inputs: []Input{f, l, d}, now: noon}).decide()
		for _, name := range []string{"firewall", "lb", "dns"} {
			if dec := decisions[name]; dec.Action == Run && dec.Kind == state.KindDestroy {
				begin = append(begin, name)
			}
		}
		if got := strings.Join(begin, " "); got != test.begin {
			t.Errorf("%s: destroyed are %q, want %q (firewall: %+v)", test.name, got, test.begin, decisions["firewall"].Reason)
		}
	}
}
