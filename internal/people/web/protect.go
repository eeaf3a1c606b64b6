package web

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

// protected keeps other web pages away from these: they can link here, and nothing else.
func protected(next http.Handler) http.Handler {
	own := http.NewCrossOriginProtection().Handler(next) // answers their POST with an error
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // a page has its own
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		if embedded(r) {
			http.Error(w, "other web pages can only link to these pages", http.StatusForbidden)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// embedded reports whether a page of another origin uses an answer as a part of itself: a
// frame, a picture, a script or a stream. It could not read it, but would keep this server
// busy, as from another port of this machine even with the viewer's session.
func embedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site == "" || site == "same-origin" || site == "none" {
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// policy lets a page load only what comes from this server, and run only scripts that
// have the nonce. htmx needs a policy of trusted types to put an answer of this server
// into the page; no other script can put HTML there.
func policy(nonce string) string {
	return strings.Join([]string{
		"default-src 'none'", "script-src 'nonce-" + nonce + "'", "style-src 'nonce-" + nonce + "'", "img-src 'self'", "connect-src 'self'",
		"form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "require-trusted-types-for 'script'", "trusted-types htmx",
	}, "; ")
}

// misleading are characters that nobody sees, but that change how other text reads, in
// which direction for example.
var misleading = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0080, Hi: 0x009f, Stride: 1}, {Lo: 0x061c, Hi: 0x061c, Stride: 1}, {Lo: 0x200b, Hi: 0x200b, Stride: 1}, {Lo: 0x200e, Hi: 0x200f, Stride: 1},
	{Lo: 0x2028, Hi: 0x202e, Stride: 1}, {Lo: 0x2060, Hi: 0x206f, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
}}

// revealed returns a page in which misleading and control characters are visible, as in
// names, values and comments: they could make a plan read as something else, or act on the
// terminal into which somebody copies it.
func revealed(page []byte) []byte {
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == 0x7f }
	hidden := func(r rune) bool { return r >= 0x80 && unicode.Is(misleading, r) || control(r) }
	if bytes.IndexFunc(page, hidden) < 0 {
		return page
	}
	var out bytes.Buffer
	for len(page) > 0 {
		r, size := utf8.DecodeRune(page)
		switch {
		case control(r) && r < ' ':
			out.WriteRune('\u2400' + r)
		case control(r):
			out.WriteRune('\u2421')
		case hidden(r):
			fmt.Fprintf(&out, "⟨%U⟩", r)
		default:
			out.Write(page[:size])
		}
		page = page[size:]
	}
	return out.Bytes()
}
