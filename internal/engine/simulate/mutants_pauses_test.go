package simulate

// pauseMutants break what holds while everything is paused.
var pauseMutants = []mutant{
	{
		rule: "pause: no tick that has read the pause decides on a run",
		seed: pauseFirst + 2000, stride: pauseEvery, // in AWS; on one machine, such a tick repeats without a pause
		file: "engine/decide/admit_paused.go",
		old:  "if d.Paused == nil || !t.run ||",
		new:  "if true ||",
		says: "while everything is paused",
	}, {
		rule: "pause: a runner that claims a run after the pause does not apply it",
		seed: pauseFirst, stride: pauseEvery,
		file: "engine/runner/task.go",
		old:  "if paused != nil && c.claimed.Kind.Applies()",
		new:  "if paused != nil && !c.claimed.Kind.Applies()",
		says: "nothing is applied while everything is paused",
	}, {
		rule: "pause: the record that a tick writes keeps a pause that came meanwhile",
		seed: pauseFirst, stride: pauseEvery,
		file: "engine/reconcile/finish.go",
		old:  "next.Paused, next.Resumed = rec.Data.Paused, rec.Data.Resumed",
		new:  "next.Resumed = rec.Data.Resumed",
		says: "pause", // it is ended, or begins again
	}, {
		rule: "pause: a new deployment applies nothing before somebody resumes",
		seed: pauseFirst, stride: pauseEvery,
		file: "engine/reconcile/tick.go",
		old:  "if t.BeginsPaused {",
		new:  "if false {",
		says: "a new deployment applies nothing",
	}, {
		rule: "pause: a new deployment that somebody resumes before its first tick is not paused",
		seed: pauseFirst, stride: pauseEvery,
		file: "record/state/paused.go",
		old:  "return r.Paused == nil && r.Resumed.IsZero() &&",
		new:  "return r.Paused == nil &&",
		says: "a person pauses",
	}, {
		rule: "pause: no tick is due for checks for drift",
		file: "engine/reconcile/drift.go",
		old:  "case t.rec.Data.Paused != nil: // a tick follows the resume",
		new:  "case false:",
		test: "engine/reconcile TestPause_ChecksForDriftWait",
	}, {
		rule: "pause: a run that is superseded by a pause is no failure",
		seed: pauseFirst, stride: pauseEvery,
		file: "engine/runner/runner.go",
		old:  "!run.Replaces || errors.Is(err, errPaused)",
		new:  "!run.Replaces",
		says: "a pause is no failure",
	},
}
