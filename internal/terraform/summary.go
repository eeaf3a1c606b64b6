package terraform

import (
	"regexp"
	"strconv"
	"strings"
)

// Summary is what Terraform did, or would do. Unknown stands for a number that
// Terraform did not tell.
type Summary struct {
	Changes                      bool // there is something to do, or was
	Add, Change, Destroy, Import int
	Resources                    []ResourceChange
	Text                         string // of a plan: what Terraform printed, without secrets
	Fresh                        bool   // of an inspection: the task has no state yet
}

// Unknown is the number of resources where Terraform did not say it.
const Unknown = -1

// ResourceChange is what is done to one resource.
type ResourceChange struct {
	Address string
	Action  string // create, update, replace, destroy, read, import, move; or Terraform's own words
}

// reader collects a Summary from the lines of a plan or an apply.
type reader struct {
	Summary
	applied bool // Terraform said that it has applied everything
	text    *strings.Builder
}

func newReader(keepText bool) *reader {
	r := &reader{Summary: Summary{Add: Unknown, Change: Unknown, Destroy: Unknown, Import: Unknown}}
	if keepText {
		r.text = &strings.Builder{}
	}
	return r
}

var (
	resourceLine = regexp.MustCompile(`^  # (.+?)(?: \(deposed object [0-9a-f]+\))? (will be |must be |is tainted, so must be |has moved to )(.*)$`)
	countOf      = regexp.MustCompile(`(\d+) (?:to )?(\w+)`)
)

// actions by the word that begins what Terraform says of a resource.
var actions = map[string]string{
	"created": "create", "updated": "update", "replaced": "replace", "destroyed": "destroy",
	"read": "read", "imported": "import", "moved": "move",
}

func (r *reader) line(line string) {
	if r.text != nil {
		r.text.WriteString(line + "\n")
	}
	switch {
	case strings.HasPrefix(line, "Apply complete!"):
		r.applied = true
		r.counts(line)
		r.Changes = r.Changes || r.Add > 0 || r.Change > 0 || r.Destroy > 0 || r.Import > 0
	case strings.HasPrefix(line, "Plan: "):
		r.counts(line)
		r.Changes = true
	case strings.HasPrefix(line, "No changes."):
		r.Add, r.Change, r.Destroy, r.Import = 0, 0, 0, 0
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
			r.Resources = append(r.Resources, ResourceChange{Address: m[1], Action: action})
		}
	}
}

// counts reads "1 to add, 2 to change" and "1 added, 2 changed". What such a
// line does not name is zero.
func (r *reader) counts(line string) {
	r.Add, r.Change, r.Destroy, r.Import = 0, 0, 0, 0
	for _, m := range countOf.FindAllStringSubmatch(line, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			n = Unknown
		}
		switch m[2] {
		case "add", "added":
			r.Add = n
		case "change", "changed":
			r.Change = n
		case "destroy", "destroyed":
			r.Destroy = n
		case "import", "imported":
			r.Import = n
		}
	}
}

func (r *reader) summary() Summary {
	s := r.Summary
	if r.text != nil {
		s.Text = strings.TrimSpace(r.text.String())
	}
	return s
}
