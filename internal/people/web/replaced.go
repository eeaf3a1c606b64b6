package web

import (
	"context"
	"errors"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// replacedBanner says once what is the same for all tasks that a replaced Consul holds.
type replacedBanner struct {
	apispec.ReplacedConsul
	Losses  []*apispec.TaskOverview // what the first of the tasks would lose
	More    int                     // tasks beyond Losses
	Approve *action                 // nil if somebody has approved it
}

// maxLosses is how many tasks the banner lists.
const maxLosses = 10

// losses reads the first tasks that a replaced Consul holds.
func (p *pages) losses(ctx context.Context, o apispec.Overview) ([]apispec.TaskOverview, error) {
	if o.Replaced == nil {
		return nil, nil
	}
	held, err := p.source.selected(ctx, selection.Selection{Reason: string(state.ReasonReplaced)}.First(maxLosses))
	return held.Tasks, err
}

// replacedOf returns the banner with the first tasks that Consul holds; nil if Consul was
// not replaced.
func replacedOf(o apispec.Overview, losses []apispec.TaskOverview) *replacedBanner {
	if o.Replaced == nil {
		return nil
	}
	b := &replacedBanner{ReplacedConsul: *o.Replaced, Losses: pointers(losses)}
	b.More = o.Replaced.Tasks - len(b.Losses)
	if o.Replaced.ApprovedBy == nil {
		b.Approve = &action{Name: "approve-all", Label: "Approve for all tasks", Confirm: "Approve, and lose " + counted(o.Replaced.Entries, "entry"), Tone: "danger", Comment: true,
			Plan: o.Replaced.Shown, URL: pageURL("approve-all"),
			Consequence: "Each of these tasks is applied with what Consul shows now, and loses what the list says. Plans that need an approval, and windows, still apply. If other entries are lost meanwhile, nothing is approved."}
	}
	return b
}

// whyOf is why a task is in its phase, without what the page says elsewhere: for a task
// that fails, its error.
func whyOf(t *apispec.TaskOverview) string {
	text, _, _ := strings.Cut(t.Reason.Text, "; `")
	switch {
	case selection.WaitsForReplaced(t):
		text, _, _ = strings.Cut(text, state.LostByReplaced)
	case t.Error != nil && !selection.Deciding(t):
		text = firstLine(*t.Error)
	}
	return text
}

// firstLine is the first line of an error, which says what happened.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

var errReplacedChanged = errors.New("what the tasks lose has changed since the page was shown: nothing is approved")

// approveReplaced approves what the tasks lose by a replaced Consul, if it is still what
// the page has shown.
func (p *pages) approveReplaced(ctx context.Context, shown string, approval apispec.HoldRequest) error {
	o, err := p.source.Overview(ctx, selection.None())
	switch {
	case err != nil:
		return err
	case o.Replaced == nil || shown == "" || o.Replaced.Shown != shown:
		return errReplacedChanged
	}
	return p.source.ApproveConsul(ctx, approval)
}

// sameTrouble are tasks that need a person for the same reason.
type sameTrouble struct {
	First *apispec.TaskOverview
	Why   string
	What  string // what changed in Consul; "" if it is not the same for all
	Tasks []*apispec.TaskOverview
}

// maxNamed is how many tasks with the same reason are named.
const maxNamed = 5

// Named are the tasks that the page names, and More how many others there are.
func (s sameTrouble) Named() []*apispec.TaskOverview { return s.Tasks[:min(len(s.Tasks), maxNamed)] }
func (s sameTrouble) More() int                      { return max(0, len(s.Tasks)-maxNamed) }

// grouped joins tasks that are in the same phase for the same reason, in the order of the
// first of them. A plan that waits is decided on by itself.
func grouped(urgent []*apispec.TaskOverview) []*sameTrouble {
	type key struct {
		phase apispec.Phase
		why   string
	}
	var groups []*sameTrouble
	known := map[key]*sameTrouble{}
	for _, t := range urgent {
		why := whyOf(t)
		k := key{t.Phase, state.Alike(why, t.Name)}
		g := known[k]
		if g == nil || selection.Deciding(t) {
			g = &sameTrouble{First: t, Why: why, What: selection.What(t)}
			groups, known[k] = append(groups, g), g
		}
		g.Tasks = append(g.Tasks, t)
		if selection.What(t) != g.What {
			g.What = ""
		}
	}
	return groups
}
