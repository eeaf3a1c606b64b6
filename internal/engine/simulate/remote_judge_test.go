package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	tf "github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
)

// This file judges runs in HCP Terraform: remote runs. The judge sees every request to HCP
// Terraform, what each run has read, and which plans were judged.

// remoteKnown is what the judge knows of remote runs.
type remoteKnown struct {
	records  map[string]state.Remote // by task: what the store has
	reads    map[string]reading      // by run: what it has read last
	accepted map[string]string       // by run: the remote run whose plan may be applied
	of       map[string]string       // by run: its remote run
	claimed  map[string]time.Time    // by run: when it was claimed last
	audited  map[decision]bool       // decisions of people there that the audit record has
}

// decision is what a person has decided about a remote run.
type decision struct {
	remote string
	action audit.Action
}

// reading is what a run has read in Consul, and for which task.
type reading struct {
	planned
	module string
	digest string
	judges bool // plans must be judged
}

func (r *remoteKnown) init() {
	r.records, r.reads, r.accepted = map[string]state.Remote{}, map[string]reading{}, map[string]string{}
	r.of, r.claimed, r.audited = map[string]string{}, map[string]time.Time{}, map[decision]bool{}
}

// watched notes what a run has read, and returns a job whose judgement is noted, too.
func (f *far) watched(ctx context.Context, job driver.Job) driver.Job {
	run, t := ctx.Value(runKey{}).(string), job.Task
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.judge.remote
	read := reading{module: t.Module, digest: job.Snapshot.Condition.Digest, judges: job.PlansFirst()}
	read.task, read.at, read.read = t, f.now(), f.judge.rules.losses.read[job.Snapshot]
	read.definition = t.Digest(job.Config)
	r.reads[run] = read
	delete(r.accepted, run)
	judge := job.Judge
	if judge == nil {
		return job
	}
	job.Judge = func(ctx context.Context, plan driver.Plan) error {
		f.mu.Lock()
		there := ""
		if ws := f.cloud.of(workspacePrefix + t.Name); ws != nil && ws.current != nil {
			there = ws.current.id
			it := f.judge.does(run, ws.current)
			f.judge.rules.shown[run], f.judge.rules.planned[run] = it.content, it
		}
		f.mu.Unlock()
		err := judge(ctx, plan)
		f.mu.Lock()
		defer f.mu.Unlock()
		if err == nil {
			r.accepted[run] = there
		}
		read := r.reads[run]
		read.at = f.now()
		r.reads[run] = read
		return err
	}
	return job
}

// does is what a remote run does for a run.
func (j *judge) does(run string, r *remoteRun) planned {
	it, read := r.plan, j.remote.reads[run]
	it.task, it.definition, it.at, it.read, it.judged = read.task, read.definition, read.at, read.read, read.judges
	return it
}

// remembers checks a write of the record of a task's workspace and remote run.
func (j *judge) remembers(v view, task string, now state.Remote) {
	j.remote.records[task] = now
	if r := v.cloud.run(now.Run.ID); r != nil && now.Intent == state.RemoteConfirm {
		r.tried = true
	}
	run := j.tasks[task].Run
	if run == nil || !strings.HasSuffix(j.runs[task][run.ID].Owner, v.name) {
		v.violated("who has no claim records nothing about a run there: %s does for %s", v.name, task)
	}
}

// audited checks an entry of the audit record.
func (j *judge) audited(v view, e audit.Entry) {
	id := strings.TrimPrefix(e.Detail, "remote run ")
	if end := strings.IndexAny(id, ",:;"); end >= 0 {
		id = id[:end]
	}
	r := v.cloud.run(id)
	if e.Via != audit.Remote || r == nil {
		return
	}
	by := r.endedBy
	if e.Action == audit.Approve {
		by = r.confirmedBy
	}
	switch it := (decision{id, e.Action}); {
	case j.remote.audited[it]:
		v.violated("a decision there is audited once: %s writes %s of %s again", v.name, e.Action, id)
	case by == us && !r.tried || by == "":
		v.violated("what is audited of a run there was decided by a person: %s writes %s of %s by %s, and %q did", v.name, e.Action, id, e.By, by)
	default:
		j.remote.audited[it] = true
	}
}

// uploads checks an upload.
func (j *judge) uploads(p *process, ctx context.Context, up *upload, late bool) {
	run, _ := ctx.Value(runKey{}).(string)
	read, known := j.remote.reads[run]
	switch {
	case !known:
		p.violated("a run uploads what it has read: %s uploads %s for none", p.name, up.id)
	case read.module != up.module || read.digest != up.digest:
		p.violated("a run uploads what it has read: %s has read %s for %s and uploads %s for %s", p.name, read.digest, read.module, up.digest, up.module)
	case !up.speculative && !late && j.remote.records[read.task.Name].Run.Version != up.id:
		p.violated("a configuration version is recorded before it is uploaded: %s uploads %s for %s", p.name, up.id, read.task.Name)
	}
}

// queues checks the creation of a remote run.
func (j *judge) queues(w *world, r *remoteRun) {
	run := j.runs[r.task][r.run]
	if r.planOnly {
		if run.Kind.Applies() {
			w.violated("a run that applies is no plan: %s of %s", r.id, r.run)
		}
		return
	}
	switch {
	case r.run != "" && run.ID == "" && r.late: // somebody has removed its record before the request arrived
		return
	case r.run == "" || !run.Kind.Applies() || r.destroys != (run.Kind == state.KindDestroy):
		w.violated("a run there is for a run of ours: %s creates %s of %s for %q, a run of kind %s", r.by.name, r.id, r.task, r.run, run.Kind)
	case r.late:
		return
	case run.State != state.RunRunning && !w.jumped:
		w.violated("a run that was given up creates none there: %s creates %s for run %s of %s, which is %s", r.by.name, r.id, r.run, r.task, run.State)
	case j.remote.records[r.task].Run.Version != r.version:
		w.violated("a configuration version is recorded before its run: %s creates %s of %s with %s", r.by.name, r.id, r.task, r.version)
	}
	for _, other := range w.cloud.runs {
		meanwhile := other.late && other.created.After(j.remote.claimed[r.run])
		// One that comes so late is stopped when it is in the way.
		forgotten := other.late && (w.jumped || other.created.Sub(j.remote.claimed[other.run]) > 50*time.Minute)
		if other == r || !other.ours() || other.planOnly || meanwhile || forgotten || other.workspace != r.workspace {
			continue
		}
		if other.version == r.version {
			w.violated("a content has one run there: %s creates %s of %s beside %s", r.by.name, r.id, r.version, other.id)
		}
		if !other.final() {
			w.violated("a workspace has one live run of ours: %s creates %s of %s while %s is %s", r.by.name, r.id, r.task, other.id, other.status)
		}
	}
}

// acts checks a request to confirm, discard or cancel a remote run.
func (j *judge) acts(ctx context.Context, p *process, r *remoteRun, a hcp.Action, comment string, late bool) {
	if !r.ours() {
		p.violated("what a person has queued there is theirs: %s does %s with %s of %s", p.name, a, r.id, r.task)
		return
	}
	if a == hcp.Confirm {
		j.confirms(ctx, p, r, late)
		return
	}
	if comment == "" && !r.planOnly {
		p.violated("who ends a run there says why: %s does %s with %s of %s", p.name, a, r.id, r.task)
	}
	if run := j.runs[r.task][r.run]; r.confirmedBy != "" && run.Cancel == "" && !late {
		p.violated("what is being applied there is interrupted if a person cancels: %s cancels %s of %s", p.name, r.id, r.task)
	}
}

// confirms checks a request to apply what a remote run has planned.
func (j *judge) confirms(ctx context.Context, p *process, r *remoteRun, late bool) {
	run, _ := ctx.Value(runKey{}).(string)
	record, up := j.runs[r.task][run], p.cloud.uploads[r.version]
	read, known := j.remote.reads[run]
	if !known {
		p.violated("a run of ours confirms its run there: %s confirms %s of %s", p.name, r.id, r.task)
		return
	}
	it := j.does(run, r)
	switch {
	case record.State != state.RunRunning && !late && !p.jumped:
		p.violated("a run that was given up is not applied: %s confirms %s for run %s of %s, which is %s", p.name, r.id, run, r.task, record.State)
	case j.modules[run] != up.module:
		p.violated("what was decided is applied: %s confirms %s for run %s of %s, which was decided on %s", p.name, up.module, run, r.task, j.modules[run])
	case read.digest != up.digest && !r.destroys:
		p.violated("what is applied is what Consul shows: %s confirms %s of %s with %s, and has read %s", p.name, r.id, r.task, up.digest, read.digest)
	case read.judges && j.remote.accepted[run] != r.id:
		p.violated("a plan is judged before it is applied: %s confirms %s of %s", p.name, r.id, r.task)
	case j.disabled(r.task) && !r.destroys && !late:
		p.violated("a disabled task rests: %s confirms %s for run %s of %s", p.name, r.id, run, r.task)
	case j.appliesPaused(record) && !late:
		p.violated("nothing is applied while everything is paused: %s confirms %s for run %s of %s, which was claimed after the pause", p.name, r.id, run, r.task)
	case p.cloud.workspace(r.workspace).others && r.plan.changes && record.Approval == nil && !late:
		p.violated("what another instance has made is not changed unasked: %s confirms %s of %s", p.name, r.id, r.task)
	case r.destroys:
		j.leavesNothing(p, r.task, run, it)
	default:
		j.permitted(p, r.task, run, it)
	}
}

// worksThere notes that a remote run begins to change something.
func (j *judge) worksThere(w *world, r *remoteRun) {
	w.applies++
	delete(j.removal.gone, r.task)
	j.infra[r.task] = "half done"
}

// appliedThere notes that a remote run has applied its plan.
func (j *judge) appliedThere(w *world, r *remoteRun) {
	s := w.tfstate(r.task)
	if r.plan.changes {
		s.mark = tf.StateMark{Lineage: r.task, Serial: s.mark.Serial + 1, Objects: []string{r.id}}
		s.saves++
	}
	s.holds, j.infra[r.task] = r.plan.holds, r.plan.holds.digest
	if ws := w.cloud.workspace(r.workspace); ws.Version != "" {
		ws.Version, ws.others = r.version, false
	}
	if !r.destroys {
		it, b := r.plan, j.rules.base[r.run]
		it.task, it.judged = j.remote.reads[r.run].task, j.remote.reads[r.run].judges
		b.perhaps = b.perhaps || r.plan.task == nil || r.confirmedBy != ""
		j.rules.base[r.id] = b
		j.did(r.task, r.id, it)
		if it.task != nil && w.unverifies && len(verify.Active(it.task.Verify)) > 0 {
			j.proofs.must[r.run] = true
		}
	}
}

// plannedThere notes the plan of a check for drift.
func (j *judge) plannedThere(w *world, r *remoteRun) {
	run, rules := j.runs[r.task][r.run], &j.rules
	if run.Kind != state.KindDrift {
		return
	}
	applied := rules.bases(r.task, r.run)
	if !slices.ContainsFunc(applied, func(a attempt) bool { return a.digest == w.cloud.uploads[r.version].digest }) {
		w.violated("a check for drift plans with what was applied: %s plans %s with %s in check %s", r.id, r.task, w.cloud.uploads[r.version].digest, r.run)
	}
	rules.checks[r.run] = rules.counted(r.task)
}

// runThere is the remote run of a run; nil if it has none.
func (j *judge) runThere(w *world, run string) *remoteRun { return w.cloud.run(j.remote.of[run]) }

// renderedBy is the digest of what a run has applied; "" if it has applied nothing.
func (j *judge) renderedBy(w *world, run string) string {
	if r := j.runThere(w, run); r != nil && (r.status == wasApplied || r.status == wasUnchanged) {
		return r.plan.holds.digest
	}
	return j.rendered[run]
}

// follows checks a write of a run that has a remote run.
func (j *judge) follows(v view, before, run state.Run) {
	if run.Remote != nil {
		j.remote.of[run.ID] = run.Remote.ID
	}
	if run.State == state.RunRunning && before.Claim != run.Claim {
		j.remote.claimed[run.ID] = time.Now()
	}
	r := j.runThere(v.world, run.ID)
	if r == nil || before.State == run.State {
		return
	}
	switch {
	case run.State == state.RunCancelled && run.Rejected && !v.person() && (r.status != wasDiscarded || r.endedBy == us || !v.cloud.names(r.endedBy, run.Error)):
		v.violated("who discards a run there rejects it: %s says of %s that %s, and %s has discarded it", v.name, run.ID, run.Error, r.endedBy)
	case run.State == state.RunCancelled && run.Rejected && !v.person() && !j.remote.audited[decision{r.id, audit.Reject}]:
		v.violated("a decision there is audited: %s says of %s that %s", v.name, run.ID, run.Error)
	case run.State == state.RunSucceeded && r.status != wasApplied && r.status != wasUnchanged:
		v.violated("success is what was applied: %s says so of run %s of %s, and %s is %s", v.name, run.ID, run.Task, r.id, r.status)
	case r.tried: // Terrapulse was about to confirm it, too
	case run.State == state.RunSucceeded && r.confirmedBy != "" && r.confirmedBy != us && (run.Approval == nil || !v.cloud.names(r.confirmedBy, run.Approval.By)):
		v.violated("who confirms a run there approves it: %s has confirmed %s, and run %s of %s was approved by %+v", r.confirmedBy, r.id, run.ID, run.Task, run.Approval)
	case run.State == state.RunSucceeded && r.confirmedBy != "" && r.confirmedBy != us && !j.remote.audited[decision{r.id, audit.Approve}]:
		v.violated("a decision there is audited: %s has confirmed %s, and run %s of %s ends without an entry", r.confirmedBy, r.id, run.ID, run.Task)
	}
}

// movedThere reports whether the remote run that a run waits for has left the phase of the wait.
func (j *judge) movedThere(w *world, run *state.LiveRun) bool {
	r := j.runThere(w, run.ID)
	if r == nil {
		return false
	}
	return run.Wait.For.EndedBy(r.phase())
}

// pastApprovalThere reports whether the remote run of a run was confirmed, or has ended: the run
// only has to record that.
func (j *judge) pastApprovalThere(w *world, run string) bool {
	r := j.runThere(w, run)
	return r != nil && r.phase().PastApproval()
}

// approvedThere reports whether an approval was given in HCP Terraform.
func (j *judge) approvedThere(w *world, run string, a state.Approval) bool {
	r := j.runThere(w, run)
	return r != nil && r.confirmedBy != "" && r.confirmedBy != us && w.cloud.names(r.confirmedBy, a.By)
}

// deletes checks the deletion of a workspace.
func (j *judge) deletes(p *process, ws *workspace) {
	if !ws.ours {
		p.violated("a workspace that others have created stays: %s deletes %s", p.name, ws.Name)
	}
}

// leftThere reports whether no run waits for a remote run.
func (j *judge) leftThere(r *remoteRun) bool {
	run := j.tasks[r.task].Run
	return run == nil || j.remote.of[run.ID] != r.id
}

// unendedThere names a remote run that has not ended although no run waits for it; "" if there
// is none. One that was created late stays until the next run of its task.
func (j *judge) unendedThere(w *world) string {
	for _, r := range w.cloud.runs {
		if r.final() || !r.ours() || r.late || w.cloud.workspace(r.workspace) == nil { // HCP Terraform deletes the runs of a workspace with it
			continue
		}
		if j.leftThere(r) {
			return fmt.Sprintf("%s of %s is left, which is %s", r.id, r.task, r.status)
		}
	}
	return ""
}
