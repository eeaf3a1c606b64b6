package state

import "time"

// The fields of a task's record that say what it should do, and what stops it, are written only
// here, by Conclude when a run ends, and by Rename.Take. internal/rules/lifecycle has the stops and
// what ends them.

// RequestRun notes that somebody requests a run.
func (t *Task) RequestRun(by string) { t.Forced = Forced{By: by} }

// DropRequests removes the change and the request that wait for a run.
func (t *Task) DropRequests() { t.Pending, t.Observed.Superseded, t.Forced = nil, false, Forced{} }

// RequestDestroy notes that a person requests that everything that the task has made is destroyed.
func (t *Task) RequestDestroy(by, account string, at time.Time) {
	t.Destroy = &Request{By: by, Account: account, At: at}
}

// DropDestroy removes such a request.
func (t *Task) DropDestroy() { t.Destroy = nil }

// PutOnHold stops the task until Release.
func (t *Task) PutOnHold(hold OnHold) { t.OnHold = &hold }

// Release ends a hold.
func (t *Task) Release() { t.OnHold = nil }

// Enable notes that a person has enabled the task. It runs at once if run names who requests
// that, otherwise when its condition changes next.
func (t *Task) Enable(run string) {
	if run == "" {
		t.StopFor(Stop{Code: ReasonHeld, Next: true})
		return
	}
	t.EndStop()
	t.RequestRun(run)
}

// Create returns the record of a task that is created through the API where there was
// another one. Run is as in Enable. A task that was deleted or renamed was another one; one that
// is missing in the files is back.
func (t Task) Create(run string) Task {
	next := t
	if t.Gone.Deleted != nil || t.Gone.MovedTo != "" {
		next = Task{Ended: Ended{IDs: t.Ended.IDs}, Events: t.Events, RemoteRun: t.RemoteRun, Stops: Stops{Unsaved: t.Unsaved}}
	}
	next.EndStop()
	next.DropRequests()
	next.DropDestroy()
	next.Enable(run)
	return next
}

// Delete notes that a person has deleted the task through the API. Definition is what people
// see of it until its run has ended; nil if it has none.
func (t *Task) Delete(by, account string, definition []byte) {
	t.Gone.Deleted = &Deletion{By: by, Account: account}
	if definition != nil {
		t.Gone.Leaving = definition
	}
	t.DropRequests()
}

// Configured notes that the task is in the configuration.
func (t *Task) Configured() {
	if t.Gone.Final && t.Ended.Of(KindDestroy) {
		t.EndStop() // it is back, and perhaps a part of it was destroyed
	}
	t.Gone = Gone{}
}

// Missing notes that the task is in no configuration since a time. Removed says that this
// counts as its removal.
func (t *Task) Missing(since, now time.Time, removed bool) {
	switch g := &t.Gone; {
	case g.Final && !g.Since.After(now):
	case g.Final, removed:
		g.Since, g.Final = now, true
	default:
		g.Since = since
	}
}

// Accept keeps what a person permits to apply; nil forgets it.
func (t *Task) Accept(a *Accepted) { t.Accepted = a }

// Try notes what a waiting run tries to apply when it continues.
func (t *Task) Try(a Attempt) { t.Attempted = a }

// Begin notes that a run is decided on: it ends every stop that it passes, and serves all
// requests. A run that destroys ends no stop.
func (t *Task) Begin(a Attempt, destroys bool) {
	t.DropRequests()
	if !destroys {
		t.EndStop()
	}
	t.Applied.Doubt, t.Due, t.Attempted, t.After, t.Renamed = "", time.Time{}, a, nil, nil
}

// Restore keeps what the record in a backup says, except what may not be true any more. Why
// says so in Doubt.
func (t *Task) Restore(why string, now time.Time) {
	if r := t.LiveRemote(); r != nil {
		t.RemoteRun = r.GiveUp(GivenUp{Comment: "Terrapulse was restored from a backup", Since: now})
	}
	t.DropRequests()
	t.Run, t.Destroy, t.Accepted, t.Gone.Leaving, t.Observed.Recheck = nil, nil, nil, nil, true
	t.Failing.RetryAt, t.Due = time.Time{}, now
	*t = t.WithoutCheck()
	if !t.Applied.At.IsZero() {
		t.Applied.Doubt = why
	}
}
