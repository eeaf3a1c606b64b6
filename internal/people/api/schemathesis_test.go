package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// TestNoRequestBreaksTheAPI makes requests of every kind from the description,
// right and wrong ones. Each must be answered as it is described.
func TestNoRequestBreaksTheAPI(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of requests")
	}
	program := testtools.Schemathesis(t)
	description, err := filepath.Abs("../apispec/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, files).work()
	e.settled("web")
	handler := api.New(e.options)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := httptest.NewRecorder()
		handler.ServeHTTP(said, r)
		requests.Add(1)
		if said.Code >= 500 && !strings.Contains(said.Body.String(), "is active and cannot be updated") {
			t.Errorf("%s %s: %d %s", r.Method, r.URL, said.Code, said.Body)
		}
		for name, values := range said.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(said.Code)
		w.Write(said.Body.Bytes())
	}))
	defer server.Close()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "run", description, "--url", server.URL+"/v1", "--phases", "coverage,fuzzing", "--mode", "all",
		"--checks", "status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance,negative_data_rejection",
		"--max-examples", "60", "--seed", "1", "--generation-database", "none", "--request-timeout", "30", "--no-color", "--warnings", "off")
	cmd.Dir = t.TempDir() // where it leaves notes of its own
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%d requests", requests.Load())
	if requests.Load() < 1000 {
		t.Errorf("only %d requests\n%s", requests.Load(), out)
	}
	server.CloseClientConnections()
	http.DefaultClient.CloseIdleConnections()
	eventually(t, "no goroutine is left behind", func() bool { return runtime.NumGoroutine() <= before })
}
