package simulate

// remoteMutants break the rules by which HCP Terraform applies what tasks need.
var remoteMutants = []mutant{
	{
		rule: "remote: a configuration version is recorded before its run is created",
		seed: remoteSeeds,
		file: "driver/hcp/change.go",
		old:  "s.rec.By, s.rec.Content, s.rec.Intent = s.job.Run.ID, s.upload.digest, \"\"\n\tif err := s.record(ctx); err != nil {",
		new:  "s.rec.By, s.rec.Content, s.rec.Intent = s.job.Run.ID, s.upload.digest, \"\"\n\tif err := error(nil); err != nil {",
		says: "a configuration version is recorded before",
	}, {
		rule: "remote: a configuration version gets one run, also if an answer is lost",
		seed: remoteSeeds,
		file: "driver/hcp/change.go",
		old:  "if errors.Is(err, ErrUnknown) {\n\t\tif found,",
		new:  "if errors.Is(err, ErrUnknown) {\n\t\treturn s.api.CreateRun(ctx, n)\n\t\tif found,",
		says: "a content has one run there",
	}, {
		rule: "remote: a run that came late is dealt with before another is created",
		seed: remoteSeeds + 1621,
		file: "driver/hcp/stray.go",
		old:  "if s.isStray(r) {",
		new:  "if false {",
		says: "a workspace has one live run of ours",
	}, {
		rule: "remote: what a person has queued there is left alone",
		seed: remoteSeeds + 623,
		file: "driver/hcp/stray.go",
		old:  "strings.HasPrefix(r.Message, applies)",
		new:  "strings.HasPrefix(r.Message, \"\")",
		says: "what a person has queued there is theirs",
	}, {
		rule: "remote: a plan is confirmed only if the data is still the same",
		seed: remoteSeeds,
		file: "driver/hcp/change.go",
		old:  "s.rec.Content == s.upload.digest && s.rec.Intent",
		new:  "s.rec.Content != \"\" && s.rec.Intent",
		says: "what is applied is what Consul shows",
	}, {
		rule: "remote: a plan is judged before it is confirmed",
		seed: remoteSeeds,
		file: "driver/hcp/change.go",
		old:  "if err := s.job.Judge(ctx, plan); err != nil {",
		new:  "if err := s.job.Judge(ctx, plan); err != nil && s.job.Run.Wait == nil {",
		says: "a plan is judged before it is applied",
	}, {
		rule: "remote: a number that the server does not say is not 0",
		seed: remoteSeeds + 18, stride: 6 * silentEvery, // with rules, and plans that cannot be read
		file: "driver/hcp/api.go",
		old:  "Unknown: !p.Counted}",
		new:  "Unknown: false}",
		says: "it is not known how much it destroys",
	}, {
		rule: "remote: a server that says 0 resources has perhaps not counted them",
		seed: remoteSeeds + othersFirst, stride: othersEvery,
		file: "driver/hcp/made.go",
		old:  "if ws.Resources > 0 {",
		new:  "if true {",
		says: "what another instance has made is not changed unasked",
	}, {
		rule: "remote: what was discarded there is no success",
		seed: remoteSeeds,
		file: "driver/hcp/change.go",
		old:  "case stopped(run):\n\t\treturn nil,",
		new:  "case run.Status == statusDiscarded:\n\t\treturn &state.Changes{}, nil\n\tcase stopped(run):\n\t\treturn nil,",
		says: "success is what was applied",
	}, {
		rule: "remote: what was confirmed after it was given up is doubted until a run succeeds",
		file: "driver/hcp/change.go",
		old:  "s.rec.ConfirmedLate = run.ID",
		new:  "_ = run.ID",
		test: "driver/hcp TestDriver_RunThatWasConfirmedAfterItWasGivenUpIsDoubtedUntilOneSucceeds",
	}, {
		rule: "remote: who confirms a run there approves it",
		seed: remoteSeeds,
		file: "driver/hcp/step.go",
		old:  "if s.rec.Intent == state.RemoteConfirm {",
		new:  "if true {",
		says: "who confirms a run there approves it",
	}, {
		rule: "remote: a workspace that others have created is not deleted",
		seed: remoteSeeds + removalFirst, stride: removalEvery,
		file: "driver/hcp/workspace.go",
		old:  "if !s.rec.Created && s.ws.SourceName != sourceName {",
		new:  "if false {",
		says: "a workspace that others have created stays",
	}, {
		rule: "remote: what counts as applied is what was uploaded, not what was read later",
		seed: remoteSeeds,
		file: "engine/runner/runner.go",
		old:  "} else if readNow {",
		new:  "} else {",
		says: "applied is what was rendered",
	}, {
		rule: "remote: what no run needs any more is stopped there",
		seed: remoteSeeds,
		file: "record/state/remote.go",
		old:  "t.RemoteRun = r.GiveUp(GivenUp{Comment: Cut(",
		new:  "_ = r.GiveUp(GivenUp{Comment: Cut(",
		says: "is left",
	}, {
		rule: "remote: a run goes on only if its run there has",
		seed: remoteSeeds,
		file: "record/state/wait.go",
		old:  "return phase != \"\" && phase != RemotePlanning && phase != waits[f].remote",
		new:  "return phase != \"\"",
		says: "", // it goes on for something else, or on and on
	},
}
