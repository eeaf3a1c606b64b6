package reconcilefunction

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
)

func TestNew_OffersLaunchesToContainersOfItsTaskDefinition(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "0s": 0, "300s": 5 * time.Minute} {
		set, err := settings.Read[settings.Reconcile]([]string{"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=prod-table", "TERRAPULSE_BUNDLE=s3://b/terrapulse", "TERRAPULSE_LOGS=s3://b/terrapulse/logs", "TERRAPULSE_LOG_GROUPS=/terrapulse/prod", "TERRAPULSE_CLUSTER=c",
			"TERRAPULSE_TASK_DEFINITION=arn:aws:ecs:eu-west-1:111122223333:task-definition/prod-runner:7", "TERRAPULSE_PLAN_ROLE=arn:aws:iam::111122223333:role/plan",
			"TERRAPULSE_SUBNETS=subnet-1", "TERRAPULSE_LINGER=" + text})
		if err != nil {
			t.Fatal(err)
		}
		if r := New(aws.Config{Region: "eu-west-1"}, set, io.Discard, slog.New(slog.DiscardHandler)).engine.common; r.Linger != want || r.Definition != "prod-runner:7" {
			t.Errorf("%q: containers of %s linger %s", text, r.Definition, r.Linger)
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
