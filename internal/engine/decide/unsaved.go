package decide

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// holdUnsaved refuses a task while the instance is not there that keeps its latest Terraform state: from
// an older one, everything would be made again. A run that a person has requested begins, and its plan
// waits for an approval: the driver requires that. So does a run that waited.
func holdUnsaved(d *decider, t trigger) *hold {
	s := &d.state
	if d.Unreached == "" || !t.run || d.waits() || s.Forced.By != "" && !s.Forced.Replaces || s.Destroy != nil {
		return nil
	}
	return refuse(state.ReasonUnsaved, time.Time{}, "%s, and %s. %s", s.Unsaved, d.Unreached, s.Unsaved.Help(d.Task.Name, d.destroys()))
}
