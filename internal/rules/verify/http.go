package verify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
)

const (
	// maxBody is how much of an answer is read, in bytes.
	maxBody = 1 << 20
	// maxRedirects is how many redirects on the same host are followed.
	maxRedirects = 5
)

// client returns a client that makes a new connection for each request: what answered before may be
// gone. Its proxy is that of the environment.
func (h *HTTP) client(dir string) (*http.Client, error) {
	o := clienttls.Options{ServerName: h.ServerName}
	if h.CACert != "" {
		o.CACert = filepath.Join(dir, h.CACert)
	}
	tlsConfig, err := clienttls.Config(o)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, DisableKeepAlives: true,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}, MaxResponseHeaderBytes: maxBody}
	return &http.Client{Transport: t, CheckRedirect: sameHost}, nil
}

// sameHost follows a redirect only to the same scheme, host and port: another host says nothing about
// this one.
func sameHost(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects || req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// header returns the headers, with the variables of an environment that they name.
func (h *HTTP) header(env []string) (http.Header, error) {
	values := map[string]string{}
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	header := http.Header{"User-Agent": {"terrapulse"}}
	for name, value := range h.Headers {
		missing := ""
		value = envCall.ReplaceAllStringFunc(value, func(call string) string {
			variable := envCall.FindStringSubmatch(call)[1]
			found, ok := values[variable]
			if !ok {
				missing = variable
			}
			return found
		})
		if missing != "" {
			return nil, fmt.Errorf("the header %s needs the environment variable %s, which is not set where the run was carried out", name, missing)
		}
		header.Set(name, value)
	}
	return header, nil
}

// request makes one attempt.
func (h *HTTP) request(ctx context.Context, client *http.Client, header http.Header) error {
	what := h.Method + " " + shownURL(h.URL)
	req, err := http.NewRequestWithContext(ctx, h.Method, h.URL, nil)
	if err != nil {
		return fmt.Errorf("%s: no request can be made of the url", what)
	}
	req.Header = header.Clone()
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := client.Do(req)
	if err != nil {
		if inner := new(url.Error); errors.As(err, &inner) {
			err = inner.Err // the URL may have a secret
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close()
	if !h.expects(resp.StatusCode) {
		text := fmt.Sprintf("%s answered %d %s", what, resp.StatusCode, http.StatusText(resp.StatusCode))
		if to := resp.Header.Get("Location"); to != "" && resp.StatusCode/100 == 3 {
			text += ", a redirect to another host, which is not followed"
		}
		return errors.New(text)
	}
	if h.Body == "" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return fmt.Errorf("%s answered %d, and its body cannot be read: %w", what, resp.StatusCode, err)
	}
	if matched, err := regexp.Match(h.Body, body); err != nil || !matched {
		return fmt.Errorf("%s answered %d, and its body does not match %q", what, resp.StatusCode, h.Body)
	}
	return nil
}

// expects reports whether an answer may have the status.
func (h *HTTP) expects(status int) bool {
	for _, text := range h.Status {
		if first, last, ok := codes(text); ok && first <= status && status <= last {
			return true
		}
	}
	return false
}
