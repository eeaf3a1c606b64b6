package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
)

// Setting is what the configuration says of a task.
type Setting int

// What the configuration says.
const (
	Unknown  Setting = iota // only the store was read
	Enabled                 // the task may run
	Disabled                // the task is disabled
	Gone                    // the task is in no configuration
)

// Facts are what the view of a task follows from.
type Facts struct {
	Name    string
	Task    state.Task
	Run     state.Run // the task's run that has not ended; zero if its record is gone
	Setting Setting
	Corrupt error // of a record that cannot be decoded
	Resumed bool  // nothing is paused
	// Unpolled are the tasks of which nothing is known while they wait for a remote run.
	Unpolled *state.Unpolled
	// Unwatched says that the claim of the run has expired while nobody leads.
	Unwatched bool
}

// View is what people see of a task: the phase says what is, and the reason what happens next.
type View struct {
	Phase  Phase
	Error  string       // of the latest run that failed or was lost, if none has succeeded since
	Reason state.Reason // with a sentence for people
	Due    time.Time    // when a run of it begins if nothing changes; zero if only an event starts one
	Person bool         // it needs a person
}

// Assess returns what people see of a task. A task whose latest run failed is failing until a run
// succeeds, and one that is not verified is so until a run is verified. What happens next does not change that.
func (f Facts) Assess() View {
	v, t := f.next(), f.Task
	stopped := v.Phase == Stopped
	switch u := t.Applied.Unverified; {
	case v.Phase == Removed, v.Reason.Code == state.ReasonDisabled, f.Corrupt != nil:
		return v
	case t.Failing.Count > 0:
		v.Phase, v.Error = Failing, t.Failing.Error
	case u == nil, u.Interrupted(), v.Phase == Failing, v.Phase == Unverified:
		return v
	default:
		v.Phase = Unverified
		v.Reason.Text += fmt.Sprintf("; not verified since %s: %s", stamp(u.Since), u.Text)
	}
	v.Person = v.Person || stopped
	return v
}

// next returns what happens next, and the phase of a task of which nothing is wrong. The record of a
// task has the reason of the latest decision. Changes since that decision count at once: a run that has
// ended, and what people changed through the API.
func (f Facts) next() View {
	t := f.Task
	switch {
	case f.Corrupt != nil:
		return f.shown(state.Reason{Code: state.ReasonCorrupt, Text: state.Cut(f.Corrupt.Error())})
	case t.Run != nil && (t.OnHold == nil || t.Run.Wait == nil || t.Elsewhere()):
		return f.underWay()
	case f.Setting == Gone && t.OnRemoval != "" && t.Gone.Final && t.Reason.Code != state.ReasonRemoved:
		if t.OnHold != nil {
			return f.onHold()
		}
		return f.between() // it is to be destroyed
	case f.Setting == Gone:
		return f.off(state.ReasonRemoved, "the task is in no configuration")
	case f.Setting == Disabled && t.Destroy == nil:
		return f.off(state.ReasonDisabled, "the task is disabled")
	case t.OnHold != nil && !(f.Setting == Unknown && RowOf(t.Reason.Code).Off):
		return f.onHold()
	}
	return f.between()
}

// shown is the view of a task that has no run under way, from the row of its reason.
func (f Facts) shown(reason state.Reason) View {
	row := RowOf(reason.Code)
	return View{Phase: row.Phase, Reason: reason, Due: f.due(), Person: row.Person}
}

// due is when the task runs by the latest decision. The record also has when something else is due: the
// end of a wait, or of the records of a removed task.
func (f Facts) due() time.Time {
	if RowOf(f.Task.Reason.Code).Starts {
		return f.Task.Due
	}
	return time.Time{}
}

// refused is the view of a task with a reason that refuses also a run which was approved or resumed.
func (f Facts) refused() View {
	v := f.shown(f.Task.Reason)
	if after := f.Task.After; RowOf(v.Reason.Code).Behind && after != nil && after.Late {
		v.Phase, v.Person = Waiting, true
		v.Reason.Text = fmt.Sprintf("since %s, longer than its after_timeout, it %s", stamp(after.Since), v.Reason.Text)
	}
	return v
}

// underWay views a task whose run has not ended.
func (f Facts) underWay() View {
	if wait := f.Task.Waits(); wait != nil {
		return f.waiting(*wait)
	}
	v := View{Phase: Running, Reason: f.Task.Reason}
	switch f.Run.State {
	case state.RunIntended:
		v.Phase, v.Reason = Soon, f.Run.Reason
		turn := "a run waits for its turn"
		if at := f.Task.Run.For; at != "" {
			turn = "a run waits for room on instance " + at + ", which may have the latest Terraform state"
		}
		v.Reason.Text = turn + ": " + v.Reason.Text
	case state.RunRunning:
		if v.Reason = f.Run.Reason; f.Task.Failing.Count > 0 || f.Task.Applied.Unverified != nil { // the phase does not say it
			v.Reason.Text = "a run is under way: " + v.Reason.Text
		}
		if f.Unwatched {
			v.Reason.Text = fmt.Sprintf("the runner should have reported by %s and has not, and nobody leads: the next leader decides whether the run is lost; the run is for: %s",
				stamp(f.Run.Expires), v.Reason.Text)
		}
	}
	return v
}

// waiting views a task whose run waits.
func (f Facts) waiting(wait state.Wait) View {
	v := View{Reason: state.Reason{Code: state.ReasonWaiting, Text: wait.String()}}
	switch {
	case wait.For == state.WaitWindow:
		v.Phase, v.Due = Soon, f.Task.Due
	case wait.For.ForPeople(), wait.Person:
		v.Phase, v.Person = Waiting, true
	default:
		v.Phase = Running // in another system, or its verification
	}
	resume := f.Task.Run.Resume
	switch {
	case resume != nil && RowOf(f.Task.Reason.Code).Refuses:
		v = f.refused()
		v.Reason.Text = fmt.Sprintf("resumed by %s, and %s", resume.By, v.Reason.Text)
	case resume != nil:
		v.Phase, v.Person = Soon, false
		v.Reason.Text += "; resumed by " + resume.By
	case f.Task.LiveRemote() != nil && wait.For.OnRemote() && f.Unpolled.Concerns(f.Name):
		v.Reason.Text += fmt.Sprintf("; its remote run cannot be polled since %s: %s", stamp(f.Unpolled.Since), f.Unpolled.Error)
	case wait.For == state.WaitApproval && wait.Content != nil && wait.Guards():
		ends := "it ends when the data comes back, when %s approves it, or when the limit is raised"
		if wait.Has(state.RuleCheck) {
			ends = "it ends when the data changes, when %s approves it, or when the check is changed"
		}
		if !wait.Again.IsZero() {
			ends = fmt.Sprintf("it is judged again at %s; ", stamp(wait.Again)) + ends
		}
		v.Reason.Text = fmt.Sprintf("waits since %s: %s; "+ends, stamp(wait.Since), causes(wait), "`"+wait.Command("approve", "", f.Name)+"`")
	case wait.For == state.WaitApproval && wait.Content != nil:
		v.Reason.Text = fmt.Sprintf("waits for approval since %s: %s; %s shows the plan, and %s approves it",
			stamp(wait.Since), causes(wait), f.command("plan show"), "`"+wait.Command("approve", "", f.Name)+"`")
	}
	if progress := approval.Progress(f.Task.Run.Approvals, wait.Needs); progress != "" {
		v.Reason.Text += "; " + progress
	}
	return v
}

// onHold views a task that a person has put on hold.
func (f Facts) onHold() View {
	h := f.Task.OnHold
	text := fmt.Sprintf("on hold by %s since %s", h.By, stamp(h.At))
	if h.Comment != "" {
		text += ": " + h.Comment
	}
	if wait := f.Task.Waits(); wait != nil {
		text += "; its run " + wait.String()
	}
	text += "; " + f.command("release") + " ends it"
	return View{Phase: Stopped, Reason: state.Reason{Code: state.ReasonOnHold, Text: text}}
}

// off views a task that is disabled or gone.
func (f Facts) off(code state.ReasonCode, text string) View {
	if f.Task.Reason.Code == code {
		return f.shown(f.Task.Reason)
	}
	v := f.shown(state.Reason{Code: code, Text: text}) // no tick has seen it yet
	v.Due = time.Time{}
	return v
}

// between views a task that has no run under way.
func (f Facts) between() View {
	t, asked := f.Task, state.Reason{}
	switch {
	case t.Destroy != nil && t.Failing.Count == 0:
		asked = state.Reason{Code: state.ReasonDestroy, Text: t.Destroy.By + " requested that everything that the task has made is destroyed"}
	case t.Forced.By != "":
		asked = state.Reason{Code: state.ReasonForced, Text: "a run was requested by " + t.Forced.By}
	}
	if RowOf(t.Reason.Code).Refuses {
		if t.Reason.Code == state.ReasonPaused && f.Resumed {
			return View{Phase: Soon, Reason: state.Reason{Code: state.ReasonPaused, Text: "it was paused and is resumed: the next tick decides whether it runs"}}
		}
		return f.refused()
	}
	switch t.Reason.Code {
	case state.ReasonRenamed:
		if len(t.Renamed) == 0 || t.Forced.By == "" { // a request says of a task that is perhaps renamed that it is new
			return f.shown(t.Reason)
		}
	case state.ReasonDisabled, state.ReasonRemoved:
		if f.Setting == Unknown {
			return f.shown(t.Reason)
		}
		t.Reason = state.Reason{} // the configuration has changed since
	case state.ReasonRunning, state.ReasonWaiting, state.ReasonOnHold, state.ReasonRules:
		if t.Observed.Superseded && t.Reason.Code == state.ReasonRules {
			break
		}
		if t.Reason = (state.Reason{}); t.Ended.Last != nil { // a run has ended, or a hold
			t.Reason = t.Ended.Last.Reason
		}
	}
	in := func(phase Phase) View { return View{Phase: phase, Reason: t.Reason, Due: f.due()} }
	row := RowOf(t.Reason.Code)
	switch {
	case asked != (state.Reason{}) && t.Reason.Code != state.ReasonQueued:
		t.Reason = asked
		return in(Soon)
	case asked != (state.Reason{}):
		return in(Soon)
	case row.Phase == Stopped:
		return in(Stopped)
	case t.Failing.Count > 0:
		v := in(Failing)
		if v.Due.IsZero() {
			v.Due = t.Failing.RetryAt
		}
		return v
	case row.Code == state.ReasonBuffering, row.Code == state.ReasonQueued, t.Interrupted(), t.Applied.Unverified.Interrupted():
		return in(Soon) // also after a cancelled run
	case t.Stop != nil:
		return in(Stopped)
	case row.Phase == Soon, t.Observed.Superseded, t.Pending != nil, t.Applied.Doubt != "", t.Applied.At.IsZero():
		return in(Soon)
	case t.Applied.Unverified != nil:
		return f.unverified(*t.Applied.Unverified)
	case t.Drifted() != nil:
		return f.drifted(*t.Drifted())
	}
	return in(Applied)
}

// drifted views a task whose infrastructure differs from what was applied last.
func (f Facts) drifted(found state.Drifted) View {
	text := fmt.Sprintf("drifted since %s: %s", stamp(found.Since), &found)
	if found.Persists {
		text += "; an apply has not ended it: look whether something else changes it back, or whether each plan of the module differs"
	}
	text += "; " + f.command("plan show") + " shows the plan"
	return View{Phase: Drifted, Reason: state.Reason{Code: state.ReasonDrift, Text: text}, Due: f.due()}
}

// unverified views a task that was applied, and of which nothing shows that it works.
func (f Facts) unverified(u state.Unverified) View {
	text := fmt.Sprintf("applied, and not verified since %s: %s; %s applies and verifies it again", stamp(u.Since), u.Text, f.command("run"))
	if u.VerifiedAt.IsZero() {
		text += "; no run of it was verified before"
	} else {
		text += "; the latest verified run ended at " + stamp(u.VerifiedAt)
	}
	return View{Phase: Unverified, Reason: state.Reason{Code: state.ReasonUnverified, Text: text}, Due: f.due(), Person: true}
}

// Verified reports whether nothing contradicts that what was applied last works. What comes after
// a task does not begin while it is not verified.
func Verified(t state.Task) bool { return t.Applied.Unverified == nil }

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
func (f Facts) command(name string) string { return fmt.Sprintf("`terrapulse %s %s`", name, f.Name) }

func stamp(t time.Time) string { return clock.UTC(t) }

// Count adds a task, as the latest decision left it, to the counts that the metrics show.
func Count(c *state.TaskCounts, t state.Task) {
	v := Facts{Task: t}.Assess()
	if t.Reason.Code == state.ReasonDisabled || !v.Phase.row().Counted {
		return
	}
	if wait := t.Waits(); wait != nil && wait.For == state.WaitApproval && t.Run.Resume == nil {
		c.Approval++
	}
	if c.Phases == nil {
		c.Phases = map[string]int{}
	}
	c.Phases[string(v.Phase)]++
}
