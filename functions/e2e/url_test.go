//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The hosts of function URLs and of REST APIs. No name server knows them: programs reach
// them through a proxy.
const (
	urlHosts     = "*.lambda-url." + ecstest.Region + ".on.aws"
	gatewayHosts = "*.execute-api." + ecstest.Region + ".amazonaws.com"
)

// gatewayHost is in the address of a REST API. Its requests have the stage in their path.
var gatewayHost = regexp.MustCompile(`\.execute-api\.` + ecstest.Region + `\.amazonaws\.com(/terrapulse/)?$`)

// gatewayLimit is how long API Gateway waits for a function.
const gatewayLimit = 29 * time.Second

// functionURL is the address of the function api, a function URL or a REST API: it checks the
// signature of each request, as AWS does, and hands the request with the name of the caller to
// the function.
type functionURL struct {
	c   *cloud
	env map[string]string // of a program that uses it

	mu       sync.Mutex
	callers  map[string]caller           // by access key
	policies map[string]rehearsal.Policy // of callers, by access key; others may call every operation
	throttle bool
	requests map[string]int // that were handed to the function
}

// caller is a principal with credentials.
type caller struct {
	aws.Credentials
	arn string
}

// ann may use the function URL.
var ann = caller{aws.Credentials{AccessKeyID: "AKIAANN", SecretAccessKey: "secret of Ann", SessionToken: "session of Ann"}, "arn:aws:iam::123456789012:user/ann"}

// eve may use the function URL. No grant names her.
var eve = caller{aws.Credentials{AccessKeyID: "AKIAEVE", SecretAccessKey: "secret of Eve", SessionToken: "session of Eve"}, "arn:aws:iam::123456789012:user/eve"}

// bob may use the function URL, too.
var bob = caller{aws.Credentials{AccessKeyID: "AKIABOB", SecretAccessKey: "secret of Bob", SessionToken: "session of Bob"}, "arn:aws:iam::123456789012:user/bob"}

// environ is what a program needs to call AWS as this caller.
func (c caller) environ() map[string]string {
	return map[string]string{"AWS_ACCESS_KEY_ID": c.AccessKeyID, "AWS_SECRET_ACCESS_KEY": c.SecretAccessKey, "AWS_SESSION_TOKEN": c.SessionToken}
}

// serveURL serves the function URL.
func (c *cloud) serveURL(callers ...caller) *functionURL {
	c.t.Helper()
	f := newFunctionURL(c.t, callers...)
	f.serve(c)
	return f
}

// serve lets the URL belong to a deployment.
func (f *functionURL) serve(c *cloud) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.c = c
}

// newFunctionURL serves the function URL of a deployment that is made later.
func newFunctionURL(t testing.TB, callers ...caller) *functionURL {
	t.Helper()
	f := &functionURL{callers: map[string]caller{}, requests: map[string]int{}}
	for _, caller := range callers {
		f.callers[caller.AccessKeyID] = caller
	}
	authority := testtools.NewAuthority(t)
	cert, err := tls.LoadX509KeyPair(authority.Server("function", urlHosts, gatewayHosts))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(f)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	proxy := httptest.NewServer(tunnel(server.Listener.Addr().String()))
	t.Cleanup(proxy.Close)
	f.env = map[string]string{"HTTPS_PROXY": proxy.URL, "SSL_CERT_FILE": authority.CA}
	return f
}

// tunnel is a proxy that connects to one address, whatever host is asked for.
func tunnel(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		to, err := net.Dial("tcp", address)
		if err != nil || r.Method != http.MethodConnect {
			http.Error(w, "cannot connect", http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer from.Close()
		io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(to, from); to.Close() }()
		io.Copy(from, to)
	}
}

func (f *functionURL) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	refuse := func(status int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]string{"message": message})
	}
	by, problem := f.signedBy(r, body)
	if gatewayHost.MatchString(r.Host) {
		r.URL.Path, r.URL.RawPath = strings.TrimPrefix(r.URL.Path, "/terrapulse"), strings.TrimPrefix(r.URL.RawPath, "/terrapulse")
	}
	if problem != "" {
		refuse(http.StatusForbidden, problem)
		return
	}
	f.mu.Lock()
	throttle, c := f.throttle, f.c
	policy, limited := f.policies[by.AccessKeyID]
	if !throttle {
		f.requests[r.Method+" "+r.URL.Path]++
	}
	f.mu.Unlock()
	if throttle {
		refuse(http.StatusTooManyRequests, "Rate Exceeded.")
		return
	}
	if limited && slices.Contains(policy.Judge(c.t, rehearsal.Limits{}, c.ofAPI(r)...), false) {
		refuse(http.StatusForbidden, "User: "+by.arn+" is not authorized to access this resource")
		return
	}
	status, header, said, err := c.handOn(r, body, by)
	if errors.Is(err, context.DeadlineExceeded) {
		refuse(http.StatusGatewayTimeout, "Endpoint request timed out")
		return
	}
	if err != nil {
		refuse(http.StatusBadGateway, "Internal Server Error")
		return
	}
	for name, value := range header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	w.Write(said)
}

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=(\w+)/\d{8}/` + ecstest.Region + `/(lambda|execute-api)/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=`)

// signedBy returns the caller who has signed the request, or why AWS refuses it.
func (f *functionURL) signedBy(r *http.Request, body []byte) (by caller, problem string) {
	said := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	service := "lambda"
	if gatewayHost.MatchString(r.Host) {
		service = "execute-api"
	}
	if said == nil || said[2] != service {
		return by, "Missing Authentication Token"
	}
	f.mu.Lock()
	by, known := f.callers[said[1]]
	f.mu.Unlock()
	if !known {
		return by, "The security token included in the request is invalid."
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(at).Abs() > 5*time.Minute {
		return by, "Signature expired"
	}
	if by.CanExpire && time.Now().After(by.Expires) {
		return by, "The security token included in the request is expired"
	}
	again := r.Clone(r.Context())
	again.URL.Scheme, again.URL.Host = "https", r.Host
	again.Header = http.Header{}
	for _, name := range strings.Split(said[3], ";") {
		if value := r.Header.Values(name); value != nil && !slices.Contains([]string{"x-amz-date", "x-amz-security-token"}, name) {
			again.Header[http.CanonicalHeaderKey(name)] = value
		}
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), by.Credentials, again, hex.EncodeToString(hash[:]), service, ecstest.Region, at); err != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		return by, "The request signature we calculated does not match the signature you provided."
	}
	return by, ""
}

// limit gives a caller a policy.
func (f *functionURL) limit(by caller, to rehearsal.Policy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.policies = map[string]rehearsal.Policy{by.AccessKeyID: to}
}

// expire has credentials of a caller end now.
func (f *functionURL) expire(by caller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	by.CanExpire, by.Expires = true, time.Now()
	f.callers[by.AccessKeyID] = by
}

func (f *functionURL) throttled(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.throttle = yes
}

// passed returns how many requests were handed to the function.
func (f *functionURL) passed() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.requests)
}

// handOn hands a request to the function, as Lambda or API Gateway does.
func (c *cloud) handOn(r *http.Request, body []byte, by caller) (status int, header map[string]string, said []byte, err error) {
	event, ctx := eventOfURL(r, body, by), c.t.Context()
	if c.gateway {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, gatewayLimit)
		defer end()
		event = eventOfGateway(r, body, by)
	}
	payload, err := json.Marshal(event)
	if err != nil {
		return 0, nil, nil, err
	}
	answer, err := c.lambda.invoke(ctx, c.api, payload)
	if err != nil {
		return 0, nil, nil, err
	}
	// The fields of the format 1.0. API Gateway refuses all others.
	var sent struct {
		StatusCode        int
		Headers           map[string]string
		MultiValueHeaders map[string][]string
		Body              string
		IsBase64Encoded   bool
	}
	decoder := json.NewDecoder(bytes.NewReader(answer))
	if c.gateway {
		decoder.DisallowUnknownFields()
	}
	if err := decoder.Decode(&sent); err != nil {
		return 0, nil, nil, fmt.Errorf("malformed answer: %w: %q", err, answer)
	}
	header = map[string]string{}
	maps.Copy(header, sent.Headers)
	for name, values := range sent.MultiValueHeaders {
		header[name] = strings.Join(values, ", ")
	}
	said = []byte(sent.Body)
	if sent.IsBase64Encoded {
		if said, err = base64.StdEncoding.DecodeString(sent.Body); err != nil {
			return 0, nil, nil, err
		}
	}
	c.mu.Lock()
	c.sent += len(said)
	c.mu.Unlock()
	return sent.StatusCode, header, said, nil
}

// eventOfURL is the payload of a function URL.
func eventOfURL(r *http.Request, body []byte, by caller) any {
	event := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery,
		Headers: map[string]string{}, Body: base64.StdEncoding.EncodeToString(body), IsBase64Encoded: true}
	for name, values := range r.Header {
		event.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	event.RequestContext.DomainName = r.Host
	event.RequestContext.HTTP.Method, event.RequestContext.HTTP.Path, event.RequestContext.HTTP.SourceIP = r.Method, r.URL.Path, "198.51.100.7"
	event.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
		IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: by.arn}}
	return event
}

// eventOfGateway is the payload of a REST API with the binary media type */*.
func eventOfGateway(r *http.Request, body []byte, by caller) any {
	event := events.APIGatewayProxyRequest{Resource: "/{proxy+}", Path: r.URL.EscapedPath(), HTTPMethod: r.Method,
		Headers: map[string]string{}, MultiValueHeaders: map[string][]string{}, QueryStringParameters: map[string]string{}, MultiValueQueryStringParameters: r.URL.Query(),
		PathParameters: map[string]string{"proxy": strings.TrimPrefix(r.URL.Path, "/")},
		Body:           base64.StdEncoding.EncodeToString(body), IsBase64Encoded: true}
	for name, values := range r.Header {
		event.Headers[name], event.MultiValueHeaders[name] = values[len(values)-1], values
	}
	for name, values := range r.URL.Query() {
		event.QueryStringParameters[name] = values[len(values)-1]
	}
	event.RequestContext.DomainName, event.RequestContext.Stage, event.RequestContext.Path = r.Host, "terrapulse", "/terrapulse"+r.URL.EscapedPath()
	event.RequestContext.Identity.UserArn, event.RequestContext.Identity.SourceIP = by.arn, "198.51.100.7"
	return event
}
