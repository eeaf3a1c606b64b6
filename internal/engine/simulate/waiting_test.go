package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// waited is a wait that somebody knows of, perhaps one that is long over.
type waited struct{ task, run, id string }

// wait has a run wait now and then, before it has changed anything.
func (w *world) wait(task, run string) error {
	often := 60
	if slices.ContainsFunc(w.waits, func(it waited) bool { return it.run == run }) {
		often = 400 // so that requests come for a wait that is over
	}
	if w.ruled || !w.chance(often) {
		return nil
	}
	it := waited{task, run, fmt.Sprintf("w%d", len(w.waits)+1)}
	w.waits = append(w.waits, it)
	kinds := []state.WaitFor{state.WaitApproval, state.WaitWindow, state.WaitRemote}
	return &driver.WaitError{Wait: state.Wait{For: kinds[w.rng.IntN(len(kinds))], ID: it.id}}
}

// resume has somebody resume a run: one that waits, or one that waited before,
// for they come late and twice.
func (w *world) resume() {
	if n := len(w.waits); n > 0 {
		w.resumes(w.waits[n-1-w.rng.IntN(min(n, 6))])
	}
}

func (w *world) resumes(it waited) {
	p, ctx := w.process("api")
	w.people = append(w.people, p)
	w.judge.meant[p.id] = it.id
	c := &control.Control{Store: summary.Keep(view{process: p}), Now: p.now, Poll: 5 * time.Second}
	w.note("%s resumes run %s of %s from %s", p.name, it.run, it.task, it.id)
	go func() {
		limited, stop := context.WithTimeout(ctx, patience)
		defer stop()
		err := c.Resume(limited, it.task, it.run, it.id, "a person")
		_, _ = ask(ctx, p, terraform, "answers", func() (any, error) {
			w.note("    %v", err)
			p.dead = true
			w.people = slices.DeleteFunc(w.people, func(other *process) bool { return other == p })
			return nil, nil
		})
	}()
}

// resumeAll has people resume every run that waits.
func (w *world) resumeAll() {
	for _, task := range w.tasks() {
		if record := w.judge.tasks[task]; record.Waits() != nil && record.Run.Resume == nil && !w.ruled {
			w.resumes(waited{task, record.Run.ID, record.Run.Wait.ID})
		}
	}
}

// waiting looks at a run that waited before it was written.
func (j *judge) waiting(v view, before, run state.Run) {
	switch run.State {
	case state.RunIntended:
		if run.Resumed == nil || run.Launch == before.Launch {
			v.violated("a waiting run goes on if somebody resumes it: run %s of %s was launched by %s", run.ID, run.Task, v.name)
		}
	case state.RunSuperseded, state.RunCancelled, state.RunWaiting:
	default:
		v.violated("a waiting run waits: run %s of %s became %s (%s)", run.ID, run.Task, run.State, run.Error)
	}
}

// resumed looks at a request that a waiting run goes on.
func (j *judge) resumed(v view, before, now state.Task) {
	if now.Waits() == nil || now.Run.Resume == nil || before.Run != nil && before.Run.ID == now.Run.ID && before.Run.Resume != nil {
		return
	}
	opened := now.Run.Wait.For == state.WaitWindow && !v.person() // the leader sees that itself
	if a := now.Run.Resume.Approval; a != nil && !v.person() {
		opened = true // because somebody has approved what a replaced Consul has lost: see judge.approved
	}
	if !v.person() && j.movedThere(v.world, now.Run) {
		opened = true
	}
	if meant := j.meant[v.id]; meant != now.Run.Wait.ID && meant != anyWait && !opened {
		v.violated("a request concerns the wait that it was made for: %s resumes run %s from %s, and meant %s", v.name, now.Run.ID, now.Run.Wait.ID, meant)
	}
}
