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
	j.agrees(v, new(summary.Summary), "the summary says what the records say")
	if j.summaryWrites++; j.summaryWrites%warmReads == 0 {
		j.agrees(v, &j.warm, "a process that knew the summary before says what the records say")
	}
}

// warmReads is after how many writes the process reads that only reads the summary: others fold notes that it
// has not seen.
const warmReads = 11

// agrees has a process read the summary, and compares its rows with the records.
func (j *judge) agrees(v view, s *summary.Summary, rule string) {
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
			v.violated("%s: of %s it says %+v, its record says %+v", rule, task, row, is)
		}
	}
	for row := range s.Rows() {
		if !there[row.Task] && row.Rest != "" {
			v.violated("%s: it has a row of %s, which has no record: %+v", rule, row.Task, row)
		}
	}
}
