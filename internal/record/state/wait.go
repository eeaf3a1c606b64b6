package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrNoPlan says that a task has no plan that waits for an approval.
var ErrNoPlan = errors.New("no plan waits for an approval")

// WaitFor is what a waiting run waits for.
type WaitFor string

// What a run can wait for.
const (
	WaitApproval WaitFor = "approval" // of its plan, by a person
	WaitWindow   WaitFor = "window"   // that opens
	WaitRemote   WaitFor = "remote"   // run of another system, which does the work

	// WaitRemotePlan is the plan of a run of another system. Nothing is applied before
	// it is confirmed, so new input replaces a run that waits for it.
	WaitRemotePlan WaitFor = "remote_plan"

	// WaitVerify is the rest of a verification: everything is applied, and the process that verified it
	// had to end. The next tick has it continued.
	WaitVerify WaitFor = "verification"
)

// waits describes what a run can wait for. Decode refuses records with other waits.
var waits = map[WaitFor]struct {
	text      string
	elsewhere bool
	remote    RemotePhase // in which a remote run stays meanwhile, if there is one
}{
	WaitApproval:   {text: "approval", remote: RemoteReady},
	WaitWindow:     {text: "its window", remote: RemoteReady},
	WaitRemote:     {text: "the remote run", elsewhere: true, remote: RemoteApplying},
	WaitRemotePlan: {text: "the plan of the remote run", remote: RemotePlanning},
	WaitVerify:     {text: "the rest of its verification", elsewhere: true, remote: RemoteEnded},
}

// Elsewhere reports whether the work of a run that waits continues in another
// system. New input does not replace such a run: it runs after it.
func (f WaitFor) Elsewhere() bool { return waits[f].elsewhere }

// Text is what a run waits for, in words.
func (f WaitFor) Text() string { return waits[f].text }

// ForPeople reports whether a run that waits for this goes on only when a person or a
// window lets it.
func (f WaitFor) ForPeople() bool { return f == WaitApproval || f == WaitWindow }

// OnRemote reports whether a run that waits for this goes on as soon as its remote run has come further.
func (f WaitFor) OnRemote() bool { return f == WaitRemote || f == WaitRemotePlan }

// RemotePhase is the phase in which a remote run stays while a run waits for f.
func (f WaitFor) RemotePhase() RemotePhase { return waits[f].remote }

// EndedBy reports whether a remote run in this phase ends a wait for f. One that plans
// ends no wait: another system may show an earlier phase for a moment.
func (f WaitFor) EndedBy(phase RemotePhase) bool {
	return phase != "" && phase != RemotePlanning && phase != waits[f].remote
}

// Wait is what a run waits for, and for how long.
type Wait struct {
	For   WaitFor   `json:"for"`
	ID    string    `json:"id"`             // identifies this wait of this run
	Text  string    `json:"text,omitempty"` // a sentence for people
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // when the run is cancelled; never if zero

	Person bool `json:"person,omitempty"` // the remote run only goes on when a person in the other system lets it

	// Of a wait for an approval:
	Causes  []Cause  `json:"causes,omitempty"`  // why the plan needs one, the most important first
	Content *Content `json:"content,omitempty"` // what the approval applies to
	Rules   string   `json:"rules,omitempty"`   // digest of the task's rules: if they change, the plan is judged again
	// Again is when the plan is judged again, by the clock of the leader: only guards hold it, and
	// by then they do not compare with what was applied longest ago. Zero if that is not so.
	Again time.Time `json:"again,omitzero"`
	Needs int       `json:"needs,omitempty"` // how many different people must approve, if more than one
	From  []string  `json:"from,omitempty"`  // who they may be; everybody with the role if it is empty
}

// Command returns the command with which people decide on the plan that waits, such as approve. It
// names the plan, so that another one is not decided on by mistake. flags, which may be empty, say
// where.
func (w Wait) Command(name, flags, task string) string { return PlanCommand(name, w.ID, flags, task) }

// PlanCommand is Command for the id of a plan.
func PlanCommand(name, plan, flags, task string) string {
	if plan != "" {
		flags = "-plan=" + plan[:min(len(plan), shortPlan)] + " " + flags
	}
	return strings.Join(strings.Fields("terrapulse "+name+" "+flags+" "+task), " ")
}

// shortPlan is how many characters of a plan's id people type.
const shortPlan = 8

// Cause is why a plan needs an approval.
type Cause struct {
	Rule Rule   `json:"rule"`
	Text string `json:"text"` // one sentence without a full stop
}

// Rule is what requires an approval.
type Rule string

// The rules.
const (
	RuleApproval   Rule = "approval"        // the task's plans need one
	RuleInputGuard Rule = "input_guard"     // too many entries are gone from Consul
	RulePlanGuard  Rule = "plan_guard"      // too many resources would be destroyed
	RuleCheck      Rule = "check"           // a check of the task refuses the plan
	RuleReplaced   Rule = "consul_replaced" // entries are gone with a Consul that was replaced
	RuleDestroy    Rule = "destroy"         // everything that the task has made would be destroyed
	RuleChanged    Rule = "changed"         // something else was approved
)

// Guards reports whether the plan waits because it exceeds a limit, or a check refuses it.
func (w Wait) Guards() bool {
	return w.Has(RuleInputGuard) || w.Has(RulePlanGuard) || w.Has(RuleCheck) || w.Has(RuleReplaced)
}

// HeldByInput reports whether a guard holds the input itself.
func (w Wait) HeldByInput() bool { return w.Has(RuleInputGuard) || w.Has(RuleReplaced) }

// Has reports whether a rule is why the plan needs an approval.
func (w Wait) Has(rule Rule) bool {
	return slices.ContainsFunc(w.Causes, func(c Cause) bool { return c.Rule == rule })
}

// Content identifies what would be applied. An approval applies to one content. An
// approval of a content without a plan permits the input alone: the plan that is made
// then is judged like any other.
type Content struct {
	Definition string `json:"definition"`      // digest of the task's definition
	Input      string `json:"input"`           // digest of everything that the task reads in Consul
	Plan       string `json:"plan,omitempty"`  // digest of the changes; empty if no plan could be made
	State      string `json:"state,omitempty"` // lineage and serial; empty before the first apply
}

// OfInput is the content without its plan.
func (c Content) OfInput() Content { return Content{Definition: c.Definition, Input: c.Input} }

// Differences says in words in what the content now differs from what was approved;
// nothing if it is the same.
func (c Content) Differences(now Content) []string {
	var all []string
	for _, part := range []struct{ name, was, is string }{
		{"the task's definition", c.Definition, now.Definition}, {"the data in Consul", c.Input, now.Input},
		{"the Terraform state", c.State, now.State}, {"the planned changes", c.Plan, now.Plan},
	} {
		if part.was != part.is {
			all = append(all, part.name)
		}
	}
	return all
}

// String says in words what the run waits for.
func (w Wait) String() string {
	text := "waits for " + waits[w.For].text
	if w.Needs > 1 {
		text = fmt.Sprintf("waits for %d approvals", w.Needs)
	}
	if w.Text != "" {
		text += ": " + w.Text
	}
	return text
}

// Resume is a request that a waiting run goes on.
type Resume struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Approval *Approval `json:"approval,omitempty"` // if the run waits for one
}

// Permits reports whether a run with this wait may go on at a time: if it waits with a
// plan, only with a valid approval of exactly that.
func (r Resume) Permits(w Wait, now time.Time) bool {
	if w.For != WaitApproval || w.Content == nil {
		return true
	}
	return r.Approval != nil && r.Approval.Valid(now) && r.Approval.Content == *w.Content
}

// Waits is what the task's run waits for; nil if the task has no waiting run.
func (t Task) Waits() *Wait {
	if t.Run == nil {
		return nil
	}
	return t.Run.Wait
}

// BeginWait returns the task's record when its run begins to wait. The condition is
// read again, so that later changes are compared with what the run has read.
func (t Task) BeginWait(run Run) Task {
	live := *t.Run
	live.Wait, live.Input, live.Resume, live.Approvals = run.Wait, run.Digest, nil, nil
	if run.Remote != nil {
		t.RemoteRun = run.Remote // the run has dealt with what was left before it began its own
	} else if t.GivenUp() == nil {
		t.RemoteRun = t.RemoteRun.none()
	}
	live.Entries = nil // the record of the run has them
	t.Run, t.Observed.Recheck = &live, true
	return t.noteUnsaved(run)
}

// Elsewhere reports whether another system does the work of the task's waiting run, so that a
// decision here does not stop it.
func (t Task) Elsewhere() bool { return t.Waits() != nil && elsewhere(t.LiveRemote(), t.Waits()) }

func elsewhere(r *RemoteRun, w *Wait) bool {
	return r.PastApproval() || r == nil && w.For.Elsewhere()
}

// AppliedElsewhere reports whether another system applied what the run had read
// before its last wait, or applies it now.
func (r Run) AppliedElsewhere() bool {
	return r.Resumed != nil && r.Wait != nil && elsewhere(r.Remote, r.Wait)
}

// Approved is the approval of what the run applies; nil if the run has none. One from
// before the run waited again counts no more: something else would be applied. Times are
// not compared, because other clocks may differ.
func (r Run) Approved() *Approval {
	if r.Approval == nil {
		return nil
	}
	if w := r.Wait; w != nil && w.For == WaitApproval && (r.Resumed == nil || w.Content != nil && !r.Approval.Content.covers(*w.Content)) {
		return nil
	}
	return r.Approval
}

// covers reports whether an approval of the content is one of another content, too.
func (c Content) covers(other Content) bool {
	if c.Plan == "" {
		other = other.OfInput()
	}
	return c == other
}

// Intended is when the run was last intended: when it was decided, or resumed.
func (r Run) Intended() time.Time {
	if r.Resumed != nil {
		return r.Resumed.At
	}
	return r.Created
}

// Unclaimed reports whether no runner has claimed the run since it began to wait. If it has ended, it
// ended while it waited, or before it went on.
func (r Run) Unclaimed() bool { return r.Wait != nil && r.Claim == "" }

// Worked is how long the run has worked until a time, without its waits.
func (r Run) Worked(until time.Time) time.Duration {
	if r.Unclaimed() {
		until = r.Wait.Since
	}
	return max(0, until.Sub(r.Started)-r.Waited)
}
