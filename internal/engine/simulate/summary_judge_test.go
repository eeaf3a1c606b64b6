package simulate

import (
	"context"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
)

// summarized looks at a write of tasks' records or of their summary, which has taken place: a process
// that reads the summary now learns of each record what it says, or that it has to be read.
func (j *judge) summarized(v view, changes []state.Change) {
	concerns := func(c state.Change) bool {
		return c.Op != state.OpCheck && (strings.HasPrefix(c.Key, state.TaskPrefix) || strings.HasPrefix(c.Key, summary.Prefix))
	}
	if !slices.ContainsFunc(changes, concerns) {
		return
	}
	var s summary.Summary
	known, err := s.Read(context.Background(), shelf{&v.memory})
	if err != nil {
		v.violated("the summary can be read: %v", err)
	}
	if !known {
		return // the next tick reads every record
	}
	there := map[string]bool{}
	for _, rec := range v.memory.list(state.TaskPrefix) {
		task := state.TaskName(rec.Key)
		there[task] = true
		is := summary.Of(task, decoded[state.Task](rec.Value))
		switch row, ok := s.Row(task); {
		case ok && (row.Rest == "" && row.Revision == 0 || row == is):
		default:
			v.violated("the summary says what the records say: of %s it says %+v, its record says %+v", task, row, is)
		}
	}
	for row := range s.Rows() {
		if !there[row.Task] && row.Rest != "" {
			v.violated("the summary says what the records say: it has a row of %s, which has no record: %+v", row.Task, row)
		}
	}
}
