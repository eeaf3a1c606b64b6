package apiclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/clienttls"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// answer starts a server that gives one answer to everything, and keeps what
// it was asked last.
type answer struct {
	*httptest.Server
	status int
	body   string
	header http.Header

	request *http.Request
	got     string
}

func (a *answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.request, a.got = r, string(body)
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

func serve(t *testing.T, status int, body string) *answer {
	t.Helper()
	a := &answer{status: status, body: body}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func client(t *testing.T, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRequestsAreThoseOfTheAPI(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		what           string
		ask            func(*Client) error
		method, target string
		body           string
	}{
		{"inspect", func(c *Client) error {
			_, err := c.InspectTask(ctx, apispec.Task{Name: "a", Condition: apispec.Condition{}, Module: "./m"})
			return err
		},
			"POST", "/v1/tasks?run=inspect", `{"task":{"condition":{},"module":"./m","name":"a"}}`},
		{"create", func(c *Client) error {
			return c.CreateTask(ctx, apispec.Task{Name: "a", Condition: apispec.Condition{}, Module: "./m"})
		},
			"POST", "/v1/tasks?run=now", `{"task":{"condition":{},"module":"./m","name":"a"}}`},
		{"inspect enable", func(c *Client) error { _, err := c.InspectEnable(ctx, "a"); return err },
			"PATCH", "/v1/tasks/a?run=inspect", `{"enabled":true}`},
		{"enable", func(c *Client) error { return c.EnableTask(ctx, "a") }, "PATCH", "/v1/tasks/a?run=now", `{"enabled":true}`},
		{"disable", func(c *Client) error { return c.DisableTask(ctx, "a") }, "PATCH", "/v1/tasks/a", `{"enabled":false}`},
		{"delete", func(c *Client) error { _, err := c.DeleteTask(ctx, "a"); return err }, "DELETE", "/v1/tasks/a", ""},
		{"a name with a slash", func(c *Client) error { return c.DisableTask(ctx, "a/../b") }, "PATCH", "/v1/tasks/a%2F%2E%2E%2Fb", `{"enabled":false}`},
		{"a name that leads elsewhere", func(c *Client) error { _, err := c.DeleteTask(ctx, ".."); return err }, "DELETE", "/v1/tasks/%2E%2E", ""},
	} {
		server := serve(t, 200, "{}")
		if err := test.ask(client(t, Options{Address: server.URL})); err != nil {
			t.Errorf("%s: %v", test.what, err)
		}
		if got := server.request.Method + " " + server.request.RequestURI; got != test.method+" "+test.target {
			t.Errorf("%s asks for %s, want %s %s", test.what, got, test.method, test.target)
		}
		if server.got != test.body {
			t.Errorf("%s sends\n%s, want\n%s", test.what, server.got, test.body)
		}
		if test.body != "" && server.request.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s says nothing of JSON: %v", test.what, server.request.Header)
		}
	}
}

func TestAnAddressMayHaveAPathAndNeedsNoScheme(t *testing.T) {
	server := serve(t, 200, `{"tasks":[{"name":"b"},{"name":"a"}]}`)
	names, err := client(t, Options{Address: strings.TrimPrefix(server.URL, "http://") + "/cts/"}).TaskNames(t.Context())
	if err != nil || fmt.Sprint(names) != "[a b]" {
		t.Errorf("tasks are %v, %v", names, err)
	}
	if got := server.request.RequestURI; got != "/cts/v1/tasks" {
		t.Errorf("asked for %s", got)
	}
	for address, want := range map[string]string{
		"unix:///run/api.sock": "only http and https", "https://": "names no host", "": "names no host", "http://[": "is not a valid URL"} {
		if _, err := New(Options{Address: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("address %q: %v, want it to say %s", address, err, want)
		}
	}
}

func TestRefusalsReadAsInBothOfTheClientsThatScriptsKnow(t *testing.T) {
	ctx := t.Context()
	create := func(c *Client) error { return c.CreateTask(ctx, apispec.Task{}) }
	disable := func(c *Client) error { return c.DisableTask(ctx, "a") }
	for _, test := range []struct {
		ask    func(*Client) error
		status int
		body   string
		want   string
	}{
		{create, 400, `{"error":{"message":"task with name c1 already exists"},"request_id":"8f1c"}`,
			"400 Bad Request: task with name c1 already exists, see logs for more details (Request ID: 8f1c)"},
		{disable, 404, `{"error":{"message":"a task with name 'a' does not exist or has not been initialized yet"},"request_id":"8f1c"}`,
			"request returned 404 status code with error: a task with name 'a' does not exist or has not been initialized yet"},
		{create, 401, `{"error":{"message":"the token is not valid"},"request_id":"8f1c"}`, "401 Unauthorized: the token is not valid"},
		{create, 403, `{"error":{"message":"ann needs the role administer"},"request_id":"8f1c"}`, "403 Forbidden: ann needs the role administer"},
		{create, 409, `{"error":{"message":"task 'a' is disabled"},"request_id":"8f1c"}`, "409 Conflict: task 'a' is disabled"},
		{create, 500, `{"error":{"message":"it broke"},"request_id":"8f1c"}`, "500 Internal Server Error: it broke, see logs for more details (Request ID: 8f1c)"},
		{create, 404, "404 page not found\n", "404 Not Found: 404 page not found"},
		{disable, 502, "", "request returned 502 status code with error: the server gives no reason"},
		{create, 503, `{"Message":"throttled"}`, "503 Service Unavailable: throttled"},
	} {
		server := serve(t, test.status, test.body)
		err := test.ask(client(t, Options{Address: server.URL}))
		if err == nil || err.Error() != test.want {
			t.Errorf("answer %d %s is reported as\n%v, want\n%s", test.status, test.body, err, test.want)
		}
		var refused *Error
		if !errors.As(err, &refused) || refused.Status != test.status {
			t.Errorf("%v is no refusal with status %d", err, test.status)
		}
	}
}

func TestTheNoteOfADeletionIsReturned(t *testing.T) {
	server := serve(t, 202, `{"request_id":"1"}`)
	server.header = http.Header{"Terrapulse-Note": {"it will come back"}}
	note, err := client(t, Options{Address: server.URL}).DeleteTask(t.Context(), "a")
	if err != nil || note != "it will come back" {
		t.Errorf("note %q, %v", note, err)
	}
}

func TestTheWrongSchemeIsExplained(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := serve(t, 200, "{}")
	dropping := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, _ := w.(http.Hijacker).Hijack()
		conn.Close()
	}))
	defer dropping.Close()
	for _, test := range []struct{ address, want string }{
		{strings.Replace(secure.URL, "https", "http", 1), "give its address with https://"},
		{strings.Replace(plain.URL, "http", "https", 1), "give its address with http://"},
		{dropping.URL, "EOF"},
		{secure.URL, "-ca-cert"},
		{"http://127.0.0.1:1", "is the program running there"},
	} {
		err := client(t, Options{Address: test.address}).DisableTask(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want it to say %s", test.address, err, test.want)
		}
	}
}

func TestARequestThatIsLedElsewhereIsNotTakenForDone(t *testing.T) {
	behind := serve(t, 200, `{"request_id":"1","tasks":[]}`)
	for _, test := range []struct {
		status int
		method string // that comes to the other server; none if ""
	}{{301, ""}, {302, ""}, {303, ""}, {307, "PATCH"}, {308, "PATCH"}} {
		behind.request = nil
		front := serve(t, test.status, "")
		front.header = http.Header{"Location": {behind.URL + "/v1/tasks/a"}}
		err := client(t, Options{Address: front.URL}).DisableTask(t.Context(), "a")
		switch {
		case test.method == "" && (err == nil || !strings.Contains(err.Error(), behind.URL)):
			t.Errorf("%d: %v, want it to name %s", test.status, err, behind.URL)
		case test.method == "" && behind.request != nil:
			t.Errorf("%d: it was followed with %s", test.status, behind.request.Method)
		case test.method != "" && (err != nil || behind.request.Method != test.method || behind.got != `{"enabled":false}`):
			t.Errorf("%d: %v", test.status, err)
		}
	}
}

func TestTLSIsAsAsked(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") }))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authorities := filepath.Join(dir, "authorities")
	if err := os.Mkdir(authorities, 0o700); err != nil {
		t.Fatal(err)
	}
	cert := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "PRIVATE KEY", key)
	write("authorities/ca.pem", "CERTIFICATE", server.Certificate().Raw)

	mutual := Options{Address: server.URL, Options: clienttls.Options{Cert: certFile, Key: keyFile}}
	with := func(change func(*Options)) Options { o := mutual; change(&o); return o }
	for what, o := range map[string]Options{
		"the authority's file": with(func(o *Options) { o.CACert = certFile }),
		"a folder of them":     with(func(o *Options) { o.CAPath = authorities }),
		"no verification":      with(func(o *Options) { o.SkipVerify = true }),
	} {
		if err := client(t, o).DisableTask(t.Context(), "a"); err != nil {
			t.Errorf("with %s: %v", what, err)
		}
	}
	err = client(t, Options{Address: server.URL, Options: clienttls.Options{CACert: certFile}}).DisableTask(t.Context(), "a")
	if err == nil || !strings.Contains(err.Error(), "-client-cert") {
		t.Errorf("without a client certificate: %v", err)
	}
	for what, o := range map[string]Options{
		"a certificate without its key": {Address: server.URL, Options: clienttls.Options{Cert: certFile}},
		"a folder without certificates": {Address: server.URL, Options: clienttls.Options{CAPath: t.TempDir()}},
		"a file that is not there":      {Address: server.URL, Options: clienttls.Options{CACert: filepath.Join(dir, "none.pem")}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

// roundTrip is a transport of a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRequestsToAWSAreSigned(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	t.Setenv("AWS_PROFILE", "")
	for _, tt := range []struct{ address, scope, path, rights string }{
		{"https://abc123.lambda-url.eu-central-1.on.aws/", "eu-central-1/lambda", "/v1/tasks/a", "lambda:InvokeFunctionUrl and lambda:InvokeFunction on"},
		{"https://abc123.execute-api.eu-central-1.amazonaws.com/terrapulse/", "eu-central-1/execute-api", "/terrapulse/v1/tasks/a", "execute-api:Invoke on"},
		{"https://abc123-vpce-0a1b.execute-api.us-gov-west-1.amazonaws.com/terrapulse", "us-gov-west-1/execute-api", "/terrapulse/v1/tasks/a", "execute-api:Invoke on"},
		{"https://abc123.execute-api.cn-north-1.amazonaws.com.cn/terrapulse/", "cn-north-1/execute-api", "/terrapulse/v1/tasks/a", "execute-api:Invoke on"},
	} {
		c := client(t, Options{Address: tt.address, Token: "not for AWS"})
		s, ok := c.http.Transport.(*signer)
		if !ok {
			t.Fatalf("%s: the client does not sign", tt.address)
		}
		var sent *http.Request
		s.next = roundTrip(func(r *http.Request) (*http.Response, error) {
			sent = r
			body, _ := io.ReadAll(r.Body)
			if string(body) != `{"enabled":false}` {
				t.Errorf("body is %s", body)
			}
			return &http.Response{StatusCode: 403, Body: io.NopCloser(strings.NewReader(`{"Message":"Forbidden"}`)), Request: r}, nil
		})
		err := c.DisableTask(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), "Forbidden; these AWS credentials need "+tt.rights) {
			t.Errorf("%s: a refusal of AWS is reported as %v", tt.address, err)
		}
		want := regexp.MustCompile(`^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/\d{8}/` + tt.scope + `/aws4_request, SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-security-token, Signature=[0-9a-f]{64}$`)
		if got := sent.Header.Get("Authorization"); !want.MatchString(got) || sent.URL.Path != tt.path {
			t.Errorf("%s: authorization is %q for %s", tt.address, got, sent.URL)
		}
		if sent.Header.Get("X-Amz-Security-Token") != "session" {
			t.Errorf("%s: the session's token is not sent", tt.address)
		}
	}
}

func TestNothingIsSignedForOtherHosts(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, address := range []string{"https://abc.lambda-url.eu-central-1.on.aws.example.com", "https://example.com/abc.lambda-url.eu-central-1.on.aws",
		"https://abc.execute-api.eu-central-1.amazonaws.com.example.com", "https://a.b.execute-api.eu-central-1.amazonaws.com/"} {
		if _, signs := client(t, Options{Address: address}).http.Transport.(*signer); signs {
			t.Errorf("requests to %s are signed", address)
		}
	}
	c := client(t, Options{Address: "https://abc.lambda-url.eu-central-1.on.aws"})
	elsewhere := serve(t, 200, "{}")
	s := c.http.Transport.(*signer)
	s.next = roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == elsewhere.Listener.Addr().String() {
			return http.DefaultTransport.RoundTrip(r)
		}
		return &http.Response{StatusCode: 307, Header: http.Header{"Location": {elsewhere.URL}}, Body: http.NoBody, Request: r}, nil
	})
	if err := c.DisableTask(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := elsewhere.request.Header.Get("Authorization"); got != "" {
		t.Errorf("a signature was taken along: %q", got)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client(t, Options{Address: silent.URL}).EnableTask(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestOverview_SameAnswerIsNotSentAgain(t *testing.T) {
	sent := 0
	tag := `W/"a"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		sent++
		fmt.Fprintf(w, `{"healthy":true,"tasks":[],"overrides":[],"bundle":%q}`, tag)
	}))
	defer server.Close()
	c := client(t, Options{Address: server.URL})
	for want, tags := range []string{`W/"a"`, `W/"a"`, `W/"b"`, `W/"b"`} {
		tag = tags
		o, err := c.Overview(t.Context(), selection.Selection{})
		if err != nil || apispec.Deref(o.Bundle) != tag || sent != want/2+1 {
			t.Errorf("%s: %+v, %v, sent %d times", tag, o, err, sent)
		}
	}
}

func TestClient_PlainHTTPToHTTPSKeepsTheServersWords(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	_, err := client(t, Options{Address: "http://" + server.Listener.Addr().String()}).TaskNames(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Client sent an HTTP request to an HTTPS server") || !strings.Contains(err.Error(), "give its address with https://") {
		t.Errorf("error %v", err)
	}
}

func TestClient_ReadsTheOverviewInParts(t *testing.T) {
	all := func() apispec.Overview {
		o := apispec.Overview{Overrides: []apispec.Override{}}
		for i := range 2500 {
			o.Tasks = append(o.Tasks, apispec.TaskOverview{Name: fmt.Sprintf("task-%04d", i)})
		}
		return o
	}
	var asked []string
	older := false
	c := Local(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		s, err := selection.Parse(r.URL.Query())
		o := all()
		if err == nil && !older { // an older version does not know the parameters
			err = s.Apply(&o)
		}
		if err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(o)
	}))
	for _, older = range []bool{false, true} {
		for limit, want := range map[int]int{-1: 2500, 3000: 2500, 1500: 1500, 7: 7, 0: 0} {
			asked = nil
			var s selection.Selection
			if limit >= 0 {
				s = s.First(limit)
			}
			var names []string
			for o, err := range c.Overviews(t.Context(), s) {
				if err != nil || len(o.Tasks) > selection.MaxLimit || o.Counts.All != 2500 {
					t.Fatalf("%v, %d tasks of %+v", err, len(o.Tasks), o.Counts)
				}
				for _, task := range o.Tasks {
					names = append(names, task.Name)
				}
			}
			if len(names) != want || !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != want {
				t.Errorf("limit %d: %d tasks in %d parts, want %d", limit, len(names), len(asked), want)
			}
			if parts := max(1, (want+selection.MaxLimit-1)/selection.MaxLimit); len(asked) != parts {
				t.Errorf("limit %d: %d requests %q, want %d", limit, len(asked), asked, parts)
			}
		}
	}
}
