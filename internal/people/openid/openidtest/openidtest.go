// Package openidtest has OpenID providers for tests: the real dex, and a stand-in whose answers a test
// can make wrong.
package openidtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Provider is a stand-in. It signs in each browser at once, without a form.
type Provider struct {
	*httptest.Server

	mu     sync.Mutex
	key    *rsa.PrivateKey
	kid    string
	claims map[string]any    // of the next tokens
	codes  map[string]string // nonces by code
	answer func(w http.ResponseWriter, r *http.Request) bool
	reads  map[string]int // requests by path
	offers map[string]any // what it says of itself besides what each provider says
	ended  []url.Values   // queries and forms of requests to end a session or a token
}

// New starts a stand-in.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{claims: map[string]any{"sub": "1", "email": "alice@example.com", "email_verified": true, "groups": []string{"network"}}, codes: map[string]string{}, reads: map[string]int{}, offers: map[string]any{}}
	p.Rotate(t, "first")
	p.Server = httptest.NewServer(p)
	p.Config.SetKeepAlivesEnabled(false) // tests count what stays open
	t.Cleanup(p.Close)
	return p
}

// Rotate makes a new key, which replaces the previous one.
func (p *Provider) Rotate(t testing.TB, kid string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, kid
}

// Claim sets a claim of the next tokens; nil removes it.
func (p *Provider) Claim(name string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims[name] = value; value == nil {
		delete(p.claims, name)
	}
}

// Answer sets a function that may answer in place of the stand-in, and reports whether it did.
func (p *Provider) Answer(with func(w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = with
}

// Offer adds to what the stand-in says of itself. It has the paths /end, for end_session_endpoint, and
// /revoke, for revocation_endpoint.
func (p *Provider) Offer(name string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offers[name] = value
}

// Ended are the requests to end a session or a token.
func (p *Provider) Ended() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ended)
}

// Reads is how often a path was requested.
func (p *Provider) Reads(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reads[path]
}

// Token returns a signed ID token for a client, valid for an hour, with further claims; nil
// removes one.
func (p *Provider) Token(t testing.TB, client string, more map[string]any) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.token(client, more)
}

func (p *Provider) token(client string, more map[string]any) string {
	claims := map[string]any{"iss": p.URL, "aud": client, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for _, set := range []map[string]any{p.claims, more} {
		for name, value := range set {
			if claims[name] = value; value == nil {
				delete(claims, name)
			}
		}
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", p.kid))
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		panic(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return raw
}

// PublicKey is the key in the form in which it is published, as someone would use it who takes it for
// a shared secret.
func (p *Provider) PublicKey() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := x509.MarshalPKIXPublicKey(p.key.Public())
	if err != nil {
		panic(err)
	}
	return text
}

func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.reads[r.URL.Path]++
	answer := p.answer
	p.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		send(w, p.Describe())
	case "/keys":
		send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.kid, Algorithm: "RS256", Use: "sig"}}})
	case "/auth":
		p.authorize(w, r)
	case "/token":
		p.redeem(w, r)
	case "/end", "/revoke":
		_ = r.ParseForm()
		p.ended = append(p.ended, r.Form)
	default:
		http.NotFound(w, r)
	}
}

// Describe is what the stand-in says of itself.
func (p *Provider) Describe() map[string]any {
	says := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}}
	maps.Copy(says, p.offers)
	return says
}

// authorize sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rand.Text()
	p.codes[code] = q.Get("nonce") + " " + q.Get("code_challenge") + " " + q.Get("client_id")
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusSeeOther)
}

// redeem exchanges a code, once, for who proves to have begun the sign-in.
func (p *Provider) redeem(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	known, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	parts := append(strings.Split(known, " "), "", "")
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || parts[1] != base64.RawURLEncoding.EncodeToString(sum[:]) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": "the code is not valid"})
		return
	}
	more := map[string]any{}
	if parts[0] != "" && p.claims["nonce"] == nil {
		more["nonce"] = parts[0]
	}
	send(w, map[string]any{"access_token": "opaque", "token_type": "bearer", "id_token": p.token(parts[2], more)})
}

func send(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}
