package simulate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/lease"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// judge checks what must always hold, at every write and every step of Terraform. It knows more than
// any process: which processes live, what was rendered and what exists.
type judge struct {
	leader lease.Holder
	last   state.Reconcile
	place  string         // of the Consul that is replaced
	shown  state.Identity // that has shown what was applied first; zero if that is not certain
	tasks  map[string]state.Task
	runs   map[string]map[string]state.Run // by task and id
	gone   map[string]bool                 // runs that were removed before they ended
	known  map[string]state.Launch         // launches whose intents were written, also those that are gone by now

	overrides map[string]state.Override  // by task
	counts    map[string]*config.Config  // by bundle: what counts, with the overrides as they are
	trials    map[string]map[string]bool // by task: the runs that there were before its trial
	asked     map[int]map[string]bool    // by process: the runs that there were before the one that it asked for
	changed   map[int]bool               // processes that have written an override
	deleted   map[string]bool            // tasks that were deleted at some time
	modules   map[string]string          // by run: the module that it was decided on
	pushes    []string                   // bundles in the order in which the pointer named them
	inForce   int                        // the index in pushes when the bundle in force was put in force

	applying map[string]*process // by task
	yielding map[string]bool     // tasks whose Terraform was interrupted
	applied  map[string]bool     // runs that Terraform was started for
	rendered map[string]string   // by run: digest that a successful apply rendered
	infra    map[string]string   // by task: what is there
	byHand   map[string]bool     // tasks that an error asks a person to run once
	spoilt   map[string]*process // by task: it lost the run, and its Terraform ended after the next one had begun
	meant    map[int]string      // by process of a person: the wait that is to end

	crossings      crossings
	proofs         proofs
	news           news
	rules          rules
	removal        removals
	pauses         pauses
	remote         remoteKnown
	launches       map[string]state.Launch
	open           map[string]state.Open
	took           int             // open launches that instances of a cluster took
	begun          int             // open launches that the leader began itself
	warm           summary.Summary // of a process that ticks never, and reads it now and then
	summaryWrites  int             // that concern it
	withoutSummary int             // writes of the reconcile record by leaders, since there was a summary
	unremoved      map[string]int  // by task: requests of the kind that removes an ended run which have failed
	unsaved        int             // states that instances keep because the backend did not take them
}

func (j *judge) init() {
	j.news.init()
	j.rules.init()
	j.removal.init()
	j.crossings.init()
	j.proofs.init()
	j.remote.init()
	j.pauses.claimed, j.launches = map[string]int{}, map[string]state.Launch{}
	j.open, j.unremoved = map[string]state.Open{}, map[string]int{}
	j.tasks, j.runs, j.known = map[string]state.Task{}, map[string]map[string]state.Run{}, map[string]state.Launch{}
	j.overrides, j.counts, j.trials = map[string]state.Override{}, map[string]*config.Config{}, map[string]map[string]bool{}
	j.pushes, j.deleted = []string{bundles[0].digest}, map[string]bool{}
	j.asked, j.changed, j.modules = map[int]map[string]bool{}, map[int]bool{}, map[string]string{}
	j.yielding, j.gone = map[string]bool{}, map[string]bool{}
	j.byHand, j.meant, j.spoilt = map[string]bool{}, map[int]string{}, map[string]*process{}
	j.applying, j.applied, j.rendered, j.infra = map[string]*process{}, map[string]bool{}, map[string]string{}, map[string]string{}
}

func (j *judge) reconcile() state.Reconcile { return j.last }

func decoded[T any](value []byte) T {
	s, err := state.Decode[T](state.Record{Value: value})
	if err != nil {
		panic(err)
	}
	return s.Data
}

// written checks a write of a process that could not read the conditions of some tasks.
func (j *judge) written(v view, unread map[string]bool, changes []state.Change) {
	j.summarized(v, changes)
	j.madeAnew(v, changes)
	if wrong := j.transitions(v, changes); wrong != "" {
		defer func() { v.violated("%s", wrong) }()
	}
	moved := j.takenOver(changes)
	j.kept(v, changes, moved)
	for task, from := range moved {
		for _, c := range changes {
			if name, ok := taskOf(c); ok && name == task {
				j.takesOver(v, from, task, decoded[state.Task](c.Value))
			}
		}
	}
	var touched []string
	var launch state.Launch // the latest
	launches := map[string]state.Launch{}
	leads := j.leader.Owner // also of a write that releases the lease
	for _, c := range changes {
		switch collection, rest, _ := strings.Cut(c.Key, "/"); {
		case c.Op == state.OpCheck:
		case collection == "launch" && c.Op != state.OpDelete:
			launch = decoded[state.Launch](c.Value)
			launches[launch.ID] = launch
		case collection == "inputs" || collection == "staged": // perhaps with the outcome of the run
			about, _, _ := strings.Cut(rest, "/")
			j.keeps(v, about)
		case collection == "remote" && c.Op != state.OpDelete: // perhaps with the outcome of the run
			j.remembers(v, rest, decoded[state.Remote](c.Value))
		case strings.HasPrefix(collection, "audit-") && c.Op != state.OpDelete:
			j.audited(v, decoded[audit.Entry](c.Value))
		}
	}
	for _, c := range changes {
		if c.Op == state.OpCheck {
			continue
		}
		collection, rest, _ := strings.Cut(c.Key, "/")
		about, _, _ := strings.Cut(rest, "/")
		if c.Op == state.OpDelete && (collection == "task" || collection == "inputs") {
			j.forgot(about)
		}
		if collection == "lease" {
			next := decoded[lease.Holder](c.Value)
			if next.Fence < j.leader.Fence {
				v.violated("one leader acts: the token goes from %d to %d", j.leader.Fence, next.Fence)
			}
			j.leader = next
			continue
		}
		// A tick writes as long as it leads, and no longer. What it removes is garbage.
		if v.act != nil && !v.act.inspects && c.Op != state.OpDelete && collection != "outbox" && leads != v.name {
			v.violated("one leader acts: %s wrote %s while %q leads", v.name, c.Key, leads)
		}
		switch collection {
		case "reconcile":
			next := decoded[state.Reconcile](c.Value)
			j.replaced(v, next.Bundle)
			j.replacement(v, next)
			j.pausing(v, next)
			j.last = next
		case "launch":
			if c.Op == state.OpDelete {
				continue
			}
			launch := decoded[state.Launch](c.Value)
			if launch.Kind.Applies() && j.known[launch.ID].ID == "" && launch.Fence != j.leader.Fence {
				v.violated("one leader acts: %s launched under token %d while %d stands", v.name, launch.Fence, j.leader.Fence)
			}
			j.offered(v, launch)
			j.known[launch.ID] = launch
		case "open":
			if c.Op == state.OpDelete {
				j.taking(v, rest)
			} else {
				j.opening(v, decoded[state.Open](c.Value))
			}
		case "runner":
			if c.Op != state.OpDelete {
				j.lingering(v, decoded[state.Runner](c.Value))
			}
		case "run":
			task, id, _ := strings.Cut(rest, "/")
			if c.Op == state.OpDelete {
				j.gone[id] = !j.runs[task][id].State.Ended() // of a task that was removed, whose record goes next
				delete(j.runs[task], id)
				continue
			}
			run := decoded[state.Run](c.Value)
			was, launch := j.runs[task][run.ID].State, launch
			if own, ok := launches[run.Launch]; ok {
				launch = own
			}
			if run.State != was && !j.gone[run.ID] && !slices.ContainsFunc(lifecycle.RunSteps, func(s lifecycle.RunStep) bool { return s.From == was && s.To == run.State }) {
				v.violated("a run goes its ways: %s makes run %s of %s, which is %q, %q", v.name, run.ID, task, was, run.State)
			}
			if _, there := j.runs[task][run.ID]; !there && run.Kind.Occupies() && run.State == state.RunIntended {
				j.decided(v, launch, run)
			}
			v.heed(run)
			j.run(v, unread, task, run, launch)
			touched = append(touched, task)
		case "task":
			if touched = append(touched, rest); c.Op == state.OpDelete {
				j.forgotten(v, rest)
				delete(j.tasks, rest) // it was removed, and forgotten
				delete(j.crossings.suspects, rest)
				continue
			}
			j.task(v, rest, decoded[state.Task](c.Value), moved)
		}
	}
	for _, task := range touched {
		j.oneLiveRun(v.world, task)
	}
}

// keeps checks a write of what a task was applied with, or is to be applied with.
func (j *judge) keeps(v view, task string) {
	if v.act != nil || v.person() {
		return
	}
	for _, run := range j.runs[task] {
		if run.State == state.RunRunning && strings.HasSuffix(run.Owner, v.name) {
			return
		}
	}
	v.violated("what was applied is kept by the run that holds the task: %s, which holds none, writes what %s was applied with", v.name, task)
}

// replaced checks the bundle that a write puts in force: the pointer must have named it since the
// replaced bundle was put in force.
func (j *judge) replaced(v view, bundle string) {
	if bundle == j.last.Bundle {
		return
	}
	if !slices.Contains(j.pushes[j.inForce:], bundle) {
		v.violated("a bundle never goes back: %s puts %s in force again, after %s", v.name, bundle, j.last.Bundle)
	}
	j.inForce = len(j.pushes) - 1
}

// run checks a written run.
func (j *judge) run(v view, unread map[string]bool, task string, run state.Run, launch state.Launch) {
	if j.runs[task] == nil {
		j.runs[task] = map[string]state.Run{}
	}
	before, there := j.runs[task][run.ID]
	j.runs[task][run.ID] = run
	j.ruled(v, before, run)
	j.removing(v, launch, before, run)
	j.paused(v, launch, before, run)
	j.ordered(v, launch, before, run)
	j.provesNothing(v, run)
	j.takes(v, before, run)
	j.follows(v, before, run)
	if v.act != nil && v.act.requests == task {
		j.crossings.asked[task] = true // also if another tick has run it meanwhile
	}
	j.endedBy(v, launch, before, run, there)
	died := before.State == state.RunLost && run.State == state.RunLost && run.Dead // its runner, later than it was given up
	switch {
	case run.State == state.RunWaiting && (run.Claim != "" || !run.Expires.IsZero()):
		v.violated("a waiting run has no claim: %+v", run)
	case before.State == state.RunWaiting:
		j.waiting(v, before, run)
	case there && before.State.Ended() && !died:
		v.violated("an outcome stays: run %s of %s was %s and became %s", run.ID, task, before.State, run.State)
	case there && before.State == state.RunRunning && run.State == state.RunRunning && before.Claim != run.Claim:
		v.violated("a run is claimed once: %s of %s was claimed by %s, and then by %s", run.ID, task, before.Owner, run.Owner)
	case !there && run.Kind == state.KindApply && unread[serviceOf(task)]:
		v.violated("nothing is applied on a partial read: %s was to be run by a tick that could not read it", task)
	case run.Dead:
		if p := j.applying[task]; p != nil && strings.HasSuffix(run.Owner, p.name) {
			v.violated("who is said to be dead is dead: %s still applies %s", p.name, task)
		}
	}
}

// task looks at a task's record that was written.
func (j *judge) task(v view, name string, now state.Task, moved map[string]string) {
	before, there := j.tasks[name]
	j.tasks[name] = now
	if moved[name] == "" { // else moved_from says what it was
		j.appears(v, name, before, now, there)
	}
	j.beginsAgain(v, name, before, now)
	if moved[name] != "" || moved[now.Gone.MovedTo] == name {
		return
	}
	j.held(v, name, before, now)
	j.removed(v, name, before, now)
	j.resumed(v, before, now)
	j.approved(v, name, before, now)
	j.drifted(v, name, before, now)
	j.verified(v, name, before, now)
	j.requested(v, name, before, now)
	if v.person() && now.Forced.By != "" {
		j.asked[v.id] = j.there(name)
	}
	anew := v.person() && now.Applied.Digest == "" && now.Applied.Definition == "" // a task that is made knows nothing of an earlier one
	if before.Applied.Digest != now.Applied.Digest && !anew && (now.Ended.Last == nil || j.renderedBy(v.world, now.Ended.Last.Run) != now.Applied.Digest) {
		v.violated("applied is what was rendered: %s is said to be applied with %s, which no successful apply rendered", name, now.Applied.Digest)
	}
	if len(now.Ended.IDs) > state.History+j.unremoved[name] {
		v.violated("%s has a history of %d runs", name, len(now.Ended.IDs))
	}
}

// oneLiveRun looks whether a task has one run that has not ended, at most, and
// knows of it.
func (j *judge) oneLiveRun(w *world, task string) {
	var live []string
	for id, run := range j.runs[task] {
		if !run.State.Ended() && run.Kind.Occupies() {
			live = append(live, id)
		}
	}
	known := []string{}
	if run := j.tasks[task].Run; run != nil && !j.gone[run.ID] {
		known = append(known, run.ID)
	}
	if !slices.Equal(live, known) && len(live)+len(known) > 0 {
		w.violated("one live run per task: %s knows of %v, live are %v", task, known, live)
	}
}

// launched looks at a launch that ECS is asked for.
func (j *judge) launched(w *world, launch string) {
	if j.known[launch].ID == "" {
		w.violated("the intent comes first: launch %s was asked for before it was written", launch)
	}
}

// begins looks at a Terraform that begins to apply.
func (j *judge) begins(p *process, task, run, module string, late bool) {
	p.world.applies++
	record := j.runs[task][run]
	switch {
	case record.State.Ended() && !late && !p.world.jumped:
		p.violated("a run that was given up is not applied: %s begins with run %s of %s, which was %s", p.name, run, task, record.State)
	// A frozen process does not react to SIGTERM. In a cluster, Terraform's own lock
	// is what the next instance waits for while an interrupted Terraform ends.
	case j.applying[task] != nil && !j.applying[task].paused && !p.world.jumped && !(p.home == inCluster && j.yielding[task]):
		p.violated("one process applies a task: %s begins with %s, which %s is at", p.name, task, j.applying[task].name)
	case j.applied[run]:
		p.violated("a run is applied once: %s applies run %s of %s again", p.name, run, task)
	case j.modules[run] != module:
		p.violated("what was decided is applied: %s applies %s for run %s of %s, which was decided on %s", p.name, module, run, task, j.modules[run])
	case j.disabled(task) && record.Kind != state.KindDestroy:
		p.violated("a disabled task rests: %s begins with run %s of %s", p.name, run, task)
	case j.appliesPaused(record):
		p.violated("nothing is applied while everything is paused: %s begins with run %s of %s, which was claimed after the pause", p.name, run, task)
	case !record.Kind.Applies():
		p.violated("a plan run applies nothing: %s applies run %s of %s", p.name, run, task)
	}
	p.paused = false
	delete(j.yielding, task)
	delete(j.byHand, task)
	delete(j.spoilt, task)
	delete(j.removal.gone, task)
	j.applying[task], j.applied[run], j.infra[task] = p, true, "half done"
	j.crowded(p)
}

// works notes that Terraform has changed something.
func (j *judge) works(task string) { j.infra[task] = "half done" }

// applies reports whether a container applies something.
func (j *judge) applies(p *process) bool {
	for _, other := range j.applying {
		if other == p {
			return true
		}
	}
	return false
}

// claims reports whether a process holds a run that it has not begun to apply.
func (j *judge) claims(p *process) bool {
	for _, runs := range j.runs {
		for id, run := range runs {
			if run.State == state.RunRunning && !j.applied[id] && strings.HasSuffix(run.Owner, p.name) {
				return true
			}
		}
	}
	return false
}

// ends notes that Terraform has come to an end.
func (j *judge) ends(p *process, task, run, digest string, broken error) {
	if j.applying[task] == p {
		delete(j.applying, task)
	} else {
		j.spoilt[task] = p
	}
	if j.infra[task] = "half done"; broken == nil {
		j.rendered[run], j.infra[task] = digest, digest
	}
}

// died notes that a container is no more, and what it was at.
func (j *judge) died(container string) {
	for task, p := range j.applying {
		if p.name == container {
			delete(j.applying, task)
		}
	}
	// It may not have recorded yet that the task must run again: docs/high-availability.md.
	for task, p := range j.spoilt {
		j.byHand[task] = j.byHand[task] || p.name == container
	}
}

// rests reports whether a task is not to run for what it would apply now: what somebody has
// destroyed is made again for another definition only.
func rests(task state.Task, now state.Attempt) bool {
	stop := task.Stop
	return stop != nil && stop.For.Definition == now.Definition && (stop.For.Observed == now.Observed || stop.Code == state.ReasonDestroyed)
}

// unsettled says what of a task is not as it should be in the end.
func (j *judge) unsettled(w *world, t *config.Task, cfg *config.Config) string {
	record, want := j.tasks[t.Name], w.consul.digests[serviceOf(t.Name)]
	switch {
	case (t.Enabled || record.Run != nil && record.Run.Destroys()) && j.explained(w, t.Name, want):
	case isRare(t) && t.Enabled && record.Waits() != nil && record.Reason.Code == state.ReasonWaiting: // for a person, with what it read when it was due
	case j.overrides[t.Name].Provisional != nil:
		return fmt.Sprintf("the change of %s is on trial still: %+v", t.Name, record)
	case !t.Enabled || rests(record, state.Attempt{Definition: t.Digest(cfg), Observed: want}):
		if record.Run != nil {
			return fmt.Sprintf("%s is to rest and reads %+v", t.Name, record)
		}
	case isRare(t) && record.Run == nil && record.Observed.Digest != record.Applied.Digest && j.unfollowed(t.Name) != "":
		return j.unfollowed(t.Name)
	case isRare(t) && record.Run == nil && record.Failing.Count == 0 && (record.Applied.Definition == t.Digest(cfg) || record.Applied.At.IsZero() && record.Attempted.Definition == t.Digest(cfg)): // it waits for its schedule
	case record.Applied.Digest != want || j.infra[t.Name] != want && !j.byHand[t.Name]:
		return fmt.Sprintf("Consul says %s of %s, %s counts as applied, %s is there: %s", want, t.Name, record.Applied.Digest, j.infra[t.Name], state.Encode(record))
	case record.Run != nil || record.Failing.Count != 0 || record.Applied.Definition != t.Digest(cfg):
		return fmt.Sprintf("%s reads %+v", t.Name, record)
	case j.unproven(w, t):
		return fmt.Sprintf("%s is not verified: %s", t.Name, state.Encode(record))
	case w.unseen(t) && j.last.Paused == nil: // checks for drift wait
		return fmt.Sprintf("somebody has changed what %s has made, and nobody is told: %s", t.Name, state.Encode(record))
	}
	return ""
}
