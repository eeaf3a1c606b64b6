package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// In some histories, what a task has made is destroyed when the task is removed, or when
// a person requests it. Tasks come back, and people approve and reject as in histories
// with rules. The judge checks that nothing is destroyed without an approval of exactly
// that, that nothing is destroyed that is configured, and that all of it is at the end.

const (
	withRemoval  = 6  // the first of the bundles whose tasks are destroyed
	removalEvery = 12 // histories
	removalFirst = 7

	removalLasts = 30 * time.Second
)

// forRemoval are bundles whose tasks are destroyed when they are removed.
func forRemoval() []bundle {
	common := config.Rules{Approval: approval.Spec{Rule: approval.Never, Expires: 20 * time.Minute}}
	task := func(name, module, approve, more string) config.Task {
		cfg, problems := (&config.Config{Rules: common}).With([]config.Change{{Task: name, Definition: fmt.Appendf(nil, `{"name":%q,"module":%q,"on_removal":"destroy","approve_destroy":%q,"condition":%s}`, name, module, approve, more)}})
		t, there := cfg.Task(name)
		if !there {
			panic(problems[name])
		}
		t.FromAPI = false
		return *t
	}
	services := func(name string) string { return fmt.Sprintf(`{"services":{"names":[%q]}}`, name) }
	report := task("report", "./report", "never", `{"schedule":{"cron":"*/5 * * * *"}},"module_input":{"services":{"names":["report"]}}`)
	all := []bundle{
		{digest: "b6", config: &config.Config{Tasks: []config.Task{task("web", "./web", "always", services("web")), task("api", "./api", "never", services("api"))}}},
		{digest: "b7", config: &config.Config{Tasks: []config.Task{task("web", "./other", "always", services("web")), task("db", "./db", "never", services("db"))}}},
		{digest: "b8", config: &config.Config{Tasks: []config.Task{task("api", "./api", "always", services("api")), task("db", "./db", "always", services("db")), report}}},
	}
	for _, b := range all {
		b.config.KeepRemoved, b.config.Rules = keptRemoved, common
	}
	return all
}

// madeForRemoval are the definitions of tasks that people make in such a history.
var madeForRemoval = func() []json.RawMessage {
	all := slices.Clone(made)
	for i := range all {
		approve := []string{"always", "never"}[i%2]
		all[i] = slices.Concat(all[i][:len(all[i])-1], fmt.Appendf(nil, `,"on_removal":"destroy","approve_destroy":%q}`, approve))
	}
	return all
}()

// destroy has somebody request that what a task has made is destroyed.
func (w *world) destroy(task string) {
	w.person("requests to destroy what "+task+" has made", "", func(ctx context.Context, c *control.Control) error {
		return c.Destroy(ctx, task, "a person")
	})
}

// Destroy implements driver.Driver.
func (h *hand) Destroy(ctx context.Context, job driver.Job) (driver.Outcome, error) {
	return h.Apply(ctx, job)
}

// destroying is a plan that leaves nothing. Consul has no part in it.
func (w *world) destroying(task string, it planned) planned {
	s := w.tfstate(task)
	it.holds, it.input, it.destroys = holding{outside: s.outside}, "", len(s.holds.entries)
	it.plan = fmt.Sprintf("destroy %d entries of %s, %d changed outside", it.destroys, s.holds.module, s.outside-s.holds.outside)
	it.changes = w.judge.infra[task] != ""
	return it
}

// removals is what the judge knows of what is to be destroyed.
type removals struct {
	gone     map[string]bool      // tasks whose destroy was recorded, without an apply decided since
	rejected map[string]bool      // tasks whose destroy was rejected, and that were not run since
	did      map[string]bool      // runs that have destroyed everything
	claimed  map[string]claimedAt // by run
	moves    int                  // how often the configuration of a process has changed
}

// claimedAt is when a run was claimed that destroys what a removed task has made.
type claimedAt struct {
	moves      int
	configured bool // the task is in the configuration again
}

func (r *removals) init() {
	r.gone, r.rejected, r.did, r.claimed = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]claimedAt{}
}

// destroys checks a run that is to destroy something, when it is decided or resumed.
func (j *judge) destroys(v view, launch state.Launch, run state.Run) {
	cfg := j.decidedBy(v, launch)
	t, configured := cfg.Task(run.Task)
	byHand := j.tasks[run.Task].Destroy != nil
	switch {
	case configured && !byHand:
		v.violated("what is configured is not destroyed: that of %s was to be destroyed by %s", run.Task, v.name)
	case j.removal.gone[run.Task] && !byHand:
		v.violated("what is destroyed is not destroyed again: that of %s was to be by %s", run.Task, v.name)
	case j.removal.rejected[run.Task] && !byHand:
		v.violated("what a person wants to keep is not destroyed: that of %s was to be by %s", run.Task, v.name)
	case configured:
		j.modules[run.ID] = t.Module
	default:
		rec, there := v.memory.records[state.DefinitionKey(run.Task)]
		if !there {
			v.violated("a task is destroyed as it was applied: %s destroys %s, whose definition is not kept", v.name, run.Task)
			return
		}
		if _, t, err := overlay.Restore(cfg, run.Task, decoded[state.Definition](rec.Value)); err == nil {
			j.modules[run.ID] = t.Module
		}
	}
}

// removing looks at a run that was written.
func (j *judge) removing(v view, launch state.Launch, before, run state.Run) {
	r := &j.removal
	if run.Kind != state.KindDestroy {
		if run.Kind.Applies() && run.State == state.RunIntended {
			delete(r.rejected, run.Task)
			delete(r.gone, run.Task)
		}
		return
	}
	switch {
	case before.State == run.State:
	case run.State == state.RunIntended:
		j.destroys(v, launch, run)
		if j.tasks[run.Task].Destroy == nil {
			j.perhapsRenamed(v, run.Task, j.decidedBy(v, launch))
		}
	case run.State == state.RunRunning && run.Removed:
		_, configured := j.configuredFor(v, run).Task(run.Task)
		r.claimed[run.ID] = claimedAt{r.moves, configured}
	case run.State == state.RunCancelled && run.Rejected:
		r.rejected[run.Task] = true
	case run.State == state.RunSucceeded && !r.did[run.ID] && !(v.remote && j.infra[run.Task] == ""):
		v.violated("what counts as destroyed is destroyed: %s says so of %s, and run %s has not done it", v.name, run.Task, run.ID)
	case run.State == state.RunSucceeded && j.infra[run.Task] == "":
		r.gone[run.Task] = true
	}
}

// configuredFor returns the configuration by which a process carries out a run.
func (j *judge) configuredFor(v view, run state.Run) *config.Config {
	for _, i := range v.instances {
		if i.process == v.process {
			return j.configuration(bundles[i.config.Load()].digest)
		}
	}
	return j.decidedOn(j.known[run.Launch])
}

// requested looks at who requests to destroy what a task has made.
func (j *judge) requested(v view, task string, before, now state.Task) {
	if before.Destroy == nil && now.Destroy != nil && !v.person() {
		v.violated("a person requests to destroy what is configured: %s does so for %s", v.name, task)
	}
}

// forgotten looks at the record of a task that is removed.
func (j *judge) forgotten(v view, task string) {
	if last := j.tasks[task]; last.OnRemoval != "" && (last.Ended.Last == nil || last.Ended.Last.Kind != state.KindDestroy || last.Ended.Last.State != state.RunCancelled) {
		v.violated("a task that is to be destroyed is not forgotten: %s forgets %s", v.name, state.Encode(last))
	}
}

// leavesNothing checks a run that begins to destroy.
func (j *judge) leavesNothing(p *process, task, run string, it planned) {
	if c, ok := j.removal.claimed[run]; ok && c.configured && c.moves == j.removal.moves {
		p.violated("what is configured is not destroyed: %s begins with run %s of %s, which is in its configuration again", p.name, run, task)
	}
	if it.task.Removal.Approve == removal.Never || it.judged && !it.changes {
		return
	}
	approved := j.rules.approvals[run]
	if !slices.ContainsFunc(approved, func(a granted) bool {
		return a.content == it.content && (a.expires.IsZero() || it.at.Before(a.expires))
	}) {
		p.violated("nothing is destroyed without an approval of exactly that: %s destroys %+v in run %s of %s; approved: %+v", p.name, it.content, run, task, approved)
	}
}

// undestroyed says what of a removed task is not destroyed in the end, though it was to
// be, and nobody is told why; "" if there is nothing.
func (j *judge) undestroyed(w *world, cfg *config.Config) string {
	for _, task := range w.tasks() {
		record := j.tasks[task]
		_, configured := cfg.Task(task)
		if configured && record.Destroy == nil || !configured && (record.OnRemoval == "" || w.crosses && j.infra[task] == "") {
			continue
		}
		wait, last := record.Waits(), record.Ended.Last
		rests := record.Run == nil || wait != nil && record.Run.Resume != nil
		shown, err := overview.Reader{Store: shelf{&w.memory}, Now: time.Now}.ReadTask(context.Background(), overlay.Compose(cfg, nil), &config.Task{Name: task})
		switch {
		case err != nil || shown.Reason.Text == "":
		case record.OnHold != nil && rests && record.Reason.Code == state.ReasonOnHold:
			continue
		case rests && record.Reason.Code == state.ReasonRenamed:
			continue
		case rests && j.behind(record):
			continue
		case record.Run == nil && record.Reason.Code == state.ReasonPaused && j.last.Paused != nil:
			continue
		case wait != nil && j.waitsForPerson(record) && strings.Contains(shown.Reason.Text, wait.Text):
			continue
		case !configured && record.Run == nil && last != nil && last.Kind == state.KindDestroy && last.State == state.RunCancelled:
			continue
		}
		return fmt.Sprintf("what %s has made is to be destroyed, and is not: %s", task, state.Encode(record))
	}
	return ""
}

// waitsForPerson reports whether a person is asked to approve that something is destroyed.
func (j *judge) waitsForPerson(record state.Task) bool {
	wait := record.Run.Wait
	return record.Run.Destroys() && wait.For == state.WaitApproval && len(wait.Causes) > 0 && wait.Content != nil && record.Run.Resume == nil &&
		record.Reason.Code == state.ReasonWaiting
}

// removed checks a removal that counts from now on. Task files that are copied slowly are not
// all there for some seconds.
func (j *judge) removed(v view, task string, before, now state.Task) {
	renamed := v.crosses && family[task] != "" // perhaps: then it counts at once
	if v.act == nil || renamed || now.Gone.Deleted != nil || !now.Gone.Final || before.Gone.Final {
		return
	}
	if lasted := now.Gone.Since.Sub(before.Gone.Since); before.Gone.Since.IsZero() || lasted < removalLasts {
		v.violated("a removal lasts before it counts: %s removes %s, which is missing since %s", v.name, task, before.Gone.Since)
	}
}
