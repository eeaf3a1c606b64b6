package ecs_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
)

func TestStart_OnlyContainersThatLingerGetTheFunction(t *testing.T) {
	ran := make(chan string, 1)
	s := ecstest.Start(t, ecstest.Options{
		TaskDefinition: types.TaskDefinition{Family: aws.String("prod-runner"), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner")}}},
		Run: func(_ context.Context, c ecstest.Container) int {
			ran <- c.Getenv("TERRAPULSE_RECONCILE_FUNCTION")
			return 0
		},
	})
	l := newLauncher(s, time.Now)
	l.Function = "prod-reconcile"
	for linger, want := range map[time.Duration]string{0: "", time.Minute: "prod-reconcile"} {
		launch := newLaunch()
		launch.Linger = linger
		start(t, l, launch)
		if got := <-ran; got != want {
			t.Errorf("lingering %s, the container invokes %q, want %q", linger, got, want)
		}
	}
}

// A container that lingered has launches for which no task was started.
func TestStatus_OfATaskByItsID(t *testing.T) {
	stop := make(chan struct{})
	s := ecstest.Start(t, ecstest.Options{
		TaskDefinition: types.TaskDefinition{Family: aws.String("prod-runner"), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner")}}},
		Run:            func(context.Context, ecstest.Container) int { <-stop; return 3 },
	})
	l, launch := newLauncher(s, time.Now), newLaunch()
	start(t, l, launch)
	arn := await(t, s, launch, "RUNNING")
	id := ecstask.Task{ARN: arn}.ID()
	statuses, err := l.Status(t.Context(), []string{id})
	if err != nil || !statuses[id].Running || len(statuses) != 1 {
		t.Errorf("%+v, %v", statuses, err)
	}
	close(stop)
	awaitTask(t, s, arn, "STOPPED")
	statuses, err = l.Status(t.Context(), []string{id, launch.ID})
	if err != nil || statuses[id].Running || statuses[id].Stopped == "" || statuses[id].Runner != id || statuses[id] != statuses[launch.ID] {
		t.Errorf("%+v, %v", statuses, err)
	}
}
