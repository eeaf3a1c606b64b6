package overview_test

import (
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestUnhealthy_SaysWhyNoWorkIsDone(t *testing.T) {
	now := time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)
	unpolled := func(ago time.Duration, all bool) *state.Unpolled {
		return &state.Unpolled{Count: 1, Tasks: []string{"web"}, Error: "503", Since: now.Add(-ago), All: all}
	}
	for _, tt := range []struct {
		name   string
		began  time.Time
		record state.Reconcile
		says   string // "" is healthy
	}{
		{"just begun", now.Add(-time.Minute), state.Reconcile{}, ""},
		{"just begun after a long rest", now.Add(-time.Minute), state.Reconcile{LastSuccess: now.Add(-time.Hour)}, ""},
		{"nothing happens", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-6 * time.Minute)}, ""},
		{"no tick", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-12 * time.Minute)}, "no tick has succeeded for 12m0s: nothing leads"},
		{"no tick ever", now.Add(-time.Hour), state.Reconcile{}, "no tick has succeeded for 1h0m0s"},
		{"a function that nobody has called", time.Time{}, state.Reconcile{}, "no tick has succeeded yet"},
		{"an election in Consul", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-time.Minute), Sight: state.Sight{ConsulError: "no leader", ConsulUnreachable: true, Since: now.Add(-time.Minute)}}, ""},
		{"a datacenter is gone that one task asks for", now.Add(-time.Hour),
			state.Reconcile{LastSuccess: now.Add(-50 * time.Minute), Refreshed: now.Add(-4 * time.Minute), Sight: state.Sight{ConsulError: "no path to datacenter", Since: now.Add(-50 * time.Minute)}}, ""},
		{"a datacenter is gone, and no tick looks at the others", now.Add(-time.Hour),
			state.Reconcile{LastSuccess: now.Add(-50 * time.Minute), Refreshed: now.Add(-12 * time.Minute), Sight: state.Sight{ConsulError: "no path to datacenter", Since: now.Add(-50 * time.Minute)}},
			"no tick has succeeded for 12m0s"},
		{"Consul is gone", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-3 * time.Minute), Sight: state.Sight{ConsulError: "connection refused", ConsulUnreachable: true, Since: now.Add(-3 * time.Minute)}},
			"Consul cannot be watched since 2086-03-14T11:57:00Z: connection refused"},
		{"no task can be read", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-time.Minute),
			Unreadable: &state.Unreadable{Count: 1, Tasks: []string{"web"}, Error: "permission denied", Since: now.Add(-3 * time.Minute), All: true}},
			"no task can be read since 2086-03-14T11:57:00Z (web): permission denied"},
		{"no remote run can be polled for 2 minutes", now.Add(-time.Hour), state.Reconcile{LastSuccess: now, Unpolled: unpolled(2*time.Minute, true)}, ""},
		{"no remote run can be polled for longer", now.Add(-time.Hour), state.Reconcile{LastSuccess: now, Unpolled: unpolled(2*time.Minute+time.Second, true)},
			"no remote run can be polled since 2086-03-14T11:57:59Z (web): 503"},
		{"one of several remote runs cannot be polled", now.Add(-time.Hour), state.Reconcile{LastSuccess: now, Unpolled: unpolled(time.Hour, false)}, ""},
		{"nobody leads any more, and one launch waited", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-12 * time.Minute), Unplaced: "no client"},
			"no tick has succeeded for 12m0s: nothing leads"},
		{"one launch waits", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-time.Minute), Unplaced: "no client"}, ""},
		{"no capacity", now.Add(-time.Hour), state.Reconcile{LastSuccess: now.Add(-12 * time.Minute), Stalled: "no capacity"}, "no tick has succeeded for 12m0s: no capacity"},
	} {
		got := overview.Unhealthy(nil, tt.record, tt.began, now)
		if (got == "") != (tt.says == "") || !strings.HasPrefix(got, tt.says) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.says)
		}
	}
}
