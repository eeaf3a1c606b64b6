// Package invoke defines the requests to functions/reconcile, from the schedule, other parts of the
// stack and people, and its answers.
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

	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Mode is the purpose of an invocation.
type Mode string

// The modes.
const (
	Reconcile Mode = "reconcile" // one tick
	Once      Mode = "once"      // run the tasks now, whether their conditions changed or not
	Inspect   Mode = "inspect"   // plan the tasks
	Doctor    Mode = "doctor"    // check the deployment from inside
	Output    Mode = "output"    // read what another system prints of a run that goes on there
)

var modes = []string{string(Reconcile), string(Once), string(Inspect), string(Doctor), string(Output)}

// Request is the payload of an invocation.
type Request struct {
	Mode Mode `json:"mode"`
	// Tasks are the tasks of Once and Inspect; if empty, all enabled tasks. Output has one.
	Tasks []string `json:"tasks,omitempty"`
	// Run is the id of the run whose output Output reads.
	Run string `json:"run,omitempty"`
	// Bundle is the digest of a bundle in the bucket that is not in force: Inspect plans its tasks.
	Bundle string `json:"bundle,omitempty"`
	// Draft is the definition of a task that is not in the configuration, in the API's format:
	// Inspect plans it.
	Draft json.RawMessage `json:"draft,omitempty"`
	// WhatIf is what is supposed of Consul's data, in the API's format: Inspect plans the tasks
	// whose data would differ.
	WhatIf json.RawMessage `json:"what_if,omitempty"`
	// By is who requests plans or runs; the function cannot prove it.
	By string `json:"by,omitempty"`
	// Noted is the id of the entry of the audit record that functions/api has written about the request. Without
	// such an entry, the function writes one.
	Noted string `json:"noted,omitempty"`
	// Launch is the id of a launch of plans that the caller has written: Inspect starts it.
	Launch string `json:"launch,omitempty"`
	// Wait makes Once and Inspect answer when the runs have ended, or the invocation's time is over.
	Wait bool `json:"wait,omitempty"`
	// Window makes Reconcile work until the end of the stack's window, if it has one, with a tick
	// for each change. The schedule sets it.
	Window bool `json:"window,omitempty"`
	// Refresh checks for a new bundle first.
	Refresh bool `json:"refresh,omitempty"`
	// Ended reports that a run has ended, or that a person requested something: the tick is not idle
	// although nothing has changed in Consul.
	Ended bool `json:"ended,omitempty"`
	// Notified reports that another system has sent a notification: the tick polls it, if a run there is
	// waited for.
	Notified bool `json:"notified,omitempty"`
}

// maxRequest limits a request, in bytes. 1,000 names of tasks need much less.
const maxRequest = 256 << 10

// Parse parses a request. It refuses unknown fields.
func Parse(payload []byte) (Request, error) {
	if len(payload) > maxRequest {
		return Request{}, fmt.Errorf("the request has %d bytes: send at most %d", len(payload), maxRequest)
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	var req Request
	if err := dec.Decode(&req); err != nil {
		return req, fmt.Errorf(`the request cannot be decoded (%w): send {"mode": "reconcile"}, or see %s`, err, docs.Page("operate-aws.md"))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return req, errors.New("there is text after the request: send one object")
	}
	if !slices.Contains(modes, string(req.Mode)) {
		return req, fmt.Errorf("mode %.40q is unknown: use one of %s", req.Mode, strings.Join(modes, ", "))
	}
	if output := req.Mode == Output; output != (req.Run != "") || output && len(req.Tasks) != 1 {
		return req, errors.New("mode output needs one task and a run, and no other mode has a run")
	}
	if len(req.Tasks) > 0 && req.Mode != Once && req.Mode != Inspect && req.Mode != Output {
		return req, fmt.Errorf("mode %s accepts no tasks: it concerns all of them", req.Mode)
	}
	if req.Window && req.Mode != Reconcile {
		return req, fmt.Errorf("mode %s accepts no window: only mode reconcile does", req.Mode)
	}
	if req.Bundle != "" && (req.Mode != Inspect || req.Draft != nil) {
		return req, errors.New("a bundle is for mode inspect, without a draft")
	}
	if req.Launch != "" && (req.Mode != Inspect || req.Draft != nil || req.Bundle != "" || len(req.Tasks) > 0) {
		return req, errors.New("a launch is for mode inspect, alone")
	}
	if req.WhatIf != nil && (req.Mode != Inspect || req.Draft != nil || req.Bundle != "" || req.Launch != "") {
		return req, errors.New("a what-if is for mode inspect, without draft, bundle and launch")
	}
	if (req.By != "" || req.Noted != "") && req.Mode != Once && req.Mode != Inspect {
		return req, errors.New("by and noted are for the modes once and inspect")
	}
	if req.Draft != nil && (req.Mode != Inspect || len(req.Tasks) > 0) {
		return req, errors.New("a draft is for mode inspect, without tasks")
	}
	return req, nil
}

// Answer is the answer to a Request.
type Answer struct {
	Mode Mode `json:"mode"`
	// Idle reports that nothing had changed and nothing was due.
	Idle bool `json:"idle,omitempty"`
	// Skipped is why the tick did nothing, although there may have been work.
	Skipped string `json:"skipped,omitempty"`
	// Problem is what a person must solve.
	Problem string `json:"problem,omitempty"`
	// Busy says that the problem is only that there would be too many plans.
	Busy bool `json:"busy,omitempty"`
	// Paused is set if no run begins until somebody resumes.
	Paused *state.Paused `json:"paused,omitempty"`
	// Bundle is the digest of the bundle in force.
	Bundle    string     `json:"bundle,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
	Launches  []string   `json:"launches,omitempty"`
	// Runs are the started runs; with Wait, as they were at the end.
	Runs []Run `json:"runs,omitempty"`
	// WhatIf is which runs answer a what-if.
	WhatIf *state.Question `json:"what_if,omitempty"`
	Checks []Check         `json:"checks,omitempty"` // of mode doctor
	// Version is the version of the function, of mode doctor.
	Version string `json:"version,omitempty"`
	// Output is what another system has printed since the last step of the run, of mode output.
	Output string `json:"output,omitempty"`
	// Enabled is the first enabled task, of mode doctor: the caller can plan it.
	Enabled string `json:"enabled,omitempty"`
}

// Decision is the decision about a task.
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

// Check is the result of one check of mode doctor.
type Check struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Found string `json:"found,omitempty"` // what the check found
	Fix   string `json:"fix,omitempty"`   // what to do if the check failed
	// Skipped is set if the check could not be made: Found says why.
	Skipped bool `json:"skipped,omitempty"`
}
