package simulate

// sharedMutants break rules by which the instances of a cluster share runs.
var sharedMutants = []mutant{
	{
		rule: "sharing: an instance that is full and silent is not there",
		file: "engine/launch/lives.go",
		old:  "> record.Data.Silent",
		new:  "> record.Data.Silent+time.Hour",
		test: "engine/launch TestShared_FullInstanceThatIsSilentIsNotThere",
	}, {
		rule: "sharing: an instance takes only launches of a leader that works with the same",
		file: "record/linger/instance.go",
		old:  "case launch.Data.Definition != i.Works():",
		new:  "case false:",
		test: "engine/launch TestShared_InstanceThatReadOtherFilesSinceTheOfferDoesNotTakeIt",
	}, {
		rule: "sharing: the leader gives no launch to an instance that works with something else",
		file: "record/linger/instance.go",
		old:  "case r.Data.Definition != o.Definition:",
		new:  "case false:",
		test: "engine/launch TestShared_InstancesWithRoomTakeWhatWaitsAtTheLeader",
	}, {
		rule: "sharing: the leader does not carry out what it has offered",
		file: "engine/launch/shared.go",
		old:  "	s.places(launch.ID, true)\n\tgo func() {",
		new:  "	s.takeBack(launch)\n\tgo func() {",
		says: "the leader ", // carries out what is offered, or what another instance has taken
	}, {
		rule: "sharing: an instance takes a launch only if it has room for it",
		file: "engine/launch/room.go",
		old:  "	if l.room() < runs {",
		new:  "	if l.room() < -runs {",
		test: "engine/launch TestShared_InstanceTakesNothingForWhichItHasNoRoom",
	}, {
		rule: "sharing: what an instance took and did not begin is decided again",
		file: "engine/reconcile/live.go",
		old:  "	if launch.TakenAt.IsZero() || ",
		new:  "	if true || launch.TakenAt.IsZero() || ",
		test: "engine/reconcile TestTick_RunsOfAnInstanceThatDiedAfterItTookTheLaunchAreDecidedAgain",
	}, {
		rule: "sharing: no run begins from an older state than an instance keeps",
		file: "engine/reconcile/batch.go",
		old:  "			run.Unsaved = d.State.Unsaved\n",
		new:  "",
		test: "engine/reconcile TestTick_TaskWhoseStateAnInstanceKeepsRunsOnlyThere",
	},
}
