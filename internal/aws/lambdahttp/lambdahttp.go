// Package lambdahttp serves HTTP requests that reach a Lambda function as invocations: from its function
// URL (payload format 2.0), or from a REST API of API Gateway (payload format 1.0). Each answer is returned
// as a whole, because a function URL does not support streams if the function is in a VPC.
//
// https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads
// https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
package lambdahttp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/terrapulse/terrapulse/internal/people/middleware"
)

// MaxAnswer is how large the answer of an invocation can be, in bytes. It is JSON with the body in base64,
// so a body can have three quarters of this.
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
const MaxAnswer = 6 << 20

// Handler makes a handler of HTTP requests the handler of a Lambda function. It implements lambda.Handler.
type Handler struct{ http.Handler }

// Invoke answers one request.
func (h Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	var format struct{ Version string }
	if err := json.Unmarshal(payload, &format); err != nil {
		return nil, fmt.Errorf("read the invocation: %w", err)
	}
	read, write := fromGateway, toGateway
	if format.Version == "2.0" { // a REST API sends no version
		read, write = fromURL, toURL
	}
	q, err := read(payload)
	if err != nil {
		return nil, fmt.Errorf("read the invocation: %w", err)
	}
	r, err := q.http(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the HTTP request of the invocation: %w", err)
	}
	a := newAnswer()
	h.ServeHTTP(a, r)
	if r.Method == http.MethodHead {
		a.body.Reset()
	}
	sent, err := json.Marshal(write(a))
	if err != nil || len(sent) <= MaxAnswer {
		return sent, err
	}
	a = newAnswer()
	middleware.Fail(a, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the answer is larger than the %d MB that a Lambda function can return: send the header Accept-Encoding: gzip, "+
		"or request less, for example a list in parts (limit, after) or the output of a run in chunks (output?offset=0)", MaxAnswer>>20))
	return json.Marshal(write(a))
}

// request is what both payload formats say about a request.
type request struct {
	caller, address           string // the ARN that IAM has authenticated, and the IP address
	method, host, path, query string
	header                    http.Header
	body                      string
	inBase64                  bool
}

// fromURL reads the request of a function URL.
func fromURL(payload []byte) (request, error) {
	var event events.LambdaFunctionURLRequest
	if err := json.Unmarshal(payload, &event); err != nil {
		return request{}, err
	}
	header := http.Header{}
	for name, value := range event.Headers {
		header.Set(name, value)
	}
	if len(event.Cookies) > 0 {
		header.Set("Cookie", strings.Join(event.Cookies, "; "))
	}
	caller := ""
	if a := event.RequestContext.Authorizer; a != nil && a.IAM != nil {
		caller = a.IAM.UserARN
	}
	at := event.RequestContext
	return request{caller, at.HTTP.SourceIP, at.HTTP.Method, at.DomainName, event.RawPath, event.RawQueryString, header, event.Body, event.IsBase64Encoded}, nil
}

// fromGateway reads the request of a REST API.
func fromGateway(payload []byte) (request, error) {
	var event events.APIGatewayProxyRequest
	if err := json.Unmarshal(payload, &event); err != nil {
		return request{}, err
	}
	header := http.Header{}
	for name, values := range event.MultiValueHeaders {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	at, query := event.RequestContext, url.Values(event.MultiValueQueryStringParameters)
	return request{at.Identity.UserArn, at.Identity.SourceIP, event.HTTPMethod, at.DomainName, event.Path, query.Encode(), header, event.Body, event.IsBase64Encoded}, nil
}

// callerKey is the key of the caller in the context of a request.
type callerKey struct{}

// CallerARN returns the ARN of the caller that IAM has authenticated; "" if there is none.
func CallerARN(ctx context.Context) string {
	arn, _ := ctx.Value(callerKey{}).(string)
	return arn
}

// http returns the request for a handler.
func (q request) http(ctx context.Context) (*http.Request, error) {
	var body io.Reader = strings.NewReader(q.body)
	if q.inBase64 {
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	to := "https://" + q.host + q.path
	if q.query != "" {
		to += "?" + q.query
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx, callerKey{}, q.caller), q.method, to, body)
	if err != nil {
		return nil, err
	}
	r.Header, r.RemoteAddr = q.header, q.address
	return middleware.WithID(r), nil
}

// answer is an http.ResponseWriter that keeps what is written.
type answer struct {
	header http.Header
	status int // 0 until it is written
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: http.Header{}} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// finish returns the status and the body, which is always in base64: it can be compressed. The front computes
// the length itself.
func (a *answer) finish() (status int, body string) {
	a.WriteHeader(http.StatusOK)
	a.header.Del("Content-Length")
	return a.status, base64.StdEncoding.EncodeToString(a.body.Bytes())
}

// toURL returns an answer for a function URL.
func toURL(a *answer) any {
	status, body := a.finish()
	out := events.LambdaFunctionURLResponse{StatusCode: status, Headers: map[string]string{}, Body: body, IsBase64Encoded: true, Cookies: a.header.Values("Set-Cookie")}
	for name, values := range a.header {
		if name != "Set-Cookie" {
			out.Headers[name] = strings.Join(values, ", ")
		}
	}
	return out
}

// toGateway returns an answer for a REST API.
func toGateway(a *answer) any {
	status, body := a.finish()
	return events.APIGatewayProxyResponse{StatusCode: status, MultiValueHeaders: a.header, Body: body, IsBase64Encoded: true}
}
