package infra_test

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
)

// arn returns the ARN of what a service calls this, in the account and region of the tests.
func arn(service, name string) string {
	return "arn:aws:" + service + ":eu-west-1:123456789012:" + name
}

func role(name string) string { return "arn:aws:iam::123456789012:role/" + name }

// rolePath is the path of the roles of the stack that bounds returns.
const rolePath = "/network/terrapulse/"

// roleOf returns the ARN of a role of that stack.
func roleOf(s *rehearsal.Stack, name string) string { return role(rolePath[1:] + s.Resources[name].ID) }

// object returns the ARN of an object of the stack that bounds returns.
func object(key string) string { return "arn:aws:s3:::the-bucket/" + key }

// ask returns a request with pairs of condition keys and values.
func ask(action, resource string, context ...any) rehearsal.Request {
	r := rehearsal.Request{Action: action, Resource: resource, Context: map[string]any{}}
	for pair := range slices.Chunk(context, 2) {
		r.Context[pair[0].(string)] = pair[1]
	}
	switch {
	case strings.HasPrefix(action, "kms:"): // as the policy of a new key
		r.ResourcePolicy = rehearsal.Document(map[string]any{"Effect": "Allow", "Principal": account, "Action": "kms:*", "Resource": "*"})
	case action == "sts:AssumeRole":
		r.ResourcePolicy = rehearsal.Document(map[string]any{"Effect": "Allow", "Principal": account, "Action": action})
	}
	return r
}

// account is the principal of a resource policy that leaves it to the account who may use the resource.
var account = map[string]string{"AWS": "arn:aws:iam::123456789012:root"}

// logs returns the requests that write a log of a stack.
func logs(s *rehearsal.Stack, log string) []rehearsal.Request {
	stream := arn("logs", "log-group:"+s.Resources[log].ID+":log-stream:one")
	return []rehearsal.Request{ask("logs:CreateLogStream", stream), ask("logs:PutLogEvents", stream)}
}

// keyUse returns the requests of services for a role with the key that encrypts what they keep.
func keyUse(services ...string) (requests []rehearsal.Request) {
	for _, service := range services {
		for _, action := range []string{"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:DescribeKey"} {
			requests = append(requests, ask(action, kmsARN, "kms:ViaService", service+".eu-west-1.amazonaws.com"))
		}
	}
	return requests
}

// Of a request that creates network interfaces, Lambda names the function to whose code the role belongs.
const byCode = "lambda:SourceFunctionArn"

// interfaces are the requests with which Lambda manages the network interfaces of functions in a VPC.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions
func interfaces(context ...any) (change, read []rehearsal.Request) {
	for _, action := range []string{"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"} {
		change = append(change, ask(action, arn("ec2", "network-interface/eni-1"), context...))
	}
	for _, action := range []string{"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"} {
		read = append(read, ask(action, "*", context...))
	}
	return change, read
}

// requested are requests with the roles of the stack bounds: at least one for each action that a program calls,
// or that a service sends for it.
func requested(t *testing.T, s *rehearsal.Stack) map[string][]rehearsal.Request {
	table, cluster, reconcile := arn("dynamodb", "table/"+s.Outputs["Table"]), s.Outputs["Cluster"], arn("lambda", "function:"+s.Functions["ReconcileFunction"].Name)
	if !strings.HasPrefix(cluster, "arn:") {
		cluster = arn("ecs", "cluster/"+cluster)
	}
	task := strings.Replace(cluster, ":cluster/", ":task/", 1) + "/0123"
	runner := arn("ecs", "task-definition/bounds-runner:7")
	image := arn("ecr", "repository/team/terraform")
	lost := queue(s.Outputs["DeadLetters"])
	notify := []rehearsal.Request{ask("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:notify/pager-AbCdEf")), ask("ssm:GetParameter", arn("ssm", "parameter/notify/slack"))}
	passed := func(name string) rehearsal.Request {
		return ask("iam:PassRole", roleOf(s, name), "iam:PassedToService", "ecs-tasks.amazonaws.com")
	}
	change, look := interfaces()
	all := map[string][]rehearsal.Request{
		"InstallRole": slices.Concat(logs(s, "InstallLog"), keyUse("s3")[:1], keyUse("s3")[2:3], []rehearsal.Request{
			ask("s3:PutObject", object("some-prefix/programs/bounds/0123")),
			ask("s3:DeleteObject", object("some-prefix/programs/bounds/0123")),
			ask("s3:DeleteObjectVersion", object("some-prefix/programs/bounds/0123")),
			ask("s3:ListBucketVersions", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/programs/bounds/"),
			ask("dynamodb:DescribeTable", table), ask("dynamodb:UpdateTable", table),
			ask("iam:CreateServiceLinkedRole", role("aws-service-role/ecs.amazonaws.com/AWSServiceRoleForECS"), "iam:AWSServiceName", "ecs.amazonaws.com"),
			ask("ecs:CreateCluster", arn("ecs", "cluster/bounds-probe")), ask("ecs:DeleteCluster", arn("ecs", "cluster/bounds-probe")),
			ask("ec2:DescribeSubnets", "*"), ask("ec2:DescribeRouteTables", "*"), ask("ec2:DescribeVpcEndpoints", "*"),
			ask("ec2:DescribeSecurityGroups", "*"), ask("ec2:DescribeNetworkInterfaces", "*"),
		}),
		"ReconcileRole": slices.Concat(logs(s, "ReconcileLog"), keyUse("dynamodb", "s3", "secretsmanager", "ssm"), notify, change, look, []rehearsal.Request{
			ask("dynamodb:DescribeTable", table), ask("dynamodb:DescribeTimeToLive", table),
			ask("s3:GetObject", object("some-prefix/current")), ask("s3:GetObject", object("some-prefix/bundles/0123.zip")),
			ask("s3:GetObject", object("some-prefix/programs/bounds/0123")), ask("s3:GetObject", object("some-prefix/logs/web/0123.log.gz")),
			ask("s3:PutObject", object("some-prefix/logs/web/0123.log.gz"), "s3:if-none-match", "*"),
			ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/bundles/"), ask("s3:ListBucket", "arn:aws:s3:::the-bucket"),
			ask("ecs:RunTask", runner, "ecs:cluster", cluster, "ecs:enable-execute-command", "false"), ask("ecs:TagResource", task, "ecs:CreateAction", "RunTask"),
			passed("ExecutionRole"), passed("RunnerRole"), passed("PlanRole"),
			ask("ecs:ListTasks", "*", "ecs:cluster", cluster), ask("ecs:DescribeTasks", task), ask("ecs:DescribeClusters", cluster), ask("ecs:DescribeTaskDefinition", "*"),
			ask("secretsmanager:GetSecretValue", secretARN), ask("ssm:GetParameter", notificationARN),
			ask("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:notify/pager-AbCdEf")), ask("ssm:GetParameter", arn("ssm", "parameter/notify/slack")),
			ask("sqs:SendMessage", lost),
			ask("events:PutEvents", arn("events", "event-bus/network"), "events:source", "terrapulse"), ask("events:DescribeEventBus", arn("events", "event-bus/network")),
		}),
		"SettleRole": slices.Concat(logs(s, "SettleLog"), keyUse("dynamodb"), []rehearsal.Request{
			ask("lambda:InvokeFunction", reconcile), ask("sqs:SendMessage", lost),
		}),
		"NotificationRole": slices.Concat(logs(s, "NotificationLog"), keyUse("ssm"), []rehearsal.Request{
			ask("ssm:GetParameter", notificationARN), ask("lambda:InvokeFunction", reconcile),
		}),
		"ApiRole": slices.Concat(logs(s, "ApiLog"), keyUse("dynamodb", "s3"), []rehearsal.Request{
			ask("s3:GetObject", object("some-prefix/current")), ask("s3:GetObject", object("some-prefix/bundles/0123.zip")), ask("s3:GetObject", object("some-prefix/logs/web/0123.log.gz")),
			ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/logs/"), ask("s3:ListBucket", "arn:aws:s3:::the-bucket"),
			ask("lambda:InvokeFunction", reconcile),
		}),
		"RunnerRole": slices.Concat(keyUse("dynamodb", "s3"), []rehearsal.Request{
			ask("s3:GetObject", object("some-prefix/bundles/0123.zip")), ask("s3:GetObject", object("some-prefix/providers/0123")), ask("s3:PutObject", object("some-prefix/providers/0123")),
			ask("s3:PutObject", object("some-prefix/logs/web/0123.log.gz"), "s3:if-none-match", "*"),
			ask("s3:GetObject", object("some-prefix/state/task/key")), ask("s3:PutObject", object("some-prefix/state/task/key")), ask("s3:DeleteObject", object("some-prefix/state/task/key.tflock")),
			ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/state/"), ask("s3:ListBucket", "arn:aws:s3:::the-bucket"),
			ask("sts:AssumeRole", role("network/lb")), ask("sts:AssumeRole", "arn:aws:iam::999999999999:role/dns"),
			ask("lambda:InvokeFunction", reconcile),
		}),
		"PlanRole": slices.Concat(keyUse("dynamodb", "s3"), []rehearsal.Request{
			ask("s3:GetObject", object("some-prefix/bundles/0123.zip")), ask("s3:GetObject", object("some-prefix/providers/0123")), ask("s3:PutObject", object("some-prefix/providers/0123")),
			ask("s3:PutObject", object("some-prefix/logs/web/0123.log.gz"), "s3:if-none-match", "*"),
			ask("s3:GetObject", object("some-prefix/state/task/key")), ask("s3:PutObject", object("some-prefix/state/task/key.tflock")), ask("s3:DeleteObject", object("some-prefix/state/task/key.tflock")),
			ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/state/"), ask("s3:ListBucket", "arn:aws:s3:::the-bucket"),
			ask("sts:AssumeRole", role("network/lb-plan")), ask("sts:AssumeRole", "arn:aws:iam::999999999999:role/dns-plan"),
		}),
		"ExecutionRole": slices.Concat(logs(s, "RunnerLog"), keyUse("secretsmanager"), []rehearsal.Request{
			ask("secretsmanager:GetSecretValue", secretARN), ask("ecr:GetAuthorizationToken", "*"),
			ask("ecr:BatchCheckLayerAvailability", image), ask("ecr:BatchGetImage", image), ask("ecr:GetDownloadUrlForLayer", image),
		}),
		"ScheduleRole": {ask("lambda:InvokeFunction", reconcile), ask("sqs:SendMessage", lost)},
	}
	for of, acts := range documentedRecords(t) {
		for act, collections := range acts {
			for _, action := range recordActions[act] {
				if !slices.Contains(actionsOf(s.Roles[of]), action) {
					continue // TestRoles_AllowExactlyWhatTheirProgramsCall
				}
				all[of] = append(all[of], rehearsal.Records(action, table, collections...))
			}
		}
	}
	return all
}

// recordActions are the actions on records, by the words of the documentation.
var recordActions = map[string][]string{
	"read": {"dynamodb:GetItem", "dynamodb:Query", "dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem"}, "write": {"dynamodb:PutItem"}, "remove": {"dynamodb:DeleteItem"},
	"": {"dynamodb:UpdateItem", "dynamodb:BatchWriteItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:PartiQLDelete"}, // of nobody
}

func actionsOf(p rehearsal.Policy) (actions []string) {
	for _, s := range p {
		actions = append(actions, s.Actions...)
	}
	return actions
}

// documentedRecords returns the collections that docs/security.md names, by role and by "read", "write" or "remove".
func documentedRecords(t *testing.T) map[string]map[string][]string {
	t.Helper()
	rows := table(t, "docs/security.md", "role of the records")
	documented := map[string]map[string][]string{}
	for _, row := range rows[1:] {
		documented[row[0]] = map[string][]string{}
		for i, cell := range row[1:] {
			for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
				act := strings.TrimSuffix(rows[0][1+i], "s")
				documented[row[0]][act] = append(documented[row[0]][act], m[1])
			}
		}
	}
	return documented
}

// table returns the cells of the table of a page whose first column has this title, with its titles.
func table(t *testing.T, page, title string) (rows [][]string) {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "\n| "+title+" |")
	if !found {
		t.Fatalf("%s has no table of %s", page, title)
	}
	text, _, _ = strings.Cut("| "+title+" |"+text, "\n\n")
	for i, line := range strings.Split(text, "\n") {
		if i == 1 {
			continue // the line below the titles
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// ofSecrets are the actions that read a secret: its ARN says which of them is requested.
var ofSecrets = []string{"secretsmanager:GetSecretValue", "ssm:GetParameter", "ssm:GetParameters"}

// IAM allows what the programs, and AWS on behalf of the stack, request with each role. Each action that a
// program calls has a request.
func TestRoles_AllowTheRequestsOfTheStack(t *testing.T) {
	stack := bounds(t)
	all := requested(t, stack)
	for role, policy := range stack.Roles {
		expect(t, role, policy, true, all[role])
		for _, action := range actionsOf(policy) {
			if !slices.Contains(ofSecrets, action) && !slices.ContainsFunc(all[role], func(r rehearsal.Request) bool { return r.Action == action }) {
				t.Errorf("%s allows %s, of which there is no request", role, action)
			}
		}
	}
	for role := range all {
		if len(stack.Roles[role]) == 0 {
			t.Errorf("there is no %s", role)
		}
	}
}

// Each role touches the records of the documentation, and no other.
func TestRoles_RecordsAreThoseOfTheDocumentation(t *testing.T) {
	stack := bounds(t)
	documented := documentedRecords(t)
	records := arn("dynamodb", "table/"+stack.Outputs["Table"])
	collections := []string{"new"}
	for _, acts := range documented {
		for _, named := range acts {
			collections = append(collections, named...)
		}
	}
	slices.Sort(collections)
	collections = slices.Compact(collections)
	for role, policy := range stack.Roles {
		var requests []rehearsal.Request
		var wanted []bool
		for act, actions := range recordActions {
			for _, action := range actions {
				for _, collection := range collections {
					requests = append(requests, rehearsal.Records(action, records, strings.Replace(collection, "*", "2026-11", 1)))
					wanted = append(wanted, slices.Contains(documented[role][act], collection) && slices.Contains(actionsOf(policy), action))
				}
			}
		}
		requests, wanted = append(requests, ask("dynamodb:Scan", records)), append(wanted, false) // no condition limits it
		for i, allowed := range policy.Judge(t, rehearsal.Limits{}, requests...) {
			if allowed != wanted[i] {
				t.Errorf("%s allows %s: %v", role, requests[i], allowed)
			}
		}
	}
	for role := range documented {
		if len(stack.Roles[role]) == 0 {
			t.Errorf("there is no %s", role)
		}
	}
}

// What a module or provider in a container could do with its role, and what nobody may do.
func TestRoles_DoNotChangeTheRecordsOfOthers(t *testing.T) {
	may := documentedRecords(t)
	for _, collection := range []string{"approval", "definition", "override", "lease", "reconcile", "token", "audit-*", "refusal", "remote", "staged", "history", "events", "threads", "what-if"} {
		if slices.Contains(may["RunnerRole"]["write"], collection) {
			t.Errorf("RunnerRole may write %s", collection)
		}
	}
	for _, collection := range []string{"approval", "task", "launch", "outbox", "definition", "override", "lease", "reconcile", "token", "audit-*"} {
		if slices.Contains(may["RunnerRole"]["remove"], collection) {
			t.Errorf("RunnerRole may remove %s", collection)
		}
	}
	for _, act := range []string{"write", "remove"} {
		for _, collection := range []string{"inputs", "launch", "outbox", "runner", "remote", "staged", "summary", "task"} {
			if slices.Contains(may["PlanRole"][act], collection) {
				t.Errorf("PlanRole may %s %s", act, collection)
			}
		}
		for _, collection := range may["PlanRole"][act] {
			if !slices.Contains(may["RunnerRole"][act], collection) {
				t.Errorf("PlanRole may %s %s, and RunnerRole may not", act, collection)
			}
		}
	}
	for collection, writers := range map[string][]string{
		"approval": {"ApiRole", "ReconcileRole"}, "audit-*": {"ApiRole", "ReconcileRole"}, "lease": {"ReconcileRole"}, "reconcile": {"ApiRole", "ReconcileRole"}, "override": {"ApiRole", "ReconcileRole"},
	} {
		var found []string
		for _, role := range slices.Sorted(maps.Keys(may)) {
			if slices.Contains(may[role]["write"], collection) {
				found = append(found, role)
			}
			if collection == "audit-*" && slices.Contains(may[role]["remove"], collection) {
				t.Errorf("%s may remove entries of the audit record", role)
			}
		}
		if !slices.Equal(found, writers) {
			t.Errorf("%v may write %s; only %v may", found, collection, writers)
		}
	}
}

// The rights of a role are limited to what belongs to the stack, and to how its programs use it.
func TestRoles_AreLimitedToTheStack(t *testing.T) {
	stack := bounds(t)
	cluster, runner := stack.Outputs["Cluster"], arn("ecs", "task-definition/bounds-runner:7")
	if !strings.HasPrefix(cluster, "arn:") {
		cluster = arn("ecs", "cluster/"+cluster)
	}
	byFunction := arn("lambda", "function:"+stack.Functions["ReconcileFunction"].Name)
	change, _ := interfaces(byCode, byFunction)
	for role, strangers := range map[string][]rehearsal.Request{
		"InstallRole": {
			ask("s3:DeleteObjectVersion", object("some-prefix/programs/other/0123")), // of another stack
			ask("s3:ListBucketVersions", "arn:aws:s3:::the-bucket", "s3:prefix", "some-prefix/programs/other/"),
			ask("s3:ListBucketVersions", "arn:aws:s3:::the-bucket"),
			ask("iam:CreateServiceLinkedRole", role("aws-service-role/ecs.amazonaws.com/AWSServiceRoleForECS"), "iam:AWSServiceName", "eks.amazonaws.com"),
			ask("ecs:DeleteCluster", cluster),
			ask("kms:Decrypt", kmsARN), ask("kms:Decrypt", kmsARN, "kms:ViaService", "dynamodb.eu-west-1.amazonaws.com"),
			ask("dynamodb:UpdateTable", arn("dynamodb", "table/other")),
		},
		"ReconcileRole": append(change,
			ask("ecs:RunTask", arn("ecs", "task-definition/other:7"), "ecs:cluster", cluster),
			ask("ecs:RunTask", runner, "ecs:cluster", arn("ecs", "cluster/other")),
			ask("ecs:RunTask", runner, "ecs:cluster", cluster, "ecs:enable-execute-command", "true"),
			ask("ecs:RunTask", runner, "ecs:cluster", cluster, "ecs:enable-ebs-volumes", "true"),
			ask("ecs:TagResource", arn("ecs", "task/other/0123"), "ecs:CreateAction", "RunTask"),
			ask("ecs:TagResource", strings.Replace(cluster, ":cluster/", ":task/", 1)+"/0123"), // that runs already
			ask("ecs:ListTasks", "*", "ecs:cluster", arn("ecs", "cluster/other")),
			ask("ecs:DescribeTasks", arn("ecs", "task/other/0123")),
			ask("iam:PassRole", role("admin"), "iam:PassedToService", "ecs-tasks.amazonaws.com"),
			ask("iam:PassRole", roleOf(stack, "RunnerRole"), "iam:PassedToService", "lambda.amazonaws.com"),
			ask("s3:GetObject", object("env:/task/terraform.tfstate")), // state holds secrets
			ask("s3:GetObject", object("some-prefix/state/task/key")), ask("s3:GetObject", object("other")),
			ask("s3:PutObject", object("some-prefix/current")),
			ask("s3:PutObject", object("some-prefix/logs/web/0123.log.gz")), // it could replace one
			ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "other/"),
			rehearsal.Records("dynamodb:GetItem", arn("dynamodb", "table/other"), "task"),
			ask("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:other-AbCdEf")), ask("ssm:GetParameter", arn("ssm", "parameter/other")),
			ask("sts:AssumeRole", "arn:aws:iam::999999999999:role/dns"),
			ask("events:PutEvents", arn("events", "event-bus/default"), "events:source", "terrapulse"),
			ask("events:PutEvents", arn("events", "event-bus/network"), "events:source", "aws.ecs"),
			ask("kms:Decrypt", kmsARN), ask("kms:Decrypt", kmsARN, "kms:ViaService", "ec2.eu-west-1.amazonaws.com"),
		),
		"SettleRole": {
			ask("s3:GetObject", object("some-prefix/current")), ask("ecs:RunTask", runner, "ecs:cluster", cluster),
			ask("secretsmanager:GetSecretValue", secretARN), ask("lambda:InvokeFunction", arn("lambda", "function:other")),
		},
		"NotificationRole": {
			ask("secretsmanager:GetSecretValue", secretARN), ask("lambda:InvokeFunction", arn("lambda", "function:other")),
			rehearsal.Records("dynamodb:GetItem", arn("dynamodb", "table/"+stack.Outputs["Table"]), "task"),
		},
		"ApiRole": {
			ask("s3:GetObject", object("env:/task/terraform.tfstate")), ask("s3:GetObject", object("some-prefix/state/task/key")), // state holds secrets
			ask("s3:PutObject", object("some-prefix/current")),
			ask("secretsmanager:GetSecretValue", secretARN),    // it has functions/reconcile read the output in HCP Terraform
			ask("ecs:RunTask", runner, "ecs:cluster", cluster), // it has the function do that
			ask("lambda:InvokeFunction", arn("lambda", "function:other")),
		},
		"RunnerRole": {
			ask("secretsmanager:GetSecretValue", secretARN), // ECS gives it what it needs
			ask("ssm:GetParameter", arn("ssm", "parameter/notify/slack")),
			ask("sts:AssumeRole", role("admin")),
			ask("events:PutEvents", arn("events", "event-bus/network"), "events:source", "terrapulse"),
			ask("s3:GetObject", object("env:/task/terraform.tfstate")), ask("s3:DeleteObject", object("env:/task/terraform.tfstate")), // of another project in the same bucket
			ask("s3:GetObject", object("some-prefix/logs/web/0123.log.gz")), ask("s3:DeleteObject", object("some-prefix/logs/web/0123.log.gz")),
			ask("s3:PutObject", object("some-prefix/logs/web/0123.log.gz")), // it could replace one
			ask("s3:DeleteObject", object("some-prefix/providers/0123")),
			ask("s3:PutObject", object("some-prefix/bundles/0123.zip")), ask("s3:PutObject", object("some-prefix/bundles/0123.zip"), "s3:if-none-match", "*"), // a provider gone bad changes no task
			ask("s3:PutObject", object("some-prefix/current")), ask("s3:PutObject", object("some-prefix/programs/bounds/0123")),
			ask("s3:ListBucket", "arn:aws:s3:::the-bucket", "s3:prefix", "other/"),
			ask("iam:PassRole", roleOf(stack, "RunnerRole"), "iam:PassedToService", "ecs-tasks.amazonaws.com"),
			ask("ecs:RunTask", runner, "ecs:cluster", cluster),
			ask("lambda:InvokeFunction", arn("lambda", "function:other")), ask("lambda:UpdateFunctionCode", byFunction),
			ask("kms:Decrypt", kmsARN),
		},
		"PlanRole": {
			ask("secretsmanager:GetSecretValue", secretARN), ask("ssm:GetParameter", arn("ssm", "parameter/notify/slack")),
			ask("s3:PutObject", object("some-prefix/state/task/key")), ask("s3:DeleteObject", object("some-prefix/state/task/key")),
			ask("s3:PutObject", object("some-prefix/state/unsaved/task/0123")),
			ask("s3:GetObject", object("env:/task/terraform.tfstate")), ask("s3:PutObject", object("env:/task/terraform.tfstate.tflock")), // of another project in the same bucket
			ask("s3:GetObject", object("some-prefix/logs/web/0123.log.gz")), ask("s3:DeleteObject", object("some-prefix/logs/web/0123.log.gz")),
			ask("s3:PutObject", object("some-prefix/logs/web/0123.log.gz")), // it could replace one
			ask("s3:DeleteObject", object("some-prefix/providers/0123")),
			ask("s3:PutObject", object("some-prefix/bundles/0123.zip"), "s3:if-none-match", "*"), ask("s3:PutObject", object("some-prefix/current")),
			ask("sts:AssumeRole", role("network/lb")), ask("sts:AssumeRole", "arn:aws:iam::999999999999:role/dns"), // they apply
			ask("sts:AssumeRole", role(stack.Resources["RunnerRole"].ID)), ask("sts:AssumeRole", role("admin-plan")),
			ask("iam:PassRole", role(stack.Resources["RunnerRole"].ID), "iam:PassedToService", "ecs-tasks.amazonaws.com"),
			ask("ecs:RunTask", runner, "ecs:cluster", cluster), ask("lambda:InvokeFunction", byFunction),
			ask("kms:Decrypt", kmsARN),
		},
		"ExecutionRole": {
			ask("ecr:BatchGetImage", arn("ecr", "repository/other")),
			ask("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:other-AbCdEf")), ask("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:notify/pager-AbCdEf")),
		},
		"ScheduleRole": {ask("lambda:InvokeFunction", arn("lambda", "function:other"))},
	} {
		expect(t, role, stack.Roles[role], false, strangers)
	}
}

// Lambda manages network interfaces with the roles of functions in a VPC. The code of the functions may
// change none, and that of other functions has no rights to any.
func TestRoles_NetworkRightsAreForLambdaAlone(t *testing.T) {
	parameters := everything()
	delete(parameters, "RunnerPolicyArns")
	delete(parameters, "PlanPolicyArns")
	parameters["FunctionsInVpc"] = "all"
	all := deployed(t, "network", parameters)
	for what, stack := range map[string]*rehearsal.Stack{"consul": bounds(t), "all": all} {
		for name, f := range stack.Functions {
			in := len(f.VPC.SubnetIDs) > 0
			if in != (stack == all || name == "ReconcileFunction") {
				t.Errorf("%s: %s is in a VPC: %v", what, name, in)
			}
			policy := stack.Roles[strings.TrimSuffix(name, "Function")+"Role"]
			change, read := interfaces()
			changeByCode, readByCode := interfaces(byCode, arn("lambda", "function:"+f.Name))
			who := fmt.Sprintf("%s, which is in a VPC (%s): %v", name, what, in)
			expect(t, who, policy, in, change)
			expect(t, who, policy, false, changeByCode)
			if in { // functions/install may read elsewhere, too
				expect(t, who, policy, true, slices.Concat(read, readByCode))
			}
		}
	}
}

// What the resources of the stack allow services, and refuse everybody, is limited, too.
func TestResources_AreForTheStackAndItsServices(t *testing.T) {
	stack := bounds(t)
	parameters := rehearsal.Minimal("10.0.0.1:8500")
	parameters["Architecture"] = rehearsal.X8664
	least := deployed(t, "least", parameters)
	made := "arn:aws:s3:::" + least.Outputs["Bucket"] + "/terrapulse/current"
	lost, topic, api := queue(stack.Outputs["DeadLetters"]), stack.Resources["Notifications"].ID, arn("lambda", "function:"+stack.Functions["ApiFunction"].Name)
	// Each policy has a request that it allows, and the same with another value of one key.
	for _, tt := range []struct {
		of, policy, principal, action, resource, key, allowed, denied string
	}{
		{"least", "MadeBucketPolicy", "", "s3:GetObject", made, "aws:SecureTransport", "true", "false"},
		{"", "DeadLettersPolicy", "", "sqs:SendMessage", lost, "aws:SecureTransport", "true", "false"},
		{"", "DeadLettersPolicy", "events.amazonaws.com", "sqs:SendMessage", lost, "aws:SourceArn", arn("events", "rule/"+path.Base(stack.Resources["SettleFunctionStopped"].ID)), arn("events", "rule/other")},
		{"", "NotificationsPolicy", "cloudwatch.amazonaws.com", "sns:Publish", topic, "aws:SourceArn", arn("cloudwatch", "alarm:bounds-Lost"), arn("cloudwatch", "alarm:other")},
		{"", "NotificationsPolicy", "events.amazonaws.com", "sns:Publish", topic, "", "", "s3.amazonaws.com"},
		{"", "GatewayPermission", "apigateway.amazonaws.com", "lambda:InvokeFunction", api, "aws:SourceArn", arn("execute-api", stack.Resources["Gateway"].ID+"/terrapulse/GET/ui"), arn("execute-api", "other/terrapulse/GET/ui")},
		{"", "ScheduleRole", "scheduler.amazonaws.com", "sts:AssumeRole", roleOf(stack, "ScheduleRole"), "aws:SourceAccount", "123456789012", "999999999999"},
		{"", "ExecutionRole", "ecs-tasks.amazonaws.com", "sts:AssumeRole", roleOf(stack, "ExecutionRole"), "aws:SourceAccount", "123456789012", "999999999999"},
		{"", "RunnerRole", "ecs-tasks.amazonaws.com", "sts:AssumeRole", roleOf(stack, "RunnerRole"), "aws:SourceAccount", "123456789012", "999999999999"},
		{"", "PlanRole", "ecs-tasks.amazonaws.com", "sts:AssumeRole", roleOf(stack, "PlanRole"), "aws:SourceAccount", "123456789012", "999999999999"},
		{"", "ReconcileRole", "lambda.amazonaws.com", "sts:AssumeRole", roleOf(stack, "ReconcileRole"), "", "", "ecs-tasks.amazonaws.com"},
	} {
		of, sender := stack, rehearsal.Policy(nil)
		if tt.of == "least" {
			of = least
		}
		if tt.principal == "" { // a role that may do everything
			sender = rehearsal.Policy{{Effect: "Allow", Actions: []string{"*"}, Resources: []string{"*"}}}
		}
		if of.Policies[tt.policy] == nil {
			t.Fatalf("there is no %s", tt.policy)
		}
		good := ask(tt.action, tt.resource)
		good.Principal, good.ResourcePolicy = tt.principal, of.Policies[tt.policy]
		bad := good
		if tt.key == "" {
			bad.Principal = tt.denied
		} else {
			good.Context, bad.Context = map[string]any{tt.key: tt.allowed}, map[string]any{tt.key: tt.denied}
		}
		if got := sender.Judge(t, rehearsal.Limits{}, good, bad); !slices.Equal(got, []bool{true, false}) {
			t.Errorf("%s of %s by %q: %v with %s=%s and then %q", tt.policy, tt.action, tt.principal, got, tt.key, tt.allowed, tt.denied)
		}
	}
}
