package web

import (
	"net/http"
	"net/url"

	"github.com/terrapulse/terrapulse/internal/people/access"
)

// signInPage is the form for a token, and the way to an OpenID provider.
type signInPage struct {
	Next     string `json:"-"`
	Provider string `json:"provider,omitempty"` // "" if there is none
	At       string `json:"-"`                  // the address that leads to it
	Wrong    bool   `json:"wrong,omitempty"`
	Why      string `json:"-"` // nobody could sign in at the provider
	Remains  bool   `json:"-"` // the viewer has signed out here, and perhaps not at the provider
	Leave    string `json:"-"` // the address that ends the session there; "" if only the provider's pages do
}

func (p *pages) signIn(r *http.Request) (view, error) {
	q := r.URL.Query()
	page := signInPage{Next: q.Get("next"), Provider: p.Provider, At: providerURL(q.Get("next")), Wrong: q.Has("wrong"), Why: access.Of(r.Context()).NotSignedIn}
	if site := r.Header.Get("Sec-Fetch-Site"); site == "same-origin" || site == "" {
		page.Remains = q.Has("remains") && p.Provider != ""
		if q.Has("leave") {
			page.Leave = pageURL("session/provider/end")
		}
	}
	return view{title: "Sign in", template: "sign-in", still: true, data: page}, nil
}

// providerURL leads to the OpenID provider, and then to a page.
func providerURL(next string) string {
	return pageURL("session/provider?") + url.Values{"next": {next}}.Encode()
}
