package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/terrapulse/terrapulse/internal/aws/lambdahttp"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/access"
	"github.com/terrapulse/terrapulse/internal/people/api"
	"github.com/terrapulse/terrapulse/internal/record/state/statetest"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestNewHandler_WithTheEnvironmentOfTheTemplate(t *testing.T) {
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	for _, act := range []string{"*", ""} { // everybody, and nobody
		if _, err := newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=prod-table", "TERRAPULSE_BUNDLE=s3://prod/terrapulse",
			"TERRAPULSE_RECONCILE_FUNCTION=prod-reconcile", "TERRAPULSE_CLUSTER=arn:aws:ecs:eu-west-1:111122223333:cluster/prod", "TERRAPULSE_LOG_GROUPS=/terrapulse/prod", "TERRAPULSE_ACT_ARNS=" + act}, io.Discard); err != nil {
			t.Error(err)
		}
	}
	_, err := newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "TERRAPULSE_RECONCILE_FUNCTION") || !strings.Contains(err.Error(), "TERRAPULSE_BUNDLE") {
		t.Errorf("said %v", err)
	}
}

func TestInTime_RequestEndsBeforeTheInvocation(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), reserve+50*time.Millisecond)
	defer cancel()
	began := time.Now()
	inTime(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		if !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
			t.Error(r.Context().Err())
		}
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	if left := reserve + 50*time.Millisecond - time.Since(began); left < reserve/2 {
		t.Errorf("%s are left to answer", left)
	}
}

// fronts return the payloads with which a function URL and a REST API of API Gateway invoke the function.
var fronts = map[string]func(caller, method, path string) any{
	"function URL": func(caller, method, path string) any {
		request := events.LambdaFunctionURLRequest{Version: "2.0", RawPath: path}
		request.RequestContext.HTTP.Method = method
		request.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
			IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: caller}}
		return request
	},
	"REST API": func(caller, method, path string) any {
		request := events.APIGatewayProxyRequest{HTTPMethod: method, Path: path}
		request.RequestContext.Identity.UserArn = caller
		return request
	},
}

func TestWho_IsTheCallerOfIAM(t *testing.T) {
	const ann = "arn:aws:iam::123456789012:user/ann"
	unauthenticated := events.LambdaFunctionURLRequest{Version: "2.0"} // a front without IAM
	unauthenticated.RequestContext.HTTP.Method = http.MethodGet
	for name, tt := range map[string]struct {
		payload any
		want    string
	}{
		"function URL":    {fronts["function URL"](ann, http.MethodGet, "/"), ann},
		"REST API":        {fronts["REST API"](ann, http.MethodGet, "/"), ann},
		"unauthenticated": {unauthenticated, "the API"},
	} {
		var said string
		send(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { said = who(r).Name }), tt.payload)
		if said != tt.want {
			t.Errorf("%s: %q, want %q", name, said, tt.want)
		}
	}
}

// none are no grants.
func none(context.Context) (roles.Policy, error) { return roles.Policy{}, nil }

// send invokes the function.
func send(t *testing.T, handler http.Handler, payload any) (status int, body string) {
	t.Helper()
	in, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	out, err := lambdahttp.Handler{Handler: handler}.Invoke(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var said events.APIGatewayProxyResponse // status and body are the same in both formats
	if err := json.Unmarshal(out, &said); err != nil {
		t.Fatal(err)
	}
	text, err := base64.StdEncoding.DecodeString(said.Body)
	if err != nil {
		t.Fatal(err)
	}
	return said.StatusCode, string(text)
}

// refuse says which role an operation of the API needs.
func refuse(r *http.Request) error {
	return api.New(api.Options{Control: &control.Control{Store: statetest.NewMemory(), Now: time.Now, Base: func(context.Context) (*config.Config, error) { return &config.Config{}, nil }}, Log: slog.New(slog.DiscardHandler)}).Refuse(r)
}

func TestAllowed_GrantsOfTheBundleDecide(t *testing.T) {
	var act settings.Principals
	if err := act.UnmarshalText([]byte("*")); err != nil {
		t.Fatal(err)
	}
	policy := roles.Policy{Groups: map[string][]string{"network": {"arn:aws:iam::123456789012:role/NetOps"}}, Grants: []roles.Grant{
		{Roles: []roles.Role{roles.Operate}, To: []string{"group:network"}, Tasks: []string{"firewall-*"}},
		{Roles: []roles.Role{roles.View}, To: []string{"arn:aws:iam::123456789012:user/bob"}},
	}}
	var failed error
	handle := allowed(act, func(context.Context) (roles.Policy, error) { return policy, failed }, refuse,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, access.Of(r.Context()).Rights) }))
	const ann, bob, eve = "arn:aws:sts::123456789012:assumed-role/NetOps/ann", "arn:aws:iam::123456789012:user/bob", "arn:aws:sts::123456789012:assumed-role/Other/NetOps"
	for _, tt := range []struct {
		caller, method, path string
		status               int
		says                 string
	}{
		{ann, "POST", "/v1/tasks/firewall-1/run", 200, "view (firewall-*), operate (firewall-*)"},
		{bob, "GET", "/v1/overview", 200, "view"},
		{bob, "POST", "/v1/tasks/firewall-1/run", 403, bob + " may view, but needs the role operate for task firewall-1: "},
		{bob, "POST", "/v1/tasks/firewall-1/approval", 403, bob + " may view, but needs the role approve for task firewall-1: "},
		{bob, "POST", "/v1/pause", 403, bob + " may view, but needs the role administer for all tasks: "},
		{eve, "POST", "/v1/pause", 403, eve + " needs the role administer for all tasks, and has none: "},
		{eve, "GET", "/v1/overview", 403, eve + " needs the role view, and has none: an administrator can give it with a grant in api.access"}, // whatever ActArns says
		{eve, "GET", "/v1/health", 200, "no role"},
	} {
		for front, payload := range fronts {
			if status, said := send(t, handle, payload(tt.caller, tt.method, tt.path)); status != tt.status || !strings.Contains(said, tt.says) {
				t.Errorf("%s: %s %s by %s: %d %s", front, tt.method, tt.path, tt.caller, status, said)
			}
		}
	}
	failed = errors.New("no answer from S3")
	if status, said := send(t, handle, fronts["REST API"](ann, "GET", "/v1/overview")); status != 500 || !strings.Contains(said, "find out what "+ann+" may do: no answer from S3") {
		t.Errorf("%d %s", status, said)
	}
	if status, said := send(t, handle, fronts["REST API"](ann, "GET", "/v1/health")); status != 200 || said != "no role" {
		t.Errorf("%d %s", status, said)
	}
}

func TestAllowed_OthersMayOnlyRead(t *testing.T) {
	var act settings.Principals
	if err := act.UnmarshalText([]byte("arn:aws:iam::123456789012:role/NetworkOperator")); err != nil {
		t.Fatal(err)
	}
	var level string
	handle := allowed(act, none, refuse, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { level = access.Of(r.Context()).Rights.String() }))
	for _, tt := range []struct {
		caller, method string
		status         int
		level          string
	}{
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/ann", http.MethodPost, http.StatusOK, "view, operate, approve, administer"},
		{"arn:aws:sts::123456789012:assumed-role/NetworkOperator/ann", http.MethodGet, http.StatusOK, "view, operate, approve, administer"},
		{"arn:aws:iam::123456789012:user/bob", http.MethodGet, http.StatusOK, "view"},
		{"arn:aws:iam::123456789012:user/bob", http.MethodPost, http.StatusForbidden, ""},
		{"arn:aws:iam::123456789012:user/bob", http.MethodPatch, http.StatusForbidden, ""},
		{"arn:aws:iam::123456789012:user/bob", http.MethodDelete, http.StatusForbidden, ""},
		{"", http.MethodPost, http.StatusForbidden, ""},
	} {
		for front, payload := range fronts {
			level = ""
			status, text := send(t, handle, payload(tt.caller, tt.method, "/v1/tasks/web"))
			if status != tt.status || level != tt.level || (tt.status == http.StatusForbidden) != strings.Contains(text, "ActArns") {
				t.Errorf("%s: %s by %q: %d %s, with %s", front, tt.method, tt.caller, status, text, level)
			}
		}
	}
}
