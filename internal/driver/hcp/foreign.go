package hcp

import (
	"context"
	"fmt"
	"slices"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// keptVersions is how many configuration versions are kept of a task.
const keptVersions = 20

// uploaded notes a configuration version that was created for the task.
func (s *step) uploaded(version string) {
	all := slices.Clone(s.rec.Versions)
	if len(all) == 0 {
		all = []string{""} // no success yet
	}
	all = append(all, version)
	if more := len(all) - keptVersions; more > 0 {
		all = slices.Delete(all, 1, 1+more) // the first is that of the latest success
	}
	s.rec.Versions = all
}

// beginRecord begins the record of a workspace that the task had none of. Unless it is known to be empty,
// it may be that of another instance.
func (s *step) beginRecord(ctx context.Context, ws Workspace) error {
	used := false
	if !s.created {
		resources, err := s.resources(ctx, ws)
		if err != nil {
			return err
		}
		used = !empty(resources)
	}
	ours := s.created || ws.SourceName == sourceName
	s.rec.Created, s.rec.Applied, s.rec.Variables, s.rec.Notification = ours, used, nil, ""
	s.rec.Versions, s.rec.Foreign, s.rec.Inherited = nil, "", ours && used && !s.rec.Moved
	if ws.Version != "" {
		s.rec.Versions = []string{ws.Version}
	}
	return nil
}

// noteForeign notes that another program has changed the workspace, such as a second instance of
// Terrapulse with the same organization and prefix: both would destroy in turns what the other one
// has created. begins says that the task has no run under way.
func (s *step) noteForeign(begins bool) {
	what := ""
	switch ws := s.ws; {
	case ws.Version != "" && len(s.rec.Versions) > 0:
		if !slices.Contains(s.rec.Versions, ws.Version) {
			what = ws.Version
		}
	case ws.Version == "" && begins && !s.unsure && s.rec.Run.ID != "" && ws.Run != "" && ws.Run != s.rec.Run.ID:
		what = ws.Run // this server does not say which version is the current one
	}
	if what == "" || what == s.rec.Foreign {
		return
	}
	s.rec.Foreign = what
	s.say("Another program has changed the workspace %s (%s).", s.ws.Name, what)
	s.Log.Warn("another program has changed a workspace: does a second Terrapulse use the same organization and prefix?",
		"task", s.job.Task.Name, "workspace", s.ws.Name, "changed_by", what)
}

// strangers are why a plan with these changes needs an approval because the workspace is perhaps
// that of another instance.
func (s *step) strangers(c *state.Changes) (all []state.Cause) {
	hold := func(format string, args ...any) {
		all = append(all, state.Cause{Rule: state.RuleApproval, Text: fmt.Sprintf(format, args...)})
	}
	if s.rec.Foreign != "" && (c.Destroy > 0 || c.Unknown) {
		hold("another program has changed the workspace %s since the last run (%s), and the plan may destroy what it has created: "+
			"make sure that no second Terrapulse uses the same organization and prefix", s.ws.Name, s.rec.Foreign)
	}
	if s.rec.Inherited && c.Any() && s.job.Remote != nil { // without a store, it is not known
		hold("the workspace %s was created by Terrapulse and has resources, but this store has no record of it: "+
			"make sure that no second Terrapulse uses the same organization and prefix", s.ws.Name)
	}
	return all
}

// settled notes that a run of the task has succeeded. It reports whether the record has changed.
func (s *step) settled(applied bool) bool {
	before := s.rec
	switch {
	case applied && s.rec.Run.Version != "":
		s.rec.Versions = []string{s.rec.Run.Version}
	case s.rec.Foreign != "": // nothing had to be changed: what the other program did is accepted
		s.uploaded(s.rec.Foreign)
	}
	s.rec.Foreign, s.rec.Inherited, s.rec.ConfirmedLate = "", false, ""
	return !slices.Equal(before.Versions, s.rec.Versions) || before.Foreign != "" || before.Inherited || before.ConfirmedLate != ""
}
