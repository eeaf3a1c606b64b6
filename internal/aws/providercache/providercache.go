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

	"github.com/terrapulse/terrapulse/internal/base/registry"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

// Hosts are the registries of Terraform and OpenTofu.
var Hosts = []string{"registry.terraform.io", "registry.opentofu.org"}

const (
	// fresh is how long a list of versions serves further tasks.
	fresh = time.Minute
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
	versions map[string]versions            // by URL
}

// versions is a list of versions.
type versions struct {
	registry.Answer
	at time.Time
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
		services: map[string]map[string]*url.URL{}, versions: map[string]versions{}}
	s.packages = newPackages(bucket, location, s.client, log)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /archive/{sum}/{name}", s.archive)
	mux.HandleFunc("GET /registry/{host}/providers.v1/{namespace}/{type}/versions", s.upstream(s.listVersions))
	mux.HandleFunc("GET /registry/{host}/providers.v1/{namespace}/{type}/{version}/download/{os}/{arch}", s.upstream(s.describe))
	mux.HandleFunc("/registry/{host}/{service}/{rest...}", s.upstream(s.pass))
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
		ctx, cancel := context.WithTimeout(ctx, answerFor)
		defer cancel()
		var err error
		if found, err = registry.Services(ctx, s.client, host); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.services[host] = found
		s.mu.Unlock()
	}
	if found[name] == nil {
		return nil, &registry.StatusError{Code: http.StatusNotFound, URL: host + ": " + name}
	}
	return found[name], nil
}

// get reads a URL of a registry with the credentials of Terraform's request.
func (s *Server) get(r *http.Request, at string) (registry.Answer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), answerFor)
	defer cancel()
	header := http.Header{}
	for _, name := range []string{"Authorization", "User-Agent", "X-Terraform-Version"} {
		if v := r.Header.Get(name); v != "" {
			header.Set(name, v)
		}
	}
	return registry.Get(ctx, s.client, at, header)
}

// upstream answers a request with the help of the registry, of which answer gets the URL.
func (s *Server) upstream(answer func(w http.ResponseWriter, r *http.Request, u *url.URL) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, err := s.locate(r)
		if err == nil {
			err = answer(w, r, u)
		}
		if err != nil {
			s.fail(w, r, err, u.String())
		}
	}
}

// locate returns the URL of the registry for a request, also with an error: then it is where the
// registries have been so far.
func (s *Server) locate(r *http.Request) (*url.URL, error) {
	host, service := r.PathValue("host"), cmp.Or(r.PathValue("service"), "providers.v1")
	if !slices.Contains(Hosts, host) {
		return &url.URL{}, &registry.StatusError{Code: http.StatusNotFound, URL: host}
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
	if status, ok := errors.AsType[*registry.StatusError](err); ok {
		http.Error(w, err.Error(), status.Code)
		return
	}
	if r.Context().Err() == nil {
		s.log.Warn("a registry cannot be used from here, Terraform tries it itself", "url", direct, "error", err)
	}
	http.Redirect(w, r, direct, http.StatusTemporaryRedirect)
}

// listVersions answers with the versions of a provider. Many tasks begin in the same minute, and use
// the same providers.
func (s *Server) listVersions(w http.ResponseWriter, r *http.Request, u *url.URL) (err error) {
	s.mu.Lock()
	got, known := s.versions[u.String()]
	s.mu.Unlock()
	if login := r.Header.Get("Authorization") != ""; !known || login || time.Since(got.at) >= fresh {
		if got.Answer, err = s.get(r, u.String()); err != nil {
			return err
		}
		got.at = time.Now()
		if !login {
			s.mu.Lock()
			s.versions[u.String()] = got
			s.mu.Unlock()
		}
	}
	w.Header().Set("Content-Type", got.Header.Get("Content-Type"))
	_, _ = w.Write(got.Body)
	return nil
}

var checksum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// describe answers with the description of a package, in which the archive is at this server.
func (s *Server) describe(w http.ResponseWriter, r *http.Request, u *url.URL) error {
	got, err := s.get(r, u.String())
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(got.Body, &fields); err != nil {
		return fmt.Errorf("read %s: %w", u, err)
	}
	text := func(name string) string {
		value, _ := fields[name].(string)
		return value
	}
	for _, name := range []string{"download_url", "shasums_url", "shasums_signature_url"} {
		if at, err := got.URL.Parse(text(name)); err == nil && text(name) != "" {
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
	return nil
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
func (s *Server) pass(w http.ResponseWriter, r *http.Request, u *url.URL) error {
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
	return nil
}
