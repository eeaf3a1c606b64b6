package approval_test

import (
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/approval"
)

func TestSpec_SaysInWordsWhichPlansNeedAnApproval(t *testing.T) {
	for want, spec := range map[string]approval.Spec{
		"no plan needs an approval, unless a guard or a check holds it":                                approval.Default,
		"every plan needs an approval, which is valid for 24h":                                         {Rule: approval.Always, Expires: 24 * time.Hour},
		"a plan that destroys or replaces a resource needs an approval, which is valid for 1h30m":      {Rule: approval.Destructive, Expires: 90 * time.Minute},
		"every plan needs an approval; who created or changed the task through the API cannot give it": {Rule: approval.Always, DistinctApprover: true},
	} {
		if got := spec.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
