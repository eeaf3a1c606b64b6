package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

func TestServe_RefusesALargeBody(t *testing.T) {
	reached := make(chan struct{}, 9)
	s := start(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })}, nil)
	for name, body := range map[string]io.Reader{
		"100 MB":                     io.LimitReader(zeros{}, 100<<20), // of unknown length: chunked
		"one byte more than allowed": strings.NewReader(strings.Repeat("x", middleware.MaxBody+1)),
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

func TestServe_DisconnectsSlowClients(t *testing.T) {
	reached := make(chan struct{}, 99)
	serving := func(t *testing.T, limit func(*Server)) *served {
		return start(t, Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })}, limit)
	}
	// Each server limits one thing: a request must not exceed the other limit under load.
	s := serving(t, func(s *Server) { s.header = 200 * time.Millisecond })

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
		conn := serving(t, func(s *Server) { s.guard.body = 200 * time.Millisecond }).dial()
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
	quick := func(s *Server) { s.header, s.guard.body, s.guard.piece = time.Second, time.Second, time.Second } // for a client under load
	s := start(t, Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			t.Error("the request's context has ended")
		case <-time.After(1500 * time.Millisecond):
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
