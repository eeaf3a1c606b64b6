package overview

import (
	"context"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// Phases returns the names of the tasks in each phase, from all records. It is for programs that must
// stay small: they link nothing of what people see of a task.
func (r Reader) Phases(ctx context.Context, effective *overlay.Effective) (map[lifecycle.Phase][]string, error) {
	r.Known = new(Known)
	rec, err := state.ReadReconcile(ctx, r.Store)
	if err != nil {
		return nil, err
	}
	l := &List{reader: r, effective: effective, rec: rec.Data}
	if err := l.readAll(ctx); err != nil {
		return nil, err
	}
	phases := map[lifecycle.Phase][]string{}
	for i := range l.entries {
		e := &l.entries[i]
		f, err := r.facts(ctx, effective, e, l.rec)
		if err != nil {
			return nil, err
		}
		phase := f.Assess().Phase
		phases[phase] = append(phases[phase], e.name)
	}
	return phases, nil
}
