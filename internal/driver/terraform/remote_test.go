package terraform_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// A task that was applied in HCP Terraform has its state there. With an empty one here, all
// would be made twice, and with an older one, what is missing in it.
func TestTerraform_TaskFromHCPIsNotCreatedAgain(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), module)
	var held []state.Cause
	errHeld := errors.New("a person must see it")
	s.job.Judge = func(_ context.Context, p driver.Plan) error {
		if held = p.Causes; len(held) > 0 {
			return errHeld
		}
		return nil
	}
	before := state.Remote{Name: "net-web"}
	s.job.Run.Kind, s.job.Run.FromRemote = state.KindApply, true
	s.job.Remote = func(context.Context) (state.Remote, error) { return before, nil }

	before.Applied = true
	for what, change := range map[string]func(context.Context, driver.Job) (*state.Changes, error){"apply": s.driver.Apply, "destroy": s.driver.Destroy} {
		if _, err := change(t.Context(), s.job); err == nil || !strings.Contains(err.Error(), "was applied in HCP Terraform, in the workspace net-web, and the backend does not have its state") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.job.Task.Module, "names.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made anew: %v", err)
	}

	// A workspace in which nothing was applied has nothing to lose.
	before.Applied = false
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}

	before.Applied = true
	if done, err := s.driver.Apply(t.Context(), s.job); err != nil || done.Any() || len(held) > 0 {
		t.Errorf("with the state: %+v, %v, %v", done, err, held)
	}
	s.job.Task.Variables["password"] = cty.StringVal("another-secret")
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil || len(held) > 0 {
		t.Errorf("a plan that makes nothing: %v, %v", err, held)
	}
	s.module(module + `resource "terraform_data" "newer" {}`)
	if _, err := s.driver.Apply(t.Context(), s.job); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "net-web") {
		t.Errorf("a plan that makes something: %v, %v", err, held)
	}
}

// A container, or another instance, has no directory that knows the former backend, so that nothing
// moves the state from there.
func TestTerraform_TaskWhoseStateWasLeftBehindIsHeld(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), module)
	var held []state.Cause
	errHeld := errors.New("a person must see it")
	judge := func(_ context.Context, p driver.Plan) error {
		if held = p.Causes; len(held) > 0 {
			return errHeld
		}
		return nil
	}
	s.job.Judge, s.job.BackendChanged, s.job.Run.Kind = judge, true, state.KindApply
	if _, err := s.driver.Apply(t.Context(), s.job); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "the new one has no state of the task") {
		t.Errorf("a plan that makes everything again: %v, %v", err, held)
	}
	refused := "the backend has changed since task web was applied, and the new one has no state of it"
	s.job.Judge = nil
	if _, err := s.driver.Apply(t.Context(), s.job); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("an apply that nobody judges: %v", err)
	}
	s.job.Judge, s.job.Run.Kind = judge, state.KindDestroy
	if _, err := s.driver.Destroy(t.Context(), s.job); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("a destroy: %v", err)
	}

	s.job.BackendChanged, s.job.Run.Kind = false, state.KindApply // as if somebody has approved it
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	s.job.BackendChanged = true // and with a state, which was copied or moved
	s.module(module + `resource "terraform_data" "newer" {}`)
	if done, err := s.driver.Apply(t.Context(), s.job); err != nil || done.Add != 1 || len(held) > 0 {
		t.Errorf("with the state: %+v, %v, %v", done, err, held)
	}
}
