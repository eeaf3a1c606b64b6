package lifecycle

// Predecessor is a situation of a task that another one comes after.
type Predecessor struct {
	Is    string
	Waits bool // the other one waits
	Means string
}

// Predecessors are all situations, in the order of docs/order.md. Tests of package decide try each.
var Predecessors = []Predecessor{
	{"applied", false, "everything that was seen is applied"},
	{"never applied", true, "its first run comes first"},
	{"changed", true, "its run for the change comes first, also if both see the change at the same time"},
	{"changed, as Consul shows, and not read yet", true, "it is read first"},
	{"its condition cannot be read again", true, "it is not known whether it has changed"},
	{"buffering", true, "its change waits for the buffer period"},
	{"changed, and its schedule is not due", true, "its change waits for the schedule"},
	{"running", true, "until the run has ended and its condition was read again"},
	{"waiting for an approval", true, "until its plan is approved and applied, or nothing has to be applied any more"},
	{"outside its window", true, "until its change is applied"},
	{"failed", true, "until a run succeeds"},
	{"interrupted", true, "it runs again first"},
	{"cancelled or rejected", true, "a person has stopped a change that is not applied"},
	{"a run is requested", true, "the request comes first"},
	{"on hold", true, "also if there is nothing to apply: release it, or disable it"},
	{"created or enabled without a run", true, "something waits to be applied"},
	{"destroyed by hand", true, "what it makes is not there"},
	{"unreadable", true, "it is not known whether it has changed"},
	{"blocked", true, "a change of it cannot be applied"},
	{"its record is broken", true, "it is not known what is applied"},
	{"a remote run of it is given up", true, "until that is known to have ended"},
	{"drifted", false, "what Consul shows is applied; with `action: apply`, the run that corrects it comes first"},
	{"checked for drift", false, "a check changes nothing"},
	{"disabled", false, "it has nothing to apply, also if its latest run has failed: a person can let others pass it in this way"},
	{"disabled while its run is under way", true, "until the run has ended"},
	{"at rest, after one that is not", true, "the order holds along the chain"},
	{"disabled, after one that is not at rest", true, "the order holds along the chain"},
	{"removed, named by its name", true, "a name must be that of a task: nothing says that what it made is in order"},
	{"removed, matched by a pattern", false, "a pattern names the tasks of the configuration"},
	{"missing for less than 30 seconds, matched by a pattern", true, "its file may be back in a moment"},
	{"removed while its run is under way, matched by a pattern", true, "until the run has ended; it does not wait for the approval of a destroy"},
	{"renamed, named by its former name", false, "the name means the task whose `moved_from` has it; `validate` says so"},
	{"there is no such task", true, "the name may be wrong, or the task is still to be created: `validate` warns"},
	{"the pattern matches nothing", false, "there is nothing to wait for: `validate` warns"},
	{"the pattern matches the task itself", false, "no task comes after itself; its own name is refused"},
}
