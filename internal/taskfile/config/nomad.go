package config

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// nomad returns the nomad block; nil if the files do not have it.
func (l *loader) nomad(n *Nomad, cfg *Config) *Nomad {
	at := l.place(n)
	if !at.Set {
		return nil
	}
	if cfg.HighAvailability == nil {
		l.Fail(*at, "nomad needs high_availability: a job on another machine cannot use a store that is a file on this one",
			"add a high_availability block, with which the store is in Consul's KV")
	}
	if kind := cfg.Driver().Kind(); kind.Remote {
		l.Fail(*at, fmt.Sprintf("nomad has no use beside driver %q, whose runs need no process", kind.Name), "remove one of them")
	}
	if n.Job == "" {
		l.Missing(at.Key("job"), "job is required", "the id of a parameterized job, as in examples/nomad/runner.nomad.hcl")
	}
	if most := rawOf(l, &n.MaxLaunches); n.MaxLaunches < 1 {
		l.Fail(most.Origin, "max_launches "+block.Quoted(most.Text)+" is too small", "a number from 1 on")
	}
	n.TLS.Key = cmp.Or(n.TLS.Key, n.TLS.Cert) // one file may hold both
	l.skipVerify("NOMAD_SKIP_VERIFY", &n.TLS)
	n.Address = l.nomadURL(n)
	return n
}

// nomadURL returns the address of Nomad with its scheme.
func (l *loader) nomadURL(n *Nomad) string {
	address := strings.TrimSuffix(n.Address, "/")
	if !strings.Contains(address, "://") {
		address = map[bool]string{false: "http://", true: "https://"}[n.TLS.Enabled] + address
	}
	if u, err := url.Parse(address); err == nil && (u.Scheme == "unix" && u.Path != "" || serverURL(address, false)) {
		return address
	}
	at := rawOf(l, &n.Address).Origin
	if !at.Set {
		at.Path = "environment variable NOMAD_ADDR"
	}
	l.Fail(at, "not the address of a Nomad agent: "+block.Quoted(n.Address), `such as "https://nomad.example.com:4646", or "unix:///secrets/api.sock"`)
	return address
}
