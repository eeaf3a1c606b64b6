package condition

import "testing"

func TestInstance_StatusIsThatOfTheWorstCheck(t *testing.T) {
	for _, c := range []struct {
		checks []check
		want   string
	}{
		{nil, "passing"},
		{[]check{{CheckID: "a", Status: "passing"}}, "passing"},
		{[]check{{CheckID: "a", Status: "warning"}, {CheckID: "b", Status: "passing"}}, "warning"},
		{[]check{{CheckID: "a", Status: "warning"}, {CheckID: "b", Status: "critical"}, {CheckID: "c", Status: "passing"}}, "critical"},
		{[]check{{CheckID: "a", Status: "critical"}, {CheckID: "_node_maintenance", Status: "critical"}}, "maintenance"},
		{[]check{{CheckID: "_service_maintenance:web", Status: "critical"}}, "maintenance"},
	} {
		if got := (&instance{Checks: c.checks}).status(); got != c.want {
			t.Errorf("%v: %s, want %s", c.checks, got, c.want)
		}
	}
}
