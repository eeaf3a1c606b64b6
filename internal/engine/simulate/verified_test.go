package simulate

import (
	"context"
	"strings"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// In histories with an order, web and api are verified after each apply. In every second of them, that takes
// its time and may fail, and the process may be stopped or killed meanwhile. At the end, people release and
// retry what is not verified, if there is anybody.

// verifications are those of tasks: a failure puts web on hold.
var verifications = map[string][]verify.Spec{
	"web": {{Name: "vip", Enabled: true, HTTP: &verify.HTTP{URL: "http://vip"}, OnFailure: verify.Hold}},
	"api": {{Name: "answers", Enabled: true, HTTP: &verify.HTTP{URL: "http://api"}, OnFailure: verify.Report}},
}

// proofs are what the judge knows of verifications, by run.
type proofs struct {
	must   map[string]bool // the run is to be verified
	passed map[string]bool // how its verification ended; nothing if it has not ended
}

func (p *proofs) init() { p.must, p.passed = map[string]bool{}, map[string]bool{} }

// verify is what the engine calls to verify a run.
func (h *hand) verify(ctx context.Context, all []verify.Spec, applied verify.Applied) (results []state.Verified) {
	for _, s := range verify.Active(all) {
		r := state.Verified{Name: s.Name, State: state.VerifyPassed, Attempts: 1, Holds: s.OnFailure == verify.Hold}
		if h.unverifies {
			h.mu.Lock()
			delete(h.judge.proofs.passed, applied.Run) // what an earlier process has found is not recorded
			h.mu.Unlock()
			passed, err := ask(ctx, h.process, terraform, working+applied.Task+", to verify it", func() (bool, error) {
				passed := !h.chance(300)
				h.judge.proofs.passed[applied.Run] = passed
				return passed, nil
			})
			switch {
			case err != nil:
				r.State, r.Detail = state.VerifyInterrupted, err.Error()
			case !passed:
				r.State, r.Detail = state.VerifyFailed, "no answer"
			}
		}
		results = append(results, r)
	}
	return results
}

// toVerify notes that a run which begins to apply is to be verified.
func (j *judge) toVerify(w *world, job driver.Job, run string) {
	if w.unverifies && job.Run.Kind == state.KindApply && len(verify.Active(job.Task.Verify)) > 0 {
		j.proofs.must[run] = true
	}
}

// verified looks at what the record of a task says of its verification.
func (j *judge) verified(v view, task string, before, now state.Task) {
	last := now.Ended.Last
	ended := last != nil && (before.Ended.Last == nil || before.Ended.Last.Run != last.Run)
	applied := ended && last.Kind == state.KindApply && last.State == state.RunSucceeded
	var must, passed, known bool
	if applied {
		must = j.proofs.must[last.Run]
		passed, known = j.proofs.passed[last.Run]
	}
	begun := before.OnHold == nil && now.OnHold != nil && strings.HasPrefix(now.OnHold.By, "verification ")
	switch {
	case applied && must && !passed && now.Applied.Unverified == nil:
		v.violated("what is not verified says so: run %s of %s ends as verified", last.Run, task)
	case applied && passed && now.Applied.Unverified != nil:
		v.violated("a run that is verified ends that its task is not: run %s leaves %s", last.Run, state.Encode(now))
	case !applied && before.Applied.Unverified != nil && now.Applied.Unverified == nil && !(ended && last.Kind == state.KindDestroy) && now.Applied.At.Equal(before.Applied.At):
		v.violated("only a run that is verified ends that a task is not: %s does so for %s, which reads %s", v.name, task, state.Encode(now))
	case begun && !(applied && known && !passed):
		v.violated("only a failure puts a task on hold: %s is on hold by %s", task, now.OnHold.By)
	case applied && known && !passed && task == "web" && now.OnHold == nil:
		v.violated("a failure puts its task on hold: run %s of %s does not", last.Run, task)
	}
	if shown := (lifecycle.Facts{Name: task, Task: now, Setting: lifecycle.Enabled}).Assess(); now.Applied.Unverified != nil && shown.Phase == lifecycle.Applied {
		v.violated("a task that is not verified is not shown as applied: %s reads %s", task, state.Encode(now))
	}
}

// provesNothing looks at a run that has not succeeded.
func (j *judge) provesNothing(v view, run state.Run) {
	if run.State != state.RunSucceeded && run.Verification != nil {
		v.violated("only a run that has applied everything is verified: run %s of %s is %s, and %s", run.ID, run.Task, run.State, run.Verification.State)
	}
}

// unproven says that a task is not verified in the end, though somebody could help.
func (j *judge) unproven(w *world, t *config.Task) bool {
	return j.tasks[t.Name].Applied.Unverified != nil && t.Enabled && !w.absent && j.last.Paused == nil
}

// attend has somebody release or retry a task that is not verified.
func (w *world) attend() {
	for _, task := range w.tasks() {
		if record := w.judge.tasks[task]; record.Applied.Unverified != nil {
			w.helps(task, record)
			return
		}
	}
}

// verifyAll has people help all tasks that are not verified, if there is anybody.
func (w *world) verifyAll() {
	for _, task := range w.tasks() {
		if record := w.judge.tasks[task]; record.Applied.Unverified != nil && !w.absent {
			w.helps(task, record)
		}
	}
}

func (w *world) helps(task string, record state.Task) {
	switch {
	case record.OnHold != nil:
		w.release(task)
	case record.Run == nil && record.Forced.By == "":
		w.person("retries "+task, "", func(ctx context.Context, c *control.Control) error {
			_, err := c.Force(ctx, task, "a person")
			return err
		})
	}
}
