package consultest

import (
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Mode is how a Proxy treats requests.
type Mode int

// The modes of a Proxy.
const (
	Working Mode = iota // requests are passed on
	Failing             // every request is answered with status 500
	Hanging             // no request is answered
	Cut                 // every connection is closed without an answer, open ones too
)

// Proxy forwards requests to a Consul server and counts them. Its methods are safe for concurrent
// use.
type Proxy struct {
	server *http.Server
	addr   string
	proxy  *httputil.ReverseProxy
	done   chan struct{} // closed when the test ends

	mu       sync.Mutex
	mode     Mode
	changed  chan struct{} // closed when mode changes
	requests map[string]int
	queries  map[string]string // of the latest request, by path
	conns    map[net.Conn]struct{}
	peak     int
}

// NewProxy starts a proxy for a server's host and port. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		addr:     listener.Addr().String(),
		proxy:    httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target}),
		done:     make(chan struct{}),
		changed:  make(chan struct{}),
		requests: map[string]int{},
		queries:  map[string]string{},
		conns:    map[net.Conn]struct{}{},
	}
	quiet := log.New(io.Discard, "", 0) // a server that is down is what tests are about
	p.proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 100}
	p.proxy.ErrorLog = quiet
	p.server = &http.Server{Handler: p, ConnState: p.connState, ErrorLog: quiet}
	go func() { _ = p.server.Serve(listener) }() // ends with Close, below
	t.Cleanup(func() {
		close(p.done)
		_ = p.server.Close()
		p.proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	return p
}

// Addr returns the proxy's host and port.
func (p *Proxy) Addr() string { return p.addr }

// Set changes the treatment of requests from now on, including waiting ones.
func (p *Proxy) Set(mode Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	close(p.changed)
	p.changed = make(chan struct{})
	if mode == Cut {
		for conn := range p.conns {
			_ = conn.Close()
		}
	}
}

// Requests returns the number of requests since the last Reset, by path without query.
func (p *Proxy) Requests() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.requests)
}

// Query returns the query of the latest request to a path.
func (p *Proxy) Query(path string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queries[path]
}

// Total returns the number of requests since the last Reset.
func (p *Proxy) Total() int {
	total := 0
	for _, n := range p.Requests() {
		total += n
	}
	return total
}

// PeakConnections returns the highest number of connections open at the same time since the last
// Reset.
func (p *Proxy) PeakConnections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

// Reset sets all counts to zero.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = map[string]int{}
	p.peak = len(p.conns)
}

// ServeHTTP forwards a request, or does what the mode says.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	p.queries[r.URL.Path] = r.URL.RawQuery
	mode, changed := p.mode, p.changed
	p.mu.Unlock()

	for mode == Hanging {
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-p.done:
			return
		}
		p.mu.Lock()
		mode, changed = p.mode, p.changed
		p.mu.Unlock()
	}
	switch mode {
	case Failing:
		http.Error(w, "the proxy was told to fail", http.StatusInternalServerError)
	case Cut:
		panic(http.ErrAbortHandler)
	default:
		p.proxy.ServeHTTP(w, r)
	}
}

func (p *Proxy) connState(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.conns[conn] = struct{}{}
		p.peak = max(p.peak, len(p.conns))
		if p.mode == Cut {
			_ = conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, conn)
	}
}
