package simulate

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// What the judge knows of the changes that people make.

// person reports whether it is the API that acts.
func (v view) person() bool { return strings.HasPrefix(v.name, "api-") }

// configuration returns what counts where a bundle is in force.
func (j *judge) configuration(digest string) *config.Config {
	if cfg, ok := j.counts[digest]; ok {
		return cfg
	}
	b := slices.IndexFunc(bundles, func(b bundle) bool { return b.digest == digest })
	if b < 0 {
		return &config.Config{}
	}
	j.counts[digest] = bundles[b].config
	if len(j.overrides) > 0 {
		j.counts[digest] = overlay.Compose(bundles[b].config, slices.Collect(maps.Values(j.overrides))).Config
	}
	return j.counts[digest]
}

// decidedOn returns the configuration of a launch.
func (j *judge) decidedOn(launch state.Launch) *config.Config {
	if launch.Bundle != "" {
		return j.configuration(launch.Bundle)
	}
	i, known := j.crossings.composed[launch.Config]
	if !known {
		i = slices.IndexFunc(bundles, func(b bundle) bool { return b.files == launch.Config })
	}
	if i < 0 {
		return &config.Config{}
	}
	return j.configuration(bundles[i].digest)
}

// compose notes the digests of all files with the overrides as they are from now on.
func (j *judge) compose(w *world) {
	clear(j.counts)
	for i, b := range bundles {
		if w.home != inAWS && slices.ContainsFunc(w.bundles(), func(other bundle) bool { return other.digest == b.digest }) {
			j.crossings.composed[j.configuration(b.digest).Digest()] = i
		}
	}
}

// decidedBy is decidedOn for a launch that a process writes now. Its list of overrides is no
// snapshot: perhaps nothing ever had the digest of its configuration.
func (j *judge) decidedBy(v view, launch state.Launch) *config.Config {
	if cfg := j.decidedOn(launch); launch.Bundle != "" || len(cfg.Tasks) > 0 {
		return cfg
	}
	return j.knownTo(v)
}

// disabled reports whether somebody has disabled the task.
func (j *judge) disabled(task string) bool {
	enabled := j.overrides[task].Enabled
	return enabled != nil && !*enabled
}

// there returns the runs that there are of a task.
func (j *judge) there(task string) map[string]bool {
	runs := map[string]bool{}
	for id := range j.runs[task] {
		runs[id] = true
	}
	return runs
}

// kept looks at the overrides that a write changes.
func (j *judge) kept(v view, changes []state.Change, moved map[string]string) {
	latest, changed := j.last.Overrides, false
	were := maps.Clone(j.overrides)
	for _, c := range changes {
		if c.Key == state.ReconcileKey && c.Op != state.OpCheck {
			latest = decoded[state.Reconcile](c.Value).Overrides
		}
		task, ok := strings.CutPrefix(c.Key, state.OverridePrefix)
		if !ok || c.Op == state.OpCheck {
			continue
		}
		changed = true
		before := j.overrides[task]
		var after state.Override
		if c.Op == state.OpDelete {
			delete(j.overrides, task)
		} else {
			after = decoded[state.Override](c.Value)
			j.overrides[task] = after
		}
		if c.Op == state.OpDelete || after.Deleted != "" {
			j.deleted[task] = true
		}
		if c.Op == state.OpDelete || after.Deleted != before.Deleted || !bytes.Equal(after.Definition, before.Definition) {
			delete(j.crossings.ended, task) // it has another definition, or is made anew
		}
		if j.changed[v.id] = true; !v.person() && moved[task] == "" && j.movedTo(moved, task) == "" {
			j.settled(v, task, before, after)
		}
		if delete(j.trials, task); after.Provisional != nil {
			j.trials[task] = j.there(task)
		}
	}
	for task, from := range moved {
		said, own := were[from], were[task]
		if enabled := said.Enabled; enabled != nil && !*enabled && said.Provisional == nil && own.Enabled == nil && own.Provisional == nil && !j.disabled(task) {
			v.violated("a disabled task rests: %s gives %s what %s has, which is disabled", v.name, task, from)
		}
	}
	switch {
	case changed && latest == j.last.Overrides:
		v.violated("everybody hears of a change: %s has written an override, and the reconcile record does not tell", v.name)
	case !changed && latest != j.last.Overrides:
		v.violated("everybody hears of a change: %s has the reconcile record name %q, the latest change is %q", v.name, latest, j.last.Overrides)
	case changed:
		j.removal.moves++
		j.compose(v.world)
	}
}

// settled looks at the end of a trial.
func (j *judge) settled(v view, task string, before, after state.Override) {
	record := j.tasks[task]
	if before.Provisional == nil || record.Run != nil || record.Ended.Last == nil || j.trials[task][record.Ended.Last.Run] {
		v.violated("a trial has its run: the change of %s is settled by %s on %+v", task, v.name, record.Ended.Last)
		return
	}
	want := before
	if want.Provisional = nil; record.Ended.Last.State != state.RunSucceeded {
		if want = (state.Override{}); before.Provisional.Before != nil {
			want = *before.Provisional.Before
		}
	}
	needless := after.Task == "" && record.Ended.Last.State == state.RunSucceeded && want.Enabled != nil && len(want.Definition) == 0 && want.Deleted == "" &&
		slices.ContainsFunc(bundles, func(b bundle) bool {
			t, there := b.config.Task(task)
			return there && t.Enabled == *want.Enabled
		})
	if !bytes.Equal(state.Encode(after), state.Encode(want)) && !needless {
		v.violated("a trial is kept if its run succeeds: that of %s has %s, and is %+v now", task, record.Ended.Last.State, after)
	}
}

// decided checks a run that is decided.
func (j *judge) decided(v view, launch state.Launch, run state.Run) {
	if run.Kind == state.KindDestroy {
		return // see destroys
	}
	cfg := j.decidedBy(v, launch)
	t, there := cfg.Task(run.Task)
	if !there || !t.Enabled {
		v.violated("what is disabled or deleted rests: %s was to be run by %s", run.Task, v.name)
		return
	}
	i := slices.IndexFunc(launch.Runs, func(p state.PlannedRun) bool { return p.ID == run.ID })
	if i < 0 || launch.Runs[i].Definition != t.Digest(cfg) {
		v.violated("a run is decided on what counts: that of %s was decided by %s on another definition", run.Task, v.name)
	}
	j.modules[run.ID] = t.Module
}

// held looks at what becomes of a task that was made or enabled without a run.
func (j *judge) held(v view, task string, before, now state.Task) {
	read := before.Stop != nil && !before.Stop.Next
	switch moved := read && (now.Observed.Digest != before.Stop.For.Observed || j.redefined(v.world, task, before.Stop.For.Definition)); {
	case v.person() || before.Stop == nil:
	case now.Stop != nil && (!read || *before.Stop == *now.Stop):
	case !read && now.UpToDate(): // nothing is pending
	case now.Ended.Of(state.KindDestroy): // what it was held with is gone, or perhaps a part of it
	case now.Stop != nil:
		v.violated("a held task runs when its condition changes: %s stopped %s for %+v and stops it for %+v", v.name, task, before.Stop, now.Stop)
	case now.Reason.Code == state.ReasonRemoved && len(j.overrides[task].Definition) == 0:
	case now.Reason.Code == state.ReasonForced, now.Reason.Code == state.ReasonSchedule && read:
	case !moved:
		v.violated("a held task runs when its condition changes: %s let go of %s, stopped for %+v: %+v", v.name, task, before.Stop, now)
	}
}

// redefined reports whether some bundle has another definition of a task.
func (j *judge) redefined(w *world, task, definition string) bool {
	return slices.ContainsFunc(w.bundles(), func(b bundle) bool {
		cfg := j.configuration(b.digest)
		t, there := cfg.Task(task)
		return there && t.Digest(cfg) != definition
	})
}

// answered checks that a confirmed request was carried out.
func (j *judge) answered(w *world, p *process, it *wish) {
	// A task that is deleted already is shown, and can be deleted, until its run has ended.
	already := it.what == "delete" && j.deleted[it.task]
	if (it.what == "create" || it.what == "delete") && !j.changed[p.id] && !already {
		w.violated("what is answered is done: %s got an answer for a %s of %s", p.name, it.what, it.task)
	}
}

// waited checks the run that a request for a run returned.
func (j *judge) waited(w *world, p *process, it *wish, run state.Run) {
	before, asked := j.asked[p.id]
	if asked && before[run.ID] {
		w.violated("a request for a run returns that run: %s requested a %s of %s and got %s, which is older", p.name, it.what, it.task, run.ID)
	}
}
