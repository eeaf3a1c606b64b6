package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// RemotePhase is how far a run in another system, such as HCP Terraform, has come.
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

// RemoteRun is a run in another system that does the work of a run.
type RemoteRun struct {
	ID        string      `json:"id,omitempty"` // empty if it is not known whether it was created
	URL       string      `json:"url,omitempty"`
	Workspace string      `json:"workspace,omitempty"` // its name
	Version   string      `json:"version"`             // id of the configuration version that it applies
	Phase     RemotePhase `json:"phase"`               // when the run began to wait, or was resumed
	Text      string      `json:"text,omitempty"`
}

// GoesOnRemotely reports whether the run waits while its remote run works.
func (r Run) GoesOnRemotely() bool {
	return r.State == RunWaiting && r.Remote != nil && r.Remote.ID != "" && r.Wait != nil && !r.Wait.For.ForPeople()
}

// Remote is what another system has of a task. It is kept from run to run.
type Remote struct {
	Workspace string            `json:"workspace,omitempty"` // id
	Name      string            `json:"name,omitempty"`      // of the workspace
	Created   bool              `json:"created,omitempty"`   // the workspace was created for the task
	Applied   bool              `json:"applied,omitempty"`   // something may have been applied in the workspace
	Moved     bool              `json:"moved,omitempty"`     // another driver has applied the task, and no run has succeeded in the workspace since
	Run       RemoteRun         `json:"run,omitzero"`        // the latest
	By        string            `json:"by,omitempty"`        // id of the run that the remote run belongs to
	Content   string            `json:"content,omitempty"`   // digest of what was uploaded for the remote run, and of the definition
	Intent    RemoteIntent      `json:"intent,omitempty"`    // written before the request
	Variables map[string]string `json:"variables,omitempty"` // digests of the sensitive variables, by name
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
	Phase RemotePhase
	Text  string // why it does not go on, such as "pending: the workspace is locked by jane"
}

// Abandoned is a remote run that no run of the task needs any more. It is stopped if no
// run of the task begins before that: each run first deals with what is left.
type Abandoned struct {
	Run     RemoteRun `json:"run"`
	Comment string    `json:"comment"` // why it is stopped
	// Cancel says that a person has cancelled it: it is stopped even if it is applied.
	Cancel bool      `json:"cancel,omitempty"`
	Since  time.Time `json:"since"`
}

// leaveRemote notes that the remote run of a run that has ended must be stopped, unless it has
// ended, too.
func (t Task) leaveRemote(run Run) Task {
	r := run.Remote
	if r == nil {
		return t
	}
	t.Abandoned = nil
	if r.Phase == RemoteEnded || run.State == RunSucceeded {
		return t
	}
	// Even in the phase applying: the process may have died before it confirmed the plan.
	why := cmp.Or(run.Error, "it is "+string(run.State))
	t.Abandoned = &Abandoned{Run: *r, Comment: Cut(fmt.Sprintf("Terrapulse has given up run %s: %s", run.ID, why)),
		Cancel: run.Cancel != "" && !run.Rejected, Since: run.Ended}
	return t
}

// Stopped returns the task's state when its abandoned remote run is stopped. Applied
// says that it was confirmed before that: what it has applied is not known.
func (t Task) Stopped(applied bool) Task {
	if applied && t.Abandoned != nil {
		t.Doubt = fmt.Sprintf("remote run %s was confirmed there although Terrapulse had given it up", t.Abandoned.Run.ID)
	}
	t.Abandoned = nil
	return t
}

// RemoteKey returns the key of the record of what another system has of a task.
func RemoteKey(task string) string { return "remote/" + element(task) }

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
