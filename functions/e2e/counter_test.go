//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// counter is a proxy that counts the requests that pass, and can lose answers.
type counter struct {
	URL string

	mu       sync.Mutex
	requests map[string]int
	lose     map[string]int // answers still to be lost, by operation
	refuse   map[string]int // requests still to be throttled

	reads, writes float64 // DynamoDB's units, by the size of what is sent
}

func count(t testing.TB, target string) *counter {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	c := &counter{requests: map[string]int{}, lose: map[string]int{}, refuse: map[string]int{}}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		Transport:      &http.Transport{MaxIdleConnsPerHost: 100},
		ModifyResponse: c.consumed,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation := r.Method + " " + r.URL.Path
		if target := r.Header.Get("X-Amz-Target"); target != "" {
			_, operation, _ = strings.Cut(target, ".")
		}
		c.mu.Lock()
		c.requests[operation]++
		switch kilobytes := math.Ceil(float64(r.ContentLength) / 1024); operation {
		case "GetItem":
			c.reads++
		case "BatchGetItem":
			c.reads += keysOf(r)
		case "Query":
			counted(r)
		case "PutItem":
			c.writes += kilobytes
		case "TransactWriteItems":
			c.writes += 2 * max(kilobytes, 2)
		}
		lose, refuse := c.lose[operation] > 0, c.refuse[operation] > 0
		if refuse {
			c.refuse[operation]--
		} else if lose {
			c.lose[operation]--
		}
		c.mu.Unlock()
		switch {
		case refuse:
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Rate exceeded"}`)
		case lose:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// counted has DynamoDB say what a request takes.
func counted(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // an error comes again where the rest is read
	body = bytes.Replace(body, []byte("{"), []byte(`{"ReturnConsumedCapacity":"TOTAL",`), 1)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// keysOf is how many records a BatchGetItem reads, each of at most 4 KB.
func keysOf(r *http.Request) float64 {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return float64(bytes.Count(body, []byte(`"sk":`)))
}

// consumed counts what DynamoDB says.
func (c *counter) consumed(r *http.Response) error {
	if !strings.HasSuffix(r.Request.Header.Get("X-Amz-Target"), ".Query") {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	var said struct {
		ConsumedCapacity struct{ CapacityUnits float64 }
	}
	if err == nil {
		err = json.Unmarshal(body, &said)
	}
	c.mu.Lock()
	c.reads += said.ConsumedCapacity.CapacityUnits
	c.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err
}

// reset forgets what passed, and take returns it.
func (c *counter) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = map[string]int{}
}

func (c *counter) passed() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.requests)
}

// loses has the answers of the next n requests of an operation be lost, after
// they have taken effect.
func (c *counter) loses(operation string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose[operation] = n
}

// throttles has the next n requests of an operation be refused.
func (c *counter) throttles(operation string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse[operation] = n
}
