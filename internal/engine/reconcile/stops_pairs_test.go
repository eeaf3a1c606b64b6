package reconcile

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// over is a stop that comes upon another one, and ends again.
type over struct {
	name       string // of lifecycle.Stops
	begin, end func(b *bench, task string)
	// holds says that what changed meanwhile does not run when it ends: CTS's enable
	// runs nothing unless a run is requested with it.
	holds bool
	// unread says that the condition is not read meanwhile: new input is seen when it ends.
	unread bool
	// files says that the files have it, so that it does not concern a task that was made through the API.
	files bool
}

var overs = []over{
	{name: "on hold",
		begin: func(b *bench, task string) { b.must(b.people().Hold(b.t.Context(), task, "ann", "")) },
		end:   func(b *bench, task string) { b.must(b.people().Release(b.t.Context(), task, "ann")) }},
	{name: "paused",
		begin: func(b *bench, _ string) { b.must(b.people().PauseAll(b.t.Context(), "ann", "")) },
		end:   func(b *bench, _ string) { b.must(b.people().ResumeAll(b.t.Context(), "ann", "")) }},
	{name: "disabled", holds: true,
		begin: func(b *bench, task string) {
			b.must(b.people().SetEnabled(b.t.Context(), task, false, control.ChangeOptions{By: "ann"}))
		},
		end: func(b *bench, task string) {
			b.must(b.people().SetEnabled(b.t.Context(), task, true, control.ChangeOptions{By: "ann"}))
		}},
	{name: "unreadable", unread: true,
		begin: func(b *bench, _ string) {
			b.catalog.set("", errors.New("permission denied"))
			b.now = b.now.Add(refreshEvery)
		},
		end: func(b *bench, _ string) { b.catalog.set("D", nil); b.now = b.now.Add(refreshEvery) }},
	{name: "blocked",
		begin: func(b *bench, task string) { b.blocks(task) },
		end:   func(b *bench, _ string) { b.Blocked = nil; b.now = b.now.Add(refreshEvery) }},
	{name: "outside its window", files: true,
		begin: func(b *bench, _ string) { b.closesWindow() },
		end:   func(b *bench, _ string) { b.opensWindow() }},
	{name: "Consul was replaced",
		begin: func(b *bench, task string) {
			b.must(state.SaveInputs(b.t.Context(), b.store, task, state.Inputs{Elements: map[string]string{"A": "1"}}))
			b.replacesConsul(newConsul)
			b.catalog.set("D", nil)
		},
		end: func(b *bench, _ string) { b.approvesLosses() }},
	{name: "after another task", files: true,
		begin: func(b *bench, task string) { b.comesAfterHeld(task) },
		end: func(b *bench, _ string) {
			b.must(b.people().SetEnabled(b.t.Context(), "first", false, control.ChangeOptions{By: "ann"}))
		}},
}

// approvesLosses approves what tasks lose with the Consul that was replaced, if one does.
func (b *bench) approvesLosses() {
	b.t.Helper()
	if err := b.people().ApproveAll(b.t.Context(), ann, ""); err != nil && !errors.Is(err, control.ErrNotReplaced) {
		b.t.Fatal(err)
	}
}

// opensWindow puts task files without windows in force.
func (b *bench) opensWindow() {
	for i := range b.Config.Tasks {
		b.Config.Tasks[i].Windows = nil
	}
	b.effective = nil
}

// comesAfterHeld puts one more task in force, which is on hold and comes before another one.
func (b *bench) comesAfterHeld(task string) {
	first := eachItsOwn(1)[0]
	first.Name = "first"
	all := append(slices.Clone(b.Config.Tasks), first)
	for i := range all {
		if all[i].Name == task {
			all[i].After = append(slices.Clone(all[i].After), "first")
		}
	}
	b.Config, b.effective = &config.Config{Tasks: all, KeepRemoved: keptRemoved}, nil
	b.must(b.people().Hold(b.t.Context(), "first", "ann", ""))
}

// With two stops at once, no run begins until both have ended. New input and a new leader
// do not change that. Each stop ends as it does alone.
func TestStops_NothingRunsBeforeBothOfTwoHaveEnded(t *testing.T) {
	for _, o := range overs {
		for _, s := range lifecycle.Stops {
			if s.Name == o.name || s.On[lifecycle.OnDisable] == lifecycle.Refused {
				continue // nobody can stop a task that is removed, or whose record is broken
			}
			if o.files && s.Name == "created without a run" {
				continue
			}
			t.Run(o.name+" over "+s.Name, func(t *testing.T) {
				b, task := stopped(t, s)
				since := b.now
				o.begin(b, task)
				b.tickAfterEnd()
				b.launcher.forget()
				if !o.unread {
					b.catalog.set("D", nil)
				}
				b.tick()
				b.tick()
				b.leads()
				if n := b.begun(task); n != 0 {
					t.Fatalf("%d runs begin although the task is %s: %s", n, o.name, b.reasonOf(task))
				}
				o.end(b, task)
				b.tick()
				b.tick()
				want := 0
				over := (s.Reason == state.ReasonBuffering || s.Reason == state.ReasonQueued) && b.now.After(since.Add(time.Minute)) // by time
				if (s.On[lifecycle.OnInput] == lifecycle.Ends || over) && !o.holds {
					want = 1
				}
				if n := b.begun(task); n != want {
					t.Errorf("%d runs begin when it is not %s any more, want %d: %s", n, o.name, want, b.reasonOf(task))
				}
			})
		}
	}
}
