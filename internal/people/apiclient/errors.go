package apiclient

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Error is the answer of a server that did not do what it was asked for.
type Error struct {
	Status    int    // of HTTP
	Message   string // why, in the server's words
	RequestID string // of the request, which the server's log names; may be empty

	where *url.URL // shows what goes on, if the server did not wait for its end; else nil
	patch bool     // the request is one of the older part of the API
	local bool     // no server has answered, but this process
}

// Error is worded as Consul-Terraform-Sync's two clients do, which scripts read.
func (e *Error) Error() string {
	if e.local {
		return e.Message
	}
	if e.patch {
		return fmt.Sprintf("request returned %d status code with error: %s", e.Status, e.Message)
	}
	text := fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), e.Message)
	if e.RequestID != "" && (e.Status == http.StatusBadRequest || e.Status >= http.StatusInternalServerError) { // the log says no more about the others
		text += fmt.Sprintf(", see logs for more details (Request ID: %s)", e.RequestID)
	}
	return text
}

// Missing reports whether the API says that what was asked for does not exist.
func Missing(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Status == http.StatusNotFound
}

// Waits returns why the run that a request has asked for waits for a person or a window, if the API says so.
func Waits(err error) (why string, waits bool) {
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusConflict {
		return refused.Message, true
	}
	return "", false
}

// maxForeign is how much of a message that is not the API's is repeated, in bytes.
const maxForeign = 500

// refusal reads an answer that says why not.
func refusal(method string, status int, header http.Header, body []byte, u *url.URL) error {
	if status == http.StatusBadRequest && u.Scheme == "http" && bytes.Contains(body, []byte("HTTP request to an HTTPS server")) {
		return fmt.Errorf("Client sent an HTTP request to an HTTPS server: %s speaks HTTPS only: give its address with https://", u.Host)
	}
	var said struct {
		Error     struct{ Message string }
		RequestID string `json:"request_id"`
		Message   string // of AWS, in front of a function
	}
	e := &Error{Status: status, patch: method == http.MethodPatch, local: u.Scheme == localScheme}
	if where := header.Get("Location"); status == http.StatusGatewayTimeout && where != "" {
		e.where, _ = url.Parse(where) // nil if it is no URL
	}
	if json.Unmarshal(body, &said) == nil {
		e.Message, e.RequestID = cmp.Or(said.Error.Message, said.Message), said.RequestID
	}
	foreign := strings.TrimSpace(strings.ToValidUTF8(string(body[:min(len(body), maxForeign)]), ""))
	e.Message = cmp.Or(e.Message, foreign, "the server gives no reason")
	if f, _, ok := frontOf(u); ok && e.RequestID == "" { // AWS has refused the request, not the function
		e.Message += f.hint(status, e.Message)
	}
	return e
}

// hint says what to do when AWS refuses a request.
func (f front) hint(status int, message string) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "; AWS runs no more invocations of the function at a time: try again in a moment"
	case status != http.StatusForbidden:
		return ""
	case strings.Contains(message, "security token"):
		return "; sign in to AWS again (credentials from environment variables: also start this command again)"
	}
	return "; these AWS credentials need " + f.rights
}

// explained adds what the person can do to an error of the connection.
func explained(err error, u *url.URL) error {
	var hint string
	var unknown x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var record tls.RecordHeaderError
	switch {
	case u.Scheme == "http" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		hint = "the server ended the connection (EOF), as one does that speaks HTTPS only: if it has TLS, give its address with https://"
	case u.Scheme == "https" && (errors.As(err, &record) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")):
		hint = "the server speaks plain HTTP: give its address with http://"
	case errors.As(err, &unknown):
		hint = "name the authority of the server's certificate with -ca-cert or -ca-path"
	case errors.As(err, &wrongHost):
		hint = "use a name in the address that the server's certificate is for"
	case strings.Contains(err.Error(), "remote error: tls:") && strings.Contains(err.Error(), "certificate"):
		hint = "the server asks for a client certificate that it trusts: name it with -client-cert and -client-key"
	case strings.Contains(err.Error(), "connection refused"):
		hint = "is the program running there, and is this its port?"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, hint)
}
