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
		old:  "now.Sub(q.room) < meantEvery",
		new:  "q.room == now || !q.room.IsZero()",
		test: "engine/launch TestShared_LaunchBeginsWithoutAnInstanceThatIsNotThere",
	}, {
		rule: "sharing: a launch waits for an instance that has room for a moment only",
		file: "engine/launch/meant.go",
		old:  "	case q.room.IsZero():\n		q.room = now\n",
		new:  "	default:\n		q.room = launch.Created\n",
		test: "engine/launch TestShared_LaunchWaitsForAnInstanceThatHasRoomForAMoment",
	}, {
		rule: "sharing: who has not taken an open launch does not begin it",
		file: "engine/launch/lead.go",
		old:  "if !has {",
		new:  "if !has && false {",
		test: "engine/launch TestShared_LaunchThatIsTakenAtTheLastMomentBeginsOnce",
	}, {
		rule: "sharing: a launch that is being opened does not begin",
		file: "engine/launch/lead.go",
		old:  "			others--\n			err = l.open(ctx, q)\n",
		new:  "			others--\n			go l.open(ctx, q)\n",
		test: "engine/launch TestShared_LaunchThatIsBeingOpenedBeginsOnce",
	}, {
		rule: "sharing: a launch whose opening got no answer is perhaps open",
		file: "engine/launch/lead.go",
		old:  "		l.opened.stale.Store(true)\n		return err\n",
		new:  "		q.open.Key = \"\"\n		return err\n",
		test: "engine/launch TestShared_LaunchThatIsPerhapsOpenAndWasTakenBeginsOnce",
	}, {
		rule: "sharing: what another instance has taken waits at the leader no more",
		file: "engine/launch/lead.go",
		old:  "		l.drop(q)\n		if q.open.Version",
		new:  "		q.open = state.Record{Version: \"1\"}\n		if q.open.Version",
		test: "engine/launch TestShared_LaunchThatTheLeaderFindsTakenWhenItHasRoomBeginsOnce",
	}, {
		rule: "sharing: what another instance has taken is under way at the leader no more",
		file: "engine/launch/lead.go",
		old:  "		l.forget(q.launch.ID)\n",
		new:  "",
		test: "engine/launch TestShared_LaunchThatWasTakenIsInNoQueueAndCanBeStartedAgain",
	}, {
		rule: "sharing: a leader opens its own launches alone",
		file: "engine/launch/lead.go",
		old:  "} else if _, err := l.take(ctx, l.apply, record); err != nil {",
		new:  "} else if err := error(nil); err != nil {",
		test: "engine/launch TestShared_NothingIsCarriedOutTwiceWhenTheLeadershipChanges",
	}, {
		rule: "sharing: what waits at a leader is not under way once it leads no more",
		file: "engine/launch/lead.go",
		old:  "starts them\n			l.drop(q)\n",
		new:  "starts them\n			_ = q\n",
		test: "engine/launch TestShared_NothingIsCarriedOutTwiceWhenTheLeadershipChanges",
	}, {
		rule: "sharing: an instance that stops waits for a launch that it takes",
		file: "engine/launch/local.go",
		old:  "func (l *Local) Wait() { l.work.Wait() }",
		new:  "func (l *Local) Wait() {}",
		test: "engine/launch TestShared_InstanceThatStopsWaitsForALaunchThatItTakes",
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
