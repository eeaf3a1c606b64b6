package infra_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
)

// The links to the AWS console name resources as the template does.
func TestTemplate_HasTheResourcesThatLinksName(t *testing.T) {
	const prefix = "/terrapulse/${AWS::StackName}/${Id}"
	text, template := read(t, "template.yaml"), written(t)
	console := ecstask.Console{Stack: "${AWS::StackName}", Cluster: "arn:aws:ecs:REGION:1:cluster/c", Logs: prefix}
	variables := func(function string) map[string]any {
		environment, _ := template.Resources[function].Properties["Environment"].(map[string]any)
		set, _ := environment["Variables"].(map[string]any)
		return set
	}
	for where, tt := range map[string]struct {
		name any
		want string
	}{
		"ReconcileLog":      {template.Resources["ReconcileLog"].Properties["LogGroupName"], console.LogGroup("reconcile")},
		"SettleLog":         {template.Resources["SettleLog"].Properties["LogGroupName"], console.LogGroup("settle")},
		"ApiLog":            {template.Resources["ApiLog"].Properties["LogGroupName"], console.LogGroup("api")},
		"RunnerLog":         {template.Resources["RunnerLog"].Properties["LogGroupName"], console.LogGroup("runner")},
		"ReconcileFunction": {variables("ReconcileFunction")["TERRAPULSE_LOG_GROUPS"], prefix},
		"ApiFunction":       {variables("ApiFunction")["TERRAPULSE_LOG_GROUPS"], prefix},
		"LogGroups":         {template.Outputs["LogGroups"].Value, prefix},
	} {
		if want := fmt.Sprintf("[%s map[Id:[2 [/ AWS::StackId]]]]", tt.want); fmt.Sprint(tt.name) != want {
			t.Errorf("%s names %v, want %s", where, tt.name, want)
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
	groups := 0
	for name, r := range written(t).Resources {
		if r.Type != "AWS::Logs::LogGroup" {
			continue
		}
		groups++
		if r.DeletionPolicy != "RetainExceptOnCreate" || r.UpdateReplacePolicy != "Retain" || r.Condition != "" || !strings.Contains(fmt.Sprint(r.Properties["LogGroupName"]), "/${Id}/") {
			t.Errorf("%s does not stay, has a condition, or no name of its own: %+v", name, r)
		}
	}
	if groups != 6 {
		t.Errorf("found %d log groups", groups)
	}
}
