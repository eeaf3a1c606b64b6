package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// limit limits how long a test waits.
const limit = time.Minute

// served is a server under test.
type served struct {
	*Server
	host string // 127.0.0.1 if empty
	t    *testing.T
	log  *testtools.Output
	stop context.CancelFunc
	done chan error
}

func start(t *testing.T, o Options, tune func(*Server)) *served {
	t.Helper()
	before := runtime.NumGoroutine()
	l := &testtools.Output{}
	o.Log = slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	server, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if tune != nil {
		tune(server)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &served{Server: server, t: t, log: l, stop: stop, done: make(chan error, 1)}
	go func() { s.done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-s.done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(limit):
			t.Error("the server does not end")
		}
		deadline := time.Now().Add(limit)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	return s
}

func (s *served) port() int { return s.Addr().(*net.TCPAddr).Port }

func (s *served) url(scheme string) string {
	return fmt.Sprintf("%s://%s:%d/v1/x", scheme, cmp.Or(s.host, "127.0.0.1"), s.port())
}

// dial opens a raw connection.
func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// wantNoGuess wants that no request counts as one with a wrong token.
func wantNoGuess(s *served) {
	s.t.Helper()
	if log := s.log.String(); strings.Contains(log, "wrong token") {
		s.t.Errorf("a request counts as a guess: %s", log)
	}
}

// client returns an HTTP client that leaves no connection open.
func client(t *testing.T, secure *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: limit}
}

// echo answers with the body of the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })

// wantError wants an error in the format of the API.
func wantError(t *testing.T, resp *http.Response, status int, text string) {
	t.Helper()
	defer resp.Body.Close()
	var body struct {
		Error     struct{ Message string }
		RequestID string `json:"request_id"`
	}
	raw, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(raw, &body); err != nil {
		t.Fatalf("status %d, body %q: %v", resp.StatusCode, raw, err)
	}
	if resp.StatusCode != status || !strings.Contains(body.Error.Message, text) || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %s, want %d with %q", resp.StatusCode, raw, status, text)
	}
	if _, err := uuid.Parse(body.RequestID); err != nil {
		t.Errorf("request id %q", body.RequestID)
	}
}

func wantLogged(t *testing.T, l *testtools.Output, texts ...string) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for _, text := range texts {
		for !strings.Contains(l.String(), text) {
			if time.Now().After(deadline) {
				t.Fatalf("%q is not logged:\n%s", text, l)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// wantClosed wants the server to close the connection, and returns what the server sent.
func wantClosed(t *testing.T, conn net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(conn)
	if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
		t.Fatalf("the connection is still open; it said %q", said)
	}
	return string(said)
}

// trusting returns the TLS configuration of a client that trusts the CA and has a certificate, if
// given.
func trusting(t *testing.T, ca string, own ...string) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AppendCertsFromPEM(pem)
	if len(own) > 0 {
		pair, err := tls.LoadX509KeyPair(own[0], own[1])
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg
}

// get sends a request and returns the server's certificate.
func get(t *testing.T, s *served, secure *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	resp, err := client(t, secure).Get(s.url("https"))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return resp.TLS.PeerCertificates[0], nil
}

// says returns the answer to a request.
func says(t *testing.T, s *served, secure *tls.Config) string {
	t.Helper()
	return visitor{s, client(t, secure)}.read(client(t, secure).Get(s.url("https")))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
