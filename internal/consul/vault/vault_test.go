package vault_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/vault"
	"github.com/terrapulse/terrapulse/internal/consul/vault/vaulttest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// settings returns the configuration for a server, with the token "root".
func settings(s *vaulttest.Server) config.Vault {
	return config.Vault{Enabled: true, Address: s.URL, Token: "root", TLS: config.ClientTLS{Enabled: true, Verify: true}}
}

func open(t *testing.T, cfg config.Vault) (*vault.Client, *testtools.Output) {
	t.Helper()
	log := &testtools.Output{}
	c, err := vault.New(t.Context(), cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// until waits until a condition holds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestRead_BothVersionsOfTheKVEngine(t *testing.T) {
	s := vaulttest.Start(t)
	s.Put("kv/db", map[string]any{"password": "of version 1"})
	s.Put("secret/db", map[string]any{"password": "of version 2"})
	c, _ := open(t, settings(s))
	for path, want := range map[string]string{"kv/db": "of version 1", "/kv/db/": "of version 1", "secret/db": "of version 2", "secret/data/db": "of version 2"} {
		secret, err := c.Read(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		data := secret.Data
		if inner, ok := data["data"].(map[string]any); ok {
			data = inner
		}
		if data["password"] != want {
			t.Errorf("%s holds %v", path, secret.Data)
		}
	}
	if _, err := c.Read(t.Context(), "secret/db?version=2"); err != nil || s.Count("GET secret/data/db version 2") != 1 {
		t.Errorf("a version is not asked for (%v): %v", err, s.Requests())
	}
	if _, err := c.Read(t.Context(), "db/creds/x?ttl=15m"); err != nil || s.Count("GET db/creds/x ttl 15m") != 1 {
		t.Errorf("a parameter of another engine is not passed on (%v): %v", err, s.Requests())
	}
	if _, err := c.Read(t.Context(), "secret/db?version=%"); err == nil || !strings.Contains(err.Error(), "after the ?") {
		t.Errorf("parameters that cannot be read: %v", err)
	}
	for _, path := range []string{"secret", "kv"} {
		s.Put(path+"/team/a", map[string]any{"x": "y"})
		if names, err := c.List(t.Context(), path+"/team"); err != nil || !slices.Equal(names, []string{"a"}) {
			t.Errorf("below %s are %v, %v", path, names, err)
		}
	}
}

func TestRead_ErrorsNeverContainSecrets(t *testing.T) {
	s := vaulttest.Start(t)
	s.Put("secret/deleted", nil)
	c, _ := open(t, settings(s))
	for _, path := range []string{"kv/none", "secret/none", "secret/deleted"} {
		if _, err := c.Read(t.Context(), path); !errors.Is(err, vault.ErrNotFound) {
			t.Errorf("%s: %v", path, err)
		}
	}
	says := func(what string, err error, words ...string) {
		t.Helper()
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: the error does not say %q: %v", what, w, err)
			}
		}
		if err != nil && strings.Contains(err.Error(), "S3CRET") {
			t.Errorf("%s: the error holds the token: %v", what, err)
		}
	}
	_, err := c.Read(t.Context(), "other/x")
	says("a path that is not allowed", err, "permission denied", "policies")

	cfg := settings(s)
	cfg.Token = "S3CRET-wrong"
	wrong, _ := open(t, cfg)
	_, err = wrong.Read(t.Context(), "kv/db")
	says("a token that is not known", err, s.URL, "permission denied", "expired")
	cfg.Token = ""
	none, _ := open(t, cfg)
	_, err = none.Read(t.Context(), "kv/db")
	says("no token", err, "VAULT_TOKEN")
	cfg.Token, cfg.AgentTokenFile = "root", filepath.Join(t.TempDir(), "token")
	agent, _ := open(t, cfg)
	_, err = agent.Read(t.Context(), "kv/db")
	says("no file of Vault Agent", err, cfg.AgentTokenFile, "vault_agent_token_file")

	s.Seal(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = c.Read(ctx, "kv/db")
	says("a sealed Vault", err, "sealed", s.URL)

	if _, err := vault.New(t.Context(), config.Vault{Enabled: true}, slog.Default()); err == nil || !strings.Contains(err.Error(), "VAULT_ADDR") {
		t.Errorf("no address: %v", err)
	}
}

func TestRead_EndsWithTheContextIfVaultHangs(t *testing.T) {
	s := vaulttest.Start(t)
	c, _ := open(t, settings(s))
	s.Hang(true)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("patience is over"))
	defer cancel()
	if _, err := c.Read(ctx, "kv/db"); err == nil || !strings.Contains(err.Error(), "patience is over") {
		t.Errorf("the error is %v", err)
	}
}

func TestRead_UsesTheNamespaceOfTheToken(t *testing.T) {
	s := vaulttest.Start(t)
	s.AddToken("of-team", vaulttest.Token{Namespace: "team"})
	s.Put("kv/db", map[string]any{"password": "p"})
	cfg := settings(s)
	cfg.Token, cfg.Namespace = "of-team", "team"
	c, _ := open(t, cfg)
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Error(err)
	}
	cfg.Namespace = "other"
	c, _ = open(t, cfg)
	if _, err := c.Read(t.Context(), "kv/db"); err == nil || !strings.Contains(err.Error(), "namespace than other") {
		t.Errorf("another namespace: %v", err)
	}
}

func TestNew_IgnoresTheEnvironment(t *testing.T) {
	s := vaulttest.Start(t)
	s.Put("kv/db", map[string]any{"password": "p"})
	t.Setenv("VAULT_TOKEN", "of-another")
	t.Setenv("VAULT_NAMESPACE", "another")
	t.Setenv("VAULT_ADDR", "http://127.0.0.1:1")
	t.Setenv("VAULT_AGENT_ADDR", "http://127.0.0.1:1")
	c, _ := open(t, settings(s))
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Error(err)
	}
}

func TestRead_ReadsVaultAgentsTokenEachTime(t *testing.T) {
	s := vaulttest.Start(t)
	s.Put("kv/db", map[string]any{"password": "p"})
	s.AddToken("second", vaulttest.Token{})
	cfg := settings(s)
	cfg.Token, cfg.AgentTokenFile = "stale", filepath.Join(t.TempDir(), "token")
	c, _ := open(t, cfg)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(cfg.AgentTokenFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("root\n")
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Fatal(err)
	}
	write("revoked")
	if _, err := c.Read(t.Context(), "kv/db"); err == nil {
		t.Error("the token of before was used")
	}
	write("second")
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Error(err)
	}
	// A wrapped file contains Vault's answer.
	cfg.UnwrapToken = true
	c, _ = open(t, cfg)
	s.Wrap("w1", "root")
	write(`{"token": "w1", "ttl": 300, "wrapped_accessor": "a"}`)
	for range 2 {
		if _, err := c.Read(t.Context(), "kv/db"); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Count("PUT sys/wrapping/unwrap"); n != 1 {
		t.Errorf("the token was unwrapped %d times", n)
	}
}

func TestRead_UnwrapsAWrappedTokenOnce(t *testing.T) {
	s := vaulttest.Start(t)
	s.Put("kv/db", map[string]any{"password": "p"})
	s.Wrap("S3CRET-wrapping", "root")
	cfg := settings(s)
	cfg.Token, cfg.UnwrapToken = "S3CRET-wrapping", true
	c, _ := open(t, cfg)
	for range 2 {
		if _, err := c.Read(t.Context(), "kv/db"); err != nil {
			t.Fatal(err)
		}
	}
	other, _ := open(t, cfg)
	_, err := other.Read(t.Context(), "kv/db")
	if err == nil || !strings.Contains(err.Error(), "unwrapped before") || strings.Contains(err.Error(), "S3CRET") {
		t.Errorf("a token that was unwrapped by another: %v", err)
	}
}

func TestRenewal_LastsAsLongAsTheProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := vaulttest.Start(t)
	s.Put("kv/db", map[string]any{"password": "p"})
	s.AddToken("short", vaulttest.Token{TTL: 6 * time.Second, Renewable: true})
	cfg := settings(s)
	cfg.Token, cfg.RenewToken = "short", true
	ctx, stop := context.WithCancel(t.Context())
	c, err := vault.New(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	began := time.Now()
	if err := c.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "renewed three times", func() bool { return s.Count("PUT auth/token/renew-self") >= 3 })
	if time.Since(began) < 6*time.Second {
		t.Error("three renewals did not take what a token lives")
	}
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Errorf("the token has expired: %v", err)
	}
	until(t, "no goroutine beside those of connections", func() bool { return runtime.NumGoroutine() <= before+8 })
	stop()
	renewed := s.Count("PUT auth/token/renew-self")
	until(t, "the token expires", func() bool { return time.Now().After(s.Expires("short")) })
	if n := s.Count("PUT auth/token/renew-self"); n > renewed+1 {
		t.Errorf("%d renewals after the end", n-renewed)
	}
}

func TestRenewal_TokenThatMustNotBeRenewedIsNot(t *testing.T) {
	s := vaulttest.Start(t)
	s.Put("kv/db", map[string]any{"password": "p"})
	s.AddToken("fixed", vaulttest.Token{TTL: time.Hour})
	cfg := settings(s)
	c, _ := open(t, cfg)
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Fatal(err)
	}
	if n := s.Count("GET auth/token/lookup-self"); n != 0 {
		t.Errorf("renew_token is false, and the token was looked up %d times", n)
	}
	cfg.RenewToken, cfg.Token = true, "fixed"
	c, log := open(t, cfg)
	if err := c.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the log line on a token that cannot be renewed", func() bool { return strings.Contains(log.String(), "cannot be renewed") })
	if n := s.Count("PUT auth/token/renew-self"); n != 0 {
		t.Errorf("it was renewed %d times", n)
	}
}

func TestRenewal_UsedTokenIsRenewedAtOnce(t *testing.T) {
	s := vaulttest.Start(t)
	s.AddToken("new", vaulttest.Token{TTL: time.Hour, Renewable: true})
	s.AddToken("used", vaulttest.Token{TTL: time.Hour, Left: 50 * time.Minute, Renewable: true})
	for _, token := range []string{"new", "used"} {
		cfg := settings(s)
		cfg.Token, cfg.RenewToken = token, true
		c, _ := open(t, cfg)
		if err := c.Keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the used one is renewed", func() bool { return time.Until(s.Expires("used")) > 55*time.Minute })
	if n := s.Count("PUT auth/token/renew-self"); n != 1 {
		t.Errorf("there were %d renewals", n)
	}
}

func TestRenewal_IsRetriedAfterAFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s := vaulttest.Start(t)
	s.AddToken("S3CRET-short", vaulttest.Token{TTL: 40 * time.Second, Renewable: true})
	s.Seal(true)
	cfg := settings(s)
	cfg.Token, cfg.RenewToken = "S3CRET-short", true
	c, log := open(t, cfg)
	if err := c.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "the log line on a sealed Vault", func() bool { return strings.Contains(log.String(), "will retry") })
	s.Seal(false)
	asked := len(s.Requests())
	until(t, "asked again", func() bool { return len(s.Requests()) > asked })
	if strings.Contains(log.String(), "S3CRET") {
		t.Errorf("the log holds the token:\n%s", log)
	}
}

func TestNew_TLS(t *testing.T) {
	s := vaulttest.StartTLS(t, nil)
	s.Put("kv/db", map[string]any{"password": "p"})
	cfg := settings(s)
	read := func(cfg config.Vault) error {
		c, _ := open(t, cfg)
		_, err := c.Read(t.Context(), "kv/db")
		return err
	}
	ctxErr := read(cfg)
	if ctxErr == nil || !strings.Contains(ctxErr.Error(), "certificate") {
		t.Errorf("a certificate of an unknown authority: %v", ctxErr)
	}
	insecure := cfg
	insecure.TLS.Verify = false
	if err := read(insecure); err != nil {
		t.Errorf("verify = false: %v", err)
	}
	cfg.TLS.CACert = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(cfg.TLS.CACert, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read(cfg); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	cfg.TLS.ServerName = "example.com" // is in the certificate, too
	if err := read(cfg); err != nil {
		t.Errorf("a server of this name: %v", err)
	}
	cfg.TLS.ServerName = "another.test"
	if err := read(cfg); err == nil {
		t.Error("a server of another name was believed")
	}
	cfg.TLS.Cert = filepath.Join(t.TempDir(), "none.pem")
	if _, err := vault.New(t.Context(), cfg, slog.Default()); err == nil || !strings.Contains(err.Error(), cfg.TLS.Cert) {
		t.Errorf("a certificate that is not there: %v", err)
	}
}

func TestNew_ClientCertificate(t *testing.T) {
	s := vaulttest.StartTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert})
	s.Put("kv/db", map[string]any{"password": "p"})
	cfg := settings(s)
	cfg.TLS.Verify = false
	c, _ := open(t, cfg)
	if _, err := c.Read(t.Context(), "kv/db"); err == nil {
		t.Fatal("the server asks for no certificate")
	}
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	cfg.TLS.Cert = filepath.Join(t.TempDir(), "client.pem") // one file for both
	if err := os.WriteFile(cfg.TLS.Cert, both, 0o600); err != nil {
		t.Fatal(err)
	}
	c, _ = open(t, cfg)
	if _, err := c.Read(t.Context(), "kv/db"); err != nil {
		t.Error(err)
	}
}
