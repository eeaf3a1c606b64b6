package infra_test

import (
	"encoding/json"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// python runs a script of infra/iam, and decodes what it prints.
func python(t *testing.T, into any, script string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testtools.Python(t), append([]string{filepath.Join(testtools.Root(t), "infra", "iam", script)}, arguments...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// unneeded are rights that CloudFormation's schemas name, and that this template does not need.
var unneeded = []struct{ actions, why string }{
	{"codedeploy:.*", "no function is deployed step by step"},
	{"(elasticfilesystem|s3files):.*", "no function has a file system"},
	{"lambda:(Put|Delete)FunctionCodeSigningConfig|lambda:GetCodeSigningConfig", "no function has signed code"},
	{"lambda:((Put|Delete)(FunctionConcurrency|ProvisionedConcurrencyConfig)|Put(FunctionScaling|FunctionRecursion|RuntimeManagement)Config|PassCapacityProvider|AssociateRuntimeAlias)", "no function sets this"},
	{"kms:(GenerateDataKey|ListAliases|RevokeGrant)", "the key encrypts no variables of functions"},
	{"dynamodb:(AssociateTableReplica|CreateTableReplica|BatchWriteItem|DeleteItem|PutItem|GetItem|Query|Scan|UpdateItem)", "the table has no replicas"},
	{"dynamodb:(ImportTable|DescribeImport)|logs:(Create|Describe)LogStreams?|logs:PutLogEvents|s3:GetObjectMetadata", "the table is not imported"},
	{"dynamodb:(Enable|Disable|Update)KinesisStreamingDestination|kinesis:.*", "the table has no stream to Kinesis"},
	{"dynamodb:(UpdateContributorInsights|(Put|Delete)ResourcePolicy)", "the table has neither"},
	{"iam:CreateServiceLinkedRole", "InstallRole creates it"},
	{"iam:(Attach|Detach|Put|Get|Delete)(Group|User)Policy", "the policies are of roles"},
	{"iam:DeleteRolePermissionsBoundary", "a role without its boundary could do more than the organisation allows"},
	{"ecs:PutAccountSetting.*", "the stack changes no setting of the account"},
	{"ec2:(Authorize|Revoke)SecurityGroupIngress|ec2:UpdateSecurityGroupRuleDescriptionsIngress", "the group has no inbound rules"},
	{"sns:PutDataProtectionPolicy", "the topic has none"},
	{"logs:((Put|Delete)(DataProtection|Index|Resource)Policy|CreateLogDelivery|PutBearerTokenAuthentication|PutLogGroupDeletionProtection)|firehose:.*|s3:REST.PUT.OBJECT", "the log groups have none"},
	{"s3tables:.*|s3:(Create|Delete|Update)BucketMetadata.*", "the bucket has no table of its metadata"},
	{"s3:Put(Accelerate|Analytics|IntelligentTiering|Inventory|Metrics|Replication|ObjectLock)Configuration|s3:PutBucket(Abac|Acl|CORS|Logging|ObjectLockConfiguration|Replication|Website)", "the bucket sets none of these"},
	{"s3:DeleteBucket(AnalyticsConfiguration|Cors|Encryption|Lifecycle|MetricsConfiguration|Replication|Website)", "nothing of it is ever removed"},
	{"s3:(DeleteObject|PutObjectAcl)", "CloudFormation touches no object"},
}

// ofStack is the resource that a request of CloudFormation names, such as of this stack or of another.
func ofStack(action, stack string) string {
	service, act, _ := strings.Cut(action, ":")
	switch service {
	case "lambda":
		switch {
		case act == "PublishLayerVersion":
			return arn("lambda", "layer:"+stack+"-trust")
		case strings.Contains(act, "LayerVersion"):
			return arn("lambda", "layer:"+stack+"-trust:1")
		}
		return arn("lambda", "function:"+stack+"-InstallFunction-0123")
	case "apigateway":
		all := map[bool]string{true: "restapis", false: "domainnames"}[stack == "bounds"]
		if act == "POST" {
			return "arn:aws:apigateway:eu-west-1::/" + all
		}
		return "arn:aws:apigateway:eu-west-1::/" + all + "/abc"
	case "iam":
		if strings.Contains(act, "Policy") && !strings.Contains(act, "RolePolic") && act != "UpdateAssumeRolePolicy" {
			return "arn:aws:iam::123456789012:policy/" + stack + "-NetworkOfFunctions-0123"
		}
		return role(stack + "-RunnerRole-0123")
	case "dynamodb":
		return arn("dynamodb", "table/"+stack+"-Table-0123")
	case "s3":
		switch bucket := map[bool]string{true: "the-bucket", false: "other"}[stack == "bounds"]; {
		case !strings.HasPrefix(act, "GetObject"):
			return "arn:aws:s3:::" + bucket
		case stack == "bounds":
			return "arn:aws:s3:::artifacts/0123"
		}
		return "arn:aws:s3:::other/0123"
	case "ecs":
		if act == "RegisterTaskDefinition" {
			return arn("ecs", "task-definition/"+stack+"-runner:1")
		}
		return arn("ecs", "cluster/"+stack+"-Cluster-0123")
	case "logs":
		return arn("logs", "log-group:/terrapulse/"+stack+"/0123/api")
	case "sqs":
		return arn("sqs", stack+"-DeadLetters-0123")
	case "sns":
		return arn("sns", stack+"-Notifications-0123")
	case "events":
		return arn("events", "rule/"+stack+"-SettleFunctionStopped-0123")
	case "scheduler":
		return arn("scheduler", "schedule/default/"+stack+"-ReconcileFunctionTick-0123")
	case "cloudwatch":
		if strings.Contains(act, "Dashboard") {
			return "arn:aws:cloudwatch::123456789012:dashboard/" + stack
		}
		return arn("cloudwatch", "alarm:"+stack+"-NoTicks-0123")
	case "ec2":
		return arn("ec2", "security-group/sg-0123")
	}
	return kmsARN
}

// The role of CloudFormation has the rights that the schemas of the template's resources name, and no others; and these only
// for what belongs to the stack.
func TestPeople_CloudFormationMayCreateTheStackAndNothingElse(t *testing.T) {
	stack := bounds(t)
	policy := stack.Person(t, "cloudformation")
	var kinds []string
	for _, r := range stack.Template.Resources {
		if !strings.HasPrefix(r.Type, "Custom::") && !slices.Contains(kinds, r.Type) {
			kinds = append(kinds, r.Type)
		}
	}
	var handlers map[string][]string
	python(t, &handlers, "handlers.py", kinds...)
	unused := make([]bool, len(unneeded))
	needed := []string{"lambda:InvokeFunction"} // custom resources
	for _, kind := range kinds {
		for _, action := range handlers[kind] {
			i := slices.IndexFunc(unneeded, func(u struct{ actions, why string }) bool {
				return regexp.MustCompile("^(" + u.actions + ")$").MatchString(action)
			})
			if i >= 0 {
				unused[i] = true
			} else if !slices.Contains(needed, action) {
				needed = append(needed, action)
			}
		}
	}
	for i, u := range unneeded {
		if !unused[i] {
			t.Errorf("no schema names %s: remove it", u.actions)
		}
	}
	for _, action := range actionsOf(policy) {
		if !slices.ContainsFunc(needed, func(one string) bool { ok, _ := path.Match(action, one); return ok }) {
			t.Errorf("it allows %s, which no schema names", action)
		}
	}
	withoutResource := []string{"ecs:DeregisterTaskDefinition", "ecs:DescribeTaskDefinition", "logs:DescribeIndexPolicies", "logs:DescribeLogGroups", "logs:DescribeResourcePolicies"}
	var own, others []rehearsal.Request
	for _, action := range needed {
		if action == "lambda:GetProvisionedConcurrencyConfig" {
			continue // the simulator cannot tell an alias from a version
		}
		context := map[string][]any{
			"iam:PassRole":    {"iam:PassedToService", "ecs-tasks.amazonaws.com"},
			"kms:CreateGrant": {"kms:ViaService", "dynamodb.eu-west-1.amazonaws.com"}, "kms:Decrypt": {"kms:ViaService", "dynamodb.eu-west-1.amazonaws.com"},
			"kms:DescribeKey": {"kms:ViaService", "dynamodb.eu-west-1.amazonaws.com"}, "kms:Encrypt": {"kms:ViaService", "dynamodb.eu-west-1.amazonaws.com"},
		}[action]
		if slices.Contains(withBoundary, action) {
			context = []any{"iam:PermissionsBoundary", "arn:aws:iam::123456789012:policy/boundary"}
			others = append(others, ask(action, ofStack(action, "bounds")), ask(action, ofStack(action, "bounds"), "iam:PermissionsBoundary", "arn:aws:iam::123456789012:policy/other"))
		}
		if strings.HasPrefix(action, "ec2:Describe") || slices.Contains(withoutResource, action) {
			own = append(own, ask(action, "*"))
			continue
		}
		own = append(own, ask(action, ofStack(action, "bounds"), context...))
		if service, act, _ := strings.Cut(action, ":"); service != "ec2" && action != "apigateway:PUT" && act != "UpdateRestApiPolicy" && service != "kms" && !strings.Contains(act, "Dashboard") {
			others = append(others, ask(action, ofStack(action, "other"), context...))
		}
	}
	others = append(others,
		ask("iam:PassRole", ofStack("iam:PassRole", "bounds"), "iam:PassedToService", "ec2.amazonaws.com"), ask("iam:CreateUser", "arn:aws:iam::123456789012:user/new"),
		ask("iam:DeleteRolePermissionsBoundary", role("bounds-RunnerRole-0123")),
		ask("lambda:InvokeFunction", arn("lambda", "function:bounds-ReconcileFunction-0123")), ask("s3:PutObject", object("some-prefix/current")),
		ask("kms:Decrypt", kmsARN),
		rehearsal.Records("dynamodb:PutItem", arn("dynamodb", "table/bounds-Table-0123"), "definition"),
	)
	expect(t, "CloudFormation", policy, true, own)
	expect(t, "CloudFormation", policy, false, others)
}

// expect reports each request about which a policy does not judge as wanted.
func expect(t *testing.T, who string, policy rehearsal.Policy, want bool, requests []rehearsal.Request) {
	t.Helper()
	for i, allowed := range policy.Judge(t, rehearsal.Limits{}, requests...) {
		if allowed != want {
			t.Errorf("the policy of %s allows %s: %v", who, requests[i], allowed)
		}
	}
}

// withBoundary are what CloudFormation may do only with roles that have the boundary of the organisation.
var withBoundary = []string{"iam:AttachRolePolicy", "iam:CreateRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy"}

// people are the persons of infra/organisation/people with requests that their commands send, and that they may not send.
// functions/e2e runs commands with these policies.
func TestPeople_PoliciesAllowWhatTheirCommandsRequestAndNoMore(t *testing.T) {
	stack := bounds(t)
	const via = "lambda:InvokedViaFunctionUrl"
	api, reconcile, table := arn("lambda", "function:"+stack.Functions["ApiFunction"].Name), arn("lambda", "function:"+stack.Functions["ReconcileFunction"].Name), arn("dynamodb", "table/"+stack.Outputs["Table"])
	gateway := func(request string) rehearsal.Request {
		return ask("execute-api:Invoke", arn("execute-api", stack.Resources["Gateway"].ID+"/terrapulse/"+request))
	}
	find := ask("cloudformation:DescribeStacks", arn("cloudformation", "stack/bounds/0123"))
	url := []rehearsal.Request{find, ask("lambda:InvokeFunctionUrl", api, "lambda:FunctionUrlAuthType", "AWS_IAM"), ask("lambda:InvokeFunction", api, via, "true"), gateway("GET/v1/overview"), gateway("GET/ui/")}
	approve := []rehearsal.Request{gateway("POST/v1/approvals"), gateway("POST/v1/tasks/web/approval"), gateway("POST/ui/approvals"), gateway("POST/ui/tasks/web/approve"), gateway("POST/ui/tasks/web/reject")}
	act := []rehearsal.Request{gateway("POST/v1/tasks/web/run"), gateway("POST/v1/pause"), gateway("POST/v1/tasks"), gateway("DELETE/v1/tasks/web"), gateway("PATCH/v1/tasks/web"), gateway("POST/ui/tasks/web/run")}
	doctor := []rehearsal.Request{ // support-bundle requests the same
		ask("lambda:InvokeFunction", reconcile), rehearsal.Records("dynamodb:GetItem", table, "task"), rehearsal.Records("dynamodb:GetItem", table, "run"),
		ask("cloudwatch:DescribeAlarms", arn("cloudwatch", "alarm:bounds-")), ask("cloudwatch:GetMetricData", "*"),
		ask("logs:FilterLogEvents", arn("logs", "log-group:"+stack.Resources["RunnerLog"].ID)), ask("sqs:GetQueueAttributes", queue(stack.Outputs["DeadLetters"])),
		ask("s3:GetBucketNotification", "arn:aws:s3:::the-bucket"), ask("s3:GetObject", object("some-prefix/logs/web/0123.plan.gz")),
		ask("s3:GetObject", object("some-prefix/current")), ask("s3:GetObject", object("some-prefix/bundles/0123.zip")),
		ask("kms:Decrypt", kmsARN, "kms:ViaService", "dynamodb.eu-west-1.amazonaws.com"),
	}
	push := []rehearsal.Request{
		ask("s3:GetObject", object("some-prefix/current")), ask("s3:GetObject", object("some-prefix/bundles/0123.zip")), ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/current"),
		ask("s3:PutObject", object("some-prefix/bundles/0123.zip"), "s3:if-none-match", "*"), ask("s3:PutObject", object("some-prefix/current"), "s3:if-match", "0123"),
	}
	stackOf := func(action, name string) rehearsal.Request {
		return ask("cloudformation:"+action, arn("cloudformation", "stack/"+name+"/0123"))
	}
	deploy := []rehearsal.Request{ // as the SAM command line sends them
		find, stackOf("DescribeStacks", "aws-sam-cli-managed-default"), stackOf("CreateChangeSet", "bounds"), stackOf("DescribeChangeSet", "bounds"), stackOf("ExecuteChangeSet", "bounds"), stackOf("DescribeStackEvents", "bounds"),
		stackOf("ListChangeSets", "bounds"), stackOf("GetTemplate", "bounds"), stackOf("DeleteStack", "bounds"), stackOf("TagResource", "bounds"),
		ask("cloudformation:GetTemplateSummary", "*"), ask("ec2:DescribeSubnets", "*"),
		ask("iam:PassRole", role("cloudformation"), "iam:PassedToService", "cloudformation.amazonaws.com"),
		ask("s3:PutObject", "arn:aws:s3:::artifacts/0123"), ask("s3:GetObject", "arn:aws:s3:::artifacts/0123"), ask("s3:DeleteObject", "arn:aws:s3:::artifacts/0123"), ask("s3:ListBucket", "arn:aws:s3:::artifacts"),
	}
	forNobody := []rehearsal.Request{
		ask("lambda:InvokeFunction", api), ask("lambda:InvokeFunction", api, via, "false"), // a caller who names somebody else
		ask("lambda:UpdateFunctionCode", reconcile), rehearsal.Records("dynamodb:PutItem", table, "approval"), rehearsal.Records("dynamodb:PutItem", table, "definition"),
		rehearsal.Records("dynamodb:GetItem", table, "token"), ask("dynamodb:Scan", table), ask("s3:GetObject", object("some-prefix/state/web")), ask("secretsmanager:GetSecretValue", secretARN),
		ask("ecs:RunTask", arn("ecs", "task-definition/bounds-runner:1"), "ecs:cluster", stack.Outputs["Cluster"]), ask("iam:CreateRole", role("bounds-new")),
		ask("iam:PassRole", roleOf(stack, "RunnerRole"), "iam:PassedToService", "ecs-tasks.amazonaws.com"), ask("kms:Decrypt", kmsARN, "kms:ViaService", "secretsmanager.eu-west-1.amazonaws.com"),
		stackOf("CreateChangeSet", "other"), stackOf("CreateStack", "bounds"), ask("iam:PassRole", role("admin"), "iam:PassedToService", "cloudformation.amazonaws.com"),
		ask("execute-api:Invoke", arn("execute-api", "other/terrapulse/GET/v1/overview")),
	}
	join := slices.Concat[[]rehearsal.Request]
	every := join(url, approve, act, doctor, push, deploy)
	for person, allows := range map[string][]rehearsal.Request{
		"read": url, "approve": join(url, approve), "operate": join(url, approve, act, doctor), "deploy": deploy,
		"push": join(push, []rehearsal.Request{find, ask("lambda:InvokeFunction", reconcile)}),
	} {
		policy := stack.Person(t, person)
		expect(t, person, policy, true, allows)
		denies := slices.Clone(forNobody)
		for _, r := range every {
			if !slices.ContainsFunc(allows, func(one rehearsal.Request) bool { return one.String() == r.String() }) && r.Action != "kms:Decrypt" {
				denies = append(denies, r)
			}
		}
		if person == "push" { // as in examples/ci/github/roles.yaml
			denies = slices.DeleteFunc(denies, func(r rehearsal.Request) bool { return r.Action == "kms:Decrypt" })
		}
		expect(t, person, policy, false, denies)
		for _, action := range actionsOf(policy) {
			if !slices.ContainsFunc(allows, func(r rehearsal.Request) bool { return r.Action == action }) && !strings.HasPrefix(action, "kms:") {
				t.Errorf("%s allows %s, of which there is no request", person, action)
			}
		}
	}
}

// A person pushes with the same rights as the job of examples/ci/github.
func TestPeople_PushIsTheRoleOfTheWorkflow(t *testing.T) {
	var printed struct {
		Policies []struct {
			Name     string
			Document struct{ Statement rehearsal.Policy }
		}
	}
	python(t, &printed, "policies.py", filepath.Join(testtools.Root(t), "examples", "ci", "github", "roles.yaml"))
	for _, p := range printed.Policies {
		if !strings.HasSuffix(p.Name, "PushRole, push") {
			continue
		}
		push := rehearsal.Person(t, "push", "function:STACK-ReconcileFunction-*", "function:reconcilefunction", "STACK", "terrapulse", "BUCKET", "bucket", "PREFIX", "terrapulse", "KEY", kmsARN)
		if !reflect.DeepEqual(push, p.Document.Statement) {
			t.Errorf("people/push.json has\n%v\nroles.yaml has\n%v", push, p.Document.Statement)
		}
		return
	}
	t.Error("roles.yaml has no PushRole")
}

// A managed policy has at most 6,144 characters. The policies of a role itself have together at most 10,240.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
func TestPeople_PoliciesAreAsSmallAsIAMDemands(t *testing.T) {
	stack := bounds(t)
	for person, most := range map[string]int{"deploy": 6144, "push": 6144, "operate": 6144, "approve": 6144, "read": 6144, "cloudformation": 10240} {
		text, err := json.Marshal(rehearsal.Document(stack.Person(t, person)))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > most-1000 { // longer names
			t.Errorf("%s has %d characters", person, len(text))
		}
	}
}
