package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdaurl"

	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/people/access"
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

func TestWho_IsTheCallerOfIAM(t *testing.T) {
	request := &events.LambdaFunctionURLRequest{}
	request.RequestContext.HTTP.Method = http.MethodGet
	var said string
	handle := lambdaurl.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { said = who(r).Name }))
	for want, by := range map[string]*events.LambdaFunctionURLRequestContextAuthorizerDescription{
		"the API": nil,
		"arn:aws:iam::123456789012:user/ann": {IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{
			UserARN: "arn:aws:iam::123456789012:user/ann"}},
	} {
		request.RequestContext.Authorizer = by
		response, err := handle(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		if said != want {
			t.Errorf("said %q, want %q", said, want)
		}
	}
}

func TestAllowed_OthersMayOnlyRead(t *testing.T) {
	var act settings.Principals
	if err := act.UnmarshalText([]byte("arn:aws:iam::123456789012:role/NetworkOperator")); err != nil {
		t.Fatal(err)
	}
	var level string
	handle := lambdaurl.Wrap(allowed(act, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { level = access.Of(r.Context()).Rights.String() })))
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
		level = ""
		request := &events.LambdaFunctionURLRequest{}
		request.RequestContext.HTTP.Method = tt.method
		request.RequestContext.Authorizer = &events.LambdaFunctionURLRequestContextAuthorizerDescription{
			IAM: &events.LambdaFunctionURLRequestContextAuthorizerIAMDescription{UserARN: tt.caller}}
		response, err := handle(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != tt.status || level != tt.level || (tt.status == http.StatusForbidden) != strings.Contains(string(text), "ActArns") {
			t.Errorf("%s by %q: %d %s, with %s", tt.method, tt.caller, response.StatusCode, text, level)
		}
	}
}
