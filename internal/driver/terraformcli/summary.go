package terraformcli

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/terrapulse/terrapulse/internal/driver/checkblock"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// reader counts what Terraform changes, for people: it reads Terraform's text, as an
// apply prints either text or JSON. No decision may depend on it. Actions that have
// no name here keep Terraform's words.
type reader struct {
	state.Changes
	planned  func() // called when the plan is complete; may be nil
	warned   bool   // a warning was printed
	complete bool   // the line was read in which a plan says what it changes
}

var (
	resourceLine = regexp.MustCompile(`^  ?# (.+?)(?: \(deposed object [0-9a-f]+\))? (will be |must be |is tainted, so must be |has moved to |will no longer be )(.*)$`)
	countOf      = regexp.MustCompile(`(\d+) (?:to )?(\w+)`)
)

// actions by the word that follows the address of a resource.
var actions = map[string]string{
	"created": "create", "updated": "update", "replaced": "replace", "destroyed": "delete",
	"read": "read", "imported": "import", "moved": "move", "managed": "forget", "removed": "forget",
}

func (r *reader) line(line string) {
	switch {
	case checkblock.Warns(line):
		r.warned = true
	case strings.HasPrefix(line, "Apply complete!"), strings.HasPrefix(line, "Destroy complete!"):
		r.counts(line)
	case strings.HasPrefix(line, "Plan: "):
		r.counts(line)
		r.notePlan()
	case strings.HasPrefix(line, "No changes."), strings.HasPrefix(line, "Changes to Outputs:"): // the latter alone if no resource changes
		r.notePlan()
	default:
		if m := resourceLine.FindStringSubmatch(line); m != nil {
			action, _, _ := strings.Cut(m[3], " ")
			action = strings.TrimRight(action, ",.")
			if m[2] == "has moved to " {
				action = "moved"
			}
			if known, ok := actions[action]; ok {
				action = known
			} else {
				action = strings.TrimSpace(m[2] + m[3])
			}
			r.Name(m[1], action)
		}
	}
}

func (r *reader) notePlan() {
	r.complete = true
	if r.planned != nil {
		r.planned()
	}
}

// counts reads "1 to add, 2 to change" and "1 added, 2 changed". A number that
// such a line does not name is zero.
func (r *reader) counts(line string) {
	r.Add, r.Change, r.Destroy = 0, 0, 0
	for _, m := range countOf.FindAllStringSubmatch(line, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		switch m[2] {
		case "add", "added":
			r.Add = n
		case "change", "changed":
			r.Change = n
		case "destroy", "destroyed":
			r.Destroy = n
		}
	}
}
