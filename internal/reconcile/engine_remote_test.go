package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/approval"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// The same histories with a driver whose runs go on in another system: also while all
// processes are dead, and while people confirm, discard and cancel them there.

// cloud is another system with one workspace for each task.
type cloud struct {
	runs  []*cloudRun
	count int
}

// cloudRun is one run there. It ends as applied, unchanged, errored, discarded or
// cancelled, the last two by somebody.
type cloudRun struct {
	id, task, version string
	content, digest   string // what it applies, and its digest in Consul
	phase             state.RemotePhase
	ended, by         string
}

func (r *cloudRun) as() state.RemoteRun {
	return state.RemoteRun{ID: r.id, Version: r.version, Workspace: r.task, Phase: r.phase}
}

func (r *cloudRun) end(as, by string) { r.phase, r.ended, r.by = state.RemoteEnded, as, by }

// live are the runs in the workspace of a task that have not ended.
func (c *cloud) live(task string) (all []*cloudRun) {
	for _, r := range c.runs {
		if r.task == task && r.phase != state.RemoteEnded {
			all = append(all, r)
		}
	}
	return all
}

// find returns a run by its id, or by its version if that is not known.
func (c *cloud) find(run state.RemoteRun) *cloudRun {
	for _, r := range c.runs {
		if r.id == run.ID || run.ID == "" && r.version == run.Version {
			return r
		}
	}
	return nil
}

// remote is the driver of a process.
type remote struct {
	driver.Driver
	*proc
}

var errNoAnswer = errors.New("HCP does not answer")

// request does something there. It may be refused, and its answer may be lost. Others
// act before it only where a late effect does no harm.
func (r remote) request(late bool, do func()) error {
	switch {
	case r.dead:
		return errNoAnswer
	case r.chance(4, "dies before"):
		r.dead = true
		return errNoAnswer
	case r.chance(4, "refused there"):
		return errNoAnswer
	case late && r.chance(15, "others act meanwhile"):
		if r.step(1); r.dead {
			return errNoAnswer
		}
	}
	do()
	switch {
	case r.chance(4, "dies after"):
		r.dead = true
		return errNoAnswer
	case r.chance(4, "answer lost there"):
		return errNoAnswer
	}
	return nil
}

func (r remote) Poll(_ context.Context, _ *config.Config, runs []state.RemoteRun) (map[string]state.RemoteStatus, error) {
	found := map[string]state.RemoteStatus{}
	err := r.request(true, func() {
		for _, run := range runs {
			if is := r.cloud.find(run); is != nil && !r.chance(5, "left out") {
				found[run.ID] = state.RemoteStatus{Phase: is.phase, Text: is.id + " is " + string(is.phase)}
			}
		}
	})
	return found, err
}

func (r remote) Stop(_ context.Context, _ *config.Config, a state.Abandoned) (applied bool, err error) {
	err = r.request(true, func() {
		run := r.cloud.find(a.Run)
		switch {
		case run == nil:
		case run.ended == "applied", run.phase == state.RemoteApplying && !a.Cancel:
			applied = true
		case run.phase == state.RemoteApplying:
			applied = true
			run.end("cancelled", "us")
			r.infra[run.task] = "half done"
		case run.phase != state.RemoteEnded:
			run.end("discarded", "us")
		}
	})
	return applied, err
}

// Apply is one step of a run.
func (r remote) Apply(ctx context.Context, job driver.Job) (*state.Changes, error) {
	id, task := job.Run.ID, job.Task.Name
	digest := job.Snapshot.Condition.Digest
	content := job.Task.Module + " " + digest
	rec, err := job.Remote(ctx)
	if err != nil {
		return nil, err
	}
	if job.Run.Remote != nil {
		changes, again, err := r.goOn(ctx, job, &rec, content)
		if !again {
			return changes, err
		}
	}
	for _, left := range r.cloud.live(task) {
		same := left.version == rec.Run.Version && left.content == content
		switch {
		case same:
			rec.By, rec.Run = id, left.as()
		case left.phase == state.RemoteApplying:
			rec.By, rec.Run, rec.Content = "an earlier run", left.as(), left.content
		default:
			if err := r.request(true, func() {
				if left.phase != state.RemoteApplying && left.phase != state.RemoteEnded {
					left.end("discarded", "us")
				}
			}); err != nil {
				return nil, err
			}
			if left.phase == state.RemoteApplying {
				return nil, errors.New("it was confirmed meanwhile")
			}
			continue
		}
		if err := job.Record(ctx, rec); err != nil {
			return nil, err
		}
		return nil, wait(left)
	}
	r.cloud.count++
	rec = state.Remote{Workspace: task, Name: task, By: id, Content: content,
		Run: state.RemoteRun{Version: fmt.Sprintf("cv-%d", r.cloud.count), Workspace: task, Phase: state.RemotePlanning}}
	if err := job.Record(ctx, rec); err != nil {
		return nil, err
	}
	run := &cloudRun{id: strings.Replace(rec.Run.Version, "cv", "run", 1), task: task, version: rec.Run.Version, content: content, digest: digest, phase: state.RemotePlanning}
	if err := r.request(false, func() {
		if others := r.cloud.live(task); len(others) > 0 {
			r.violated("one remote run: %s begins %s beside %s of %s", id, run.id, others[0].id, task)
		}
		r.cloud.runs = append(r.cloud.runs, run)
		r.applies[run.id] = true
	}); err != nil {
		return nil, err
	}
	rec.Run = run.as()
	if err := job.Record(ctx, rec); err != nil {
		return nil, err
	}
	return nil, wait(run)
}

// wait is what a run waits for while its remote run is in its phase.
func wait(r *cloudRun) error {
	w := &driver.WaitError{Wait: state.Wait{For: state.WaitRemotePlan}}
	if r.phase == state.RemoteApplying {
		w.Wait.For = state.WaitRemote
		if r.by != "us" {
			w.Approval = &state.Approval{By: r.by, At: noon}
		}
	}
	return w
}

// goOn looks how far the remote run of a run has come. Again says that the run has to
// begin another one.
func (r remote) goOn(ctx context.Context, job driver.Job, rec *state.Remote, content string) (_ *state.Changes, again bool, _ error) {
	run, own := r.cloud.find(rec.Run), rec.By == job.Run.ID
	switch {
	case run == nil:
		return nil, true, nil
	case run.phase == state.RemoteEnded && !own:
		return nil, true, nil
	case run.phase == state.RemoteEnded:
		if rec.Run.Phase = state.RemoteEnded; job.Record(ctx, *rec) != nil {
			return nil, false, errNoAnswer
		}
		switch {
		case run.ended == "applied" || run.ended == "unchanged":
			r.rendered[job.Run.ID] = run.digest
			return &state.Changes{Change: 1}, false, nil
		case run.by == "us":
			return nil, true, nil
		case run.ended == "discarded":
			return nil, false, &driver.RejectedError{By: run.by}
		case run.ended == "cancelled":
			return nil, false, &driver.CancelledError{By: run.by}
		}
		return nil, false, errors.New("the run errored there")
	case run.phase != state.RemoteReady || !own:
		return nil, false, wait(run)
	case run.content != content:
		err := r.request(true, func() {
			if run.phase == state.RemoteReady {
				run.end("discarded", "us")
			}
		})
		return nil, err == nil, err
	}
	if job.Judge != nil {
		plan := driver.Plan{Changes: &state.Changes{Change: 1}, Digest: run.id, State: r.infra[run.task]}
		if err := job.Judge(ctx, plan); err != nil {
			return nil, false, err
		}
	}
	if rec.Run.Phase = state.RemoteApplying; job.Record(ctx, *rec) != nil {
		return nil, false, errNoAnswer
	}
	if err := r.request(false, func() {
		if run.phase != state.RemoteReady {
			return
		}
		run.phase, run.by = state.RemoteApplying, "us"
		is := decoded[state.Run](r.store.All()[state.RunKey(run.task, job.Run.ID)])
		if a := is.Approval; run.task == "web" && (a == nil || a.Content.Plan != run.id) {
			r.violated("run %s confirms %s without an approval: %+v", is.ID, run.id, a)
		}
	}); err != nil {
		return nil, false, err
	}
	return nil, false, wait(run)
}

// cloudStep is something that happens there, or that a person does here.
func (w *world) cloudStep() {
	people := &reconcile.Control{Store: w.store, Now: func() time.Time { return w.now },
		Base: func(context.Context) (*config.Config, error) { return w.configuration(0), nil }}
	ctx := context.Background()
	task := []string{"web", "api", "db"}[w.pick(3, "whose")]
	switch w.pick(9, "there") {
	case 0:
		_, _ = people.Cancel(ctx, task, "Jo")
	case 1:
		_ = people.Reject(ctx, task, "", "Jo", "")
	case 2, 3:
		_ = people.Approve(ctx, task, "", state.Approval{By: "Jo"})
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
func (w *world) decide(run *cloudRun) {
	switch w.pick(3, "jane") {
	case 0:
		if run.phase == state.RemoteReady {
			run.phase, run.by = state.RemoteApplying, "jane"
		}
	case 1:
		if run.phase != state.RemoteApplying {
			run.end("discarded", "jane")
		}
	case 2:
		if run.phase == state.RemoteApplying {
			w.infra[run.task] = "half done"
		}
		run.end("cancelled", "jane")
	}
}

// goesOn has a run there go on.
func (w *world) goesOn(run *cloudRun) {
	switch {
	case run.phase == state.RemotePlanning && w.chance(5, "the plan fails"), run.phase == state.RemoteApplying && w.chance(10, "the apply fails"):
		if run.phase == state.RemoteApplying {
			w.infra[run.task] = "half done"
		}
		run.end("errored", "")
	case run.phase == state.RemotePlanning && w.infra[run.task] == run.digest:
		run.end("unchanged", "")
	case run.phase == state.RemotePlanning:
		run.phase = state.RemoteReady
	case run.phase == state.RemoteApplying:
		w.infra[run.task] = run.digest
		run.end("applied", run.by)
	}
}

// rest lets what has begun end, without new input: what no run needs must be stopped then,
// and what counts as applied must be there.
func (w *world) rest(p *proc) {
	for range 40 {
		for _, run := range w.cloud.runs {
			if run.phase != state.RemoteReady {
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
			w.violated("what no run needs is stopped there: %s of %s is %s: %+v", live[0].id, t.Name, live[0].phase, record)
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
		people := &reconcile.Control{Store: w.store, Now: func() time.Time { return w.now },
			Base: func(context.Context) (*config.Config, error) { return w.configuration(0), nil }}
		_ = people.Approve(context.Background(), task, "", state.Approval{By: "Jo"})
		_ = people.Release(context.Background(), task, "Jo")
	}
}

// leftThere says what should not be there in the end.
func (w *world) leftThere(p *proc) string {
	for _, t := range p.rec.Config.Tasks {
		if live := w.cloud.live(t.Name); len(live) > 0 {
			return fmt.Sprintf("%s of %s is %s", live[0].id, t.Name, live[0].phase)
		}
		if a := decoded[state.Task](w.store.All()[state.TaskKey(t.Name)]).Abandoned; a != nil {
			return fmt.Sprintf("%s of %s is not stopped", a.Run.ID, t.Name)
		}
	}
	return ""
}

// approves has a person approve the plans of the first task.
func approves(c *config.Config) *config.Config {
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
