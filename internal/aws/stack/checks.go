package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/base/awsjson"
	"github.com/terrapulse/terrapulse/internal/base/delay"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/driver/builds"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/bundle"
)

const (
	// checkLimit limits one check that does not wait for something to happen.
	checkLimit = 15 * time.Second
	// metricsSpan is the time of which metrics are read. A stack that is younger may have none.
	metricsSpan = 15 * time.Minute
	// logLimit is how long a line may take to be in CloudWatch, and settleLimit how long ECS may
	// take to stop a container and to report that.
	logLimit    = time.Minute
	settleLimit = 2 * time.Minute
	linePoll    = 2 * time.Second
)

// outside are the checks that need no container.
func (s *Stack) outside() []doctor.Check {
	return []doctor.Check{
		{Name: "api", Look: s.checkAPI, Fix: "your AWS user needs lambda:InvokeFunctionUrl and lambda:InvokeFunction on the function, or with API Gateway execute-api:Invoke: " + docs.Page("reference/api.md") + ". In a region without function URLs, deploy with Api=gateway"},
		{Name: "metrics", Look: s.checkMetrics, Fix: "read the log of the reconcile function: without ticks, see the schedule in EventBridge Scheduler; with ticks, CloudWatch does not read the metrics in that log"},
		{Name: "alarms", Look: s.checkAlarms, Fix: docs.Page("operate-aws.md") + " says for each alarm what to do"},
		{Name: "bucket", Look: s.checkBucket, Fix: "turn on EventBridge in the properties of the bucket: otherwise a bundle that is pushed without -stack is in force after up to 5 minutes"},
		{Name: "providers", Look: s.checkProviders, Fix: "deploy with the other value of Architecture, or allow a version of the provider that has a build"},
		{Name: "dead letters", Look: s.checkDeadLetters, Fix: "read the messages in the queue (output DeadLetters), repair their cause, and purge the queue"},
	}
}

// ended are the checks of what AWS does when the container of a run has ended.
func (s *Stack) ended(planned state.Run) []doctor.Check {
	return []doctor.Check{
		{Name: "container log", Look: func(ctx context.Context) (string, error) { return s.checkContainerLog(ctx, planned) }, Fix: "read the log group of the containers: links and advice lead there"},
		{Name: "settle", Look: func(ctx context.Context) (string, error) { return s.checkSettle(ctx, planned) }, Fix: "read the log of the settle function, and see the rule of that function in EventBridge. Without it, passes still notice containers that died, later"},
	}
}

// checkAPI sends a request to the HTTP API. The answer names the caller as AWS does.
func (s *Stack) checkAPI(ctx context.Context) (string, error) {
	if s.outputs["ApiUrl"] == "" {
		return "", &doctor.NotCheckedError{Err: errors.New("the stack has no HTTP API (Api=none)")}
	}
	client, err := s.API(ctx, User{})
	if err != nil {
		return "", err
	}
	version, err := client.Version(ctx)
	switch refused := (*apiclient.Error)(nil); {
	case errors.As(err, &refused) && refused.Status == http.StatusForbidden:
		return "", err
	case err != nil && !errors.As(err, &refused):
		return "", &doctor.NotCheckedError{Err: err} // perhaps the network of this machine
	case err != nil:
		return "", err
	case version.Sender == nil || !strings.HasPrefix(*version.Sender, "arn:"):
		return "", errors.New("the HTTP API does not say who its caller is: decisions are recorded without a name")
	}
	return "answers, and names you " + *version.Sender, nil
}

// checkMetrics reads how many ticks CloudWatch knows of.
func (s *Stack) checkMetrics(ctx context.Context) (string, error) {
	now := time.Now()
	if age := now.Sub(s.created); age < metricsSpan {
		return "", &doctor.NotCheckedError{Err: fmt.Errorf("the stack is %s old: metrics come after some minutes", age.Round(time.Second))}
	}
	var out struct {
		MetricDataResults []struct{ Values []float64 }
	}
	err := awsjson.New(s.aws).Call(ctx, awsjson.GetMetricData, "", map[string]any{
		"StartTime": now.Add(-metricsSpan).Unix(), "EndTime": now.Unix(),
		"MetricDataQueries": []any{map[string]any{"Id": "ticks", "MetricStat": map[string]any{"Period": 60, "Stat": "Sum", "Metric": map[string]any{
			"Namespace": metrics.Namespace, "MetricName": metrics.Ticks.Name, "Dimensions": []any{map[string]string{"Name": "Stack", "Value": s.Name}},
		}}}},
	}, &out)
	if err != nil {
		return "", &doctor.NotCheckedError{Err: err}
	}
	ticks := 0.0
	for _, result := range out.MetricDataResults {
		for _, v := range result.Values {
			ticks += v
		}
	}
	if ticks == 0 {
		return "", fmt.Errorf("CloudWatch knows no tick of the last %.0f minutes", metricsSpan.Minutes())
	}
	return fmt.Sprintf("%.0f ticks in the last %.0f minutes", ticks, metricsSpan.Minutes()), nil
}

// ofStack matches what follows the name of the stack in the name of one of its alarms.
var ofStack = regexp.MustCompile(`^[A-Za-z0-9]+-[A-Za-z0-9]+$`)

// checkAlarms lists the alarms of the stack that are in the state ALARM.
func (s *Stack) checkAlarms(ctx context.Context) (string, error) {
	var out struct {
		MetricAlarms []struct{ AlarmName, StateValue string }
	}
	if err := awsjson.New(s.aws).Call(ctx, awsjson.DescribeAlarms, "", map[string]any{"AlarmNamePrefix": s.Name + "-", "MaxRecords": 100}, &out); err != nil {
		return "", &doctor.NotCheckedError{Err: err}
	}
	var all int
	var active []string
	for _, a := range out.MetricAlarms {
		name := strings.TrimPrefix(a.AlarmName, s.Name+"-")
		if !ofStack.MatchString(name) {
			continue // of another stack whose name begins in the same way
		}
		all++
		if a.StateValue == "ALARM" {
			name, _, _ = strings.Cut(name, "-")
			active = append(active, name)
		}
	}
	if len(active) > 0 {
		return "", fmt.Errorf("in alarm: %s", strings.Join(active, ", "))
	}
	return fmt.Sprintf("%d alarms, none is active", all), nil
}

// checkBucket checks that the bucket reports new bundles.
func (s *Stack) checkBucket(ctx context.Context) (string, error) {
	location, err := s.Output("BundleUrl")
	if err != nil {
		return "", err
	}
	at, err := s3url.Parse(location)
	if err != nil {
		return "", err
	}
	out, err := s3.NewFromConfig(s.aws).GetBucketNotificationConfiguration(ctx, &s3.GetBucketNotificationConfigurationInput{Bucket: &at.Bucket})
	switch {
	case err != nil:
		return "", &doctor.NotCheckedError{Err: err}
	case out.EventBridgeConfiguration == nil:
		return "", fmt.Errorf("bucket %s sends no events to EventBridge", at.Bucket)
	}
	return fmt.Sprintf("%s sends events to EventBridge", at.Bucket), nil
}

// checkProviders checks that registries have the providers of the bundle for the containers.
func (s *Stack) checkProviders(ctx context.Context) (string, error) {
	notChecked := func(err error) (string, error) { return "", &doctor.NotCheckedError{Err: err} }
	platform := s.Platform()
	if platform == "" {
		return notChecked(errors.New("the image of the containers (RunnerImage) may include the providers"))
	}
	location, err := s.Output("BundleUrl")
	if err != nil {
		return "", err
	}
	at := &bundle.Bucket{Client: s3.NewFromConfig(s.aws)}
	if at.Location, err = s3url.Parse(location); err != nil {
		return "", err
	}
	pointer, err := at.Current(ctx)
	if err == nil && pointer.Digest == "" {
		err = errors.New("nothing was pushed yet")
	}
	if err != nil {
		return notChecked(err)
	}
	dir, err := os.MkdirTemp("", "terrapulse-bundle-")
	if err != nil {
		return notChecked(err)
	}
	defer os.RemoveAll(dir)
	cfg, err := at.LoadInto(ctx, pointer.Digest, filepath.Join(dir, "files"))
	if err != nil {
		return notChecked(err)
	}
	if wrong := builds.Missing(ctx, cfg, platform, nil); len(wrong) > 0 {
		return "", errors.New(strings.Join(wrong, "; "))
	}
	return "no registry lacks a build for " + platform, nil
}

// checkDeadLetters checks that no event was given up.
func (s *Stack) checkDeadLetters(ctx context.Context) (string, error) {
	queue, err := s.Output("DeadLetters")
	if err != nil {
		return "", err
	}
	const count = "ApproximateNumberOfMessages"
	var out struct{ Attributes map[string]string }
	if err := awsjson.New(s.aws).Call(ctx, awsjson.GetQueueAttributes, "", map[string]any{"QueueUrl": queue, "AttributeNames": []string{count}}, &out); err != nil {
		return "", &doctor.NotCheckedError{Err: err}
	}
	if n := out.Attributes[count]; n != "0" {
		return "", fmt.Errorf("%s events could not be delivered or processed", n)
	}
	return "the queue is empty", nil
}

// checkContainerLog finds the log of the container, by the id that it has read from ECS.
func (s *Stack) checkContainerLog(ctx context.Context, planned state.Run) (string, error) {
	if planned.Runner == "" {
		return "", errors.New("the container could not read from ECS which task it is")
	}
	stream := ecstask.LogStream(planned.Runner)
	lines, err := s.awaitLines(ctx, logLimit, "runner", map[string]any{"logStreamNames": []string{stream}, "startTime": planned.Created.UnixMilli()})
	if err == nil && !lines {
		err = fmt.Errorf("log group %s has no line in %s", s.console().LogGroup("runner"), stream)
	}
	return "log stream " + stream, err
}

// checkSettle waits until the settle function has got ECS's event that the container has stopped.
func (s *Stack) checkSettle(ctx context.Context, planned state.Run) (string, error) {
	if planned.Runner == "" {
		return "", &doctor.NotCheckedError{Err: errors.New("the id of the container is not known")}
	}
	lines, err := s.awaitLines(ctx, settleLimit, "settle", map[string]any{"filterPattern": fmt.Sprintf("{ $.ecs_task = %q }", planned.Runner), "startTime": planned.Created.UnixMilli()})
	if err == nil && !lines {
		err = fmt.Errorf("the settle function got no event about the container within %s of its end", settleLimit)
	}
	return "got ECS's event about the container", err
}

// awaitLines waits until a log has a line that the request selects, and returns whether it has.
func (s *Stack) awaitLines(ctx context.Context, limit time.Duration, component string, in map[string]any) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	client := awsjson.New(s.aws)
	group, err := s.logGroup(component)
	if err != nil {
		return false, err
	}
	in["logGroupName"], in["limit"] = group, 1
	for {
		var out struct {
			Events    []struct{ Message string }
			NextToken string
		}
		err := client.Call(ctx, awsjson.FilterLogEvents, "", in, &out)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case isMissing(err): // the log stream may not exist yet
		case err != nil:
			return false, &doctor.NotCheckedError{Err: err}
		case len(out.Events) > 0:
			return true, nil
		}
		if out.NextToken != "" { // CloudWatch has searched a part
			in["nextToken"] = out.NextToken
			continue
		}
		delete(in, "nextToken")
		if !delay.For(ctx, linePoll) {
			return false, nil
		}
	}
}

// isMissing reports whether AWS knows no such resource.
func isMissing(err error) bool {
	var refused smithy.APIError
	return errors.As(err, &refused) && refused.ErrorCode() == "ResourceNotFoundException"
}
