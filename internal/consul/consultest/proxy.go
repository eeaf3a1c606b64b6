package consultest

import (
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
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
	server *httptest.Server
	proxy  *httputil.ReverseProxy

	mu          sync.Mutex
	mode        Mode
	changed     chan struct{} // closed when mode changes
	requests    map[string]int
	queries     map[string]string // of the latest request, by path
	conns, peak int
}

// NewProxy starts a proxy for a server's host and port. It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{
		proxy:    httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target}),
		changed:  make(chan struct{}),
		requests: map[string]int{},
		queries:  map[string]string{},
	}
	quiet := log.New(io.Discard, "", 0) // a server that is down is what tests are about
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	p.proxy.Transport, p.proxy.ErrorLog = transport, quiet
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ConnState, p.server.Config.ErrorLog = p.connState, quiet
	p.server.Start()
	t.Cleanup(func() {
		p.Set(Cut)
		p.server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// Addr returns the proxy's host and port.
func (p *Proxy) Addr() string { return p.server.Listener.Addr().String() }

// Set changes the treatment of requests from now on, including waiting ones.
func (p *Proxy) Set(mode Mode) {
	p.mu.Lock()
	p.mode = mode
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if mode == Cut {
		p.server.CloseClientConnections()
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
	p.peak = p.conns
}

// ServeHTTP forwards a request, or does what the mode says.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	p.queries[r.URL.Path] = r.URL.RawQuery
	p.mu.Unlock()

	mode, changed := p.current()
	for mode == Hanging {
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		mode, changed = p.current()
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

func (p *Proxy) current() (Mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

func (p *Proxy) connState(_ net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.conns++
		p.peak = max(p.peak, p.conns)
	case http.StateClosed, http.StateHijacked:
		p.conns--
	}
}
