package hcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// sourceName is what HCP Terraform shows as the creator of a workspace.
const sourceName = "Terrapulse"

// errNoWorkspace says that the task has no workspace.
var errNoWorkspace = errors.New("the task has no workspace")

// findWorkspace returns the workspace of the task: the recorded one, even under another name,
// or the one with the task's name. The error is errNoWorkspace if there is none.
//
// If the recorded one does not exist and nothing was applied in it, a plan may have created it,
// and deleted it while a run began there. A destroy fails then if a person may have confirmed a
// run there, even if the answer to its creation was lost: perhaps the token has only lost its rights. A workspace in another organization is
// not used, because its runs are not polled.
func (s *step) findWorkspace(ctx context.Context) (Workspace, error) {
	name := s.cloud.Workspace(s.job.Task.Name)
	if s.rec.Workspace != "" {
		ws, err := s.api.WorkspaceByID(ctx, s.rec.Workspace)
		elsewhere := err == nil && ws.Organization != "" && !strings.EqualFold(ws.Organization, s.cloud.Organization)
		if !elsewhere && !errors.Is(err, ErrNotFound) {
			return ws, s.failed("read the workspace "+s.rec.Workspace, err)
		}
	}
	ws, err := s.api.Workspace(ctx, s.cloud.Organization, name)
	switch {
	case !errors.Is(err, ErrNotFound):
		return ws, s.failed("read the workspace "+name, err)
	case s.rec.Workspace != "" && (s.destroy && s.rec.Run.Begun() || s.rec.Applied || !s.rec.Created):
		return ws, fmt.Errorf("the workspace %s (%s) of task %s is gone, or the token may not read it, or it is not in the organization %s: "+
			"give its team the right to manage workspaces, or move the state to a workspace %s of the organization; if the workspace was deleted with its state, create an empty one called %s to begin anew",
			s.rec.Name, s.rec.Workspace, s.job.Task.Name, s.cloud.Organization, name, name)
	}
	s.rec.Workspace = ""
	return ws, errNoWorkspace
}

// mayBegin refuses a task that another driver has applied, unless its state is in the
// workspace: an apply would create everything again, and a destroy would destroy nothing.
func (s *step) mayBegin(ctx context.Context) error {
	if !s.first || !s.job.Applied {
		return nil
	}
	ws, err := s.findWorkspace(ctx)
	if errors.Is(err, errNoWorkspace) {
		ws, err = s.formerWorkspace(ctx)
	}
	none := errors.Is(err, errNoWorkspace)
	if err != nil && !none {
		return err
	}
	if !none {
		resources, err := s.resources(ctx, ws)
		if err != nil {
			return err
		}
		if !empty(resources) && (resources != nil || !s.destroy) { // if it is not known, what the plan creates needs an approval
			return nil
		}
	}
	t := s.job.Task.Name
	return fmt.Errorf("task %s was applied with another driver, and the workspace %s in HCP Terraform does not have its state: Terraform would create everything again. "+
		"Move the state there, as %s shows, or destroy the task's infrastructure with the driver that created it", t, s.cloud.Workspace(t), docs.Page("hcp.md"))
}

// workspace makes sure that the task has its workspace, with what the configuration says
// about it.
func (s *step) workspace(ctx context.Context) error {
	ws, err := s.findWorkspace(ctx)
	if errors.Is(err, errNoWorkspace) {
		ws, err = s.formerWorkspace(ctx)
	}
	if err == nil && s.isFormer(ws) && !s.reads {
		ws, err = s.rename(ctx, ws)
	}
	switch {
	case errors.Is(err, errNoWorkspace):
		if s.ws, err = s.createWorkspace(ctx); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if err := s.mayUse(ws); err != nil {
			return err
		}
		if s.ws, err = s.updateWorkspace(ctx, ws); err != nil {
			return err
		}
	}
	s.rec.Workspace, s.rec.Name = s.ws.ID, s.ws.Name
	return nil
}

// formerWorkspace returns the workspace that the task had under one of its former names.
func (s *step) formerWorkspace(ctx context.Context) (Workspace, error) {
	moves := s.job.Run.Moves
	if moves == nil {
		return Workspace{}, errNoWorkspace
	}
	var names []string
	for _, former := range moves.From {
		name := s.cloud.Workspace(former)
		ws, err := s.api.Workspace(ctx, s.cloud.Organization, name)
		if !errors.Is(err, ErrNotFound) {
			return ws, s.failed("read the workspace "+name, err)
		}
		names = append(names, name)
	}
	if moves.Expected {
		return Workspace{}, fmt.Errorf("task %s was called %s, but there is no workspace %s to rename, or the token may not read it: "+
			"remove moved_from if the task begins without a state", s.job.Task.Name, strings.Join(moves.From, ", "), strings.Join(names, " or "))
	}
	return Workspace{}, errNoWorkspace
}

// isFormer reports whether the workspace has one of the former names of the task.
func (s *step) isFormer(ws Workspace) bool {
	moves := s.job.Run.Moves
	return moves != nil && slices.ContainsFunc(moves.From, func(former string) bool { return ws.Name == s.cloud.Workspace(former) })
}

// rename gives the workspace of a renamed task its new name.
func (s *step) rename(ctx context.Context, ws Workspace) (Workspace, error) {
	before, name := ws.Name, s.cloud.Workspace(s.job.Task.Name)
	s.say("The workspace %s is renamed to %s.", before, name)
	ws, err := s.api.UpdateWorkspace(ctx, ws.ID, Settings{Name: &name})
	return ws, s.failed("rename the workspace "+before+" to "+name, err)
}

// mayUse says why the workspace cannot be the one of the task.
func (s *step) mayUse(ws Workspace) error {
	refused := func(format string, args ...any) error {
		return fmt.Errorf("the workspace %s in HCP Terraform cannot be used for task %s: %s", ws.Name, s.job.Task.Name, fmt.Sprintf(format, args...))
	}
	ours := ws.ID == s.rec.Workspace || ws.SourceName == sourceName || hasTag(ws.Tags, config.CloudTag)
	switch {
	case ws.VCS != "":
		return refused("it is connected to %s, so that it refuses uploads: disconnect it, or set another workspaces.prefix", ws.VCS)
	case ws.ExecutionMode != config.ExecutionRemote && ws.ExecutionMode != config.ExecutionAgent:
		return refused("its execution mode is %q: set it to remote or agent", ws.ExecutionMode)
	case !ours && ws.Version != "":
		return refused("another program has uploaded its configuration version %s: set another workspaces.prefix, or give the workspace the tag %s to hand it over to Terrapulse, with its state",
			ws.Version, config.CloudTag)
	}
	return s.tagsPermit(ws.Tags, refused)
}

// hasTag reports whether a workspace has a tag. HCP Terraform keeps tags in lower case, whatever is
// sent to it.
func hasTag(tags []string, tag string) bool {
	return slices.ContainsFunc(tags, func(other string) bool { return strings.EqualFold(other, tag) })
}

// tagsPermit says whether a workspace with these tags may be used.
func (s *step) tagsPermit(tags []string, refused func(string, ...any) error) error {
	for _, tag := range tags {
		if hasTag(s.cloud.TagsDenylist, tag) {
			return refused("it has the tag %s, which is in tags_denylist", tag)
		}
	}
	allowed := s.cloud.TagsAllowlist
	if len(allowed) > 0 && !slices.ContainsFunc(tags, func(tag string) bool { return hasTag(allowed, tag) }) {
		return refused("it has none of the tags in tags_allowlist (%s)", strings.Join(allowed, ", "))
	}
	return nil
}

// wanted are the settings that the task's configuration decides.
func (s *step) wanted(ctx context.Context) (Settings, error) {
	var w Settings
	c := s.job.Task.Cloud
	if c.TerraformVersion != "" {
		w.TerraformVersion = &c.TerraformVersion
	}
	if c.ExecutionMode == "" {
		return w, nil
	}
	w.ExecutionMode = &c.ExecutionMode
	if c.ExecutionMode != config.ExecutionAgent {
		return w, nil
	}
	w.AgentPool = &c.AgentPoolID
	if c.AgentPoolID != "" {
		return w, nil
	}
	pools, err := s.api.AgentPools(ctx, s.cloud.Organization)
	if err != nil {
		return w, s.failed("list the agent pools", err)
	}
	for _, p := range pools {
		if p.Name == c.AgentPoolName {
			w.AgentPool = &p.ID
			return w, nil
		}
	}
	return w, fmt.Errorf("task %s: the organization %s has no agent pool %q, or the token may not use it", s.job.Task.Name, s.cloud.Organization, c.AgentPoolName)
}

// createWorkspace creates the workspace of the task.
func (s *step) createWorkspace(ctx context.Context) (Workspace, error) {
	t, name := s.job.Task, s.cloud.Workspace(s.job.Task.Name)
	if err := s.tagsPermit(s.cloud.Tags, func(format string, args ...any) error {
		return fmt.Errorf("the workspace %s for task %s cannot be created: %s: change workspaces.tags", name, t.Name, fmt.Sprintf(format, args...))
	}); err != nil {
		return Workspace{}, err
	}
	settings, err := s.wanted(ctx)
	if err != nil {
		return Workspace{}, err
	}
	source, remote, apply := sourceName, config.ExecutionRemote, true
	settings.Name, settings.Description, settings.SourceName, settings.AutoApply, settings.Tags = &name, &t.Description, &source, &apply, s.cloud.Tags
	if settings.ExecutionMode == nil {
		settings.ExecutionMode = &remote
	}
	ws, err := s.api.CreateWorkspace(ctx, s.cloud.Organization, settings)
	if err != nil { // it may have been created all the same
		found, again := s.api.Workspace(ctx, s.cloud.Organization, name)
		if again != nil || found.SourceName != sourceName {
			return ws, s.failed("create the workspace "+name, err)
		}
		ws = found
	}
	s.say("The workspace %s was created.", ws.Name)
	s.created = err == nil // otherwise it may be older, and have runs
	return ws, s.beginRecord(ctx, ws)
}

// untouched reports whether the step writes nothing into a workspace that exists.
func (s *step) untouched() bool { return s.Untouched || s.job.Run.WhatIf != nil }

// updateWorkspace gives a workspace that exists what the configuration says about it.
// Everything else is its operator's.
func (s *step) updateWorkspace(ctx context.Context, ws Workspace) (Workspace, error) {
	if s.rec.Workspace != ws.ID {
		if err := s.beginRecord(ctx, ws); err != nil {
			return ws, err
		}
		s.adopted = ws.SourceName != sourceName && hasTag(ws.Tags, config.CloudTag)
	}
	if s.reads && !s.untouched() {
		return ws, nil
	}
	settings, err := s.wanted(ctx)
	if err != nil {
		return ws, err
	}
	differs := false
	keep := func(wanted **string, is string) {
		if *wanted != nil && **wanted == is {
			*wanted = nil
		}
		differs = differs || *wanted != nil
	}
	keep(&settings.TerraformVersion, ws.TerraformVersion)
	keep(&settings.AgentPool, ws.AgentPool)
	if settings.AgentPool == nil { // else both are sent, as HCP Terraform requires
		keep(&settings.ExecutionMode, ws.ExecutionMode)
	}
	var missing []string
	for _, tag := range s.cloud.Tags {
		if !hasTag(ws.Tags, tag) {
			missing = append(missing, tag)
		}
	}
	if s.reads {
		s.saySettings(ws, settings, missing)
		return ws, nil
	}
	if differs {
		before := ws
		if ws, err = s.api.UpdateWorkspace(ctx, ws.ID, settings); err != nil {
			return ws, s.failed("change the settings of the workspace "+before.Name, err)
		}
	}
	if len(missing) > 0 {
		if err := s.api.AddTags(ctx, ws.ID, missing); err != nil {
			return ws, s.failed("add the tags "+strings.Join(missing, ", ")+" to the workspace "+ws.Name, err)
		}
	}
	return ws, nil
}

// deleteWorkspace deletes the workspace if it was created for the task. Before that, it is
// recorded that none is known: if the task comes back, it gets a new one. A workspace that stays
// keeps nothing that the driver has written, unless somebody still needs it there.
func (s *step) deleteWorkspace(ctx context.Context) error {
	if !s.rec.Created && s.ws.SourceName != sourceName {
		s.say("The workspace %s was not created by Terrapulse: it is left as it is, without the secrets of the task.", s.ws.Name)
		return s.leave(ctx)
	}
	s.rec.Workspace, s.rec.Variables = "", nil
	if err := s.record(ctx); err != nil {
		return err
	}
	stays := func(why string, err error) {
		s.say("The workspace %s is not deleted: %s.", s.ws.Name, why)
		s.Log.Warn("a workspace that no task needs any more is not deleted: delete it in HCP Terraform", "task", s.job.Task.Name, "workspace", s.ws.Name, "error", err)
	}
	err := s.safeDelete(ctx)
	if errors.Is(err, ErrNotFound) { // it is gone, or the token may not delete it
		if ws, read := s.api.WorkspaceByID(ctx, s.ws.ID); read == nil {
			why := "HCP Terraform says that the token may not delete it"
			if ws.Deletable {
				why = "this server cannot delete a workspace only if it manages no resources (safe-delete), which it may have by now: delete it there"
			}
			stays(why, err)
			return s.leave(ctx)
		} else if errors.Is(read, ErrNotFound) {
			err = nil
		}
	}
	switch {
	case errors.Is(err, ErrConflict):
		stays("HCP Terraform says that it still manages resources, or that a run of it goes on", err)
	case err != nil:
		return s.failed("delete the workspace "+s.ws.Name, err)
	default:
		s.say("The workspace %s was deleted.", s.ws.Name)
	}
	return nil
}

// deleteTries is how often a request to delete a workspace is sent that may have had no effect.
const deleteTries = 3

// safeDelete deletes the workspace unless it manages resources. If the answer does not say whether it
// did, the workspace does.
func (s *step) safeDelete(ctx context.Context) (err error) {
	for range deleteTries {
		if err = s.api.DeleteWorkspace(ctx, s.ws.ID); !errors.Is(err, ErrUnknown) {
			return err
		}
		switch ws, read := s.api.WorkspaceByID(ctx, s.ws.ID); {
		case errors.Is(read, ErrNotFound):
			return nil
		case read == nil:
			if resources, read := s.resources(ctx, ws); read == nil && (ws.Locked || !empty(resources)) {
				return fmt.Errorf("%w: %w", ErrConflict, err)
			}
		}
		if waited := s.Wait(ctx, time.Second); waited != nil {
			return waited
		}
	}
	return err
}
