package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/config/configtest"
)

// alike is a configuration of tasks of one shape, each with a variable of its own. They are
// destroyed when they are removed.
func alike(t *testing.T, dir string, names ...string) *config.Config {
	t.Helper()
	return configtest.Load(t, dir, "f.hcl", alikeText(names...))
}

func alikeText(names ...string) (text string) {
	for i, name := range names {
		name, former, moved := strings.Cut(name, "<")
		if text += fmt.Sprintf("task {\n name = %q\n", name); moved {
			text += fmt.Sprintf(" moved_from = %q\n", former)
		}
		text += fmt.Sprintf(" module = \"./m\"\n on_removal = \"destroy\"\n approve_destroy = \"never\"\n variables = { zone = %d }\n buffer_period { enabled = false }\n"+
			" condition \"services\" {\n names = [\"web\"]\n }\n}\n", i)
	}
	return text
}

// inForce puts a configuration in force, and ticks a few times.
func (b *bench) inForce(cfg *config.Config) {
	b.t.Helper()
	b.Config, b.effective = cfg, nil
	for range 3 {
		b.tick()
		b.now = b.now.Add(time.Minute)
	}
}

// waitsAs fails the test unless nothing was launched and these tasks wait as perhaps
// renamed, for a reason that says these words.
func (b *bench) waitsAs(words map[string]string) {
	b.t.Helper()
	if runs := b.launchedRuns(); len(runs) > 0 {
		b.t.Fatalf("there were runs: %v", runs)
	}
	for name, words := range words {
		if r := b.task(name).Reason; r.Code != state.ReasonRenamed || !strings.Contains(r.Text, words) {
			b.t.Errorf("task %s: %s: %s", name, r.Code, r.Text)
		}
	}
}

func TestRename_OfSeveralTasksOfOneShapeProtectsAllOfThem(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "aa", "bb")
	b.settle()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge-aa", "edge-bb"))
	const both = "perhaps this is one of the tasks aa and bb under a new name"
	b.waitsAs(map[string]string{"edge-aa": both, "edge-bb": both, "aa": "perhaps it was renamed to edge-aa or edge-bb", "bb": "edge-aa or edge-bb"})

	if report := b.tick(); !report.Idle {
		t.Errorf("a tick decides about %d tasks, and nothing has changed", len(report.Decisions))
	}

	// Weeks later, a person says what one of them is: the other one waits for its word.
	b.now = b.now.Add(keptRemoved + time.Hour)
	b.inForce(alike(t, dir, "edge-aa<aa", "edge-bb"))
	if runs := b.launchedRuns(); !maps.Equal(runs, map[string]int{"edge-aa": 1}) || !slices.Equal(b.runs("edge-aa").Moves.From, []string{"aa"}) {
		t.Fatalf("runs: %v", runs)
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.launcher.forget()
	b.tick()
	b.waitsAs(map[string]string{"edge-bb": both, "bb": "nothing is destroyed"})

	// The other one is new: what was removed is destroyed.
	b.must(b.people().Force(t.Context(), "edge-bb", "ann"))
	b.tick()
	b.tick()
	if runs := b.launchedRuns(); !maps.Equal(runs, map[string]int{"edge-bb": 1, "bb": 1}) || b.runs("edge-bb").Moves != nil || b.runs("bb").Kind != state.KindDestroy {
		t.Errorf("runs: %v", runs)
	}
}

// Each tick is of another process, as in AWS: only the store is remembered.
func TestRename_IsFoundInWhateverOrderFilesChange(t *testing.T) {
	dir := t.TempDir()
	for what, steps := range map[string][][]string{
		"both at once":                             {{"edge"}},
		"the former file goes first":               {{}, {"edge"}},
		"the new file is there first":              {{"lb", "edge"}, {"edge"}},
		"the new file comes and goes":              {{"edge"}, {}, {"edge"}},
		"and comes again when the former one went": {{"lb", "edge"}, {"lb"}, {}, {"edge"}},
	} {
		for _, dies := range []bool{false, true} { // before the record of the new name is written
			b := newBench(t)
			b.Config = alike(t, dir, "lb")
			b.settle()
			b.launcher.forget()
			b.must(b.people().PauseAll(t.Context(), "ann", "")) // else the new one begins to run before the former one goes
			for _, names := range steps {
				b.Reconciler = b.another(nil)
				if b.Config = (&config.Config{KeepRemoved: keptRemoved}); len(names) > 0 {
					b.Config = alike(t, dir, names...)
				}
				if dies {
					b.store.Before = func(changes []state.Change) error {
						if slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == state.TaskKey("edge") }) {
							return errors.New("the process dies")
						}
						return nil
					}
					_, _ = b.Tick(t.Context(), TickOptions{})
					b.store.Before = nil
				}
				b.now = b.now.Add(10 * time.Second)
				b.tick()
			}
			b.must(b.people().ResumeAll(t.Context(), "ann", ""))
			b.now = b.now.Add(2 * renameTime)
			for range 3 {
				cfg := b.Config
				b.Reconciler = b.another(nil)
				b.inForce(cfg)
			}
			t.Log(what, dies)
			b.waitsAs(map[string]string{"edge": "perhaps this is task lb under a new name", "lb": "nothing is destroyed: perhaps it was renamed to edge"})
		}
	}
}

// Somebody removes two files one after the other, and changes the new one meanwhile. Its record names the task that went
// first.
func TestRename_KeepsAlsoWhatVanishesAfterTheGuess(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "aa", "bb")
	b.settle()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge", "bb"))
	b.now = b.now.Add(2 * renameTime)
	b.inForce(configtest.Load(t, dir, "other.hcl", strings.ReplaceAll(alikeText("edge"), "./m", "./n")))
	b.waitsAs(map[string]string{"edge": "perhaps this is task aa", "aa": "nothing is destroyed", "bb": "nothing is destroyed: perhaps it was renamed to edge"})
	b.inForce(alike(t, dir, "edge<bb"))
	b.inForce(b.Config)
	if runs := b.launchedRuns(); runs["edge"] != 1 || !slices.Equal(b.runs("edge").Moves.From, []string{"bb"}) || runs["aa"] != 1 || b.runs("aa").Kind != state.KindDestroy {
		t.Errorf("runs: %v", runs)
	}
}

func TestRename_DisabledTaskThatIsThereForLongerIsNoOther(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	spare := strings.Replace(alikeText("spare"), " module", " enabled = false\n module", 1)
	b.Config = configtest.Load(t, dir, "both.hcl", alikeText("lb")+spare)
	b.settle()
	b.inForce(configtest.Load(t, dir, "spare.hcl", spare))
	if run := b.runs("lb"); run == nil || run.Kind != state.KindDestroy {
		t.Errorf("lb is not destroyed: %+v", b.task("lb").Reason)
	}
}

func TestRename_TwiceWithoutAWordMakesNothingTwice(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge"))
	b.now = b.now.Add(2 * renameTime)
	b.inForce(alike(t, dir, "page"))
	b.waitsAs(map[string]string{"page": "perhaps this is task edge", "lb": "nothing is destroyed: perhaps it was renamed to page"})
	b.inForce(alike(t, dir, "page<edge"))
	b.waitsAs(map[string]string{"page": "perhaps this is task lb", "lb": "nothing is destroyed: perhaps it was renamed to page"})
	b.inForce(alike(t, dir, "page<lb"))
	if run := b.runs("page"); run == nil || !slices.Contains(run.Moves.From, "lb") || b.task("lb").Gone.MovedTo != "page" {
		t.Errorf("the run is %+v: %+v", run, b.task("page").Reason)
	}
}

// The later name has taken over what its former one perhaps was.
func TestRename_RevertedToANameThatWaitedBeforeMakesNothingTwice(t *testing.T) {
	dir := t.TempDir()
	for _, module := range []string{"./m", "./n"} { // of the later name
		b := newBench(t)
		b.Config = alike(t, dir, "lb")
		b.settle()
		b.inForce(alike(t, dir, "edge"))
		later := configtest.Load(t, dir, "later.hcl", strings.ReplaceAll(alikeText("page<edge"), "./m", module))
		b.inForce(later)
		b.must(b.people().Force(t.Context(), "page", "ann")) // she says that it is new
		b.inForce(later)
		b.end(state.RunSucceeded, "A")
		b.now = b.now.Add(2 * renameTime)
		b.inForce(later)
		b.launcher.forget()
		b.inForce(alike(t, dir, "edge"))
		b.waitsAs(map[string]string{"edge": "page", "page": "nothing is destroyed: perhaps it was renamed to edge"})
	}
}

// No record is left of the former name: its state is looked for.
func TestRename_MovedFromOfAForgottenTaskSaysWhatTheNewOneIs(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge"))
	b.must(b.people().Forget(t.Context(), "lb", "ann"))
	b.inForce(b.Config)
	b.waitsAs(map[string]string{"edge": "perhaps this is task lb"})
	b.inForce(alike(t, dir, "edge<lb"))
	if run := b.runs("edge"); run == nil || !slices.Equal(run.Moves.From, []string{"lb"}) {
		t.Fatalf("the run is %+v: %+v", run, b.task("edge").Reason)
	}
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.inForce(alike(t, dir, "edge"))
	if is := b.task("edge"); is.Reason.Code != state.ReasonUnchanged || len(is.Renamed) > 0 {
		t.Errorf("without moved_from it is %+v: %v", is.Reason, is.Renamed)
	}
}

// The guess is made once: it waits for a person also if the other task is back.
func TestRename_WaitsAlsoIfTheRemovedTaskIsBack(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge"))
	b.inForce(alike(t, dir, "lb", "edge"))
	b.waitsAs(map[string]string{"edge": "perhaps this is task lb"})
	b.must(b.people().Force(t.Context(), "edge", "ann"))
	b.tick()
	if runs := b.launchedRuns(); !maps.Equal(runs, map[string]int{"edge": 1}) || len(b.task("edge").Renamed) > 0 {
		t.Errorf("runs: %v", runs)
	}
}

func TestRename_MovedFromOfAnUnknownTaskDoesNotMakeAnythingTwice(t *testing.T) {
	dir := t.TempDir()
	for what, from := range map[string]string{"with a typing error": "lbb", "over a release that was skipped": "middle"} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.Config = alike(t, dir, "lb")
			b.settle()
			b.launcher.forget()
			b.inForce(alike(t, dir, "edge<"+from))
			b.waitsAs(map[string]string{"edge": "its moved_from names " + from + ", and there is no such task; perhaps this is task lb", "lb": "nothing is destroyed"})
			b.inForce(alike(t, dir, "edge<lb"))
			if run := b.runs("edge"); run == nil || !slices.Equal(run.Moves.From, []string{"lb"}) {
				t.Errorf("the run is %+v: %+v", run, b.task("edge").Reason)
			}
		})
	}
	// Nothing was removed: the state may be there all the same, and is looked for.
	b := newBench(t)
	b.inForce(alike(t, dir, "edge<lb"))
	if run := b.runs("edge"); run == nil || run.Moves == nil || run.Moves.Expected {
		t.Errorf("in an empty store: %+v", run)
	}
}

func TestRename_WithSeveralFormerNamesTakesWhatThereIs(t *testing.T) {
	for _, former := range []string{"task-0", "middle"} {
		task := tasks(1)[0]
		task.Name = former
		b := newBench(t, task)
		b.settle()
		b.launcher.forget()
		task.Name, task.MovedFrom = "new", []string{"middle", "task-0"}
		b.reload(task)
		if run := b.runs("new"); run == nil || run.Moves == nil || !slices.Contains(run.Moves.From, former) || !run.Moves.Expected {
			t.Errorf("%s has another name: %+v", former, run)
		}
	}
	both := tasks(2)
	b := newBench(t, both...)
	b.settle()
	b.launcher.forget()
	task := tasks(1)[0]
	task.Name, task.MovedFrom = "new", []string{"task-1", "task-0"}
	b.reload(task)
	b.waitsAs(map[string]string{"new": "each of them has something of its own"})
}

// A task is renamed twice before a run has taken its state along: the state is under the first
// name, or under the second one.
func TestRename_OfARenamedTaskFindsTheStateUnderEachFormerName(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.settle()
	b.must(b.people().Hold(t.Context(), "task-0", "ann", ""))
	b.reload(renamedTask("task-0"))
	last := renamedTask("new")
	last.Name = "last"
	b.reload(last)
	last.MovedFrom = nil // nobody needs it any more
	b.reload(last)
	b.launcher.forget()
	b.must(b.people().Release(t.Context(), "last", "ann"))
	b.tick()
	if run := b.runs("last"); run == nil || run.Moves == nil || !slices.Equal(run.Moves.From, []string{"new", "task-0"}) {
		t.Fatalf("the run is %+v: %+v", run, b.task("last").Reason)
	}
	b.end(state.RunSucceeded, "A")
	if got := b.task("last"); len(got.Former.Moving) > 0 || !slices.Equal(got.Former.Moved, []string{"new", "task-0"}) {
		t.Errorf("after the run: %+v", got)
	}
}

func TestRename_RevertedMakesNothingTwice(t *testing.T) {
	dir := t.TempDir()
	for what, how := range map[string]struct {
		later  time.Duration
		forget bool // of the former name
	}{
		"at once":                            {},
		"weeks later":                        {later: 20 * 24 * time.Hour},
		"when no record is left of the name": {later: keptRemoved + time.Hour},
		"when its records were forgotten":    {forget: true},
	} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.Config = alike(t, dir, "lb")
			b.settle()
			b.inForce(alike(t, dir, "edge<lb"))
			b.end(state.RunSucceeded, "A")
			b.now = b.now.Add(liveCheck)
			b.tick()
			b.now = b.now.Add(how.later)
			b.tick()
			if how.forget {
				b.must(b.people().Forget(t.Context(), "lb", "somebody"))
			}
			b.launcher.forget()
			b.inForce(alike(t, dir, "lb"))
			b.waitsAs(map[string]string{"lb": "perhaps this is task edge under a new name", "edge": "nothing is destroyed"})

			// The later version again, and the earlier one once more, now as the text says.
			b.inForce(alike(t, dir, "edge<lb"))
			if runs := b.launchedRuns(); len(runs) > 0 || b.task("edge").Reason.Code != state.ReasonUnchanged {
				t.Errorf("there were runs: %v; %+v", runs, b.task("edge").Reason)
			}
			b.inForce(alike(t, dir, "lb<edge"))
			if run := b.runs("lb"); run == nil || !slices.Equal(run.Moves.From, []string{"edge"}) || !run.Moves.Expected {
				t.Errorf("the run is %+v: %+v", run, b.task("lb").Reason)
			}
		})
	}
}

func TestRename_OfATaskThatWaitsForAPersonCanBeReverted(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge"))
	for _, name := range []string{"middle<edge", "edge", "middle<edge"} {
		b.now = b.now.Add(renameTime)
		b.inForce(alike(t, dir, name))
		name, _, _ = strings.Cut(name, "<")
		b.waitsAs(map[string]string{name: "lb under a new name", "lb": "perhaps it was renamed to " + name})
	}
}

func TestRename_MovedFromThatIsTakenBackWhileItWaitsDestroysNothing(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.inForce(alike(t, dir, "edge"))
	b.launcher.forget()
	b.inForce(alike(t, dir, "lb"))
	b.catalog.set("B", nil)
	b.tick() // its run is under way
	b.inForce(alike(t, dir, "edge<lb"))
	if r := b.task("edge").Reason; r.Code != state.ReasonRenamed || !strings.Contains(r.Text, "has not ended") {
		t.Fatalf("the rename does not wait for the run: %+v", r)
	}
	b.now = b.now.Add(liveCheck)
	b.tick() // the former name is removed by now
	b.end(state.RunSucceeded, "B")
	b.launcher.forget()
	b.now = b.now.Add(renameTime + time.Minute)
	b.inForce(alike(t, dir, "edge"))
	b.waitsAs(map[string]string{"edge": "perhaps this is task lb", "lb": "nothing is destroyed"})
}

func TestRename_ToATaskThatAPersonHasDestroyedMakesNothingAgain(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "edge", "lb")
	b.settle()
	b.must(b.people().Destroy(t.Context(), "edge", "ann"))
	b.tick()
	b.end(state.RunSucceeded, "")
	b.tickAfterEnd()
	b.launcher.forget()
	b.inForce(alike(t, dir, "edge<lb"))
	b.catalog.set("B", nil)
	b.tick()
	if r := b.task("edge").Reason; len(b.launchedRuns()) > 0 || r.Code != state.ReasonDestroyed {
		t.Fatalf("runs: %v; %+v", b.launchedRuns(), r)
	}
	b.must(b.people().Force(t.Context(), "edge", "ann"))
	b.tick()
	if run := b.runs("edge"); run == nil || run.Moves == nil || !slices.Contains(run.Moves.From, "lb") {
		t.Errorf("the run that was requested is %+v", run)
	}
}

// Enabled without a run, the new name waits for new input; what was destroyed waits for longer.
func TestRename_OfATaskThatAPersonHasDestroyedMakesNothingAgain(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb", "edge")
	b.settle()
	b.must(b.people().Destroy(t.Context(), "lb", "ann"))
	b.tick()
	b.end(state.RunSucceeded, "")
	b.tickAfterEnd()
	b.inForce(alike(t, dir, "new", "edge"))
	for _, enabled := range []bool{false, true} {
		b.must(b.people().SetEnabled(t.Context(), "new", enabled, control.ChangeOptions{By: "ann"}))
		b.tick()
	}
	b.launcher.forget()
	b.inForce(alike(t, dir, "new<lb", "edge"))
	b.catalog.set("B", nil)
	b.tick()
	if r := b.task("new").Reason; b.runs("new") != nil || r.Code != state.ReasonDestroyed {
		t.Errorf("the run is %+v: %+v", b.runs("new"), r)
	}
}

func TestRename_FailedFirstApplyIsNotRepeatedUnderAnotherName(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.tick()
	b.end(state.RunFailed, "")
	b.now = b.now.Add(liveCheck)
	b.launcher.forget()
	b.reload(renamedTask("")) // a part of it may have been made
	b.waitsAs(map[string]string{"new": "perhaps this is task task-0"})
}

func TestRename_WhatPeopleRequestOfANewTaskDoesNotSayThatItIsNew(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		request func(*control.Control) error
		lifted  func(*control.Control) error
	}{
		"it is to be destroyed": {func(c *control.Control) error { return c.Destroy(t.Context(), "edge", "ann") }, func(*control.Control) error { return nil }},
		"it is enabled without a run": {func(c *control.Control) error {
			_, err := c.SetEnabled(t.Context(), "edge", false, control.ChangeOptions{By: "ann"})
			if err == nil {
				_, err = c.SetEnabled(t.Context(), "edge", true, control.ChangeOptions{By: "ann"})
			}
			return err
		}, func(*control.Control) error { return nil }},
		"it was on hold for a while": {func(c *control.Control) error { return c.Hold(t.Context(), "edge", "ann", "") },
			func(c *control.Control) error { return c.Release(t.Context(), "edge", "ann") }},
	} {
		for _, ticks := range []bool{false, true} { // before the request
			b := newBench(t)
			b.Config = alike(t, dir, "lb")
			b.settle()
			b.launcher.forget()
			b.Config, b.effective = alike(t, dir, "edge"), nil
			if ticks {
				b.tick()
			}
			b.must(c.request(b.people()))
			b.tick()
			b.must(c.lifted(b.people()))
			b.inForce(b.Config)
			t.Log(name, ticks)
			b.waitsAs(map[string]string{"edge": "perhaps this is task lb under a new name", "lb": "nothing is destroyed"})
			if b.task("edge").Destroy == nil {
				continue
			}
			b.inForce(alike(t, dir, "edge<lb"))
			if run := b.runs("edge"); run == nil || run.Kind != state.KindDestroy || run.Moves == nil {
				t.Errorf("known to be the removed task, it is not destroyed: %+v", b.task("edge").Reason)
			}
		}
	}
}

func TestRename_RevertedToANewTaskDoesNotShareTheStateOfTheLaterName(t *testing.T) {
	dir := t.TempDir()
	for what, removed := range map[string]bool{"the later name is destroyed": true, "the later name is there, too": false} {
		t.Run(what, func(t *testing.T) {
			b := newBench(t)
			b.Config = alike(t, dir, "lb")
			b.settle()
			b.must(b.people().Hold(t.Context(), "lb", "ann", ""))
			b.launcher.forget()
			b.inForce(alike(t, dir, "edge<lb")) // no run has taken the state along yet
			next := alike(t, dir, "edge", "lb<old")
			if removed {
				next = alike(t, dir, "lb<old")
			}
			b.inForce(next)
			b.must(b.people().Force(t.Context(), "lb", "ann")) // she says that it is a new task
			b.inForce(next)
			b.waitsAs(map[string]string{"lb": "the Terraform state under its name is that of "})
			b.must(b.people().Release(t.Context(), "edge", "ann"))
			b.inForce(next)
			want := state.KindApply
			if removed {
				want = state.KindDestroy
			}
			if run := b.runs("edge"); run == nil || run.Kind != want || run.Moves == nil || !slices.Equal(run.Moves.From, []string{"lb"}) {
				t.Fatalf("the run of edge is %+v: %+v", run, b.task("edge").Reason)
			}
			if run := b.runs("lb"); run != nil {
				t.Fatalf("both have a run: %+v", run)
			}
			b.end(state.RunSucceeded, "A")
			b.now = b.now.Add(liveCheck)
			b.tick()
			if run := b.runs("lb"); run == nil || run.Reason.Code != state.ReasonForced || run.Moves != nil && run.Moves.Expected {
				t.Errorf("the run of lb is %+v: %+v", run, b.task("lb").Reason)
			}
		})
	}
}

// The former name is claimed by a removed task whose things stay, and by another that is to be destroyed.
func TestRename_StateOfANameBelongsToOneTask(t *testing.T) {
	dir := t.TempDir()
	stays := strings.ReplaceAll(alikeText("app", "dns<edge"), `on_removal = "destroy"`, `on_removal = "keep"`)
	b := newBench(t)
	b.Config = alike(t, dir, "app", "lb")
	b.settle()
	b.must(b.people().Hold(t.Context(), "lb", "ann", ""))
	b.inForce(alike(t, dir, "app", "edge<lb")) // no run has taken the state along yet
	b.inForce(configtest.Load(t, dir, "stays.hcl", stays))
	b.inForce(alike(t, dir, "app"))
	b.inForce(alike(t, dir, "app", "lb"))
	b.must(b.people().Hold(t.Context(), "lb", "ann", ""))
	b.inForce(alike(t, dir, "app", "edge<lb"))
	b.must(b.people().Release(t.Context(), "edge", "ann"))
	b.must(b.people().Force(t.Context(), "edge", "ann"))
	b.inForce(alike(t, dir, "app", "edge"))
	b.end(state.RunFailed, "")
	b.must(b.people().Hold(t.Context(), "edge", "ann", ""))
	b.inForce(alike(t, dir, "app")) // edge is to be destroyed
	b.launcher.forget()
	next := alike(t, dir, "app", "lb<old")
	b.inForce(next)
	b.must(b.people().Force(t.Context(), "lb", "ann"))
	b.must(b.people().Release(t.Context(), "edge", "ann"))
	b.inForce(next)
	if r, run := b.task("lb").Reason, b.runs("lb"); run != nil || !strings.Contains(r.Text, "the Terraform state under its name is that of the removed task edge") {
		t.Errorf("lb has the run %+v: %+v", run, r)
	}
	if run := b.runs("edge"); run == nil || run.Kind != state.KindDestroy || run.Moves == nil || !slices.Equal(run.Moves.From, []string{"lb"}) {
		t.Fatalf("the run of edge is %+v: %+v", run, b.task("edge").Reason)
	}
	b.end(state.RunSucceeded, "")
	b.inForce(next)
	if run := b.runs("lb"); run == nil || run.Kind != state.KindApply || run.Moves != nil && run.Moves.Expected {
		t.Errorf("the run of lb is %+v: %+v", run, b.task("lb").Reason)
	}
}

func TestRename_TaskThatIsRemovedBeforeItsFirstRunIsDestroyed(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.must(b.people().Hold(t.Context(), "lb", "ann", ""))
	b.inForce(alike(t, dir, "dns", "edge<lb")) // with another variable
	b.must(b.people().Release(t.Context(), "edge", "ann"))
	b.inForce(alike(t, dir, "dns"))
	if run := b.runs("edge"); run == nil || run.Kind != state.KindDestroy || run.Moves == nil || !slices.Equal(run.Moves.From, []string{"lb"}) {
		t.Errorf("the run is %+v: %+v", run, b.task("edge").Reason)
	}
}

func TestRename_MovedFromOfATaskThatHasSomethingOfItsOwnDestroysNothing(t *testing.T) {
	dir := t.TempDir()
	begin := func() *bench {
		b := newBench(t)
		b.Config = alike(t, dir, "lb", "edge")
		b.settle()
		b.inForce(alike(t, dir, "edge<lb")) // too late
		if run := b.runs("edge"); run == nil || run.Moves != nil {
			t.Errorf("the run of edge takes along what it is not: %+v", run)
		}
		b.settle()
		b.launcher.forget()
		b.tick()
		b.waitsAs(map[string]string{"lb": "nothing is destroyed: the moved_from of task edge names this task, but edge has something of its own"})
		return b
	}
	for what, request := range map[string]func(*bench){
		"its name is not there any more": func(b *bench) { b.inForce(alike(t, dir, "edge")) },
		"somebody requests it": func(b *bench) {
			b.must(b.people().Destroy(t.Context(), "lb", "ann"))
			b.tick()
		},
	} {
		b := begin()
		if request(b); b.runs("lb") == nil || b.runs("lb").Kind != state.KindDestroy {
			t.Errorf("%s: it is not destroyed: %+v", what, b.task("lb").Reason)
		}
	}
}

func TestRename_MovedFromThatHasNoEffectAnyMoreKeepsNoOtherTaskWithTheName(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t)
	b.Config = alike(t, dir, "lb")
	b.settle()
	b.inForce(alike(t, dir, "edge<lb"))
	b.settle()
	b.now = b.now.Add(keptRemoved + time.Hour)
	b.tick()
	b.inForce(alike(t, dir, "edge", "lb")) // another one
	b.settle()
	b.inForce(alike(t, dir, "edge<lb"))
	if run := b.runs("lb"); run == nil || run.Kind != state.KindDestroy {
		t.Errorf("it is not destroyed: %+v", b.task("lb").Reason)
	}
}

// What a former name stood for is at rest, so that a tick does not read it for anything else.
func TestRename_FormerNameOfATaskAtRestIsNotTakenByAnother(t *testing.T) {
	all := eachItsOwn(30)
	b := newBench(t, slices.Clone(all)...)
	b.settle()
	b.shows("A", all...)
	all[0].Name, all[0].MovedFrom = "new", []string{"task-0"}
	b.reload(slices.Clone(all)...)
	b.end(state.RunSucceeded, "A")
	b.now = b.now.Add(liveCheck)
	b.tick()
	all[0].MovedFrom = nil
	other := eachItsOwn(31)[30]
	other.Name, other.MovedFrom = "other", []string{"task-0"}
	b.reload(append(all, other)...)
	for range 3 {
		if is := b.task("other"); is.Run != nil || !strings.Contains(is.Reason.Text, "names task task-0, which was renamed to new since") {
			t.Fatalf("%+v, with the run %+v", is.Reason, is.Run)
		}
		b.now = b.now.Add(liveCheck)
		b.moveGate()
		b.tick()
	}
}
