package ecs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/base/fault"
)

// installing is a task definition whose container needs another one that loads its program.
var installing = types.TaskDefinition{Family: aws.String("prod-runner"), ContainerDefinitions: []types.ContainerDefinition{
	{Name: aws.String("runner"), DependsOn: []types.ContainerDependency{{ContainerName: aws.String("install"), Condition: types.ContainerConditionSuccess}}},
	{Name: aws.String("install")},
}}

func TestStart_SignsTheAddressOfTheProgramForEachLaunch(t *testing.T) {
	ran := make(chan ecstest.Container, 10)
	s := ecstest.Start(t, ecstest.Options{TaskDefinition: installing, Run: func(_ context.Context, c ecstest.Container) int { ran <- c; return 0 }})
	l, launch := newLauncher(s, time.Now), newLaunch()
	signed := 0
	l.Program = func(context.Context) (string, error) { signed++; return "https://the-bucket/program?signature", nil }
	start(t, l, launch)
	await(t, s, launch, "STOPPED")
	install, runner := <-ran, <-ran
	if install.Name != "install" || install.Getenv("TERRAPULSE_PROGRAM_URL") != "https://the-bucket/program?signature" || install.Getenv("TERRAPULSE_LAUNCH") != "" {
		t.Errorf("the first container is %s with %q", install.Name, install.Env)
	}
	if runner.Name != "runner" || runner.Getenv("TERRAPULSE_LAUNCH") != launch.ID || runner.Getenv("TERRAPULSE_PROGRAM_URL") != "" {
		t.Errorf("the second container is %s with %q", runner.Name, runner.Env)
	}
	if start(t, l, newLaunch()); signed != 2 {
		t.Errorf("%d addresses for two launches", signed)
	}
}

func TestStart_WithoutAnAddressNoTaskStarts(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{TaskDefinition: installing})
	l := newLauncher(s, time.Now)
	l.Program = func(context.Context) (string, error) { return "", errors.New("no credentials") }
	err := l.Start(t.Context(), newLaunch())
	if !fault.IsTransient(err) || !strings.Contains(err.Error(), "no credentials") || len(s.Tasks("")) != 0 {
		t.Errorf("%v, %d tasks", err, len(s.Tasks("")))
	}
}

func TestStatus_SaysThatAProgramCouldNotBeLoaded(t *testing.T) {
	s := ecstest.Start(t, ecstest.Options{TaskDefinition: installing, Run: func(_ context.Context, c ecstest.Container) int {
		if c.Name != "install" {
			t.Errorf("%s was started", c.Name)
		}
		return 1
	}})
	l, launch := newLauncher(s, time.Now), newLaunch()
	l.Program = func(context.Context) (string, error) { return "https://the-bucket/program", nil }
	start(t, l, launch)
	await(t, s, launch, "STOPPED")
	statuses, err := l.Status(t.Context(), []string{launch.ID})
	if err != nil || statuses[launch.ID].Running || !strings.Contains(statuses[launch.ID].Stopped, "could not load the program from the bucket") {
		t.Errorf("%+v, %v", statuses, err)
	}
}
