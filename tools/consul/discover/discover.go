// Package discover stands in for go-discover when Consul is built for tests
// and the demo. Without the clients of a dozen clouds, which find servers to
// join there, Consul compiles much faster.
package discover

import (
	"errors"
	"log"
)

// Provider would find addresses in a cloud.
type Provider any

// Providers are the known providers: none.
var Providers = map[string]Provider{}

// Discover finds no addresses.
type Discover struct{}

// Option has no effect.
type Option struct{}

// New returns a Discover.
func New(...Option) (*Discover, error) { return &Discover{}, nil }

// WithUserAgent has no effect.
func WithUserAgent(string) Option { return Option{} }

// WithProviders has no effect.
func WithProviders(map[string]Provider) Option { return Option{} }

// Addrs returns an error: there is no provider.
func (*Discover) Addrs(string, *log.Logger) ([]string, error) {
	return nil, errors.New("this build of Consul does not discover servers in clouds: name their addresses")
}

// Names returns the names of the providers: none.
func (*Discover) Names() []string { return nil }
