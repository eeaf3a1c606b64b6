package middleware

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
)

var compressors = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

// Compressed compresses the answers of a handler that does not flush them, for clients
// that accept it.
func Compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		zip := compressors.Get().(*gzip.Writer)
		zip.Reset(w)
		c := &compressing{ResponseWriter: w, zip: zip}
		next.ServeHTTP(c, r)
		if c.begun {
			_ = zip.Close() // an error means that the client has gone
		}
		compressors.Put(zip)
	})
}

// compressing compresses the body of an answer, if it may have one.
type compressing struct {
	http.ResponseWriter
	zip    *gzip.Writer
	header bool // has been sent
	begun  bool // the body is compressed
}

func (c *compressing) WriteHeader(status int) {
	c.header = true
	if c.begun = status != http.StatusNoContent && (status < 300 || status >= 400); c.begun {
		h := c.Header()
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		h.Del("Content-Length")
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *compressing) Write(p []byte) (int, error) {
	if !c.header {
		c.WriteHeader(http.StatusOK)
	}
	if !c.begun {
		return c.ResponseWriter.Write(p)
	}
	return c.zip.Write(p)
}
