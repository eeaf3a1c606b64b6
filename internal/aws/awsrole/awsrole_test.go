package awsrole

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

const role = "arn:aws:iam::123456789012:role/load-balancer"

// serveSTS serves AssumeRole for one role: the credentials of the nth request are valid for the nth time.
func serveSTS(t *testing.T, role string, valid ...time.Duration) (cfg aws.Config, asked func() int) {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") != "AssumeRole" || r.FormValue("RoleArn") != role || r.FormValue("RoleSessionName") != "terrapulse-lb" || r.FormValue("DurationSeconds") != "3600" {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error></ErrorResponse>`)
			return
		}
		i := int(n.Add(1))
		fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA%d</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			i, time.Now().Add(valid[min(i, len(valid))-1]).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(server.Close)
	return aws.Config{Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("own", "own", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} }}, func() int { return int(n.Load()) }
}

// An SDK that finds its credentials in the environment finds those of the role, whatever else is
// there.
func TestAssume_EnvironmentGivesTheCredentialsOfTheRole(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "own")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "own")
	t.Setenv("AWS_PROFILE", "own")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	cfg, asked := serveSTS(t, role, 5*time.Minute, time.Hour)
	env, end, err := Assume(t.Context(), cfg, role, "lb")
	if err != nil {
		t.Fatal(err)
	}
	if env["AWS_REGION"] != "eu-west-1" {
		t.Errorf("the region is %q", env["AWS_REGION"])
	}
	for name, value := range env {
		t.Setenv(name, value)
		if value == "" {
			os.Unsetenv(name)
		}
	}
	sdk, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Those of the first request end soon: they are renewed.
	found, err := sdk.Credentials.Retrieve(t.Context())
	if err != nil || found.AccessKeyID != "ASIA2" || found.SessionToken != "token" || !found.CanExpire {
		t.Errorf("%+v, %v", found, err)
	}
	if again, err := config.LoadDefaultConfig(t.Context()); err != nil {
		t.Error(err)
	} else if found, err := again.Credentials.Retrieve(t.Context()); err != nil || found.AccessKeyID != "ASIA2" || asked() != 2 {
		t.Errorf("%+v, %v after %d requests", found, err, asked())
	}

	// Only who has the token gets them, and only until the end.
	response, err := http.Get(env["AWS_CONTAINER_CREDENTIALS_FULL_URI"])
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("without the token: %s", response.Status)
	}
	end()
	if response, err := http.Get(env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]); err == nil {
		response.Body.Close()
		t.Errorf("after the end: %s", response.Status)
	}
}

func TestAssumeForPlan_TakesTheRoleWithPlanAtTheEndOfItsName(t *testing.T) {
	cfg, asked := serveSTS(t, "arn:aws:iam::123456789012:role/load-balancer-plan", time.Hour)
	_, end, err := AssumeForPlan(t.Context(), cfg, role, "lb")
	if err != nil || asked() != 1 {
		t.Fatalf("%v after %d requests", err, asked())
	}
	end()
}

func TestAssume_SaysWhatAllowsTheRole(t *testing.T) {
	cfg, _ := serveSTS(t, role, time.Hour)
	if _, _, err := Assume(t.Context(), cfg, role, "another"); err == nil || !strings.Contains(err.Error(), "TaskRoleArns") || !strings.Contains(err.Error(), role) {
		t.Errorf("said %v", err)
	}
	_, _, err := AssumeForPlan(t.Context(), cfg, role, "lb")
	for _, want := range []string{role + "-plan", "create it with rights to read", "output PlanRole", "TaskRoleArns must include " + role} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of a plan: want %q in %v", want, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Assume(ended, cfg, role, "lb"); err == nil {
		t.Error("assumed after the end")
	}
}

func TestSession_IsValidForSTS(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, task := range []string{"lb", "Größe", long, long + "y"} {
		if name := session(task); len(name) > 64 || notInSession.MatchString(name) {
			t.Errorf("%s: %s", task, name)
		}
	}
	if session(long) == session(long+"y") {
		t.Error("two tasks have the same session")
	}
}
