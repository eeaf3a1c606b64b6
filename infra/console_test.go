package infra_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
)

// The links to the AWS console name resources as the template does.
func TestTemplate_HasTheResourcesThatLinksName(t *testing.T) {
	text, console := read(t, "template.yaml"), ecstask.Console{Stack: "${AWS::StackName}", Cluster: "arn:aws:ecs:REGION:1:cluster/c"}
	for _, component := range []string{"reconcile", "settle", "api", "runner"} {
		if name := "LogGroupName: !Sub " + console.LogGroup(component) + "\n"; !strings.Contains(text, name) {
			t.Errorf("the template has no %s", name)
		}
	}
	_, dashboard, _ := strings.Cut(console.Dashboard(), "name=")
	// Stacks of the same name in two regions have a dashboard each: dashboards are global.
	dashboard = strings.Replace(dashboard, "REGION", "${AWS::Region}", 1)
	if name := "DashboardName: !Sub " + dashboard + " "; !strings.Contains(name, "${AWS::Region}") || !strings.Contains(text, name) {
		t.Errorf("the template has no %s", name)
	}
	_, url, _ := strings.Cut(text, "\n  DashboardUrl:\n")
	for _, domain := range []string{"aws.amazon.com", "amazonaws.cn", "amazonaws-us-gov.com"} { // of the partitions
		if !strings.Contains(url, domain) {
			t.Errorf("the output DashboardUrl is not for %s", domain)
		}
	}
}
