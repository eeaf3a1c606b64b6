package simulate

// crossingMutants break the rules for features that meet.
var crossingMutants = []mutant{
	{
		rule: "crossings: a new leadership requests no runs",
		seed: crossingSeeds,
		file: "reconcile/lead.go",
		old:  "opts := TickOptions{Lease: held, Leads: true}",
		new:  "opts := TickOptions{Lease: held, Leads: true, Force: l.force(\"a new leader\")}",
		says: "a person requests a run, and nobody else",
	}, {
		rule: "crossings: each of two removed tasks that a new one perhaps was is kept",
		seed: crossingSeeds,
		file: "reconcile/renamed.go",
		old:  "for _, name := range before {",
		new:  "for _, name := range before[:1] {",
		says: "what perhaps was renamed is not destroyed",
	}, {
		rule: "crossings: a rename that is reverted makes nothing twice",
		seed: crossingSeeds + 200,
		file: "reconcile/renamed.go",
		old:  "case len(s.Renamed) > 0, s.MovedTo != \"\":",
		new:  "case s.MovedTo != \"\":\n\t\treturn false\n\tcase len(s.Renamed) > 0:",
		says: "", // made twice, or what perhaps was renamed is destroyed,
	}, {
		rule: "crossings: a hold moves with its task",
		seed: crossingSeeds,
		file: "state/renamed.go",
		old:  "cmp.Or(to.OnHold, from.OnHold), ",
		new:  "to.OnHold, ",
		says: "a hold moves with its task",
	}, {
		rule: "crossings: a disabled task stays disabled under its new name",
		seed: crossingSeeds,
		file: "reconcile/takeover.go",
		old:  "case said.Enabled == nil, ",
		new:  "case true, ",
		says: "a disabled task rests",
	}, {
		rule: "crossings: a run that was given up does not overwrite what was applied",
		file: "runner/claim.go",
		old:  "append([]state.Change{state.Check(s.c.run.Record)}, changes...)...)",
		new:  "changes...)",
		says: "what was applied is kept by the run that holds the task",
	}, {
		rule: "crossings: only the leader copies what a renamed task was applied with",
		seed: crossingSeeds,
		file: "reconcile/leading.go",
		old:  "return s.lease.Apply(ctx, changes...)",
		new:  "return s.Store.Apply(ctx, changes...)",
		says: "one leader acts",
	}, {
		rule: "crossings: a task that cannot be read does not hide that Consul was replaced",
		seed: crossingSeeds,
		file: "reconcile/replaced.go",
		old:  "everything && (complete || id.Index >= before.Index)",
		new:  "everything && complete",
		says: "a newer index of Consul is recorded",
	}, {
		rule: "crossings: a removed task that comes back is held if Consul was replaced meanwhile",
		seed: crossingSeeds + 301970,
		file: "reconcile/replaced.go",
		old:  "if !in.State.AppliedAt.IsZero() && (replaced",
		new:  "if len(in.RenamedTo) > 0 && (replaced",
		says: "is gone with a Consul that was replaced",
	}, {
		rule: "crossings: tasks are held on if Consul is replaced once more and comes back",
		file: "reconcile/replaced.go",
		old:  "case marked == 0 || len(back) == 0:",
		new:  "case marked >= 0:",
		test: "reconcile TestTick_TaskIsHeldOnThoughConsulWasReplacedOnceMoreForAWhile",
	}, {
		rule: "crossings: a scheduled run that is superseded while it waits is followed by another",
		file: "state/outcome.go",
		old:  "run.State == RunSuperseded && !before.IsZero()",
		new:  "run.State == \"\" && !before.IsZero()",
		test: "reconcile TestWaiting_ScheduledRunThatIsReplacedIsFollowedByAnother",
	}, {
		rule: "crossings: a removal counts once it has lasted",
		seed: crossingSeeds,
		file: "reconcile/removed.go",
		old:  "reached(since.Add(removalLasts), d.now)",
		new:  "reached(since, d.now)",
		says: "a removal lasts before it counts",
	},
}
