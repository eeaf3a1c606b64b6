package openid_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/people/openid/openidtest"
)

// options are those of a client of the stand-in.
func options(p *openidtest.Provider) openid.Options {
	return openid.Options{Issuer: p.URL, ClientID: "terrapulse", ClientSecret: "a secret of some length", CLIClientID: "terrapulse-cli",
		Scopes: []string{"openid", "email"}, UsernameClaim: "email", GroupsClaim: "groups"}
}

func client(t *testing.T, o openid.Options) *openid.Provider {
	t.Helper()
	p, err := openid.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestVerify_NamesWhoTheProviderHasSignedIn(t *testing.T) {
	p := openidtest.New(t)
	for _, id := range []string{"terrapulse", "terrapulse-cli"} {
		who, err := client(t, options(p)).Verify(t.Context(), p.Token(t, id, nil))
		if err != nil || who.Name != "user:alice@example.com" || !slices.Equal(who.Groups, []string{"network"}) || !who.Proven() || !strings.HasPrefix(who.Account, "http") || !strings.HasSuffix(who.Account, "#1") {
			t.Errorf("%s: %+v, %v", id, who, err)
		}
	}
}

func TestVerify_RefusesTokensThatProveNothing(t *testing.T) {
	p, other := openidtest.New(t), openidtest.New(t)
	signed := func(alg jose.SignatureAlgorithm, key any) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "first"))
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"iss":%q,"aud":"terrapulse","exp":%d,"email":"alice@example.com"}`, p.URL, time.Now().Add(time.Hour).Unix())
		s, err := signer.Sign([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := s.CompactSerialize()
		return raw
	}
	good := p.Token(t, "terrapulse", nil)
	parts := strings.Split(good, ".")
	const none = "eyJhbGciOiJub25lIn0" // {"alg":"none"}
	for name, tt := range map[string]struct{ token, want string }{
		"another issuer, with its own key":  {other.Token(t, "terrapulse", nil), "signature"},
		"another issuer named by the token": {p.Token(t, "terrapulse", map[string]any{"iss": other.URL}), "different provider"},
		"another audience":                  {p.Token(t, "grafana", nil), "it is for grafana, and not for the client terrapulse"},
		"no audience":                       {p.Token(t, "", map[string]any{"aud": []string{}}), "and not for the client"},
		"issued to another client":          {p.Token(t, "terrapulse", map[string]any{"azp": "grafana"}), "issued to the client grafana"},
		"expired two minutes ago":           {p.Token(t, "terrapulse", map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}), "it expired at"},
		"not valid yet":                     {p.Token(t, "terrapulse", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), "nbf"},
		"without expiry":                    {p.Token(t, "terrapulse", map[string]any{"exp": nil}), "it expired at"},
		"the algorithm none":                {none + "." + parts[1] + ".", "none"},
		"none with the old signature":       {none + "." + parts[1] + "." + parts[2], "none"},
		"the public key as a shared secret": {signed(jose.HS256, p.PublicKey()), "HS256"},
		"other content under the signature": {parts[0] + "." + strings.Split(p.Token(t, "terrapulse", map[string]any{"email": "root@example.com"}), ".")[1] + "." + parts[2], "signature"},
		"an address that nobody has proven": {p.Token(t, "terrapulse", map[string]any{"email_verified": false}), "has not verified the address alice@example.com"},
		"the same, written as text":         {p.Token(t, "terrapulse", map[string]any{"email_verified": "false"}), "has not verified"},
		"the same, in another case":         {p.Token(t, "terrapulse", map[string]any{"email_verified": "False"}), "has not verified"},
		"the same, as a number":             {p.Token(t, "terrapulse", map[string]any{"email_verified": 0}), "has not verified"},
		"the same, as an object":            {p.Token(t, "terrapulse", map[string]any{"email_verified": map[string]any{"email": true}}), "has not verified"},
		"a logout token of the person":      {p.Token(t, "terrapulse", map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}), "no ID token"},
		"groups with a number":              {p.Token(t, "terrapulse", map[string]any{"groups": []any{"network", 7}}), "not a list of names"},
		"groups with nothing":               {p.Token(t, "terrapulse", map[string]any{"groups": []any{nil}}), "not a list of names"},
		"groups in groups":                  {p.Token(t, "terrapulse", map[string]any{"groups": []any{[]string{"network"}}}), "not a list of names"},
		"groups that are true":              {p.Token(t, "terrapulse", map[string]any{"groups": true}), "not a list of names"},
		"a name with a line break":          {p.Token(t, "terrapulse", map[string]any{"email": "alice@example.com\nSet-Cookie: x"}), "no claim email"},
		"a name with spaces around it":      {p.Token(t, "terrapulse", map[string]any{"email": " alice@example.com"}), "no claim email"},
		"a name that is read backwards":     {p.Token(t, "terrapulse", map[string]any{"email": "\u202emoc.elpmaxe@ecila"}), "no claim email"},
		"a name that is too long":           {p.Token(t, "terrapulse", map[string]any{"email": strings.Repeat("a", 300)}), "no claim email"},
		"without a name":                    {p.Token(t, "terrapulse", map[string]any{"email": nil}), "no claim email"},
		"a name with a hidden character":    {p.Token(t, "terrapulse", map[string]any{"email": "alice@example.com\u200b"}), "no claim email"},
		"a name of another kind":            {p.Token(t, "terrapulse", map[string]any{"email": []string{"alice@example.com"}}), "no claim email"},
		"groups that the provider left out": {p.Token(t, "terrapulse", map[string]any{"groups": nil, "_claim_names": map[string]string{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]string{"endpoint": "https://graph.example.com"}}}), "more groups"},
		"groups that are no names":          {p.Token(t, "terrapulse", map[string]any{"groups": map[string]any{"a": 1}}), "not a list of names"},
		"no token":                          {"eyJhbGciOiJSUzI1NiJ9.e30.", ""},
		"a key that the provider never had": {other.Token(t, "terrapulse", map[string]any{"iss": p.URL}), "signature"},
	} {
		who, err := client(t, options(p)).Verify(t.Context(), tt.token)
		var refused *openid.TokenError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) || who.Name != "" {
			t.Errorf("%s: %+v, %v; want %q", name, who, err, tt.want)
		}
	}
	if _, err := client(t, options(p)).Verify(t.Context(), good); err != nil {
		t.Error("the token itself: ", err)
	}
}

func TestVerify_AllowsClocksThatDifferByAMinute(t *testing.T) {
	p := openidtest.New(t)
	late := p.Token(t, "terrapulse", map[string]any{"exp": time.Now().Add(-30 * time.Second).Unix()})
	if _, err := client(t, options(p)).Verify(t.Context(), late); err != nil {
		t.Error(err)
	}
}

func TestVerify_ReadsClaimsByTheirPath(t *testing.T) {
	p := openidtest.New(t)
	o := options(p)
	o.UsernameClaim, o.GroupsClaim = "https://example.com/name", "realm_access.roles"
	token := p.Token(t, "terrapulse", map[string]any{"https://example.com/name": "alice", "realm_access": map[string]any{"roles": []string{"b", "a", "a", ""}}, "email_verified": false})
	who, err := client(t, o).Verify(t.Context(), token)
	if err != nil || who.Name != "user:alice" || !slices.Equal(who.Groups, []string{"a", "b"}) {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestVerify_KeepsKeysAndReadsNewOnes(t *testing.T) {
	p := openidtest.New(t)
	c := client(t, options(p))
	for range 5 {
		if _, err := c.Verify(t.Context(), p.Token(t, "terrapulse", nil)); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.Reads("/keys"); n != 1 {
		t.Errorf("the keys were read %d times for five tokens", n)
	}
	p.Rotate(t, "second")
	if _, err := c.Verify(t.Context(), p.Token(t, "terrapulse", nil)); err != nil {
		t.Error("after a new key: ", err)
	}
	// Strangers cannot make the program send the provider any number of requests.
	other := openidtest.New(t)
	other.Rotate(t, "stranger")
	token := other.Token(t, "terrapulse", nil)
	for range 50 {
		_, _ = c.Verify(t.Context(), token)
	}
	if n := p.Reads("/keys"); n > 11 {
		t.Errorf("the keys were read %d times", n)
	}
}

func TestVerify_AProviderThatDoesNotAnswerIsNoWrongToken(t *testing.T) {
	p, elsewhere := openidtest.New(t), openidtest.New(t)
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"an error": func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true },
		"another issuer": func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte(`{"issuer":"https://evil.example.com"}`))
			return true
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>")); return true },
		"an endless answer": func(w http.ResponseWriter, _ *http.Request) bool {
			for {
				if _, err := w.Write([]byte(strings.Repeat(" ", 1<<16))); err != nil {
					return true
				}
			}
		},
		"a redirection to elsewhere": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusFound)
			return true
		},
		"no keys": func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/keys" {
				w.WriteHeader(503)
			}
			return r.URL.Path == "/keys"
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.Answer(answer)
			defer p.Answer(nil)
			now := time.Now()
			o := options(p)
			o.Now = func() time.Time { return now }
			c := client(t, o)
			token := p.Token(t, "terrapulse", nil)
			_, err := c.Verify(t.Context(), token)
			var down *openid.DownError
			if !errors.As(err, &down) || !strings.Contains(err.Error(), p.URL) || name == "an endless answer" && !strings.Contains(err.Error(), "more than 1048576 bytes") {
				t.Fatalf("%v", err)
			}
			p.Answer(nil)
			now = now.Add(6 * time.Second)
			if _, err := c.Verify(t.Context(), token); err != nil {
				t.Error("after the provider was back: ", err)
			}
		})
	}
	if n := elsewhere.Reads("/.well-known/openid-configuration"); n > 0 {
		t.Errorf("the redirection was followed %d times", n)
	}
}

// visit follows the browser to the provider and returns the answer with which it comes back.
func visit(t *testing.T, address string) url.Values {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return back.Query()
}

const back = "https://terrapulse.example.com/ui/session/callback"

func TestSignIn_EndsWithWhoSignedIn(t *testing.T) {
	p := openidtest.New(t)
	c := client(t, options(p))
	address, flow, err := c.Begin(t.Context(), back)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := url.Parse(address)
	for name, want := range map[string]string{"code_challenge_method": "S256", "response_type": "code", "redirect_uri": back, "client_id": "terrapulse", "scope": "openid email"} {
		if got := q.Query().Get(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	answer := visit(t, address)
	who, err := c.Finish(t.Context(), flow, answer)
	if err != nil || who.Name != "user:alice@example.com" {
		t.Fatalf("%+v, %v", who, err)
	}
	if _, err := c.Finish(t.Context(), flow, answer); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("the code again: %v", err)
	}
}

// Who forwards the port has to know it, also if any port is fine.
func TestInBrowser_ShowsThePortOnWhichItListens(t *testing.T) {
	c := client(t, options(openidtest.New(t)))
	_, err := c.InBrowser(t.Context(), 0, func(port int, address string) {
		shown, _ := url.Parse(address)
		if want := fmt.Sprintf("http://localhost:%d/callback", port); port == 0 || shown.Query().Get("redirect_uri") != want {
			t.Errorf("port %d is shown, and the browser comes back to %s", port, shown.Query().Get("redirect_uri"))
		}
		go func() {
			if resp, err := http.Get(address); err == nil {
				resp.Body.Close()
			}
		}()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSignIn_RefusesAnswersOfOtherSignIns(t *testing.T) {
	p := openidtest.New(t)
	c := client(t, options(p))
	for name, tt := range map[string]struct {
		change func(flow *openid.Flow, answer url.Values)
		claim  any // of the nonce
		want   string
	}{
		"another state":    {func(_ *openid.Flow, a url.Values) { a.Set("state", "x") }, nil, "no sign-in that began here"},
		"no sign-in":       {func(f *openid.Flow, a url.Values) { *f = openid.Flow{}; a.Del("state") }, nil, "no sign-in that began here"},
		"another provider": {func(_ *openid.Flow, a url.Values) { a.Set("iss", "https://evil.example.com") }, nil, "another OpenID provider"},
		"a refusal": {func(_ *openid.Flow, a url.Values) {
			a.Set("error", "access_denied")
			a.Set("error_description", "not you")
		}, nil, "access_denied (not you)"},
		"no code":                     {func(_ *openid.Flow, a url.Values) { a.Del("code") }, nil, "no code"},
		"a code that was intercepted": {func(f *openid.Flow, _ url.Values) { f.Verifier = strings.Repeat("x", 43) }, nil, "invalid_grant"},
		"the token of another":        {func(f *openid.Flow, _ url.Values) { f.Nonce = "x" }, nil, "another sign-in"},
		"a token without a nonce":     {func(*openid.Flow, url.Values) {}, "", "another sign-in"},
	} {
		p.Claim("nonce", tt.claim)
		address, flow, err := c.Begin(t.Context(), back)
		if err != nil {
			t.Fatal(err)
		}
		answer := visit(t, address)
		tt.change(&flow, answer)
		if who, err := c.Finish(t.Context(), flow, answer); err == nil || !strings.Contains(err.Error(), tt.want) || who.Name != "" {
			t.Errorf("%s: %+v, %v; want %q", name, who, err, tt.want)
		}
	}
}
