package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/base/awsjson"
)

// ecsAccount is an account as IAM and ECS show it.
type ecsAccount struct {
	hasRole  bool
	unknown  int    // requests until ECS can assume the role
	refuses  string // what IAM denies everything with
	denies   bool   // ECS denies to create clusters
	requests []string
	clusters []string
}

func (a *ecsAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fail := func(status int, format string, args ...any) {
		w.WriteHeader(status)
		fmt.Fprintf(w, format, args...)
	}
	if _, operation, ok := strings.Cut(r.Header.Get("X-Amz-Target"), "."); ok {
		a.requests = append(a.requests, operation)
		switch {
		case a.denies:
			fail(400, `{"__type":"AccessDeniedException","message":"not authorized"}`)
		case operation == "CreateCluster" && (!a.hasRole || a.unknown > 0):
			a.unknown--
			fail(400, `{"__type":"InvalidParameterException","message":"Unable to assume the service linked role. Please verify that the ECS service linked role exists."}`)
		case operation == "CreateCluster":
			a.clusters = append(a.clusters, string(body))
			fmt.Fprint(w, `{"cluster":{"status":"PROVISIONING"}}`)
		case operation == "DeleteCluster":
			a.clusters = nil
			fmt.Fprint(w, `{"cluster":{"status":"INACTIVE"}}`)
		}
		return
	}
	in, _ := url.ParseQuery(string(body))
	a.requests = append(a.requests, in.Get("Action"))
	const answer = `<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>`
	switch {
	case in.Get("Version") != "2010-05-08" || !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/iam/"):
		fail(400, answer, "SignatureDoesNotMatch", "IAM is a global service")
	case a.refuses != "":
		fail(403, answer, "AccessDenied", a.refuses)
	case a.hasRole:
		fail(400, answer, "InvalidInput", "Service role name AWSServiceRoleForECS has been taken in this account, please try a different suffix.")
	default:
		a.hasRole = in.Get("AWSServiceName") == "ecs.amazonaws.com"
		fmt.Fprint(w, `<CreateServiceLinkedRoleResponse><CreateServiceLinkedRoleResult/></CreateServiceLinkedRoleResponse>`)
	}
}

func (a *ecsAccount) deploy(t *testing.T, kind cfn.RequestType) error {
	t.Helper()
	server := httptest.NewServer(a)
	defer server.Close()
	cfg := aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, HTTPClient: http.DefaultClient, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	l := &linkedRole{IAM: newIAM(cfg, server.URL), ECS: awsjson.New(cfg), Patience: 100 * time.Millisecond, Known: time.Second, Log: slog.New(slog.DiscardHandler)}
	_, _, err := l.handle(t.Context(), cfn.Event{RequestType: kind, ResourceProperties: map[string]any{"Probe": "terrapulse-probe"}})
	return err
}

// In an account that has never used ECS, the cluster is created after ECS can assume its role.
func TestLinkedRole_FirstDeploymentWaitsUntilECSCanAssumeItsRole(t *testing.T) {
	a := &ecsAccount{unknown: 2}
	if err := a.deploy(t, cfn.RequestCreate); err != nil {
		t.Fatal(err)
	}
	if want := []string{"CreateServiceLinkedRole", "CreateCluster", "CreateCluster", "CreateCluster", "DeleteCluster"}; !slices.Equal(a.requests, want) {
		t.Errorf("requests: %v, want %v", a.requests, want)
	}
	if !a.hasRole || a.unknown > 0 || len(a.clusters) > 0 {
		t.Errorf("role %v, still unknown for %d requests, clusters that stay: %v", a.hasRole, a.unknown, a.clusters)
	}
}

func TestLinkedRole_FailsIfECSNeverAssumesIt(t *testing.T) {
	a := &ecsAccount{unknown: 1000}
	if err := a.deploy(t, cfn.RequestCreate); err == nil || !strings.Contains(err.Error(), "deploy again") {
		t.Errorf("%v", err)
	}
}

// Other deployments do not wait, and a deletion does not touch what the account shares.
func TestLinkedRole_ExistingRoleIsFine(t *testing.T) {
	for kind, want := range map[cfn.RequestType][]string{cfn.RequestCreate: {"CreateServiceLinkedRole"}, cfn.RequestUpdate: {"CreateServiceLinkedRole"}, cfn.RequestDelete: nil} {
		a := &ecsAccount{hasRole: true}
		if err := a.deploy(t, kind); err != nil || !slices.Equal(a.requests, want) {
			t.Errorf("%s: %v, %v, want %v", kind, err, a.requests, want)
		}
	}
}

// An organization may forbid to create roles. The role may exist all the same.
func TestLinkedRole_WithoutRightsTheClusterDecides(t *testing.T) {
	a := &ecsAccount{refuses: "explicit deny in a service control policy"}
	if err := a.deploy(t, cfn.RequestCreate); err != nil || slices.Contains(a.requests, "CreateCluster") {
		t.Errorf("%v, %v", err, a.requests)
	}
	a = &ecsAccount{denies: true}
	if err := a.deploy(t, cfn.RequestCreate); err != nil || !a.hasRole {
		t.Errorf("%v, role: %v", err, a.hasRole)
	}
}

func TestIAM_HasOneRegionInEachPartition(t *testing.T) {
	for region, want := range map[string]string{"eu-west-1": "us-east-1", "cn-northwest-1": "cn-north-1", "us-gov-east-1": "us-gov-west-1"} {
		if got := newIAM(aws.Config{Region: region}, "").region; got != want {
			t.Errorf("%s signs for %s, want %s", region, got, want)
		}
	}
}
