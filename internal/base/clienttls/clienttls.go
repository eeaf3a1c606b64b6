// Package clienttls sets up TLS for clients of Vault and of the HTTP API, and reads
// the files of authorities.
package clienttls

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
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
	if o.CACert != "" || o.CAPath != "" {
		files, err := Authorities(o.CACert, o.CAPath)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authorities: %w", err)
		}
		if cfg.RootCAs, err = Pool(files); err != nil {
			return nil, fmt.Errorf("%w in %s", err, cmp.Or(o.CACert, o.CAPath))
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

// Authorities reads a file or, if file is "", all files of a folder.
func Authorities(file, folder string) ([][]byte, error) {
	names := []string{file}
	if file == "" {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		names = nil
		for _, e := range entries {
			name := filepath.Join(folder, e.Name())
			if info, err := os.Stat(name); err != nil || info.Mode().IsRegular() {
				names = append(names, name)
			}
		}
	}
	var files [][]byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, text)
	}
	return files, nil
}

// Pool returns the certificates in the files. Other files are ignored if one
// holds a certificate.
func Pool(files [][]byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), false
	for _, text := range files {
		found = pool.AppendCertsFromPEM(text) || found
	}
	if !found {
		return nil, errors.New("no certificate in PEM form")
	}
	return pool, nil
}
