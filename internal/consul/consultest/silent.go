package consultest

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// FallsSilent is a Consul in memory that answers blocking queries when their wait ends. From a moment on it
// answers nothing, and closes no connection.
type FallsSilent struct {
	From time.Time
}

// RoundTrip implements http.RoundTripper.
func (s FallsSilent) RoundTrip(r *http.Request) (*http.Response, error) {
	wait, _ := time.ParseDuration(r.FormValue("wait"))
	answers := time.After(wait)
	if !time.Now().Add(wait).Before(s.From) {
		answers = nil
	}
	select {
	case <-answers:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Consul-Index": {"7"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}
