package terraform_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestTerraform_AppliesOnlyWhatIsJudgedAsGood(t *testing.T) {
	s := newTask(t, testtools.Terraform(t), module)
	file := filepath.Join(s.job.Task.Module, "names.txt")
	var got driver.Plan
	var verdict error = &driver.WaitError{Wait: state.Wait{For: state.WaitApproval}}
	s.job.Judge = func(ctx context.Context, p driver.Plan) (err error) {
		if p.Digest != "" || p.Resources != nil {
			t.Errorf("the details were read before anybody needed them: %+v", p)
		}
		if got, err = p.Detail(ctx); err != nil {
			return err
		}
		if diff := cmp.Diff(p.Changes, got.Changes); diff != "" || p.State != got.State || p.New != got.New {
			t.Errorf("the details of the plan contradict its counts: %s", diff)
		}
		if got.Text, err = got.Print(ctx); err != nil {
			return err
		}
		return verdict
	}

	wait := (*driver.WaitError)(nil)
	if _, err := s.driver.Apply(t.Context(), s.job); !errors.As(err, &wait) {
		t.Fatalf("a plan that is to wait: %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan that is to wait was applied: %v", err)
	}
	if got.Digest == "" || got.State != "" || got.InState != nil || got.Changes.Add != 4 || !strings.Contains(got.Text, "Plan: 4 to add") {
		t.Errorf("the judge got %+v", got)
	}
	first := got.Digest

	verdict = nil
	done, err := s.driver.Apply(t.Context(), s.job)
	if err != nil || done.Changes.Add != 4 {
		t.Fatalf("a good plan: %+v, %v", done.Changes, err)
	}
	if got.Digest != first {
		t.Error("the same changes have another digest")
	}
	if done, err = s.driver.Apply(t.Context(), s.job); err != nil || done.Changes.Any() || got.State == "" || *got.InState != 4 {
		t.Errorf("without changes: %+v, %v; the judge got %+v", done.Changes, err, got)
	}

	verdict = errors.New("no")
	if _, err := s.driver.Destroy(t.Context(), s.job); !errors.Is(err, verdict) {
		t.Errorf("a plan that is refused: %v", err)
	}
	verdict = nil
	if done, err := s.driver.Destroy(t.Context(), s.job); err != nil || done.Changes.Destroy != 4 {
		t.Errorf("destroyed %+v: %v", done.Changes, err)
	}
}
