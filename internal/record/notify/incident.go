package notify

import "github.com/terrapulse/terrapulse/internal/record/outbox"

// What an event means for the incident of its task or other subject.
type role int

const (
	opens     role = iota + 1 // begins an incident, or belongs to the one that is open
	continues                 // belongs to the incident that is open
	closes                    // ends it
	stops                     // ends it, and is no news
)

// incidents says to which kind of incident an event belongs. A kind of event that is not here is a
// message of its own.
var incidents = map[outbox.Kind]struct {
	of   string
	role role
}{
	outbox.RunWaiting: {"run", opens}, outbox.RunFailed: {"run", opens}, outbox.RunLost: {"run", opens}, outbox.RunUnverified: {"run", opens},
	outbox.PlanApproved: {"run", continues}, outbox.PlanRejected: {"run", continues},
	outbox.RunSucceeded: {"run", closes}, outbox.TaskRecovered: {"run", closes}, outbox.RunCancelled: {"run", closes}, outbox.TaskVerified: {"run", closes},
	outbox.RunSuperseded: {"run", stops},

	outbox.DriftFound: {"drift", opens}, outbox.DriftEnded: {"drift", closes},
	outbox.HoldBegun: {"hold", opens}, outbox.HoldEnded: {"hold", closes},
	outbox.TaskUnreadable: {"reading", opens}, outbox.TaskReadable: {"reading", closes},

	outbox.TasksUnreadable: {"reading", opens}, outbox.TasksReadable: {"reading", closes},
	outbox.ConsulLost: {"outage", opens}, outbox.ConsulFound: {"outage", closes},
	outbox.ConsulReplaced: {"replaced", opens}, outbox.ConsulAccepted: {"replaced", closes}, outbox.ConsulRestored: {"replaced", closes},
	outbox.Paused: {"pause", opens}, outbox.Resumed: {"pause", closes},
	outbox.ConfigurationRefused: {"configuration", opens}, outbox.ConfigurationInForce: {"configuration", closes},
}

// incident is the incident of an event; "" if it belongs to none.
func incident(e outbox.Event) string {
	of := incidents[e.Kind].of
	if of == "" {
		return ""
	}
	return of + " " + e.Task
}
