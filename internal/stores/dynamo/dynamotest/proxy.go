package dynamotest

import (
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Proxy forwards requests to a server, counts them, and injects faults.
type Proxy struct {
	URL string // for AWS_ENDPOINT_URL_DYNAMODB

	mu    sync.Mutex
	count map[string]int
	next  map[string][]Fault
}

// Repeated is the key under which Requests counts the attempts that the SDK makes after a failed one.
const Repeated = "repeated"

// NewProxy starts a proxy that ends with the test.
func NewProxy(t testing.TB, server string) *Proxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	p := &Proxy{count: map[string]int{}, next: map[string][]Fault{}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if fault := p.take(operation, r.Header.Get("Amz-Sdk-Request")); fault != nil {
			fault(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p.URL = front.URL
	return p
}

// take counts a request and returns its fault.
func (p *Proxy) take(operation, attempt string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(attempt, "attempt=1;") {
		p.count[operation]++
	} else {
		p.count[Repeated]++
	}
	queue := p.next[operation]
	if len(queue) == 0 {
		return nil
	}
	p.next[operation] = queue[1:]
	return queue[0]
}

// Next sets the faults of the next requests for an operation, such as PutItem, in order. Later
// requests are forwarded.
func (p *Proxy) Next(operation string, faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next[operation] = faults
}

// Requests returns the number of requests for each operation since the last call, and of the Repeated ones of all operations.
func (p *Proxy) Requests() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer clear(p.count)
	return maps.Clone(p.count)
}

// Fault handles one request; server executes it.
type Fault func(w http.ResponseWriter, r *http.Request, server http.Handler)

// Lost executes the request and loses the answer.
var Lost = LostThen(func() {})

// LostThen is Lost, and calls happens before the client tries again.
func LostThen(happens func()) Fault {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		server.ServeHTTP(httptest.NewRecorder(), r)
		happens()
		panic(http.ErrAbortHandler) // closes the connection
	}
}

// Passed forwards the request without a fault.
func Passed(w http.ResponseWriter, r *http.Request, server http.Handler) { server.ServeHTTP(w, r) }

// Answered does not execute the request, and answers with an error of DynamoDB: a code, such as
// ThrottlingException, and more of the body as JSON, such as "message": "no".
func Answered(status int, code, more string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { answer(w, status, code, more) }
}

// DoneAnd executes the request, and answers with an error all the same.
func DoneAnd(status int, code, more string) Fault {
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		server.ServeHTTP(httptest.NewRecorder(), r)
		answer(w, status, code, more)
	}
}

func answer(w http.ResponseWriter, status int, code, more string) {
	body := fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#%s",%s}`, code, more)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE([]byte(body))))
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// Throttled refuses the request because of too many requests.
var Throttled = Answered(http.StatusBadRequest, "ThrottlingException", `"message":"Rate exceeded"`)

// Times returns the same fault n times.
func Times(n int, fault Fault) []Fault {
	return slices.Repeat([]Fault{fault}, n)
}
