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
		file: "engine/launch/shared.go",
		old:  "open.Data.Works != works || ",
		new:  "works == \"\" || ",
		test: "engine/launch TestShared_InstanceThatReadOtherFilesThanTheLeaderTakesNothing",
	}, {
		rule: "sharing: an instance leaves launches that are for another one",
		file: "engine/launch/shared.go",
		old:  " || launch.For != \"\" && launch.For != s.ID {",
		new:  " {",
		test: "engine/launch TestShared_LaunchThatIsMeantForAnInstanceWaitsForRoomThere",
	}, {
		rule: "sharing: no launch waits for an instance that works with something else",
		file: "engine/launch/meant.go",
		old:  "case r.Data.Definition != s.Works():",
		new:  "case false:",
		test: "engine/launch TestShared_LaunchBeginsWithoutAnInstanceThatIsNotThere",
	}, {
		rule: "sharing: no launch waits for an instance that has room and does not take it",
		file: "engine/launch/meant.go",
		old:  "s.waitsOn(id, instance.Room > 0)",
		new:  "s.waitsOn(id, instance.Room < 0)",
		test: "engine/launch TestShared_LaunchBeginsWithoutAnInstanceThatIsNotThere",
	}, {
		rule: "sharing: who has not taken an open launch does not begin it",
		file: "engine/launch/local.go",
		old:  "if l.take != nil && !l.take(l.ctx, launch.ID) {",
		new:  "if l.take != nil && !l.take(l.ctx, launch.ID) && false {",
		test: "engine/launch TestShared_LaunchThatIsTakenAtTheLastMomentBeginsOnce",
	}, {
		rule: "sharing: what another instance has taken waits at the leader no more",
		file: "engine/launch/room.go",
		old:  "delete(l.alive, launch)\n",
		new:  "_ = launch\n",
		test: "engine/launch TestShared_LaunchThatWasTakenIsInNoQueueAndCanBeStartedAgain",
	}, {
		rule: "sharing: a leader opens its own launches alone",
		file: "engine/launch/lead.go",
		old:  "if !l.began {",
		new:  "if false {",
		test: "engine/launch TestShared_NothingIsCarriedOutTwiceWhenTheLeadershipChanges",
	}, {
		rule: "sharing: an instance takes a launch only if it has room for it",
		file: "engine/launch/room.go",
		old:  "	if l.room() < 1 {",
		new:  "	if l.room() < -1 {",
		test: "engine/launch TestShared_InstanceTakesNothingForWhichItHasNoRoom",
	}, {
		rule: "sharing: no run begins from an older state than an instance keeps",
		file: "engine/reconcile/batch.go",
		old:  "			run.Unsaved = d.State.Unsaved\n",
		new:  "",
		test: "engine/reconcile TestTick_TaskWhoseStateAnInstanceKeepsRunsOnlyThere",
	},
}
