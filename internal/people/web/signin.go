package web

import "net/http"

// signInPage is the form for a token.
type signInPage struct {
	Next  string `json:"-"`
	Wrong bool   `json:"wrong,omitempty"`
}

func (p *pages) signIn(r *http.Request) (view, error) {
	q := r.URL.Query()
	return view{title: "Sign in", template: "sign-in", still: true, data: signInPage{q.Get("next"), q.Has("wrong")}}, nil
}
