package api

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/terrapulse/terrapulse/internal/apispec"
)

// apiVersion is the first part of every path.
const apiVersion = "v1"

// Commit returns the commit that the program was built from; "" if the build
// did not know it. Changes that were not committed are marked with "+dirty".
var Commit = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
})

// getVersion answers with what runs here.
func (a *api) getVersion(w http.ResponseWriter, r *http.Request) {
	write(w, http.StatusOK, apispec.VersionResponse{
		RequestID: idOf(r), Version: a.Version, Commit: optional(Commit()), GoVersion: runtime.Version(), APIVersion: apiVersion,
	})
}

// getMetrics answers a scrape of Prometheus.
func (a *api) getMetrics(w http.ResponseWriter, r *http.Request) {
	if a.Metrics == nil {
		refuse(w, r, http.StatusNotFound, "no metrics are served here: a deployment in AWS writes them to CloudWatch, in the namespace Terrapulse")
		return
	}
	a.Metrics.ServeHTTP(w, r)
}
