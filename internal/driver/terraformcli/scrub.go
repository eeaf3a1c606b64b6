package terraformcli

import (
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/redact"
)

// newScrubber returns what makes unreadable the secrets that Terraform gets.
func newScrubber(o Options) *redact.Scrubber {
	secrets := slices.Concat(o.Secrets, credentials(o.Backend.Body), []string{o.Consul.Token})
	for name, value := range o.Env {
		secrets = append(secrets, redact.Argument(name, value)...)
	}
	for name, value := range o.Credentials {
		secrets = append(secrets, redact.Environment([]string{name + "=" + value})...)
	}
	if o.Consul.Auth.Enabled {
		secrets = append(secrets, o.Consul.Auth.Password)
	}
	return redact.New(o.VarJSON, secrets...)
}
