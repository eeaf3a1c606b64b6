package simulate

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver"
	tf "github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In a cluster whose instances share runs, a state that the backend does not take stays on the disk of one
// instance. The judge checks that no run begins elsewhere from an older state once that is recorded,
// unless a person has requested it. Instances that die do not come back: in the end, people request runs
// of the tasks that wait for them. The approval that such a run needs is not simulated.

// unsavedEvery and unsavedFirst say in which histories that happens often.
const (
	unsavedEvery = 20
	unsavedFirst = 9
)

// drawUnsaved has the backend of a cluster refuse many states.
func (w *world) drawUnsaved(seed uint64) {
	if seed%unsavedEvery == unsavedFirst && seed < documentSeeds && !w.weather.frost && !w.weather.storm {
		w.home, w.weather.unsaved = inCluster, 300
	}
}

// unsavedError is the error of an apply whose state the backend does not take.
func unsavedError(task string, mark tf.StateMark) error {
	return &tf.Error{Command: tf.Command{Task: task, Name: "apply"}, Message: "the backend does not take the state",
		Unsaved: &state.Unsaved{Place: "errored.tfstate", State: mark.ID()}}
}

// findState does what internal/driver/terraform does about a state that an earlier run could not save.
func (h *hand) findState(ctx context.Context, job driver.Job) error {
	u, task := job.Run.Unsaved, job.Task.Name
	if u == nil {
		return nil
	}
	found := false
	err := h.step(ctx, "terraform looks for the latest state of "+task, func() error {
		names := []string{task}
		if m := job.Run.Moves; m != nil {
			names = append(names, m.From...)
		}
		for _, name := range names {
			_, here := h.tfstate(name).left[h.disk()]
			found = found || here
		}
		if found = found || h.tfstate(task).mark.ID() == u.State; !found && u.Instance && !job.Run.ForPerson() {
			return errors.New(u.String())
		}
		return nil
	})
	if err != nil || !found || job.Run.Moves != nil {
		return err
	}
	if err := h.saveLeft(ctx, task); err != nil {
		return err
	}
	job.Notes.Saved()
	return nil
}

// keepsState notes that the outcome of a run says who has its state.
func (j *judge) keepsState(w *world, run state.Run) {
	u := run.Unsaved
	if u == nil || !u.Instance || !run.State.Ended() {
		return
	}
	if left, there := w.tfstate(run.Task).left[u.Runner]; there && left.run == u.Run {
		left.recorded = true
		w.tfstate(run.Task).left[u.Runner] = left
		j.unsaved++
	}
}

// olderState looks at an apply that begins.
func (h *hand) olderState(job driver.Job) {
	s := h.tfstate(job.Task.Name)
	for disk, left := range s.left {
		if disk != h.disk() && left.recorded && !job.Run.ForPerson() && tf.Replaceable(left.began.mark, s.mark, left.mark) {
			h.violated("no run begins from an older state: %s applies %s from serial %d, and %s keeps serial %d of run %s",
				h.name, job.Task.Name, s.mark.Serial, disk, left.mark.Serial, left.run)
		}
	}
}

// agreeOnStates has people request runs of the tasks whose states are on instances that are not there, or
// the destroy of those that are removed.
func (w *world) agreeOnStates() {
	for _, task := range w.tasks() {
		record := w.judge.tasks[task]
		if record.Reason.Code != state.ReasonUnsaved {
			continue
		}
		configured := slices.ContainsFunc(bundles[w.pointer].config.Tasks, func(t config.Task) bool { return t.Name == task })
		switch {
		case record.Gone.Final:
			if record.OnRemoval != "" && record.Destroy == nil {
				w.destroy(task)
			}
		case configured && (record.Forced.By == "" || record.Forced.Replaces):
			w.requests(task)
		}
	}
}

// The simulation says nothing about such states if there are none.
func TestInHistoriesOfAClusterNoRunBeginsFromAnOlderState(t *testing.T) {
	kept := 0
	for seed := uint64(unsavedFirst); seed < 600*unsavedEvery && kept < 2; seed += unsavedEvery {
		out := history(t, seed, nil)
		if kept += out.kept; out.broken != "" {
			t.Fatalf("seed %d: %s", seed, out.broken)
		}
	}
	if kept < 2 {
		t.Errorf("%d states were kept", kept)
	}
}
