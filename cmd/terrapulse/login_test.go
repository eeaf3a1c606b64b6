package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/terrapulse/terrapulse/internal/browsertest"
	"github.com/terrapulse/terrapulse/internal/people/login"
	"github.com/terrapulse/terrapulse/internal/people/openid"
	"github.com/terrapulse/terrapulse/internal/people/openid/openidtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// newSignIn starts an instance that has dex as its OpenID provider, and returns its address.
func newSignIn(t *testing.T) (*site, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser")
	}
	s := newSite(t)
	t.Setenv("XDG_CONFIG_HOME", s.path("config"))
	t.Setenv("OIDC_SECRET", openidtest.ClientSecret)
	port := testtools.FreePort(t)
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	issuer := openidtest.Dex(t, address)
	p := s.start("-config-file", strings.TrimSpace(s.config(s.task("lb", "enabled = false"))), "-config-file", s.write("api.hcl", fmt.Sprintf(`
port = %d
api {
  token = "the-token-that-may-act"
  access {
    oidc {
      issuer        = %q
      client_id     = %q
      client_secret = "{{ env \"OIDC_SECRET\" }}"
      cli_client_id = %q
      scopes        = ["openid", "profile", "email", "groups"]
    }
    grant {
      roles = ["operate"]
      to    = ["group:%s"]
    }
    grant {
      roles = ["view"]
      to    = ["user:%s"]
    }
  }
}
`, port, issuer, openidtest.ClientID, openidtest.CLIClientID, openidtest.KilgoresGroup, openidtest.Alice)))
	p.served()
	return s, address
}

// shows waits until a page, which need not be one of Terrapulse, shows words.
func shows(b *browsertest.Browser, words ...string) {
	for _, w := range words {
		b.Holds(fmt.Sprintf("document.body.innerText.includes(%q)", w))
	}
}

// asAlice signs in with dex's form.
func asAlice(b *browsertest.Browser) {
	shows(b, "Log in with Email")
	b.Click("Log in with Email")
	shows(b, "Log in to Your Account")
	browsertest.Eval[chromedp.Void](b, fmt.Sprintf("document.querySelector('#login').value = %q; document.querySelector('#password').value = %q", openidtest.Alice, openidtest.AlicePassword))
	b.Click("Login")
}

func TestSignIn_PagesWithARealProvider(t *testing.T) {
	_, address := newSignIn(t)
	b := browsertest.New(t)
	b.Open(address + "/ui/tasks/lb")
	shows(b, "Sign in at 127.0.0.1")
	b.Accessible()
	b.Click("Sign in at 127.0.0.1")
	asAlice(b)
	shows(b, "user:"+openidtest.Alice, "read only", "Sign out")
	if at := browsertest.Eval[string](b, "location.pathname"); at != "/ui/tasks/lb" {
		t.Errorf("after signing in: %s", at)
	}
	if cookie := browsertest.Eval[string](b, "document.cookie"); cookie != "" {
		t.Errorf("scripts can read the cookie %s", cookie)
	}
	b.Click("Sign out")
	shows(b, "You may still be signed in at 127.0.0.1 in this browser", "Terrapulse cannot end that session", "Sign in at 127.0.0.1")
	b.Open(address + "/ui/tasks")
	b.Click("Sign in at 127.0.0.1")
	shows(b, "Log in with Example")
	b.Click("Log in with Example")
	shows(b, "user:"+openidtest.Kilgore, "All tasks")
	if text := b.Text("body"); strings.Contains(text, "read only") {
		t.Errorf("a group that may operate: %s", text)
	}
	b.Click("Sign out")
	shows(b, "Sign in at 127.0.0.1")
}

// opened is the address that a command wants to be opened.
func (p *process) opened(pattern string) []string {
	p.t.Helper()
	var found []string
	eventually(p.t, "the command prints an address", func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(p.stderr.String())
		return found != nil
	})
	return found
}

func TestLogin_InABrowserAndAsTheSamePersonLater(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the browser of other systems would open")
	}
	s, address := newSignIn(t)
	s.write("bin/xdg-open", "#!/bin/sh\nprintf '%s' \"$1\" > "+s.path("opened")+"\n")
	t.Setenv("PATH", s.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	p := s.start("login", "-http-addr", address)
	at := p.opened(`(?m)^(http://\S+/auth\S+)$`)[1]
	eventually(t, "the browser opens", func() bool { text, err := os.ReadFile(s.path("opened")); return err == nil && string(text) == at })
	b := browsertest.New(t)
	b.Open(at)
	shows(b, "Log in with Example")
	b.Click("Log in with Example")
	shows(b, "You are signed in to Terrapulse on the command line")
	<-p.ended
	wantCode(t, result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}, exitOK)
	wantText(t, p.stdout.String(), "Signed in at "+address+" as user:"+openidtest.Kilgore, "Groups: "+openidtest.KilgoresGroup, "Roles: view, operate")

	isShown := func(code int, want ...string) {
		t.Helper()
		r := s.bare("login", "-show", "-http-addr", address)
		wantCode(t, r, code)
		wantText(t, r.stdout+r.stderr, want...)
	}
	isShown(exitOK, "user:"+openidtest.Kilgore, "Proven by: oidc")
	files, _ := filepath.Glob(s.path("config/terrapulse/logins/*"))
	if len(files) != 1 {
		t.Fatalf("files: %v", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	// A token that has expired is renewed.
	kept := map[string]any{}
	change := func(key string, value any) {
		t.Helper()
		text, err := os.ReadFile(files[0])
		if err == nil {
			err = json.Unmarshal(text, &kept)
		}
		if kept[key] = value; err == nil {
			text, err = json.Marshal(kept)
		}
		if err == nil {
			err = os.WriteFile(files[0], text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("id_token", "wrong")
	isShown(exitError, "not valid here")
	change("expires", time.Now().Add(-time.Minute))
	isShown(exitOK, "user:"+openidtest.Kilgore)
	isShown(exitOK, "user:"+openidtest.Kilgore)
	change("refresh_token", "wrong")
	change("expires", time.Now().Add(-time.Minute))
	isShown(exitError, "sign in again with `terrapulse login -http-addr "+address+"`")

	// The token is sent to this address only.
	r := s.bare("login", "-show", "-http-addr", strings.Replace(address, "127.0.0.1", "localhost", 1))
	wantText(t, r.stderr, "this API needs a token", "terrapulse login")
	change("expires", time.Now().Add(time.Hour))
	r = s.bare("logout", "-http-addr", address)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "Signed out from "+address, "A copy of the ID token is valid until ") // dex revokes no tokens
	isShown(exitError, "this API needs a token")
	wantText(t, s.bare("logout", "-http-addr", address).stdout, "You were not signed in")
}

func TestLogout_RevokesTheRefreshTokenAndNeedsNoProvider(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Setenv("XDG_CONFIG_HOME", s.path("config"))
	provider := openidtest.New(t)
	provider.Offer("revocation_endpoint", provider.URL+"/revoke")
	const address = "https://terrapulse.example.com:8558"
	folder, err := login.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, works := range []bool{true, false} {
		one := login.Login{Address: address, Issuer: provider.URL, ClientID: "terrapulse-cli", Tokens: openid.Tokens{ID: "i", Refresh: "r", Expires: time.Now()}}
		if err := folder.Write(one); err != nil {
			t.Fatal(err)
		}
		provider.Answer(func(w http.ResponseWriter, r *http.Request) bool {
			if !works {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return !works
		})
		r := s.bare("logout", "-http-addr", address, "-json")
		wantCode(t, r, exitOK)
		wantText(t, r.stdout, `"was_signed_in": true`, fmt.Sprintf(`"revoked": %v`, works))
		if warned := strings.Contains(r.stderr, "Warning: the refresh token was removed here, and could not be revoked: the OpenID provider "+provider.URL+" cannot be used now"); warned == works {
			t.Errorf("the provider works: %v; the command says %s", works, r.stderr)
		}
		if kept, err := folder.Read(address); kept != nil || err != nil {
			t.Errorf("the sign-in is still there: %+v, %v", kept, err)
		}
	}
	if all := provider.Ended(); len(all) != 1 || all[0].Get("token") != "r" {
		t.Errorf("the provider was sent %v", all)
	}
}

func TestLogin_OnAnotherDevice(t *testing.T) {
	s, address := newSignIn(t)
	t.Setenv("DISPLAY", "")
	t.Setenv("WAYLAND_DISPLAY", "")
	p := s.start("login", "-http-addr", address)
	found := p.opened(`Open (\S+) on any device, and enter the code (\S+)`)
	b := browsertest.New(t)
	b.Open(found[1])
	shows(b, "Enter User Code")
	browsertest.Eval[chromedp.Void](b, fmt.Sprintf("document.querySelector('#user_code').value = %q", found[2]))
	b.Click("Submit")
	asAlice(b)
	shows(b, "Login Successful")
	<-p.ended
	wantCode(t, result{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}, exitOK)
	wantText(t, p.stdout.String(), "as user:"+openidtest.Alice, "Roles: view")
	r := s.bare("task", "disable", "-http-addr", address, "lb")
	wantCode(t, r, exitError)
	wantText(t, unwrapped(r.stderr), "user:"+openidtest.Alice+" may view, but needs the role")

	// The browser of another one is on the machine from which the port is forwarded.
	port := testtools.FreePort(t)
	p = s.start("login", "-http-addr", address, fmt.Sprint("-listen-port=", port))
	b = browsertest.New(t)
	b.Open(p.opened(fmt.Sprintf(`(?s)ssh -L %d:127\.0\.0\.1:%[1]d .*\n(http://\S+/auth\S+)\n`, port))[1])
	shows(b, "Log in with Example")
	b.Click("Log in with Example")
	shows(b, "You are signed in to Terrapulse on the command line")
	<-p.ended
	wantText(t, p.stdout.String(), "as user:"+openidtest.Kilgore)
}

func TestLogin_SaysWhereNobodyCanSignIn(t *testing.T) {
	s := newSite(t)
	p := s.start("-config-file", s.config(s.task("lb", "enabled = false")))
	r := s.bare("login", "-http-addr", p.served())
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "there is no OpenID provider (api.access.oidc in the configuration)")
	r = s.bare("login", "-show", "-http-addr", p.served(), "-json")
	wantText(t, r.stdout, `"proof": "local"`)
}
