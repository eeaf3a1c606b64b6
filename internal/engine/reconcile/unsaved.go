package reconcile

import (
	"context"
	"fmt"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
)

// findKeepers finds out whether the instances can be given runs that keep the states which no backend has.
func (t *tick) findKeepers(ctx context.Context, inputs []decide.Input) error {
	sharer, shares := t.Launcher.(Sharer)
	for i := range inputs {
		u := inputs[i].State.Unsaved
		if u == nil || !u.Instance {
			continue
		}
		inputs[i].Unreached = "runs are not given to instances"
		if !shares {
			continue
		}
		var err error
		if inputs[i].Unreached, err = sharer.Unreached(ctx, u.Runner); err != nil {
			return fmt.Errorf("find out whether instance %s can be given the run of task %s, whose state it keeps: %w", u.Runner, inputs[i].Task.Name, err)
		}
	}
	return nil
}
