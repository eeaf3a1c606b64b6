package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

func TestRoles_RunsThatDoNotApplyHaveTheRoleForPlans(t *testing.T) {
	assumed := ""
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assumed = r.FormValue("RoleArn")
		fmt.Fprintf(w, `<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(sts.Close)
	r := roles{aws.Config{Region: "eu-west-1", BaseEndpoint: &sts.URL, Credentials: credentials.NewStaticCredentialsProvider("own", "own", "")}}
	const role = "arn:aws:iam::123456789012:role/network/lb"
	for kind, want := range map[state.Kind]string{state.KindApply: role, state.KindDestroy: role, state.KindPlan: role + "-plan", state.KindDrift: role + "-plan"} {
		_, end, err := r.assume(t.Context(), kind, role, "lb")
		if err != nil {
			t.Fatal(err)
		}
		end()
		if assumed != want {
			t.Errorf("a run of kind %s assumes %s, want %s", kind, assumed, want)
		}
	}
}
