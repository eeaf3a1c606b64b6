package login_test

import (
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/login"
	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/people/openid/openidtest"
)

func at(p *openidtest.Provider, address string, t openid.Tokens) login.Login {
	return login.Login{Address: address, Issuer: p.URL, ClientID: "cli", UsernameClaim: "email", GroupsClaim: "groups", Tokens: t}
}

func TestFolder_ATokenIsSentToItsAddressOnly(t *testing.T) {
	p, f := openidtest.New(t), login.Folder(filepath.Join(t.TempDir(), "logins"))
	if bearer, err := f.Bearer("https://a.example.com"); bearer != nil || err != nil {
		t.Fatal("before signing in", err)
	}
	one := at(p, "https://a.example.com", openid.Tokens{ID: "a", Expires: time.Now().Add(time.Hour)})
	if err := f.Write(one); err != nil {
		t.Fatal(err)
	}
	bearer, err := f.Bearer("https://a.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if token, err := bearer(t.Context()); token != "a" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	for _, other := range []string{"http://a.example.com", "https://a.example.com:8558", "https://b.example.com"} {
		if bearer, err := f.Bearer(other); bearer != nil || err != nil {
			t.Errorf("%s gets a token: %v", other, err)
		}
	}
	if others := f.Others(at(p, "https://b.example.com", openid.Tokens{})); len(others) != 1 || others[0] != one.Address {
		t.Errorf("the same client elsewhere: %v", others)
	}
	files, _ := filepath.Glob(filepath.Join(string(f), "*"))
	for _, name := range append(files, string(f)) {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			t.Errorf("others can read %s: %v, %v", name, info.Mode(), err)
		}
	}
	// A file that was copied to another address is not used.
	text, _ := os.ReadFile(files[0])
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(text), "a.example.com", "evil.example.com", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Bearer("https://a.example.com"); err == nil || !strings.Contains(err.Error(), "sign in again") {
		t.Errorf("a file of another address: %v", err)
	}
	if was, err := f.Remove("https://a.example.com"); !was || err != nil {
		t.Error(was, err)
	}
	if was, err := f.Remove("https://a.example.com"); was || err != nil {
		t.Error(was, err)
	}
}

func TestBearer_RenewsATokenOnceForAllCommands(t *testing.T) {
	p, f := openidtest.New(t), login.Folder(t.TempDir())
	if err := f.Write(at(p, "https://a.example.com", openid.Tokens{ID: "old", Refresh: "r", Expires: time.Now().Add(-time.Minute)})); err != nil {
		t.Fatal(err)
	}
	first, _ := f.Bearer("https://a.example.com")
	second, _ := f.Bearer("https://a.example.com")
	renewals := 0
	p.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		renewals++
		w.Header().Set("Content-Type", "application/json")
		if r.PostFormValue("refresh_token") != "r" || renewals > 1 {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
			return true
		}
		_, _ = w.Write([]byte(`{"access_token":"x","token_type":"bearer","refresh_token":"r2","id_token":"` + p.Token(t, "cli", nil) + `"}`))
		return true
	})
	for _, bearer := range []func() (string, error){func() (string, error) { return first(t.Context()) }, func() (string, error) { return second(t.Context()) }, func() (string, error) { return first(t.Context()) }} {
		if token, err := bearer(); err != nil || !openid.IsToken(token) {
			t.Errorf("%q, %v", token, err)
		}
	}
	kept, err := f.Read("https://a.example.com")
	if err != nil || kept.Refresh != "r2" || renewals != 1 {
		t.Errorf("%+v, %v, %d renewals", kept, err, renewals)
	}
}

func TestBearer_SaysThatASignInHasEnded(t *testing.T) {
	p, f := openidtest.New(t), login.Folder(t.TempDir())
	for name, tt := range map[string]struct {
		refresh string
		answer  int
		want    string
	}{
		"without a refresh token": {"", 0, "your sign-in has expired: sign in again with `terrapulse login -http-addr https://a.example.com`"},
		"refused":                 {"r", http.StatusBadRequest, "sign in again with `terrapulse login -http-addr https://a.example.com`"},
		"down":                    {"r", http.StatusServiceUnavailable, "cannot be used now"},
	} {
		p.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/token" {
				return false
			}
			w.WriteHeader(tt.answer)
			return true
		})
		if err := f.Write(at(p, "https://a.example.com", openid.Tokens{ID: "old", Refresh: tt.refresh, Expires: time.Now()})); err != nil {
			t.Fatal(err)
		}
		bearer, _ := f.Bearer("https://a.example.com")
		if _, err := bearer(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestEnd_RemovesTheTokensAndRevokesTheRefreshToken(t *testing.T) {
	p, f := openidtest.New(t), login.Folder(t.TempDir())
	p.Offer("revocation_endpoint", p.URL+"/revoke")
	expires := time.Now().Add(time.Hour).Round(0)
	if err := f.Write(at(p, "https://a.example.com", openid.Tokens{ID: "a", Refresh: "r", Expires: expires})); err != nil {
		t.Fatal(err)
	}
	end, err := f.End(t.Context(), "https://a.example.com")
	if err != nil || !end.Was || !end.Revoked || !end.Expires.Equal(expires) {
		t.Errorf("%+v, %v", end, err)
	}
	if all := p.Ended(); len(all) != 1 || all[0].Get("token") != "r" || all[0].Get("token_type_hint") != "refresh_token" || all[0].Get("client_id") != "cli" {
		t.Errorf("the provider was sent %v", all)
	}
	if end, err := f.End(t.Context(), "https://a.example.com"); err != nil || end.Was || len(p.Ended()) != 1 {
		t.Errorf("the second time: %+v, %v", end, err)
	}
}

func TestEnd_RemovesTheTokensAlsoIfTheProviderDoesNotRevokeThem(t *testing.T) {
	for name, tt := range map[string]struct {
		refresh string
		answer  func(w http.ResponseWriter, r *http.Request) bool
		want    string
	}{
		"no revocation_endpoint": {"r", nil, ""},
		"no refresh token":       {"", nil, ""},
		"an error":               {"r", func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(http.StatusBadGateway); return true }, "cannot be used now"},
		"a refusal": {"r", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/revoke" {
				w.WriteHeader(http.StatusBadRequest)
			}
			return r.URL.Path == "/revoke"
		}, "answers with the status 400"},
		"a redirection to elsewhere": {"r", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/revoke" {
				http.Redirect(w, r, "https://evil.example.com/", http.StatusTemporaryRedirect)
			}
			return r.URL.Path == "/revoke"
		}, "which is not followed"},
		"an answer that comes late": {"r", func(w http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, "cannot be used now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, f := openidtest.New(t), login.Folder(t.TempDir())
			if tt.answer != nil {
				p.Offer("revocation_endpoint", p.URL+"/revoke")
				p.Answer(tt.answer)
			}
			if err := f.Write(at(p, "https://a.example.com", openid.Tokens{ID: "a", Refresh: tt.refresh, Expires: time.Now()})); err != nil {
				t.Fatal(err)
			}
			end, err := f.End(t.Context(), "https://a.example.com")
			if !end.Was || end.Revoked || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v", end, err)
			}
			if files, _ := filepath.Glob(filepath.Join(string(f), "*")); len(files) != 0 {
				t.Errorf("still there: %v", files)
			}
		})
	}
}

func TestEnd_AnUnreadableSignInIsRemovedToo(t *testing.T) {
	p, f := openidtest.New(t), login.Folder(t.TempDir())
	if err := f.Write(at(p, "https://a.example.com", openid.Tokens{ID: "a"})); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(string(f), "*"))
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if end, err := f.End(t.Context(), "https://a.example.com"); err != nil || !end.Was {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestBearer_ACommandThatRunsDoesNotBringBackASignInThatHasEnded(t *testing.T) {
	p, f := openidtest.New(t), login.Folder(t.TempDir())
	signOut := func() {
		if was, err := f.Remove("https://a.example.com"); !was || err != nil {
			t.Error(was, err)
		}
	}
	p.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/token" {
			return false
		}
		signOut()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"access_token":"x","token_type":"bearer","refresh_token":"r2","id_token":"` + p.Token(t, "cli", nil) + `"}`))
		return true
	})
	for _, before := range []bool{true, false} { // before the renewal, or while the provider renews
		if err := f.Write(at(p, "https://a.example.com", openid.Tokens{ID: "old", Refresh: "r", Expires: time.Now()})); err != nil {
			t.Fatal(err)
		}
		bearer, err := f.Bearer("https://a.example.com")
		if err != nil {
			t.Fatal(err)
		}
		if before {
			signOut()
		}
		if token, err := bearer(t.Context()); token != "" || err == nil || !strings.Contains(err.Error(), "you have signed out from https://a.example.com: sign in again") {
			t.Errorf("signed out before the renewal: %v: %q, %v", before, token, err)
		}
		if kept, err := f.Read("https://a.example.com"); kept != nil || err != nil {
			t.Errorf("signed out before the renewal: %v: the sign-in is there again: %+v, %v", before, kept, err)
		}
	}
}
