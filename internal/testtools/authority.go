package testtools

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority creates certificates. Only clients that are given CA trust them.
type Authority struct {
	CA string // path of its own certificate

	t      testing.TB
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewAuthority creates a certificate authority in a folder of the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.CA, _ = a.make("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// Server creates a certificate for servers on loopback and for the given host names, and returns
// the paths of its files. The same name again replaces them.
func (a *Authority) Server(name string, names ...string) (cert, key string) {
	a.t.Helper()
	return a.make(name, &x509.Certificate{
		DNSNames: append([]string{"localhost"}, names...), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
}

// Client creates a certificate for a client and returns the paths of its files.
func (a *Authority) Client(name string) (cert, key string) {
	a.t.Helper()
	return a.make(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// make creates a certificate that the authority signs: the first is the authority's own.
func (a *Authority) make(name string, template *x509.Certificate) (certFile, keyFile string) {
	a.t.Helper()
	ok := func(err error) {
		a.t.Helper()
		if err != nil {
			a.t.Fatalf("make certificate %s: %v", name, err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(err)
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, cmp.Or(a.cert, template), key.Public(), cmp.Or(a.key, key))
	ok(err)
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		ok(err)
		a.key = key
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	ok(err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+"-key.pem")
	ok(os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	ok(os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return certFile, keyFile
}
