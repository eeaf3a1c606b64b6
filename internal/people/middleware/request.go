// Package middleware has what every server of the HTTP API does with a request: its
// id, the limit of its body, and the shape of an error.
package middleware

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// MaxBody is the most bytes of a body: several times the longest definition of a
// task that a record can hold. A task with a thousand variables has about 100 KB.
const MaxBody = 1 << 20

// key is the key of a request's id in its context.
type key struct{}

// WithID returns a request with an id: its own, if it has one.
func WithID(r *http.Request) *http.Request {
	if ID(r) != "" {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), key{}, uuid.NewString()))
}

// ID returns the id of a request.
func ID(r *http.Request) string {
	id, _ := r.Context().Value(key{}).(string)
	return id
}

// Fail answers with an error.
func Fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	text, err := json.Marshal(apispec.ErrorResponse{Error: apispec.ErrorObject{Message: message}, RequestID: ID(r)})
	if err != nil {
		panic(err) // strings can be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has gone
}

// Host returns an address without its port, if it has one.
func Host(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
