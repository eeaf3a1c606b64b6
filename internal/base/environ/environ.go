// Package environ says which variables of the environment hold Terrapulse's own
// credentials: the programs that it starts do not get them.
package environ

import (
	"os"
	"slices"
	"strings"
)

// ownPrefix begins the names of Terrapulse's own variables.
const ownPrefix = "TERRAPULSE_"

// withheld are the variables with Terrapulse's own credentials, by the provider that
// needs them, if one does: Consul's token can read and write the states of all tasks. All other
// variables are passed on, as in Consul-Terraform-Sync.
var withheld = map[string]string{
	"CONSUL_HTTP_TOKEN":      "consul",
	"CONSUL_HTTP_TOKEN_FILE": "consul",
	"CONSUL_TOKEN":           "consul",
	"CONSUL_HTTP_AUTH":       "consul",
	"VAULT_TOKEN":            "vault",
	"NOMAD_TOKEN":            "nomad",

	// The headers are often the key of the system that keeps the traces.
	"OTEL_EXPORTER_OTLP_HEADERS":        "",
	"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "",
}

// Withheld reports whether a program that works with these providers does not get the
// variable.
func Withheld(name string, providers ...string) bool {
	provider, ok := withheld[name]
	return strings.HasPrefix(name, ownPrefix) || ok && !slices.Contains(providers, provider)
}

// Shared is the environment of this process without what is withheld from every
// program.
func Shared() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return Withheld(name)
	})
}
