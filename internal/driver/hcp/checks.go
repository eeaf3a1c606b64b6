package hcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/checkblock"
)

// checked returns what the check blocks of the module have found in a run that has succeeded. Terraform
// warns of a block that fails: without a warning in the output of p, they are read only if required.
func (s *step) checked(ctx context.Context, run Run, p Phase, text string, read func(context.Context, Run) (checkblock.Results, error)) *driver.Checks {
	if s.destroy {
		return nil
	}
	unread := text == "" && p.LogURL != ""
	if !s.job.ChecksRequired && !unread && !warns(text) {
		return new(driver.Checks)
	}
	found, err := read(ctx, run)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrNoContent) {
		err = fmt.Errorf("%w: the token may not read it: give its team the right to read state and plans", err)
	}
	if err != nil {
		s.say("What the check blocks of the module have found cannot be read from HCP Terraform: %v.", err)
	}
	found.Clean(s.scrub.Clean)
	return &driver.Checks{Failing: found.Failing, Unknown: found.Unknown, Err: err}
}

// warns reports whether an output of Terraform has a warning.
func warns(text string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return checkblock.Warns(plain(line)) })
}

// checksOfPlan reads the results of a run that had nothing to apply.
func (s *step) checksOfPlan(ctx context.Context, run Run) (checkblock.Results, error) {
	raw, err := s.api.PlanJSON(ctx, run.Plan.ID)
	if err != nil {
		return checkblock.Results{}, fmt.Errorf("read the plan of %s: %w", run.ID, err)
	}
	var plan tfjson.Plan
	if err := json.Unmarshal(raw, &plan); err != nil {
		return checkblock.Results{}, fmt.Errorf("read the plan of %s: %w", run.ID, err)
	}
	return checkblock.OfPlan(&plan), nil
}

// checksOfState reads the results of a run that was applied, in the state that it has left.
func (s *step) checksOfState(ctx context.Context, run Run) (checkblock.Results, error) {
	latest, err := s.api.State(ctx, s.rec.Workspace)
	switch {
	case err != nil:
		return checkblock.Results{}, fmt.Errorf("read the state in the workspace %s: %w", s.rec.Name, err)
	case latest.Run != "" && latest.Run != run.ID:
		return checkblock.Results{}, fmt.Errorf("the state in the workspace %s is that of %s by now", s.rec.Name, latest.Run)
	}
	return checkblock.OfState(latest.Content)
}
