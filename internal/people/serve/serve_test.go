package serve

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

func TestServe_ReturnsAnswers(t *testing.T) {
	s := start(t, Options{Handler: echo}, nil)
	body := strings.Repeat("x", middleware.MaxBody) // the largest there may be
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
			header := http.Header{"Origin": {"https://ops.example.com"}}
			if method == http.MethodOptions {
				header.Set("Access-Control-Request-Method", "PATCH")
			}
			resp, _ := s.send(method, "/v1/x", header)
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
		allowed, origin, token string
		want                   int
		says                   string
	}{
		{"", "", "", 200, ""}, // no browser
		{"", page, "", 403, "-allow-origin"},
		{page, page, "", 200, ""},
		{page, "https://evil.example.com", "", 403, "-allow-origin"},
		{"*", "https://evil.example.com", actToken, 200, ""},
		{"*", "https://evil.example.com", "", 403, "api.token"}, // nobody has said who they are
	} {
		s := start(t, Options{Handler: echo, AllowOrigin: test.allowed, Token: Token{Value: test.token}}, nil)
		header := http.Header{}
		if test.origin != "" {
			header = http.Header{"Origin": {test.origin}, "Sec-Fetch-Site": {"cross-site"}}
		}
		if test.token != "" {
			header.Set("Authorization", "Bearer "+test.token)
		}
		if resp, body := s.send(http.MethodPost, "/v1/x", header); resp.StatusCode != test.want || !strings.Contains(body, test.says) {
			t.Errorf("a page of %q where %q is allowed: %s %s", test.origin, test.allowed, resp.Status, body)
		}
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
