package reconcile_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/environ"
	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/launch"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/engine/runner"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// shrinking is a machine on which a task watches a service that shrinks. Each pass is one of a
// process of its own, with -once: another leader.
type shrinking struct {
	driver.Driver
	t       *testing.T
	store   state.Store
	task    config.Task
	removed bool
	count   int
	consul  state.Identity
	broken  error
	ahead   time.Duration // of all clocks
	runner  time.Duration // how far that of the runner is ahead of that of the leader
	applied int           // entries, by the latest apply
	serial  int           // of the state
	partly  bool          // what is broken destroys all that it is to destroy
	killed  bool          // the container is killed when the apply ends
	remote  bool          // another system applies
	works   state.VerifyState
}

// newShrinking is a task that was applied with 60 instances, each of which is a resource.
func newShrinking(t *testing.T, spec guard.Spec) *shrinking {
	t.Helper()
	store := statetest.NewMemory()
	t.Cleanup(func() { store.Close() })
	s := &shrinking{t: t, store: summary.Keep(store), task: task("web"), count: 60, consul: state.Identity{Cluster: "one", Index: 100}}
	s.task.Rules.Guard = spec
	s.task.Rules.Verify = []verify.Spec{{Name: "vip", Enabled: true}}
	s.pass("succeeded")
	return s
}

func (s *shrinking) entries() consul.Observation {
	o := consul.Observation{Digest: fmt.Sprint("digest of ", s.count), Elements: map[string]string{}, Details: map[string]string{}}
	for i := range s.count {
		name := fmt.Sprintf("web-%02d", i)
		o.Elements[name] = "x"
		o.Details[name] = condition.Detail{Group: "web", ID: name}.String()
	}
	return o
}

func (s *shrinking) Observe(_ context.Context, queries []consul.Query) []consul.Answer {
	answers := make([]consul.Answer, len(queries))
	for i := range answers {
		answers[i].Observation = s.entries()
	}
	return answers
}

func (s *shrinking) Poll(_ context.Context, gates consul.GateSet) (consul.Marks, error) {
	marks := consul.Marks{}
	for _, key := range gates.Keys() {
		marks[key] = fmt.Sprint(s.count)
	}
	return marks, nil
}

func (s *shrinking) Identify(context.Context, string) (state.Identity, error) { return s.consul, nil }

func (s *shrinking) Snapshot(_ context.Context, t *config.Task) (*consul.Snapshot, error) {
	snap := &consul.Snapshot{Condition: s.entries()}
	for _, q := range consul.InputQueries(t) {
		snap.Inputs = append(snap.Inputs, consul.Input{Kind: q.Kind, Triggers: q.Triggers, Observation: snap.Condition})
	}
	return snap, nil
}

func (s *shrinking) Apply(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	left := len(job.Snapshot.Condition.Elements)
	changes := &state.Changes{Change: 1, Destroy: max(0, s.applied-left)}
	if job.PlansFirst() {
		if err := job.Judge(ctx, driver.Plan{Digest: "plan", State: fmt.Sprint("lineage/", s.serial), InState: new(s.applied), Resources: []driver.ResourceChange{}, Changes: changes}); err != nil {
			return driver.Outcome{}, err
		}
	}
	if s.broken == nil || s.partly {
		s.applied, s.serial = left, s.serial+1
	}
	if s.killed {
		_, err := orphan.Runs(context.WithoutCancel(ctx), s.store, orphan.Stopped{Launch: job.Run.Launch, Why: "the container was killed"}, s.now())
		s.must(err)
	}
	if s.remote {
		if err := job.Remote.Write(ctx, state.Remote{By: job.Run.ID, Run: state.RemoteRun{ID: "run-1", Version: "cv-1", Phase: state.RemoteApplying}}); err != nil {
			return driver.Outcome{}, err
		}
		return driver.Outcome{Changes: changes}, &driver.WaitError{Wait: state.Wait{For: state.WaitRemote}}
	}
	return driver.Outcome{Changes: changes}, s.broken
}

// halfVerified has the service shrink to so many instances, which another system applies. The process that
// verified that had to end.
func (s *shrinking) halfVerified(count int) {
	s.t.Helper()
	s.remote = true
	s.to(count, "waiting (failed)")
	s.remote = false
	task, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(s.task.Name))
	s.must(err)
	run, err := state.Read[state.Run](s.t.Context(), s.store, state.RunKey(s.task.Name, task.Data.Run.ID))
	s.must(err)
	wait, live, ended := *run.Data.Wait, *task.Data.Run, *run.Data.Remote
	wait.For, ended.Phase, live.Wait = state.WaitVerify, state.RemoteEnded, &wait
	nextRun, nextTask := run.Data, task.Data
	nextRun.Wait, nextRun.Remote, nextTask.Run, nextTask.RemoteRun = &wait, &ended, &live, &ended
	nextRun.Verifying = &state.Verifying{Since: s.now(), Definition: s.task.Digest(s.config()),
		Results: []state.Verified{{Name: "vip", State: state.VerifyInterrupted}}}
	_, err = s.store.Apply(s.t.Context(), run.Write(nextRun), task.Write(nextTask))
	s.must(err)
}

func (s *shrinking) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	changes := &state.Changes{Destroy: s.applied}
	if job.PlansFirst() {
		if err := job.Judge(ctx, driver.Plan{Digest: "destroy", State: fmt.Sprint("lineage/", s.serial), InState: new(s.applied), Resources: []driver.ResourceChange{}, Changes: changes}); err != nil {
			return driver.Outcome{}, err
		}
	}
	s.applied = 0
	return driver.Outcome{Changes: changes}, nil
}

// verify is what comes of the verification of what was applied: it works, unless something else is set.
func (s *shrinking) verify(_ context.Context, all []verify.Spec, _ verify.Applied) (results []state.Verified) {
	for _, spec := range all {
		results = append(results, state.Verified{Name: spec.Name, State: cmp.Or(s.works, state.VerifyPassed)})
	}
	return results
}

func (s *shrinking) now() time.Time { return time.Now().Add(s.ahead) }

func (s *shrinking) config() *config.Config {
	cfg := &config.Config{KeepRemoved: month, Tasks: []config.Task{s.task}}
	if s.removed {
		cfg.Tasks = nil
	}
	return cfg
}

// people are those who decide.
func (s *shrinking) people() *control.Control {
	return &control.Control{Store: s.store, Now: s.now, Poll: time.Second, Base: func(context.Context) (*config.Config, error) { return s.config(), nil }}
}

func (s *shrinking) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// pass lets a minute pass, and is a start with -once. It checks what came of the task.
func (s *shrinking) pass(want string) state.Task {
	s.t.Helper()
	time.Sleep(time.Minute)
	cfg, log, owner := s.config(), slog.New(slog.DiscardHandler), lease.NewOwner()
	run := &runner.Runner{Config: func() *config.Config { return cfg }, Store: s.store, Consul: s, Driver: s, Owner: owner, Claim: ttl, Log: log,
		Now: func() time.Time { return s.now().Add(s.runner) }, Environ: environ.Shared, Verify: s.verify}
	launcher := launch.NewLocal(s.t.Context(), 2, log, run.Run)
	r := &reconcile.Reconciler{Config: cfg, Store: s.store, Consul: s, Launcher: launcher, Owner: owner, LeaseTTL: ttl, Now: s.now, Log: log}
	outcomes, err := r.Once(s.t.Context(), launcher.Wait)
	s.must(err)
	if got := strings.Join(said(outcomes), ", "); want != "" && got != s.task.Name+": "+want {
		for _, o := range outcomes {
			s.t.Logf("%+v %+v", o.Reason, o.Run)
		}
		s.t.Fatalf("with %d instances at %s: %s, want %s", s.count, s.now().Format(time.TimeOnly), got, want)
	}
	return s.record()
}

func (s *shrinking) record() state.Task {
	s.t.Helper()
	rec, err := state.Read[state.Task](s.t.Context(), s.store, state.TaskKey(s.task.Name))
	s.must(err)
	return rec.Data
}

// to has the service shrink to so many instances.
func (s *shrinking) to(count int, want string) {
	s.t.Helper()
	s.count = count
	s.pass(want)
}

// approves has somebody approve the plan that waits.
func (s *shrinking) approves() {
	s.t.Helper()
	s.must(s.people().Approve(s.t.Context(), s.task.Name, "", identity.OfToken("ann"), ""))
}

// windowed has what happens between a loss that is permitted (35 of 60 are left) and the next one
// (25 are left).
var windowed = map[string]func(s *shrinking){
	"start, takeover by another leader or instance": func(s *shrinking) { s.pass("") },
	"`-once`": func(s *shrinking) { // the plan that waits is judged again by a start after the window
		s.to(25, "waiting")
		s.pass("waiting")
		time.Sleep(15 * time.Minute)
		s.pass("succeeded")
		time.Sleep(15 * time.Minute)
		s.to(60, "succeeded")
		s.to(35, "succeeded")
	},
	"an approval of what a guard held, once that is applied": func(s *shrinking) {
		s.to(29, "waiting")
		s.approves()
		s.pass("succeeded")
	},
	"an approval that was never applied": func(s *shrinking) {
		s.to(29, "waiting")
		s.approves()
		s.to(28, "waiting")
	},
	"a run that fails, is cancelled or is superseded; a plan that is rejected": func(s *shrinking) {
		s.broken = errors.New("the firewall does not answer")
		s.to(34, "failed (failed)")
		s.to(29, "waiting")
		s.approves()
		s.pass("failed (failed)")
		s.broken = nil
		s.to(28, "waiting")
		s.must(s.people().Reject(s.t.Context(), "web", "", "ann", "not now"))
		s.to(27, "waiting")
		_, err := s.people().Cancel(s.t.Context(), "web", "ann")
		s.must(err)
		s.to(26, "waiting")
	},
	"a run that is applied and not verified": func(s *shrinking) {
		s.works = state.VerifyFailed
		s.to(34, "succeeded (failed)")
		s.works = ""
	},
	"another process continues the verification of a run": func(s *shrinking) {
		s.halfVerified(34)
		s.pass("")
		s.halfVerified(33)
		s.removed = true // the process that continues finds no such task
		s.pass("")       // it may come back at once
		s.pass("")
		s.removed = false
		if task := s.record(); task.Run != nil || task.Applied.Digest != "digest of 33" {
			s.t.Fatalf("%+v", task)
		}
	},
	"disable and enable, hold, pause": func(s *shrinking) {
		s.must(s.people().Hold(s.t.Context(), "web", "ann", ""))
		s.to(34, "on_hold")
		s.must(s.people().Release(s.t.Context(), "web", "ann"))
		s.task.Enabled = false
		s.pass("disabled")
		s.task.Enabled = true
		_, err := s.people().PauseAll(s.t.Context(), "ann", "")
		s.must(err)
		s.pass("paused")
		_, err = s.people().ResumeAll(s.t.Context(), "ann", "")
		s.must(err)
	},
	"a rename": func(s *shrinking) {
		s.task.Name, s.task.MovedFrom = "site", []string{"web"}
		s.pass("")
	},
	"another definition, such as another module": func(s *shrinking) { s.task.Module = "./other"; s.pass("succeeded") },
	"another filter of the condition": func(s *shrinking) {
		s.task.Condition.Spec = condition.Services{{Names: []string{"web"}, Filter: `"prod" in Service.Tags`}}
		s.to(34, "succeeded")
	},
	"a condition of another kind": func(s *shrinking) {
		s.task.Condition.Spec = &condition.ConsulKV{Path: "web", Recurse: true}
		s.to(34, "succeeded")
	},
	"other limits": func(s *shrinking) {
		s.to(25, "waiting")
		s.task.Rules.Guard.MaxRemovedPercent = 57
		s.to(25, "waiting")
		if text := s.record().Run.Wait.Text; !strings.Contains(text, "35 of the 60") || !strings.Contains(text, "max_removed_percent is 57") {
			s.t.Errorf("it waits: %s", text)
		}
	},
	"a shorter `within`": func(s *shrinking) {
		time.Sleep(5 * time.Minute)
		s.task.Rules.Guard.Within = 5 * time.Minute
	},
	"a longer `within`": func(s *shrinking) {
		s.task.Rules.Guard.Within = 5 * time.Minute
		time.Sleep(6 * time.Minute)
		s.to(34, "succeeded") // which drops what the 5 minutes have left
		s.task.Rules.Guard.Within = time.Hour
	},
	"the guard is turned off and on without a run": func(s *shrinking) {
		s.task.Rules.Guard.Enabled = false
		s.task.Enabled = false
		s.pass("disabled")
		s.task.Enabled, s.task.Rules.Guard.Enabled = true, true
	},
	"a run while the guard is off, or with `within: 0s`": func(s *shrinking) {
		s.task.Rules.Guard.Enabled = false
		s.to(34, "succeeded")
		s.task.Rules.Guard.Enabled = true
	},
	"Consul is replaced": func(s *shrinking) {
		s.consul = state.Identity{Cluster: "two", Index: 10}
		s.to(34, "consul_replaced")
		time.Sleep(15 * time.Minute)
		s.to(60, "succeeded") // the data was restored
		s.to(35, "succeeded")
	},
	"an approval of what a replaced Consul lacks, once that is applied": func(s *shrinking) {
		s.consul = state.Identity{Cluster: "two", Index: 10}
		s.to(34, "consul_replaced")
		s.must(s.people().ApproveAll(s.t.Context(), identity.OfToken("ann"), ""))
		s.pass("succeeded")
	},
	"a destroy": func(s *shrinking) {
		s.must(s.people().Destroy(s.t.Context(), "web", "ann"))
		s.pass("")
		s.approves()
		s.pass("")
		if !s.record().Destroyed() {
			s.t.Fatalf("%+v", s.record())
		}
		_, err := s.people().Force(s.t.Context(), "web", "ann")
		s.must(err)
		s.pass("succeeded")
	},
	"the task is removed, and comes back before `keep_removed` is over": func(s *shrinking) {
		s.removed = true
		s.pass("")
		s.removed = false
	},
	"the task is removed for longer, or is deleted and created again": func(s *shrinking) {
		s.removed = true
		s.pass("")
		time.Sleep(month + time.Hour)
		s.pass("")
		s.pass("")
		s.removed = false
	},
	"the clock of the leader or of the runner is ahead": func(s *shrinking) {
		s.runner = 5 * time.Hour
		s.to(29, "waiting")
		s.to(34, "succeeded")
		s.ahead, s.runner = 5*time.Hour, -5*time.Hour
		s.to(28, "waiting")
		s.ahead, s.runner = 0, 0
	},
	"all clocks are ahead for longer than `within`": func(s *shrinking) {
		s.ahead = 5 * time.Hour
		s.to(34, "succeeded")
		s.to(17, "waiting") // of 35
		s.ahead = 0
		s.pass("waiting") // these count from now on
		time.Sleep(15 * time.Minute)
		s.pass("succeeded")
		s.to(60, "succeeded")
		s.to(35, "succeeded")
		time.Sleep(15 * time.Minute)
	},
}

// anew are the events after which only what was applied last counts. The others leave the window as it is.
var anew = []string{"an approval of what a guard held, once that is applied", "a condition of another kind", "a shorter `within`", "a longer `within`",
	"a run while the guard is off, or with `within: 0s`", "an approval of what a replaced Consul lacks, once that is applied", "a destroy",
	"the task is removed for longer, or is deleted and created again", "all clocks are ahead for longer than `within`"}

// ofEntries are events about which the plan guard knows nothing, or with other numbers.
var ofEntries = []string{"a condition of another kind", "other limits", "all clocks are ahead for longer than `within`"}

// After a loss that is permitted comes another one, which alone is permitted, too. Whether the second one waits
// depends on what happens between the two.
func TestGuardWindow_OnlySomeEventsEndIt(t *testing.T) {
	ofPlans := guard.Default
	ofPlans.MaxRemovedPercent, ofPlans.MaxDestroy = 100, new(30)
	for event, happens := range windowed {
		try := func(t *testing.T, spec guard.Spec) {
			synctest.Test(t, func(t *testing.T) {
				s := newShrinking(t, spec)
				s.to(35, "succeeded")
				happens(s)
				want := "waiting"
				if slices.Contains(anew, event) {
					want = "succeeded"
				}
				s.to(25, want)
			})
		}
		t.Run(event, func(t *testing.T) { try(t, guard.Default) })
		if !slices.Contains(ofEntries, event) {
			t.Run("plan guard, "+event, func(t *testing.T) { try(t, ofPlans) })
		}
	}
}

// However runs end, what they have destroyed counts.
func TestGuardWindow_HowARunEndedPlaysNoPart(t *testing.T) {
	for how, ends := range map[string]func(s *shrinking){
		"succeeded": func(*shrinking) {},
		"failed":    func(s *shrinking) { s.broken, s.partly = errors.New("the firewall refuses rule 7"), true },
		"lost":      func(s *shrinking) { s.broken, s.partly, s.killed = errors.New("signal: killed"), true, true },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := guard.Default
				spec.Within, spec.MaxDestroy = 24*time.Hour, new(5)
				s := newShrinking(t, spec)
				ends(s)
				for _, count := range []int{55, 50, 45} {
					s.to(count, "")
				}
				if s.applied != 55 || !strings.Contains(s.record().Waits().Text, "15 of 60 resources") && !strings.Contains(s.record().Waits().Text, "10 of 60 resources") {
					t.Errorf("%d of 60 are left: %+v", s.applied, s.record().Waits())
				}
			})
		})
	}
}
