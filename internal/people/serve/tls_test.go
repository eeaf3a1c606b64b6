package serve

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestServe_TLS(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key}}, nil)
	if _, err := get(t, s, trusting(t, ca.CA)); err != nil {
		t.Error(err)
	}
	if _, err := get(t, s, trusting(t, testtools.NewAuthority(t).CA)); err == nil {
		t.Error("a client trusts another authority and is answered")
	}
	t.Run("nothing below TLS 1.2", func(t *testing.T) {
		old := trusting(t, ca.CA)
		old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		if _, err := get(t, s, old); err == nil {
			t.Error("TLS 1.1 is spoken")
		}
		old.MaxVersion = tls.VersionTLS12
		if _, err := get(t, s, old); err != nil {
			t.Error(err)
		}
	})
}

func TestServe_PlainHTTPOnATLSPortGets400(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key}}, nil)
	large := strings.Repeat("x", 300<<10)
	for _, test := range []struct{ method, body string }{
		{"GET", ""}, {"PATCH", `{"enabled":false}`}, {"DELETE", ""}, {"POST", large}, {"PATCH", large},
	} {
		req, _ := http.NewRequestWithContext(t.Context(), test.method, s.url("http"), strings.NewReader(test.body))
		resp, err := client(t, nil).Do(req)
		if err != nil {
			t.Errorf("%s with a body of %d bytes: %v", test.method, len(test.body), err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || string(body) != "Client sent an HTTP request to an HTTPS server.\n" {
			t.Errorf("%s with a body of %d bytes: status %d, %q", test.method, len(test.body), resp.StatusCode, body)
		}
	}
}

func TestServe_ClientCertificates(t *testing.T) {
	ca, strangers := testtools.NewAuthority(t), testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	folder := t.TempDir()
	pem, err := os.ReadFile(ca.CA)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ca.pem": string(pem), "README": "no certificate"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, files := range map[string]config.APITLS{
		"of the authority in a file":     {CACert: ca.CA},
		"of an authority in a folder":    {CAPath: folder},
		"the file counts where both are": {CACert: ca.CA, CAPath: "/nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			files.Enabled, files.VerifyIncoming, files.Cert, files.Key = true, true, cert, key
			s := start(t, Options{Handler: whoAndWhat, TLS: files}, nil)
			own, ownKey := ca.Client("me")
			if said := says(t, s, trusting(t, ca.CA, own, ownKey)); said != "cert:me (certificate): "+everything {
				t.Errorf("with a certificate: %s", said)
			}
			if _, err := get(t, s, trusting(t, ca.CA)); err == nil {
				t.Error("a client without a certificate is answered")
			}
			other, otherKey := strangers.Client("me")
			if _, err := get(t, s, trusting(t, ca.CA, other, otherKey)); err == nil {
				t.Error("a client of another authority is answered")
			}
		})
	}
}

func TestServe_CertificateThatNobodyVerifiesProvesNoName(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	s := start(t, Options{Handler: whoAndWhat, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key, CACert: ca.CA}}, nil)
	own, ownKey := ca.Client("me")
	if said := says(t, s, trusting(t, ca.CA, own, ownKey)); !strings.Contains(said, "(local)") || strings.Contains(said, "cert:") {
		t.Error(said)
	}
}

func TestServe_RenewedCertificateIsUsedByTheNextConnection(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	authority := filepath.Join(t.TempDir(), "clients.pem")
	copyFile(t, ca.CA, authority)
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key, VerifyIncoming: true, CACert: authority}}, nil)
	own, ownKey := ca.Client("me")
	me := trusting(t, ca.CA, own, ownKey)
	me.ClientSessionCache = tls.NewLRUClientSessionCache(9)
	first, err := get(t, s, me)
	if err != nil {
		t.Fatal(err)
	}

	ca.Server("api")
	second, err := get(t, s, me)
	if err != nil {
		t.Fatal(err)
	}
	if second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the old certificate is still shown")
	}
	wantLogged(t, s.log, "read again")

	// A pair that does not match changes nothing, and is reported once.
	if err := os.WriteFile(key, []byte("not a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		still, err := get(t, s, me)
		if err != nil || still.SerialNumber.Cmp(second.SerialNumber) != 0 {
			t.Fatalf("certificate %v, %v", still, err)
		}
	}
	if n := strings.Count(s.log.String(), "stay in use"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
	ca.Server("api")
	if third, err := get(t, s, me); err != nil || third.SerialNumber.Cmp(second.SerialNumber) == 0 {
		t.Errorf("certificate %v, %v", third, err)
	}

	// Clients of a removed CA are refused, even after earlier connections.
	others := testtools.NewAuthority(t)
	copyFile(t, others.CA, authority)
	if _, err := get(t, s, me); err == nil {
		t.Error("a client of the former authority is answered")
	}
	own, ownKey = others.Client("you")
	if _, err := get(t, s, trusting(t, ca.CA, own, ownKey)); err != nil {
		t.Error(err)
	}
}

func TestListen_RefusesInvalidCertificates(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	none := filepath.Join(t.TempDir(), "none.pem")
	for text, files := range map[string]config.APITLS{
		"read tls.cert":                 {Cert: none, Key: key},
		"read tls.key":                  {Cert: cert, Key: none},
		"use tls.cert":                  {Cert: cert, Key: ca.CA},
		"read tls.ca_cert":              {Cert: cert, Key: key, VerifyIncoming: true, CACert: none},
		"read tls.ca_path":              {Cert: cert, Key: key, VerifyIncoming: true, CAPath: none},
		"no certificate in PEM form in": {Cert: cert, Key: key, VerifyIncoming: true, CACert: key},
		"needs tls.ca_cert":             {Cert: cert, Key: key, VerifyIncoming: true},
	} {
		files.Enabled = true
		if s, err := Listen(t.Context(), Options{TLS: files, Handler: echo, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error = %v, want one with %q", err, text)
			if err == nil {
				s.Close()
			}
		}
	}
}

func TestServe_AnOpenConnectionIsRefusedOnceItsAuthorityIsRemoved(t *testing.T) {
	ca, others := testtools.NewAuthority(t), testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	authority := filepath.Join(t.TempDir(), "clients.pem")
	copyFile(t, ca.CA, authority)
	s := start(t, Options{Handler: echo, TLS: config.APITLS{Enabled: true, Cert: cert, Key: key, VerifyIncoming: true, CACert: authority}}, nil)
	own, ownKey := ca.Client("me")
	transport := &http.Transport{TLSClientConfig: trusting(t, ca.CA, own, ownKey)}
	t.Cleanup(transport.CloseIdleConnections)
	me := &http.Client{Transport: transport, Timeout: limit}
	connections := 0
	ask := func() (*http.Response, error) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				connections++
			}
		}})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url("https"), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := me.Do(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		return resp, err
	}
	for range 3 {
		if resp, err := ask(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
	}
	if connections != 1 {
		t.Fatalf("%d connections, and the test needs one that is open", connections)
	}
	copyFile(t, others.CA, authority)
	deadline := time.Now().Add(limit)
	for {
		resp, err := ask()
		if err == nil && resp.StatusCode == http.StatusUnauthorized && connections == 1 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the open connection is answered: %v, %v, %d connections", resp, err, connections)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if resp, err := ask(); err == nil {
		t.Errorf("the refused client connects again: %v", resp.Status)
	}
}

func TestCertificates_ACertificateThatExpiresIsRefusedOnAnOpenConnection(t *testing.T) {
	ca := testtools.NewAuthority(t)
	cert, key := ca.Server("api")
	certs, err := newCertificates(config.APITLS{Enabled: true, Cert: cert, Key: key, VerifyIncoming: true, CACert: ca.CA}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	own, ownKey := ca.Client("me")
	pair, err := tls.LoadX509KeyPair(own, ownKey)
	if err != nil {
		t.Fatal(err)
	}
	connection := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}
	for _, tt := range []struct {
		now  time.Time
		want bool
	}{{time.Now(), true}, {pair.Leaf.NotAfter, true}, {pair.Leaf.NotAfter.Add(time.Second), false}, {time.Now(), true}} {
		if got := certs.accepts(connection, tt.now); got != tt.want {
			t.Errorf("at %s, %s before its end, it is accepted: %v", tt.now, time.Until(pair.Leaf.NotAfter), got)
		}
	}
	if !certs.accepts(nil, time.Now()) || !certs.accepts(&tls.ConnectionState{}, time.Now()) {
		t.Error("a connection without a certificate is refused here")
	}
}
