package api

import (
	"errors"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// acting returns a request that may change something with who sends it, for the audit record.
func (a *api) acting(r *http.Request) *http.Request {
	if access.Reads(r.Method) {
		return r
	}
	actor := audit.Actor{Identity: by(r).Identity, From: middleware.Host(r.RemoteAddr), Via: audit.API, Request: middleware.ID(r), Keep: a.Control.AuditRetention}
	if pages := audit.Of(r.Context()); pages.Via != "" { // in the same process
		actor.Via, actor.From = pages.Via, pages.From
	}
	return r.WithContext(audit.With(r.Context(), actor))
}

// noteRefused keeps in the audit record that somebody was refused who has no right to a change.
func (a *api) noteRefused(r *http.Request, err error) {
	role, task := roles.Approve, r.PathValue("name")
	denied := (*access.Refused)(nil)
	switch {
	case access.Reads(r.Method):
		return
	case errors.As(err, &denied):
		role, task = denied.Role, denied.Task
	case errors.As(err, new(*approval.RefusedError)), errors.Is(err, approval.ErrSamePerson):
	default:
		return
	}
	if err := a.refusals.Keep(r.Context(), a.Control.Store, string(role), task, r.Pattern+": "+err.Error(), a.Control.Now()); err != nil {
		a.Log.Warn("an attempt that was refused is missing in the audit record", "request_id", middleware.ID(r), "error", err)
	}
}

// getAudit answers with who did what. Entries that are about no task are for those who may view all
// tasks.
func (a *api) getAudit(r *http.Request) (any, error) {
	f := apiview.AuditFilter(r.URL.Query(), a.Control.Now())
	sees := seesAbout(r)
	entries, next, err := audit.List(r.Context(), a.Control.Store, f, func(e audit.Entry) bool { return sees(e.Task) })
	return apispec.AuditResponse{RequestID: middleware.ID(r), Entries: list.Map(entries, apiview.AuditEntry), Next: apiview.Optional(next),
		KeptSince: apiview.Moment(a.Control.Now().Add(-a.Control.AuditRetention(r.Context())))}, err
}
