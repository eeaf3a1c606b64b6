package infra_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
)

// The links to the AWS console name resources as the template does.
func TestTemplate_HasTheResourcesThatLinksName(t *testing.T) {
	const prefix = "/terrapulse/${AWS::StackName}/${Id}"
	text, console := read(t, "template.yaml"), ecstask.Console{Stack: "${AWS::StackName}", Cluster: "arn:aws:ecs:REGION:1:cluster/c", Logs: prefix}
	for _, component := range []string{"reconcile", "settle", "api", "runner"} {
		if name := `LogGroupName: !Sub ["` + console.LogGroup(component) + `", { Id: !Select [2, !Split ["/", !Ref AWS::StackId]] }]`; !strings.Contains(text, name) {
			t.Errorf("the template has no %s", name)
		}
	}
	for where, count := range map[string]int{"          TERRAPULSE_LOG_GROUPS: ": 2, "stack is deleted\n    Value: ": 1} {
		if n := strings.Count(text, where+`!Sub ["`+prefix+`", {`); n != count {
			t.Errorf("%s%s: %d times, want %d", where, prefix, n, count)
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

// Log groups are an audit trail: they stay when the stack is deleted, and are in the way of no later
// stack of the same name.
func TestTemplate_LogGroupsOutlastTheStack(t *testing.T) {
	groups := regexp.MustCompile(`    Type: AWS::Logs::LogGroup\n((?:    .*\n)*)`).FindAllStringSubmatch(read(t, "template.yaml"), -1)
	if len(groups) != 6 {
		t.Fatalf("found %d log groups", len(groups))
	}
	for _, g := range groups {
		for _, line := range []string{"    DeletionPolicy: RetainExceptOnCreate\n", "    UpdateReplacePolicy: Retain\n", "${Id}"} {
			if !strings.Contains(g[1], line) || strings.Contains(g[1], "Condition:") {
				t.Errorf("without %s, or with a condition:\n%s", line, g[1])
			}
		}
	}
}
