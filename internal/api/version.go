package api

import (
	"net/http"
	"runtime"

	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/buildinfo"
	"github.com/terrapulse/terrapulse/internal/request"
)

// apiVersion is the first part of every path.
const apiVersion = "v1"

// getVersion answers with the version of the program.
func (a *api) getVersion(w http.ResponseWriter, r *http.Request) {
	answer := apispec.VersionResponse{RequestID: request.ID(r), Version: a.Version, GoVersion: runtime.Version(), APIVersion: apiVersion}
	if commit := buildinfo.Commit(); commit != "" {
		answer.Commit = &commit
	}
	write(w, http.StatusOK, answer)
}

// getMetrics answers a scrape of Prometheus.
func (a *api) getMetrics(w http.ResponseWriter, r *http.Request) {
	if a.Metrics == nil {
		refuse(w, r, http.StatusNotFound, "no metrics are served here: a deployment in AWS writes them to CloudWatch, in the namespace Terrapulse")
		return
	}
	a.Metrics.ServeHTTP(w, r)
}
