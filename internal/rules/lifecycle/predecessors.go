package lifecycle

// Predecessor is a situation of a task that another one comes after.
type Predecessor struct {
	Is    string
	Waits bool // the other one waits
	Means string
}

// Predecessors are all situations, in the order of docs/order.md. Tests of package decide try each.
var Predecessors = []Predecessor{
	{"applied", false, "all data that was read is applied"},
	{"never applied", true, "its first run comes first"},
	{"changed", true, "its run for the change comes first, also if both tasks see the change at the same time"},
	{"changed, as Consul shows, and not read yet", true, "it is read first"},
	{"its condition cannot be read again", true, "it is not known whether it has changed"},
	{"buffering", true, "its change waits for the buffer period"},
	{"changed, and its schedule is not due", true, "its change waits for the schedule"},
	{"running", true, "until the run has ended and its condition was read again"},
	{"waiting for an approval", true, "until its plan is approved and applied, or there is nothing to apply any more"},
	{"outside its window", true, "until its change is applied"},
	{"failed", true, "until a run succeeds"},
	{"interrupted", true, "it runs again first"},
	{"cancelled or rejected", true, "a person has stopped a change that is not applied"},
	{"a run is requested", true, "the request comes first"},
	{"on hold", true, "even if there is nothing to apply: release it, or disable it"},
	{"created or enabled without a run", true, "there is something to apply"},
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
