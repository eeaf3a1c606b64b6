package terraformcli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// printsEvents is the first version whose `plan -json` prints every planned change.
var printsEvents = version.Must(version.NewVersion("1.0.0"))

// uiFormat is the major version of the format of events that eventReader knows.
const uiFormat = "1."

// eventReader reads the events of `plan -json`, one a line. Terraform prints them
// from the plan that it writes to the plan file.
type eventReader struct {
	clean     func(string) string
	counts    state.Changes    // without names
	resources []state.Resource // what is done to each, in any order
	known     bool             // the format is known
	found     *inventory       // of the state
	unclear   bool             // there is an event with an unknown meaning
	warned    bool             // there is a warning
	summary   *changeSummary   // nil until it was printed
}

// changeSummary is Terraform's own count of the planned changes.
type changeSummary struct {
	Add       *int   `json:"add"` // nil if it is missing, also the others
	Change    *int   `json:"change"`
	Remove    *int   `json:"remove"`
	Operation string `json:"operation"`
}

// event is one line of `plan -json`.
type event struct {
	Type    string `json:"type"`
	Message string `json:"@message"`
	UI      string `json:"ui"` // the version of the format
	Change  struct {
		Resource struct {
			Addr string `json:"addr"`
		} `json:"resource"`
		Action string `json:"action"`
	} `json:"change"`
	Invocation struct {
		Action struct {
			Addr string `json:"addr"`
		} `json:"action_addr"`
	} `json:"invocation"`
	Changes    changeSummary     `json:"changes"`
	Diagnostic tfjson.Diagnostic `json:"diagnostic"`
}

// eventActions are the actions of planned changes, with the names that they have in
// a plan.
var eventActions = map[string]string{
	"create": "create", "read": "read", "update": "update", "replace": "replace", "delete": "delete",
	"move": "move", "import": "import", "remove": "forget",
}

// line reads an event. It returns what it says to people, and whether that is an
// error. A line that is no event is text.
func (r *eventReader) line(line string) (text string, failed bool) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Type == "" {
		r.unclear = r.unclear || strings.HasPrefix(line, "{")
		return line, false
	}
	switch e.Type {
	case "version":
		r.known = strings.HasPrefix(e.UI, uiFormat)
		return "", false
	case "refresh_complete", "outputs":
		return "", false
	case "refresh_start":
		r.found.line(r.clean(e.Message)) // as apply prints it
	case "planned_change":
		r.planned(e.Change.Resource.Addr, e.Change.Action)
	case "planned_action_invocation":
		r.resources = append(r.resources, state.Resource{Address: r.clean(e.Invocation.Action.Addr), Action: "invoke"})
	case "change_summary":
		r.unclear = r.unclear || r.summary != nil || e.Changes.Operation != "plan"
		r.summary = &e.Changes
	case "diagnostic":
		r.warned = r.warned || e.Diagnostic.Severity == tfjson.DiagnosticSeverityWarning
		return diagnosticText(&e.Diagnostic), e.Diagnostic.Severity == tfjson.DiagnosticSeverityError
	}
	return e.Message, false
}

func (r *eventReader) planned(address, action string) {
	name, ok := eventActions[action]
	if !ok {
		r.unclear = true
	}
	switch action {
	case "remove":
		r.found.forget(r.clean(address))
	case "create":
		r.counts.Add++
	case "update":
		r.counts.Change++
	case "delete":
		r.counts.Destroy++
	case "replace":
		r.counts.Add, r.counts.Destroy = r.counts.Add+1, r.counts.Destroy+1
	}
	r.resources = append(r.resources, state.Resource{Address: r.clean(address), Action: name})
}

// changes returns the counts, and the first resources by address.
func (r *eventReader) changes() state.Changes {
	slices.SortFunc(r.resources, func(a, b state.Resource) int { return strings.Compare(a.Address, b.Address) })
	c := r.counts
	for _, of := range r.resources {
		c.Name(of.Address, of.Action)
	}
	return c
}

// complete reports whether the events say for certain what the plan does.
func (r *eventReader) complete() bool {
	is := func(said *int, counted int) bool { return said != nil && *said == counted }
	return r.known && !r.unclear && r.summary != nil &&
		is(r.summary.Add, r.counts.Add) && is(r.summary.Change, r.counts.Change) && is(r.summary.Remove, r.counts.Destroy)
}

// diagnosticText returns an error or a warning as commands without -json print it.
func diagnosticText(d *tfjson.Diagnostic) string {
	var b strings.Builder
	severity := "Error"
	if d.Severity == tfjson.DiagnosticSeverityWarning {
		severity = "Warning"
	}
	fmt.Fprintf(&b, "\n%s: %s\n", severity, d.Summary)
	if d.Address != "" {
		fmt.Fprintf(&b, "\n  with %s", d.Address)
	}
	if d.Range != nil {
		fmt.Fprintf(&b, "\n  on %s line %d", d.Range.Filename, d.Range.Start.Line)
		if s := d.Snippet; s != nil {
			if s.Context != nil {
				fmt.Fprintf(&b, ", in %s", *s.Context)
			}
			fmt.Fprintf(&b, ":\n  %d: %s", s.StartLine, s.Code)
			for _, v := range s.Values {
				fmt.Fprintf(&b, "\n    %s %s", v.Traversal, v.Statement)
			}
		}
	}
	if b.WriteByte('\n'); d.Detail != "" {
		fmt.Fprintf(&b, "\n%s\n", d.Detail)
	}
	return b.String()
}
