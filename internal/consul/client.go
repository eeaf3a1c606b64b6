package consul

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// By default, Consul accepts 200 connections from one address. A process takes 16,
// whatever it watches: 8 to read, 8 to hold gates open.
const (
	maxConns = 16
	maxReads = 8
	maxHeld  = 8
)

// readTimeout is how long one read may take. The largest answer, thousands of
// instances from another datacenter, takes a few seconds.
const readTimeout = 30 * time.Second

// Client reads from one Consul. It is safe for concurrent use.
type Client struct {
	resolved api.Config // what consul/api makes of the configuration and the environment
	api      *api.Client
	address  string // for people
	timeout  time.Duration
	reads    chan struct{} // one element for each read under way
	paced    pacedMarks
	kept     *kept // nil if no reading is kept
	slow     slowDenials
	settle   time.Duration // how long a loss of a peer must last before a run applies it
}

// New prepares a client; it does not connect. An error names the file or the key.
func New(cfg config.Consul) (*Client, error) {
	if strings.Contains(cfg.Address, "@") && !strings.HasPrefix(cfg.Address, "unix://") {
		// The address is shown in errors, so it must hold no password.
		return nil, errors.New("consul.address holds a user name: move it and the password to consul.auth")
	}
	resolved := api.Config{
		Address:   cfg.Address,
		Token:     cfg.Token,
		Namespace: cfg.Namespace,
		Partition: cfg.Partition,
		HttpAuth:  api.DefaultConfig().HttpAuth, // CONSUL_HTTP_AUTH
	}
	if cfg.Auth.Enabled {
		resolved.HttpAuth = &api.HttpBasicAuth{Username: cfg.Auth.Username, Password: cfg.Auth.Password}
	}
	if cfg.TLS.Enabled {
		resolved.Scheme = "https"
	}
	transport, err := transport(cfg)
	if err != nil {
		return nil, fmt.Errorf("use consul.tls: %w", err)
	}
	httpClient := &http.Client{Transport: transport}
	resolved.HttpClient = httpClient

	// NewClient completes the configuration. For a Unix socket it replaces the HTTP
	// client, hence the second call.
	client, err := api.NewClient(&resolved)
	if err == nil {
		resolved.HttpClient = httpClient
		client, err = api.NewClient(&resolved)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to Consul at %s: %w", cfg.Address, err)
	}
	return &Client{
		resolved: resolved,
		api:      client,
		address:  resolved.Address,
		timeout:  readTimeout,
		reads:    make(chan struct{}, maxReads),
		settle:   settleTime,
	}, nil
}

// API returns a client of consul/api that connects as c does, for other requests
// than those of this package: it holds whole answers in memory.
func (c *Client) API() *api.Client { return c.api }

// Address is where c reaches Consul, for people.
func (c *Client) Address() string { return c.address }

// Over returns a client that sends its requests through another transport, such as to a
// Consul in memory.
func (c *Client) Over(t http.RoundTripper) *Client {
	over := Client{resolved: c.resolved, api: c.api, address: c.address, timeout: c.timeout, reads: make(chan struct{}, maxReads), settle: c.settle}
	over.resolved.HttpClient = &http.Client{Transport: t}
	return &over
}

func transport(cfg config.Consul) (*http.Transport, error) {
	t, err := cfg.Transport.HTTP(cfg.TLS)
	if err != nil {
		return nil, err
	}
	t.MaxConnsPerHost = maxConns
	t.MaxIdleConnsPerHost = cmp.Or(t.MaxIdleConnsPerHost, maxConns) // the next poll finds its connections open
	if socket, ok := strings.CutPrefix(cfg.Address, "unix://"); ok {
		dial := t.DialContext
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, "unix", socket) }
	}
	return t, nil
}

// Leader returns nil if the cluster has a leader, and ErrNoLeader if it is
// known to have none.
func (c *Client) Leader(ctx context.Context) error {
	var leader string
	r := request{Request: condition.Request{Act: "read the leader", Path: "/v1/status/leader"}}
	_, err := c.get(ctx, r, func(d *json.Decoder) error { return d.Decode(&leader) })
	if err == nil && leader == "" {
		return c.failed(r, unavailable, ErrNoLeader, "")
	}
	return err
}

// request is one request to Consul.
type request struct {
	condition.Request
	body   []byte // sent by PUT unless method is set
	method string
	inKV   bool // it is about the KV store, for errors
}

// answer is what the header of an answer says.
type answer struct {
	index    uint64 // 0 if there is none
	filtered bool   // access control has hidden something
	refused  bool   // the transaction was rolled back
	missing  bool   // the object does not exist
}

// get sends a request and decodes the answer. It waits while too many reads are
// under way.
func (c *Client) get(ctx context.Context, r request, decode func(*json.Decoder) error) (answer, error) {
	if r.SlowDenial != "" {
		return c.getReluctant(ctx, r, decode)
	}
	return c.getWithin(ctx, r, c.timeout, decode)
}

// getWithin gives up after a time.
func (c *Client) getWithin(ctx context.Context, r request, timeout time.Duration, decode func(*json.Decoder) error) (answer, error) {
	select {
	case c.reads <- struct{}{}:
		defer func() { <-c.reads }()
	case <-ctx.Done():
		return answer{}, c.transportError(ctx, r, ctx.Err())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, noAnswer(timeout))
	defer cancel()
	return c.do(ctx, r, decode)
}

// block waits until the index has moved beyond the given one, at most for the
// given time. It ignores the body.
func (c *Client) block(ctx context.Context, r request, index uint64, wait time.Duration) (answer, error) {
	// Consul adds up to a sixteenth to the wait, so that not all come at once.
	timeout := wait + wait/16 + c.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, noAnswer(timeout))
	defer cancel()
	query := url.Values{
		"index": {strconv.FormatUint(index, 10)},
		"wait":  {strconv.FormatInt(wait.Milliseconds(), 10) + "ms"},
	}
	maps.Copy(query, r.Query)
	r.Query = query
	return c.do(ctx, r, nil)
}

func (c *Client) do(ctx context.Context, r request, decode func(*json.Decoder) error) (answer, error) {
	req, err := c.httpRequest(ctx, r)
	if err != nil {
		return answer{}, err
	}
	resp, err := c.resolved.HttpClient.Do(req)
	if err != nil {
		return answer{}, c.transportError(ctx, r, err)
	}
	// A connection is used again only if the body was read to its end.
	defer resp.Body.Close()

	a := answer{
		filtered: resp.Header.Get("X-Consul-Results-Filtered-By-ACLs") == "true",
		missing:  resp.StatusCode == http.StatusNotFound,
		refused:  resp.StatusCode == http.StatusConflict && r.body != nil,
	}
	indexed := resp.Header.Get("X-Consul-Index")
	a.index, _ = strconv.ParseUint(indexed, 10, 64) // 0 if there is none
	byConsul := indexed != "" || resp.Header.Get("X-Consul-Default-Acl-Policy") != ""
	if resp.StatusCode != http.StatusOK && !a.refused && !(a.missing && r.Missing && byConsul) {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // the status says enough
		// The resource API has none of these headers, and gives this status also if
		// there is no such namespace or partition, which proves nothing.
		if !a.missing || !r.Missing || !strings.HasPrefix(string(body), "rpc error: code = NotFound desc = resource not found") {
			return answer{}, c.statusError(r, resp.StatusCode, string(body))
		}
	}
	if resp.Header.Get("X-Consul-KnownLeader") == "false" {
		return answer{}, c.failed(r, unavailable, ErrNoLeader, "")
	}
	if decode != nil && !a.missing {
		err = decodeBody(resp.Body, decode)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return answer{}, c.transportError(ctx, r, err)
	}
	return a, nil
}

// decoders are decoders that have read their answers to the end. Their buffers would otherwise be a quarter of
// what a read of many services allocates.
var decoders sync.Pool

// decoder decodes one body after the other.
type decoder struct {
	body io.Reader
	json *json.Decoder
}

func (d *decoder) Read(p []byte) (int, error) { return d.body.Read(p) }

func decodeBody(body io.Reader, decode func(*json.Decoder) error) error {
	d, ok := decoders.Get().(*decoder)
	if !ok {
		d = new(decoder)
		d.json = json.NewDecoder(d)
	}
	d.body = body
	if err := decode(d.json); err != nil {
		return err
	}
	rest, err := io.ReadAll(d.json.Buffered())
	if d.body = nil; err == nil && len(bytes.TrimSpace(rest)) == 0 {
		decoders.Put(d)
	}
	return err
}

func (c *Client) httpRequest(ctx context.Context, r request) (*http.Request, error) {
	cfg := &c.resolved
	// Consul's server redirects a path with empty or dotted elements to another
	// one, which would be the wrong answer.
	if !condition.Addressable(r.Path) {
		return nil, c.failed(r, badQuery, errors.New("a name with empty, . or .. elements cannot be addressed over HTTP"), "")
	}
	query := url.Values{}
	maps.Copy(query, r.Query)
	for _, p := range [...]struct{ key, value string }{
		{"dc", cmp.Or(r.Scope.Datacenter, cfg.Datacenter)}, {"partition", cfg.Partition}, {"ns", cmp.Or(r.Scope.Namespace, cfg.Namespace)},
		{"peer", r.Scope.Peer},
	} {
		if p.value != "" && !(p.key == "ns" && r.PartitionOnly) {
			query.Set(p.key, p.value)
		}
	}
	host := cfg.Address
	if strings.HasPrefix(host, "/") {
		host = "localhost" // a Unix socket
	}
	u := url.URL{Scheme: cfg.Scheme, Host: host, Path: cfg.PathPrefix + r.Path, RawQuery: query.Encode()}
	method := http.MethodGet
	var body io.Reader
	if r.body != nil {
		method, body = cmp.Or(r.method, http.MethodPut), bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, c.failed(r, badQuery, err, "")
	}
	if cfg.Token != "" {
		req.Header.Set("X-Consul-Token", cfg.Token)
	}
	if cfg.HttpAuth != nil {
		req.SetBasicAuth(cfg.HttpAuth.Username, cfg.HttpAuth.Password)
	}
	return req, nil
}
