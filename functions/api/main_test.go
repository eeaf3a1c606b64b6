package main

import (
	"context"
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
	"github.com/aws/aws-lambda-go/lambdaurl"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/terrapulse/terrapulse/internal/invoke/function"
)

func TestNewHandler_WithTheEnvironmentOfTheTemplate(t *testing.T) {
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	if _, err := newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=prod-table", "TERRAPULSE_BUNDLE=s3://prod/terrapulse",
		"TERRAPULSE_RECONCILE_FUNCTION=prod-reconcile", "TERRAPULSE_CLUSTER=arn:aws:ecs:eu-west-1:111122223333:cluster/prod", "TERRAPULSE_RUNNER_LOG=/terrapulse/prod/runner"}, io.Discard); err != nil {
		t.Error(err)
	}
	_, err := newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "TERRAPULSE_RECONCILE_FUNCTION") || !strings.Contains(err.Error(), "TERRAPULSE_BUNDLE") {
		t.Errorf("said %v", err)
	}
}

// stub simulates functions/reconcile.
func stub(t *testing.T, answer func(w http.ResponseWriter, asked string)) function.Function {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, r.Header.Get("X-Amz-Invocation-Type")+" "+string(body))
	}))
	t.Cleanup(server.Close)
	return function.Function{Name: "reconcile", Client: lambda.New(lambda.Options{Region: "eu-west-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: aws.NopRetryer{}})}
}

func TestInspect_InvokesTheReconcileFunction(t *testing.T) {
	var asked string
	f := stub(t, func(w http.ResponseWriter, said string) {
		asked = said
		fmt.Fprint(w, `{"mode":"inspect","runs":[{"task":"web","run":"1","launch":"2","state":"intended"}]}`)
	})
	planned, err := inspect(f)(t.Context(), "web", nil)
	if err != nil || planned.Task != "web" || planned.ID != "1" || asked != `RequestResponse {"mode":"inspect","tasks":["web"]}` {
		t.Errorf("%+v, %v; asked for %s", planned, err, asked)
	}
	if _, err := inspect(f)(t.Context(), "web", json.RawMessage(`{"name":"web"}`)); err != nil || asked != `RequestResponse {"mode":"inspect","draft":{"name":"web"}}` {
		t.Errorf("%v; asked for %s", err, asked)
	}

	for says, answer := range map[string]func(http.ResponseWriter, string){
		"function reconcile: no bundle": func(w http.ResponseWriter, _ string) {
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			fmt.Fprint(w, `{"errorMessage":"no bundle"}`)
		},
		"has started 0 runs: Consul is gone":    func(w http.ResponseWriter, _ string) { fmt.Fprint(w, `{"mode":"inspect","problem":"Consul is gone"}`) },
		"read the answer of function reconcile": func(w http.ResponseWriter, _ string) { fmt.Fprint(w, `null and void`) },
		"start an inspection of task web":       func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusForbidden) },
	} {
		if _, err := inspect(stub(t, answer))(t.Context(), "web", nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("said %v, want %s", err, says)
		}
	}
}

func TestWake_FailedInvocationDoesNotLoseAChange(t *testing.T) {
	var log, asked strings.Builder
	f := stub(t, func(w http.ResponseWriter, said string) {
		asked.WriteString(said)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	wake(f, slog.New(slog.NewTextHandler(&log, nil)))(t.Context())
	if !strings.Contains(log.String(), "waits for the next tick") || asked.String() != `Event {"mode":"reconcile","ended":true}` {
		t.Errorf("logged %q; asked for %s", log.String(), asked.String())
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
