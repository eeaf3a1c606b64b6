package api

import (
	"net/http"
	"runtime"

	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// apiVersion is the first part of every path.
const apiVersion = "v1"

// getVersion answers with the version of the program, and with who the sender is.
func (a *api) getVersion(r *http.Request) (any, error) {
	rights := by(r).Rights
	all := []apispec.RoleOfSender{}
	for _, role := range roles.All {
		if tasks := rights.Tasks(role); len(tasks) > 0 {
			all = append(all, apispec.RoleOfSender{Role: apispec.RoleOfSenderRole(role), Tasks: tasks})
		}
	}
	var groups *[]string
	if g := by(r).Groups; len(g) > 0 {
		groups = &g
	}
	return apispec.VersionResponse{Roles: &all, Groups: groups, Proof: apiview.Optional(string(by(r).Proof)), RequestID: middleware.ID(r), Version: a.Version, Commit: apiview.Optional(buildinfo.Commit()),
		GoVersion: runtime.Version(), APIVersion: apiVersion, Sender: apiview.Optional(by(r).Name), MayAct: rights.Acts()}, nil
}

// getMetrics answers a scrape of Prometheus.
func (a *api) getMetrics(*http.Request) (any, error) {
	if a.Metrics == nil {
		return nil, refuse(http.StatusNotFound, "no metrics are served here: a deployment in AWS writes them to CloudWatch, in the namespace Terrapulse")
	}
	return http.HandlerFunc(a.Metrics.ServeHTTP), nil
}
