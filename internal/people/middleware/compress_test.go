package middleware

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An answer with a plan, which a POST can have, may be too large for a Lambda function otherwise.
func TestCompressed_EachAnswerWithABody(t *testing.T) {
	text := strings.Repeat("plan ", 1000)
	for _, tt := range []struct {
		method     string
		status     int
		compressed bool
	}{
		{http.MethodGet, 200, true}, {http.MethodPost, 201, true}, {http.MethodPost, 409, true}, {http.MethodPatch, 200, true},
		{http.MethodHead, 200, false}, {http.MethodGet, 304, false}, {http.MethodPost, 303, false}, {http.MethodDelete, 204, false},
	} {
		server := httptest.NewServer(Compressed(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			if tt.status < 300 && tt.status != http.StatusNoContent || tt.status >= 400 {
				io.WriteString(w, text)
			}
		})))
		defer server.Close()
		r, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept-Encoding", "gzip") // so that the client does not decompress
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != tt.compressed || resp.StatusCode != tt.status {
			t.Errorf("%s with %d: %d, compressed: %t", tt.method, tt.status, resp.StatusCode, got)
			continue
		}
		if tt.compressed {
			zip, err := gzip.NewReader(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if said, err := io.ReadAll(zip); err != nil || string(said) != text {
				t.Errorf("%s with %d: %d bytes, %v", tt.method, tt.status, len(said), err)
			}
		} else if said, err := io.ReadAll(resp.Body); err != nil || len(said) > 0 {
			t.Errorf("%s with %d: %q, %v", tt.method, tt.status, said, err)
		}
	}
}
