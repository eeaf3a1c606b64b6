package api_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"
)

func TestVersion_SaysWhatAnswers(t *testing.T) {
	e := newEngine(t, files)
	e.options.Version = "1.2.3"
	got := e.serve().get("/v1/version")
	status(t, got, http.StatusOK)
	body := got.json(t)
	delete(body, "commit") // of the test's build
	if body["version"] != "1.2.3" || body["api_version"] != "v1" || body["go_version"] != runtime.Version() {
		t.Errorf("answer %v", body)
	}
}

func TestMetrics_AreServedWhereThereAreAny(t *testing.T) {
	e := newEngine(t, files)
	if got := e.serve().get("/v1/metrics"); got.status != http.StatusOK || got.body != "a 1\n" {
		t.Errorf("with metrics: %d %q", got.status, got.body)
	}
	e.options.Metrics = nil
	if got := e.serve().get("/v1/metrics"); got.status != http.StatusNotFound || !strings.Contains(got.message(t), "CloudWatch") {
		t.Errorf("without metrics: %d %s", got.status, got.body)
	}
}
