package approval_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
)

func TestPlan_CountsOneResourceInTheSingular(t *testing.T) {
	spec := approval.Spec{Rule: approval.Destructive}
	for n, want := range map[int]string{0: "", 1: "1 resource would be destroyed or replaced", 2: "2 resources would be destroyed or replaced"} {
		if got := spec.Plan(state.Changes{Destroy: n}); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
