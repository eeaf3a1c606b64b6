package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/record/runlog"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
)

func TestADeploymentIsLookedAtFromALaptop(t *testing.T) {
	endpoint := dynamotest.Start(t)
	table := dynamotest.Table(t, endpoint)
	backend := s3mem.New()
	if err := backend.CreateBucket("outputs"); err != nil {
		t.Fatal(err)
	}
	bucket := httptest.NewServer(gofakes3.New(backend).Server())
	defer bucket.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_CONFIG_FILE": "none", "AWS_SHARED_CREDENTIALS_FILE": "none", "AWS_REGION": "",
		"AWS_ENDPOINT_URL_DYNAMODB": endpoint, "AWS_ENDPOINT_URL_S3": bucket.URL,
	} {
		t.Setenv(name, value)
	}
	cfg, err := awsconfig.ForCommand(t.Context(), dynamotest.Region)
	if err != nil {
		t.Fatal(err)
	}
	url, err := runlog.Bucket{Client: s3.NewFromConfig(cfg), Location: s3url.URL{Bucket: "outputs", Prefix: "logs"}}.Save(t.Context(), "web", "r1", []byte("Apply complete!\n"), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	run := state.Run{ID: "r1", Task: "web", Kind: state.KindApply, State: state.RunSucceeded, Created: now, Times: state.Times{Started: now, Ended: now}, Work: state.Work{Output: state.Kept{URL: url}}}
	store := dynamo.New(cfg, table)
	_, err = store.Apply(t.Context(),
		state.Create(state.RunKey("web", "r1"), state.Encode(run)),
		state.Create(state.TaskKey("web"), state.Encode(state.Task{Applied: state.Applied{At: now}, Ended: state.Ended{IDs: []string{"r1"}, Last: run.Result()}})),
		state.Create(state.ReconcileKey, state.Encode(state.Reconcile{Bundle: "0123456789abcdef", LastSuccess: now})))
	if err != nil {
		t.Fatal(err)
	}

	d := &fakeStack{t: t}
	flag := "-store=dynamodb://" + table + "?region=" + dynamotest.Region
	empty := "-store=dynamodb://" + dynamotest.Table(t, endpoint) + "?region=" + dynamotest.Region
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status", flag}, exitOK, "Bundle: 0123456789ab"},
		{[]string{"runs", flag, "web"}, exitOK, "succeeded"},
		{[]string{"logs", flag, "web"}, exitOK, "Apply complete!"},
		{[]string{"logs", flag, "nope"}, exitError, `no task and no run "nope"`},
		{[]string{"status", "-store=dynamodb://" + table}, exitConfig, "no AWS region is set"},
		{[]string{"status", "-store=dynamodb://nope?region=eu-west-1"}, exitError, "check its name and the region"},
		{[]string{"status", "-store=dynamodb://"}, exitConfig, "names no table"},
		{[]string{"status", "-store=dynamodb://x?zone=1"}, exitConfig, "unknown parameter zone"},
		{[]string{"start", flag, "-config-file=none.hcl"}, exitConfig, ""},
		{[]string{"restore", empty, "-from=sqlite:none"}, exitError, "none"},
		{[]string{"restore", empty, "-from=elsewhere"}, exitFlags, "unknown kind of store"},
		{[]string{"restore", empty, "-from=" + strings.TrimPrefix(flag, "-store=")}, exitOK, "1 task runs once more"},
		{[]string{"status", empty}, exitOK, "aused by"},
		{[]string{"runs", empty, "web"}, exitOK, "succeeded"},
		{[]string{"restore", empty, "-json"}, exitOK, `"tasks": 1`},
	} {
		code, out, errs := d.command(tt.args...)
		if code != tt.code || !strings.Contains(out+errs, tt.says) {
			t.Errorf("%v: %d\n%s%s", tt.args, code, out, errs)
		}
	}
}
