package settings_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
)

func TestSettingsAreReadFromTheEnvironmentThatTheTemplateMakes(t *testing.T) {
	got, err := settings.Read[settings.Reconcile]([]string{
		"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=prod-table",
		"TERRAPULSE_BUNDLE=s3://files/some/prefix/", "TERRAPULSE_LOGS=s3://files/some/prefix/logs", "TERRAPULSE_WINDOW=50s", "TERRAPULSE_SCHEDULE_MINUTES=5",
		"TERRAPULSE_LOG_GROUPS=/terrapulse/prod/1", "TERRAPULSE_CLUSTER=c", "TERRAPULSE_TASK_DEFINITION=family:7", "TERRAPULSE_PLAN_ROLE=arn:aws:iam::1:role/plan", "TERRAPULSE_CAPACITY=FARGATE_SPOT=3,FARGATE=1",
		"TERRAPULSE_SUBNETS=subnet-1,subnet-2", "TERRAPULSE_SECURITY_GROUPS=sg-1", "TERRAPULSE_PUBLIC_IP=true",
		"TERRAPULSE_SECRET_ARN=arn:aws:ssm:eu-west-1:1:parameter/terrapulse",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := settings.Reconcile{
		Common:    settings.Common{Stack: "prod", Table: "prod-table"},
		SecretARN: "arn:aws:ssm:eu-west-1:1:parameter/terrapulse",
		Bundle:    s3url.URL{Bucket: "files", Prefix: "some/prefix"},
		Logs:      s3url.URL{Bucket: "files", Prefix: "some/prefix/logs"},
		Window:    50 * time.Second, ScheduleMinutes: 5,
		Cluster: "c", TaskDefinition: "family:7", PlanRole: "arn:aws:iam::1:role/plan", LogGroups: "/terrapulse/prod/1",
		Capacity: settings.Capacity{{Name: "FARGATE_SPOT", Weight: 3}, {Name: "FARGATE", Weight: 1}},
		Subnets:  []string{"subnet-1", "subnet-2"}, SecurityGroups: []string{"sg-1"}, PublicIP: true,
		MaxContainers: 40,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if key := got.Bundle.Key("current"); key != "some/prefix/current" {
		t.Error(key)
	}
}

func TestEverythingWrongInTheEnvironmentIsNamedWithWhatSetsIt(t *testing.T) {
	_, err := settings.Read[settings.Reconcile]([]string{
		"TERRAPULSE_STACK=prod", "TERRAPULSE_TABLE=", "TERRAPULSE_BUNDLE=files/prefix", "TERRAPULSE_LOGS=s3://files/logs", "TERRAPULSE_WINDOW=50",
		"TERRAPULSE_CAPACITY=FARGATE=many", "TERRAPULSE_LOG_GROUPS=/terrapulse/prod/1", "TERRAPULSE_CLUSTER=c", "TERRAPULSE_TASK_DEFINITION=d",
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"environment variable TERRAPULSE_TABLE is not set: it comes from the resource Table",
		"environment variable TERRAPULSE_SUBNETS is not set: it comes from the parameter Subnets",
		`environment variable TERRAPULSE_BUNDLE: "files/prefix" is not a valid S3 URL`,
		"environment variable TERRAPULSE_WINDOW: ",
		`environment variable TERRAPULSE_CAPACITY: the weight of FARGATE is "many"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\nin:\n%s", want, err)
		}
	}
}

func TestEveryVariableSaysWhatSetsIt(t *testing.T) {
	for _, v := range slices.Concat(settings.Variables[settings.Reconcile](), settings.Variables[settings.Settle](),
		settings.Variables[settings.API](), settings.Variables[settings.Runner]()) {
		if v.From == "" {
			t.Errorf("%s", v.Name)
		}
	}
}
