package state

import (
	"testing"
	"time"
)

// The clocks of the leader, of runners and of who approves may be minutes apart.
func TestRun_WaitsAreKnownWithoutComparingClocks(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	early := noon.Add(-time.Hour) // by a clock that is behind
	content := Content{Definition: "d", Input: "i", Plan: "p"}
	waits := Run{Times: Times{Started: noon.Add(-time.Minute)}, Waits: Waits{Wait: &Wait{For: WaitApproval, Since: noon, Content: &content}}}
	approved := &Approval{Given: Given{By: "Ann", At: early}, Content: content}
	other := &Approval{Given: Given{By: "Bob", At: noon.Add(time.Hour)}, Content: Content{Definition: "d", Input: "i", Plan: "another"}}
	ofInput := &Approval{Given: Given{By: "Cleo", At: early}, Content: content.OfInput()}
	resumed := &Resume{At: early}
	for name, c := range map[string]struct {
		change func(*Run)
		by     string
		worked time.Duration // until ten minutes after noon
	}{
		"it waits":                  {func(r *Run) { r.Approval = nil }, "", time.Minute},
		"it waits for another plan": {func(r *Run) { r.Approval = other }, "", time.Minute},
		"approved, not yet claimed": {func(r *Run) { r.Approval, r.Resumed = approved, resumed }, "Ann", time.Minute},
		"approved and claimed":      {func(r *Run) { r.Approval, r.Resumed, r.Claim, r.Waited = approved, resumed, "c", 9*time.Minute }, "Ann", 2 * time.Minute},
		"its input is approved":     {func(r *Run) { r.Approval, r.Resumed, r.Claim, r.Waited = ofInput, resumed, "c", 9*time.Minute }, "Cleo", 2 * time.Minute},
		"resumed by other rules, after an approval of something else": {func(r *Run) { r.Approval, r.Resumed, r.Claim, r.Waited = other, resumed, "c", 9*time.Minute }, "", 2 * time.Minute},
		"approved before it began":                                    {func(r *Run) { r.Approval, r.Wait, r.Claim = approved, nil, "c" }, "Ann", 11 * time.Minute},
	} {
		run := waits
		c.change(&run)
		by := ""
		if a := run.Approved(); a != nil {
			by = a.By
		}
		if worked := run.Worked(noon.Add(10 * time.Minute)); by != c.by || worked != c.worked {
			t.Errorf("%s: approved by %q, want %q; worked %s, want %s", name, by, c.by, worked, c.worked)
		}
	}
}
