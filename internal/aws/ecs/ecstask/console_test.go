package ecstask_test

import (
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
)

func TestConsole_PagesOfAContainer(t *testing.T) {
	for cluster, want := range map[string][2]string{
		"arn:aws:ecs:eu-west-1:111122223333:cluster/prod-Cluster-1X": {
			"https://eu-west-1.console.aws.amazon.com/ecs/v2/clusters/prod-Cluster-1X/tasks/0ab1?region=eu-west-1",
			"https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1#logsV2:log-groups/log-group/$252Fterrapulse$252Fprod$252Frunner/log-events/runner$252Frunner$252F0ab1"},
		"arn:aws-us-gov:ecs:us-gov-west-1:111122223333:cluster/a": {
			"https://us-gov-west-1.console.amazonaws-us-gov.com/ecs/v2/clusters/a/tasks/0ab1?region=us-gov-west-1",
			"https://us-gov-west-1.console.amazonaws-us-gov.com/cloudwatch/home?region=us-gov-west-1#logsV2:log-groups/log-group/$252Fterrapulse$252Fprod$252Frunner/log-events/runner$252Frunner$252F0ab1"},
		"arn:aws-cn:ecs:cn-north-1:111122223333:cluster/a": {
			"https://cn-north-1.console.amazonaws.cn/ecs/v2/clusters/a/tasks/0ab1?region=cn-north-1",
			"https://cn-north-1.console.amazonaws.cn/cloudwatch/home?region=cn-north-1#logsV2:log-groups/log-group/$252Fterrapulse$252Fprod$252Frunner/log-events/runner$252Frunner$252F0ab1"},
	} {
		c := ecstask.Console{Cluster: cluster, Stack: "prod", Logs: "/terrapulse/prod"}
		if got := [2]string{c.Task("0ab1"), c.Log("0ab1")}; got != want {
			t.Errorf("the pages of a container of %s are %q, want %q", cluster, got, want)
		}
	}
}

func TestConsole_PagesOfADeployment(t *testing.T) {
	c := ecstask.Console{Stack: "prod", Logs: "/terrapulse/prod", Cluster: "arn:aws:ecs:eu-west-1:111122223333:cluster/prod-Cluster-1X"}
	const host = "https://eu-west-1.console.aws.amazon.com/"
	for want, got := range map[string]string{
		"cloudwatch/home?region=eu-west-1#logsV2:log-groups/log-group/$252Fterrapulse$252Fprod$252Fapi": c.Group("api"),
		"cloudwatch/home?region=eu-west-1#alarmsV2:?~(search~'prod-)":                                   c.Alarms(),
		"cloudwatch/home?region=eu-west-1#dashboards:name=prod-terrapulse-eu-west-1":                    c.Dashboard(),
		"ecs/v2/clusters/prod-Cluster-1X/tasks?region=eu-west-1":                                        c.Containers(),
		"s3/object/files?region=eu-west-1&prefix=some%2Flogs%2Fweb%2Fr1":                                c.Object("files", "some/logs/web/r1"),
	} {
		if got != host+want {
			t.Errorf("got %s, want %s", got, host+want)
		}
	}
}
