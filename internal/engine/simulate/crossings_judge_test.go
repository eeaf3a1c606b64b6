package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// crossings is what the judge knows of renames and of what people have ended.
type crossings struct {
	suspects map[string][]string // by new task: the removed tasks that it perhaps was before
	asked    map[string]bool     // tasks that a person has requested a run of, since their latest run
	ended    map[string]ended    // by task: what a person has ended
	began    map[string]string   // by destroy: the definition that it began with
	composed map[string]int      // by digest of files with overrides: the index of the bundle
	order    map[string]int      // of runs, as they were decided: clocks are apart
	quit     map[string]bool     // tasks that a person has enabled without a run, since their latest run
}

// ended is what a person has ended.
type ended struct {
	how        string
	definition string
	input      string // "" if new input does not begin it again
}

// How people end something.
const (
	byCancel  = "cancelled"
	byReject  = "rejected"
	byDestroy = "destroyed"
)

func (c *crossings) init() {
	c.suspects, c.asked, c.ended = map[string][]string{}, map[string]bool{}, map[string]ended{}
	c.composed, c.began, c.order, c.quit = map[string]int{}, map[string]string{}, map[string]int{}, map[string]bool{}
}

// knownTo returns the configuration that a process works with. An instance that has read other files may
// be in a tick that has begun before.
func (j *judge) knownTo(v view) *config.Config {
	for _, i := range v.instances {
		if i.process == v.process {
			if ticks := slices.IndexFunc(bundles, func(b bundle) bool { return b.config == i.engine.Config }); v.act != nil && ticks >= 0 {
				return j.configuration(bundles[ticks].digest)
			}
			return j.configuration(bundles[i.config.Load()].digest)
		}
	}
	for _, f := range v.functions {
		if f.process == v.process && f.loaded != nil {
			return j.configuration(f.loaded.Digest)
		}
	}
	return &config.Config{}
}

// takenOver returns the tasks that a write gives the records of another, by their former names.
func (j *judge) takenOver(changes []state.Change) map[string]string {
	moved := map[string]string{}
	for _, c := range changes {
		from, ok := taskOf(c)
		if !ok {
			continue
		}
		if now := decoded[state.Task](c.Value); now.Gone.MovedTo != "" && j.tasks[from].Gone.MovedTo != now.Gone.MovedTo {
			moved[now.Gone.MovedTo] = from
		}
	}
	return moved
}

// taskOf returns the task whose record a change writes.
func taskOf(c state.Change) (task string, ok bool) {
	if len(c.Key) < len(state.TaskPrefix) || c.Key[:len(state.TaskPrefix)] != state.TaskPrefix || c.Op == state.OpDelete || c.Op == state.OpCheck {
		return "", false
	}
	return state.TaskName(c.Key), true
}

// takesOver checks that a task takes over all that a renamed one had.
func (j *judge) takesOver(v view, from, task string, now state.Task) {
	was := j.tasks[from]
	if !slices.ContainsFunc(v.bundles(), func(b bundle) bool {
		t, ok := b.config.Task(task)
		return ok && slices.Contains(t.MovedFrom, from)
	}) {
		v.violated("only moved_from moves a task: %s gives %s what %s has", v.name, task, from)
	}
	switch {
	case now.Applied.Digest != was.Applied.Digest:
		v.violated("a renamed task takes its records along: %s was applied with %s, %s says %s", from, was.Applied.Digest, task, now.Applied.Digest)
	case was.OnHold != nil && now.OnHold == nil:
		v.violated("a hold moves with its task: that of %s is gone at %s", from, task)
	}
	r := &j.rules
	if a, b := was.Accepted, now.Accepted; a != nil && b != nil && a.Observed == b.Observed {
		if until, ok := r.losses.granted[from][a.For()]; ok {
			r.losses.grant(task, b.For(), until)
		}
		for _, g := range r.losses.given[from][a.For()] {
			r.losses.give(task, b.For(), g)
		}
	}
	j.forgot(task)
	r.begun[task] = append(r.begun[task], r.begun[from]...)
	for _, i := range r.last[from] { // also what guards count from
		r.did[task] = append(r.did[task], r.did[from][i])
		r.counts(task, len(r.did[task])-1)
	}
	if e, ok := j.crossings.ended[from]; ok {
		e.definition = "" // it is another one with the name, and no reason to begin again
		j.crossings.ended[task] = e
		delete(j.crossings.ended, from)
	}
	if now.Forced.By != "" && j.crossings.asked[from] {
		j.crossings.asked[task] = true
	}
	delete(j.crossings.asked, from)
	delete(j.crossings.suspects, task)
	delete(j.removal.gone, task)
	if j.removal.gone[from] {
		j.removal.gone[task] = true
	}
}

// movedTo returns the task that takes over from another; "" if none does.
func (j *judge) movedTo(moved map[string]string, from string) string {
	for task, name := range moved {
		if name == from {
			return task
		}
	}
	return ""
}

// appears looks at the record of a task, which a tick may write for the first time since the task
// is in the configuration.
func (j *judge) appears(v view, task string, before, now state.Task, there bool) {
	c := &j.crossings
	if by := v.person() || v.act != nil && v.act.requests == task; by && now.Forced.By != "" {
		c.asked[task] = true // also if another tick has run it since it was requested
		delete(c.suspects, task)
	}
	if !v.crosses || family[task] == "" || v.act == nil {
		return
	}
	if j.overrides[task].Provisional != nil || v.act.requests == task { // these are requests, too
		delete(c.suspects, task)
		return
	}
	cfg := j.knownTo(v)
	t, configured := cfg.Task(task)
	if !configured || t.FromAPI || there && !before.Gone.Final || now.Gone.Final || !now.Applied.At.IsZero() || now.Forced.By != "" || c.asked[task] {
		return
	}
	c.suspects[task] = nil
	if ran := before.Ended.Last != nil && !before.Destroyed() || before.Run != nil && !before.Run.Destroys(); ran && before.Gone.MovedTo == "" {
		return // it has, or has had, runs of its own, so it is no other task
	}
	for _, name := range crossingTasks {
		record := j.tasks[name]
		_, still := cfg.Task(name)
		switch {
		case name == task || family[name] != family[task] || still || j.infra[name] == "" || record.Applied.At.IsZero() || record.Gone.Deleted != nil || record.Gone.MovedTo != "":
		case record.Run != nil && record.Run.Destroys() || record.Ended.Of(state.KindDestroy) && record.Ended.Last.State != state.RunCancelled:
		case record.Gone.Final && v.now().Sub(record.Gone.Since) > 50*time.Minute:
		case slices.ContainsFunc(cfg.Tasks, func(t config.Task) bool { return slices.Contains(t.MovedFrom, name) }):
		default:
			c.suspects[task] = append(c.suspects[task], name)
			v.note("    %s is perhaps %s", task, name)
		}
	}
}

// suspected returns the removed tasks that a task perhaps was before, without those that a person
// has deleted, and those whose state another task takes along.
func (j *judge) suspected(task string, cfg *config.Config) []string {
	var names []string
	for _, name := range j.crossings.suspects[task] {
		if slices.ContainsFunc(crossingTasks, func(other string) bool { return other != task && slices.Contains(j.tasks[other].Former.Moving, name) }) {
			continue
		}
		if _, again := cfg.Task(name); !again && j.infra[name] != "" && j.tasks[name].Gone.Deleted == nil {
			names = append(names, name)
		}
	}
	return names
}

// madeTwice checks a run that begins to apply, perhaps what exists under a former name.
func (j *judge) madeTwice(p *process, task, run string) {
	record := j.runs[task][run]
	if !p.crosses || p.jumped || record.Kind == state.KindDestroy || j.infra[task] != "" || p.tfstate(task).saves > 0 {
		return
	}
	if names := j.suspected(task, j.decidedOn(j.known[record.Launch])); len(names) > 0 {
		p.violated("nothing is made twice: %s makes in run %s of %s what %v has", p.name, run, task, names)
	}
}

// perhapsRenamed checks a run that is to destroy what a removed task has made.
func (j *judge) perhapsRenamed(v view, task string, cfg *config.Config) {
	if !v.crosses || v.jumped {
		return
	}
	for name := range j.crossings.suspects {
		t, configured := cfg.Task(name)
		if configured && t.Enabled && slices.Contains(j.suspected(name, cfg), task) && j.tasks[name].Applied.At.IsZero() {
			v.violated("what perhaps was renamed is not destroyed: that of %s, perhaps %s now, was to be destroyed by %s", task, name, v.name)
		}
	}
}

// endedBy notes what a person ends, and looks at a new run.
func (j *judge) endedBy(v view, launch state.Launch, before, run state.Run, there bool) {
	c := &j.crossings
	if !there {
		c.order[run.ID] = len(c.order)
		delete(c.quit, run.Task)
	}
	if launch.ID == "" {
		launch = j.known[run.Launch]
	}
	definition := ""
	for _, p := range launch.Runs {
		if p.ID == run.ID {
			definition = p.Definition
		}
	}
	if run.Kind == state.KindDestroy && !there {
		c.began[run.ID] = definition // it ends that, also if it continues elsewhere under another one
	}
	record := j.tasks[run.Task]
	switch {
	case run.Kind == state.KindDestroy && run.State == state.RunSucceeded && !run.Removed && record.Gone.Since.IsZero():
		c.ended[run.Task] = ended{how: byDestroy, definition: c.began[run.ID]}
	case run.Kind != state.KindApply:
	case run.State == state.RunSuperseded:
		c.asked[run.Task] = true // the next run replaces it
	case run.State == state.RunCancelled && !before.State.Ended() && run.Cancel != "":
		how := byCancel
		if run.Rejected {
			how = byReject
		}
		input := record.Attempted.Observed // it was begun for that
		if before.State == state.RunWaiting || run.Staged {
			input = cmp.Or(run.Digest, input)
		}
		c.ended[run.Task] = ended{how: how, definition: definition, input: input}
	case !there && run.State == state.RunIntended:
		e, known := c.ended[run.Task]
		asked := c.asked[run.Task]
		delete(c.asked, run.Task)
		delete(c.ended, run.Task)
		switch {
		case run.Reason.Code == state.ReasonForced && !asked:
			v.violated("a person requests a run, and nobody else: %s runs %s: %s", v.name, run.Task, run.Reason.Text)
		case !known || asked || e.how == byCancel && run.Reason.Code == state.ReasonSchedule:
		case e.definition != definition && e.definition != "":
		case run.Reason.Code == state.ReasonDefinition && e.definition == "":
		case e.input != "" && record.Observed.Digest != e.input:
		default:
			v.violated("what a person ended stays ended: %s was %+v, %s observed, and %s runs %s: %s", run.Task, e, record.Observed.Digest, v.name, definition, run.Reason.Text)
		}
	}
}

// beginsAgain notes what ends what a person has ended: new input, another definition, a request.
func (j *judge) beginsAgain(v view, task string, before, now state.Task) {
	if v.person() && now.Stop.TakesNext() && !before.Stop.TakesNext() {
		j.crossings.quit[task] = true
	}
	gone := !now.Gone.Since.IsZero() // it runs once it is back
	if e, ok := j.crossings.ended[task]; ok && (gone || e.input != "" && now.Observed.Digest != e.input) {
		delete(j.crossings.ended, task)
	}
}

// redefines notes that the configuration changes, perhaps what a person has ended.
func (j *judge) redefines(cfg *config.Config) {
	for task, e := range j.crossings.ended {
		if t, ok := cfg.Task(task); !ok || e.definition != "" && t.Digest(cfg) != e.definition {
			delete(j.crossings.ended, task)
		}
	}
}

// unfollowed says that the latest run of a task was given up for nothing; "" if it was not.
func (j *judge) unfollowed(task string) string {
	var latest state.Run
	for _, run := range j.runs[task] {
		if run.Kind.Occupies() && (latest.ID == "" || j.crossings.order[run.ID] > j.crossings.order[latest.ID]) {
			latest = run
		}
	}
	if latest.Kind == state.KindDestroy || j.crossings.quit[task] {
		return "" // it is held then
	}
	switch latest.State {
	case state.RunLost:
		if latest.Cancel != "" {
			return ""
		}
		fallthrough
	case state.RunSuperseded, state.RunInterrupted, state.RunFailed:
		return "whatever a run was begun for survives until it ends: no run follows run " + latest.ID + " of " + task + ", which was " + string(latest.State)
	}
	return ""
}
