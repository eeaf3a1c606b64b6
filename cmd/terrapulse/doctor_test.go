package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// stackFaults are what is wrong with the services of a fakeStack.
type stackFaults struct {
	noLog   string // suffix of the name of a log group that does not exist
	denied  string // suffix of an operation that the user may not call
	noTicks bool
	noEvent bool // the bucket sends no events
	alarms  string
	dead    int // messages in the dead-letter queue
}

// serveJSON is CloudWatch, its logs, and SQS.
func (d *fakeStack) serveJSON(w http.ResponseWriter, target string, body []byte) {
	refuse := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":%q,"message":"refused by the test"}`, code)
	}
	if d.aws.denied != "" && strings.HasSuffix(target, d.aws.denied) {
		refuse("AccessDeniedException")
		return
	}
	var in struct{ LogGroupName, NextToken, AlarmNamePrefix, QueueUrl string }
	if err := json.Unmarshal(body, &in); err != nil {
		d.t.Error(err)
	}
	var out any
	switch _, operation, _ := strings.Cut(target, "."); operation {
	case "FilterLogEvents":
		if d.aws.noLog != "" && strings.HasSuffix(in.LogGroupName, d.aws.noLog) {
			refuse("ResourceNotFoundException")
			return
		}
		page := map[string]any{"events": []map[string]string{{"message": in.LogGroupName + in.NextToken + ": " + d.log}}}
		if in.NextToken == "" {
			page["nextToken"] = "page2"
		}
		out = page
	case "GetMetricData":
		values := []float64{1, 1}
		if d.aws.noTicks {
			values = nil
		}
		out = map[string]any{"MetricDataResults": []any{map[string]any{"Id": "ticks", "Values": values}}}
	case "DescribeAlarms":
		alarms := []map[string]string{{"AlarmName": in.AlarmNamePrefix + "NoGoodTick-1X2Y", "StateValue": "OK"}, {"AlarmName": in.AlarmNamePrefix + "2-NoGoodTick-1X2Y", "StateValue": "ALARM"}}
		if d.aws.alarms != "" {
			alarms[0]["StateValue"] = d.aws.alarms
		}
		out = map[string]any{"MetricAlarms": alarms}
	case "GetQueueAttributes":
		out = map[string]any{"Attributes": map[string]string{"ApproximateNumberOfMessages": fmt.Sprint(d.aws.dead)}}
	default:
		d.t.Errorf("%s was called", target)
	}
	if err := json.NewEncoder(w).Encode(out); err != nil {
		d.t.Error(err)
	}
}

// serveBucket is S3, as far as doctor reads it.
func (d *fakeStack) serveBucket(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("notification") {
		http.NotFound(w, r)
		return
	}
	events := "<EventBridgeConfiguration></EventBridgeConfiguration>"
	if d.aws.noEvent {
		events = ""
	}
	fmt.Fprintf(w, `<NotificationConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</NotificationConfiguration>`, events)
}

func TestDoctor_ExaminesTheServicesAroundTheFunctions(t *testing.T) {
	d := newFakeStack(t, nil)
	d.answer = func(req invoke.Request) (invoke.Answer, error) {
		if req.Mode == invoke.Doctor {
			return invoke.Answer{Mode: req.Mode, Enabled: "web", Version: "v1.4.0"}, nil
		}
		id := fmt.Sprint("r", len(d.asked))
		return invoke.Answer{Mode: req.Mode, Runs: []invoke.Run{d.run("web", id, state.Run{Kind: state.KindPlan, State: state.RunSucceeded, Claimed: state.Claimed{Version: "v1.4.0", Runner: "c1"}})}}, nil
	}
	api := newStandIn(t)
	api.answers["GET /v1/version"] = `200 {"version":"v1.4.0","sender":"arn:aws:iam::123456789012:user/ann"}`
	d.api.Store(api.URL)
	d.runs(exitOK, "doctor -stack=prod", "names you arn:aws:iam::123456789012:user/ann", "2 ticks in the last", "1 alarms, none is active", "files sends events to EventBridge",
		"the queue is empty", "log stream runner/runner/c1", "got ECS's event about the container")

	for fault, want := range map[stackFaults]string{
		{noTicks: true}:   "metrics: CloudWatch knows no tick",
		{alarms: "ALARM"}: "alarms: in alarm: NoGoodTick",
		{noEvent: true}:   "bucket: bucket files sends no events to EventBridge",
		{dead: 3}:         "dead letters: 3 events could not be delivered",
	} {
		d.aws = fault
		d.runs(exitError, "doctor -stack=prod -quick", want, "To fix it: ")
	}
	d.aws = stackFaults{}
	for answer, want := range map[string]string{
		`403 {"Message":"Forbidden"}`: "To fix it: your AWS user needs lambda:InvokeFunctionUrl",
		`200 {"version":"v1.4.0"}`:    "does not say who its caller is",
	} {
		api.answers["GET /v1/version"] = answer
		d.runs(exitError, "doctor -stack=prod -quick", want)
	}

	// What the user may not see is no problem of the deployment.
	d.api.Store("")
	d.aws = stackFaults{denied: "DescribeAlarms"}
	out := d.runs(exitOK, "doctor -stack=prod -quick", "not checked: the stack has no HTTP API (Api=none)")
	if !strings.Contains(out, "alarms        skipped") {
		t.Errorf("a check that is not allowed is shown as\n%s", out)
	}
}
