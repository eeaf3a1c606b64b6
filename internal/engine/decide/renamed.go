package decide

import (
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// holdRenamed refuses a new task that perhaps is a removed one under another name,
// and one that cannot take over yet what its moved_from names.
func holdRenamed(d *decider, _ trigger) *hold {
	text := d.Unmoved
	if before := d.state.Unclear(d.Task.MovedFrom); text == "" && len(before) > 0 {
		text = PerhapsBefore(d.Task, before)
	}
	if text == "" {
		return nil
	}
	return refuse(state.ReasonRenamed, time.Time{}, "%s", text)
}

// PerhapsBefore says which removed tasks a new one perhaps was.
func PerhapsBefore(task *config.Task, before []string) string {
	is, set := "task "+before[0], fmt.Sprintf("%q", before[0])
	if len(before) > 1 {
		is, set = "one of the tasks "+state.Some(before, "and"), "its name"
	}
	text := fmt.Sprintf("perhaps this is %s under a new name, and nothing was made yet: if so, set moved_from to %s; if it is a new task, request a run with `terrapulse run %s`", is, set, task.Name)
	if len(task.MovedFrom) > 0 {
		text = fmt.Sprintf("its moved_from names %s, and there is no such task; %s", state.Some(task.MovedFrom, "and"), text)
	}
	return text
}
