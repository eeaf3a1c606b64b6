// Package apiclient speaks to the HTTP API of a running instance: on this
// machine, on another one, or behind the URL of a Lambda function, where every
// request is signed.
package apiclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// maxAnswer is how much of an answer is read, in bytes. The longest ones hold
// Terraform's plans, which come near 10 MB where thousands of resources change.
const maxAnswer = 256 << 20

// maxRedirects is how often a request is led elsewhere, as net/http has it.
const maxRedirects = 10

// Options say where the API is and how to speak to it.
type Options struct {
	// Address is a URL such as https://sync.example.com:8558, which may have a
	// path, or HOST:PORT, which is spoken to in plain HTTP. The API of a
	// deployment in AWS is known by its host: ID.lambda-url.REGION.on.aws.
	Address string

	// CACert and CAPath are files, or folders of files, of the authorities
	// that the server's certificate is checked with; CACert counts if both are
	// set, the system's authorities if none is.
	CACert, CAPath string
	// ClientCert and ClientKey are the files of the certificate that is shown
	// to the server, both or none.
	ClientCert, ClientKey string
	// Token is sent as a bearer token, if it is set: to the address alone, and not
	// to a function URL, where requests are signed.
	Token string
	// SkipVerify has the server's certificate go unchecked.
	SkipVerify bool
}

// Client speaks to one API. It is safe for use by several goroutines.
type Client struct {
	base  *url.URL
	http  *http.Client
	token string
}

// New returns a client. It reads the files of certificates, and connects to
// nothing.
func New(o Options) (*Client, error) {
	base, err := parseAddress(o.Address)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = tlsConfig(o); err != nil {
		return nil, err
	}
	client := &Client{base: base, token: o.Token, http: &http.Client{Transport: transport, CheckRedirect: follow}}
	if region, ok := functionURL(base); ok {
		client.http.Transport, client.token = &signer{region: region, next: transport}, ""
	}
	return client, nil
}

// follow lets a redirection be followed that keeps the method. Of any other,
// net/http makes a GET: its answer would look as if what was asked for were done.
func follow(next *http.Request, via []*http.Request) error {
	switch {
	case next.Method != via[0].Method:
		return fmt.Errorf("the server redirects to %s, and nothing was done: give the address of that one", next.URL.Redacted())
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
		return nil, fmt.Errorf("the address of the API is no URL: %w; %s", err, hint)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the address of the API is %q: only http and https are spoken; %s", address, hint)
	case u.Host == "":
		return nil, fmt.Errorf("the address of the API is %q, which names no host; %s", address, hint)
	}
	return u, nil
}

func tlsConfig(o Options) (*tls.Config, error) {
	cfg := &tls.Config{InsecureSkipVerify: o.SkipVerify}
	if o.ClientCert != "" || o.ClientKey != "" {
		if o.ClientCert == "" || o.ClientKey == "" {
			return nil, errors.New("a client certificate takes two files: the certificate and its key")
		}
		pair, err := tls.LoadX509KeyPair(o.ClientCert, o.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	var files []string
	switch {
	case o.CACert != "":
		files = []string{o.CACert}
	case o.CAPath != "":
		entries, err := os.ReadDir(o.CAPath)
		if err != nil {
			return nil, fmt.Errorf("read the folder of certificate authorities: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, filepath.Join(o.CAPath, e.Name()))
			}
		}
	default:
		return cfg, nil
	}
	cfg.RootCAs = x509.NewCertPool()
	found := false
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		found = cfg.RootCAs.AppendCertsFromPEM(pem) || found
	}
	if !found {
		return nil, fmt.Errorf("no certificate in PEM form is in %s", o.CACert+o.CAPath)
	}
	return cfg, nil
}

// call sends a request and decodes the answer into out, if that is not nil. The
// error is *Error if the server refused.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) (http.Header, error) {
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
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token) // net/http keeps it from other hosts
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, explained(err, u)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", u.Redacted(), err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, refusal(method, resp.StatusCode, data, u)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			return nil, fmt.Errorf("the answer of %s is not what the API would say (%w): is this its address?", u.Redacted(), err)
		}
	}
	return resp.Header, nil
}
