package hcptest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// runEvent is what somebody has done with a run.
type runEvent struct {
	action, user, comment string // comment is an ID
	at                    time.Time
}

// happened are the actions of events, by what was done.
var happened = map[string]string{"apply": "confirmed", "discard": "discarded", "cancel": "canceled", "force-cancel": "force_canceled", "force-execute": "force_executed"}

// note adds an event to a run.
func (r *run) note(action, user, comment string) {
	r.events = append(r.events, runEvent{action, user, comment, time.Now()})
}

// eventIDs are the ids of the events of a run.
func (r *run) eventIDs() []string {
	ids := []string{part("re-0", r)}
	for i := range r.events {
		ids = append(ids, part(fmt.Sprintf("re-%d", i+1), r))
	}
	return ids
}

// showEvent shows an event. The first one is the creation of the run.
func (r *run) showEvent(id string) object {
	e := runEvent{action: "created", user: r.by, at: r.created}
	number, _, _ := strings.Cut(strings.TrimPrefix(id, "re-"), "-")
	if i, err := strconv.Atoi(number); err == nil && i > 0 && i <= len(r.events) {
		e = r.events[i-1]
	}
	return resource("run-events", id, object{"action": e.action, "created-at": e.at.UTC().Format(time.RFC3339Nano), "description": ""},
		object{"actor": one("users", e.user), "comment": one("comments", e.comment)})
}
