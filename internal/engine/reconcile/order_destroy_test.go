package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// destroyedInOrder is a bench with the tasks firewall, lb, which comes after it, and dns, which comes after
// lb. All were applied, and their files remove what they have made with them.
func destroyedInOrder(t *testing.T) *orderBench {
	b := &orderBench{bench: newBench(t), dir: t.TempDir()}
	b.puts("firewall", "lb", "dns")
	b.settleInOrder()
	return b
}

type orderBench struct {
	*bench
	dir         string
	noProviders bool   // the blocks of the providers are not in the files
	stays       string // what this task has made stays when it is removed
}

// puts puts task files in force that have these tasks.
func (b *orderBench) puts(names ...string) {
	b.t.Helper()
	var text strings.Builder
	text.WriteString("port = 1\n")
	if !b.noProviders {
		text.WriteString("terraform_provider \"null\" {\n}\n")
	}
	for _, name := range names {
		after := map[string]string{"lb": `after = ["fire*"]`, "dns": `after = ["lb"]` + "\n" + `providers = ["null"]`}[name]
		if name != b.stays {
			after += "\n on_removal = \"destroy\""
		}
		fmt.Fprintf(&text, "task {\n name = %q\n module = \"./m\"\n approve_destroy = \"never\"\n %s\n condition \"services\" {\n names = [\"web\"]\n }\n}\n", name, after)
	}
	b.Config, b.effective = configtest.Load(b.t, b.dir, "f.hcl", text.String()), nil
}

// removes puts task files in force that have these tasks only, until the others count as removed. The next tick
// destroys what these have made.
func (b *orderBench) removes(left ...string) {
	b.t.Helper()
	b.puts(left...)
	b.tick()
	b.now = b.now.Add(removalLasts)
}

// layers ticks until nothing begins any more, and returns what began, step by step.
func (b *orderBench) layers() string {
	b.t.Helper()
	var all []string
	for b.tickAfterEnd(); len(b.launcher.launches()) > 0; b.tickAfterEnd() {
		all = append(all, b.began())
		b.end(state.RunSucceeded, "")
		b.now = b.now.Add(liveCheck)
	}
	return strings.Join(all, ", ")
}

func TestOrder_RemovedTasksAreDestroyedInTheOppositeOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		left  []string
		order string
	}{
		{"all are removed", nil, "dns, lb, firewall"},
		{"one between stays", []string{"lb"}, "dns, firewall"},
		{"the first stays", []string{"firewall"}, "dns, lb"},
	} {
		b := destroyedInOrder(t)
		b.removes(test.left...)
		if got := b.layers(); got != test.order {
			t.Errorf("%s: destroyed are %q, want %q", test.name, got, test.order)
		}
	}
}

// The order holds along a removed task whose infrastructure stays.
func TestOrder_DestroysInTheOppositeOrderAlongARemovedTaskThatStays(t *testing.T) {
	b := &orderBench{bench: newBench(t), dir: t.TempDir(), stays: "lb"}
	b.puts("firewall", "lb", "dns")
	b.settleInOrder()
	b.removes()
	if got := b.layers(); got != "dns, firewall" {
		t.Errorf("destroyed are %q", got)
	}
}

// A successor that cannot be destroyed is not destroyed yet: what comes before it waits.
func TestOrder_ASuccessorWithoutItsProviderIsStillDestroyedFirst(t *testing.T) {
	b := destroyedInOrder(t)
	b.noProviders = true
	b.removes()
	if got := b.layers(); got != "" {
		t.Fatalf("%q begins", got)
	}
	if r := b.task("lb").Reason; r.Code != state.ReasonAfter || !strings.Contains(r.Text, "waits for dns") || !strings.Contains(r.Text, "its provider null") {
		t.Errorf("%+v", r)
	}
	b.noProviders = false
	b.puts()
	if got := b.layers(); got != "dns, lb, firewall" {
		t.Errorf("with the provider, %q begins: %+v", got, b.task("dns").Reason)
	}
}

// A person requests the destroy of the successor while the tick decides to destroy its predecessor.
func TestOrder_ARequestToDestroyTheSuccessorComesFirst(t *testing.T) {
	b := newBench(t, afterEachOther(2)...)
	b.settleInOrder()
	b.must(b.people().Destroy(t.Context(), "task-0", "ann"))
	b.Reconciler.Store = &requester{Store: b.store, request: func() { b.must(b.people().Destroy(t.Context(), "task-1", "ann")) }}
	b.tick()
	if got := b.began(); got != "" {
		t.Fatalf("%q begins", got)
	}
	for _, want := range []string{"task-1", "task-0"} {
		b.tickAfterEnd()
		if got := b.began(); got != want {
			t.Fatalf("%q begins, want the destroy of %s", got, want)
		}
		b.end(state.RunSucceeded, "")
		b.now = b.now.Add(liveCheck)
	}
}

// A hold of on_failure stops the destroy like each hold, and what is destroyed later waits.
func TestOrder_AHoldOfAVerificationStopsTheDestroys(t *testing.T) {
	b := newBench(t, afterEachOther(2)...)
	b.settleInOrder()
	b.catalog.set("B", nil)
	b.tick()
	b.end(state.RunSucceeded, "B")
	b.tickAfterEnd()
	b.endsUnverified("task-1", "B")
	for _, task := range []string{"task-0", "task-1"} {
		b.must(b.people().Destroy(t.Context(), task, "ann"))
	}
	b.launcher.forget()
	b.tick()
	b.leads()
	if got := b.began(); got != "" || b.task("task-1").OnHold == nil {
		t.Fatalf("%q begins: %+v", got, b.task("task-1"))
	}
	if r := b.task("task-0").Reason; r.Code != state.ReasonAfter || !strings.Contains(r.Text, "on hold by verification vip") {
		t.Errorf("%+v", r)
	}
	b.must(b.people().Release(t.Context(), "task-1", "ann"))
	for _, want := range []string{"task-1", "task-0"} {
		b.tickAfterEnd()
		if got := b.began(); got != want {
			t.Fatalf("%q begins, want the destroy of %s: %+v", got, want, b.task(want).Reason)
		}
		b.end(state.RunSucceeded, "")
		b.now = b.now.Add(liveCheck)
	}
	if s := b.task("task-1"); s.Applied.Unverified != nil || s.Reason.Code != state.ReasonDestroyed {
		t.Errorf("what is destroyed is %+v, not verified: %+v", s.Reason, s.Applied.Unverified)
	}
}

// endsUnverified ends the run of a task: everything is applied, and a verification with on_failure = "hold" has failed.
func (b *bench) endsUnverified(task, digest string) {
	b.t.Helper()
	run := b.runs(task)
	planned := state.PlannedRun{ID: run.ID, Task: task}
	run.State, run.Ended, run.Digest = state.RunSucceeded, b.now, digest
	run.Verification = state.NewVerification([]state.Verified{{Name: "vip", State: state.VerifyFailed, Holds: true}})
	next, _ := b.task(task).Conclude(*run, b.definitions[task])
	b.change(planned, func(r *state.Run) { *r = *run })
	b.changeTask(task, func(t *state.Task) { *t = next })
	b.now = b.now.Add(liveCheck)
}

func TestOnce_DestroysInTheOppositeOrder(t *testing.T) {
	for _, test := range []struct {
		name  string
		fails string // its destroy
		begin string
	}{
		{"all can be destroyed", "", "dns, lb, firewall"},
		{"one fails", "lb", "dns, lb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := destroyedInOrder(t)
			b.removes()
			outcomes, err := b.Once(t.Context(), func() {
				how := state.RunSucceeded
				if test.fails != "" && b.task(test.fails).Run != nil {
					how = state.RunFailed
				}
				b.end(how, "")
			})
			b.must(err)
			if got := b.began(); got != test.begin {
				t.Errorf("%q begin, want %q", got, test.begin)
			}
			for _, o := range outcomes {
				waits := test.fails != "" && o.Task == "firewall"
				if o.Failed() != (o.Task == test.fails) || o.Waits() != waits || waits != (o.Run == nil) {
					t.Errorf("the outcome is %+v", o)
				}
			}
			if len(outcomes) != 3 {
				t.Errorf("%d outcomes", len(outcomes))
			}
		})
	}
}

// What -once requests for all tasks makes nothing again that a person has destroyed.
func TestOnce_MakesNothingAgainThatItDestroys(t *testing.T) {
	b := newBench(t, afterEachOther(2)...)
	b.settleInOrder()
	for _, task := range []string{"task-0", "task-1"} {
		b.must(b.people().Destroy(t.Context(), task, "ann"))
	}
	_, err := b.Once(t.Context(), func() { b.end(state.RunSucceeded, "") })
	b.must(err)
	if got := b.began(); got != "task-1, task-0" {
		t.Errorf("%q begin", got)
	}
	for _, task := range []string{"task-0", "task-1"} {
		if s := b.task(task); !s.Destroyed() || s.Forced.By != "" {
			t.Errorf("%s: %+v, forced by %q", task, s.Reason, s.Forced.By)
		}
	}
}
