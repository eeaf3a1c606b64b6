package apiview

import (
	"net/url"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/audit"
)

// AuditEntry returns an entry of the audit record as the API shows it.
func AuditEntry(e audit.Entry) apispec.AuditEntry {
	shown := apispec.AuditEntry{ID: e.ID, At: e.At, Action: apispec.AuditAction(e.Action), By: e.By, Proof: string(e.Proof), Account: Optional(e.Account), From: Optional(e.From),
		Via: Optional(string(e.Via)), Request: Optional(e.Request), Task: Optional(e.Task), Run: Optional(e.Run), Plan: Optional(e.Plan),
		Detail: Optional(e.Detail), Comment: Optional(e.Comment)}
	if c := e.Content; c != nil {
		shown.Content = &apispec.Content{Definition: c.Definition, Input: c.Input, Plan: Optional(c.Plan), State: Optional(c.State)}
	}
	return shown
}

// auditLimit is how many entries are listed by default.
const auditLimit = 100

// auditRange is the range of time whose entries are listed by default.
const auditRange = 7 * 24 * time.Hour

// oldestEntry is how far back entries are looked for: none is kept for longer.
const oldestEntry = 10 * 366 * 24 * time.Hour

// AuditFilter returns what the query of a request selects in the audit record.
func AuditFilter(query url.Values, now time.Time) audit.Filter {
	q := SelectionOf(query, auditLimit)
	f := audit.Filter{Since: q.Since, Until: q.Until, Before: q.Before, Task: q.Task, By: q.By, Action: audit.Action(query.Get("action")), Limit: q.Limit}
	if latest := now.Add(time.Hour); f.Until.IsZero() || f.Until.After(latest) { // another clock may be ahead
		f.Until = latest
	}
	if f.Since.IsZero() {
		f.Since = f.Until.Add(-auditRange)
	}
	if oldest := now.Add(-oldestEntry); f.Since.Before(oldest) {
		f.Since = oldest
	}
	return f
}
