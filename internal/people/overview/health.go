package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clock"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// outageLimit is how long Consul may not answer before that is unhealthy: the
	// election of a new leader there takes less.
	outageLimit = 2 * time.Minute
	// silenceLimit is how long no tick may be recorded: an idle one is recorded
	// every 5 minutes, and one of those may have been missed.
	silenceLimit = 11 * time.Minute
)

// gates returns what the gates showed last, by the record and by what this process has
// seen, by datacenter and name.
func (r Reader) gates(recorded map[string]state.Gate) []apispec.Gate {
	var seen map[string]state.Gate
	if r.Gates != nil {
		seen = r.Gates()
	}
	var all []apispec.Gate
	for _, key := range slices.Sorted(maps.Keys(recorded)) { // gates of one name stay in order
		g := recorded[key]
		// A process that leads no longer has an older index, whatever its clock says.
		if s, ok := seen[key]; ok && s.Moved.After(g.Moved) && s.Index >= g.Index {
			g = s
		}
		shown := apispec.Gate{Name: g.Name, Datacenter: apiview.Optional(g.Datacenter), Namespace: apiview.Optional(g.Namespace),
			Moved: apiview.Moment(g.Moved), Error: apiview.Optional(g.Error)}
		if g.Index != 0 {
			shown.Index = new(int64(g.Index))
		}
		all = append(all, shown)
	}
	slices.SortStableFunc(all, func(a, b apispec.Gate) int {
		return cmp.Or(cmp.Compare(apispec.Deref(a.Datacenter), apispec.Deref(b.Datacenter)),
			cmp.Compare(apispec.Deref(a.Namespace), apispec.Deref(b.Namespace)), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Unhealthy says why no work is done, or returns "". Store has the record. Began is that
// of Reader: a process that has just begun is healthy although there was no tick yet.
func Unhealthy(store state.Store, rec state.Reconcile, began, now time.Time) string {
	if err := state.Unwritable(store); err != nil {
		return err.Error()
	}
	latest := rec.LastSuccess
	if rec.ConsulError != "" && !rec.ConsulUnreachable && rec.Refreshed.After(latest) {
		latest = rec.Refreshed // every view that Consul shows was read then
	}
	if began.After(latest) {
		latest = began
	}
	ago := now.Sub(latest).Round(time.Second)
	switch {
	case rec.ConsulUnreachable && now.Sub(rec.Since) > outageLimit:
		return fmt.Sprintf("Consul cannot be watched since %s: %s", clock.UTC(rec.Since), rec.ConsulError)
	case rec.Unreadable != nil && rec.Unreadable.All && now.Sub(rec.Unreadable.Since) > outageLimit:
		return fmt.Sprintf("no task can be read since %s (%s): %s", clock.UTC(rec.Unreadable.Since),
			strings.Join(rec.Unreadable.Tasks, ", "), rec.Unreadable.Error)
	case rec.Unpolled != nil && rec.Unpolled.All && now.Sub(rec.Unpolled.Since) > outageLimit:
		return fmt.Sprintf("no remote run can be polled since %s (%s): %s", clock.UTC(rec.Unpolled.Since), strings.Join(rec.Unpolled.Tasks, ", "), rec.Unpolled.Error)
	case ago <= silenceLimit:
		return ""
	case rec.Stalled != "" && latest.IsZero():
		return "no tick has succeeded yet: " + rec.Stalled
	case rec.Stalled != "":
		return fmt.Sprintf("no tick has succeeded for %s: %s", ago, rec.Stalled)
	case latest.IsZero():
		return "no tick has succeeded yet"
	}
	return fmt.Sprintf("no tick has succeeded for %s: nothing leads, or it cannot write to the store", ago)
}
