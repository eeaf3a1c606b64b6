package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// patience limits how long a test waits.
const patience = time.Minute

// hand executes runs: each one reports its start and waits until it is released.
type hand struct {
	t     *testing.T
	begun chan string
	goOn  chan struct{}

	mu        sync.Mutex
	now, most int
	ran       []string
}

func newHand(t *testing.T) *hand {
	return &hand{t: t, begun: make(chan string, maxPlans+1000), goOn: make(chan struct{})}
}

func (h *hand) run(ctx context.Context, launch state.Launch, run state.PlannedRun) error {
	if launch.Begun.IsZero() {
		h.t.Errorf("run %s does not know when its launch began", run.ID)
	}
	h.mu.Lock()
	h.now++
	h.most = max(h.most, h.now)
	h.ran = append(h.ran, run.ID)
	h.mu.Unlock()
	h.begun <- run.ID
	defer func() {
		h.mu.Lock()
		h.now--
		h.mu.Unlock()
	}()
	select {
	case <-h.goOn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// next returns the next run that has begun.
func (h *hand) next() string {
	h.t.Helper()
	select {
	case id := <-h.begun:
		return id
	case <-time.After(patience):
		h.t.Fatal("no run begins")
		return ""
	}
}

func launchOf(id string, n int) state.Launch {
	l := state.Launch{ID: id}
	for i := range n {
		l.Runs = append(l.Runs, state.PlannedRun{ID: fmt.Sprintf("%s-%d", id, i), Task: fmt.Sprintf("task-%d", i)})
	}
	return l
}

func start(t *testing.T, l *Local, launch state.Launch) {
	t.Helper()
	if err := l.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
}

func running(t *testing.T, l *Local, launch string) bool {
	t.Helper()
	all, err := l.Status(t.Context(), []string{launch})
	if err != nil || all[launch].Stopped != "" {
		t.Fatalf("status %+v, %v", all, err)
	}
	return all[launch].Running
}

func TestLocal_LimitsParallelRuns(t *testing.T) {
	h := newHand(t)
	l := NewLocal(t.Context(), 3, slog.New(slog.DiscardHandler), h.run)
	start(t, l, launchOf("a", 8))
	start(t, l, launchOf("b", 8))
	for range 3 {
		h.next()
	}
	close(h.goOn)
	l.Wait()
	if h.most > 3 || len(h.ran) != 16 {
		t.Errorf("%d runs in all, %d at a time", len(h.ran), h.most)
	}
	if running(t, l, "a") || running(t, l, "b") {
		t.Error("a launch whose runs have ended is said to be running")
	}
}

func TestLocal_RunsBeginInTheOrderInWhichTheyCame(t *testing.T) {
	h := newHand(t)
	l := NewLocal(t.Context(), 1, slog.New(slog.DiscardHandler), h.run)
	var want []string
	for i := range 20 {
		launch := launchOf(fmt.Sprintf("launch-%02d", i), 2)
		start(t, l, launch)
		want = append(want, launch.Runs[0].ID, launch.Runs[1].ID)
	}
	close(h.goOn)
	l.Wait()
	if !slices.Equal(h.ran, want) {
		t.Errorf("they ran in the order %v", h.ran)
	}
}

func TestLocal_PlansAndChecksForDriftDelayNoRun(t *testing.T) {
	for kind, atOnce := range map[state.Kind]int{state.KindPlan: 2, state.KindDrift: 1} {
		h := newHand(t)
		l := NewLocal(t.Context(), 4, slog.New(slog.DiscardHandler), h.run)
		others := launchOf("others", 25)
		others.Kind = kind
		start(t, l, others)
		for range atOnce {
			h.next()
		}
		if l.Room() != 4 {
			t.Errorf("%s: there is room for %d runs of other instances", kind, l.Room())
		}
		start(t, l, launchOf("runs", 4))
		for range 4 {
			if id := h.next(); !strings.HasPrefix(id, "runs-") {
				t.Errorf("%s: %s begins", kind, id)
			}
		}
		close(h.goOn)
		l.Wait()
		if len(h.ran) != 29 {
			t.Errorf("%s: %d runs in all", kind, len(h.ran))
		}
	}
}

// planBy starts a plan that somebody has requested, unless there are too many.
func planBy(t *testing.T, l *Local, by string, n int) error {
	t.Helper()
	_, err := l.Admits(t.Context(), by, 1)
	if err == nil {
		launch := launchOf(fmt.Sprintf("%s-%d", by, n), 1)
		launch.Kind, launch.By = state.KindPlan, by
		start(t, l, launch)
	}
	return err
}

func TestLocal_PlansOfSeveralSendersTakeTurns(t *testing.T) {
	h := newHand(t)
	l := NewLocal(t.Context(), 2, slog.New(slog.DiscardHandler), h.run)
	for n := range 100 {
		_ = planBy(t, l, "ann", n)
	}
	_, _ = planBy(t, l, "bob", 0), planBy(t, l, "bob", 1)
	close(h.goOn)
	l.Wait()
	if last := slices.Index(h.ran, "bob-1-0"); last < 0 || last > 4 {
		t.Errorf("the plans of bob are behind those of ann: %v", h.ran[:10])
	}
}

func TestLocal_RefusesPlansWhenTooManyWait(t *testing.T) {
	h := newHand(t)
	l := NewLocal(t.Context(), 2, slog.New(slog.DiscardHandler), h.run)
	admitted := map[string]int{}
	for n := range 3000 {
		for _, by := range []string{"ann", "bob"} {
			switch err := planBy(t, l, by, n); {
			case err == nil:
				admitted[by]++
			case !errors.Is(err, reconcile.ErrBusy):
				t.Fatal(err)
			}
		}
	}
	if all := admitted["ann"] + admitted["bob"]; all > maxPlans || admitted["bob"] < maxPlans/4 {
		t.Errorf("admitted are %v", admitted)
	}
	if _, err := l.Admits(t.Context(), "cho", 10_000); !errors.Is(err, reconcile.ErrBusy) {
		t.Errorf("a request for 10,000 plans: %v", err)
	}
	if err := planBy(t, l, "cho", 0); err != nil {
		t.Errorf("there is no place for a third sender: %v", err)
	}
	close(h.goOn)
	l.Wait()
	if err := planBy(t, l, "ann", 5000); err != nil {
		t.Errorf("when all have ended, another plan is refused: %v", err)
	}
	l.Wait()
}

func TestLocal_RefusesARequestForMorePlansThanMayWait(t *testing.T) {
	l := NewLocal(t.Context(), 2, slog.New(slog.DiscardHandler), newHand(t).run)
	if _, err := l.Admits(t.Context(), "ann", maxPlans/2); err != nil {
		t.Errorf("half of the places: %v", err)
	}
	_, err := l.Admits(t.Context(), "ann", 10_000)
	if !errors.Is(err, reconcile.ErrBusy) || !strings.Contains(err.Error(), "10000 requested, and at most 3000") || !strings.Contains(err.Error(), "fewer tasks") {
		t.Errorf("of 10,000 plans it says %v", err)
	}
}

func TestLocal_FailedRunStopsNoOther(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	ran := 0
	l := NewLocal(t.Context(), 2, slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, _ state.Launch, run state.PlannedRun) error {
		mu.Lock()
		defer mu.Unlock()
		ran++
		if run.Task == "task-0" {
			return errors.New("claim: no space left")
		}
		return nil
	})
	start(t, l, launchOf("a", 5))
	l.Wait()
	if ran != 5 {
		t.Errorf("%d runs were carried out", ran)
	}
	if n := strings.Count(log.String(), "no space left"); n != 1 || !strings.Contains(log.String(), "task=task-0") {
		t.Errorf("the log says it %d times: %s", n, log.String())
	}
}

func TestLocal_LaunchUnderWayIsNotStartedTwice(t *testing.T) {
	h := newHand(t)
	l := NewLocal(t.Context(), 4, slog.New(slog.DiscardHandler), h.run)
	launch := launchOf("a", 2)
	start(t, l, launch)
	h.next()
	start(t, l, launch)
	if !running(t, l, "a") || running(t, l, "unknown") {
		t.Error("the status is wrong")
	}
	close(h.goOn)
	l.Wait()
	if slices.Sort(h.ran); !slices.Equal(h.ran, []string{"a-0", "a-1"}) {
		t.Errorf("carried out: %v", h.ran)
	}

	// After its end it may be started again: runs that no process could claim are still there.
	start(t, l, launch)
	l.Wait()
	if len(h.ran) != 4 {
		t.Errorf("carried out: %v", h.ran)
	}
}

func TestLocal_ReportsTheEndOfARun(t *testing.T) {
	h := newHand(t)
	l := NewLocal(t.Context(), 4, slog.New(slog.DiscardHandler), h.run)
	start(t, l, launchOf("a", 3))
	for range 3 {
		h.next()
	}
	select {
	case <-l.Ended():
		t.Fatal("told before a run has ended")
	default:
	}
	for range 3 { // ends may be merged, but none is missed
		h.goOn <- struct{}{}
		select {
		case <-l.Ended():
		case <-time.After(patience):
			t.Fatal("nothing is told")
		}
	}
	if l.Wait(); running(t, l, "a") {
		t.Error("still running after the last one was told")
	}
}

func TestLocal_NoRunBeginsAfterAStop(t *testing.T) {
	h := newHand(t)
	ctx, stop := context.WithCancel(t.Context())
	l := NewLocal(ctx, 1, slog.New(slog.DiscardHandler), h.run)
	start(t, l, launchOf("a", 50))
	h.next()
	stop()
	l.Wait() // for the interrupted run
	if len(h.ran) != 1 {
		t.Errorf("%d runs were begun", len(h.ran))
	}
	start(t, l, launchOf("b", 50))
	if l.Wait(); len(h.ran) != 1 {
		t.Errorf("%d runs were begun after the end", len(h.ran)-1)
	}
}
