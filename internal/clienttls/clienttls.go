// Package clienttls sets up TLS for clients of Vault and of the HTTP API.
package clienttls

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

// Options are the files of certificates and what is checked with them.
type Options struct {
	// CACert is a file and CAPath a folder of authorities. CACert is used if both
	// are set, the system's authorities if neither is.
	CACert, CAPath string
	// Cert and Key are the files of the client's certificate. If Key is "", Cert
	// holds both.
	Cert, Key  string
	ServerName string // that the server's certificate must have; "" is the host
	SkipVerify bool   // do not check the server's certificate
}

// Config reads the files.
func Config(o Options) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName, InsecureSkipVerify: o.SkipVerify}
	var err error
	if o.CACert != "" || o.CAPath != "" {
		if cfg.RootCAs, err = authorities(o.CACert, o.CAPath); err != nil {
			return nil, err
		}
	}
	if o.Cert != "" || o.Key != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, cmp.Or(o.Key, o.Cert))
		if err != nil {
			return nil, fmt.Errorf("read the client certificate %q with its key: %w", o.Cert, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// authorities reads a file, or all files of a folder. In a folder other files are
// ignored if one holds a certificate.
func authorities(file, folder string) (*x509.CertPool, error) {
	files := []string{file}
	if file == "" {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("read the folder of certificate authorities: %w", err)
		}
		files = nil
		for _, e := range entries {
			if !e.IsDir() {
				files = append(files, filepath.Join(folder, e.Name()))
			}
		}
	}
	pool, found := x509.NewCertPool(), false
	for _, file := range files {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		found = pool.AppendCertsFromPEM(pem) || found
	}
	if !found {
		return nil, fmt.Errorf("%s holds no certificate in PEM format", cmp.Or(file, folder))
	}
	return pool, nil
}
