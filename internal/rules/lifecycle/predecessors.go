package lifecycle

// Situation is a situation of a task in the order of tasks, and what it means for another task.
type Situation struct {
	Is    string
	Waits bool // the other one waits
	Means string
}

// Predecessors are all situations of a task that another one comes after, in the order of docs/order.md.
// Tests of package decide try each.
var Predecessors = []Situation{
	{"applied", false, "all data that was read is applied"},
	{"never applied", true, "its first run comes first"},
	{"changed", true, "its run for the change comes first, also if both tasks see the change at the same time"},
	{"changed, as Consul shows, and not read yet", true, "it is read first"},
	{"its condition cannot be read again", true, "it is not known whether it has changed"},
	{"buffering", true, "its change waits for the buffer period"},
	{"changed, and its schedule is not due", true, "its change waits for the schedule"},
	{"running", true, "until the run has ended and its condition was read again"},
	{"being verified", true, "until its verification has ended, also if another process has to continue it"},
	{"not verified", true, "nothing shows that it works, until a later run is verified"},
	{"waiting for an approval", true, "until its plan is approved and applied, or there is nothing to apply any more"},
	{"outside its window", true, "until its change is applied"},
	{"queued", true, "its run comes first"},
	{"Consul was replaced", true, "until the lost entries are back, or their loss is approved"},
	{"failed", true, "until a run succeeds"},
	{"interrupted", true, "it runs again first"},
	{"its Terraform state is not saved", true, "until it is saved and a run succeeds"},
	{"cancelled or rejected", true, "a person has stopped a change that is not applied"},
	{"a run is requested", true, "the request comes first"},
	{"on hold", true, "even if there is nothing to apply: release it, or disable it"},
	{"created or enabled without a run", true, "there is something to apply"},
	{"perhaps renamed", true, "it has applied nothing under this name: say whether it was renamed"},
	{"destroyed by hand", true, "its infrastructure does not exist"},
	{"unreadable", true, "it is not known whether it has changed"},
	{"blocked", true, "its changes cannot be applied"},
	{"its record is broken", true, "it is not known what is applied"},
	{"a remote run of it is given up", true, "until this run is known to have ended"},
	{"drifted", false, "the data in Consul is applied; with `action: apply`, the run that corrects the drift comes first"},
	{"checked for drift", false, "a check changes nothing"},
	{"disabled", false, "it has nothing to apply, even if its latest run has failed. So a person can disable it to let its successors run"},
	{"disabled while its run is under way", true, "until the run has ended"},
	{"at rest, after one that is not", true, "the order holds along the chain"},
	{"disabled, after one that is not at rest", true, "the order holds along the chain"},
	{"removed, named by its name", true, "a name must be the name of a task: the state of its infrastructure is not known"},
	{"removed, matched by a pattern", false, "a pattern names the tasks of the configuration"},
	{"missing for less than 30 seconds, matched by a pattern", true, "its file may come back"},
	{"removed while its run is under way, matched by a pattern", true, "until the run has ended; it does not wait for the approval of a destroy"},
	{"renamed while its run is under way, matched by a pattern", true, "until the run has ended, also if the pattern does not match its new name"},
	{"renamed, named by its former name", false, "the name stands for the task whose `moved_from` contains it; `validate` reports this"},
	{"there is no such task", true, "the name may be wrong, or the task will be created later: `validate` warns"},
	{"the pattern matches nothing", false, "there is nothing to wait for: `validate` warns"},
	{"the pattern matches the task itself", false, "a task never waits for itself; its own name is refused"},
}

// Successors are all situations of a task that comes after one which is to be destroyed. Tests of package
// decide try each.
var Successors = []Situation{
	{"at rest", false, "it stays, and applies nothing"},
	{"changed", false, "its run waits, because its predecessor is not at rest any more"},
	{"waiting for an approval", false, "its run does not continue before its predecessor is at rest"},
	{"on hold", false, "it applies nothing"},
	{"running", true, "until the run has ended"},
	{"being verified", true, "until its verification has ended, also if another process has to continue it"},
	{"planned in HCP Terraform", false, "nothing is applied before the plan is confirmed"},
	{"applied in HCP Terraform", true, "until its remote run has ended"},
	{"confirmed in HCP Terraform", true, "until its remote run has ended"},
	{"a remote run of it is given up", true, "until this run is known to have ended"},
	{"its run was lost", true, "until that is recorded, by the same tick"},
	{"checked for drift", false, "a check changes nothing"},
	{"its record is broken", true, "it is not known whether a run of it is under way"},
	{"running, after one that stays", true, "the order holds along the chain"},
	{"renamed while its run is under way", true, "until the run has ended: the `after` of its new name counts"},
	{"removed without `on_removal: destroy`", false, "it stays"},
	{"removed without `on_removal: destroy`, and running", true, "until the run has ended"},
	{"to be destroyed, after one that was removed and stays", true, "the order holds along the chain"},
	{"to be destroyed", true, "it is destroyed first"},
	{"to be destroyed, and waiting for an approval", true, "until it is destroyed, or somebody has rejected that"},
	{"to be destroyed, and on hold", true, "until it is released and destroyed"},
	{"to be destroyed, and put on hold by its verification", true, "until it is released and destroyed"},
	{"to be destroyed, and outside its window", true, "until it is destroyed"},
	{"to be destroyed, and the destroy has failed", true, "until a retry succeeds"},
	{"to be destroyed, and that is not possible", true, "until the cause is gone, or its records are removed with `terrapulse forget`"},
	{"to be destroyed, and perhaps renamed", true, "nothing of it is destroyed before somebody says whether it was renamed"},
	{"to be destroyed, and missing for less than 30 seconds", true, "its file may come back"},
	{"to be destroyed, after one that stays", true, "the order holds along the chain"},
	{"to be destroyed, after one that was renamed", true, "the order holds along the chain: the `after` of the new name counts"},
	{"destroyed", false, "there is nothing to destroy"},
	{"its destroy was rejected or cancelled", false, "a person has decided that it stays"},
	{"to be destroyed, in a cycle of definitions of different times", false, "one task of the cycle begins"},
}
