package hcp

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/terrapulse/terrapulse/internal/driver/rootmodule"
)

// literals returns the values that the upload gives to these variables, as expressions. A
// plan sends them as variables of its run: these replace the variables of the workspace that
// Consul-Terraform-Sync has written, which stay as they are.
func (s *step) literals(names []string) (map[string]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	files, err := rootOf(s.job, s.job.Task).Files()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, f := range files {
		if f.Name != rootmodule.ValuesFile && f.Name != rootmodule.ModuleValuesFile {
			continue
		}
		var content bytes.Buffer
		if err := f.Render(&content); err != nil {
			return nil, fmt.Errorf("write %s of task %s: %w", f.Name, s.job.Task.Name, err)
		}
		parsed, problems := hclsyntax.ParseConfig(content.Bytes(), f.Name, hcl.InitialPos)
		if problems.HasErrors() {
			return nil, fmt.Errorf("read %s of task %s: %w", f.Name, s.job.Task.Name, problems)
		}
		attributes, problems := parsed.Body.JustAttributes()
		if problems.HasErrors() {
			return nil, fmt.Errorf("read %s of task %s: %w", f.Name, s.job.Task.Name, problems)
		}
		for name, a := range attributes {
			if slices.Contains(names, name) {
				all[name] = string(a.Expr.Range().SliceBytes(content.Bytes()))
			}
		}
	}
	return all, nil
}

// wouldSetUp notes what a run would set up. Only a driver that leaves workspaces untouched
// has compared all of it.
func (s *step) wouldSetUp(format string, args ...any) {
	if s.untouched() {
		s.setup = append(s.setup, fmt.Sprintf(format, args...))
	}
}

// saySettings notes what a run would change in a workspace that exists.
func (s *step) saySettings(ws Workspace, changed Settings, tags []string) {
	switch {
	case s.adopted:
		s.wouldSetUp("takes over the workspace %s of Consul-Terraform-Sync", ws.Name)
	case ws.SourceName == sourceName:
		s.wouldSetUp("uses the workspace %s, which Terrapulse has created", ws.Name)
	default:
		s.wouldSetUp("takes over the workspace %s, to which nobody has uploaded a configuration", ws.Name)
	}
	if v := changed.TerraformVersion; v != nil {
		s.wouldSetUp("sets its Terraform to %s (this plan was made with %s)", *v, ws.TerraformVersion)
	}
	if mode := changed.ExecutionMode; mode != nil && *mode != ws.ExecutionMode {
		s.wouldSetUp("sets its execution mode to %s instead of %s", *mode, ws.ExecutionMode)
	}
	if changed.AgentPool != nil {
		s.wouldSetUp("sets another agent pool")
	}
	if len(tags) > 0 {
		s.wouldSetUp("adds the tags: %s", strings.Join(tags, ", "))
	}
	if ws.Locked {
		s.wouldSetUp("waits until the workspace is unlocked (it is locked by %s)", cmp.Or(ws.LockedBy, "somebody"))
	}
}

// saySecrets notes which variables a run would remove and write.
func (s *step) saySecrets(wanted map[string]Variable) {
	if len(s.replaced) > 0 {
		s.wouldSetUp("removes the variables that would replace what it uploads: %s", strings.Join(slices.Compact(slices.Sorted(slices.Values(s.replaced))), ", "))
	}
	there := slices.Sorted(maps.Keys(wanted))
	there = slices.DeleteFunc(there, func(name string) bool { return slices.Contains(s.lacks, name) })
	if len(there) > 0 {
		s.wouldSetUp("writes again the secrets that the workspace has: %s", keys(there))
	}
	if len(s.lacks) > 0 {
		s.wouldSetUp("writes the secrets that this plan did not have: %s", keys(s.lacks))
	}
	if url := s.cloud.NotificationURL; url != "" {
		s.wouldSetUp("sets up a notification to %s", url)
	}
}

// keys are the names of variables for people.
func keys(names []string) string {
	return strings.ReplaceAll(strings.Join(names, ", "), "env/", "")
}

// withoutSecrets adds to the error of a plan that it was made without secrets.
func (s *step) withoutSecrets(err error) error {
	if len(s.lacks) == 0 {
		return err
	}
	return fmt.Errorf("%w; the plan was made without these secrets, which the workspace %s does not have before the first run: %s", err, s.ws.Name, keys(s.lacks))
}
