// Package providercache serves the public registries of providers to Terraform on this machine, and
// keeps the packages in a bucket, so that containers download them from there.
//
// Versions, checksums, signatures and keys always come from the registry, and Terraform verifies
// them as usual. Only the archive of a package comes from the bucket, by the SHA-256 that the
// registry has named. So a bucket with wrong content costs time, and nothing else.
package providercache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

// Hosts are the registries of Terraform and OpenTofu.
var Hosts = []string{"registry.terraform.io", "registry.opentofu.org"}

const (
	// fresh is how long a list of versions serves further tasks.
	fresh = time.Minute
	// maxAnswer limits an answer of a registry. The list of the versions of a provider has up to 2 MB.
	maxAnswer = 32 << 20
	// beginFor is the time limit until a server begins to answer, answerFor the limit of an answer of a
	// registry: Terraform itself waits for 10 seconds.
	beginFor  = time.Minute
	answerFor = 8 * time.Second
)

// Server serves the registries on loopback.
type Server struct {
	client   *http.Client
	packages *packages
	log      *slog.Logger
	listener net.Listener
	http     *http.Server

	mu       sync.Mutex
	services map[string]map[string]*url.URL // of a host, by name, such as providers.v1
	versions map[string]answer              // by URL
}

// answer is what a registry answered.
type answer struct {
	header http.Header
	body   []byte
	at     time.Time
}

// Start starts a server. Its packages are below location in the bucket, such as
// s3://bucket/PREFIX/providers. Call Close when no Terraform uses it any more.
func Start(bucket *s3.Client, location s3url.URL, log *slog.Logger) (*Server, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = beginFor
	return start(bucket, location, transport, log)
}

func start(bucket *s3.Client, location s3url.URL, transport http.RoundTripper, log *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the registries of providers on loopback: %w", err)
	}
	s := &Server{client: &http.Client{Transport: transport}, log: log, listener: listener,
		services: map[string]map[string]*url.URL{}, versions: map[string]answer{}}
	s.packages = newPackages(bucket, location, s.client, log)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /archive/{sum}/{name}", s.archive)
	mux.HandleFunc("GET /registry/{host}/providers.v1/{namespace}/{type}/versions", s.listVersions)
	mux.HandleFunc("GET /registry/{host}/providers.v1/{namespace}/{type}/{version}/download/{os}/{arch}", s.describe)
	mux.HandleFunc("/registry/{host}/{service}/{rest...}", s.pass)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(listener) }() // until Close
	return s, nil
}

// Close waits until packages are in the bucket, at most until ctx ends, and ends the server.
func (s *Server) Close(ctx context.Context) {
	s.packages.close(ctx)
	_ = s.http.Close()
}

// Registries returns the services of each host for Terraform: the URLs of this server by name.
func (s *Server) Registries() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, host := range Hosts {
		all[host] = map[string]string{}
		for _, service := range []string{"providers.v1", "modules.v1"} {
			all[host][service] = fmt.Sprintf("http://%s/registry/%s/%s/", s.listener.Addr(), host, service)
		}
	}
	return all
}

// service returns the URL of a service, as the registry's host names it.
func (s *Server) service(ctx context.Context, host, name string) (*url.URL, error) {
	s.mu.Lock()
	found, known := s.services[host]
	s.mu.Unlock()
	if !known {
		at := "https://" + host + "/.well-known/terraform.json"
		got, final, err := s.get(ctx, at, nil)
		if err != nil {
			return nil, err
		}
		var named map[string]any
		if err := json.Unmarshal(got.body, &named); err != nil {
			return nil, fmt.Errorf("read %s: %w", at, err)
		}
		found = map[string]*url.URL{}
		for name, value := range named {
			text, _ := value.(string)
			if u, err := final.Parse(text); err == nil && text != "" {
				found[name] = u
			}
		}
		s.mu.Lock()
		s.services[host] = found
		s.mu.Unlock()
	}
	if found[name] == nil {
		return nil, &statusError{http.StatusNotFound, host + ": " + name}
	}
	return found[name], nil
}

// statusError is an answer of a registry other than 200.
type statusError struct {
	code int
	url  string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answers %d %s", e.url, e.code, http.StatusText(e.code))
}

// get reads a URL, and returns also the URL after redirects.
func (s *Server) get(ctx context.Context, at string, header http.Header) (answer, *url.URL, error) {
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return answer{}, nil, err
	}
	for _, name := range []string{"Authorization", "User-Agent", "X-Terraform-Version"} {
		if v := header.Get(name); v != "" {
			request.Header.Set(name, v)
		}
	}
	response, err := s.client.Do(request)
	if err != nil {
		return answer{}, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer{}, nil, &statusError{response.StatusCode, at}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{}, nil, fmt.Errorf("read %s: %w", at, err)
	}
	return answer{response.Header, body, time.Now()}, response.Request.URL, nil
}

// upstream returns the URL of the registry for a request, also with an error: then it is where the
// registries have been so far.
func (s *Server) upstream(r *http.Request) (*url.URL, error) {
	host, service := r.PathValue("host"), cmp.Or(r.PathValue("service"), "providers.v1")
	if !slices.Contains(Hosts, host) {
		return &url.URL{}, &statusError{http.StatusNotFound, host}
	}
	base, err := s.service(r.Context(), host, service)
	if err != nil {
		base = &url.URL{Scheme: "https", Host: host, Path: "/v1/" + strings.TrimSuffix(service, ".v1") + "/"}
	}
	u := base.JoinPath(strings.TrimPrefix(r.URL.Path, "/registry/"+host+"/"+service+"/"))
	u.RawQuery = r.URL.RawQuery
	return u, err
}

// fail passes the answer of a registry on. If there is none, Terraform tries it itself at direct, and
// reports what is wrong.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error, direct string) {
	if status, ok := errors.AsType[*statusError](err); ok {
		http.Error(w, err.Error(), status.code)
		return
	}
	if r.Context().Err() == nil {
		s.log.Warn("a registry cannot be used from here, Terraform tries it itself", "url", direct, "error", err)
	}
	http.Redirect(w, r, direct, http.StatusTemporaryRedirect)
}

// listVersions answers with the versions of a provider. Many tasks begin in the same minute, and use
// the same providers.
func (s *Server) listVersions(w http.ResponseWriter, r *http.Request) {
	u, err := s.upstream(r)
	if err != nil {
		s.fail(w, r, err, u.String())
		return
	}
	s.mu.Lock()
	got, known := s.versions[u.String()]
	s.mu.Unlock()
	if login := r.Header.Get("Authorization") != ""; !known || login || time.Since(got.at) >= fresh {
		if got, _, err = s.get(r.Context(), u.String(), r.Header); err != nil {
			s.fail(w, r, err, u.String())
			return
		}
		if !login {
			s.mu.Lock()
			s.versions[u.String()] = got
			s.mu.Unlock()
		}
	}
	w.Header().Set("Content-Type", got.header.Get("Content-Type"))
	_, _ = w.Write(got.body)
}

var checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// describe answers with the description of a package, in which the archive is at this server.
func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	u, err := s.upstream(r)
	if err != nil {
		s.fail(w, r, err, u.String())
		return
	}
	got, final, err := s.get(r.Context(), u.String(), r.Header)
	if err != nil {
		s.fail(w, r, err, u.String())
		return
	}
	var fields map[string]any
	if err := json.Unmarshal(got.body, &fields); err != nil {
		s.fail(w, r, fmt.Errorf("read %s: %w", u, err), u.String())
		return
	}
	text := func(name string) string {
		value, _ := fields[name].(string)
		return value
	}
	for _, name := range []string{"download_url", "shasums_url", "shasums_signature_url"} {
		if at, err := final.Parse(text(name)); err == nil && text(name) != "" {
			fields[name] = at.String()
		}
	}
	// Terraform reports what is wrong with other descriptions.
	if sum, from := text("shasum"), text("download_url"); checksum.MatchString(sum) && from != "" {
		s.packages.learn(sum, from)
		fields["download_url"] = fmt.Sprintf("http://%s/archive/%s/%s", s.listener.Addr(), sum, url.PathEscape(text("filename")))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(fields) // Terraform reports a broken connection
}

// archive answers with the archive of a package.
func (s *Server) archive(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead { // from Terraform's downloader, before it continues a file
		return
	}
	sum := r.PathValue("sum")
	origin := s.packages.whence(sum)
	if origin == "" {
		http.NotFound(w, r)
		return
	}
	file, release, err := s.packages.get(r.Context(), sum, origin)
	if err != nil {
		s.fail(w, r, err, origin)
		return
	}
	defer release()
	http.ServeContent(w, r, "", time.Time{}, file)
}

// pass passes a request for something else to the registry, such as one for a module.
func (s *Server) pass(w http.ResponseWriter, r *http.Request) {
	u, err := s.upstream(r)
	if err != nil {
		s.fail(w, r, err, u.String())
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: s.client.Transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = u, u.Host
		},
		ModifyResponse: func(response *http.Response) error {
			// The place of a module may be relative to the registry.
			if place := response.Header.Get("X-Terraform-Get"); strings.HasPrefix(place, "/") || strings.HasPrefix(place, ".") {
				if at, err := u.Parse(place); err == nil {
					response.Header.Set("X-Terraform-Get", at.String())
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { s.fail(w, r, err, u.String()) },
	}
	proxy.ServeHTTP(w, r)
}
