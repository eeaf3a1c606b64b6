package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ecs"

	"github.com/terrapulse/terrapulse/internal/base/awsenv"
)

// ecsAccount is an account as ECS shows it. ECS creates its role with the first cluster.
type ecsAccount struct {
	unknown  int                // requests until ECS can assume the role
	faults   []http.HandlerFunc // what the first requests get instead of an answer
	denies   bool               // ECS denies to create clusters
	busy     int                // requests until the probe can be deleted
	limit    time.Duration      // until the function gives up a request; 0: as it is
	requests []string
	clusters []string
}

func (a *ecsAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fail := func(code, message string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":%q,"message":%q}`, code, message)
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	a.requests = append(a.requests, operation)
	if len(a.faults) > 0 {
		fault := a.faults[0]
		a.faults = a.faults[1:]
		fault(w, r)
		return
	}
	switch {
	case a.denies:
		fail("AccessDeniedException", "not authorized")
	case operation == "CreateCluster" && a.unknown > 0:
		a.unknown--
		fail("InvalidParameterException", "Unable to assume the service linked role. Please verify that the ECS service linked role exists.")
	case operation == "CreateCluster":
		a.clusters = append(a.clusters, string(body))
		fmt.Fprint(w, `{"cluster":{"status":"PROVISIONING"}}`)
	case operation == "DeleteCluster" && a.busy > 0:
		a.busy--
		fail("UpdateInProgressException", "the cluster is being created")
	case operation == "DeleteCluster":
		a.clusters = nil
		fmt.Fprint(w, `{"cluster":{"status":"INACTIVE"}}`)
	}
}

func (a *ecsAccount) deploy(t *testing.T, kind cfn.RequestType) error {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	cfg := configFor(t, server.URL)
	if a.limit > 0 {
		cfg.HTTPClient = awsenv.HTTPClient(a.limit)
	}
	l := &linkedRole{ECS: ecs.NewFromConfig(cfg), Patience: 10 * time.Second, Known: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	if a.denies || a.unknown > 100 {
		l.Known = 100 * time.Millisecond
	}
	_, _, err := l.handle(t.Context(), cfn.Event{RequestType: kind, ResourceProperties: map[string]any{"Probe": "terrapulse-probe"}})
	return err
}

// configFor is the configuration that the function has, with all services at one address, and shorter pauses.
func configFor(t *testing.T, address string) aws.Config {
	t.Helper()
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	cfg, err := config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg.BaseEndpoint = &address
	cfg.Retryer = func() aws.Retryer { // as often, but sooner
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = awsenv.Retryer().MaxAttempts(), time.Millisecond
		})
	}
	return cfg
}

// In an account that has never used ECS, the cluster is created after ECS can assume its role.
func TestLinkedRole_FirstDeploymentWaitsUntilECSCanAssumeItsRole(t *testing.T) {
	a := &ecsAccount{unknown: 2, busy: 1}
	if err := a.deploy(t, cfn.RequestCreate); err != nil {
		t.Fatal(err)
	}
	if want := []string{"CreateCluster", "CreateCluster", "CreateCluster", "DeleteCluster", "DeleteCluster"}; !slices.Equal(a.requests, want) {
		t.Errorf("requests: %v, want %v", a.requests, want)
	}
	if a.unknown > 0 || len(a.clusters) > 0 {
		t.Errorf("still unknown for %d requests, clusters that stay: %v", a.unknown, a.clusters)
	}
}

// What AWS answers for once does not end a deployment.
func TestLinkedRole_OutlivesAMoodOfECS(t *testing.T) {
	for name, fault := range moods {
		t.Run(name, func(t *testing.T) {
			// More often than the SDK repeats a request.
			a := &ecsAccount{faults: slices.Repeat([]http.HandlerFunc{fault}, 1+awsenv.Retryer().MaxAttempts()), unknown: 1}
			if name == "no answer within the limit" {
				a.limit = 200 * time.Millisecond
			}
			if err := a.deploy(t, cfn.RequestCreate); err != nil {
				t.Fatal(err)
			}
			if len(a.clusters) > 0 || a.unknown > 0 {
				t.Errorf("%v", a.requests)
			}
		})
	}
}

// moods are answers of AWS that pass.
var moods = map[string]http.HandlerFunc{
	"throttling": func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Target") != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"ThrottlingException","message":"Rate exceeded"}`)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>Request limit exceeded.</Message></Error></Errors></Response>`)
	},
	"an error of its own":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	"a connection that breaks": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"no answer within the limit": func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	},
}

func TestLinkedRole_FailsIfECSNeverAssumesIt(t *testing.T) {
	a := &ecsAccount{unknown: 1000}
	if err := a.deploy(t, cfn.RequestCreate); err == nil || !strings.Contains(err.Error(), "deploy again") {
		t.Errorf("%v", err)
	}
}

// A stack that is there has shown that ECS can assume the role, and a deletion does not touch what
// the account shares.
func TestLinkedRole_LaterRequestsTryNothing(t *testing.T) {
	for _, kind := range []cfn.RequestType{cfn.RequestUpdate, cfn.RequestDelete} {
		a := &ecsAccount{}
		if err := a.deploy(t, kind); err != nil || len(a.requests) > 0 {
			t.Errorf("%s: %v, %v", kind, err, a.requests)
		}
	}
}

// An organization may forbid to create clusters with other names or without its tags. The role may
// exist all the same.
func TestLinkedRole_WithoutRightsTheClusterOfTheStackDecides(t *testing.T) {
	a := &ecsAccount{denies: true}
	if err := a.deploy(t, cfn.RequestCreate); err != nil || slices.Contains(a.requests, "DeleteCluster") {
		t.Errorf("%v, %v", err, a.requests)
	}
}
