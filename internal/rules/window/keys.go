package window

import (
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // time zones, where the system has none: in a function or a small image

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/cron"
)

// Keys are the keys of a window block.
type Keys struct {
	block.Origin
	Kind     block.String   `key:"kind" required:"true" one:"allow deny" doc:"'deny': nothing is applied inside it, whatever other windows allow; 'allow': nothing is applied outside of all allowing windows"`
	Schedule block.String   `key:"schedule" required:"true" example:"0 22 * * Mon-Fri" doc:"when the window begins: a cron expression, as in a condition 'schedule'"`
	Duration block.Duration `key:"duration" required:"true" form:"delay" example:"6h" doc:"how long the window lasts, at least '1m'"`
	TimeZone block.String   `key:"time_zone" unset:"that of the machine; in AWS UTC" example:"Europe/Berlin" doc:"[IANA name](https://www.iana.org/time-zones) of the time zone of the schedule"`

	On                  block.Strings `key:"on" unset:"both" one:"apply destroy" example:"apply" doc:"which runs the window applies to: applies, or destroys of a task's infrastructure"`
	AllowRemovalsAlways block.Bool    `key:"allow_removals_always" default:"false" doc:"'true': it does not hold a change that only removes entries, such as a compromised host"`
}

// minDuration is the shortest window: with a shorter one, the search for the time at
// which a set of windows opens takes too many steps.
const minDuration = time.Minute

// Specs checks the windows of a task, or of the whole configuration.
func Specs(r *block.Report, keys []Keys) []Window {
	var windows []Window
	wrong := len(r.Errors)
	for i := range keys {
		windows = append(windows, keys[i].spec(r))
	}
	unread := slices.ContainsFunc(windows, func(w Window) bool { return w.Duration < minDuration })
	if len(r.Errors) > wrong || len(keys) == 0 || unread {
		return windows
	}
	for _, action := range []Action{Apply, Destroy} {
		if neverOpen(windows, action, r.Now) {
			r.Warn(keys[0].Origin, fmt.Sprintf("the windows do not open for action %q within a year", action), "correct the schedules or durations")
			break
		}
	}
	return windows
}

// neverOpen reports whether the windows do not open within a year. It assumes that they
// do if that takes too many steps to find out.
func neverOpen(windows []Window, action Action, now time.Time) bool {
	at := now
	for range 20 {
		v := Judge(windows, Change{Action: action}, at)
		if v.Open {
			return false
		}
		if v.Next.IsZero() || v.Next.Sub(now) > horizon {
			return true
		}
		at = v.Next
	}
	return false
}

func (k *Keys) spec(r *block.Report) Window {
	w := Window{
		Kind: Kind(k.Kind.V), Schedule: k.Schedule.V, Duration: k.Duration.V, TimeZone: k.TimeZone.V,
		AllowRemovalsAlways: k.AllowRemovalsAlways.V, zone: time.Local,
	}
	switch {
	case w.Kind == "":
		r.Missing(k.Key("kind"), "the kind of the window is required", "allow or deny")
	case w.Kind != Allow && w.Kind != Deny:
		r.Fail(k.Kind.Origin, "invalid kind "+block.Quoted(k.Kind.V), "allowed: allow, deny")
	}
	if w.Schedule == "" {
		r.Missing(k.Key("schedule"), "the schedule of the window is required", `such as "0 22 * * Mon-Fri"; `+cron.Help)
	} else {
		w.schedule, _ = cron.Check(r, k.Schedule, "window", "unable to parse the schedule")
	}
	switch {
	case !k.Duration.Set:
		r.Missing(k.Key("duration"), "the duration of the window is required", `such as "6h"`)
	case w.Duration < minDuration:
		r.Fail(k.Duration.Origin, fmt.Sprintf("the duration %s is too short", block.Quoted(k.Duration.Text)), "at least 1m")
	}
	if w.TimeZone != "" {
		var err error
		if w.zone, err = time.LoadLocation(w.TimeZone); err != nil {
			r.Fail(k.TimeZone.Origin, "unknown time zone "+block.Quoted(w.TimeZone), `an IANA name, such as "Europe/Berlin" or "UTC"`)
		}
	}
	for i, text := range k.On.V {
		action := Action(text)
		if action != Apply && action != Destroy {
			r.Fail(k.On.Element(i), "unknown action "+block.Quoted(text), "allowed: apply, destroy")
		}
		if !slices.Contains(w.On, action) {
			w.On = append(w.On, action)
		}
	}
	return w
}
