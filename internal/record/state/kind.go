package state

import (
	"fmt"
	"time"
)

// Kind is what a run does.
type Kind string

// The kinds of run.
const (
	KindApply   Kind = "apply"   // makes the infrastructure what the data says
	KindPlan    Kind = "plan"    // shows what an apply would change, because somebody requested it
	KindDrift   Kind = "drift"   // shows what differs from what was applied last
	KindDestroy Kind = "destroy" // destroys what was applied last
)

// keptApart is how long the record of a run is kept that is not in its task's
// history, and keptCheck that of a check for drift, unless the next check removes it.
const (
	keptApart = 24 * time.Hour
	keptCheck = 30 * 24 * time.Hour
)

// kinds are the properties of each kind of run. Decode refuses records of other kinds.
var kinds = map[Kind]struct{ applies, occupies bool }{
	KindApply:   {applies: true, occupies: true},
	KindPlan:    {},
	KindDrift:   {},
	KindDestroy: {applies: true, occupies: true},
}

func (k Kind) check() error {
	if _, ok := kinds[k]; !ok {
		return fmt.Errorf("%q is not a kind of run", string(k))
	}
	return nil
}

// Applies reports whether a run of this kind changes infrastructure.
func (k Kind) Applies() bool { return kinds[k].applies }

// Occupies reports whether a run of this kind is its task's one live run and
// counts in its history. The record of a task does not mention other runs.
func (k Kind) Occupies() bool { return kinds[k].occupies }

// Destroys reports whether the run destroys what the task has made.
func (r LiveRun) Destroys() bool { return r.Kind == KindDestroy }

// KeptUntil is when the records of the run expire; zero if they are kept as long
// as the run is in its task's history.
func (r Run) KeptUntil() time.Time {
	switch {
	case r.State == RunSuperseded:
		return r.Ended.Add(keptApart)
	case r.Kind == KindDrift:
		return r.Created.Add(keptCheck)
	case !r.Kind.Occupies():
		return r.Created.Add(keptApart)
	}
	return time.Time{}
}
