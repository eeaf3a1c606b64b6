package block

import (
	"strings"
	"time"
)

// Report collects all findings about a configuration, so that one pass finds
// everything.
type Report struct {
	Errors   []Diagnostic
	Warnings []Diagnostic

	// Now is the time from which on a schedule must come due.
	Now time.Time
	// Existing is true if the blocks may be from an earlier time. A schedule that
	// has ended since then is a warning, so that the other tasks still load.
	Existing bool
}

var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")

// Fail reports an error.
func (r *Report) Fail(at Origin, problem, hint string) {
	problem = oneLine.Replace(problem) // some errors of libraries have several lines
	r.Errors = append(r.Errors, Diagnostic{Position: at.Pos, Key: at.Path, Problem: problem, Hint: hint})
}

// Missing reports that a required value is missing. It reports nothing if the
// value is there and wrong, because that error has been reported already.
func (r *Report) Missing(at Origin, problem, hint string) {
	for _, e := range r.Errors {
		if rest, ok := strings.CutPrefix(e.Key, at.Path); ok && e.File == at.Pos.File && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return
		}
	}
	r.Fail(at, problem, hint)
}

// Warn reports a finding that is no error.
func (r *Report) Warn(at Origin, problem, hint string) {
	r.Warnings = append(r.Warnings, Diagnostic{Position: at.Pos, Key: at.Path, Problem: problem, Hint: hint})
}
