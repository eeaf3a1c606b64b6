package vault

import (
	"crypto/tls"
	"fmt"

	"github.com/hashicorp/go-rootcerts"

	"github.com/terrapulse/terrapulse/internal/config"
)

// clientTLS returns the TLS configuration if Vault's address is an https URL.
func clientTLS(cfg config.ClientTLS) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.ServerName, InsecureSkipVerify: !cfg.Verify}
	if err := rootcerts.ConfigureTLS(t, &rootcerts.Config{CAFile: cfg.CACert, CAPath: cfg.CAPath}); err != nil {
		return nil, fmt.Errorf("use vault.tls (ca_cert %q, ca_path %q): %w", cfg.CACert, cfg.CAPath, err)
	}
	if cfg.Cert == "" {
		return t, nil
	}
	key := cfg.Key
	if key == "" {
		key = cfg.Cert // one file may contain both
	}
	pair, err := tls.LoadX509KeyPair(cfg.Cert, key)
	if err != nil {
		return nil, fmt.Errorf("use vault.tls (cert %q, key %q): %w", cfg.Cert, key, err)
	}
	t.Certificates = []tls.Certificate{pair}
	return t, nil
}
