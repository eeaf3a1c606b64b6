package overview

import (
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/state"
)

// onHold assesses a task that a person has put on hold.
func (f facts) onHold() verdict {
	h := f.task.OnHold
	text := fmt.Sprintf("on hold by %s since %s", h.By, since(h.At))
	if h.Comment != "" {
		text += ": " + h.Comment
	}
	if wait := f.task.Waits(); wait != nil {
		text += "; its run " + wait.String()
	}
	text += "; " + f.command("release") + " ends it"
	return verdict{phase: apispec.PhaseHeld, reason: state.Reason{Code: state.ReasonOnHold, Text: text}}
}

// waiting assesses a task with a waiting run.
func (f facts) waiting(wait state.Wait) verdict {
	v := verdict{apispec.PhaseWaiting, state.Reason{Code: state.ReasonWaiting, Text: wait.String()}, wait.Until}
	if v.due.IsZero() && wait.For == state.WaitWindow {
		v.due = f.task.Due
	}
	resume := f.task.Run.Resume
	switch {
	case resume != nil && refuses(f.task.Reason.Code):
		v.phase, v.reason, v.due = decided[f.task.Reason.Code], f.task.Reason, f.task.Due
		v.reason.Text = fmt.Sprintf("resumed by %s, and %s", resume.By, v.reason.Text)
	case resume != nil:
		v.phase = apispec.PhasePending
		v.reason.Text += "; resumed by " + resume.By
	case f.task.Run.Remote != nil && !wait.For.ForPeople() && f.unpolled.Concerns(f.name):
		v.reason.Text += fmt.Sprintf("; its remote run cannot be polled since %s: %s", since(f.unpolled.Since), f.unpolled.Error)
	case wait.For == state.WaitApproval && wait.Content != nil && wait.Guards():
		v.phase = apispec.PhaseHeld
		ends := "it ends when the data comes back, when %s approves it, or when the limit is raised"
		if wait.Has(state.RuleCheck) {
			ends = "it ends when the data changes, when %s approves it, or when the check is changed"
		}
		v.reason.Text = fmt.Sprintf("held since %s: %s; "+ends, since(wait.Since), causes(wait), "`"+wait.Command("approve", "", f.name)+"`")
	case wait.For == state.WaitApproval && wait.Content != nil:
		v.reason.Text = fmt.Sprintf("waits for approval since %s: %s; %s shows the plan, and %s approves it",
			since(wait.Since), causes(wait), f.command("plan show"), "`"+wait.Command("approve", "", f.name)+"`")
	}
	return v
}

// causes are the causes of a wait in one sentence.
func causes(wait state.Wait) string {
	if len(wait.Causes) == 0 {
		return wait.Text
	}
	var texts []string
	for _, c := range wait.Causes {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "; ")
}

// command is a command about the task, as people type it.
func (f facts) command(name string) string { return fmt.Sprintf("`terrapulse %s %s`", name, f.name) }

func since(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// refuses reports whether a reason keeps a resumed run from going on.
func refuses(code state.ReasonCode) bool {
	switch code {
	case state.ReasonOutside, state.ReasonReplaced, state.ReasonPaused, state.ReasonUnreadable, state.ReasonBlocked:
		return true
	}
	return false
}
