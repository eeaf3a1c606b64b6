// Package verify finds out whether what a run has applied works: the verify blocks of a task, or of
// the whole configuration. A verification sends an HTTP request or runs a program, again and again,
// until an attempt passes or its time is up. docs/verify.md describes it.
//
// Nothing is rolled back: a task that is not verified is applied, and says so.
package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/program"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Spec is a verification of a task. Exactly one of HTTP, Command and Terraform is set.
type Spec struct {
	Name      string        `json:"name"`
	Enabled   bool          `json:"enabled"`
	HTTP      *HTTP         `json:"http,omitempty"`
	Command   []string      `json:"command,omitempty"` // program and arguments
	Files     []string      `json:"files,omitempty"`   // that the program reads, as written
	Terraform bool          `json:"terraform,omitempty"`
	Within    time.Duration `json:"within"`
	Every     time.Duration `json:"every"`
	Timeout   time.Duration `json:"timeout"`
	OnFailure string        `json:"on_failure"`
}

// The values of OnFailure.
const (
	Report = "report" // people hear of it
	Hold   = "hold"   // the task is put on hold, too
)

// HTTP is a request, and what its answer must be.
type HTTP struct {
	URL        string            `json:"url"`
	Method     string            `json:"method"`
	Headers    map[string]string `json:"headers,omitempty"`
	Status     []string          `json:"status"` // codes and ranges
	Body       string            `json:"body,omitempty"`
	CACert     string            `json:"ca_cert,omitempty"` // a file, as written
	ServerName string            `json:"server_name,omitempty"`
}

// String says in words what is verified.
func (s Spec) String() string {
	text := fmt.Sprintf("verification %s: ", s.Name)
	switch {
	case s.HTTP != nil:
		text += fmt.Sprintf("%s %s answers within %s after an apply", s.HTTP.Method, shownURL(s.HTTP.URL), block.Brief(s.Within))
	case s.Terraform:
		text += "every check block of Terraform passes in an apply"
	default:
		text += fmt.Sprintf("the program %s succeeds within %s after an apply", s.Command[0], block.Brief(s.Within))
	}
	if s.OnFailure == Hold {
		text += "; otherwise the task is put on hold"
	}
	return text
}

// Active returns the verifications that are enabled.
func Active(all []Spec) []Spec {
	var active []Spec
	for _, s := range all {
		if s.Enabled {
			active = append(active, s)
		}
	}
	return active
}

// RequiresChecks reports whether a verification requires the check blocks of the module.
func RequiresChecks(all []Spec) bool {
	return slices.ContainsFunc(all, func(s Spec) bool { return s.Enabled && s.Terraform })
}

// Rest returns the verification as it is continued some time after the apply: with the time that is left,
// which is enough for one attempt.
func (s Spec) Rest(after time.Duration) Spec {
	s.Within = max(s.Within-max(after, 0), s.Timeout)
	return s
}

// Inputs returns the files and folders that the verification reads, as written.
func (s Spec) Inputs() []string {
	if s.HTTP != nil && s.HTTP.CACert != "" {
		return []string{s.HTTP.CACert}
	}
	return s.Files
}

// Checks is the name of what the check blocks of a module have found where no verify block names them.
const Checks = "check blocks"

// OfChecks returns what the check blocks of Terraform have found in an apply: one result for each
// block with `terraform = true`, or else one if a check block failed. failing says which have failed, and
// unknown which Terraform could not evaluate; err says why that cannot be read.
func OfChecks(all []Spec, failing, unknown []string, err error) []state.Verified {
	var results []state.Verified
	for _, s := range Active(all) {
		if !s.Terraform {
			continue
		}
		r := state.Verified{Name: s.Name, State: state.VerifyPassed, Attempts: 1, Holds: s.OnFailure == Hold}
		switch {
		case err != nil:
			r.State, r.Detail = state.VerifyFailed, "the results of check blocks cannot be read: "+err.Error()
		case len(failing) > 0:
			r.State, r.Detail = state.VerifyFailed, strings.Join(failing, "; ")
		case len(unknown) > 0: // unknown is not passed
			r.State, r.Detail = state.VerifyFailed, "Terraform could not evaluate "+strings.Join(unknown, ", ")
		}
		results = append(results, r)
	}
	if len(results) == 0 && len(failing) > 0 {
		results = []state.Verified{{Name: Checks, State: state.VerifyFailed, Attempts: 1, Detail: strings.Join(failing, "; ")}}
	}
	return results
}

// Missing says why what the verification needs cannot be found on this machine; "" if it can.
func (s Spec) Missing(dir string) string {
	var err error
	switch {
	case len(s.Command) > 0:
		err = program.Missing(s.Command, dir)
	case s.HTTP != nil:
		_, err = s.HTTP.client(dir)
	}
	if err != nil {
		return fmt.Sprintf("verification %s cannot be carried out on this machine: %s", s.Name, err)
	}
	return ""
}
