package main

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/terraformcli"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestStates_AreReadWhereTerraformHasWrittenThem(t *testing.T) {
	s := newStack(t, s3Backend("S3"), good)
	at := terraformcli.S3Object{Bucket: "states", Key: "env:/t0/state", Region: "eu-central-1", Endpoint: s.env["AWS_ENDPOINT_URL_S3"], PathStyle: true, AccessKey: "a", SecretKey: "b"}
	if got, err := (states{s.client}).read(t.Context(), at); got != nil || err != nil {
		t.Errorf("before the first run: %q, %v", got, err)
	}
	s.launch("l1")
	var out testtools.Output
	if err := s.container("l1", &out).Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if run := s.run("l1", "t0"); run.State != state.RunSucceeded {
		t.Fatalf("%+v\n%s", run, &out)
	}
	got, err := states{s.client}.read(t.Context(), at)
	if err != nil || !strings.Contains(string(got), `"lineage"`) {
		t.Errorf("%q, %v", got, err)
	}
	at.Bucket = "none"
	if got, err := (states{s.client}).read(t.Context(), at); err == nil {
		t.Errorf("of a bucket that does not exist: %q", got)
	}
}
