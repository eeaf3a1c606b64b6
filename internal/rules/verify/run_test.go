package verify

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"encoding/pem"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// request is a verification of a server, which retries quickly.
func request(url string) Spec {
	return Spec{Name: "vip", Enabled: true, HTTP: &HTTP{URL: url, Method: "GET", Status: []string{"200-299"}},
		Within: 20 * time.Second, Every: 10 * time.Millisecond, Timeout: 10 * time.Second, OnFailure: Report}
}

// short lets a verification end after this time.
func short(s Spec, within time.Duration) Spec {
	s.Within = within
	return s
}

// one carries out one verification.
func one(t *testing.T, s Spec, applied Applied) state.Verified {
	t.Helper()
	results := Run(t.Context(), []Spec{s}, applied)
	if len(results) != 1 {
		t.Fatalf("%d results", len(results))
	}
	return results[0]
}

func serve(t *testing.T, answer http.HandlerFunc) string {
	s := httptest.NewServer(answer)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func TestRun_PassesAsSoonAsOneAttemptDoes(t *testing.T) {
	var asked atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	})
	if r := one(t, request(url), Applied{}); r.State != state.VerifyPassed || r.Attempts != 3 || r.Detail != "" || r.Took <= 0 {
		t.Errorf("%+v", r)
	}
}

func TestRun_FailsWithTheReasonOfTheLastAttempt(t *testing.T) {
	stop := make(chan struct{})
	other := serve(t, func(http.ResponseWriter, *http.Request) {})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hangs":
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat("x", 64<<10))); err != nil {
					return
				}
			}
		case "/elsewhere":
			http.Redirect(w, r, other, http.StatusFound)
		case "/around":
			http.Redirect(w, r, "/around", http.StatusFound)
		case "/garbled":
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Write([]byte("SSH-2.0-garbage\r\n\r\n"))
			conn.Close()
		case "/sick":
			w.Write([]byte(`{"healthy": false}`))
		}
	})
	t.Cleanup(func() { close(stop) })
	for _, tt := range []struct {
		path, body, want string
	}{
		{"/hangs", "", "no result within 50ms"},
		{"/endless", "never", "answered 200, and its body does not match"},
		{"/elsewhere", "", "answered 302 Found, a redirect to another host"},
		{"/around", "", "answered 302 Found"},
		{"/garbled", "", "malformed HTTP"},
		{"/sick", `"healthy": *true`, "its body does not match"},
	} {
		s := short(request(url+tt.path+"?token=hidden"), 700*time.Millisecond)
		s.HTTP.Body = tt.body
		if tt.path == "/hangs" {
			s.Timeout = 50 * time.Millisecond
		}
		if r := one(t, s, Applied{}); r.State != state.VerifyFailed || !strings.Contains(r.Detail, tt.want) || strings.Contains(r.Detail, "hidden") {
			t.Errorf("%s: %+v", tt.path, r)
		}
	}
}

func TestRun_AnswerIsExpectedByStatusBodyAndHeaders(t *testing.T) {
	t.Setenv("NOT_GIVEN", "a credential of Terrapulse")
	applied := Applied{Env: []string{"PROBE_WORD=open-sesame"}}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open-sesame" || r.Method != "POST" {
			http.Error(w, "", http.StatusForbidden)
			return
		}
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		w.Write([]byte(`{"healthy": true}`))
	})
	s := short(request(url), 5*time.Second)
	s.HTTP.Method, s.HTTP.Status, s.HTTP.Body = "POST", []string{"202"}, `"healthy": *true`
	s.HTTP.Headers = map[string]string{"Authorization": `Bearer {{ env "PROBE_WORD" }}`}
	if r := one(t, s, applied); r.State != state.VerifyPassed {
		t.Errorf("%+v", r)
	}
	s.HTTP.Headers = map[string]string{"Authorization": `Bearer {{ env "NOT_GIVEN" }}`}
	if r := one(t, s, applied); r.State != state.VerifyFailed || r.Attempts != 0 || !strings.Contains(r.Detail, "NOT_GIVEN") {
		t.Errorf("%+v", r)
	}
}

func TestRun_CertificateMustBeOfTheAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca, 0o600); err != nil {
		t.Fatal(err)
	}
	s := short(request(server.URL), 5*time.Second) // on a busy machine, a handshake takes its time
	if r := one(t, s, Applied{Dir: dir}); r.State != state.VerifyFailed || !strings.Contains(r.Detail, "certificate") {
		t.Errorf("without the authority: %+v", r)
	}
	s.HTTP.CACert, s.HTTP.ServerName, s.Within = "ca.pem", "example.com", 10*time.Second
	if r := one(t, s, Applied{Dir: dir}); r.State != state.VerifyPassed {
		t.Errorf("with the authority: %+v", r)
	}
	s.HTTP.CACert = "gone.pem"
	if r := one(t, s, Applied{Dir: dir}); r.State != state.VerifyFailed || !strings.Contains(r.Detail, "gone.pem") {
		t.Errorf("without its file: %+v", r)
	}
}

// script is a verification by a shell script.
func script(text string) Spec {
	s := short(request(""), 20*time.Second)
	s.HTTP, s.Command = nil, []string{"sh", "-c", text}
	return s
}

func TestRun_ProgramSaysByItsExitCode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	dir := t.TempDir()
	applied := Applied{Task: "lb", Run: "r1", Dir: dir, Env: append(os.Environ(), "API_TOKEN=known-secret-value")}
	if r := one(t, script(`test "$TERRAPULSE_TASK $TERRAPULSE_RUN $TERRAPULSE_VERIFY" = "lb r1 vip" && test "$PWD" = `+dir), applied); r.State != state.VerifyPassed {
		t.Errorf("%+v", r)
	}
	if r := one(t, script("echo x >> tries; test $(wc -l < tries) -ge 3"), applied); r.State != state.VerifyPassed || r.Attempts != 3 {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		"echo no route; exit 3":                      "ended with exit code 3: no route",
		"echo $API_TOKEN; exit 1":                    "ended with exit code 1: ",
		"kill -9 $$":                                 "was ended: signal: killed",
		"yes | head -c 10000000; exit 1":             "…",
		"sleep 600 & sleep 600":                      "no result within 700ms",
		"trap '' TERM; while true; do sleep 1; done": "no result within 700ms",
	} {
		if r := one(t, short(script(text), 700*time.Millisecond), applied); r.State != state.VerifyFailed || !strings.Contains(r.Detail, want) || strings.Contains(r.Detail, "known-secret-value") {
			t.Errorf("%s: %+v", text, r)
		}
	}
	s := short(script(""), 50*time.Millisecond)
	s.Command = []string{"no-such-program"}
	if r := one(t, s, applied); !strings.Contains(r.Detail, "there is no program no-such-program on PATH") {
		t.Errorf("%+v", r)
	}
}

func TestRun_InterruptedIsNeitherPassedNorFailed(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	asked := make(chan struct{}, 100)
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	go func() { <-asked; stop(errors.New("the process is stopped")) }()
	start := time.Now()
	r := Run(ctx, []Spec{request(url)}, Applied{})[0]
	if r.State != state.VerifyInterrupted || !strings.Contains(r.Detail, "the process is stopped") || time.Since(start) > 8*time.Second {
		t.Errorf("%+v", r)
	}
}

func TestOfChecks_UnknownIsNotPassedWhereItIsRequired(t *testing.T) {
	required := []Spec{{Name: "module", Enabled: true, Terraform: true, OnFailure: Hold}}
	for _, tt := range []struct {
		name             string
		specs            []Spec
		failing, unknown []string
		err              error
		want             string
	}{
		{"nothing is verified", nil, nil, []string{"check.a"}, nil, ""},
		{"a block fails that no verification names", nil, []string{"check.a: down"}, nil, nil, "check blocks failed: check.a: down"},
		{"all pass", required, nil, nil, nil, "module passed"},
		{"one fails", required, []string{"check.a: down"}, nil, nil, "module failed: check.a: down"},
		{"one is unknown", required, nil, []string{"check.a"}, nil, "module failed: Terraform could not evaluate check.a"},
		{"nobody can read them", required, nil, nil, errors.New("denied"), "module failed: the results of check blocks cannot be read: denied"},
		{"nobody can read them, and nobody needs to", nil, nil, nil, errors.New("denied"), ""},
	} {
		got := ""
		for _, r := range OfChecks(tt.specs, tt.failing, tt.unknown, tt.err) {
			got += r.String()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
