package simulate

// verifiedMutants break what holds for tasks that are verified.
var verifiedMutants = []mutant{
	{
		rule: "verification: what is not verified says so",
		seed: orderSeeds, stride: 2,
		file: "record/state/verification.go",
		old:  "	if v.Passed() {\n\t\tt.Applied.Unverified = nil",
		new:  "	if v.Passed() || v.State == VerifyInterrupted {\n\t\tt.Applied.Unverified = nil",
		says: "what is not verified says so",
	}, {
		rule: "verification: what is not verified says so, also if HCP Terraform has applied it",
		seed: remoteOrderSeeds, stride: 2,
		file: "record/state/verification.go",
		old:  "	if v.Passed() {\n\t\tt.Applied.Unverified = nil",
		new:  "	if v.Passed() || v.State == VerifyFailed {\n\t\tt.Applied.Unverified = nil",
		says: "what is not verified says so",
	}, {
		rule: "verification: a failure puts its task on hold",
		seed: orderSeeds, stride: 2,
		file: "record/state/verification.go",
		old:  "r.State == VerifyFailed && r.Holds && t.OnHold == nil",
		new:  "r.State == VerifyFailed && r.Holds && t.OnHold == nil && was.Applied.Unverified != nil",
		says: "a failure puts its task on hold",
	}, {
		rule: "verification: nothing that comes after a task begins before it is verified",
		seed: orderSeeds, stride: 2,
		file: "engine/decide/order.go",
		old:  "case !lifecycle.Verified(*s):",
		new:  "case false && !lifecycle.Verified(*s):",
		says: "a task comes after its predecessors",
	}, {
		rule: "verification: it lasts until a run is verified",
		seed: orderSeeds, stride: 2,
		file: "record/state/outcome.go",
		old:  "	case run.State == RunFailed, run.State == RunLost:\n",
		new:  "	case run.State == RunFailed, run.State == RunLost:\n\t\tnext.Applied.Unverified = nil\n",
		says: "only a run that is verified ends that a task is not",
	},
}
