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

// ecsAccount is an account as ECS shows it. ECS creates its role with the first cluster, and assumes it
// for a cluster with the providers of Fargate.
type ecsAccount struct {
	unknown  int  // requests until ECS can assume the role
	denies   bool // ECS denies to create clusters
	busy     int  // requests until the probe can be deleted
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
	switch {
	case a.denies:
		fail("AccessDeniedException", "not authorized")
	case operation == "CreateCluster" && a.unknown > 0 && strings.Contains(string(body), `"capacityProviders":["FARGATE"]`):
		a.unknown--
		fail("InvalidParameterException", "Unable to assume the service linked role. Please verify that the ECS service linked role exists.")
	case operation == "CreateCluster":
		a.clusters = []string{string(body)} // the same one if it exists
		fmt.Fprint(w, `{"cluster":{"status":"PROVISIONING"}}`)
	case operation == "DeleteCluster" && a.busy > 0:
		a.busy--
		fail("UpdateInProgressException", "the cluster is being created")
	case len(a.clusters) == 0:
		fail("ClusterNotFoundException", "Cluster not found.")
	case operation == "DeleteCluster":
		a.clusters = nil
		fmt.Fprint(w, `{"cluster":{"status":"INACTIVE"}}`)
	}
}

func (a *ecsAccount) deploy(t *testing.T, kind cfn.RequestType) error {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	l := &linkedRole{ECS: ecs.NewFromConfig(configFor(t, server.URL)), Patience: 10 * time.Second, Known: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
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
