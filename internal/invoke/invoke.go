// Package invoke is what the function that reconciles is asked and answers: by
// the schedule, by other parts of the stack, and by people.
package invoke

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/state"
)

// Mode is what an invocation is for.
type Mode string

// The modes.
const (
	Reconcile Mode = "reconcile" // one tick
	Once      Mode = "once"      // run the tasks now, whatever their conditions say
	Inspect   Mode = "inspect"   // say what an apply of the tasks would do
	Doctor    Mode = "doctor"    // say whether everything is in place
)

var modes = []Mode{Reconcile, Once, Inspect, Doctor}

// Request is what the function is invoked with.
type Request struct {
	Mode Mode `json:"mode"`
	// Tasks are the tasks of Once and Inspect; every enabled one if empty.
	Tasks []string `json:"tasks,omitempty"`
	// Draft is the definition of a task that is not in the configuration, as
	// the API takes it: Inspect plans that one instead.
	Draft json.RawMessage `json:"draft,omitempty"`
	// Wait has Once and Inspect answer when the runs have ended, or the time
	// of the invocation is up.
	Wait bool `json:"wait,omitempty"`
	// Window has Reconcile stay for the stack's window, if it has one, and tick
	// whenever something may have changed: as the schedule asks for.
	Window bool `json:"window,omitempty"`
	// Refresh looks for a new bundle first.
	Refresh bool `json:"refresh,omitempty"`
	// Ended says that a run has ended, or that something was asked for, so that
	// there is something to look at although nothing has moved in Consul.
	Ended bool `json:"ended,omitempty"`
}

// MaxRequest is how long a request may be, in bytes: far more than 1,000 names
// of tasks take.
const MaxRequest = 256 << 10

// Parse reads a request. What it does not know it refuses.
func Parse(payload []byte) (Request, error) {
	if len(payload) > MaxRequest {
		return Request{}, fmt.Errorf("the request is %d bytes long, at most %d are read", len(payload), MaxRequest)
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	var req Request
	if err := dec.Decode(&req); err != nil {
		return req, fmt.Errorf(`the request is not understood (%w): send {"mode": "reconcile"}, or see docs/operate.md`, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return req, errors.New("something follows the request's last brace: send one object")
	}
	if !slices.Contains(modes, req.Mode) {
		return req, fmt.Errorf("mode %.40q is unknown: it is one of %s", req.Mode, join(modes))
	}
	if len(req.Tasks) > 0 && req.Mode != Once && req.Mode != Inspect {
		return req, fmt.Errorf("mode %s takes no tasks: it looks at all of them", req.Mode)
	}
	if req.Window && req.Mode != Reconcile {
		return req, fmt.Errorf("mode %s takes no window: only mode reconcile stays", req.Mode)
	}
	if req.Draft != nil && (req.Mode != Inspect || len(req.Tasks) > 0) {
		return req, errors.New("a draft is for mode inspect, without tasks")
	}
	return req, nil
}

func join(modes []Mode) string {
	var names []string
	for _, m := range modes {
		names = append(names, string(m))
	}
	return strings.Join(names, ", ")
}

// Answer is what the function answers.
type Answer struct {
	Mode Mode `json:"mode"`
	// Idle says that nothing had moved and nothing was due.
	Idle bool `json:"idle,omitempty"`
	// Skipped is why nothing was done, though there may have been something.
	Skipped string `json:"skipped,omitempty"`
	// Problem is what a person has to look after.
	Problem string `json:"problem,omitempty"`
	// Bundle is the digest of the bundle in force.
	Bundle    string     `json:"bundle,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
	Launches  []string   `json:"launches,omitempty"`
	// Runs are those that were started; with how they ended, if they have and
	// the request says to wait.
	Runs   []Run   `json:"runs,omitempty"`
	Checks []Check `json:"checks,omitempty"` // of mode doctor
	// Enabled is, of mode doctor, the first task that is enabled: one to plan.
	Enabled string `json:"enabled,omitempty"`
}

// Decision is what was decided about a task, and why.
type Decision struct {
	Task   string       `json:"task"`
	Run    bool         `json:"run"`
	Reason state.Reason `json:"reason"`
}

// Run is one run.
type Run struct {
	Task    string         `json:"task"`
	Run     string         `json:"run"`
	Launch  string         `json:"launch"`
	State   state.RunState `json:"state"`
	Error   string         `json:"error,omitempty"`
	Changes *state.Changes `json:"changes,omitempty"`
	Ended   *time.Time     `json:"ended,omitempty"`
}

// Check is one thing that must be in place.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Found is what there is, in words.
	Found string `json:"found,omitempty"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
}
