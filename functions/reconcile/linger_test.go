package main

import (
	"io"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/reconcile"
)

func TestNewHandler_OffersLaunchesToContainersOfItsTaskDefinition(t *testing.T) {
	for name, value := range map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"} {
		t.Setenv(name, value)
	}
	for text, want := range map[string]time.Duration{"": 0, "0s": 0, "300s": 5 * time.Minute} {
		h, err := newHandler(t.Context(), []string{"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=prod-table", "TERRAPULSE_BUNDLE=s3://b/terrapulse", "TERRAPULSE_LOGS=s3://b/terrapulse/logs", "TERRAPULSE_LOG_GROUPS=/terrapulse/prod", "TERRAPULSE_CLUSTER=c",
			"TERRAPULSE_TASK_DEFINITION=arn:aws:ecs:eu-west-1:111122223333:task-definition/prod-runner:7", "TERRAPULSE_SUBNETS=subnet-1", "TERRAPULSE_LINGER=" + text}, io.Discard)
		if err != nil || h.linger != want || h.definition != "prod-runner:7" {
			t.Errorf("%q: containers of %s linger %s (%v)", text, h.definition, h.linger, err)
		}
	}
}

func TestMeasure_LaunchesOfContainersThatLingered(t *testing.T) {
	values := measure(reconcile.Report{Taken: 2, Withdrawn: 1}, time.Now())
	if values[metrics.LaunchesTaken] != 2 || values[metrics.OffersWithdrawn] != 1 {
		t.Errorf("%v", values)
	}
	if _, written := measure(reconcile.Report{}, time.Now())[metrics.LaunchesTaken]; written {
		t.Error("a metric is written although there is nothing to count")
	}
}
