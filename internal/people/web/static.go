package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// versionOf changes with the files that match these patterns. That of the static files is part of their
// addresses, so that browsers may keep them for ever.
func versionOf(patterns ...string) string {
	h := sha256.New()
	for _, pattern := range patterns {
		names, _ := fs.Glob(files, pattern) // the pattern is valid
		for _, name := range names {
			raw, _ := files.ReadFile(name) // it is embedded
			h.Write(raw)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// scripts are sent as one file in this order. htmx begins soon after it is loaded: if the
// extensions came later, a page would now and then never refresh itself.
var scripts = []string{"htmx-4.0.1.min.js", "hx-csp-4.0.1.min.js", "hx-sse-4.0.1.min.js", "page.js"}

const (
	allScripts = "scripts.js"
	ownScript  = "page.js" // the others are compact
	styleSheet = "style.css"
)

// compact leaves out of a script or a style sheet its indentation and the lines that are only comments:
// browsers load less. It must have no text of several lines.
func compact(file []byte) (short []byte) {
	for line := range bytes.Lines(file) {
		line = bytes.TrimSpace(line)
		comment := bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("/*")) && bytes.HasSuffix(line, []byte("*/"))
		if len(line) > 0 && !comment {
			short = append(append(short, line...), '\n')
		}
	}
	return short
}

// readStatic returns a static file.
func readStatic(name string) ([]byte, error) {
	switch name {
	case allScripts:
	case styleSheet:
		raw, err := files.ReadFile("static/" + name)
		return compact(raw), err
	default:
		return files.ReadFile("static/" + name)
	}
	var all []byte
	for _, script := range scripts {
		raw, err := files.ReadFile("static/" + script)
		if err != nil {
			return nil, err
		}
		if script == ownScript {
			raw = compact(raw)
		}
		all = append(append(all, raw...), '\n')
	}
	return all, nil
}

var contentTypes = map[string]string{".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

func (p *pages) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	raw, err := readStatic(name)
	if err != nil {
		p.fail(w, r, errNoPage)
		return
	}
	sendStatic(w, contentTypes[path.Ext(name)], raw)
}

// sendStatic sends what never changes under its address.
func sendStatic(w http.ResponseWriter, contentType string, raw []byte) {
	w.Header().Set("Content-Type", contentType+"; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(raw) // an error means that the client has gone
}

// compressed compresses answers, but no streams: an event must leave at once.
func compressed(next http.Handler) http.Handler {
	whole := middleware.Compressed(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pageURL("news") {
			next.ServeHTTP(w, r)
			return
		}
		whole.ServeHTTP(w, r)
	})
}
