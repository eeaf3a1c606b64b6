package simulate

// lingerMutants break the protocol by which runners that linger take launches.
var lingerMutants = []mutant{
	{
		rule: "linger: a launch that is offered gets no container before the offer is withdrawn",
		seed: lingerFirst, stride: lingerEvery,
		file: "engine/reconcile/launch.go",
		old:  "if launches[i].Offered() {",
		new:  "if false {",
		says: "an offer is withdrawn before the launch gets a container",
	}, {
		rule: "linger: a launch gets a container only if its offer was withdrawn, not if the runner was faster",
		seed: lingerFirst, stride: lingerEvery,
		file: "record/linger/offer.go",
		old:  "err = o.withdraw(ctx, now)\n\t\tif err == nil {",
		new:  "err = o.withdraw(ctx, now)\n\t\tif err == nil || errors.As(err, new(*state.ConflictError)) {",
		says: "gets ", // a container, though a runner has taken the launch, or may still take it
	}, {
		rule: "linger: a withdrawal says who has the launch",
		seed: lingerFirst, stride: lingerEvery,
		file: "record/linger/offer.go",
		old:  "next.Taker = state.TakenByContainer",
		new:  "next.Taker = \"\"",
		says: "an offer is withdrawn before the l", // launch gets a container, or leader carries it out
	}, {
		rule: "linger: a launch that a runner has taken is not started again",
		file: "engine/reconcile/live.go",
		old:  "case launch.Data.TakenByRunner(): // it is claimed",
		new:  "case false: // it is claimed",
		test: "engine/reconcile TestTick_LaunchThatARunnerHasTakenGetsNoContainerThoughTheRunnerIsNotSeen",
	}, {
		rule: "linger: a runner of another task definition gets no offer",
		seed: lingerFirst, stride: lingerEvery,
		file: "record/linger/offer.go",
		old:  "case runner.Data.Definition != o.Definition:",
		new:  "case runner.Data.Definition == \"\":",
		says: "a runner of another task definition gets no offer",
	}, {
		rule: "linger: a runner that works gets no offer",
		file: "record/linger/offer.go",
		old:  "case !runner.Data.Free():",
		new:  "case runner.Data.Offer != \"\":",
		test: "record/linger TestLinger_FreeRunnerTakesALaunchAtOnce",
	}, {
		rule: "linger: without Linger nothing is read about runners",
		seed: lingerFirst, stride: lingerEvery,
		file: "engine/reconcile/batch.go",
		old:  "if b.tick.Linger == 0 || !b.launches.Applies() {",
		new:  "if !b.launches.Applies() {",
		says: "without Linger no runners are read",
	},
}
