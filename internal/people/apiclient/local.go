package apiclient

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
)

// Local returns a client of an API in the same process. The handler gets the context
// of each request as it is, with what it says of the sender.
func Local(handler http.Handler) *Client {
	return &Client{base: &url.URL{Scheme: localScheme, Host: "localhost", Path: "/"}, http: &http.Client{Transport: local{handler}}}
}

// localScheme is that of addresses in the same process.
const localScheme = "local"

// local carries requests to a handler.
type local struct{ http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := &recorded{header: http.Header{}, status: http.StatusOK}
	l.ServeHTTP(answer, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: answer.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.header, Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()), Request: r,
	}, nil
}

// recorded keeps an answer.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header         { return a.header }
func (a *recorded) WriteHeader(status int)      { a.status = status }
func (a *recorded) Write(p []byte) (int, error) { return a.body.Write(p) }
