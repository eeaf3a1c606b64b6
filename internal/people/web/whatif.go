package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// whatIfPage is the page of a what-if.
type whatIfPage struct {
	WhatIf  apispec.WhatIf `json:"what_if"`
	Summary string         `json:"summary"`
	Rows    []whatIfRow    `json:"-"` // a part of them, the most urgent first
	paging  `json:"-"`
	lost    bool
}

// whatIfRow is a task that the what-if concerns.
type whatIfRow struct {
	Task    string
	Chip    string // its verdict in a word or two
	Tone    tone
	Text    string // its verdict in a sentence
	Lost    []string
	Changes *apispec.Changes
	Run     string // id of the plan run; "" if there is none
}

var errNothingGone = errors.New("say what is gone: a node, service, instance or datacenter, and its name")

func whatIfURL(id string) string { return pageURL("what-if/" + url.PathEscape(id)) }

// whatIf shows what would happen.
func (p *pages) whatIf(r *http.Request) (view, error) {
	id := r.PathValue("id")
	w, err := read(r.Context(), p.source, "what-if/"+id, func(ctx context.Context) (apispec.WhatIf, error) { return p.source.WhatIf(ctx, id) })
	if err != nil {
		return view{}, err
	}
	return view{title: "What if, " + w.Supposed, template: "what-if", data: whatIfOf(w, pageNumber(r.URL.Query())), still: w.Ended, again: "1s"}, nil
}

// askWhatIf starts the plans of a what-if, and shows its page.
func (p *pages) askWhatIf(w http.ResponseWriter, r *http.Request) {
	viewer, task := p.Viewer(r), r.PostFormValue("task")
	asked, err := askedOf(r.PostFormValue("gone"), r.PostFormValue("name"), task)
	if again := r.PostFormValue("again"); again != "" {
		asked, err = askedAgain(again)
	}
	if denied := viewer.NeedAny(roles.View); denied != nil {
		err = denied // the API checks the role that a what-if needs
	}
	var started apispec.WhatIf
	if err == nil {
		asked.By = apiview.Optional(viewer.Name)
		started, err = p.source.AskWhatIf(access.With(asPages(r.Context(), middleware.Host(r.RemoteAddr)), viewer), asked)
	}
	p.all.acted(err == nil)
	if err != nil {
		p.refuse(w, r, task, err)
		return
	}
	http.Redirect(w, r, whatIfURL(apispec.Deref(started.ID)), http.StatusSeeOther)
}

// askedOf is the what-if of a form: about one task, or about all enabled ones.
func askedOf(gone, name, task string) (asked apispec.WhatIfRequest, err error) {
	var without apispec.WhatIfGone
	field := map[string]**string{"node": &without.Node, "service": &without.Service, "instance": &without.Instance, "datacenter": &without.Datacenter}[gone]
	name = strings.TrimSpace(name)
	if field == nil || name == "" {
		return asked, errNothingGone
	}
	*field = &name
	asked.Without = &[]apispec.WhatIfGone{without}
	if task != "" {
		asked.Tasks = &[]string{task}
	}
	return asked, nil
}

// askedAgain is the what-if of the button of one whose plans are lost.
func askedAgain(request string) (asked apispec.WhatIfRequest, err error) {
	if err := json.Unmarshal([]byte(request), &asked); err != nil {
		return asked, errNothingGone
	}
	return asked, nil
}

// verdictChips are a verdict in a word or two, with its tone.
var verdictChips = map[apispec.WouldBe]struct {
	word string
	tone tone
}{
	apispec.WouldBeFailed:    {"would fail", bad},
	apispec.WouldBeHeld:      {"held", ask},
	apispec.WouldBeApproval:  {"approval", ask},
	apispec.WouldBeStopped:   {"would not run", ask},
	apispec.WouldBeWindow:    {"window", calm},
	apispec.WouldBeApplied:   {"applied", busy},
	apispec.WouldBeLater:     {"later", calm},
	apispec.WouldBeUnchanged: {"no change", good},
}

// whatIfOf is a page of a what-if, which may be about 1,000 tasks.
func whatIfOf(w apispec.WhatIf, number int) whatIfPage {
	page := whatIfPage{WhatIf: w, Summary: apiview.WhatIfSummary(w)}
	results := slices.Clone(w.Results)
	slices.SortStableFunc(results, func(a, b apispec.WhatIfResult) int {
		return cmp.Or(cmp.Compare(urgencyOf(a), urgencyOf(b)), cmp.Compare(a.Task, b.Task))
	})
	results, page.paging = paged(results, &filter{path: whatIfURL(apispec.Deref(w.ID)), Page: number})
	for _, r := range results {
		row := whatIfRow{Task: r.Task, Lost: apiview.Lost(r), Changes: r.Changes, Run: apispec.Deref(r.Run)}
		switch {
		case r.State == apispec.WhatIfResultStatePlanning:
			row.Chip, row.Tone, row.Text = "being planned", busy, ""
		case r.State == apispec.WhatIfResultStateLost:
			row.Chip, row.Tone, row.Text, page.lost = "lost", bad, apispec.Deref(r.Error), true
		case r.Verdict == nil:
			row.Chip, row.Tone, row.Text = "no plan", bad, "cannot be planned: "+apispec.Deref(r.Error)
		default:
			chip := verdictChips[r.Verdict.Outcome]
			row.Chip, row.Tone, row.Text = chip.word, chip.tone, r.Verdict.Text
		}
		page.Rows = append(page.Rows, row)
	}
	return page
}

// urgencyOf sorts the results: first what cannot be planned, last what is being planned.
func urgencyOf(r apispec.WhatIfResult) int {
	switch {
	case r.State == apispec.WhatIfResultStatePlanning:
		return len(state.WouldBes)
	case r.Verdict == nil:
		return -1
	}
	return slices.IndexFunc(state.WouldBes, func(w struct {
		Outcome state.WouldBe
		Words   string
	}) bool {
		return string(w.Outcome) == string(r.Verdict.Outcome)
	})
}

// Again is what to ask again, because plans are lost; "" if none is, or if the request is not kept.
func (p whatIfPage) Again() string {
	if !p.lost || p.WhatIf.Request == nil {
		return ""
	}
	text, err := json.Marshal(p.WhatIf.Request)
	if err != nil {
		return ""
	}
	return string(text)
}

// Planning is how many plans are still being made.
func (p whatIfPage) Planning() (n int) {
	for _, r := range p.WhatIf.Results {
		if r.State == apispec.WhatIfResultStatePlanning {
			n++
		}
	}
	return n
}
