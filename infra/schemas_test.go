package infra_test

import (
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
)

// What the template makes is what CloudFormation's schemas of resources accept. `make lint` checks the template
// without values for its parameters and conditions.
func TestTemplate_ResourcesAreWhatTheirSchemasAccept(t *testing.T) {
	slow(t)
	all := everything()
	all["FunctionSecurityGroups"] = "sg-0123456789abcdef0" // whose form the schema checks
	cases := []parametersCase{
		{"only what has no default", nil, ""},
		{"everything", all, ""},
		{"an image with the program", rehearsal.Parameters{"RunnerImage": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/terrapulse@sha256:" + strings.Repeat("0", 64)}, ""},
		{"a bucket, a key and a boundary", rehearsal.Parameters{"Bucket": "the-bucket/some-prefix", "KmsKeyArn": kmsARN, "PermissionsBoundary": "arn:aws:iam::123456789012:policy/boundary"}, ""},
		{"policies for providers", rehearsal.Parameters{"RunnerPolicyArns": "arn:aws:iam::aws:policy/AmazonVPCFullAccess"}, ""},
		{"a VPC for all functions", rehearsal.Parameters{"FunctionsInVpc": "all", "FunctionSubnets": "subnet-0123456789abcdef2", "FunctionSecurityGroups": "sg-0123456789abcdef0"}, ""},
		{"no function in a VPC", rehearsal.Parameters{"FunctionsInVpc": "none"}, ""},
		{"a REST API", rehearsal.Parameters{"Api": "gateway"}, ""},
		{"a private REST API", rehearsal.Parameters{"Api": "vpce-0123456789abcdef0,vpce-0123456789abcdef1"}, ""},
		{"HCP Terraform", rehearsal.Parameters{"SecretArns": secretARN, "HcpNotificationTokenArn": notificationARN}, ""},
		{"mail", rehearsal.Parameters{"EventBus": "default", "NotifyTo": "network@example.com"}, ""},
		{"no API, and containers that linger", rehearsal.Parameters{"Api": "none", "Linger": "300s", "PollSeconds": "300"}, ""},
		{"a duration that CloudWatch does not have", rehearsal.Parameters{"LogRetentionDays": "4"}, "RetentionInDays"},
	}
	for i, found := range rehearsal.Lint(t, complete(cases)) {
		said, want := strings.Join(found, "\n"), cases[i].want
		if want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s: %s", cases[i].name, said)
		}
	}
}
