package control

import (
	"context"
	"errors"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// ErrNoWhatIf is what Suppose returns where no what-if can be answered.
var ErrNoWhatIf = errors.New("what-ifs are not answered here")

// Suppose starts the plan runs that say what tasks would do under a what-if. It changes no task and
// requests no tick. The audit record says who asked, also if the plans cannot be started then: another
// process may start them, which cannot prove who that was.
func (c *Control) Suppose(ctx context.Context, w condition.WhatIf, tasks []string, by string) (state.Question, error) {
	if c.WhatIf == nil {
		return state.Question{}, ErrNoWhatIf
	}
	asked := audit.Entry{Action: audit.WhatIf, Detail: w.String()}
	if len(tasks) > 0 { // Task would show it to those who may not see the answer
		asked.Detail += ", for " + strings.Join(tasks, ", ")
	}
	ctx, err := audit.Note(ctx, c.Store, asked, someone(by), c.Now())
	if err != nil {
		return state.Question{}, err
	}
	return c.WhatIf(ctx, w, tasks, by)
}
