package web

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestRun_LinksToHCPTerraform(t *testing.T) {
	for link, want := range map[string]string{"https://app.terraform.io/app/o/w/runs/run-1": "https://app.terraform.io/app/o/w/runs/run-1", "javascript:alert(1)": "", "//evil": ""} {
		page := runPage{Run: apispec.Run{Remote: &apispec.RemoteRun{URL: link}}}
		if got := page.RemoteURL(); got != want {
			t.Errorf("%s: %q", link, got)
		}
	}
	if got := (runPage{}).RemoteURL(); got != "" {
		t.Errorf("a run that is carried out here: %q", got)
	}
}

func TestRun_LinksLeadToTheConsoleOfAWSOnly(t *testing.T) {
	for _, c := range []struct {
		logs, container string
		want            []link
	}{
		{"https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1#logsV2:x", "https://cn-north-1.console.amazonaws.cn/ecs/v2/clusters/prod/tasks/0ab1",
			[]link{{"Log in CloudWatch", "https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1#logsV2:x"}, {"Task in ECS", "https://cn-north-1.console.amazonaws.cn/ecs/v2/clusters/prod/tasks/0ab1"}}},
		{"https://evil.example/.console.aws.amazon.com", "http://eu-west-1.console.aws.amazon.com/", nil},
		{"javascript:alert(1)//.console.aws.amazon.com", "https://x.console.aws.amazon.com.evil.example", nil},
		{"https://x.console.aws.amazon.com@evil.example/", "//x.console.aws.amazon.com/", nil},
	} {
		page := runPage{Run: apispec.Run{Links: &apispec.RunLinks{Logs: c.logs, Container: c.container}}}
		if diff := cmp.Diff(c.want, page.InAWS()); diff != "" {
			t.Errorf("%s, %s: %s", c.logs, c.container, diff)
		}
	}
}
