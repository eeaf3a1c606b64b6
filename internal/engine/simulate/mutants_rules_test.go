package simulate

// eventMutants break the delivery of events.
var eventMutants = []mutant{
	{
		rule: "events: only what was delivered is noted as delivered",
		file: "record/outbox/deliver.go",
		old:  "if q.leaves(done, kept, marks) {\n\t\treturn q.leave(ctx, done)",
		new:  "if q.Leave != nil && marks {\n\t\treturn q.leave(ctx, q.records)",
		says: "delivered",
	}, {
		rule: "events: what is noted as delivered is not delivered again",
		file: "record/outbox/deliver.go",
		old:  "left: slices.Contains(d.Delivered, name(rec.Record))",
		new:  "left: false",
		test: "record/outbox TestDelivery_RecordsThatAreNotedAsDeliveredAreRemovedTogether",
	}, {
		rule: "events: the event of an outcome is in the write of the outcome",
		file: "engine/runner/outcome.go",
		old:  "err = c.write(ctx, run, append(c.events.Changes(), changes...)...)",
		new:  "if err = c.write(ctx, run, changes...); err == nil { _, err = c.Store.Apply(ctx, c.events.Changes()...) }",
		says: "a transition is written with its event",
	}, {
		rule: "events: one that was not delivered is not removed",
		file: "record/outbox/deliver.go",
		old:  "if errs[i] != nil {\n				continue\n			}\n			r.taken",
		new:  "_ = errs[i]\n			r.taken",
		says: "delivered", // before it is removed, or before later ones
	}, {
		rule: "events: those of a task wait for the earlier ones",
		file: "record/outbox/deliver.go",
		old:  "blocked[it.stream()] = true",
		new:  "blocked[it.stream()] = false",
		says: "events of a task are delivered in order",
	}, {
		rule: "events: their numbers are their order, not the clocks",
		file: "record/outbox/deliver.go",
		old:  "cmp.Compare(a.Seq, b.Seq)",
		new:  "a.At.Compare(b.At)",
		says: "events of a task are delivered in order",
	}, {
		rule: "events: those of a task that is made again follow the earlier ones",
		seed: 30700,
		file: "record/outbox/outbox.go",
		old:  "task.Events = max(task.Events, rec.Events)",
		new:  "task.Events = max(task.Events, 0)",
		says: "events of a task are delivered in order",
	}, {
		rule: "events: one is not written before its transition",
		file: "engine/runner/outcome.go",
		old:  "err = c.write(ctx, run, append(c.events.Changes(), changes...)...)",
		new:  "if _, err = c.Store.Apply(ctx, c.events.Changes()...); err == nil { err = c.write(ctx, run, changes...) }",
		says: "an event is written with its transition",
	}, {
		rule: "events: one is not sent before its transition is written",
		file: "engine/reconcile/batch.go",
		old:  "_, err := b.tick.opts.Lease.Apply(ctx, append(changes, b.unrequested()...)...)",
		new:  "for _, sink := range b.tick.Sinks() { for _, e := range events.All() { _ = sink.Deliver(ctx, e) } }; _, err := b.tick.opts.Lease.Apply(ctx, append(changes, b.unrequested()...)...)",
		says: "an event follows its transition",
	},
}

// ruleMutants break the rules of trust.
var ruleMutants = []mutant{
	{
		rule: "rules: an approval is bound to the input",
		file: "engine/runner/judge.go",
		old:  "a.Content == content &&",
		new:  "a.Content.Plan == content.Plan && a.Content.State == content.State &&",
		test: "engine/runner TestJudge_ApprovalIsForItsContentAlone",
	}, {
		rule: "rules: an approval is bound to the plan",
		seed: 5460,
		file: "engine/runner/judge.go",
		old:  "a.Content == content &&",
		new:  "a.Content.OfInput() == content.OfInput() &&",
		says: "with one of that very content",
	}, {
		rule: "rules: the guard compares with what was applied last, not with what was seen",
		file: "engine/runner/output.go",
		old:  "case run.State != state.RunSucceeded || !run.Kind.Applies():",
		new:  "case done.snap == nil || !run.Kind.Applies():",
		test: "engine/runner TestJudge_EntriesAreComparedWithTheLastAppliedOnes",
	}, {
		rule: "rules: the guard compares with the most that was applied within its window",
		seed: shrinkFirst, stride: shrinkEvery,
		file: "rules/guard/guard.go",
		old:  "return c.Peaks.Most(c.Applied, s.Within, now)",
		new:  "return c.Applied",
		says: "it takes too much away",
	}, {
		rule: "rules: what has left the window of a guard does not count",
		seed: shrinkFirst, stride: shrinkEvery,
		file: "record/state/peaks.go",
		old:  "if now.Before(peak.Until.Add(window)) {",
		new:  "if window > 0 {",
		says: "what a guard holds is justified",
	}, {
		rule: "rules: an approval that is applied is a new base",
		file: "engine/runner/base.go",
		old:  "fresh := done.window == 0 || run.Based",
		new:  "fresh := done.window == 0",
		test: "engine/runner TestBase_AnApprovalCountsOnceItIsApplied",
	}, {
		rule: "rules: the plan guard counts what was destroyed within its window",
		seed: shrinkFirst, stride: shrinkEvery,
		file: "rules/guard/guard.go",
		old:  "all, most := losses.With(plan.Destroy, known)",
		new:  "all, most := plan.Destroy, known",
		says: "are destroyed within the window",
	}, {
		rule: "rules: an outcome keeps the number that it replaces",
		seed: shrinkFirst, stride: shrinkEvery,
		file: "engine/runner/base.go",
		old:  "now.Peaks = was.Peaks.Replaced(was.Applied, now.Applied, at, since)",
		new:  "now.Peaks = was.Peaks",
		says: "it takes too much away",
	}, {
		rule: "rules: a run that fails or waits keeps what was applied within the window",
		seed: shrinkFirst, stride: shrinkEvery,
		file: "engine/runner/result.go",
		old:  "counts[i] = d.Count().WithPeaks(before)",
		new:  "counts[i] = d.Count()",
		says: "it takes too much away",
	}, {
		rule: "rules: an approval that was never applied is no new base",
		file: "engine/runner/base.go",
		old:  "if !succeeded {\n\t\t\tbreak",
		new:  "if !succeeded && !run.Based {\n\t\t\tbreak",
		test: "engine/runner TestBase_AnApprovalCountsOnceItIsApplied",
	}, {
		rule: "rules: a clock that is ahead ends no window of a guard",
		seed: shrinkFirst, stride: shrinkEvery,
		file: "engine/runner/base.go",
		old:  "decided.Before(now) {",
		new:  "false {",
		says: "within the window",
	}, {
		rule: "rules: a clock that is ahead drops nothing of the window of a guard",
		file: "engine/runner/base.go",
		old:  "since := c.judgedAt().Add(-done.window)",
		new:  "since := at.Add(-done.window)",
		test: "engine/runner TestBase_AClockThatIsAheadEndsNoWindow",
	}, {
		rule: "rules: what a guard holds is judged again when it leaves the window",
		file: "engine/decide/waiting.go",
		old:  "case d.judgedAgain(wait):",
		new:  "case false:",
		test: "engine/decide TestDecide_WhatAGuardHoldsIsJudgedAgainInTime",
	}, {
		rule: "rules: what was applied is kept with the success of its run",
		file: "engine/runner/outcome.go",
		old:  "changes = append(changes, inputs...)",
		new:  "_, _ = claimedStore{r.Store, c}.Apply(ctx, inputs...)",
		test: "engine/runner TestRecord_SuccessIsNotRecordedWithoutWhatWasApplied",
	}, {
		rule: "rules: no request runs a task that is on hold",
		file: "engine/decide/admit.go",
		old:  "if h == nil || d.elsewhere() {",
		new:  "if h == nil || d.elsewhere() || d.state.Forced != \"\" {",
		says: "a task on hold is not run",
	}, {
		rule: "rules: a window ends also for a run that was decided before",
		file: "engine/runner/judge.go",
		old:  "if times := j.times(); !times.Open {",
		new:  "if times := j.times(); false {",
		says: "nothing is applied outside of a window",
	}, {
		rule: "rules: a denying window wins over an allowing one",
		seed: 93,
		file: "rules/window/window.go",
		old:  "case !denied.IsZero():",
		new:  "case !denied.IsZero() && !open:",
		says: "nothing is applied outside of a window",
	}, {
		rule: "rules: only a change that takes entries away, and nothing else, passes a window always",
		seed: 594,
		file: "engine/runner/judge.go",
		old:  "return j.done.entries.OnlyRemovals()",
		new:  "return true",
		says: "nothing is applied outside of a window",
	}, {
		rule: "rules: an approval that has expired is not used",
		seed: 12446,
		file: "record/state/approval.go",
		old:  "return g.Expires.IsZero() || now.Before(g.Expires)",
		new:  "return true",
		says: "with one of that very content",
	}, {
		rule: "rules: a run that is resumed is judged",
		seed: 225,
		file: "engine/runner/judge.go",
		old:  "if j.claimed.AppliedElsewhere() {",
		new:  "if j.claimed.Resumed != nil {",
		says: "is applied ", // without an approval, or outside of a window
	}, {
		rule: "rules: who changed the task does not approve its plan",
		seed: 231,
		file: "rules/approval/people.go",
		old:  "return !s.DistinctApprover ||",
		new:  "return true ||",
		says: "another person approves",
	}, {
		rule: "rules: one person counts once",
		file: "rules/approval/people.go",
		old:  "if s.counts(g, now) && !Approved(counting, g.By) {",
		new:  "if s.counts(g, now) {",
		test: "rules/approval TestCounting_IsOfDifferentPermittedPeopleWhoseApprovalsAreValid",
	}, {
		rule: "rules: a run goes on when enough people have approved",
		seed: 20,
		file: "rules/approval/people.go",
		old:  "return max(1, s.Require)",
		new:  "return 1",
		says: "what needs an approval is applied",
	}, {
		rule: "rules: a claimed name is no second person",
		seed: 200,
		file: "rules/approval/people.go",
		old:  "return s.Needed() > 1 ||",
		new:  "return",
		says: "what needs an approval is applied",
	}, {
		rule: "rules: a run finds out by itself that Consul was replaced",
		seed: 25210,
		file: "engine/runner/replaced.go",
		old:  "if err == nil && why != \"\" {",
		new:  "if false {",
		says: "is gone with a Consul that was replaced",
	}, {
		rule: "rules: a task that needs more approvals of what a replaced Consul has lost stays held",
		seed: 330 * partlyEvery, stride: partlyEvery,
		file: "engine/reconcile/replaced.go",
		old:  "if len(counting) < rule.Needed() {\n\t\treturn false\n\t}",
		new:  "if len(counting) == 0 {\n\t\treturn false\n\t}\n\trule.Require = 1",
		says: "", // it is permitted, or applied
	}, {
		rule: "rules: what enough people have approved is permitted, though other tasks need more of them",
		seed: partlyEvery, stride: partlyEvery,
		file: "engine/reconcile/replaced.go",
		old:  "refused, in.Replaced = append(refused, in), replaced",
		new:  "refused = lost\n\t\t\tfor _, in := range lost {\n\t\t\t\tin.Accepted, in.Replaced = nil, replaced\n\t\t\t}\n\t\t\tbreak",
		says: "what enough people have approved is permitted",
	}, {
		rule: "rules: a claimed name does not approve what a replaced Consul has lost for a task that needs two people",
		seed: 280 * partlyEvery, stride: partlyEvery,
		file: "engine/reconcile/replaced.go",
		old:  "if one, err := rule.Given(a.Who(), ",
		new:  "who := a.Who()\n\t\twho.Proof = \"oidc\"\n\t\tif one, err := rule.Given(who, ",
		says: "a person approves what a replaced Consul has lost",
	}, {
		rule: "rules: an approval of what a replaced Consul has lost is for what was shown",
		seed: 693,
		file: "engine/reconcile/replaced.go",
		old:  "approved := a != nil && a.Shown == replaced.Shown",
		new:  "approved := a != nil",
		says: "a person approves what a replaced Consul has lost",
	}, {
		rule: "rules: a Consul that is replaced while it is read is read again",
		file: "engine/reconcile/replaced.go",
		old:  "(!t.modules || unseen(rec, shown))",
		new:  "(!t.modules || false && unseen(rec, shown))",
		test: "engine/reconcile TestTick_ConsulThatIsReplacedWhileItIsReadIsReadAgain",
	}, {
		rule: "rules: runs that have read the Consul of before are awaited",
		file: "engine/reconcile/replaced.go",
		old:  "return run != nil && in.Lost == nil &&",
		new:  "return false && in.Lost == nil &&",
		test: "engine/reconcile TestTick_RunThatHasReadTheConsulOfBeforeIsAwaited",
	}, {
		rule: "drift: a check plans with what was applied, not with what Consul shows since",
		file: "engine/runner/drift.go",
		old:  "if !maps.Equal(before.Of(in.Kind.Name), in.Elements) {",
		new:  "if len(in.Elements) < 0 && maps.Equal(before.Of(in.Kind.Name), in.Elements) {",
		test: "engine/runner TestCheck_OtherDataThanWasAppliedIsNotPlanned",
	}, {
		rule: "drift: the outcome of a check counts if no run began since",
		file: "engine/runner/drift.go",
		old:  "if d := task.Data.Drift; d == nil || d.Run == nil || d.Run.ID != run.ID {",
		new:  "if d := task.Data.Drift; d == nil {",
		test: "engine/runner TestCheck_OutcomeIsDroppedIfTheTaskHasRunSince",
	},
}

// removalMutants break the rules of what is destroyed.
var removalMutants = []mutant{
	{
		rule: "removal: nothing is destroyed without an approval",
		seed: removalFirst, stride: removalEvery,
		file: "engine/runner/judge.go",
		old:  "if why := j.task.Removal.Destroy(); why != \"\" {",
		new:  "if why := j.task.Removal.Destroy(); why == \"never\" {",
		says: "nothing is destroyed without an approval of exactly that",
	}, {
		rule: "removal: a task that came back is not destroyed",
		file: "engine/decide/destroy.go",
		old:  "return d.Corrupt == nil && (d.Destroy ||",
		new:  "return d.Corrupt == nil && (d.Destroy || d.state.Waits() != nil && d.state.Run.Destroys() ||",
		test: "engine/decide TestDecide_RemovedTaskIsDestroyedThroughAdmission",
	}, {
		rule: "removal: what was destroyed while a tick read the tasks is not destroyed again",
		seed: removalFirst, stride: removalEvery,
		file: "engine/reconcile/live.go",
		old:  "if in.Destroy && in.State.OnRemoval == \"\" {",
		new:  "if false {",
		says: "what is destroyed is not destroyed again",
	}, {
		rule: "removal: what a person wants to keep stays",
		seed: removalFirst, stride: removalEvery,
		file: "engine/decide/destroy.go",
		old:  "case ended && s.Last.State == state.RunCancelled:",
		new:  "case ended && s.Last.State == state.RunCancelled && !s.Last.Rejected:",
		says: "what a person wants to keep is not destroyed",
	}, {
		rule: "removal: what a removed task has made is destroyed in the end",
		seed: removalFirst, stride: removalEvery,
		file: "engine/reconcile/definition.go",
		old:  "if in.State.OnRemoval == \"\" || in.Blocked != nil",
		new:  "if true || in.Blocked != nil",
		says: "", // not destroyed, or forgotten before
	},
}
