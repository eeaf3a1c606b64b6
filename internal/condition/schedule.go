package condition

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/cronexpr"

	"github.com/terrapulse/terrapulse/internal/config/block"
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

// Selections are none.
func (Schedule) Selections() []Selection { return nil }

// CronExpression says when the condition is due.
func (s Schedule) CronExpression() string { return s.Cron }

func (k *schedule) Spec(r *block.Report, _ string) Spec {
	const syntax = "for more information on writing cron expressions, see https://github.com/hashicorp/cronexpr"
	cron := k.Cron.V
	if cron == "" {
		r.Missing(k.Key("cron"), "cron config is required for schedule condition", `such as "*/10 * * * *"; `+syntax)
		return Schedule{}
	}
	expr, err := cronexpr.Parse(cron)
	if err != nil {
		r.Fail(k.Cron.Origin, fmt.Sprintf("unable to parse schedule condition's cron config %s: %s", block.Quoted(cron), err), syntax)
		return Schedule{}
	}
	backwards, noSunday := oddRanges(cron)
	if noSunday != "" {
		r.Warn(k.Cron.Origin, fmt.Sprintf("the range %s of the schedule %s leaves Sunday out", block.Quoted(noSunday), block.Quoted(cron)),
			"if it is meant, add it: SAT,SUN for SAT-SUN")
	}
	if backwards != "" {
		r.Fail(k.Cron.Origin, fmt.Sprintf("the schedule %s has a range that goes backwards: %s", block.Quoted(cron), block.Quoted(backwards)),
			"write it as two, such as 22-23,0-6 for 22-6")
		return Schedule{}
	}
	switch over := fmt.Sprintf("the schedule %s never comes due again", block.Quoted(cron)); {
	case expr.Next(time.Unix(0, 0)).IsZero():
		r.Fail(k.Cron.Origin, fmt.Sprintf("the schedule %s never comes due", block.Quoted(cron)), "no date matches it")
	case !expr.Next(r.Now).IsZero():
	case r.Existing:
		r.Warn(k.Cron.Origin, over, "remove the task, or correct the year")
	default:
		r.Fail(k.Cron.Origin, over, "correct the year")
	}
	return Schedule{Cron: cron}
}

var cronRange = regexp.MustCompile(`^([a-z]+|[0-9]+)-([a-z]+|[0-9]+)(/[0-9]+)?$`)

// oddRanges returns a range of a valid cron expression that ends before it
// begins, and one that ends on a Sunday which cronexpr leaves out. With the first,
// cronexpr never matches: it panics on the months NOV-FEB, and tries every second
// of a century for the seconds 5-1. Of SAT-SUN it takes Saturday alone.
func oddRanges(cron string) (backwards, noSunday string) {
	fields := strings.Fields(strings.ToLower(cron))
	weekday := 4
	if len(fields) > 6 {
		weekday = 5
	}
	for i, field := range fields {
		for entry := range strings.SplitSeq(field, ",") {
			m := cronRange.FindStringSubmatch(entry)
			if m == nil {
				continue
			}
			first, last := cronValue(m[1]), cronValue(m[2])
			if i == weekday {
				first %= 7
			}
			switch {
			case i == weekday && last%7 == 0:
				if first > 0 {
					noSunday = entry
				}
			case first > last:
				backwards = entry
			}
		}
	}
	return backwards, noSunday
}

// cronValue is a number, or the number of the month or weekday with this name.
func cronValue(text string) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	name := text[:min(3, len(text))] // Parse has accepted the name
	if day := strings.Index("sunmontuewedthufrisat", name); day >= 0 {
		return day / 3
	}
	return strings.Index("janfebmaraprmayjunjulaugsepoctnovdec", name)/3 + 1
}
