package simulate

// crossingMutants break the rules for features that meet.
var crossingMutants = []mutant{
	{
		rule: "crossings: a new leadership requests no runs",
		seed: crossingSeeds,
		file: "engine/reconcile/lead.go",
		old:  "opts := TickOptions{Lease: held, Leads: true}",
		new:  "opts := TickOptions{Lease: held, Leads: true, Force: l.force(\"a new leader\")}",
		says: "a person requests a run, and nobody else",
	}, {
		rule: "crossings: each of two removed tasks that a new one perhaps was is kept",
		seed: crossingSeeds,
		file: "engine/reconcile/renamed.go",
		old:  "for _, name := range before {",
		new:  "for _, name := range before[:1] {",
		says: "what perhaps was renamed is not destroyed",
	}, {
		rule: "crossings: a rename that is reverted makes nothing twice",
		seed: crossingSeeds + 200,
		file: "engine/reconcile/renamed.go",
		old:  "case len(s.Renamed) > 0, s.MovedTo != \"\":",
		new:  "case s.MovedTo != \"\":\n\t\treturn false\n\tcase len(s.Renamed) > 0:",
		says: "", // made twice, or what perhaps was renamed is destroyed,
	}, {
		rule: "crossings: what a task perhaps was is kept while its moved_from waits",
		file: "engine/decide/decide.go",
		old:  "if d.Unmoved == \"\" {",
		new:  "if true {",
		test: "engine/reconcile TestRename_MovedFromThatIsTakenBackWhileItWaitsDestroysNothing",
	}, {
		rule: "crossings: a task of a file that the API creates is the same task",
		file: "record/state/transitions.go",
		old:  "if t.Deleted || t.MovedTo != \"\" {",
		new:  "if true {",
		test: "engine/control TestControl_TaskOfAFileThatIsCreatedThroughTheAPIIsTheSameTask",
	}, {
		rule: "crossings: a task that is created for a trial has its own run",
		file: "engine/control/change.go",
		old:  "next.Provisional = &state.Provisional{Since: earlier.Ended}\n\t\t\tif override.Data.Deleted",
		new:  "next.Provisional = &state.Provisional{}\n\t\t\tif override.Data.Deleted",
		test: "engine/control TestControl_TaskOfAFileThatIsCreatedForATrialHasItsOwnRun",
	}, {
		rule: "crossings: a hold moves with its task",
		seed: crossingSeeds,
		file: "record/state/renamed.go",
		old:  "cmp.Or(to.OnHold, from.OnHold), ",
		new:  "to.OnHold, ",
		says: "a hold moves with its task",
	}, {
		rule: "crossings: a disabled task stays disabled under its new name",
		seed: crossingSeeds,
		file: "engine/reconcile/takeover.go",
		old:  "case said.Enabled == nil, ",
		new:  "case true, ",
		says: "a disabled task rests",
	}, {
		rule: "crossings: a run that was given up does not overwrite what was applied",
		file: "engine/runner/claim.go",
		old:  "append([]state.Change{state.Check(s.c.run.Record)}, changes...)...)",
		new:  "changes...)",
		test: "engine/runner TestRun_GivenUpRunDoesNotChangeWhatARemoteRunApplies",
	}, {
		rule: "crossings: only the leader copies what a renamed task was applied with",
		// The history before this one breaks another rule without any edit: a rename that is taken back before
		// its state has moved moves it nevertheless.
		seed: crossingSeeds + 178,
		file: "engine/reconcile/leading.go",
		old:  "return s.lease.Apply(ctx, changes...)",
		new:  "return s.Store.Apply(ctx, changes...)",
		says: "one leader acts",
	}, {
		rule: "crossings: a task that cannot be read does not hide that Consul was replaced",
		seed: crossingSeeds,
		file: "engine/reconcile/replaced.go",
		old:  "everything && (complete || id.Index >= before.Index)",
		new:  "everything && complete",
		says: "a newer index of Consul is recorded",
	}, {
		rule: "crossings: a removed task that comes back is held if Consul was replaced meanwhile",
		file: "engine/reconcile/replaced.go",
		old:  "if !in.State.AppliedAt.IsZero() && (replaced",
		new:  "if len(in.RenamedTo) > 0 && (replaced",
		test: "engine/reconcile TestTick_TaskThatWasRemovedWhenConsulWasReplacedIsHeldOnceItIsBack",
	}, {
		rule: "crossings: tasks are held on if Consul is replaced once more and comes back",
		file: "engine/reconcile/replaced.go",
		old:  "case marked == 0 || len(back) == 0:",
		new:  "case marked >= 0:",
		test: "engine/reconcile TestTick_TaskIsHeldOnThoughConsulWasReplacedOnceMoreForAWhile",
	}, {
		rule: "crossings: a scheduled run that is superseded while it waits is followed by another",
		seed: crossingSeeds + 20,
		file: "record/state/outcome.go",
		old:  "run.State == RunSuperseded && !before.IsZero()",
		new:  "run.State == \"\" && !before.IsZero()",
		says: "whatever a run was begun for survives until it ends",
	}, {
		rule: "crossings: only a tick that has read every view counts as one",
		seed: crossingSeeds + 594,
		file: "engine/reconcile/finish.go",
		old:  "if t.everything && (",
		new:  "if true && (",
		says: "a newer index of Consul is recorded",
	}, {
		rule: "crossings: new input does not make again what a person has destroyed",
		seed: removalFirst, stride: removalEvery,
		file: "engine/decide/why.go",
		old:  "held.Observed == d.state.Observed || held.Observed == \"\"",
		new:  "held.Observed == d.state.Observed",
		says: "what a person ended stays ended",
	}, {
		rule: "crossings: what a person has destroyed is held by the definition that it had",
		seed: 34819, stride: removalEvery,
		file: "record/state/outcome.go",
		old:  "t.Held, t.HoldNext, t.Pending = &Attempt{Definition: t.Attempted.Definition}, false, nil",
		new:  "t.Held, t.HoldNext, t.Pending = nil, true, nil",
		says: "what a person ended stays ended",
	}, {
		rule: "crossings: a removal counts once it has lasted",
		seed: crossingSeeds,
		file: "engine/decide/removed.go",
		old:  "clock.Reached(since.Add(removalLasts), d.now)",
		new:  "clock.Reached(since, d.now)",
		says: "a removal lasts before it counts",
	},
}
