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

// The task's state is a file, so that its folder can be another one than that of the run before.
func TestTerraform_TaskWhoseLatestStateIsElsewhereIsNotAppliedFromAnOlderOne(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), `variable "services" {}
resource "terraform_data" "one" { input = "first" }`)
	s.job.Task.Variables = nil
	backend := filepath.Join(t.TempDir(), "states")
	s.job.Config.Terraform.Backend = config.Backend{Type: "local", Body: config.Body{Attributes: map[string]cty.Value{"workspace_dir": cty.StringVal(backend)}}}
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err, s.out.String())
	}
	file := filepath.Join(backend, "web", "terraform.tfstate")
	older := read(t, file)
	s.module(`variable "services" {}
resource "terraform_data" "one" { input = "first" }
resource "terraform_data" "two" {}`)
	if _, err := s.driver.Apply(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	latest := read(t, file)
	id := stateID(t, latest)
	write := func(state string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	var held []state.Cause
	errHeld := errors.New("a person must see it")
	s.job.Judge = func(_ context.Context, p driver.Plan) error {
		if held = p.Causes; len(held) > 0 {
			return errHeld
		}
		return nil
	}
	saved := 0
	s.job.Notes = notes{func() {}, func() { saved++ }}
	left := state.Unsaved{Run: "r1", Runner: "cts-02", Instance: true, Place: "/tasks/web/errored.tfstate", State: id}
	run := func(u state.Unsaved, reason state.ReasonCode) error {
		t.Helper()
		held, saved = nil, 0
		s.job.Run = state.Run{Kind: state.KindApply, Reason: state.Reason{Code: reason}, Unsaved: &u}
		_, err := s.driver.Apply(t.Context(), s.job)
		return err
	}

	write(older)
	if err := run(left, state.ReasonRetry); err == nil || !strings.Contains(err.Error(), "instance cts-02 keeps it in /tasks/web/errored.tfstate. Start cts-02") || saved > 0 {
		t.Errorf("a retry on another instance: %v", err)
	}
	if err := run(left, state.ReasonForced); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "may make again") || saved > 0 {
		t.Errorf("a run that a person has requested: %v, %+v", err, held)
	}
	inBucket := state.Unsaved{Run: "r1", Runner: "container", Place: "s3://bucket/errored.tfstate", State: id}
	if err := run(inBucket, state.ReasonRetry); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "s3://bucket/errored.tfstate") {
		t.Errorf("a retry in another container: %v, %+v", err, held)
	}
	nowhere := state.Unsaved{Run: "r1", Runner: "cts-02"} // as of a LostError
	if err := run(nowhere, state.ReasonRetry); !errors.Is(err, errHeld) || len(held) != 1 || !strings.Contains(held[0].Text, "after run r1 could not be saved, and is lost, so that the plan may make again") || saved > 0 {
		t.Errorf("a retry after a state was lost: %v, %+v", err, held)
	}
	s.job.Run = state.Run{Kind: state.KindDestroy, Removed: true, Unsaved: &left}
	if _, err := s.driver.Destroy(t.Context(), s.job); err == nil || !strings.Contains(err.Error(), "and run `terrapulse destroy web`") {
		t.Errorf("a destroy of a removed task: %v", err)
	}
	s.job.Run.ByHand = true
	if _, err := s.driver.Destroy(t.Context(), s.job); !errors.Is(err, errHeld) || len(held) != 1 {
		t.Errorf("a destroy: %v, %+v", err, held)
	}
	if got := read(t, file); got != older {
		t.Fatalf("something was applied:\n%s", got)
	}

	write(latest) // somebody has pushed it
	if err := run(left, state.ReasonRetry); err != nil || len(held) > 0 || saved != 1 {
		t.Errorf("with the state: %v, %+v, known to be saved %d times", err, held, saved)
	}
}

// stateID returns what a record says of a state.
func stateID(t *testing.T, text string) string {
	t.Helper()
	id, err := terraformcli.StateID([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
