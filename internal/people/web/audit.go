package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/export"
	"github.com/terrapulse/terrapulse/internal/record/audit"
)

// auditPage is who did or decided what.
type auditPage struct {
	Entries   []apispec.AuditEntry `json:"entries"`
	Filter    auditFilter          `json:"filter"`
	Actions   []audit.Action       `json:"-"`
	Ranges    []auditRange         `json:"-"`
	KeptSince *time.Time           `json:"kept_since,omitempty"` // earlier ones are removed
	listed    `json:"-"`
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
	return values(map[string]string{"task": f.Task, "by": f.By, "action": f.Action, "range": f.Range, "before": f.Before})
}

// request is the filter as the query of the API.
func (f auditFilter) request(now time.Time) url.Values {
	query := f.values()
	query.Del("range")
	i := slices.IndexFunc(auditRanges, func(r auditRange) bool { return r.Value == f.Range })
	query.Set("since", now.Add(-auditRanges[i].length).UTC().Format(time.RFC3339))
	return query
}

// audit reads with the rights of the viewer: what others did is not for everybody.
func (p *pages) audit(r *http.Request) (view, error) {
	page := auditPage{Filter: auditFilterOf(r.URL.Query()), Actions: audit.Actions, Ranges: auditRanges}
	query := page.Filter.request(p.Now())
	query.Set("limit", "100")
	answer, err := p.source.Audit(access.With(r.Context(), p.Viewer(r)), query)
	if err != nil {
		return view{}, err
	}
	page.Entries, page.KeptSince = answer.Entries, answer.KeptSince
	page.listed = listedOf(pageURL("audit"), page.Filter.values(), apispec.Deref(answer.Next))
	return view{title: "Audit", template: "audit", still: true, data: page}, nil
}

// exportAudit sends the entries that the page selects.
func (p *pages) exportAudit() http.HandlerFunc {
	return exported(p, "audit", export.Audit, func(query url.Values) url.Values { return auditFilterOf(query).request(p.Now()) },
		func(ctx context.Context, query url.Values) ([]apispec.AuditEntry, string, error) {
			answer, err := p.source.Audit(ctx, query)
			return answer.Entries, apispec.Deref(answer.Next), err
		})
}

// asPages returns a context in which what the API changes comes from a page.
func asPages(ctx context.Context, from string) context.Context {
	return audit.With(ctx, audit.Actor{Via: audit.Pages, From: from})
}
