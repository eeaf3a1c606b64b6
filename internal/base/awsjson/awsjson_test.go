package awsjson

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// server answers requests with the answers, one after the other, and remembers
// the requests.
func server(t *testing.T, answers ...http.HandlerFunc) (cfg aws.Config, requests *[]*http.Request, bodies *[]string) {
	t.Helper()
	requests, bodies = new([]*http.Request), new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*requests, *bodies = append(*requests, r), append(*bodies, string(body))
		answers[min(len(*requests), len(answers))-1](w, r)
	}))
	t.Cleanup(s.Close)
	return aws.Config{Region: "eu-west-1", BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "session"),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 3, time.Millisecond })
		}}, requests, bodies
}

func answer(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-RequestId", "r-1")
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

func TestCall_SignsTheRequestAndDecodesTheAnswer(t *testing.T) {
	cfg, requests, bodies := server(t, answer(200, `{"FailedEntryCount":2}`))
	var out struct{ FailedEntryCount int }
	if err := New(cfg).Call(t.Context(), PutEvents, "eu-central-1", map[string]int{"a": 1}, &out); err != nil {
		t.Fatal(err)
	}
	r := (*requests)[0]
	authorization := r.Header.Get("Authorization")
	if out.FailedEntryCount != 2 || r.Header.Get("X-Amz-Target") != "AWSEvents.PutEvents" || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" ||
		r.Header.Get("X-Amz-Security-Token") != "session" || (*bodies)[0] != `{"a":1}` ||
		!strings.HasPrefix(authorization, "AWS4-HMAC-SHA256 Credential=id/") || !strings.Contains(authorization, "/eu-central-1/events/aws4_request, SignedHeaders=") {
		t.Errorf("answer %+v of %s %v", out, (*bodies)[0], r.Header)
	}
}

func TestCall_RepeatsWhatMayPass(t *testing.T) {
	throttled := answer(400, `{"__type":"com.amazon.coral.availability#ThrottlingException"}`)
	for _, tt := range []struct {
		name     string
		answers  []http.HandlerFunc
		requests int
		code     string
	}{
		{"throttled, then taken", []http.HandlerFunc{throttled, answer(200, "{}")}, 2, ""},
		{"an internal error, then taken", []http.HandlerFunc{answer(500, "oops"), answer(200, "{}")}, 2, ""},
		{"a connection that breaks, then taken", []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, answer(200, "{}")}, 2, ""},
		{"always throttled", []http.HandlerFunc{throttled}, 3, "ThrottlingException"},
		{"denied", []http.HandlerFunc{answer(400, `{"__type":"AccessDeniedException","Message":"no"}`)}, 1, "AccessDeniedException"},
	} {
		cfg, requests, bodies := server(t, tt.answers...)
		err := New(cfg).Call(t.Context(), PutEvents, "", map[string]int{"a": 1}, &struct{}{})
		api := smithy.APIError(nil)
		if errors.As(err, &api) != (tt.code != "") || tt.code != "" && api.ErrorCode() != tt.code || len(*requests) != tt.requests || (*bodies)[len(*bodies)-1] != `{"a":1}` {
			t.Errorf("%s: after %d requests %v", tt.name, len(*requests), err)
		}
	}
}

func TestCall_ErrorsAreThoseOfTheSDK(t *testing.T) {
	cfg, _, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-ErrorType", "ParameterNotFound:http://internal.amazon.com/coral/")
		answer(400, `{"message":"no such parameter"}`)(w, nil)
	})
	err := New(cfg).Call(t.Context(), GetParameter, "", nil, &struct{}{})
	if want := "operation error SSM: GetParameter, https response error StatusCode: 400, RequestID: r-1, api error ParameterNotFound: no such parameter"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if response := new(smithyhttp.ResponseError); !errors.As(err, &response) || response.HTTPStatusCode() != 400 {
		t.Errorf("%v has no status", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cfg, requests, _ := server(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if err := New(cfg).Call(ctx, PutEvents, "", nil, &struct{}{}); !errors.Is(err, context.Canceled) || len(*requests) != 1 {
		t.Errorf("after its context ended: %v, %d requests", err, len(*requests))
	}
	cfg.BaseEndpoint = aws.String("http://127.0.0.1:1")
	if err := New(cfg).Call(t.Context(), PutEvents, "", nil, &struct{}{}); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("without an answer: %v", err)
	}
}

func TestEndpoint_IsTheOneOfTheSDKInEveryPartition(t *testing.T) {
	ofSecrets, ofDynamoDB := secretsmanager.NewDefaultEndpointResolverV2(), dynamodb.NewDefaultEndpointResolverV2()
	for _, region := range []string{"eu-west-1", "us-east-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "eusc-de-east-1"} {
		for _, c := range []struct{ fips, dual bool }{{}, {fips: true}, {dual: true}, {true, true}} {
			client := New(aws.Config{Region: region})
			if c.fips {
				client.sdk.EndpointOptions.UseFIPSEndpoint = aws.FIPSEndpointStateEnabled
			}
			if c.dual {
				client.sdk.EndpointOptions.UseDualStackEndpoint = aws.DualStackEndpointStateEnabled
			}
			wants := map[string]string{}
			// In other partitions the SDK has hosts of dual stack besides.
			both := strings.HasPrefix(region, "eu-west") || strings.HasPrefix(region, "us-east") || strings.HasPrefix(region, "us-gov")
			if e, err := ofSecrets.ResolveEndpoint(t.Context(), secretsmanager.EndpointParameters{Region: &region, UseFIPS: &c.fips, UseDualStack: &c.dual}); err == nil && (both || !c.dual) {
				wants["secretsmanager"] = e.URI.String() + "/"
			}
			if e, err := ofDynamoDB.ResolveEndpoint(t.Context(), dynamodb.EndpointParameters{Region: &region, UseFIPS: &c.fips, UseDualStack: &c.dual}); err == nil {
				wants["dynamodb"] = e.URI.String()
			}
			for service, want := range wants {
				if got, err := client.endpoint(t.Context(), service, region); err != nil || got != want {
					t.Errorf("in %s, %+v: %s, %v; want %s", region, c, got, err, want)
				}
			}
			if !c.dual && len(wants) < 2 {
				t.Errorf("in %s, %+v: the SDK has the hosts %v", region, c, wants)
			}
		}
	}
	if got, err := New(aws.Config{Region: "eu-west-1"}).endpoint(t.Context(), "cloudwatch", "eu-west-1"); err != nil || got != "https://monitoring.eu-west-1.amazonaws.com/" {
		t.Errorf("CloudWatch is at %s, %v", got, err)
	}
}

func TestEndpoint_IsConfigurable(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL_EVENTBRIDGE", "http://127.0.0.1:7001")
	t.Setenv("AWS_USE_FIPS_ENDPOINT", "true")
	env, err := config.NewEnvConfig()
	if err != nil {
		t.Fatal(err)
	}
	client := New(aws.Config{Region: "us-east-1", ConfigSources: []any{env}})
	for service, want := range map[string]string{"events": "http://127.0.0.1:7001", "ssm": "https://ssm-fips.us-east-1.amazonaws.com/"} {
		if got, err := client.endpoint(t.Context(), service, "us-east-1"); err != nil || got != want {
			t.Errorf("%s is at %s, %v", service, got, err)
		}
	}
}

func TestActions_AreOfKnownServices(t *testing.T) {
	for _, action := range []Action{GetParameter, PutEvents, DescribeEventBus, FilterLogEvents, GetQueueAttributes, DescribeAlarms, GetMetricData} {
		service, operation, _ := strings.Cut(string(action), ":")
		if services[service].target == "" || operation == "" {
			t.Errorf("%s has no service", action)
		}
	}
}
