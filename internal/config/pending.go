package config

// Pending names what is configured and checked but has no effect yet, each in a
// short phrase. The environment alone does not count.
func (c *Config) Pending() []string { return c.pending }

func pending(raw *rawConfig, cfg *Config) []string {
	var names []string
	add := func(name string, configured bool) {
		if configured {
			names = append(names, name)
		}
	}
	add("syslog", raw.Syslog.set && cfg.Syslog.Enabled)
	add("tls", raw.TLS.set && cfg.TLS.Enabled)
	add("vault", raw.Vault.set && cfg.Vault.Enabled)
	add("consul.service_registration", raw.Consul.ServiceRegistration.set && cfg.Consul.ServiceRegistration.Enabled)
	for _, p := range cfg.Providers {
		add("dynamic values in terraform_provider "+p.ID(), p.dynamic)
	}
	return names
}
