package serve

import (
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// hosts decides which Host headers are accepted. With DNS rebinding, a web page makes its own DNS
// name resolve to an address of this machine; a browser then treats requests to it as requests to
// the page's own origin. But they still name the page's host.
type hosts struct {
	any   bool
	names map[string]bool
	certs *certificates // nil without TLS
}

func newHosts(names []string, certs *certificates) *hosts {
	h := &hosts{names: map[string]bool{"localhost": true}, certs: certs}
	for _, name := range names {
		h.any = h.any || name == config.AnyHost
		h.names[normalHost(name)] = true
	}
	return h
}

// Hosts returns the host names that a configuration allows: those of the api block, also of the
// address at which people reach the pages, the other names of this instance in it, and those of this
// machine.
func Hosts(cfg *config.Config) []string {
	names := append([]string{}, cfg.API.Hosts...)
	names = append(names, cfg.Consul.ServiceRegistration.Address)
	if check, err := url.Parse(cfg.Consul.ServiceRegistration.DefaultCheck.Address); err == nil {
		names = append(names, check.Hostname())
	}
	if pages, err := url.Parse(cfg.API.URL); err == nil {
		names = append(names, pages.Hostname())
	}
	if cfg.HighAvailability != nil {
		names = append(names, cfg.HighAvailability.Instance.Address)
	}
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		names = append(names, name, short)
	}
	return names
}

// allows reports whether a request is for this server.
func (h *hosts) allows(r *http.Request) bool {
	if h.any || r.Host == "" { // a browser always sends a host
		return true
	}
	host := r.Host
	host = normalHost(middleware.Host(host))
	if _, err := netip.ParseAddr(host); err == nil {
		return true // an IP address: the browser resolved no name
	}
	return h.names[host] || strings.HasSuffix(host, ".localhost") || h.certs != nil && h.certs.name(host)
}

// normalHost normalizes a host name for comparison.
func normalHost(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return strings.ToLower(strings.TrimSuffix(name, "."))
}
