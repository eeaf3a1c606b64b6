package ecstest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
)

const patience = 20 * time.Second

func client(s *ecstest.Server) *awsecs.Client {
	return awsecs.NewFromConfig(aws.Config{Region: ecstest.Region, BaseEndpoint: &s.URL, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")})
}

func request(s *ecstest.Server, token string) *awsecs.RunTaskInput {
	return &awsecs.RunTaskInput{
		Cluster: aws.String(s.Cluster()), TaskDefinition: aws.String(s.TaskDefinition()), ClientToken: &token, StartedBy: &token,
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{Subnets: []string{"subnet-1"}}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{Name: aws.String("runner"),
			Environment: []types.KeyValuePair{{Name: aws.String("TERRAPULSE_LAUNCH"), Value: &token}}}}},
	}
}

func run(t *testing.T, s *ecstest.Server, token string) string {
	t.Helper()
	out, err := client(s).RunTask(t.Context(), request(s, token))
	if err != nil || len(out.Tasks) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	return *out.Tasks[0].TaskArn
}

func await(t *testing.T, what string, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !true(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so before long: %s", what)
		}
	}
}

func TestRunTask_ClientTokenIsValidAsLongAsTheTaskAndAnHour(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	s := ecstest.Start(t, ecstest.Options{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	first := run(t, s, "l-1")
	if again := run(t, s, "l-1"); again != first {
		t.Errorf("the same token started %s and %s", first, again)
	}
	other := request(s, "l-1")
	other.NetworkConfiguration.AwsvpcConfiguration.Subnets[0] = "subnet-2"
	_, err := client(s).RunTask(t.Context(), other)
	if conflict := new(types.ConflictException); !errors.As(err, &conflict) || len(conflict.ResourceIds) != 1 || conflict.ResourceIds[0] != first {
		t.Errorf("the same token with another subnet: %v", err)
	}
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	pass(48 * time.Hour)
	if again := run(t, s, "l-1"); again != first {
		t.Error("the token is forgotten before the task has stopped")
	}
	await(t, "the task runs", func() bool { return s.LastStatus(first) == "RUNNING" })
	s.Kill(first, "")
	await(t, "the task has stopped", func() bool { return s.LastStatus(first) == "STOPPED" })
	pass(59 * time.Minute)
	if again := run(t, s, "l-1"); again != first {
		t.Error("the token is forgotten within an hour")
	}
	pass(time.Minute)
	if again := run(t, s, "l-1"); again == first {
		t.Error("the token counts for more than an hour")
	}
}

func TestRunTask_FailureBindsItsClientToken(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	s.Inject(ecstest.Fault{Operation: "RunTask", Failure: "RESOURCE:MEMORY"})
	for range 2 {
		if out, err := client(s).RunTask(t.Context(), request(s, "l-1")); err != nil || len(out.Tasks) > 0 || len(out.Failures) != 1 {
			t.Errorf("%+v, %v", out, err)
		}
	}
	other := request(s, "l-1")
	other.NetworkConfiguration.AwsvpcConfiguration.Subnets[0] = "subnet-2"
	_, err := client(s).RunTask(t.Context(), other)
	if conflict := new(types.ConflictException); !errors.As(err, &conflict) || len(conflict.ResourceIds) > 0 {
		t.Errorf("the same token with another subnet: %v", err)
	}
	run(t, s, "l-2")
}

func TestServer_RefusesWhatECSRefuses(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	for _, tt := range []struct {
		name string
		how  func(*awsecs.RunTaskInput)
	}{
		{"a token that is too long", func(r *awsecs.RunTaskInput) { r.ClientToken = aws.String(strings.Repeat("x", 65)) }},
		{"a startedBy with other letters", func(r *awsecs.RunTaskInput) { r.StartedBy = aws.String("a b") }},
		{"overrides that are too long", func(r *awsecs.RunTaskInput) {
			r.Overrides.ContainerOverrides[0].Environment[0].Value = aws.String(strings.Repeat("x", 8192))
		}},
		{"launch type and capacity", func(r *awsecs.RunTaskInput) {
			r.LaunchType = types.LaunchTypeFargate
			r.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("FARGATE")}}
		}},
		{"an unknown capacity provider", func(r *awsecs.RunTaskInput) {
			r.CapacityProviderStrategy = []types.CapacityProviderStrategyItem{{CapacityProvider: aws.String("EC2")}}
		}},
		{"no subnets", func(r *awsecs.RunTaskInput) { r.NetworkConfiguration = nil }},
		{"an unknown container", func(r *awsecs.RunTaskInput) { r.Overrides.ContainerOverrides[0].Name = aws.String("other") }},
		{"an unknown cluster", func(r *awsecs.RunTaskInput) { r.Cluster = aws.String("other") }},
		{"an unknown task definition", func(r *awsecs.RunTaskInput) { r.TaskDefinition = aws.String("other:1") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(s, "l-1")
			tt.how(r)
			if out, err := client(s).RunTask(t.Context(), r); err == nil {
				t.Errorf("accepted: %+v", out.Tasks)
			}
		})
	}
	_, err := client(s).ListTasks(t.Context(), &awsecs.ListTasksInput{Cluster: aws.String(s.Cluster()), StartedBy: aws.String("l"), DesiredStatus: "STOPPED"})
	if invalid := new(types.InvalidParameterException); !errors.As(err, &invalid) {
		t.Errorf("startedBy with another filter: %v", err)
	}
}

func TestServer_EventsLateTwiceAndInAnyOrder(t *testing.T) {
	var mu sync.Mutex
	var told []string
	s := ecstest.Start(t, ecstest.Options{Events: func(event []byte) {
		var e struct {
			Source     string       `json:"source"`
			DetailType string       `json:"detail-type"`
			Detail     ecstask.Task `json:"detail"`
		}
		if err := json.Unmarshal(event, &e); err != nil || e.Source != "aws.ecs" || e.DetailType != "ECS Task State Change" || e.Detail.Launch() != "l-1" {
			t.Errorf("%s: %v", event, err)
		}
		mu.Lock()
		defer mu.Unlock()
		told = append(told, e.Detail.LastStatus)
	}})
	seen := func() string { mu.Lock(); defer mu.Unlock(); return strings.Join(told, " ") }
	s.Hold()
	arn := run(t, s, "l-1")
	await(t, "RUNNING", func() bool { return s.LastStatus(arn) == "RUNNING" })
	s.Kill(arn, "")
	await(t, "STOPPED", func() bool { return s.LastStatus(arn) == "STOPPED" })
	if got := seen(); got != "" {
		t.Errorf("told although events are held: %s", got)
	}
	s.Release(2, true)
	const backwards = "STOPPED DEPROVISIONING RUNNING PENDING PROVISIONING"
	await(t, backwards+" twice", func() bool { return seen() == backwards+" "+backwards })
}

func TestServer_ContainerMetadata(t *testing.T) {
	asked := make(chan ecstask.Task, 1)
	s := ecstest.Start(t, ecstest.Options{Run: func(ctx context.Context, c ecstest.Container) int {
		task, err := ecstask.Current(ctx, c.Getenv("ECS_CONTAINER_METADATA_URI_V4"))
		if err != nil {
			t.Error(err)
		}
		asked <- task
		return 0
	}})
	arn := run(t, s, "l-1")
	if task := <-asked; task.ARN != arn || task.TaskDefinition != ecstask.Revision(s.TaskDefinition()) {
		t.Errorf("task %s of %s reads that it is %+v", arn, s.TaskDefinition(), task)
	}
	for _, endpoint := range []string{"", s.URL, s.URL + "/v4/unknown"} {
		if task, err := ecstask.Current(t.Context(), endpoint); err == nil {
			t.Errorf("%q says %+v", endpoint, task)
		}
	}
}

func TestServer_ContainerHasItsSecretsOrDoesNotStart(t *testing.T) {
	definition := types.TaskDefinition{Family: aws.String("f"), ContainerDefinitions: []types.ContainerDefinition{{
		Name: aws.String("runner"), Secrets: []types.Secret{{Name: aws.String("CONSUL_HTTP_TOKEN"), ValueFrom: aws.String("arn:token")}}}}}
	ran := make(chan string, 1)
	var refuse error
	s := ecstest.Start(t, ecstest.Options{TaskDefinition: definition,
		Run:    func(_ context.Context, c ecstest.Container) int { ran <- c.Getenv("CONSUL_HTTP_TOKEN"); return 0 },
		Secret: func(arn string) (string, error) { return "value of " + arn, refuse },
	})
	arn := run(t, s, "l-1")
	await(t, "STOPPED", func() bool { return s.LastStatus(arn) == "STOPPED" })
	if token := <-ran; token != "value of arn:token" {
		t.Errorf("its token is %q", token)
	}
	refuse = errors.New("access denied")
	arn = run(t, s, "l-2")
	await(t, "STOPPED", func() bool { return s.LastStatus(arn) == "STOPPED" })
	out, err := client(s).DescribeTasks(t.Context(), &awsecs.DescribeTasksInput{Cluster: aws.String(s.Cluster()), Tasks: []string{arn}})
	if err != nil || len(ran) != 0 || out.Tasks[0].StopCode != types.TaskStopCodeTaskFailedToStart || !strings.Contains(*out.Tasks[0].StoppedReason, "access denied") {
		t.Errorf("%+v, %v", out.Tasks, err)
	}
}
