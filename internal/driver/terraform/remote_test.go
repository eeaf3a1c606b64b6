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
	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// recorded is a record of what HCP Terraform has of a task.
type recorded struct{ *state.Remote }

func (r recorded) Read(context.Context) (state.Remote, error) { return *r.Remote, nil }
func (r recorded) Write(context.Context, state.Remote) error  { return errors.New("nothing is written") }

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
	s.job.Remote = recorded{&before}

	before.Applied = true
	for what, change := range map[string]func(context.Context, driver.Job) (driver.Outcome, error){"apply": s.driver.Apply, "destroy": s.driver.Destroy} {
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
	if done, err := s.driver.Apply(t.Context(), s.job); err != nil || done.Changes.Any() || len(held) > 0 {
		t.Errorf("with the state: %+v, %v, %v", done.Changes, err, held)
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
	s.job.Judge = nil
	if _, err := s.driver.Apply(t.Context(), s.job); !errors.Is(err, terraformcli.ErrNoState) {
		t.Errorf("an apply that nobody judges: %v", err)
	}
	s.job.Judge, s.job.Run.Kind, held = judge, state.KindDestroy, nil
	if _, err := s.driver.Destroy(t.Context(), s.job); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "destroys nothing of it") {
		t.Errorf("a destroy: %v, %v", err, held)
	}

	s.job.BackendChanged, s.job.Run.Kind = false, state.KindApply // as if somebody has approved it
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	s.job.BackendChanged, held = true, nil // and with a state, which was copied or moved
	s.module(module + `resource "terraform_data" "newer" {}`)
	if done, err := s.driver.Apply(t.Context(), s.job); err != nil || done.Changes.Add != 1 || len(held) > 0 {
		t.Errorf("with the state: %+v, %v, %v", done.Changes, err, held)
	}
}

// A Consul that is replaced, or a bucket that is emptied, takes the states along, and not the records.
func TestTerraform_TaskWhoseStateIsLostIsHeld(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), `variable "services" {}
resource "terraform_data" "one" {}`)
	s.job.Task.Variables = nil
	backend := filepath.Join(t.TempDir(), "states")
	s.job.Config.Terraform.Backend = config.Backend{Type: "local", Body: config.Body{Attributes: map[string]cty.Value{"workspace_dir": cty.StringVal(backend)}}}
	var held []state.Cause
	errHeld := errors.New("a person must see it")
	s.job.OnlyIfOlder = true
	s.job.Judge = func(_ context.Context, p driver.Plan) error {
		if held = p.Causes; len(held) > 0 {
			return errHeld
		}
		return nil
	}
	holds := func(what string, do func(context.Context, driver.Job) (driver.Outcome, error)) {
		t.Helper()
		held = nil
		if _, err := do(t.Context(), s.job); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "it had 1 resource after the latest run, and the backend has no state of the task any more") {
			t.Errorf("%s: %v, %+v", what, err, held)
		}
	}

	done, err := s.driver.Apply(t.Context(), s.job)
	if err != nil || len(done.Made) != 1 {
		t.Fatal(err, done.Made)
	}
	s.job.Run.Had = 1
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(backend, "web", "terraform.tfstate")
	kept := read(t, file)
	if err := os.RemoveAll(backend); err != nil {
		t.Fatal(err)
	}
	holds("an apply", s.driver.Apply)
	s.job.Run.Kind = state.KindDestroy
	holds("a destroy", s.driver.Destroy)
	s.module(`variable "services" {}`)
	s.job.Run.Kind = state.KindApply
	holds("a plan that makes nothing, so that what was made would stay", s.driver.Apply)
	if left, err := os.ReadFile(file); err == nil && strings.Contains(string(left), "terraform_data") {
		t.Errorf("something was applied:\n%s", left)
	}

	s.job.Judge = nil
	if _, err := s.driver.Apply(t.Context(), s.job); !errors.Is(err, terraformcli.ErrNoState) {
		t.Errorf("an apply that nobody can judge: %v", err)
	}
	s.job.Judge = func(context.Context, driver.Plan) error { return nil } // somebody has approved it
	if done, err := s.driver.Apply(t.Context(), s.job); err != nil || done.Made == nil || len(done.Made) != 0 {
		t.Errorf("with an approval: %v, the resources %v", err, done.Made)
	}

	// A person has destroyed everything with Terraform: the state says so.
	if err := os.WriteFile(file, []byte(kept), 0o600); err != nil {
		t.Fatal(err)
	}
	s.job.Run.Kind, s.job.Judge = state.KindDestroy, nil
	if _, err := s.driver.Destroy(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	s.job.Run.Kind = state.KindApply
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Errorf("after a destroy by hand: %v", err)
	}
}
