package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// checkTimeout is how long a check for drift may take if its task has no limit:
	// other checks wait for it.
	checkTimeout = time.Hour

	// keptAttributes is how many attributes of a resource a task's record names, and
	// keptName how many bytes of each name.
	keptAttributes = 8
	keptName       = 200
)

// sameInput returns an error if the task would be planned with other data than it was
// applied with: then the plan would show that, and not drift.
func sameInput(now *consul.Snapshot, before state.Inputs, unknown bool) error {
	if unknown {
		return fmt.Errorf("%w: the record of what was applied last is incomplete", errSuperseded)
	}
	for _, in := range now.Inputs {
		if !maps.Equal(before.Of(in.Kind.Name), in.Elements) {
			return fmt.Errorf("%w: %s in Consul are not those that were applied last, so that a plan would not show drift", errSuperseded, in.Kind.Entries)
		}
	}
	return nil
}

// numbered numbers the events of a task.
func numbered(task *state.Task, events []outbox.Event) []outbox.Event {
	for i := range events {
		events[i] = outbox.Number(task, events[i])
	}
	return events
}

// driftOf returns what the plan of a check would change; nil if that is nothing.
func driftOf(plan driver.Plan) *state.Drifted {
	if !plan.Changes.Any() {
		return nil
	}
	found := &state.Drifted{Resources: []state.DriftedResource{}, Changes: *plan.Changes.Counts()}
	found.Changes.Uncounted = plan.Changes.Uncounted
	outside := map[string]driver.ResourceChange{} // what was changed outside of Terrapulse
	for _, r := range plan.Drift {
		outside[r.Address] = r
	}
	all := sha256.New()
	add := func(address string, action driver.Action, attributes []driver.AttributeChange) {
		fmt.Fprintf(all, "%s %s\n", address, action)
		r := state.DriftedResource{Address: cutName(address), Action: string(action)}
		for _, a := range attributes {
			fmt.Fprintf(all, "  %s\n", a.Path)
			if len(r.Attributes) < keptAttributes {
				r.Attributes = append(r.Attributes, cutName(a.Path))
			}
		}
		if found.Count++; len(found.Resources) < state.KeptResources {
			found.Resources = append(found.Resources, r)
		}
	}
	for _, r := range plan.Resources {
		switch attributes := r.Attributes; r.Action {
		case driver.Read, driver.NoOp:
		case driver.Create, driver.Delete:
			add(r.Address, r.Action, nil) // all of its attributes
		default:
			if o, ok := outside[r.Address]; ok && len(o.Attributes) > 0 {
				attributes = o.Attributes
			}
			add(r.Address, r.Action, attributes)
		}
	}
	if plan.Resources == nil { // the plan was made elsewhere, and perhaps only its numbers are known
		fmt.Fprintf(all, "%d %d %d\n", plan.Changes.Add, plan.Changes.Change, plan.Changes.Destroy)
		for _, r := range plan.Changes.Resources {
			add(r.Address, driver.Action(r.Action), nil)
		}
		found.Count = max(found.Count, plan.Changes.Add+plan.Changes.Change+plan.Changes.Destroy)
	}
	for _, o := range plan.Outputs {
		fmt.Fprintf(all, "output %s\n", o.Name)
	}
	found.Digest = hex.EncodeToString(all.Sum(nil))
	return found
}

func cutName(name string) string {
	if len(name) > keptName {
		return strings.ToValidUTF8(name[:keptName], "") + "…"
	}
	return name
}
