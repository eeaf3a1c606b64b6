package state

import (
	"fmt"
	"time"
)

// Unsaved is Terraform's state after a run, which the backend did not take. What that run made is in
// no other state: a run that does not have it would make everything again.
type Unsaved struct {
	Run    string    `json:"run"`
	Since  time.Time `json:"since"`
	Runner string    `json:"runner,omitempty"` // that has it, as in Run
	// Instance says that Runner is an instance of a cluster: the next run of the task can be given to it.
	Instance bool   `json:"instance,omitempty"`
	Place    string `json:"place,omitempty"` // file or URL; empty if it is lost
	// State tells it from other states of the task: lineage, serial and a digest; empty if it cannot be read.
	State string `json:"state,omitempty"`
}

// String says where the state is.
func (u *Unsaved) String() string {
	could := fmt.Sprintf("the Terraform state after run %s could not be saved", u.Run)
	switch {
	case u.Place == "":
		return could + ", and is lost"
	case u.Instance:
		return fmt.Sprintf("%s: instance %s keeps it in %s", could, u.Runner, u.Place)
	}
	return could + ": it is kept in " + u.Place
}

// Help says what a person can do where the state is not. destroys says that the run destroys what the
// task has made: a task that is removed has no other.
func (u *Unsaved) Help(task string, destroys bool) string {
	again := "terrapulse run " + task
	if destroys {
		again = "terrapulse destroy " + task
	}
	without := fmt.Sprintf("Without that state, `%s` plans from the older one, and waits for an approval", again)
	switch {
	case u.Place == "":
		return without
	case u.Instance:
		return fmt.Sprintf("Start %s: the task runs there, and saves the state first. Or write the state to the backend with `terraform state push`, "+
			"and run `%s`. %s", u.Runner, again, without)
	}
	return fmt.Sprintf("Write the state to the backend with `terraform state push`. %s", without)
}

// ForPerson reports whether a person has requested the run. Such a run may begin without the state
// that an earlier one could not save: then its plan waits for an approval.
func (r Run) ForPerson() bool {
	return r.Reason.Code == ReasonForced && !r.Replaces || r.Kind == KindDestroy && r.ByHand
}

// Keeper returns the instance of a cluster that should carry out the next run of the task, because the
// latest state may be in its folder: it keeps a state that could not be saved, or its latest run was lost.
// It is empty if each instance can carry out the run.
func (t Task) Keeper() (instance string) {
	switch u := t.Unsaved; {
	case u != nil && u.Instance:
		return u.Runner
	case u == nil && t.Ended.In(RunLost):
		return t.Ended.Last.Runner
	}
	return ""
}

// noteUnsaved takes over what a run has found or left. The record of a run without a launch is gone, or
// it was none.
func (t Task) noteUnsaved(run Run) Task {
	if run.Launch != "" && run.Kind.Applies() {
		t.Unsaved = run.Unsaved
	}
	return t
}
