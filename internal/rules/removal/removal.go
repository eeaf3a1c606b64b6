// Package removal says what happens to the infrastructure of a task that is removed,
// and whether a person must approve that it is destroyed: the keys on_removal and
// approve_destroy of a task, or of the whole configuration.
package removal

import "github.com/terrapulse/terrapulse/internal/base/block"

// Action is what happens to the infrastructure of a removed task.
type Action string

// The actions.
const (
	Keep    Action = "keep"
	Destroy Action = "destroy"
)

// Approve says whether a person must approve the plan of a destroy.
type Approve string

// The values of approve_destroy.
const (
	Always Approve = "always"
	Never  Approve = "never"
)

// Spec is the rule of a task.
type Spec struct {
	On      Action  `json:"on_removal"`
	Approve Approve `json:"approve_destroy"`
}

// Default is the rule of a task that configures none.
var Default = Spec{On: Keep, Approve: Always}

// Keys are the keys of a task or of the whole configuration.
type Keys struct {
	OnRemoval      block.String `key:"on_removal" default:"keep" one:"keep destroy" doc:"what happens to a task's infrastructure when the task is removed from its file or through the API"`
	ApproveDestroy block.String `key:"approve_destroy" default:"always" one:"always never" doc:"whether a person must approve the destroy of a task's infrastructure"`
}

// Spec checks the keys, and returns the rule: a key that is not set has the value of
// parent.
func (k *Keys) Spec(r *block.Report, parent Spec) Spec {
	s := Spec{On: Action(k.OnRemoval.Or(string(parent.On))), Approve: Approve(k.ApproveDestroy.Or(string(parent.Approve)))}
	if k.OnRemoval.Set && s.On != Keep && s.On != Destroy {
		r.Fail(k.OnRemoval.Origin, "invalid on_removal "+block.Quoted(k.OnRemoval.V), "allowed: keep, destroy")
	}
	if k.ApproveDestroy.Set && s.Approve != Always && s.Approve != Never {
		r.Fail(k.ApproveDestroy.Origin, "invalid approve_destroy "+block.Quoted(k.ApproveDestroy.V), "allowed: always, never")
	}
	return s
}

// String says in words what happens when the task is removed.
func (s Spec) String() string {
	switch {
	case s.On == Keep:
		return "everything that the task has made stays when it is removed"
	case s.Approve == Never:
		return "everything that the task has made is destroyed when it is removed"
	}
	return "everything that the task has made is destroyed when it is removed, if a person approves it"
}

// Destroy says why the plan of a destroy needs an approval; "" if it needs none.
func (s Spec) Destroy() string {
	if s.Approve == Never {
		return ""
	}
	return "everything that the task has made would be destroyed"
}
