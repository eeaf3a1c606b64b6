package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// In AWS, two warm functions have the summary in memory. If one of them dies between the writes of a fold, the
// other one still sees which runs are under way, and finds those whose containers have died.
func TestTick_RunsAreNotForgottenAfterAFoldThatDies(t *testing.T) {
	all := eachItsOwn(120)
	b := newBench(t, all...)
	b.settle()
	warm := b.another(all)
	b.moveGate()
	_, err := warm.Tick(t.Context(), TickOptions{}) // knows the summary from now on
	b.must(err)
	b.launcher.forget()
	for i := range 6 {
		_, err := b.people().Force(t.Context(), all[i].Name, "ann")
		b.must(err)
	}
	b.tick() // starts 6 runs
	first := b.launcher.started
	b.now = b.now.Add(liveCheck)
	b.tick()             // they are under way
	for i := range 100 { // so many notes that they are folded in several writes
		b.must(b.people().Hold(t.Context(), all[10+i].Name, "ann", ""))
	}
	folds := 0
	b.store.Before = func(changes []state.Change) error {
		if slices.ContainsFunc(changes, func(c state.Change) bool { return strings.HasPrefix(c.Key, "summary/notes/") && c.Op == state.OpDelete }) {
			if folds++; folds > 1 {
				return errors.New("the deadline is exceeded")
			}
		}
		return nil
	}
	b.now = b.now.Add(liveCheck)
	_, _ = b.Tick(t.Context(), TickOptions{}) // folds, and dies after the first write
	b.store.Before = nil
	if folds < 2 {
		t.Fatalf("the fold has %d writes", folds)
	}

	b.launcher.status = map[string]LaunchStatus{}
	for _, l := range first {
		b.launcher.status[l.ID] = LaunchStatus{Stopped: "out of memory"}
	}
	b.launcher.forget()
	for range 60 {
		b.now = b.now.Add(time.Minute)
		_, err := warm.Tick(t.Context(), TickOptions{})
		b.must(err)
	}
	runs := 0
	for _, l := range first {
		for _, run := range l.Runs {
			runs++
			if live := b.task(run.Task).Run; live != nil && live.ID == run.ID {
				t.Errorf("an hour after its container died, run %s of %s is under way", run.ID, run.Task)
			}
		}
	}
	if runs != 6 {
		t.Errorf("%d runs were started", runs)
	}
}
