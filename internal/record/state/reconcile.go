package state

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

// ReconcileKey is the record that a tick reads to learn that nothing happened.
const ReconcileKey = "reconcile/state"

// Reconcile is what one tick leaves for the next.
type Reconcile struct {
	Sight
	Config      string    `json:"config"`           // digest of the configuration that was decided on
	Bundle      string    `json:"bundle,omitempty"` // digest of the bundle that the configuration was read from
	Refused     *Refused  `json:"refused,omitempty"`
	Overrides   string    `json:"overrides,omitempty"`   // id of the latest change of any override
	Due         time.Time `json:"due,omitzero"`          // when a tick is due even if no gate moves
	Refreshed   time.Time `json:"refreshed"`             // when every view was last read, whatever the gates said
	LastSuccess time.Time `json:"last_success,omitzero"` // of a tick; an idle one does not write it
	Stalled     string    `json:"stalled,omitempty"`     // why the latest tick could not launch what it had decided
	Unplaced    string    `json:"unplaced,omitempty"`    // why a launch that was started has not begun: there is no place for its runner
	Failing     int       `json:"failing,omitempty"`     // the most consecutive failed or lost runs of a task

	// Consuls are the identities, by datacenter, of the Consul that showed what was
	// applied; "" is the datacenter of the agent.
	Consuls  map[string]Identity `json:"consuls,omitempty"`
	Replaced *Replaced           `json:"replaced,omitempty"` // tasks are held because Consul is another one now

	Paused  *Paused   `json:"paused,omitempty"`
	Resumed time.Time `json:"resumed,omitzero"` // when somebody last ended a pause

	Tasks      TaskCounts  `json:"tasks,omitzero"`
	Remote     int         `json:"remote,omitempty"`     // how many remote runs are waited for, or have to be stopped
	Unreadable *Unreadable `json:"unreadable,omitempty"` // nil if every task that is enabled can be read
	Unpolled   *Unpolled   `json:"unpolled,omitempty"`   // nil if every remote run that is waited for could be polled
	LeftOut    []string    `json:"left_out,omitempty"`   // services that are not read, as Consul has no address for their names: MaxNames at most

	// Delivered are the names of outbox records that every sink has taken. They are removed later, several at once.
	Delivered []string `json:"delivered,omitempty"`

	Events uint64 `json:"events,omitempty"` // number of the latest event that concerns no single task, or of any task that was forgotten
}

// Sight is what Consul shows by its gates. It is derived from them, compared and written as a whole.
type Sight struct {
	Gates             map[string]Gate `json:"gates,omitempty"`              // what they showed before the views were read, by their keys
	ConsulError       string          `json:"consul_error,omitempty"`       // why Consul cannot be watched
	Since             time.Time       `json:"since,omitzero"`               // of ConsulError, or of ConsulUnreachable
	ConsulUnreachable bool            `json:"consul_unreachable,omitempty"` // no gate at all can be read
	Concerned         int             `json:"concerned,omitempty"`          // how many tasks wait for that
}

// Fails reports whether the same gates as in another sight cannot be read, for the same reasons.
func (s Sight) Fails(as Sight) bool {
	return s.ConsulUnreachable == as.ConsulUnreachable && sameWords(s.ConsulError, as.ConsulError) &&
		maps.EqualFunc(s.Gates, as.Gates, func(a, b Gate) bool { return sameWords(a.Error, b.Error) })
}

// sameWords compares errors without their numbers: each attempt has another port, or took another time.
func sameWords(a, b string) bool {
	notDigit := func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}
	return strings.Map(notDigit, a) == strings.Map(notDigit, b)
}

// Gate is what a gate of Consul showed last. Only its mark is compared; the rest is for
// people.
type Gate struct {
	Mark       string    `json:"mark,omitempty"` // empty if it could not be read
	Name       string    `json:"name,omitempty"` // what it watches
	Datacenter string    `json:"datacenter,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Index      uint64    `json:"index,omitempty"`
	Moved      time.Time `json:"moved,omitzero"` // when it was first seen with this mark after another one
	Error      string    `json:"error,omitempty"`
}

// ReadReconcile reads the reconcile record.
func ReadReconcile(ctx context.Context, s Store) (Stored[Reconcile], error) {
	rec, err := Read[Reconcile](ctx, s, ReconcileKey)
	if err != nil {
		return rec, fmt.Errorf("read the reconcile record: %w", err)
	}
	return rec, nil
}

// TaskCounts are how many enabled tasks are in each phase that metrics count.
type TaskCounts struct {
	Phases   map[string]int `json:"phases,omitempty"`
	Approval int            `json:"approval,omitempty"` // of all these: a plan waits to be approved
}

// Unreadable are the tasks whose conditions Consul does not show.
type Unreadable struct {
	Count int       `json:"count"`
	Tasks []string  `json:"tasks"`         // the first of them: MaxNames at most
	Error string    `json:"error"`         // of the first of them
	Since time.Time `json:"since"`         // when the latest one became unreadable
	All   bool      `json:"all,omitempty"` // no task that is enabled and watches Consul can be read
}

// Unpolled are the tasks that wait for a remote run, of which nothing is known.
type Unpolled struct {
	Count int       `json:"count"`
	Tasks []string  `json:"tasks"` // the first of them: MaxNames at most
	Error string    `json:"error"`
	Since time.Time `json:"since"`
	All   bool      `json:"all,omitempty"` // no remote run at all can be polled
}

// Concerns reports whether the remote run of a task cannot be polled.
func (u *Unpolled) Concerns(task string) bool {
	return u != nil && (u.All || slices.Contains(u.Tasks, task))
}

// MaxNames is how many tasks a record names.
const MaxNames = 20

// Refused says why a newer configuration is not in force: it does not validate,
// or it is not known which bundle it is.
type Refused struct {
	Bundle string    `json:"bundle,omitempty"` // digest of the bundle; "" if it is not known, or if the configuration is read from files
	Error  string    `json:"error"`
	Since  time.Time `json:"since"`
}
