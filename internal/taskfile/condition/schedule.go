package condition

import (
	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/cron"
)

// ScheduleKind is condition "schedule".
var ScheduleKind = &Kind{
	Name: "schedule",
	Doc:  "points in time",
	Keys: func() Keys { return &schedule{} },
}

type schedule struct {
	block.Origin
	Cron block.String `key:"cron" required:"true" example:"0 3 * * Mon-Fri" doc:"five fields; six with a year at the end; seven with seconds at the beginning, too; also '@hourly' and similar ([cronexpr](https://github.com/hashicorp/cronexpr))"`
}

// Schedule runs a task at the times of a cron expression of
// github.com/hashicorp/cronexpr, in the local time zone.
type Schedule struct {
	Cron string `json:"cron,omitempty"`
}

// Kind is ScheduleKind.
func (Schedule) Kind() *Kind { return ScheduleKind }

// String says when the condition is due.
func (s Schedule) String() string { return "schedule " + s.Cron }

// Selections are none.
func (Schedule) Selections() []Selection { return nil }

// Feeds are none.
func (Schedule) Feeds() []Feed { return nil }

// CronExpression says when the condition is due.
func (s Schedule) CronExpression() string { return s.Cron }

func (k *schedule) Spec(r *block.Report, _ string) Spec {
	if k.Cron.V == "" {
		r.Missing(k.Key("cron"), "cron config is required for schedule condition", `such as "*/10 * * * *"; `+cron.Help)
		return Schedule{}
	}
	if _, ok := cron.Check(r, k.Cron, "task", "unable to parse schedule condition's cron config"); !ok {
		return Schedule{}
	}
	return Schedule{Cron: k.Cron.V}
}
