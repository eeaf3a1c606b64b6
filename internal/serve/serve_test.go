package serve

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/request"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// limit limits how long a test waits.
const limit = 20 * time.Second

// served is a server under test.
type served struct {
	*Server
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
	return fmt.Sprintf("%s://127.0.0.1:%d/v1/x", scheme, s.port())
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

func TestServe_ReturnsAnswers(t *testing.T) {
	s := start(t, Options{Handler: echo}, nil)
	body := strings.Repeat("x", request.MaxBody) // the largest there may be
	resp, err := client(t, nil).Post(s.url("http"), "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != body {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if origin := resp.Header.Get("Access-Control-Allow-Origin"); origin != "" {
		t.Errorf("web pages of %s may use it unasked", origin)
	}
}

func TestListen_ReportsAPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = Listen(t.Context(), Options{Port: port, Handler: echo, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Fatal("it listens on a port that is taken")
	}
	for _, text := range []string{fmt.Sprintf("port %d", port), "another program has it", "set port in the configuration"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is missing in: %v", text, err)
		}
	}
	if strings.Count(err.Error(), "listen") > 1 {
		t.Errorf("it says it twice: %v", err)
	}
}

func TestServe_RefusesALargeBody(t *testing.T) {
	reached := make(chan struct{}, 9)
	s := start(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })}, nil)
	for name, body := range map[string]io.Reader{
		"100 MB":                     io.LimitReader(zeros{}, 100<<20), // of unknown length: chunked
		"one byte more than allowed": strings.NewReader(strings.Repeat("x", request.MaxBody+1)),
	} {
		resp, err := client(t, nil).Post(s.url("http"), "application/json", body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantError(t, resp, http.StatusRequestEntityTooLarge, "1048576 bytes")
	}
	// A client that announces the size need not send the body.
	conn := s.dial()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\nExpect: 100-continue\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, resp, http.StatusRequestEntityTooLarge, "too large")
	// A client that reads the answer only at the end gets it.
	conn = s.dial()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", 32<<20)
	if _, err := conn.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	if resp, err = http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
		t.Fatal(err)
	}
	wantError(t, resp, http.StatusRequestEntityTooLarge, "too large")
	if len(reached) > 0 {
		t.Error("the handler was called")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestServe_RefusesALargeHeader(t *testing.T) {
	s := start(t, Options{Handler: echo}, nil)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("http"), nil)
	req.Header.Set("X-Long", strings.Repeat("x", 2*maxHeader))
	resp, err := client(t, nil).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// wantClosed wants the server to close the connection, and returns what the server sent.
func wantClosed(t *testing.T, conn net.Conn) string {
	t.Helper()
	said, err := io.ReadAll(conn)
	if nerr, ok := err.(net.Error); ok && nerr.Timeout() {
		t.Fatalf("the connection is still open; it said %q", said)
	}
	return string(said)
}

func TestServe_DisconnectsSlowClients(t *testing.T) {
	reached := make(chan struct{}, 99)
	quick := func(s *Server) { s.header, s.guard.body = 200*time.Millisecond, 200*time.Millisecond }
	s := start(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })}, quick)

	t.Run("a header that comes byte by byte", func(t *testing.T) {
		conn := s.dial()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\n")
		gone := make(chan string, 1)
		go func() { gone <- wantClosed(t, conn) }()
		for i := 0; ; i++ {
			fmt.Fprintf(conn, "X-%d: y\r\n", i)
			select {
			case <-gone:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	t.Run("a body that comes byte by byte", func(t *testing.T) {
		conn := s.dial()
		fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
		gone := make(chan string, 1)
		go func() { gone <- wantClosed(t, conn) }()
		for {
			fmt.Fprint(conn, "x")
			select {
			case said := <-gone:
				if !strings.HasPrefix(said, "HTTP/1.1 408 ") || !strings.Contains(said, "did not arrive within") {
					t.Errorf("it said %q", said)
				}
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	t.Run("a hundred that say nothing", func(t *testing.T) {
		var conns []net.Conn
		for range 100 {
			conns = append(conns, s.dial())
		}
		for _, conn := range conns {
			wantClosed(t, conn)
		}
	})
	if len(reached) > 0 {
		t.Error("the handler was called")
	}
}

func TestServe_AbortsAnAnswerThatIsNotRead(t *testing.T) {
	wrote := make(chan error, 1)
	s := start(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		wrote <- err
	})}, func(s *Server) { s.guard.piece = 200 * time.Millisecond })
	conn := s.dial()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-wrote:
		if err == nil {
			t.Error("64 MB were written to one who reads nothing")
		}
	case <-time.After(limit):
		t.Fatal("the handler still writes")
	}
}

func TestServe_SlowHandlerIsNotAborted(t *testing.T) {
	quick := func(s *Server) {
		s.header, s.guard.body, s.guard.piece = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	}
	s := start(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			t.Error("the request's context has ended")
		case <-time.After(500 * time.Millisecond):
		}
		fmt.Fprint(w, "done")
	})}, quick)
	resp, err := client(t, nil).Post(s.url("http"), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "done" {
		t.Errorf("body = %q, %v", body, err)
	}
}

func TestServe_IncompleteBodyDoesNotReachTheHandler(t *testing.T) {
	reached := make(chan struct{}, 9)
	s := start(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })}, nil)
	conn := s.dial()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"task\":")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, resp, http.StatusBadRequest, "did not arrive whole")
	if len(reached) > 0 {
		t.Error("the handler was called")
	}
}

func TestServe_DisconnectEndsTheRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s := start(t, Options{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})}, nil)
	conn := s.dial()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
	<-began
	conn.Close()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatal("the handler goes on for nobody")
	}
}

func TestServe_PanicIsAnsweredAndLogged(t *testing.T) {
	s := start(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("late") {
			fmt.Fprint(w, "the first ha")
			_ = http.NewResponseController(w).Flush()
		}
		panic("boom")
	})}, nil)
	resp, err := client(t, nil).Get(s.url("http"))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, resp, http.StatusInternalServerError, "internal error")
	wantLogged(t, s.log, "boom", "serve_test.go", "request_id", "level=ERROR")

	resp, err = client(t, nil).Get(s.url("http") + "?late")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("half an answer looks whole: %q", body)
	}
}

func TestServe_AllowedOriginsMayUseIt(t *testing.T) {
	for _, origin := range []string{"*", "https://ops.example.com"} {
		s := start(t, Options{Handler: echo, AllowOrigin: origin}, nil)
		for _, method := range []string{http.MethodGet, http.MethodOptions} {
			req, _ := http.NewRequestWithContext(t.Context(), method, s.url("http"), nil)
			req.Header.Set("Origin", "https://ops.example.com")
			if method == http.MethodOptions {
				req.Header.Set("Access-Control-Request-Method", "PATCH")
			}
			resp, err := client(t, nil).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Access-Control-Allow-Origin"); got != origin {
				t.Errorf("%s: allowed origin %q, want %q", method, got, origin)
			}
			if allowed := resp.Header.Get("Access-Control-Allow-Methods"); method == http.MethodOptions && !strings.Contains(allowed, "PATCH") {
				t.Errorf("allowed methods %q", allowed)
			}
		}
	}
}

func TestServe_OtherOriginsCannotChangeAnything(t *testing.T) {
	const page = "https://ops.example.com"
	for _, test := range []struct {
		allowed, origin string
		want            int
	}{
		{"", "", 200}, // no browser
		{"", page, 403},
		{page, page, 200},
		{page, "https://evil.example.com", 403},
		{"*", "https://evil.example.com", 200},
	} {
		s := start(t, Options{Handler: echo, AllowOrigin: test.allowed}, nil)
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url("http"), nil)
		if test.origin != "" {
			req.Header.Set("Origin", test.origin)
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		resp, err := client(t, nil).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != test.want {
			t.Errorf("a page of %q where %q is allowed: %s", test.origin, test.allowed, resp.Status)
		}
		if test.want == 403 {
			wantError(t, resp, 403, "-allow-origin")
		}
		resp.Body.Close()
	}
	for _, origin := range []string{"ops.example.com", "https://ops.example.com/"} {
		if _, err := Listen(t.Context(), Options{AllowOrigin: origin}); err == nil || !strings.Contains(err.Error(), origin) {
			t.Errorf("%s: %v", origin, err)
		}
	}
}

func TestServe_ShutdownWaitsForAnswers(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		fmt.Fprint(w, "done")
	})}, nil)
	got := make(chan string, 1)
	c := client(t, nil)
	go func() {
		resp, err := c.Get(s.url("http"))
		if err != nil {
			got <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		got <- string(body)
	}()
	<-began
	s.stop()
	deadline := time.Now().Add(limit)
	for { // no new request is accepted
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port()))
		if err != nil {
			break
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("it still listens")
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(goOn)
	if body := <-got; body != "done" {
		t.Errorf("got %q", body)
	}
}

func TestServe_ShutdownEndsTheContextsOfRequests(t *testing.T) {
	began := make(chan struct{})
	s := start(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		w.WriteHeader(http.StatusGatewayTimeout)
	})}, func(s *Server) { s.grace, s.word = 50*time.Millisecond, limit })
	got := make(chan error, 1)
	c := client(t, nil)
	go func() {
		resp, err := c.Get(s.url("http"))
		if err == nil {
			resp.Body.Close()
			err = errors.New(resp.Status)
		}
		got <- err
	}()
	<-began
	s.stop()
	if err := <-got; err.Error() != "504 Gateway Timeout" {
		t.Error(err)
	}
}

func TestServe_ShutdownIsLimitedInTime(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	s := start(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-release
	})}, func(s *Server) { s.grace, s.word = 50*time.Millisecond, 50*time.Millisecond })
	conn := s.dial()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-began
	s.stop()
	if said := wantClosed(t, conn); said != "" {
		t.Errorf("it said %q", said)
	}
	wantLogged(t, s.log, "aborted")
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

func TestServe_TLS(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key}}, nil)
	if _, err := get(t, s, trusting(t, ca.CA)); err != nil {
		t.Error(err)
	}
	if _, err := get(t, s, trusting(t, testtools.NewAuthority(t).CA)); err == nil {
		t.Error("a client trusts another authority and is answered")
	}
	t.Run("nothing below TLS 1.2", func(t *testing.T) {
		old := trusting(t, ca.CA)
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if _, err := get(t, s, old); err == nil {
			t.Error("TLS 1.1 is spoken")
		}
		old.MaxVersion = tls.VersionTLS12
		if _, err := get(t, s, old); err != nil {
			t.Error(err)
		}
	})
}

func TestServe_PlainHTTPOnATLSPortGets400(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key}}, nil)
	large := strings.Repeat("x", 300<<10)
	for _, test := range []struct{ method, body string }{
		{"GET", ""}, {"PATCH", `{"enabled":false}`}, {"DELETE", ""}, {"POST", large}, {"PATCH", large},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), test.method, s.url("http"), strings.NewReader(test.body))
		resp, err := client(t, nil).Do(req)
		if err != nil {
			t.Errorf("%s with a body of %d bytes: %v", test.method, len(test.body), err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || string(body) != "Client sent an HTTP request to an HTTPS server.\n" {
			t.Errorf("%s with a body of %d bytes: status %d, %q", test.method, len(test.body), resp.StatusCode, body)
		}
	}
}

func TestServe_ClientCertificates(t *testing.T) {
	ca, strangers := testtools.NewAuthority(t), testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	folder := t.TempDir()
	pem, err := os.ReadFile(ca.CA)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ca.pem": string(pem), "README": "no certificate"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, files := range map[string]config.APITLS{
		"of the authority in a file":     {CACert: ca.CA},
		"of an authority in a folder":    {CAPath: folder},
		"the file counts where both are": {CACert: ca.CA, CAPath: "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			files.Enabled, files.VerifyIncoming, files.Cert, files.Key = true, true, cert, key
			s := start(t, Options{Handler: echo, TLS: files}, nil)
			own, ownKey := ca.Client("me")
			if _, err := get(t, s, trusting(t, ca.CA, own, ownKey)); err != nil {
				t.Error(err)
			}
			if _, err := get(t, s, trusting(t, ca.CA)); err == nil {
				t.Error("a client without a certificate is answered")
			}
			other, otherKey := strangers.Client("me")
			if _, err := get(t, s, trusting(t, ca.CA, other, otherKey)); err == nil {
				t.Error("a client of another authority is answered")
			}
		})
	}
}

func TestServe_RenewedCertificateIsUsedByTheNextConnection(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	authority := filepath.Join(t.TempDir(), "clients.pem")
	copyFile(t, ca.CA, authority)
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key, VerifyIncoming: true, CACert: authority}}, nil)
	own, ownKey := ca.Client("me")
	me := trusting(t, ca.CA, own, ownKey)
	me.ClientSessionCache = tls.NewLRUClientSessionCache(9)
	first, err := get(t, s, me)
	if err != nil {
		t.Fatal(err)
	}

	ca.Server("api")
	second, err := get(t, s, me)
	if err != nil {
		t.Fatal(err)
	}
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the old certificate is still shown")
	}
	wantLogged(t, s.log, "read again")

	// A pair that does not match changes nothing, and is reported once.
	if err := os.WriteFile(key, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		still, err := get(t, s, me)
		if err != nil || still.SerialNumber.Cmp(second.SerialNumber) != 0 {
			t.Fatalf("certificate %v, %v", still, err)
		}
	}
	if n := strings.Count(s.log.String(), "stay in use"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	ca.Server("api")
	if third, err := get(t, s, me); err != nil || third.SerialNumber.Cmp(second.SerialNumber) == 0 {
		t.Errorf("certificate %v, %v", third, err)
	}

	// Clients of a removed CA are refused, even after earlier connections.
	others := testtools.NewAuthority(t)
	copyFile(t, others.CA, authority)
	if _, err := get(t, s, me); err == nil {
		t.Error("a client of the former authority is answered")
	}
	own, ownKey = others.Client("you")
	if _, err := get(t, s, trusting(t, ca.CA, own, ownKey)); err != nil {
		t.Error(err)
	}
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

func TestListen_RefusesInvalidCertificates(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	none := filepath.Join(t.TempDir(), "none.pem")
	for text, files := range map[string]config.APITLS{
		"read tls.cert":                 {Cert: none, Key: key},
		"read tls.key":                  {Cert: cert, Key: none},
		"use tls.cert":                  {Cert: cert, Key: ca.CA},
		"read tls.ca_cert":              {Cert: cert, Key: key, VerifyIncoming: true, CACert: none},
		"read tls.ca_path":              {Cert: cert, Key: key, VerifyIncoming: true, CAPath: none},
		"no certificate in PEM form in": {Cert: cert, Key: key, VerifyIncoming: true, CACert: key},
		"needs tls.ca_cert":             {Cert: cert, Key: key, VerifyIncoming: true},
	} {
		files.Enabled = true
		if s, err := Listen(t.Context(), Options{TLS: files, Handler: echo, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error = %v, want one with %q", err, text)
			if err == nil {
				s.Close()
			}
		}
	}
}
