package serve

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// certificates are the server's certificate and the CAs for clients. The files are read at each
// handshake, which costs far less than the handshake itself: a renewed certificate is used from the
// next connection on.
type certificates struct {
	files config.APITLS
	log   *slog.Logger

	mu       sync.Mutex
	current  *tls.Config
	digest   [sha256.Size]byte          // of the files of current
	wrong    string                     // the last reported error of the files
	read     time.Time                  // when the files were read last
	accepted map[[sha256.Size]byte]bool // client certificates that the CAs in current have issued, by their digests
}

const (
	readEvery   = time.Second // how often the files are read for requests over connections that are open
	maxAccepted = 4096        // client certificates
)

// newCertificates reads the files for the first time.
func newCertificates(files config.APITLS, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log}
	if err := c.refresh(); err != nil {
		return nil, err
	}
	return c, nil
}

// forClient returns the configuration for a new connection. If the files are invalid, the previous
// ones are used: while one file is replaced, it may not match the other.
func (c *certificates) forClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update()
	return c.current, nil
}

// update reads the files again. The caller holds mu.
func (c *certificates) update() {
	c.read = time.Now()
	err := c.refresh()
	switch {
	case err == nil:
		c.wrong = ""
	case err.Error() != c.wrong:
		c.wrong = err.Error()
		c.log.Error("the new certificates of the HTTP API are invalid: the previous ones stay in use", "error", err)
	}
}

// accepts reports whether the client certificate of an open connection, if there is one, is still valid, and its
// CA still one of those in the files: a connection can last for longer than either.
func (c *certificates) accepts(connection *tls.ConnectionState, now time.Time) bool {
	if connection == nil || len(connection.PeerCertificates) == 0 {
		return true
	}
	leaf := connection.PeerCertificates[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read).Abs() >= readEvery {
		c.update()
	}
	if now.After(leaf.NotAfter) {
		return false
	}
	digest := sha256.Sum256(leaf.Raw)
	if !c.accepted[digest] {
		others := x509.NewCertPool()
		for _, other := range connection.PeerCertificates[1:] {
			others.AddCert(other)
		}
		_, err := leaf.Verify(x509.VerifyOptions{Roots: c.current.ClientCAs, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			return false
		}
		if len(c.accepted) >= maxAccepted {
			clear(c.accepted)
		}
		c.accepted[digest] = true
	}
	return true
}

// name reports whether the server's certificate is for a host.
func (c *certificates) name(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.Certificates[0].Leaf.VerifyHostname(host) == nil
}

// refresh uses the files if they have changed and are valid.
func (c *certificates) refresh() error {
	cert, err := os.ReadFile(c.files.Cert)
	if err != nil {
		return fmt.Errorf("read tls.cert: %w", err)
	}
	key, err := os.ReadFile(c.files.Key)
	if err != nil {
		return fmt.Errorf("read tls.key: %w", err)
	}
	authorities, err := c.authorities()
	if err != nil {
		return err
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", cert, key, authorities))
	if c.current != nil && digest == c.digest {
		return nil
	}

	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("use tls.cert %s with tls.key %s: %w", c.files.Cert, c.files.Key, err)
	}
	next := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
		// A client must prove its identity each time: a resumed session would survive the removal
		// of a CA.
		SessionTicketsDisabled: true,
	}
	if c.files.VerifyIncoming {
		next.ClientAuth = tls.RequireAndVerifyClientCert
		if next.ClientCAs, err = clienttls.Pool(authorities); err != nil {
			return fmt.Errorf("use tls.ca_cert or tls.ca_path: %w in %s", err, cmp.Or(c.files.CACert, c.files.CAPath))
		}
	}
	if c.current != nil {
		c.log.Info("the certificates of the HTTP API were read again", "cert", c.files.Cert)
	}
	c.current, c.digest, c.accepted = next, digest, map[[sha256.Size]byte]bool{}
	return nil
}

// authorities returns the content of the CA files for clients.
func (c *certificates) authorities() ([][]byte, error) {
	key := "tls.ca_cert"
	switch {
	case !c.files.VerifyIncoming:
		return nil, nil
	case c.files.CACert == "" && c.files.CAPath == "":
		return nil, errors.New("tls.verify_incoming needs tls.ca_cert or tls.ca_path")
	case c.files.CACert == "":
		key = "tls.ca_path"
	}
	files, err := clienttls.Authorities(c.files.CACert, c.files.CAPath)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return files, nil
}
