package function_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/function"
)

func TestTick_DoesNotWaitForTheAnswer(t *testing.T) {
	var path, kind string
	var payload []byte
	status := http.StatusAccepted
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, kind = r.URL.Path, r.Header.Get("X-Amz-Invocation-Type")
		payload, _ = io.ReadAll(r.Body)
		if status != http.StatusAccepted {
			w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		}
		w.WriteHeader(status)
	}))
	defer s.Close()
	client := lambda.NewFromConfig(aws.Config{Region: "eu-west-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
	f := function.Function{Client: client, Name: "prod-reconcile"}
	for want, tick := range map[string]func(context.Context) error{
		`{"mode":"reconcile","ended":true}`:    f.Tick,
		`{"mode":"reconcile","notified":true}`: f.Notified,
	} {
		if err := tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := invoke.Parse(payload); err != nil || string(payload) != want || kind != "Event" || path != "/2015-03-31/functions/prod-reconcile/invocations" {
			t.Errorf("%s was sent %s as %s: %v", path, payload, kind, err)
		}
	}
	status = http.StatusForbidden
	if err := f.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("said %v", err)
	}
}
