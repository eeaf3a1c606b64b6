package state

import "time"

// WaitFor is what a waiting run waits for.
type WaitFor string

// What a run can wait for.
const (
	WaitApproval WaitFor = "approval" // of its plan, by a person
	WaitWindow   WaitFor = "window"   // that opens
	WaitRemote   WaitFor = "remote"   // run of another system, which does the work
)

// waits describes what a run can wait for. Decode refuses records with other waits.
var waits = map[WaitFor]struct {
	text      string
	elsewhere bool
}{
	WaitApproval: {text: "approval"},
	WaitWindow:   {text: "its window"},
	WaitRemote:   {text: "the remote run", elsewhere: true},
}

// Elsewhere reports whether the work of a run that waits continues in another
// system. New input does not replace such a run: it runs after it.
func (f WaitFor) Elsewhere() bool { return waits[f].elsewhere }

// Wait is what a run waits for, and for how long.
type Wait struct {
	For   WaitFor   `json:"for"`
	ID    string    `json:"id"`             // identifies this wait of this run
	Text  string    `json:"text,omitempty"` // a sentence for people
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"` // when the run is cancelled; never if zero
}

// String says in words what the run waits for.
func (w Wait) String() string {
	text := "waits for " + waits[w.For].text
	if w.Text != "" {
		text += ": " + w.Text
	}
	return text
}

// Resume is a request that a waiting run goes on.
type Resume struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
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
	live.Wait, live.Input, live.Resume = run.Wait, run.Digest, nil
	t.Run, t.Recheck = &live, true
	return t
}

// AppliedElsewhere reports whether another system applied what the run had read
// before its last wait.
func (r Run) AppliedElsewhere() bool {
	return r.Resumed != nil && r.Wait != nil && r.Wait.For.Elsewhere()
}

// Intended is when the run was last intended: when it was decided, or resumed.
func (r Run) Intended() time.Time {
	if r.Resumed != nil {
		return r.Resumed.At
	}
	return r.Created
}

// Worked is how long the run has worked until a time, without its waits.
func (r Run) Worked(until time.Time) time.Duration { return max(0, until.Sub(r.Started)-r.Waited) }
