package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/audit"
)

// auditPage is who did or decided what.
type auditPage struct {
	Entries []apispec.AuditEntry `json:"entries"`
	Filter  auditFilter          `json:"filter"`
	Actions []audit.Action       `json:"-"`
	Ranges  []auditRange         `json:"-"`
	Older   string               `json:"-"` // page with earlier entries; "" if there are none
	Newest  string               `json:"-"` // first page, if this is another one
	Export  string               `json:"-"` // the same as lines of JSON
}

// auditFilter is what the page of the audit record selects.
type auditFilter struct {
	Task   string `json:"task,omitempty"`
	By     string `json:"by,omitempty"`
	Action string `json:"action,omitempty"`
	Range  string `json:"range"`
	Before string `json:"before,omitempty"` // the entry after the page
}

// auditRange is a range of time that the page offers.
type auditRange struct {
	Value, Name string
	length      time.Duration
}

const day = 24 * time.Hour

var auditRanges = []auditRange{{"1d", "a day", day}, {"7d", "a week", 7 * day}, {"30d", "30 days", 30 * day}, {"365d", "a year", 365 * day}, {"3650d", "ten years", 3650 * day}}

const defaultAuditRange = 1

// auditFilterOf is what a query selects. What it does not know, it leaves out.
func auditFilterOf(query url.Values) auditFilter {
	f := auditFilter{Task: strings.TrimSpace(query.Get("task")), By: strings.TrimSpace(query.Get("by")), Action: query.Get("action"), Range: query.Get("range"), Before: query.Get("before")}
	if !slices.Contains(audit.Actions, audit.Action(f.Action)) {
		f.Action = ""
	}
	if !slices.ContainsFunc(auditRanges, func(r auditRange) bool { return r.Value == f.Range }) {
		f.Range = auditRanges[defaultAuditRange].Value
	}
	return f
}

// values are the filter as the query of a page.
func (f auditFilter) values() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"task": f.Task, "by": f.By, "action": f.Action, "range": f.Range, "before": f.Before} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// request is the filter as the query of the API.
func (f auditFilter) request(now time.Time, limit string) url.Values {
	query := f.values()
	query.Del("range")
	i := slices.IndexFunc(auditRanges, func(r auditRange) bool { return r.Value == f.Range })
	query.Set("since", now.Add(-auditRanges[i].length).UTC().Format(time.RFC3339))
	query.Set("limit", limit)
	return query
}

// audit reads with the rights of the viewer: what others did is not for everybody.
func (p *pages) audit(r *http.Request) (view, error) {
	page := auditPage{Filter: auditFilterOf(r.URL.Query()), Actions: audit.Actions, Ranges: auditRanges}
	f := page.Filter
	entries, more, err := p.source.Audit(access.With(r.Context(), p.Viewer(r)), f.request(p.Now(), "100"))
	if err != nil {
		return view{}, err
	}
	page.Entries, page.Export = entries, pageURL("audit/export?")+f.values().Encode()
	if f.Before != "" {
		newest := f
		newest.Before = ""
		page.Newest = pageURL("audit?") + newest.values().Encode()
	}
	if more && len(entries) > 0 {
		f.Before = entries[len(entries)-1].ID
		page.Older = pageURL("audit?") + f.values().Encode()
	}
	return view{title: "Audit", template: "audit", still: true, data: page}, nil
}

// maxExported is how many pages of 1,000 entries an export has.
const maxExported = 100

// auditLines sends what the page selects as lines of JSON.
func (p *pages) auditLines(w http.ResponseWriter, r *http.Request) {
	query := auditFilterOf(r.URL.Query()).request(p.Now(), "1000")
	ctx := access.With(r.Context(), p.Viewer(r))
	entries, more, err := p.source.Audit(ctx, query)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	lines := json.NewEncoder(w)
	for n := 1; ; n++ {
		for _, e := range entries {
			if lines.Encode(e) != nil {
				return // the client has gone
			}
		}
		if !more || len(entries) == 0 || n == maxExported {
			return
		}
		query.Set("before", entries[len(entries)-1].ID)
		if entries, more, err = p.source.Audit(ctx, query); err != nil {
			panic(http.ErrAbortHandler) // the client must not take what it has for everything
		}
	}
}

// asPages returns a context in which what the API changes comes from a page.
func asPages(ctx context.Context, from string) context.Context {
	return audit.With(ctx, audit.Actor{Via: audit.Pages, From: from})
}
