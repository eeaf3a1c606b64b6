// Package apiclient sends requests to the HTTP API of a running instance: on this
// machine, on another one, or in AWS, where every request is signed.
package apiclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
)

// maxAnswer is how much of an answer is read, in bytes. The longest answers hold
// Terraform's plans: nearly 10 MB if thousands of resources change.
const maxAnswer = 256 << 20

// maxRedirects is how many redirections are followed, as in net/http.
const maxRedirects = 10

// Options say where the API is and how to connect to it.
type Options struct {
	// Address is a URL such as https://sync.example.com:8558, which may have a
	// path, or HOST:PORT for plain HTTP. The API of a deployment in AWS is recognized
	// by its host: ID.lambda-url.REGION.on.aws or ID.execute-api.REGION.amazonaws.com.
	Address string

	// The certificates of the client and of authorities. Both Cert and Key are
	// named, or none.
	clienttls.Options
	// Token is sent as a bearer token to the address only. Requests to AWS are
	// signed instead.
	Token string
	// Bearer, if set and if there is no Token, returns the token of each request.
	Bearer func(context.Context) (string, error)
}

// Client sends requests to one API. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	http   *http.Client
	bearer func(context.Context) (string, error) // nil if requests have no token

	overviews keptOverviews
}

// New returns a client. It reads the certificates and does not connect.
func New(o Options) (*Client, error) {
	base, err := parseAddress(o.Address)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("a client certificate takes two files: the certificate and its key")
	}
	transport.TLSClientConfig, err = clienttls.Config(o.Options)
	if err != nil {
		return nil, err
	}
	client := &Client{base: base, bearer: o.Bearer, http: &http.Client{Transport: transport, CheckRedirect: follow}}
	if o.Token != "" {
		client.bearer = func(context.Context) (string, error) { return o.Token, nil }
	}
	if f, region, ok := frontOf(base); ok {
		client.http.Transport, client.bearer = &signer{host: base.Host, service: f.service, region: region, next: transport}, nil
	}
	return client, nil
}

// Normal returns the address of an API in the form in which two that are the same are equal.
func Normal(address string) (string, error) {
	u, err := parseAddress(address)
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + strings.TrimRight(u.Path, "/"), nil
}

// Close closes connections that are not in use.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// follow follows only redirections that keep the method. For others net/http sends
// a GET, whose answer would look like success although nothing was done.
func follow(next *http.Request, via []*http.Request) error {
	switch {
	case next.Method != via[0].Method:
		return fmt.Errorf("the server redirects to %s, and nothing was done: use that address", next.URL.Redacted())
	case len(via) >= maxRedirects:
		return fmt.Errorf("the server redirected %d times: is this the address of the API?", len(via))
	}
	return nil
}

func parseAddress(address string) (*url.URL, error) {
	const hint = "write it as in http://localhost:8558"
	text := address
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the address of the API is not a valid URL: %w; %s", err, hint)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the address of the API is %q: only http and https are supported; %s", address, hint)
	case u.Host == "":
		return nil, fmt.Errorf("the address of the API is %q, which names no host; %s", address, hint)
	}
	return u, nil
}

// TokenFile reads a token from a file.
func TokenFile(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the token for the API: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// call sends a request and decodes the answer into out, if that is not nil. The
// error is *Error if the server refused the request.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) (http.Header, error) {
	return c.callWith(ctx, nil, method, path, query, in, out)
}

// callWith is call with further headers. With If-None-Match, the error is errSame if the
// answer still has this tag.
func (c *Client) callWith(ctx context.Context, header http.Header, method, path string, query url.Values, in, out any) (http.Header, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != nil {
		token, err := c.bearer(ctx)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+token) // net/http keeps it from other hosts
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, explained(err, u)
	}
	defer resp.Body.Close()
	if header.Get("If-None-Match") != "" && resp.StatusCode == http.StatusNotModified {
		return resp.Header, errSame
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", u.Redacted(), err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, refusal(method, resp.StatusCode, resp.Header, data, u)
	}
	if text, ok := out.(*string); ok {
		*text = string(data)
	} else if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			return nil, fmt.Errorf("the answer of %s is not an answer of the API (%w): is this its address?", u.Redacted(), err)
		}
	}
	return resp.Header, nil
}

var errSame = errors.New("the answer is the same")

// get returns the answer of a request that only reads.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (answer T, err error) {
	_, err = c.call(ctx, http.MethodGet, path, query, nil, &answer)
	return answer, err
}
