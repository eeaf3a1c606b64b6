package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/drivertest"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// The same histories with a driver whose runs go on in another system: also while all
// processes are dead, and while people confirm, discard and cancel them there.

// cloud is another system: that of package drivertest, whose driver works with it.
type cloud struct{ runs []*drivertest.Run }

// latest is the latest run of a task; the zero value if there is none.
func (c *cloud) latest(task string) drivertest.Run {
	for _, r := range slices.Backward(c.runs) {
		if r.File == task {
			return *r
		}
	}
	return drivertest.Run{}
}

// live are the runs of a task that have not ended.
func (c *cloud) live(task string) (all []*drivertest.Run) {
	for _, r := range c.runs {
		if r.File == task && r.Phase != state.RemoteEnded {
			all = append(all, r)
		}
	}
	return all
}

func (c *cloud) run(id string) *drivertest.Run {
	return c.runs[slices.IndexFunc(c.runs, func(r *drivertest.Run) bool { return r.ID == id })]
}

// remote is the driver of a process.
type remote struct {
	*drivertest.Driver
	proc *proc
}

func (p *proc) remote() remote {
	return remote{&drivertest.Driver{Open: func(context.Context, *config.Config) (drivertest.System, error) { return office{p}, nil }}, p}
}

// Poll leaves out what other systems leave out now and then.
func (r remote) Poll(ctx context.Context, cfg *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	found, err := r.Driver.Poll(ctx, cfg, runs)
	for _, run := range runs {
		if r.proc.chance(5, "left out") {
			delete(found, run.ID)
		}
	}
	return found, err
}

// Apply is one step of a run.
func (r remote) Apply(ctx context.Context, job driver.Job) (*state.Changes, error) {
	changes, err := r.Driver.Apply(ctx, job)
	if err == nil {
		r.proc.rendered[job.Run.ID] = r.proc.cloud.latest(job.Task.Name).Input
	}
	return changes, err
}

// office is the other system as a process reaches it.
type office struct{ *proc }

var errNoAnswer = errors.New("the office does not answer")

// request does something there. It may be refused, and its answer may be lost. Others
// act before it only where a late effect does no harm.
func (o office) request(late bool, do func() error) error {
	switch {
	case o.dead:
		return errNoAnswer
	case o.chance(4, "dies before"):
		o.dead = true
		return errNoAnswer
	case o.chance(4, "refused there"):
		return errNoAnswer
	case late && o.chance(15, "others act meanwhile"):
		if o.step(1); o.dead {
			return errNoAnswer
		}
	}
	err := do()
	switch {
	case o.chance(4, "dies after"):
		o.dead = true
		return errNoAnswer
	case o.chance(4, "answer lost there"):
		return errNoAnswer
	}
	return err
}

// Latest implements drivertest.System.
func (o office) Latest(_ context.Context, task string) (r drivertest.Run, err error) {
	err = o.request(true, func() error { r = o.cloud.latest(task); return nil })
	return r, err
}

// Get implements drivertest.System.
func (o office) Get(_ context.Context, id string) (r drivertest.Run, err error) {
	err = o.request(true, func() error { r = *o.cloud.run(id); return nil })
	return r, err
}

// Begin implements drivertest.System.
func (o office) Begin(_ context.Context, r drivertest.Run, after string) (drivertest.Run, error) {
	err := o.request(true, func() error {
		if o.cloud.latest(r.File).Version != after {
			return drivertest.ErrConflict
		}
		r.ID = fmt.Sprintf("run-%d", len(o.cloud.runs)+1)
		if others := o.cloud.live(r.File); len(others) > 0 {
			o.violated("one remote run: %s begins beside %s of %s", r.ID, others[0].ID, r.File)
		}
		o.cloud.runs = append(o.cloud.runs, &r)
		o.applies[r.ID] = true
		return nil
	})
	return r, err
}

// Confirm implements drivertest.System.
func (o office) Confirm(_ context.Context, id string) error {
	return o.request(false, func() error {
		r := o.cloud.run(id)
		if r.Phase != state.RemoteReady {
			return drivertest.ErrConflict
		}
		r.Phase, r.By = state.RemoteApplying, drivertest.Us
		live := decoded[state.Task](o.store.All()[state.TaskKey(r.File)]).Run
		is := decoded[state.Run](o.store.All()[state.RunKey(r.File, live.ID)])
		if a := is.Approval; r.File == "web" && (a == nil || a.Content.Plan != id) {
			o.violated("run %s confirms %s without an approval: %+v", is.ID, id, a)
		}
		return nil
	})
}

// End implements drivertest.System.
func (o office) End(_ context.Context, id, _ string, applying bool) error {
	return o.request(true, func() error {
		r := o.cloud.run(id)
		if r.Phase == state.RemoteEnded || r.Phase == state.RemoteApplying && !applying {
			return drivertest.ErrConflict
		}
		result := drivertest.Discarded
		if r.Phase == state.RemoteApplying {
			result = drivertest.Cancelled
		}
		o.ends(r, result, drivertest.Us)
		return nil
	})
}

// ends has a run end; by is who has decided that.
func (w *world) ends(r *drivertest.Run, result, by string) {
	switch {
	case result == drivertest.Applied:
		w.infra[r.File] = r.Input
	case r.Phase == state.RemoteApplying:
		w.infra[r.File] = "half done"
	}
	r.Phase, r.Result, r.EndedBy = state.RemoteEnded, result, by
}

// cloudStep is something that happens there, or that a person does here.
func (w *world) cloudStep() {
	people := &control.Control{Store: w.store, Now: func() time.Time { return w.now },
		Base: func(context.Context) (*config.Config, error) { return w.configuration(0), nil }}
	ctx := context.Background()
	task := []string{"web", "api", "db"}[w.pick(3, "whose")]
	switch w.pick(9, "there") {
	case 0:
		_, _ = people.Cancel(ctx, task, "Jo")
	case 1:
		_ = people.Reject(ctx, task, "", "Jo", "")
	case 2, 3:
		_ = people.Approve(ctx, task, "", identity.Identity{Name: "Jo"}, "")
	case 4:
		if people.Hold(ctx, task, "Jo", "") != nil || w.chance(70, "released") {
			_ = people.Release(ctx, task, "Jo")
		}
	case 5:
		for _, run := range w.cloud.live(task) {
			w.decide(run)
		}
	default:
		for _, run := range w.cloud.live(task) {
			w.goesOn(run)
		}
	}
}

// decide is what a person decides there.
func (w *world) decide(run *drivertest.Run) {
	switch w.pick(3, "jane") {
	case 0:
		if run.Phase == state.RemoteReady {
			run.Phase, run.By, run.At = state.RemoteApplying, "jane", noon
		}
	case 1:
		if run.Phase != state.RemoteApplying {
			w.ends(run, drivertest.Discarded, "jane")
		}
	case 2:
		w.ends(run, drivertest.Cancelled, "jane")
	}
}

// goesOn has a run there go on.
func (w *world) goesOn(run *drivertest.Run) {
	switch {
	case run.Phase == state.RemotePlanning && w.chance(5, "the plan fails"), run.Phase == state.RemoteApplying && w.chance(10, "the apply fails"):
		w.ends(run, drivertest.Failed, "")
	case run.Phase == state.RemotePlanning && w.infra[run.File] == run.Input:
		w.ends(run, drivertest.Unchanged, "")
	case run.Phase == state.RemotePlanning:
		run.Plan = driver.Plan{Changes: &state.Changes{Change: 1}, Digest: run.ID, State: w.infra[run.File]}
		run.Phase = state.RemoteReady
	case run.Phase == state.RemoteApplying:
		w.ends(run, drivertest.Applied, "")
	}
}

// rest lets what has begun end, without new input: what no run needs must be stopped then,
// and what counts as applied must be there.
func (w *world) rest(p *proc) {
	for range 40 {
		for _, run := range w.cloud.runs {
			if run.Phase != state.RemoteReady {
				w.goesOn(run)
			}
		}
		p.tick(reconcile.TickOptions{})
		for len(p.queue) > 0 {
			p.next()
		}
		w.now = w.now.Add(2 * time.Minute) // in all longer than a claim lasts
	}
	for _, t := range p.rec.Config.Tasks {
		record := decoded[state.Task](w.store.All()[state.TaskKey(t.Name)])
		if live := w.cloud.live(t.Name); record.Run == nil && len(live) > 0 {
			w.violated("what no run needs is stopped there: %s of %s is %s: %+v", live[0].ID, t.Name, live[0].Phase, record)
		}
		if record.Reason.Code == state.ReasonUnchanged && w.infra[t.Name] != record.Applied {
			w.violated("what counts as applied is there: %s has %q, and not %q: %+v", t.Name, w.infra[t.Name], record.Applied, record)
		}
	}
}

// settleCloud ends what keeps tasks from being applied: they get new input, nobody holds
// them, and everything there goes on.
func (w *world) settleCloud() {
	for _, task := range []string{"web", "api", "db"} {
		for _, run := range w.cloud.live(task) {
			w.goesOn(run)
		}
		people := &control.Control{Store: w.store, Now: func() time.Time { return w.now },
			Base: func(context.Context) (*config.Config, error) { return w.configuration(0), nil }}
		_ = people.Approve(context.Background(), task, "", identity.Identity{Name: "Jo"}, "")
		_ = people.Release(context.Background(), task, "Jo")
	}
}

// leftThere says what should not be there in the end.
func (w *world) leftThere(p *proc) string {
	for _, t := range p.rec.Config.Tasks {
		if live := w.cloud.live(t.Name); len(live) > 0 {
			return fmt.Sprintf("%s of %s is %s", live[0].ID, t.Name, live[0].Phase)
		}
		if a := decoded[state.Task](w.store.All()[state.TaskKey(t.Name)]).GivenUp(); a != nil {
			return fmt.Sprintf("%s of %s is not stopped", a.ID, t.Name)
		}
	}
	return ""
}

// remotely has the driver of package drivertest run the tasks, and a person approve the plans of the
// first one.
func remotely(c *config.Config) *config.Config {
	c.OtherDriver = &drivertest.Block{Office: "office"}
	c.Tasks[0].Approval = approval.Spec{Rule: approval.Always, Expires: 24 * time.Hour}
	return c
}

func TestEngine_InvariantsHoldWithRemoteRuns(t *testing.T) {
	fewHistories(t)
	rapid.Check(t, func(r *rapid.T) {
		var broken string
		var thrown any
		synctest.Test(t, func(*testing.T) {
			defer func() { thrown = recover() }()
			broken = history(r, &cloud{})
		})
		if thrown != nil {
			panic(thrown)
		}
		if broken != "" {
			r.Fatal(broken)
		}
	})
}
