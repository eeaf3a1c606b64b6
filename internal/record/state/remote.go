package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// RemotePhase is how far a run in another system has come.
type RemotePhase string

// The phases of a remote run.
const (
	RemotePlanning RemotePhase = "planning" // everything before its plan can be confirmed
	RemoteReady    RemotePhase = "ready"    // its plan can be confirmed
	RemoteApplying RemotePhase = "applying" // its plan was confirmed
	RemoteEnded    RemotePhase = "ended"
)

// PastApproval reports whether nobody has to confirm the plan any more: it is being
// applied, or the remote run has ended.
func (p RemotePhase) PastApproval() bool { return p == RemoteApplying || p == RemoteEnded }

// RemoteRun is a run in another system that does the work of a run. The record of a task has at most
// one: the one of the task's run, or one that is given up. What methods report of nil is what holds
// for no remote run.
type RemoteRun struct {
	Driver    string      `json:"driver,omitempty"` // that began it: only this one can poll and stop it
	ID        string      `json:"id,omitempty"`     // empty if it is not known whether it was created
	URL       string      `json:"url,omitempty"`
	Workspace string      `json:"workspace,omitempty"` // its name
	Version   string      `json:"version,omitempty"`   // id of the configuration version that it applies
	Phase     RemotePhase `json:"phase"`               // when the run began to wait, or was resumed
	Text      string      `json:"text,omitempty"`
	GivenUp   *GivenUp    `json:"given_up,omitempty"` // nil as long as a run needs it
}

// GivenUp says why no run of the task needs a remote run any more. The next run of the task adopts
// it or stops it; if no run begins before that, ticks stop it.
type GivenUp struct {
	Comment string `json:"comment"` // why it is stopped
	// Cancel says that a person has cancelled it: it is stopped even if it is applied.
	Cancel bool      `json:"cancel,omitempty"`
	Since  time.Time `json:"since"`
}

// PastApproval reports whether the remote run may have applied something, so that nobody can
// prevent it by a decision here.
func (r *RemoteRun) PastApproval() bool { return r != nil && r.Phase.PastApproval() }

// Created reports whether it is known that the remote run was created.
func (r *RemoteRun) Created() bool { return r != nil && r.ID != "" }

// Begun reports whether something was sent for the remote run: a configuration version, or the request
// that creates it.
func (r *RemoteRun) Begun() bool { return r != nil && (r.ID != "" || r.Version != "") }

// OfOther reports whether another driver than this one began the remote run. With driver "", no
// driver can deal with it.
func (r *RemoteRun) OfOther(driver string) bool {
	return r != nil && (driver == "" || r.Driver != driver)
}

// GiveUp returns the remote run when no run needs it any more.
func (r RemoteRun) GiveUp(why GivenUp) *RemoteRun {
	r.GivenUp = &why
	return &r
}

// none is what the record of a task keeps once its remote run is known to have ended: the driver.
func (r *RemoteRun) none() *RemoteRun {
	if r == nil {
		return nil
	}
	return &RemoteRun{Driver: r.Driver, Phase: RemoteEnded}
}

// GoesOnRemotely reports whether the run waits while its remote run works.
func (r Run) GoesOnRemotely() bool {
	return r.State == RunWaiting && r.Remote.Created() && r.Wait != nil && r.Wait.For.OnRemote()
}

// LiveRemote is the remote run that does the work of the task's run; nil if there is none.
func (t Task) LiveRemote() *RemoteRun {
	if r := t.RemoteRun; t.Run != nil && r != nil && r.Version != "" && r.GivenUp == nil {
		return r
	}
	return nil
}

// GivenUp is the remote run that is given up and not known to have ended; nil if there is none.
func (t Task) GivenUp() *RemoteRun {
	if r := t.RemoteRun; r != nil && r.GivenUp != nil {
		return r
	}
	return nil
}

// RunsRemotely notes that a run of the task begins with this driver, whose runs another system
// carries out; "" if there is no such driver.
func (t *Task) RunsRemotely(driver string) {
	if driver != "" && t.GivenUp() == nil {
		t.RemoteRun = (&RemoteRun{Driver: driver}).none()
	}
}

// NoteRemote notes how far the remote run of the task's run has come.
func (t *Task) NoteRemote(s RemoteStatus) {
	now := *t.RemoteRun
	now.Phase, now.Text = s.Phase, s.Text
	t.RemoteRun = &now
}

// Remote is what another system has of a task. It is kept from run to run.
type Remote struct {
	Workspace string       `json:"workspace,omitempty"` // id
	Name      string       `json:"name,omitempty"`      // of the workspace
	Created   bool         `json:"created,omitempty"`   // the workspace was created for the task
	Applied   bool         `json:"applied,omitempty"`   // something may have been applied in the workspace
	Moved     bool         `json:"moved,omitempty"`     // another driver has applied the task, and no run has succeeded in the workspace since
	Run       RemoteRun    `json:"run,omitzero"`        // the latest
	By        string       `json:"by,omitempty"`        // id of the run that the remote run belongs to
	Content   string       `json:"content,omitempty"`   // digest of what was uploaded for the remote run, and of the definition
	Intent    RemoteIntent `json:"intent,omitempty"`    // written before the request
	Audited   Audited      `json:"audited,omitzero"`
	// ConfirmedLate is the id of a remote run that was confirmed when no run needed it any more, and
	// was found to have ended by the run that followed. It is kept until a run succeeds.
	ConfirmedLate string            `json:"confirmed_late,omitempty"`
	Variables     map[string]string `json:"variables,omitempty"` // digests of the sensitive variables, by name
	// Notification is a digest of the notification that was set up in the workspace.
	Notification string `json:"notification,omitempty"`
	// Unsure is until when a request to create a run may still have its effect, to which
	// no answer came.
	Unsure time.Time `json:"unsure,omitzero"`

	// Versions are the configuration versions that may be the current one of the workspace: that
	// of the latest success, and those that were uploaded since. Foreign is another one, or a run,
	// by which another program has changed the workspace since the latest success.
	Versions []string `json:"versions,omitempty"`
	Foreign  string   `json:"foreign,omitempty"`
	// Inherited is set if the workspace was created by Terrapulse and had resources when this record
	// of it began, and no run has succeeded since.
	Inherited bool `json:"inherited,omitempty"`
}

// Audited says which decisions of people about a remote run the audit record has. It is written with
// their entries: so none gets two, also if another run reads of the same decision.
type Audited struct {
	Run       string `json:"run"` // id of the remote run
	Confirmed bool   `json:"confirmed,omitempty"`
	Ended     bool   `json:"ended,omitempty"` // it was discarded or cancelled
}

// Of returns what the audit record has of a remote run.
func (a Audited) Of(run string) Audited {
	if a.Run != run {
		return Audited{Run: run}
	}
	return a
}

// RemoteIntent is what Terrapulse itself does with a remote run. Anything else that happens to it
// was decided by a person.
type RemoteIntent string

// The intents.
const (
	RemoteConfirm RemoteIntent = "confirm"
	RemoteStop    RemoteIntent = "stop"
)

// RemoteStatus is what another system says of a remote run now.
type RemoteStatus struct {
	Phase  RemotePhase
	Text   string // why it does not go on, such as "pending: the workspace is locked by jane"
	Person bool   // only a person there can let it go on
}

// RemoteWait is a remote run that a task waits for.
type RemoteWait struct {
	Run       string      // id
	Workspace string      // its name
	Phase     RemotePhase // as a tick has seen it last
	Since     time.Time   // when the wait began
}

// leaveRemote gives up the remote run of a run that has ended, unless that has ended, too.
func (t Task) leaveRemote(run Run) Task {
	switch r := run.Remote; {
	case r != nil && r.Phase != RemoteEnded && run.State != RunSucceeded:
		// Even in the phase applying: the process may have died before it confirmed the plan.
		why := cmp.Or(run.Error, "it is "+string(run.State))
		t.RemoteRun = r.GiveUp(GivenUp{Comment: Cut(fmt.Sprintf("Terrapulse has given up run %s: %s", run.ID, why)),
			Cancel: run.Cancel != "" && !run.Rejected, Since: run.Ended})
	case r != nil || t.GivenUp() == nil:
		t.RemoteRun = t.RemoteRun.none()
	}
	return t
}

// Stopped returns the task's state when its remote run that is given up is stopped. Applied
// says that it was confirmed before that: what it has applied is not known.
func (t Task) Stopped(applied bool) Task {
	if r := t.GivenUp(); r != nil && applied {
		t.Applied.Doubt = confirmedLate(r.ID)
	}
	t.RemoteRun = t.RemoteRun.none()
	return t
}

// confirmedLate is the doubt about a task whose remote run was confirmed when no run needed it any more.
func confirmedLate(remote string) string {
	return fmt.Sprintf("remote run %s was confirmed there although Terrapulse had given it up", remote)
}

// RemoteKey returns the key of the record of what another system has of a task.
func RemoteKey(task string) string { return "remote/" + element(task) }

// ReadRemote reads what another system has of a task. With the name of a driver, it does not return what
// another driver has recorded.
func ReadRemote(ctx context.Context, s Store, task, driver string) (Remote, error) {
	rec, err := Read[Remote](ctx, s, RemoteKey(task))
	if err != nil || driver != "" && rec.Data.Run.OfOther(driver) {
		return Remote{}, err
	}
	return rec.Data, nil
}

// stagedPrefix is where the inputs are kept that a remote run applies.
func stagedPrefix(task string) string { return "staged/" + element(task) + "/" }

// StageInputs keeps what the remote run of a task applies, until it has done so.
func StageInputs(ctx context.Context, s Store, task string, inputs Inputs) error {
	return savePieces(ctx, s, stagedPrefix(task), inputs.encode(), time.Time{})
}

// ApplyStaged makes what StageInputs kept the inputs that the task was applied with.
func ApplyStaged(ctx context.Context, s Store, task string) error {
	packed, err := loadPieces(ctx, s, stagedPrefix(task))
	if err == nil && packed == nil {
		err = ErrNotFound
	}
	if err == nil {
		_, err = decodeInputs(packed)
	}
	if err != nil {
		return fmt.Errorf("read what the remote run of task %s applied: %w", task, err)
	}
	return savePieces(ctx, s, inputsPrefix(task), packed, time.Time{})
}

// EraseRemote removes what is kept about a task because of another system.
func EraseRemote(ctx context.Context, s Store, task string) error {
	recs, err := s.List(ctx, stagedPrefix(task))
	if err != nil {
		return fmt.Errorf("list what the remote run of task %s applies: %w", task, err)
	}
	switch rec, err := s.Get(ctx, RemoteKey(task)); {
	case err == nil:
		recs = append(recs, rec)
	case !errors.Is(err, ErrNotFound):
		return fmt.Errorf("read what another system has of task %s: %w", task, err)
	}
	return remove(ctx, s, recs...)
}
