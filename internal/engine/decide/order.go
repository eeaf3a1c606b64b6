package decide

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Order says which tasks come after which.
type Order struct {
	Tasks *config.Order // nil if there is no order
}

// blocker is the predecessor that a task waits for.
type blocker struct {
	via    []string // the tasks between, the nearest first
	task   string
	reason state.Reason
	stuck  bool      // nothing ends the wait without a person, or without a retry that succeeds
	due    time.Time // when to decide again; zero if only an event ends the wait
}

// String says for what a task waits.
func (b *blocker) String() string {
	text := fmt.Sprintf("waits for %s: %s", b.task, b.reason.Text)
	if len(b.via) > 0 {
		text = fmt.Sprintf("waits for %s, which %s", b.via[0], text)
	}
	return state.Cut(text)
}

// order is the part of the decisions of one tick that concerns the order of tasks. Each task is
// decided once, after its predecessors.
type order struct {
	Order
	decide  func(i int) Decision
	at      map[string]int // inputs by task
	inputs  []Input
	decided []*Decision
	open    map[string]bool // tasks that are being decided: a cycle that no configuration should have
	now     time.Time

	blockers map[string]*blocker               // of tasks that are known
	groups   map[*config.Predecessors]*blocker // of what entries of `after` name

	opposite *opposite // of the destroys; nil until it is needed
}

func (o *order) decision(i int) Decision {
	if o.decided[i] == nil {
		name := o.inputs[i].Task.Name
		o.open[name] = true
		d := o.decide(i)
		o.decided[i] = &d
		delete(o.open, name)
	}
	return *o.decided[i]
}

// before returns the first predecessor of a task that is not at rest; nil if all are.
func (o *order) before(task string) *blocker {
	for _, p := range o.Tasks.Before(task) {
		if b := o.group(p); b != nil {
			return b
		}
	}
	return nil
}

func (o *order) group(p *config.Predecessors) *blocker {
	if b, known := o.groups[p]; known {
		return b
	}
	b := o.firstOf(p)
	o.groups[p] = b
	return b
}

func (o *order) firstOf(p *config.Predecessors) *blocker {
	if p.Missing {
		return o.missing(p.Entry)
	}
	for _, name := range p.Tasks {
		if b := o.blocker(name); b != nil {
			return b
		}
	}
	return o.leaving(p)
}

// missing is the blocker of a task that comes after one that is in no configuration.
func (o *order) missing(name string) *blocker {
	text := "there is no such task: create it, or take its name out of `after`"
	if i, ok := o.at[name]; ok && o.inputs[i].Removed {
		text = "it is not in the configuration any more: put it back, or take its name out of `after`"
		if to := o.inputs[i].MovedTo; to != "" {
			text = "it was renamed to " + to + ": use that name in `after`"
		}
	}
	return &blocker{task: name, stuck: true, reason: state.Reason{Code: state.ReasonRemoved, Text: text}}
}

// leaving is the blocker of a task that comes after removed or renamed ones which a pattern matches: until
// that counts as their removal, and while a run of them is under way.
func (o *order) leaving(p *config.Predecessors) *blocker {
	for i := range o.inputs {
		in := &o.inputs[i]
		if !in.Removed || !p.Matches(in.Task.Name) {
			continue
		}
		d := o.decision(i)
		b := &blocker{task: in.Task.Name, reason: d.Reason}
		switch s := &d.State; {
		case s.Gone.Missing():
			b.due = s.Gone.Since.Add(removalLasts)
			return b
		case d.Lost != nil:
			return o.losing(in.Task.Name)
		case d.Action == Run, d.Action == Resume, s.Run != nil && (s.Run.Wait == nil || s.Elsewhere()), s.GivenUp() != nil:
			return b
		}
	}
	return nil
}

// blocker returns why a task of the configuration keeps those from running that come after it:
// because it is not at rest, or one of its own predecessors; nil if nothing does.
func (o *order) blocker(name string) *blocker {
	if b, known := o.blockers[name]; known {
		return b
	}
	b := o.restless(name)
	if b == nil {
		if b = o.before(name); b != nil {
			behind := *b
			behind.via = append([]string{name}, b.via...)
			b = &behind
		}
	}
	o.blockers[name] = b
	return b
}

// restless returns why a task is not at rest with everything applied that was seen; nil if it is.
func (o *order) restless(name string) *blocker {
	if o.open[name] {
		return &blocker{task: name, reason: state.Reason{Text: "it comes after this task"}}
	}
	i, ok := o.at[name]
	if !ok {
		return nil
	}
	d := o.decision(i)
	if d.Lost != nil {
		return o.losing(name)
	}
	if reason := restless(d); reason != nil {
		return &blocker{task: name, reason: failing(d, *reason), stuck: stuck(d)}
	}
	return nil
}

// losing is the blocker of a task that comes after one whose run counts as lost from this tick on: until that
// is written, its runner may take the run up again.
func (o *order) losing(name string) *blocker {
	return &blocker{task: name, due: o.now, reason: state.Reason{Code: state.ReasonRunning, Text: "its run was lost, which is written first"}}
}

// restless returns why a task that is decided about is not at rest; nil if it is. A disabled task has nothing
// to apply, unless a run of it is under way.
func restless(d Decision) *state.Reason {
	s := &d.State
	switch {
	case d.Action == Run, d.Action == Resume, d.Action == End, s.Run != nil:
		return &d.Reason
	case d.Reason.Code == state.ReasonDisabled && s.GivenUp() == nil:
		return nil
	case d.Reason.Code != state.ReasonUnchanged:
		return &d.Reason
	case s.GivenUp() != nil:
		return &state.Reason{Code: state.ReasonRunning, Text: fmt.Sprintf("remote run %s is to be stopped first", s.GivenUp().ID)}
	case !s.UpToDate():
		return &d.Reason
	case !lifecycle.Verified(*s):
		return &state.Reason{Code: state.ReasonUnverified, Text: "not verified: " + s.Applied.Unverified.Text}
	}
	return nil
}

// failing is the reason of a task for the tasks that wait for it: if it fails, it says why.
func failing(d Decision, reason state.Reason) state.Reason {
	if d.State.Failing.Count == 0 {
		return reason
	}
	why := state.CutTo(state.Line(d.State.Failing.Error), maxWhy)
	switch {
	case why == "":
		why = reason.Text
	case reason.Code != state.ReasonRetry && reason.Code != state.ReasonBackoff:
		why += "; " + reason.Text
	}
	reason.Text = "it fails: " + why
	return reason
}

// maxWhy is how much of an error a task says that waits for the failing one, in bytes: many may wait for it.
const maxWhy = 300

// Keeps says why a task that is decided about without the order would keep those waiting that come after it,
// for longer than a run takes; "" if it would not.
func Keeps(d Decision) string {
	reason := restless(d)
	if reason == nil {
		return ""
	}
	switch {
	case d.Reason.Code == state.ReasonRetry:
		return "its latest run has failed"
	case lifecycle.RowOf(d.Reason.Code).Passes, d.Action == Run, d.Action == Resume, d.Action == End:
		return ""
	}
	return reason.Text
}

// stuck reports whether a task that is not at rest stays so until a person helps, or until a retry succeeds.
func stuck(d Decision) bool {
	row := lifecycle.RowOf(d.Reason.Code)
	switch wait := d.State.Waits(); {
	case !lifecycle.Verified(d.State) && d.State.Run == nil && d.Action != Run:
		return !d.State.Applied.Unverified.Interrupted()
	case d.Action == Run, d.Action == Resume, d.Action == End:
		return false
	case wait != nil && d.State.OnHold == nil:
		return wait.For.ForPeople() && d.State.Run.Resume == nil
	case row.Behind:
		return d.State.After != nil && d.State.After.Stuck
	}
	return !row.Passes && row.Code != state.ReasonUnchanged
}

// holdAfter refuses a run as long as a task that comes before is not at rest with everything applied
// that was seen. A run that another system applies already is not refused.
func holdAfter(d *decider, t trigger) *hold {
	if d.order == nil || !t.run || d.pastApproval() {
		return nil
	}
	if d.Paused != nil && !d.elsewhere() {
		return nil // holdPaused says so
	}
	var b *blocker
	if d.destroys() {
		b, d.behind = d.order.beforeDestroy(d.Task.Name)
	} else {
		b = d.order.before(d.Task.Name)
	}
	if b == nil {
		return nil
	}
	return d.awaits(b, t)
}

// awaits is the refusal of a run that waits for another task. Its sentence changes only if the other
// task, or the code of its reason, does: many tasks may wait for one.
func (d *decider) awaits(b *blocker, t trigger) *hold {
	s := &d.state
	after := state.After{Since: d.now, Task: b.task, Code: b.reason.Code, Stuck: b.stuck}
	if was := s.After; was != nil && !was.Since.After(d.now.Add(d.Skew)) {
		after.Since, after.Late = was.Since, was.Late
	}
	h := refuse(state.ReasonAfter, b.due, "%s", b)
	if was := s.After; was != nil && was.Task == after.Task && was.Code == after.Code && d.state.Reason.Code == state.ReasonAfter {
		h.reason.Text = d.state.Reason.Text
	}
	if !h.due.IsZero() && s.Reason.Code == state.ReasonAfter && clock.Reached(s.Due, d.now) {
		h.due = s.Due // nothing changes, and nothing is written
	}
	limit := d.Task.AfterTimeout
	switch at := after.Since.Add(limit); {
	case limit <= 0:
		after.Late = false
	case clock.Reached(at, d.now):
		after.Late = true
	default:
		after.Late, h.due = false, clock.Earlier(h.due, at)
	}
	s.After = &after
	return h
}

// Before returns all tasks that come, directly or not, before one whose run was decided on. What was
// decided is right only if Consul shows no change of them.
func (o Order) Before(decisions []Decision) map[string]bool {
	if o.Tasks == nil {
		return nil
	}
	var found map[string]bool
	passed := map[*config.Predecessors]bool{}
	var visit func(task string)
	visit = func(task string) {
		for _, p := range o.Tasks.Before(task) {
			if passed[p] {
				continue
			}
			passed[p] = true
			for _, name := range p.Tasks {
				if found == nil {
					found = map[string]bool{}
				}
				if !found[name] {
					found[name] = true
					visit(name)
				}
			}
		}
	}
	for _, d := range decisions {
		if Begins(d) {
			visit(d.Task.Name)
		}
	}
	return found
}

// Uses returns the other tasks by which a run was decided on that must not overtake one of them: those that come
// before it, or after what is destroyed.
func (o Order) Uses(d Decision) []string {
	if !Begins(d) {
		return d.Behind
	}
	return slices.Sorted(maps.Keys(o.Before([]Decision{d})))
}

// Begins reports whether a run was decided on that keeps the order of its task's `after`.
func Begins(d Decision) bool {
	return begins(d) && len(d.Task.After) > 0
}

// ordered makes the decisions in the order of the tasks.
func ordered(inputs []Input, by Order, now time.Time, decide func(i int, o *order) Decision) []Decision {
	decisions := make([]Decision, len(inputs))
	if by.Tasks == nil && !slices.ContainsFunc(inputs, func(in Input) bool { return len(in.Task.After) > 0 }) {
		for i := range inputs {
			decisions[i] = decide(i, nil)
		}
		return decisions
	}
	o := &order{Order: by, now: now, inputs: inputs, at: make(map[string]int, len(inputs)), decided: make([]*Decision, len(inputs)),
		open: map[string]bool{}, blockers: map[string]*blocker{}, groups: map[*config.Predecessors]*blocker{}}
	o.decide = func(i int) Decision { return decide(i, o) }
	for i := range inputs {
		o.at[inputs[i].Task.Name] = i
	}
	for i := range inputs {
		decisions[i] = o.decision(i)
	}
	for i, d := range decisions { // what begins in this tick is known only now
		if slices.ContainsFunc(d.Behind, func(name string) bool { return o.begun(name) != nil }) {
			o.decided[i] = nil
			decisions[i] = o.decision(i)
		}
	}
	return decisions
}
