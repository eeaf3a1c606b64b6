package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func (b *bench) pause() {
	b.t.Helper()
	b.must(b.people().PauseAll(b.t.Context(), "ann", "maintenance"))
}

func (b *bench) resume() {
	b.t.Helper()
	b.must(b.people().ResumeAll(b.t.Context(), "bob", ""))
}

func TestPause_NoRunBeginsUntilSomebodyResumes(t *testing.T) {
	b := newBench(t, tasks(2)...)
	b.pause()
	b.tick()
	b.must(b.Tick(t.Context(), TickOptions{Force: map[string]string{"task-0": "bob"}}))
	b.Reconciler = b.another(b.Config.Tasks) // another process leads
	b.tick()
	if n := b.begun("task-0") + b.begun("task-1"); n != 0 {
		t.Fatalf("paused, %d runs began", n)
	}
	if r := b.task("task-0").Reason; r.Code != state.ReasonPaused || !strings.Contains(r.Text, "by ann") || !strings.Contains(r.Text, "maintenance") || !strings.Contains(r.Text, "requested by bob") {
		t.Errorf("the reason is %+v", r)
	}
	b.resume()
	b.tick()
	if b.begun("task-0") != 1 || b.begun("task-1") != 1 {
		t.Errorf("resumed, %d and %d runs began", b.begun("task-0"), b.begun("task-1"))
	}
}

func TestPause_IdleTickOnlyReads(t *testing.T) {
	b := newBench(t, driftTasks(2)...)
	b.settle()
	b.pause()
	b.catalog.set("B", nil)
	b.now = b.now.Add(48 * time.Hour) // checks for drift are due, too
	b.tick()
	b.store.Reset()
	if report := b.tick(); !report.Idle || b.store.Reads.Load() != 1 || b.store.Writes.Load() != 0 {
		t.Errorf("paused, a tick without a change is idle: %v, with %d reads and %d writes", report.Idle, b.store.Reads.Load(), b.store.Writes.Load())
	}
	if task := b.task("task-0"); task.Observed.Digest != "B" || task.Applied.Digest != "A" || task.Reason.Code != state.ReasonPaused {
		t.Errorf("a change during the pause: %+v", task)
	}
}

func TestPause_ChecksForDriftWait(t *testing.T) {
	b := newBench(t, driftTasks(2)...)
	b.settle()
	b.launcher.forget()
	b.pause()
	b.now = b.now.Add(48 * time.Hour)
	b.tick()
	if n := len(b.launcher.launches()); n != 0 {
		t.Fatalf("paused, %d launches of checks began", n)
	}
	_, err := b.Tick(t.Context(), TickOptions{Leads: true}) // decides about the tasks at rest, too
	b.must(err)
	if b.now = b.now.Add(liveCheck); !b.tick().Idle {
		t.Error("paused, a tick follows for checks that are due")
	}
	b.resume()
	if report := b.tick(); len(report.Checks) != 1 {
		t.Errorf("resumed, %d launches of checks begin: due %s", len(report.Checks), report.Due)
	}
}

func TestPause_ApprovedRunWaitsUntilSomebodyResumes(t *testing.T) {
	b, run := waiting(t, planned)
	b.pause()
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunWaiting {
		t.Fatalf("the run is %s", got)
	}
	b.resume()
	b.tick()
	if got := b.run(run).Data.State; got != state.RunIntended {
		t.Errorf("resumed, the run is %s", got)
	}
}

func TestPause_RunThatWorksElsewhereGoesOn(t *testing.T) {
	b, run := waiting(t, state.Wait{For: state.WaitRemote, ID: "w"})
	b.pause()
	b.must(b.people().Resume(t.Context(), "task-0", run.ID, "w", "the other system"))
	b.tick()
	if got := b.run(run).Data.State; got != state.RunIntended {
		t.Errorf("the run is %s: %+v", got, b.task("task-0").Reason)
	}
}

func TestPause_TickUnderWayKeepsIt(t *testing.T) {
	for _, pauses := range []bool{true, false} {
		t.Run(fmt.Sprint(pauses), func(t *testing.T) {
			b := newBench(t, tasks(1)...)
			if !pauses {
				b.pause()
			}
			b.at("write "+state.ReconcileKey, func() {
				if pauses {
					b.pause()
				} else {
					b.resume()
				}
			})
			b.tick()
			if rec := b.record(); (rec.Paused != nil) != pauses || rec.Resumed.IsZero() != pauses {
				t.Errorf("paused: %+v, resumed: %s", rec.Paused, rec.Resumed)
			}
		})
	}
}

func TestPause_EarlierPauseStays(t *testing.T) {
	b := newBench(t, tasks(1)...)
	events := b.recording()
	b.tick()
	b.pause()
	b.now = b.now.Add(time.Minute)
	paused, err := b.people().PauseAll(t.Context(), "bob", "another reason")
	if err != nil || paused.By != "ann" || !paused.Since.Equal(noon) {
		t.Errorf("paused twice: %+v (%v)", paused, err)
	}
	for _, want := range []string{"ann", ""} {
		ended, err := b.people().ResumeAll(t.Context(), "bob", "")
		if by := (state.Paused{}); ended != nil {
			by = *ended
			if by.By != want {
				t.Errorf("the pause that ended is %+v", by)
			}
		} else if want != "" {
			t.Errorf("no pause has ended (%v)", err)
		}
	}
	b.tick()
	if paused, resumed := events.count(outbox.Paused), events.count(outbox.Resumed); paused != 1 || resumed != 1 {
		t.Errorf("%d events tell of the pause, %d of its end", paused, resumed)
	}
}

func TestBeginsPaused_NothingRunsBeforeSomebodyResumes(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.BeginsPaused, b.Stack = true, "network"
	events := b.recording()
	b.store.Before = func([]state.Change) error { return errors.New("the process dies") }
	_, _ = b.Tick(t.Context(), TickOptions{})
	b.store.Before = nil
	b.must(b.people().Force(t.Context(), "task-0", "bob")) // a record, which is not that of a tick
	b.tick()
	b.tick()
	if rec := b.record(); b.begun("task-0") != 0 || rec.Paused == nil || rec.Paused.By != control.FirstPause(b.now, "").By || !strings.Contains(rec.Paused.Reason, "`terrapulse resume -stack=network`") {
		t.Fatalf("%d runs began, and the pause is %+v", b.begun("task-0"), rec.Paused)
	}
	b.resume()
	b.tick()
	b.tick()
	if rec := b.record(); b.begun("task-0") != 1 || rec.Paused != nil {
		t.Errorf("resumed, %d runs began, and the pause is %+v", b.begun("task-0"), rec.Paused)
	}
	if paused, resumed := events.count(outbox.Paused), events.count(outbox.Resumed); paused != 1 || resumed != 1 {
		t.Errorf("%d events tell of the pause, %d of its end", paused, resumed)
	}
}

func TestBeginsPaused_AnotherProcessMayPauseOrResumeMeanwhile(t *testing.T) {
	for name, meanwhile := range map[string]func(b *bench){
		"pauses":  func(b *bench) { b.must(b.people().BeginPaused(t.Context(), "")) },
		"resumes": func(b *bench) { b.resume() },
	} {
		b := newBench(t, tasks(1)...)
		b.BeginsPaused = true
		b.store.Before = func(changes []state.Change) error {
			if slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == state.ReconcileKey }) {
				b.store.Before = nil
				meanwhile(b)
			}
			return nil
		}
		b.tick()
		if rec := b.record(); (rec.Paused != nil) != (name == "pauses") || (b.begun("task-0") == 0) != (name == "pauses") {
			t.Errorf("somebody else %s: the pause is %+v, and %d runs began", name, rec.Paused, b.begun("task-0"))
		}
	}
}

func TestBeginsPaused_WhatSomebodyDisablesMeanwhileStaysDisabled(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.BeginsPaused = true
	b.store.Before = func(changes []state.Change) error {
		if slices.ContainsFunc(changes, func(c state.Change) bool { return c.Key == state.ReconcileKey }) {
			b.store.Before = nil
			b.resume()
			if _, err := b.people().SetEnabled(t.Context(), "task-0", false, control.ChangeOptions{By: "ann"}); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	b.tick()
	b.tick()
	if n := b.begun("task-0"); n != 0 {
		t.Errorf("%d runs of the disabled task began: %+v", n, b.record())
	}
}

func TestBeginsPaused_WhoResumesBeforeTheFirstTickBeginsUnpaused(t *testing.T) {
	b := newBench(t, tasks(1)...)
	b.BeginsPaused = true
	b.resume()
	b.tick()
	if n := b.begun("task-0"); n != 1 {
		t.Errorf("%d runs began: %+v", n, b.record().Paused)
	}
	b.must(b.people().BeginPaused(t.Context(), ""))
	if b.record().Paused != nil {
		t.Error("a deployment that has begun is paused as a new one")
	}
}
