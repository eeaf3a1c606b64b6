package drift

import (
	"fmt"
	"time"
	_ "time/tzdata" // time zones, where the system has none: in a function or a small image

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/cron"
)

// Keys are the keys of a drift block.
type Keys struct {
	block.Origin
	Enabled  block.Bool     `key:"enabled" unset:"'true' if there is a 'drift' block" doc:"'false': the task is not checked"`
	Every    block.Duration `key:"every" unset:"'24h' without a 'schedule'" form:"delay" example:"24h" doc:"interval between two checks, at least '1m'. The checks of different tasks are spread over the interval"`
	Schedule block.String   `key:"schedule" example:"0 3 * * *" doc:"when to check, instead of 'every': a cron expression, as in a condition 'schedule'"`
	TimeZone block.String   `key:"time_zone" unset:"that of the machine; in AWS UTC" example:"Europe/Berlin" doc:"[IANA name](https://www.iana.org/time-zones) of the time zone of the schedule"`
	Action   block.String   `key:"action" default:"report" one:"report apply" doc:"'apply': a drifted task runs, under all rules"`
}

// minEvery is the shortest interval: a check plans, and so loads providers and
// everything that the task manages.
const minEvery = time.Minute

// Spec checks the keys, and returns the rule: a key that is not set has the value of
// parent. Schedule and interval replace each other.
func (k *Keys) Spec(r *block.Report, parent Spec) Spec {
	s := parent
	s.Enabled = k.Enabled.Or(parent.Enabled || k.Set)
	if k.Every.Set && k.Schedule.Set {
		r.Fail(k.Schedule.Origin, "schedule and every exclude each other", "remove one of them")
	}
	if k.Every.Set {
		s.Every, s.Schedule = k.Every.V, ""
		if s.Every < minEvery {
			r.Fail(k.Every.Origin, fmt.Sprintf("the interval %s is too short", block.Quoted(k.Every.Text)), "at least 1m")
		}
	}
	if k.TimeZone.Set {
		s.TimeZone = k.TimeZone.V
	}
	if k.Schedule.Set {
		s.Every, s.Schedule = 0, k.Schedule.V
		s.schedule, _ = cron.Check(r, k.Schedule, "drift block", "unable to parse the schedule")
	}
	if s.Schedule == "" {
		if s.TimeZone = ""; k.TimeZone.Set {
			r.Warn(k.TimeZone.Origin, "time_zone has no effect without a schedule", "remove it, or replace every by a schedule")
		}
	}
	s.zone = time.Local
	if name := k.TimeZone.Or(s.TimeZone); name != "" {
		var err error
		if s.zone, err = time.LoadLocation(name); err != nil {
			s.zone = time.Local
			if k.TimeZone.Set {
				r.Fail(k.TimeZone.Origin, "unknown time zone "+block.Quoted(name), `an IANA name, such as "Europe/Berlin" or "UTC"`)
			}
		}
	}
	if action := Action(k.Action.V); k.Action.Set && action != Report && action != Apply {
		r.Fail(k.Action.Origin, "invalid action "+block.Quoted(k.Action.V), "allowed: report, apply")
	} else {
		s.Action = Action(k.Action.Or(string(parent.Action)))
	}
	return s
}
