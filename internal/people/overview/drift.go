package overview

import (
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// driftOf returns what the checks for drift have shown; nil if the task is not checked.
// definition may be nil.
func driftOf(t state.Task, definition *config.Task, now time.Time) *apispec.TaskDrift {
	d := t.Drift
	if d == nil {
		return nil
	}
	shown := &apispec.TaskDrift{Checked: apiview.Moment(d.Checked), Error: apiview.Optional(d.Error), Skipped: apiview.Optional(d.Skipped)}
	if d.Run != nil {
		shown.Run = &d.Run.ID
	} else if definition != nil && definition.Enabled && t.Run == nil {
		shown.Next = apiview.Moment(definition.Drift.Next(definition.Name, d.After, now, 0))
	}
	if found := d.Found; found != nil {
		shown.Found = &apispec.Drifted{Since: found.Since, Run: found.Run, Count: found.Count, Persists: apiview.Optional(found.Persists),
			Changes:   *apiview.Changes(found.Changes.Counts()),
			Resources: []apispec.DriftedResource{}}
		for _, r := range found.Resources {
			resource := apispec.DriftedResource{Address: r.Address, Action: r.Action}
			if len(r.Attributes) > 0 {
				resource.Attributes = &r.Attributes
			}
			shown.Found.Resources = append(shown.Found.Resources, resource)
		}
	}
	return shown
}
