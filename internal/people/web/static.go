package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"sync"

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

// readStatic returns a static file.
func readStatic(name string) ([]byte, error) {
	switch name {
	case allScripts:
		return joinedScripts()
	case styleSheet:
		return smallStyle()
	}
	return files.ReadFile("static/" + name)
}

// joinedScripts and smallStyle are made when a browser first loads them.
var (
	joinedScripts = sync.OnceValues(func() ([]byte, error) {
		var all []byte
		for _, script := range scripts {
			raw, err := files.ReadFile("static/" + script)
			if err == nil && script == ownScript {
				raw, err = compact("script", raw)
			}
			if err != nil {
				return nil, err
			}
			all = append(append(all, raw...), '\n')
		}
		return all, nil
	})
	smallStyle = sync.OnceValues(func() ([]byte, error) {
		raw, err := files.ReadFile("static/" + styleSheet)
		if err != nil {
			return nil, err
		}
		return compact("style", raw)
	})
)

// indentation has no meaning in our own files: no text in them has several lines.
var indentation = regexp.MustCompile(`\n\s+`)

// compact returns one of our own files without comments, which html/template leaves out of what it finds
// in an element, and without indentation. Browsers load less.
func compact(element string, file []byte) ([]byte, error) {
	begin, end := "<"+element+">", "</"+element+">"
	t, err := template.New(element).Delims("<%", "%>").Parse(begin + string(file) + end)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, nil); err != nil {
		return nil, err
	}
	short := bytes.TrimSuffix(bytes.TrimPrefix(b.Bytes(), []byte(begin)), []byte(end))
	return bytes.TrimSpace(indentation.ReplaceAll(short, []byte("\n"))), nil
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
