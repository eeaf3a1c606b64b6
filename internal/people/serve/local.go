package serve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// errNoIdentity is why a request that changes something is refused where no identity is configured.
const errNoIdentity = "this API does not know who you are: without a token or client certificates, only requests from its own machine, to localhost, may change something. " +
	"To allow others, set api.token or tls.verify_incoming in the configuration"

// onThisMachine reports whether a request comes from this machine, under a name that no other
// machine has. A proxy on this machine sends requests of others: it adds a header, or the request
// names the host or the origin that its clients see.
func (g *guard) onThisMachine(r *http.Request) bool {
	for name := range r.Header {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", name == "X-Client-Ip", name == "True-Client-Ip",
			strings.HasPrefix(name, "X-Forwarded"), strings.HasPrefix(name, "X-Envoy-"):
			return false
		}
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(local.String()) && isLoopback(r.RemoteAddr) && isLoopback(r.Host) && g.localOrigin(r.Header.Get("Origin"))
}

// localOrigin reports whether the page that sends a request, if any, is one of this machine, or of
// the one origin that -allow-origin names.
func (g *guard) localOrigin(origin string) bool {
	if origin == "" || origin == g.origin {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && isLoopback(u.Host)
}

// isLoopback reports whether an address, with or without a port, leads to this machine only.
func isLoopback(address string) bool {
	host := normalHost(middleware.Host(address))
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
