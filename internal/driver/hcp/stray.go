package hcp

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// stray returns a run of the task in its workspace that has not ended and was not recorded; nil
// if there is none: a request to create it had its effect after it was given up. HCP Terraform
// permits only 30 lists a minute, so the runs are listed only if there may be one.
func (s *step) stray(ctx context.Context) (*Run, error) {
	lost := s.rec.Run.ID == "" && s.rec.Run.Version != ""
	possible := s.unsure || lost || s.rec.By == "" || !s.rec.Unsure.IsZero()
	switch {
	case lost:
		s.rec.Unsure = s.Now().Add(strayTime)
	case s.Now().After(s.rec.Unsure): // this list is the last one
		s.rec.Unsure = time.Time{}
	}
	if s.created || !possible {
		return nil, nil
	}
	runs, err := s.api.Runs(ctx, s.ws.ID, false)
	if err != nil {
		return nil, s.failed("list the runs of the workspace "+s.ws.Name, err)
	}
	for _, r := range runs {
		if s.isStray(r) {
			s.say("The run %s of an earlier attempt has not ended: it is followed or stopped first.", r.ID)
			run, err := s.api.Run(ctx, r.ID)
			return &run, s.failed("read the run "+r.ID, err)
		}
	}
	return nil, nil
}

// strayTime is how long after its request was given up each step that begins or ends a run
// looks for a run.
const strayTime = time.Hour

// isStray reports whether a run of a task's workspace, which is not recorded, has not ended and
// was created by Terrapulse to apply something. A server may keep no messages: then a run with one of
// these configuration versions, which Terrapulse has uploaded, is one.
func isStray(r Run, versions ...string) bool {
	ours := strings.HasPrefix(r.Message, applies) || r.Message == "" && slices.Contains(versions, r.Version)
	return ours && !r.PlanOnly && phaseOf(r) != state.RemoteEnded
}

// isStray also recognizes a run by its configuration version. The first version is that of the latest
// success: a person may queue a run with it.
func (s *step) isStray(r Run) bool {
	return isStray(r, s.rec.Versions[min(1, len(s.rec.Versions)):]...)
}

// strayComment is the comment with which a run that is not recorded is stopped.
const strayComment = "Stopped by Terrapulse: it was created by an attempt that had already ended."

// stopStrays stops runs of the task that are not recorded. Otherwise, they would block the
// workspace until the next run of the task.
func (s *step) stopStrays(ctx context.Context, known Run) error {
	runs, err := s.api.Runs(ctx, s.rec.Workspace, false)
	if err != nil {
		return s.failed("list the runs of the workspace "+s.rec.Name, err)
	}
	confirmed := false
	for _, r := range runs {
		if r.ID == known.ID || !s.isStray(r) {
			continue
		}
		if !confirmed { // this run still has its claim: no later run has created what the list shows
			if err := s.record(ctx); err != nil {
				return err
			}
			confirmed = true
		}
		s.say("The run %s of an earlier attempt is stopped.", r.ID)
		if r, err = s.api.Run(ctx, r.ID); err == nil {
			_, _, err = s.stop(ctx, s.api, r, strayComment)
		}
		if err != nil {
			return s.failed("stop the run "+r.ID+" of an earlier attempt", err)
		}
	}
	return nil
}

// stopUnrecorded stops a run in HCP Terraform that could not be recorded because another run
// has the task now.
func (s *step) stopUnrecorded(ctx context.Context, run Run) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer done()
	if now, err := s.job.Remote.Read(ctx); err != nil || now.Run.Version == run.Version {
		return // a later run, or a tick if there is none, finds it by its configuration version: see state.Doubt
	}
	s.say("Another run has the task: the run %s is stopped.", run.ID)
	_, _, _ = s.stop(ctx, s.api, run, strayComment) // a later run looks for it, too
}
