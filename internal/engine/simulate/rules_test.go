package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/window"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// Rules in the world: in some histories tasks have guards, approvals and windows, and
// the judge checks itself whether what is applied is permitted.

const (
	withoutRules = 3 // the first bundles, whose tasks have no rules
	windowCycle  = 20
	windowOpen   = 12 // minutes of each cycle
)

// ruled returns the tasks with rules: each bundle sets its own.
func ruled(tasks []config.Task, rules ...config.Rules) []config.Task {
	tasks = slices.Clone(tasks)
	for i := range tasks {
		tasks[i].Rules = rules[i]
	}
	return tasks
}

// windows returns windows of these kinds. Whether they allow, deny or do both, changes
// may be applied in the first minutes of each cycle only.
func windows(removals bool, kinds ...window.Kind) []window.Window {
	var all []window.Window
	for _, kind := range kinds {
		begins, lasts := "*/20", windowOpen
		switch {
		case kind == window.Deny:
			begins, lasts = "12-59/20", windowCycle-windowOpen
		case len(kinds) > 1: // a part of it is denied
			lasts = windowCycle - 2
		}
		w, err := window.Window{Kind: kind, Schedule: begins + " * * * *", Duration: time.Duration(lasts) * time.Minute, TimeZone: "UTC", AllowRemovalsAlways: removals}.Parse()
		if err != nil {
			panic(err)
		}
		all = append(all, w)
	}
	return all
}

// withRules are the bundles again, with rules.
func withRules(plain []bundle) []bundle {
	most := 4
	limited := guard.Default
	limited.MaxDestroy = &most
	always := approval.Spec{Rule: approval.Always, Expires: 10 * time.Minute, DistinctApprover: true}
	two := always
	two.Require = 2
	always.People = oneOfTwo
	destructive := approval.Spec{Rule: approval.Destructive, Expires: time.Hour, Require: 2, People: oneOfTwo}
	named := config.Rules{Approval: approval.Spec{People: oneOfTwo}} // also for tasks that people make
	allowed, denied, both := windows(false, window.Allow), windows(true, window.Deny), windows(false, window.Allow, window.Deny)
	return []bundle{
		{digest: "b3", config: &config.Config{KeepRemoved: keptRemoved, Rules: named, Tasks: ruled(plain[0].config.Tasks,
			config.Rules{Guard: guard.Default, Approval: always}, checked(config.Rules{Guard: guard.Default, Approval: approval.Default, Windows: denied}, drift.Report))}},
		{digest: "b4", config: &config.Config{KeepRemoved: keptRemoved, Tasks: ruled(plain[1].config.Tasks,
			checked(config.Rules{Guard: limited, Approval: approval.Default}, drift.Apply), config.Rules{Guard: guard.Default, Approval: two, Windows: both}, config.Rules{Guard: guard.Default})}},
		{digest: "b5", config: &config.Config{KeepRemoved: keptRemoved, Rules: named, Tasks: ruled(plain[2].config.Tasks,
			config.Rules{Guard: limited, Approval: destructive, Windows: allowed}, checked(config.Rules{Guard: guard.Default, Approval: destructive}, drift.Apply))}},
	}
}

// bundles are those that may be pushed in the history.
func (w *world) bundles() []bundle {
	if w.crosses {
		return bundles[withCrossings:withThird]
	}
	if w.fleet {
		return bundles[withFleets:withShrinking]
	}
	if w.shrinks {
		return bundles[w.firstBundle():][:shrinkingBundles]
	}
	if w.partly {
		return bundles[withPartly:]
	}
	return bundles[w.firstBundle():][:withRemote]
}

// firstBundle is the first of the bundles of the history, unless features meet in it.
func (w *world) firstBundle() int {
	switch {
	case w.shrinks && w.remote:
		return withShrinking + shrinkingBundles
	case w.shrinks:
		return withShrinking
	case w.third:
		return withThird
	case w.remote && w.ordered:
		return withRemoteOrder
	case w.remote:
		return withRemote
	case w.consul.docs != nil:
		return withDocuments
	case w.fleet:
		return withFleets
	case w.partly:
		return withPartly
	case w.ordered:
		return withOrder
	}
	return 0
}

// someBundle chooses a bundle of the history.
func (w *world) someBundle() int {
	if w.crosses {
		return withCrossings + w.rng.IntN(withThird-withCrossings)
	}
	if w.fleet {
		return withFleets + w.rng.IntN(fleetBundles)
	}
	if w.shrinks {
		return w.firstBundle() + w.rng.IntN(shrinkingBundles)
	}
	if w.partly {
		return withPartly
	}
	i := w.rng.IntN(withoutRules)
	if w.ruled && w.rng.IntN(6) > 0 {
		if i += withoutRules; w.removes {
			i += withRemoval - withoutRules
		}
	}
	return i + w.firstBundle()
}

// nextData draws what a service has after what it had: often a part of that is gone, so that a loss
// comes in steps, each of which is permitted alone.
func (w *world) nextData(before string) string {
	version, count := 0, 0
	if _, err := fmt.Sscanf(before, "d%d.%d", &version, &count); err != nil || count < 8 || w.rng.IntN(3) == 0 {
		return w.someData()
	}
	return fmt.Sprintf("d%d.%d", version, count-count*(30+w.rng.IntN(20))/100)
}

// someData draws what a service has from now on: now and then much is gone.
func (w *world) someData() string {
	count := 12 + w.rng.IntN(10)
	if w.rng.IntN(4) == 0 {
		count = w.rng.IntN(6)
	}
	return fmt.Sprintf("d%d.%d", w.rng.IntN(3), count)
}

// elements are the entries that a digest stands for.
func elements(service, digest string) map[string]string {
	version, count := digest, 1
	if _, err := fmt.Sscanf(digest, "d%d.%d", new(int), &count); err != nil {
		return map[string]string{service: digest}
	}
	all := make(map[string]string, count)
	for i := range count {
		all[fmt.Sprintf("%s-%02d", service, i)] = version[:2]
	}
	return all
}

// snapshot is what a run reads for a task.
func (w *world) snapshot(t *config.Task, digest string) *consul.Snapshot {
	snap := &consul.Snapshot{Condition: consul.Observation{Digest: digest, Elements: elements(serviceOf(t.Name), digest)}}
	if w.ruled {
		for _, q := range consul.InputQueries(t) {
			snap.Inputs = append(snap.Inputs, consul.Input{Kind: q.Kind, Triggers: q.Triggers, Observation: snap.Condition})
		}
	}
	return snap
}

// content is what a run would apply, as the judge knows it.
type content struct{ definition, input, plan, state string }

// planned is a plan that a run applies, or would apply.
type planned struct {
	content
	task     *config.Task
	holds    holding // afterwards
	had      int     // resources
	destroys int
	adds     int
	unknown  bool // nobody can read how many
	changes  bool
	judged   bool      // by the engine, before the apply
	read     int       // how often Consul had been replaced when its data was read
	at       time.Time // by the runner's clock, when it decided to apply
}

// holding is what the infrastructure of a task consists of.
type holding struct {
	module  string
	digest  string
	entries map[string]string
	outside int // how often somebody has changed it by hand
}

// plan is what an apply would do. Values that differ, such as a password, do not
// show in it.
func (h *hand) plan(job driver.Job) planned {
	t, s := job.Task, h.tfstate(job.Task.Name)
	now := job.Snapshot.Condition
	it := planned{task: t, at: h.now(), read: h.judge.rules.losses.read[job.Snapshot], holds: holding{t.Module, now.Digest, now.Elements, s.outside}}
	if s.saves > 0 {
		it.state = fmt.Sprintf("%s/%d", t.Name, s.mark.Serial)
	}
	it.definition, it.input = t.Digest(job.Config), now.Digest
	return h.compared(t.Name, it, job.Run.Kind == state.KindDestroy)
}

// compared completes a plan by what a task has made until now.
func (w *world) compared(task string, it planned, destroys bool) planned {
	s, next := w.tfstate(task), it.holds
	if destroys {
		return w.destroying(task, it)
	}
	it.plan = fmt.Sprintf("%s: %d entries instead of %d of %s, %d changed outside", next.module, len(next.entries), len(s.holds.entries), s.holds.module, s.outside-s.holds.outside)
	it.had = len(s.holds.entries)
	if it.destroys, it.adds = max(0, it.had-len(next.entries)), max(0, len(next.entries)-it.had); s.holds.module != next.module {
		it.destroys, it.adds = it.had, len(next.entries)
	}
	it.changes = w.judge.infra[task] != next.digest || s.holds.module != next.module || s.holds.outside != s.outside
	return it
}

// judged plans and has the plan judged, if the engine wants that.
func (h *hand) judged(ctx context.Context, job driver.Job, run string) (planned, error) {
	if !job.PlansFirst() {
		return planned{at: h.now()}, nil
	}
	it, err := ask(ctx, h.process, terraform, "terraform plans "+job.Task.Name+" to apply that", func() (planned, error) {
		it := h.plan(job)
		h.judge.rules.shown[run], h.judge.rules.planned[run] = it.content, it
		if h.chance(50) {
			h.judge.rules.shown[run] = content{definition: it.definition, input: it.input}
			return it, errors.New("the data makes no valid plan")
		}
		return it, nil
	})
	if err != nil {
		return it, err
	}
	changes := &state.Changes{}
	if it.changes {
		changes.Add, changes.Destroy, changes.Change = it.adds, it.destroys, 1
	}
	err = job.Judge(ctx, driver.Plan{Resources: []driver.ResourceChange{}, Digest: it.plan, State: it.state, InState: &it.had, Changes: changes, Text: it.plan})
	it.judged, it.at = true, h.now()
	return it, err
}

// rules is what the judge knows of rules.
type rules struct {
	shown     map[string]content   // by run: its latest plan
	waits     map[string]content   // by wait: what it shows
	approvals map[string][]granted // by run
	inputs    map[string][]granted // by task: those without a plan
	did       map[string][]attempt // by task: the successful applies
	last      map[string][]int     // by task: the indices of those that have counted as the last, one after the other
	since     map[string]int       // by run: the index in last of the one that counted when it was claimed
	base      map[string]base      // by run
	begun     map[string][]begun   // by task: the applies that have begun
	planned   map[string]planned   // by run: the same as shown, if it has a plan
	checks    map[string]int       // by check for drift: the same when it was planned
	losses    losses
}

// attempt is an apply that succeeded, and what it was for.
type attempt struct {
	run      string    // there, if HCP Terraform did it
	at       time.Time // zero if nothing is known any more of what was applied
	recorded time.Time // that it has succeeded
	base     base
	window   time.Duration // of the guard
	module   string
	digest   string
	entries  map[string]string
}

// granted is an approval.
type granted struct {
	content
	expires time.Time
	by      string // "" if nothing proves the name
}

// enough reports whether the approvals of one content are those of as many people at a time as the rule needs.
func enough(given []granted, rule approval.Spec, at time.Time) bool {
	people, needs := map[string]bool{}, rule.Require
	for _, a := range given {
		if (a.expires.IsZero() || at.Before(a.expires)) && (a.by != "" || needs <= 1) {
			people[personOf(rule.People, a.by)] = true
		}
	}
	return len(people) >= max(1, needs)
}

func (r *rules) init() {
	r.losses.init()
	r.checks, r.base, r.begun, r.planned = map[string]int{}, map[string]base{}, map[string][]begun{}, map[string]planned{}
	r.shown, r.waits, r.approvals = map[string]content{}, map[string]content{}, map[string][]granted{}
	r.inputs = map[string][]granted{}
	r.did, r.last, r.since = map[string][]attempt{}, map[string][]int{}, map[string]int{}
	for _, task := range slices.Concat(services, crossingTasks, fleetNames) {
		r.did[task], r.last[task] = []attempt{{}}, []int{0} // nothing was applied before
	}
}

// permitted looks whether a run may apply what it begins with.
func (j *judge) permitted(p *process, task, run string, it planned) {
	if it.judged && !it.changes {
		return
	}
	if minute := it.at.UTC().Minute(); len(it.task.Windows) > 0 && minute%windowCycle >= windowOpen && !j.onlyRemoves(run, it) {
		p.violated("nothing is applied outside of a window: %s begins with run %s of %s, as decided at %s", p.name, run, task, it.at.UTC().Format(time.TimeOnly))
	}
	why, input := j.excess(p, run, it)
	j.becomesBase(p, run, it, j.lost(p, run, it) != "", why != "")
	if why == "" {
		return
	}
	var texts []string
	var same []granted
	for _, a := range slices.Concat(j.rules.approvals[run], j.rules.inputs[task]) {
		does := it.content
		if input && a.plan == "" {
			does.plan, does.state = "", "" // a person has approved the input without a plan
		}
		if a.content == does {
			same = append(same, a)
		}
		texts = append(texts, fmt.Sprintf("%+v by %q until %s", a.content, a.by, a.expires.UTC().Format(time.TimeOnly)))
	}
	if enough(same, it.task.Approval, it.at) {
		return
	}
	p.violated("what needs an approval is applied with one of that very content: %s applies %+v at %s in run %s of %s, though %s; approved: [%s]",
		p.name, it.content, it.at.UTC().Format(time.TimeOnly), run, task, why, strings.Join(texts, "; "))
}

// onlyRemoves reports whether a run may apply outside of the windows because it only
// takes entries away.
func (j *judge) onlyRemoves(run string, it planned) bool {
	return it.task.Windows[0].AllowRemovalsAlways && slices.ContainsFunc(j.rules.bases(it.task.Name, run), func(a attempt) bool {
		for name, now := range it.holds.entries {
			if a.entries[name] != now {
				return false
			}
		}
		return len(it.holds.entries) < len(a.entries) && a.module == it.holds.module
	})
}

// excess says why what a run applies needs an approval; "" if it needs none. If only
// the input does, an approval without a plan is enough.
func (j *judge) excess(p *process, run string, it planned) (why string, input bool) {
	t := it.task
	switch {
	case t.Approval.Rule == approval.Always:
		return "every plan needs one", false
	case it.unknown && (t.Approval.Rule == approval.Destructive || t.Guard.Enabled && t.Guard.MaxDestroy != nil):
		return "it is not known how much it destroys", false
	case t.Approval.Rule == approval.Destructive && it.destroys > 0:
		return "it destroys something", false
	case t.Guard.Enabled && t.Guard.MaxDestroy != nil && it.destroys > *t.Guard.MaxDestroy:
		return "it destroys too much", false
	}
	if all, exceeded := j.rules.destroys(losingBy(run, it), j.runs[t.Name][run].Intended()); exceeded {
		return fmt.Sprintf("with it, %d are destroyed within the window", all), false
	}
	if j.accepted(it) {
		return "", false
	}
	if why := j.lost(p, run, it); why != "" || !t.Guard.Enabled {
		return why, true
	}
	// While a run goes on that was given up, another may apply something.
	if most, exceeded := j.rules.takes(losingBy(run, it), j.runs[t.Name][run].Intended()); exceeded {
		return fmt.Sprintf("it takes too much away of the %d entries that were applied within the window", most), true
	}
	return "", false
}

// did notes that a run has applied something.
func (j *judge) did(task, run string, it planned) {
	a := attempt{run: run, at: time.Now(), recorded: time.Now(), base: j.rules.base[run], module: it.holds.module, digest: it.holds.digest, entries: it.holds.entries}
	if it.task != nil {
		a.window = it.task.Guard.Window()
		a.base.perhaps, a.base.certainly = a.base.perhaps || a.window == 0, a.base.certainly || a.window == 0
	}
	for i := range j.rules.begun[task] {
		if b := &j.rules.begun[task][i]; b.run == run {
			b.replaced = b.replaces
		}
	}
	if a.base.perhaps || a.base.certainly {
		j.rules.startsAnew(task)
	}
	j.rules.did[task] = append(j.rules.did[task], a)
}

// forgot notes that the engine knows nothing more of what a task was applied with.
func (j *judge) forgot(task string) {
	j.rules.startsAnew(task)
	j.rules.did[task] = append(j.rules.did[task], attempt{})
	j.rules.counts(task, len(j.rules.did[task])-1)
}

// counts notes that an apply counts as the last one.
func (r *rules) counts(task string, index int) { r.last[task] = append(r.last[task], index) }

// counted is the apply that counts as the last one of a task.
func (r *rules) counted(task string) int { return r.last[task][len(r.last[task])-1] }

// bases are the applies that a run may be compared with: what counted as the last one when it
// was claimed, and what has counted since. What a run has applied that was given up does not count.
func (r *rules) bases(task, run string) []attempt {
	var all []attempt
	for _, index := range r.last[task][min(r.since[run], len(r.last[task])-1):] {
		all = append(all, r.did[task][index])
	}
	return all
}

// ruled looks at a run that was written.
func (j *judge) ruled(v view, before, run state.Run) {
	if run.State.Ended() && !before.State.Ended() {
		j.rules.recorded(before.State, run)
	}
	switch run.State {
	case state.RunIntended:
		if h := j.tasks[run.Task].OnHold; h != nil && before.State != state.RunIntended && run.Kind.Occupies() && (before.Wait == nil || !before.Wait.For.Elsewhere() && !j.pastApprovalThere(v.world, run.ID)) {
			v.violated("a task on hold is not run: %s starts run %s of %s, on hold since %s", v.name, run.ID, run.Task, h.At)
		}
	case state.RunRunning:
		if before.State != state.RunRunning {
			j.rules.since[run.ID] = len(j.rules.last[run.Task]) - 1
			delete(j.rules.planned, run.ID)
		}
	case state.RunWaiting:
		if run.Wait.Content != nil && before.State != state.RunWaiting {
			j.rules.waits[run.Wait.ID] = j.rules.shown[run.ID]
			v.plans = append(v.plans, plan{run.Task, run.Wait.ID})
			j.holds(v, before, run)
		}
	case state.RunSucceeded:
		i := slices.IndexFunc(j.rules.did[run.Task], func(a attempt) bool { return a.run == run.ID || a.run != "" && a.run == j.remote.of[run.ID] })
		if run.Kind.Applies() && i >= 0 && !before.State.Ended() {
			j.rules.did[run.Task][i].recorded = time.Now()
			j.rules.counts(run.Task, i)
		}
	}
}

// approved looks at what a write changes about approvals and holds of a task.
func (j *judge) approved(v view, task string, before, now state.Task) {
	if before.OnHold != nil && now.OnHold == nil && !v.person() {
		v.violated("a person's hold lasts until a person releases it: %s ends that of %s", v.name, task)
	}
	if a := now.Accepted; a != nil && (before.Accepted == nil || !a.Same(before.Accepted.Approval) || a.Observed != before.Accepted.Observed) {
		if v.person() {
			j.rules.losses.grant(task, a.For(), a.Until())
		}
		j.approvedLoss(v, task, a.For())
	}
	if now.Waits() == nil {
		return
	}
	if given := now.Run.Approvals; v.person() && len(given) > 0 && (before.Run == nil || len(given) > len(before.Run.Approvals) || given[len(given)-1].At.After(before.Run.Approvals[len(before.Run.Approvals)-1].At)) {
		j.givenBy(v, task, now, given[len(given)-1])
	}
	if now.Run.Resume == nil || now.Run.Resume.Approval == nil {
		return
	}
	a := now.Run.Resume.Approval
	if before.Waits() != nil && before.Run.Resume != nil && before.Run.Resume.Approval != nil && before.Run.Resume.Approval.At.Equal(a.At) {
		return
	}
	content := j.rules.waits[now.Run.Wait.ID]
	if !v.person() && j.approvedThere(v.world, now.Run.ID, *a) {
		return
	}
	if !v.person() {
		if !j.permitsLoss(v, task, state.Attempt{Definition: content.definition, Observed: content.input}) {
			v.violated("a person approves: %s writes an approval of %s", v.name, task)
		}
		return // it permits the loss, and nothing else
	}
	j.givenBy(v, task, now, a.Given)
}

// givenBy notes the approval of one person.
func (j *judge) givenBy(v view, task string, now state.Task, a state.Given) {
	content := j.rules.waits[now.Run.Wait.ID]
	if by := j.overrides[task].By; by != "" {
		t, ok := overlay.Compose(v.base, slices.Collect(maps.Values(j.overrides))).Config.Task(task)
		if ok && t.Approval.DistinctApprover && (!a.Authenticated || personOf(t.Approval.People, by) == personOf(t.Approval.People, a.By)) {
			v.violated("another person approves: %s approves what %s has changed: %s", a.By, by, task)
		}
	}
	given := granted{content: content, expires: a.Expires}
	if a.Authenticated {
		given.by = a.By
	}
	j.rules.approvals[now.Run.ID] = append(j.rules.approvals[now.Run.ID], given)
	if given.plan == "" {
		j.rules.inputs[task] = append(j.rules.inputs[task], given)
	}
}

// explained reports whether the record of a task says what keeps it from being
// applied, and that this concerns what Consul says now.
func (j *judge) explained(w *world, task string, want string) bool {
	record := j.tasks[task]
	wait := record.Waits()
	switch {
	case j.explainedByPause(record, want):
		return j.phaseShows(w, task)
	case w.ordered && j.explainedByOrder(w, record, want):
		return j.phaseShows(w, task)
	case !w.ruled || !j.phaseShows(w, task):
		return false
	case record.OnHold != nil && (record.Run == nil || wait != nil && record.Run.Resume != nil):
		return record.Reason.Code == state.ReasonOnHold && strings.Contains(record.Reason.Text, record.OnHold.By)
	case (record.Run == nil || wait != nil && record.Run.Resume != nil) && record.Reason.Code == state.ReasonReplaced:
		return record.Observed.Digest == want && j.last.Replaced != nil && slices.Contains(j.last.Replaced.Names, task)
	case record.Run == nil && record.Reason.Code == state.ReasonRenamed:
		return record.Observed.Digest == want
	case wait != nil && record.Run.Destroys():
		return j.waitsForPerson(record) && strings.Contains(record.Reason.Text, wait.Text)
	case wait != nil:
		return wait.For == state.WaitApproval && len(wait.Causes) > 0 && !j.heldByTime(w, record) && wait.Content != nil && record.Run.Resume == nil &&
			record.Run.Input == want && record.Reason.Code == state.ReasonWaiting && strings.Contains(record.Reason.Text, wait.Text)
	}
	return false
}

// phaseShows reports whether status shows people that a task is held or waits, and why.
func (j *judge) phaseShows(w *world, task string) bool {
	rec := j.last
	cfg := j.decidedOn(state.Launch{Bundle: rec.Bundle, Config: rec.Config})
	t, ok := cfg.Task(task)
	if !ok {
		return false
	}
	shown, err := overview.Reader{Store: shelf{&w.memory}, Now: time.Now}.ReadTask(context.Background(), overlay.Compose(cfg, nil), t)
	says := []apispec.Phase{apispec.PhaseStopped, apispec.PhaseWaiting, apispec.PhaseFailing, apispec.PhaseUnverified} // the latter two hide no reason
	return err == nil && (slices.Contains(says, shown.Phase) || shown.Reason.Code == state.ReasonAfter) && shown.Reason.Text != ""
}
