//go:build linux

package e2e

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
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

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// urlHost is the host of the function URL. No name server knows it: programs reach it
// through a proxy.
const urlHost = "id.lambda-url." + ecstest.Region + ".on.aws"

// functionURL is the URL of the function api: it checks the signature of each request,
// as AWS does, and hands the request with the name of the caller to the function.
type functionURL struct {
	c   *cloud
	env map[string]string // of a program that uses it

	mu       sync.Mutex
	callers  map[string]caller // by access key
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
	cert, err := tls.LoadX509KeyPair(authority.Server("function", urlHost))
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
	if problem != "" {
		refuse(http.StatusForbidden, problem)
		return
	}
	f.mu.Lock()
	throttle, c := f.throttle, f.c
	if !throttle {
		f.requests[r.Method+" "+r.URL.Path]++
	}
	f.mu.Unlock()
	if throttle {
		refuse(http.StatusTooManyRequests, "Rate Exceeded.")
		return
	}
	status, header, said, err := c.handOn(r, body, by)
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

var authorization = regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=(\w+)/\d{8}/` + ecstest.Region + `/lambda/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=`)

// signedBy returns the caller who has signed the request, or why AWS refuses it.
func (f *functionURL) signedBy(r *http.Request, body []byte) (by caller, problem string) {
	said := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if said == nil {
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
	for _, name := range strings.Split(said[2], ";") {
		if value := r.Header.Values(name); value != nil && !slices.Contains([]string{"x-amz-date", "x-amz-security-token"}, name) {
			again.Header[http.CanonicalHeaderKey(name)] = value
		}
	}
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), by.Credentials, again, hex.EncodeToString(hash[:]), "lambda", ecstest.Region, at); err != nil || again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		return by, "The request signature we calculated does not match the signature you provided."
	}
	return by, ""
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

// handOn hands a request to the function, as Lambda does.
func (c *cloud) handOn(r *http.Request, body []byte, by caller) (status int, header map[string]string, said []byte, err error) {
	request := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery,
		Headers: map[string]string{}, Body: base64.StdEncoding.EncodeToString(body), IsBase64Encoded: true}
	for name, values := range r.Header {
		request.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	request.RequestContext.DomainName = urlHost
	request.RequestContext.HTTP.Method, request.RequestContext.HTTP.Path, request.RequestContext.HTTP.SourceIP = r.Method, r.URL.Path, "198.51.100.7"
	request.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
		IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: by.arn}}
	payload, err := json.Marshal(request)
	if err != nil {
		return 0, nil, nil, err
	}
	answer, err := c.lambda.invoke(c.t.Context(), c.api, payload)
	if err != nil {
		return 0, nil, nil, err
	}
	var sent events.LambdaFunctionURLResponse
	if err := json.Unmarshal(answer, &sent); err != nil {
		return 0, nil, nil, fmt.Errorf("%w: %q", err, answer)
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
	return sent.StatusCode, sent.Headers, said, nil
}
