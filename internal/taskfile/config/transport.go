package config

import (
	"net"
	"net/http"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
)

// HTTP returns an HTTP transport with these settings.
func (t Transport) HTTP(tls ClientTLS) (*http.Transport, error) {
	cfg, err := clienttls.Config(clienttls.Options{CACert: tls.CACert, CAPath: tls.CAPath, Cert: tls.Cert, Key: tls.Key,
		ServerName: tls.ServerName, SkipVerify: tls.Enabled && !tls.Verify})
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: t.DialTimeout, KeepAlive: t.DialKeepAlive}).DialContext,
		TLSClientConfig:     cfg,
		TLSHandshakeTimeout: t.TLSHandshakeTimeout,
		DisableKeepAlives:   t.DisableKeepAlives,
		IdleConnTimeout:     t.IdleConnTimeout,
		MaxIdleConns:        t.MaxIdleConns,
		MaxIdleConnsPerHost: t.MaxIdleConnsPerHost,
	}, nil
}
