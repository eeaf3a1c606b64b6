package state

import (
	"fmt"
	"time"
)

// TaskState is one word for what a task is doing.
type TaskState string

// The states of a task.
const (
	TaskApplied     TaskState = "applied"
	TaskRunning     TaskState = "running"
	TaskWaiting     TaskState = "waiting"
	TaskInterrupted TaskState = "interrupted"
	TaskCancelled   TaskState = "cancelled"
	TaskFailing     TaskState = "failing"
	TaskNew         TaskState = "new"
	TaskDisabled    TaskState = "disabled"
	TaskRemoved     TaskState = "removed"
)

// Summary is what a task is doing, and why, for people.
type Summary struct {
	State  TaskState
	Reason Reason
	Due    time.Time // when it is decided on next if nothing changes
}

// Summary sums up the task. Run is the record of its run that has not ended, if
// there is one.
func (t Task) Summary(run Run) Summary {
	s := Summary{State: t.state(), Reason: t.Reason, Due: t.Due}
	switch {
	case t.Run == nil:
		// Nobody has decided on the task since its run ended, because no one leads.
		if s.Reason.Code == ReasonRunning && t.Last != nil {
			s.Reason = t.Last.Reason
		}
		if t.Failures > 0 && s.Due.IsZero() {
			s.Due = t.RetryAt
		}
	case run.State == RunIntended:
		s.State = TaskWaiting
		s.Reason.Text = fmt.Sprintf("a run waits for its turn: %s", run.Reason.Text)
	case run.State == RunRunning:
		s.Reason = run.Reason
	}
	return s
}

func (t Task) state() TaskState {
	switch {
	case t.Run != nil:
		return TaskRunning
	case t.Reason.Code == ReasonDisabled:
		return TaskDisabled
	case t.Reason.Code == ReasonRemoved:
		return TaskRemoved
	case t.Failures > 0:
		return TaskFailing
	case t.Interrupted():
		return TaskInterrupted
	case t.Reason.Code == ReasonCancelled:
		return TaskCancelled
	case t.Reason.Code == ReasonUnreadable, t.Reason.Code == ReasonUnread, t.Reason.Code == ReasonBuffering, t.Reason.Code == ReasonBlocked, t.Reason.Code == ReasonCorrupt:
		return TaskWaiting
	case t.AppliedAt.IsZero():
		return TaskNew
	}
	return TaskApplied
}
