package ecs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/aws/ecs"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/awsconfig"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// patience limits how long a test waits.
const patience = 20 * time.Second

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2086, 3, 14, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// access is the configuration of a client of the server.
func access(s *ecstest.Server) aws.Config {
	return aws.Config{
		Region: ecstest.Region, BaseEndpoint: &s.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 3, time.Millisecond })
		},
	}
}

func newLauncher(s *ecstest.Server, now func() time.Time) *ecs.Launcher {
	return &ecs.Launcher{
		Client: awsecs.NewFromConfig(access(s)), Stack: "prod", Cluster: s.Cluster(), TaskDefinition: s.TaskDefinition(), PlanRole: planRole,
		Capacity: settings.Capacity{{Name: "FARGATE_SPOT", Weight: 3}, {Name: "FARGATE", Weight: 1}},
		Subnets:  []string{"subnet-1", "subnet-2"}, SecurityGroups: []string{"sg-1"}, Now: now,
	}
}

const (
	applyRole = "arn:aws:iam::" + ecstest.Account + ":role/apply"
	planRole  = "arn:aws:iam::" + ecstest.Account + ":role/plan"
)

func newLaunch() state.Launch {
	return state.Launch{ID: uuid.Must(uuid.NewV7()).String(), Kind: state.KindApply}
}

func start(t *testing.T, l *ecs.Launcher, launch state.Launch) {
	t.Helper()
	if err := l.Start(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
}

// await waits until the only task of a launch has a status.
func await(t *testing.T, s *ecstest.Server, launch state.Launch, status string) string {
	t.Helper()
	arns := s.Tasks(launch.ID)
	if len(arns) != 1 {
		t.Fatalf("launch %s has %d tasks", launch.ID, len(arns))
	}
	awaitTask(t, s, arns[0], status)
	return arns[0]
}

func awaitTask(t *testing.T, s *ecstest.Server, arn, status string) {
	t.Helper()
	for deadline := time.Now().Add(patience); s.LastStatus(arn) != status; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("task %s is not %s but %s", arn, status, s.LastStatus(arn))
		}
	}
}

func TestStart_OneTaskWithTheIDOfItsLaunch(t *testing.T) {
	ran := make(chan ecstest.Container, 10)
	s := ecstest.Start(t, ecstest.Options{
		TaskDefinition: types.TaskDefinition{Family: aws.String("prod-runner"), ContainerDefinitions: []types.ContainerDefinition{{
			Name: aws.String("runner"), Environment: []types.KeyValuePair{{Name: aws.String("TERRAPULSE_TABLE"), Value: aws.String("prod-table")}},
		}}},
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("network")}},
		Run:  func(_ context.Context, c ecstest.Container) int { ran <- c; return 0 },
	})
	l, launch := newLauncher(s, time.Now), newLaunch()
	start(t, l, launch)
	start(t, l, launch) // by another process
	arn := await(t, s, launch, "STOPPED")
	if n := len(s.Tasks("")); n != 1 || len(ran) != 1 {
		t.Fatalf("%d tasks, %d containers", n, len(ran))
	}
	if c := <-ran; c.Getenv("TERRAPULSE_LAUNCH") != launch.ID || c.Getenv("TERRAPULSE_TABLE") != "prod-table" {
		t.Errorf("its environment is %q", c.Env)
	}
	out, err := awsecs.NewFromConfig(access(s)).DescribeTasks(t.Context(), &awsecs.DescribeTasksInput{Cluster: &l.Cluster, Tasks: []string{arn}, Include: []types.TaskField{"TAGS"}})
	if err != nil || len(out.Tasks) != 1 {
		t.Fatal(err)
	}
	tags := map[string]string{}
	for _, tag := range out.Tasks[0].Tags {
		tags[*tag.Key] = *tag.Value
	}
	if tags["terrapulse:stack"] != "prod" || tags["terrapulse:launch"] != launch.ID || tags["team"] != "network" || *out.Tasks[0].StartedBy != launch.ID {
		t.Errorf("tags %v, started by %s", tags, *out.Tasks[0].StartedBy)
	}
	if provider := aws.ToString(out.Tasks[0].CapacityProviderName); provider != "FARGATE_SPOT" {
		t.Errorf("placed on %s", provider)
	}
}

func TestStart_ContainersThatApplyNothingHaveTheRoleForPlans(t *testing.T) {
	ran := make(chan string, 1)
	s := ecstest.Start(t, ecstest.Options{
		TaskDefinition: types.TaskDefinition{Family: aws.String("prod-runner"), TaskRoleArn: aws.String(applyRole), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner")}}},
		Run:            func(_ context.Context, c ecstest.Container) int { ran <- c.Role; return 0 },
	})
	l := newLauncher(s, time.Now)
	for kind, want := range map[state.Kind]string{state.KindApply: applyRole, state.KindDestroy: applyRole, state.KindPlan: planRole, state.KindDrift: planRole, "": planRole} {
		launch := newLaunch()
		launch.Kind = kind
		start(t, l, launch)
		if got := <-ran; got != want {
			t.Errorf("the container of a launch of kind %q has the role %s, want %s", kind, got, want)
		}
	}
}

func TestAdmits_RefusesPlansWhileTooManyContainersMakeThem(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l := newLauncher(s, time.Now)
	l.MaxPlans = 2
	start(t, l, newLaunch()) // of runs, which do not count
	for n, want := range []error{nil, nil, reconcile.ErrBusy} {
		if _, err := l.Admits(t.Context(), "ann", 1); !errors.Is(err, want) {
			t.Errorf("with %d plans: %v", n, err)
		}
		launch := newLaunch()
		launch.Kind = state.KindPlan
		start(t, l, launch)
	}
}

func TestAdmits_PlansOfOneRequestStartAtMostTheFreeContainers(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l := newLauncher(s, time.Now)
	l.MaxPlans = 40
	if launches, err := l.Admits(t.Context(), "ann", 3000); err != nil || launches != 40 {
		t.Errorf("3000 plans may start in %d containers (%v)", launches, err)
	}
	launch := newLaunch()
	launch.Kind = state.KindPlan
	start(t, l, launch)
	if launches, err := l.Admits(t.Context(), "ann", 39*reconcile.MaxPlans); err != nil || launches != 39 {
		t.Errorf("with one container, plans may start in %d more (%v)", launches, err)
	}
	_, err := l.Admits(t.Context(), "ann", 10_000)
	if !errors.Is(err, reconcile.ErrBusy) {
		t.Fatalf("10000 plans in 39 containers: %v", err)
	}
	for _, want := range []string{"10000 requested", "at most 9750", "fewer tasks", "raise the parameter MaxContainers (40)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestStart_LostAnswerStartsNoSecondContainer(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l, launch := newLauncher(s, time.Now), newLaunch()
	s.Inject(ecstest.Fault{Operation: "RunTask", Times: 3, Lose: true})
	err := l.Start(t.Context(), launch)
	if !fault.IsTransient(err) || !strings.Contains(err.Error(), "no answer from "+s.URL) {
		t.Fatalf("said %v", err)
	}
	start(t, l, launch)
	if n := len(s.Tasks(launch.ID)); n != 1 {
		t.Errorf("%d containers", n)
	}
}

// ECS remembers that it started nothing with a token, and an attempt has another address of the program. So
// the next attempt has another token, however the answer was lost.
func TestStart_FailureDoesNotBindTheNextAttempt(t *testing.T) {
	for name, lost := range map[string]bool{"": false, "whose answer was lost": true} {
		t.Run(name, func(t *testing.T) {
			s := ecstest.Start(t, ecstest.Options{TaskDefinition: types.TaskDefinition{Family: aws.String("prod-runner"),
				ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner")}, {Name: aws.String("install")}}}})
			l, launch := newLauncher(s, time.Now), newLaunch()
			signed := 0
			l.Program = func(context.Context) (string, error) {
				signed++
				return fmt.Sprintf("https://bucket/program?signature=%d", signed), nil
			}
			s.Inject(ecstest.Fault{Operation: "RunTask", Failure: "RESOURCE:MEMORY", Lose: lost})
			for attempt := 0; ; attempt++ {
				err := l.Start(t.Context(), launch)
				if err == nil {
					break
				}
				if attempt == 3 {
					t.Fatal(err)
				}
				if errors.Is(err, reconcile.ErrRefused) {
					launch.Refused++
				}
			}
			if n := len(s.Tasks(launch.ID)); n != 1 {
				t.Errorf("%d containers", n)
			}
			if err := l.Start(t.Context(), launch); err != nil || len(s.Tasks(launch.ID)) != 1 {
				t.Errorf("once more: %d containers, %v", len(s.Tasks(launch.ID)), err)
			}
		})
	}
}

// For up to a minute, ECS may not know a task that it has just started, or lists it and does not know it: it
// is requested again, and is the same one.
func TestStart_TaskThatIsMissingForAMinuteIsNotStartedTwice(t *testing.T) {
	for _, list := range []time.Duration{0, time.Minute} {
		c := newClock()
		s := ecstest.Start(t, ecstest.Options{Now: c.Now})
		s.Lag(list, time.Minute)
		l, launch := newLauncher(s, c.Now), newLaunch()
		for range 60 {
			start(t, l, launch)
			if statuses, err := l.Status(t.Context(), []string{launch.ID}); err != nil || statuses[launch.ID].Running || statuses[launch.ID].Stopped != "" {
				t.Fatalf("listed after %s: %+v, %v", list, statuses, err)
			}
			c.advance(time.Second)
		}
		if statuses, err := l.Status(t.Context(), []string{launch.ID}); err != nil || !statuses[launch.ID].Running || len(s.Tasks(launch.ID)) != 1 {
			t.Errorf("listed after %s: after a minute: %+v, %v, %d containers", list, statuses, err, len(s.Tasks(launch.ID)))
		}
	}
}

func TestStart_LaunchRequestedBeforeADeployment(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l, launch := newLauncher(s, time.Now), newLaunch()
	start(t, l, launch)
	after := newLauncher(s, time.Now)
	after.TaskDefinition = s.Register(types.TaskDefinition{Family: aws.String("terrapulse-runner"), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner")}}})
	start(t, after, launch)
	if n := len(s.Tasks(launch.ID)); n != 1 {
		t.Errorf("%d containers", n)
	}
	statuses, err := after.Status(t.Context(), []string{launch.ID})
	if err != nil || !statuses[launch.ID].Running {
		t.Errorf("afterwards its status is %+v, %v", statuses, err)
	}
}

func TestStart_ErrorsAreClassifiedAndSayWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault ecstest.Fault
		is    func(error) bool
		says  []string
	}{
		{"throttled", ecstest.Fault{Code: "ThrottlingException", Message: "Rate exceeded", Times: 3}, fault.IsTransient, []string{"Rate exceeded", "next tick"}},
		{"throttled behind ECS", ecstest.Fault{Code: "InvalidParameterException", Message: "Error retrieving security group information for [sg-1]: Request limit exceeded. (ErrorCode: RequestLimitExceeded)"},
			fault.IsTransient, []string{"next tick"}},
		{"a fault of ECS", ecstest.Fault{Code: "ServerException", Message: "Service Unavailable", Status: 500, Times: 3}, fault.IsTransient, nil},
		{"asked for at this moment", ecstest.Fault{Code: "ConflictException", Message: "in progress"}, fault.IsTransient, nil},
		{"no memory", ecstest.Fault{Failure: "RESOURCE:MEMORY"}, fault.IsTransient, []string{"RESOURCE:MEMORY", "parameter Capacity"}},
		{"no capacity", ecstest.Fault{Failure: "Capacity is unavailable at this time. Please try again later or in a different availability zone"}, fault.IsTransient, []string{"availability zones"}},
		{"no addresses", ecstest.Fault{Code: "ClientException", Message: "Create network interface failed: InsufficientFreeAddressesInSubnet"}, fault.IsTransient, nil},
		{"the quota of vCPUs", ecstest.Fault{Failure: "You've reached the limit on the number of vCPUs you can run concurrently"}, fault.IsTransient, []string{"quota", "MaxContainers"}},
		{"too many in provisioning", ecstest.Fault{Code: "ClientException", Message: "Tasks provisioning capacity limit exceeded."}, fault.IsTransient, nil},
		{"a limit", ecstest.Fault{Code: "LimitExceededException", Message: "The limit for the resource was exceeded.", Times: 3}, fault.IsTransient, nil},
		{"no right", ecstest.Fault{Code: "AccessDeniedException", Message: "User: arn:aws:sts::111122223333:assumed-role/r is not authorized to perform: iam:PassRole on resource: x"},
			fault.NeedsPerson, []string{"iam:PassRole", "role of functions/reconcile"}},
		{"a role that ECS may not take", ecstest.Fault{Code: "ClientException", Message: "ECS was unable to assume the role 'arn:aws:iam::111122223333:role/r' that was provided for this task."}, fault.NeedsPerson, nil},
		{"no such cluster", ecstest.Fault{Code: "ClusterNotFoundException", Message: "Cluster not found."}, fault.NeedsPerson, []string{"deploy the stack again"}},
		{"a wrong subnet", ecstest.Fault{Code: "InvalidParameterException", Message: "The subnet ID 'subnet-1' does not exist (ErrorCode: InvalidSubnetID.NotFound)"}, fault.NeedsPerson, []string{"subnet-1", "parameters for subnets"}},
		{"a task definition that is gone", ecstest.Fault{Code: "ClientException", Message: "TaskDefinition is inactive"}, fault.NeedsPerson, nil},
		{"a blocked account", ecstest.Fault{Code: "BlockedException", Message: "Your account is currently blocked"}, fault.NeedsPerson, []string{"AWS Support"}},
		{"a failure of the wrong kind", ecstest.Fault{Failure: "ATTRIBUTE"}, fault.NeedsPerson, nil},
		{"an instance that is gone", ecstest.Fault{Failure: "MISSING"}, fault.NeedsPerson, nil},
		{"a failure unheard of", ecstest.Fault{Failure: "NEW:THING"}, fault.IsTransient, []string{"NEW:THING"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ecstest.Start(t, ecstest.Options{})
			l, launch := newLauncher(s, time.Now), newLaunch()
			tt.fault.Operation = "RunTask"
			s.Inject(tt.fault)
			err := l.Start(t.Context(), launch)
			if err == nil || !tt.is(err) {
				t.Fatalf("said %v", err)
			}
			kinds := 0
			for _, is := range []func(error) bool{fault.IsTransient, fault.NeedsPerson} {
				if is(err) {
					kinds++
				}
			}
			if kinds != 1 {
				t.Errorf("of %d kinds: %v", kinds, err)
			}
			for _, says := range append(tt.says, l.TaskDefinition) {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q is not said: %v", says, err)
				}
			}
			if errors.Is(err, reconcile.ErrRefused) != (tt.fault.Failure != "" || tt.fault.Code == "ConflictException") {
				t.Errorf("ECS has started nothing, and remembers that: %v", err)
			}
			if errors.Is(err, reconcile.ErrRefused) {
				launch.Refused++
			}
			start(t, l, launch)
			if n := len(s.Tasks(launch.ID)); n != 1 {
				t.Errorf("asked for again, there are %d containers", n)
			}
		})
	}
}

func TestStart_EndsWithTheContext(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := newLauncher(s, time.Now).Start(ctx, newLaunch())
	if err == nil || fault.IsTransient(err) || fault.NeedsPerson(err) {
		t.Errorf("said %v", err)
	}
}

func TestStart_UnreachableECSNamesTheAddress(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l := newLauncher(s, time.Now)
	s.Close()
	err := l.Start(t.Context(), newLaunch())
	if !fault.IsTransient(err) || !strings.Contains(err.Error(), strings.TrimPrefix(s.URL, "http://")) || !strings.Contains(err.Error(), "security groups") {
		t.Errorf("said %v", err)
	}
}

func TestStatus_RunsUntilTheTaskHasStopped(t *testing.T) {
	end := make(chan struct{})
	s := ecstest.Start(t, ecstest.Options{Run: func(ctx context.Context, c ecstest.Container) int {
		select {
		case <-end:
			return 3
		case <-ctx.Done():
			return 137
		}
	}})
	l, launch := newLauncher(s, time.Now), newLaunch()
	status := func() (running bool, stopped string) {
		t.Helper()
		statuses, err := l.Status(t.Context(), []string{launch.ID, "never-asked-for"})
		if err != nil {
			t.Fatal(err)
		}
		if other := statuses["never-asked-for"]; other.Running || other.Stopped != "" {
			t.Errorf("a launch that ECS does not know is %+v", other)
		}
		return statuses[launch.ID].Running, statuses[launch.ID].Stopped
	}
	release := s.HoldStarts()
	start(t, l, launch)
	if running, stopped := status(); !running || stopped != "" {
		t.Errorf("while it is provisioned: running %t, stopped %q", running, stopped)
	}
	release()
	await(t, s, launch, "RUNNING")
	if running, _ := status(); !running {
		t.Error("it does not run")
	}
	close(end)
	await(t, s, launch, "STOPPED")
	if running, stopped := status(); running || !strings.Contains(stopped, "exited with code 3") {
		t.Errorf("in the end: running %t, stopped %q", running, stopped)
	}
}

func TestStatus_StoppingTaskStillRuns(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{Run: func(ctx context.Context, c ecstest.Container) int { <-ctx.Done(); return 137 }})
	l, launch := newLauncher(s, time.Now), newLaunch()
	start(t, l, launch)
	arn := await(t, s, launch, "RUNNING")
	s.Interrupt(arn)
	if statuses, err := l.Status(t.Context(), []string{launch.ID}); err != nil || !statuses[launch.ID].Running {
		t.Errorf("while it gives way to Spot: %+v, %v", statuses, err)
	}
	s.Kill(arn, "")
	await(t, s, launch, "STOPPED")
}

func TestStatus_ReportsWhyTasksStopped(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l := newLauncher(s, time.Now)
	killed, reclaimed, unstarted := newLaunch(), newLaunch(), newLaunch()
	start(t, l, killed)
	start(t, l, reclaimed)
	s.Kill(await(t, s, killed, "RUNNING"), "OutOfMemoryError: Container killed due to memory usage")
	s.Interrupt(await(t, s, reclaimed, "RUNNING"))
	s.Inject(ecstest.Fault{Operation: "RunTask", FailToStart: "CannotPullContainerError: not found"})
	start(t, l, unstarted)
	var ids []string
	for _, launch := range []state.Launch{killed, reclaimed, unstarted} {
		await(t, s, launch, "STOPPED")
		ids = append(ids, launch.ID)
	}
	statuses, err := l.Status(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, says := range []string{"out of memory", "Spot", "image cannot be pulled"} {
		if got := statuses[ids[i]]; got.Running || !strings.Contains(got.Stopped, says) {
			t.Errorf("%+v, want %q", got, says)
		}
	}
}

func TestStatus_TaskThatDoesNotStartCountsAsStopped(t *testing.T) {
	c := newClock()
	s := ecstest.Start(t, ecstest.Options{Now: c.Now})
	l, stuck, running := newLauncher(s, c.Now), newLaunch(), newLaunch()
	start(t, l, running)
	await(t, s, running, "RUNNING")
	release := s.HoldStarts()
	defer release()
	start(t, l, stuck)
	ids := []string{stuck.ID, running.ID}
	c.advance(9 * time.Minute)
	statuses, err := l.Status(t.Context(), ids)
	if err != nil || !statuses[stuck.ID].Running {
		t.Fatalf("after nine minutes: %+v, %v", statuses, err)
	}
	c.advance(time.Minute)
	statuses, err = l.Status(t.Context(), ids)
	if err != nil || statuses[stuck.ID].Running || !strings.Contains(statuses[stuck.ID].Stopped, "has not started within 10m0s (ECS says PROVISIONING)") {
		t.Errorf("after ten minutes: %+v, %v", statuses, err)
	}
	if !statuses[running.ID].Running {
		t.Errorf("the one that runs is %+v", statuses[running.ID])
	}
}

func TestStatus_OneLiveTaskIsSufficient(t *testing.T) {
	for dies := range 2 {
		c := newClock()
		s := ecstest.Start(t, ecstest.Options{Now: c.Now})
		l, launch := newLauncher(s, c.Now), newLaunch()
		start(t, l, launch)
		s.ForgetTokens()
		start(t, l, launch)
		tasks := s.Tasks(launch.ID)
		if len(tasks) != 2 {
			t.Fatalf("%d tasks", len(tasks))
		}
		s.Kill(tasks[dies], "")
		awaitTask(t, s, tasks[dies], "STOPPED")
		// If a launch is unknown, stopped tasks are listed, too.
		if statuses, err := l.Status(t.Context(), []string{launch.ID, "unknown"}); err != nil || !statuses[launch.ID].Running || statuses[launch.ID].Stopped != "" {
			t.Errorf("when task %d has stopped: %+v, %v", dies, statuses, err)
		}
		c.advance(time.Second)
		s.Kill(tasks[1-dies], "OutOfMemoryError")
		awaitTask(t, s, tasks[1-dies], "STOPPED")
		statuses, err := l.Status(t.Context(), []string{launch.ID})
		if got := statuses[launch.ID]; err != nil || got.Running || !strings.Contains(got.Stopped, "out of memory") {
			t.Errorf("when both have stopped: %+v, %v; want the later one's reason", statuses, err)
		}
	}
}

func TestStatus_UnlistedLaunchIsUnknown(t *testing.T) {
	c := newClock()
	s := ecstest.Start(t, ecstest.Options{Now: c.Now})
	l, launch := newLauncher(s, c.Now), newLaunch()
	s.Lag(5*time.Second, 5*time.Second)
	start(t, l, launch)
	await(t, s, launch, "RUNNING")
	statuses, err := l.Status(t.Context(), []string{launch.ID})
	if got := statuses[launch.ID]; err != nil || got.Running || got.Stopped != "" {
		t.Errorf("at first: %+v, %v", got, err)
	}
	c.advance(5 * time.Second)
	if statuses, err = l.Status(t.Context(), []string{launch.ID}); err != nil || !statuses[launch.ID].Running {
		t.Errorf("later: %+v, %v", statuses, err)
	}
	c.advance(time.Hour)
	s.Kill(s.Tasks(launch.ID)[0], "")
	await(t, s, launch, "STOPPED")
	if statuses, err = l.Status(t.Context(), []string{launch.ID}); err != nil || !statuses[launch.ID].Running {
		t.Errorf("just after it has stopped: %+v, %v", statuses, err)
	}
	c.advance(2 * time.Hour)
	statuses, err = l.Status(t.Context(), []string{launch.ID})
	if got := statuses[launch.ID]; err != nil || got.Running || got.Stopped != "" {
		t.Errorf("long after: %+v, %v", got, err)
	}
}

func TestStatus_NumberOfRequests(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	l := newLauncher(s, time.Now)
	var ids []string
	for range 120 {
		launch := newLaunch()
		start(t, l, launch)
		ids = append(ids, launch.ID)
	}
	look := func(launches []string, want map[string]int) {
		t.Helper()
		before := s.Requests()
		statuses, err := l.Status(t.Context(), launches)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range launches {
			if !statuses[id].Running && statuses[id].Stopped == "" {
				t.Errorf("nothing is known of launch %s", id)
			}
		}
		for operation, n := range s.Requests() {
			if n -= before[operation]; n != want[operation] {
				t.Errorf("%s: %d requests, want %d", operation, n, want[operation])
			}
		}
	}
	look(nil, nil)
	look(ids[:40], map[string]int{"ListTasks": 2, "DescribeTasks": 2})
	for _, arn := range s.Tasks("")[:110] {
		s.Kill(arn, "")
	}
	for _, id := range ids[:110] {
		await(t, s, state.Launch{ID: id}, "STOPPED")
	}
	look(ids[110:], map[string]int{"ListTasks": 1, "DescribeTasks": 1})
	look(ids, map[string]int{"ListTasks": 3, "DescribeTasks": 3})
}

func TestStatus_ErrorsSayWhy(t *testing.T) {
	for _, operation := range []string{"ListTasks", "DescribeTasks"} {
		s := ecstest.Start(t, ecstest.Options{})
		l, launch := newLauncher(s, time.Now), newLaunch()
		start(t, l, launch)
		s.Inject(ecstest.Fault{Operation: operation, Code: "AccessDeniedException", Message: fmt.Sprintf("not authorized to perform: ecs:%s", operation)})
		if _, err := l.Status(t.Context(), []string{launch.ID}); !fault.NeedsPerson(err) || !strings.Contains(err.Error(), "ecs:"+operation) {
			t.Errorf("%s: %v", operation, err)
		}
	}
}

func TestLauncher_WorksWithTheEnvironmentOfAFunction(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{})
	t.Setenv("AWS_ENDPOINT_URL_ECS", s.URL)
	t.Setenv("AWS_REGION", ecstest.Region)
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	cfg, err := awsconfig.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, launch := newLauncher(s, time.Now), newLaunch()
	l.Client = awsecs.NewFromConfig(cfg)
	s.Inject(ecstest.Fault{Operation: "RunTask", Code: "ThrottlingException", Message: "Rate exceeded", Times: 2})
	start(t, l, launch)
	if n := len(s.Tasks(launch.ID)); n != 1 {
		t.Errorf("%d tasks", n)
	}
}

func TestCheck_FindsWhatALaunchNeeds(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{TaskDefinition: types.TaskDefinition{Family: aws.String("runner"),
		ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner"), Image: aws.String("registry/terrapulse:1")}}}})
	l := newLauncher(s, time.Now)
	if found, err := l.Check(t.Context()); err != nil || found != "image registry/terrapulse:1" {
		t.Errorf("%s, %v", found, err)
	}
	for says, wrong := range map[string]func(*ecs.Launcher){
		"task definition gone:1":            func(l *ecs.Launcher) { l.TaskDefinition = "gone:1" },
		"cluster other":                     func(l *ecs.Launcher) { l.Cluster = "other" },
		"no capacity provider FARGATE_MOON": func(l *ecs.Launcher) { l.Capacity = settings.Capacity{{Name: "FARGATE_MOON", Weight: 1}} },
	} {
		l := newLauncher(s, time.Now)
		wrong(l)
		if _, err := l.Check(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
}
