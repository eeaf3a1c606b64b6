package hcptest

import (
	"io"
	"net/http"
)

// route says which functions answer.
func (s *Server) route() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /.well-known/terraform.json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"tfe.v2":"/api/v2/","tfe.v2.1":"/api/v2/","tfe.v2.2":"/api/v2/","state.v2":"/api/v2/"}`)
	})
	s.mux.HandleFunc("GET /api/v2/ping", s.handle(func(*call) (answer, error) { return answer{status: http.StatusNoContent}, nil }, true))
	s.mux.HandleFunc("/signed/{id}", s.handle((*call).signed, true))
	s.routeOrganizations()
	s.routeWorkspaces()
	s.routeVariables()
	s.routeUploads()
	s.routeRuns()
	s.routeStates()
	s.routeNotifications()
	s.mux.HandleFunc("/", s.handle(func(c *call) (answer, error) {
		c.t.Logf("HCP Terraform's stand-in does not know %s %s", c.r.Method, c.r.URL)
		return c.missing()
	}, true))
}
