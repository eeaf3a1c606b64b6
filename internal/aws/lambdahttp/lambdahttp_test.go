package lambdahttp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// The payloads are shortened examples of AWS.
// https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-request-payload
// https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html#api-gateway-simple-proxy-for-lambda-input-format
const (
	ofURL = `{"version": "2.0", "routeKey": "$default", "rawPath": "/v1/tasks/a%%20b/plan", "rawQueryString": "wait=true&label=a%%3Db&label=c",
		"cookies": ["one=1", "two=2"], "headers": {"if-none-match": "\"a\", \"b\"", "x-amzn-trace-id": "Root=1", "content-type": "application/json"},
		"requestContext": {"accountId": "123456789012", "authorizer": {"iam": {"accessKey": "AKIA", "userArn": "arn:aws:iam::123456789012:user/ann"}},
			"domainName": "id.lambda-url.eu-west-1.on.aws", "http": {"method": "%s", "path": "/v1/tasks/a b/plan", "sourceIp": "198.51.100.7"}},
		"body": "%s", "isBase64Encoded": %t}`
	ofGateway = `{"resource": "/{proxy+}", "path": "/v1/tasks/a%%20b/plan", "httpMethod": "%s",
		"headers": {"cookie": "two=2", "if-none-match": "\"b\""},
		"multiValueHeaders": {"cookie": ["one=1; two=2"], "if-none-match": ["\"a\", \"b\""], "X-Amzn-Trace-Id": ["Root=1"], "content-type": ["application/json"]},
		"queryStringParameters": {"wait": "true", "label": "c"}, "multiValueQueryStringParameters": {"wait": ["true"], "label": ["a=b", "c"]},
		"pathParameters": {"proxy": "v1/tasks/a b/plan"}, "stageVariables": null,
		"requestContext": {"accountId": "123456789012", "stage": "terrapulse", "path": "/terrapulse/v1/tasks/a%%20b/plan", "domainName": "id.lambda-url.eu-west-1.on.aws",
			"identity": {"accessKey": "AKIA", "userArn": "arn:aws:iam::123456789012:user/ann", "sourceIp": "198.51.100.7"}},
		"body": "%s", "isBase64Encoded": %t}`
)

// formats are the payload formats.
var formats = map[string]string{"2.0": ofURL, "1.0": ofGateway}

// returned is an answer in either format.
type returned struct {
	StatusCode        int
	Headers           map[string]string
	MultiValueHeaders map[string][]string
	Cookies           []string
	Body              string
	IsBase64Encoded   bool
}

// header returns a header as the front sends it on.
func (r returned) header(name string) string {
	if r.MultiValueHeaders != nil {
		return strings.Join(r.MultiValueHeaders[name], ", ")
	}
	return r.Headers[name]
}

func invoke(t *testing.T, ctx context.Context, payload string, handler http.HandlerFunc) (sent int, a returned, body string) {
	t.Helper()
	out, err := Handler{handler}.Invoke(ctx, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(a.Body)
	if err != nil || !a.IsBase64Encoded {
		t.Fatalf("%v: %s", err, out)
	}
	return len(out), a, string(text)
}

func TestHandler_ReadsBothPayloadFormats(t *testing.T) {
	for format, event := range formats {
		for _, inBase64 := range []bool{true, false} {
			body := `{}`
			if inBase64 {
				body = base64.StdEncoding.EncodeToString([]byte(body))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			called := false
			invoke(t, ctx, fmt.Sprintf(event, http.MethodPost, body, inBase64), func(w http.ResponseWriter, r *http.Request) {
				called = true
				said, err := io.ReadAll(r.Body)
				if err != nil || string(said) != "{}" {
					t.Errorf("%s: the body is %q, %v", format, said, err)
				}
				for what, pair := range map[string][2]any{
					"method": {r.Method, "POST"}, "path": {r.URL.Path, "/v1/tasks/a b/plan"}, "wait": {r.URL.Query()["wait"], []string{"true"}},
					"label": {r.URL.Query()["label"], []string{"a=b", "c"}}, "etag": {r.Header.Get("If-None-Match"), `"a", "b"`},
					"type": {r.Header.Get("Content-Type"), "application/json"}, "address": {r.RemoteAddr, "198.51.100.7"}, "host": {r.Host, "id.lambda-url.eu-west-1.on.aws"},
					"caller": {CallerARN(r.Context()), "arn:aws:iam::123456789012:user/ann"},
				} {
					if !reflect.DeepEqual(pair[0], pair[1]) {
						t.Errorf("%s: %s is %q, want %q", format, what, pair[0], pair[1])
					}
				}
				for name, want := range map[string]string{"one": "1", "two": "2"} {
					if c, err := r.Cookie(name); err != nil || c.Value != want {
						t.Errorf("%s: cookie %s: %v, %v", format, name, c, err)
					}
				}
				if at, ok := r.Context().Deadline(); !ok || time.Until(at) > time.Hour {
					t.Errorf("%s: the deadline of the invocation is lost", format)
				}
			})
			if !called {
				t.Errorf("%s: no request", format)
			}
		}
	}
}

func TestHandler_WritesBothPayloadFormats(t *testing.T) {
	binary := string([]byte{0x1f, 0x8b, 0, 0xff})
	for format, event := range formats {
		for _, tt := range []struct {
			method string
			handle http.HandlerFunc
			status int
			body   string
		}{
			{http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, binary) }, 200, binary},
			{http.MethodGet, func(http.ResponseWriter, *http.Request) {}, 200, ""},
			{http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, 304, ""},
			{http.MethodHead, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "text") }, 200, ""},
			{http.MethodPost, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "refused", http.StatusForbidden) }, http.StatusForbidden, "refused\n"},
		} {
			_, a, body := invoke(t, t.Context(), fmt.Sprintf(event, tt.method, "", false), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", `"a"`)
				w.Header().Add("Vary", "Accept")
				w.Header().Add("Vary", "Accept-Encoding")
				w.Header().Set("Content-Length", "4")
				for _, name := range []string{"one", "two"} {
					http.SetCookie(w, &http.Cookie{Name: name, Value: "1"})
				}
				tt.handle(w, r)
			})
			if a.StatusCode != tt.status || body != tt.body || a.header("Etag") != `"a"` || a.header("Vary") != "Accept, Accept-Encoding" || a.header("Content-Length") != "" {
				t.Errorf("%s, %s: %+v with %q", format, tt.method, a, body)
			}
			cookies := a.Cookies // of format 2.0, where they are no header
			if format == "1.0" {
				cookies = a.MultiValueHeaders["Set-Cookie"]
			}
			if len(cookies) != 2 || a.Headers["Set-Cookie"] != "" {
				t.Errorf("%s: cookies %q in %+v", format, cookies, a)
			}
		}
	}
}

// AWS refuses a larger answer, and the client learns nothing.
func TestHandler_AnswerOverTheLimitOfLambdaIsAnError(t *testing.T) {
	for format, event := range formats {
		payload := fmt.Sprintf(event, http.MethodGet, "", false)
		of := func(size int) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)) }
		}
		around, _, _ := invoke(t, t.Context(), payload, of(0))
		most := (MaxAnswer - around) / 4 * 3 // base64 has 4 characters for 3 bytes
		sent, a, body := invoke(t, t.Context(), payload, of(most))
		if a.StatusCode != http.StatusOK || len(body) != most || sent > MaxAnswer || sent < MaxAnswer-3 {
			t.Errorf("%s: %d bytes are answered with %d and %d bytes of %d", format, most, a.StatusCode, len(body), sent)
		}
		_, a, body = invoke(t, t.Context(), payload, of(most+1))
		var said struct {
			Error     struct{ Message string }
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(body), &said); err != nil || a.StatusCode != http.StatusRequestEntityTooLarge || said.RequestID == "" ||
			!strings.Contains(said.Error.Message, "larger than the 6 MB that a Lambda function can return") || !strings.Contains(said.Error.Message, "a list in parts (limit, after)") {
			t.Errorf("%s: one byte more is answered with %d %q, %v", format, a.StatusCode, body, err)
		}
	}
}

func TestHandler_RefusesWhatIsNoRequest(t *testing.T) {
	for _, payload := range []string{"", "[]", `{"version": "2.0", "headers": []}`, `{"httpMethod": "A B"}`} {
		if _, err := (Handler{http.NotFoundHandler()}).Invoke(t.Context(), []byte(payload)); err == nil {
			t.Errorf("%s: no error", payload)
		}
	}
}
