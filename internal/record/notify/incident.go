package notify

import (
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/record/outbox"
)

// What an event means for the incident of its task or other subject.
type role int

const (
	opens     role = iota + 1 // begins an incident, or belongs to the one that is open
	continues                 // belongs to the incident that is open
	closes                    // ends it
	stops                     // ends it, and is no news; a task that fails still fails
	leaves                    // ends all incidents of its task
	moves                     // all incidents of its task continue under another name; it is news only for them
)

// failing are the kinds of events of a task that fails, until it has recovered.
var failing = []outbox.Kind{outbox.RunFailed, outbox.RunLost}

// incidents says to which kind of incident an event belongs. A kind of event that is not here is a
// message of its own.
var incidents = map[outbox.Kind]struct {
	of   string
	role role
}{
	outbox.RunWaiting: {"run", opens}, outbox.RunFailed: {"run", opens}, outbox.RunLost: {"run", opens},
	outbox.PlanApproved: {"run", continues}, outbox.PlanRejected: {"run", continues},
	outbox.RunSucceeded: {"run", closes}, outbox.TaskRecovered: {"run", closes}, outbox.RunCancelled: {"run", closes},
	outbox.RunSuperseded: {"run", stops},
	outbox.TaskRemoved:   {"", leaves}, outbox.TaskForgotten: {"", leaves}, outbox.TaskMoved: {"", moves},

	// Each run that is not verified has succeeded before: that ends nothing here.
	outbox.RunUnverified: {"verification", opens}, outbox.TaskVerified: {"verification", closes},
	outbox.DriftFound: {"drift", opens}, outbox.DriftEnded: {"drift", closes},
	outbox.HoldBegun: {"hold", opens}, outbox.HoldEnded: {"hold", closes},
	outbox.TaskUnreadable: {"reading", opens}, outbox.TaskReadable: {"reading", closes},

	outbox.TasksUnreadable: {"reading", opens}, outbox.TasksReadable: {"reading", closes},
	outbox.ConsulLost: {"outage", opens}, outbox.ConsulFound: {"outage", closes},
	outbox.ConsulReplaced: {"replaced", opens}, outbox.ConsulAccepted: {"replaced", closes}, outbox.ConsulRestored: {"replaced", closes},
	outbox.Paused: {"pause", opens}, outbox.Resumed: {"pause", closes},
	outbox.ConfigurationRefused: {"configuration", opens}, outbox.ConfigurationInForce: {"configuration", closes},
}

// incident is the incident of an event; "" if it belongs to none, or to all of its task.
func incident(e outbox.Event) string {
	of := incidents[e.Kind].of
	if of == "" {
		return ""
	}
	return of + " " + e.Task
}

// concerns reports whether an event is about an open incident.
func concerns(e outbox.Event, open string) bool {
	_, task, _ := strings.Cut(open, " ")
	switch incidents[e.Kind].role {
	case leaves:
		return task == e.Task
	case moves:
		return task == e.Former
	}
	return open == incident(e)
}

// moved is an incident under the new name of its task.
func moved(open string, e outbox.Event) string {
	of, _, _ := strings.Cut(open, " ")
	return of + " " + e.Task
}

// after returns the open incidents after an event that is about some of them. Those in fails are of tasks
// that fail.
func after(e outbox.Event, open, fails []string) []string {
	var left []string
	for _, one := range open {
		switch r := incidents[e.Kind].role; {
		case !concerns(e, one), r == opens, r == continues, r == stops && slices.Contains(fails, one):
		case r == moves:
			one = moved(one, e)
		default:
			continue
		}
		if !slices.Contains(left, one) {
			left = append(left, one)
		}
	}
	return left
}
