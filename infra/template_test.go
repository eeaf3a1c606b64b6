// Package infra_test contains what the tests of template.yaml share. They deploy the template as
// CloudFormation would, without an account.
package infra_test

import (
	"cmp"
	"debug/elf"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/eventbridge"
	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/base/s3url"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const (
	secretARN       = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:terrapulse-AbCdEf"
	notifyARN       = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:notify/*,arn:aws:ssm:eu-west-1:123456789012:parameter/notify/slack"
	notificationARN = "arn:aws:ssm:eu-west-1:123456789012:parameter/hcp/notifications"
	kmsARN          = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
)

// maxProgram limits the programs of functions that answer often, in bytes: Lambda loads them at
// each cold start.
const maxProgram = 40_000_000

// everything returns a value for every parameter that changes the resources.
func everything() rehearsal.Parameters {
	p := rehearsal.Minimal("consul.example.com:8501")
	maps.Copy(p, rehearsal.Parameters{
		"ConsulAddress": "https://consul.example.com:8501",
		"SecretArns":    secretARN + "," + notifyARN, "HcpNotificationTokenArn": notificationARN,
		"SecurityGroups": "sg-1,sg-2", "AssignPublicIp": "true", "FunctionSubnets": "subnet-3,subnet-4", "FunctionSecurityGroups": "sg-3",
		"PollSeconds": "1", "Linger": "300s", "Capacity": "FARGATE_SPOT=3,FARGATE=1", "RunnerParallel": "4", "MaxContainers": "7",
		"TerraformImage": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/terraform:1.16.4",
		"Bucket":         "the-bucket/some-prefix", "KmsKeyArn": kmsARN,
		"RunnerPolicyArns": "arn:aws:iam::aws:policy/AmazonVPCFullAccess,arn:aws:iam::aws:policy/AmazonRoute53FullAccess",
		"PlanPolicyArns":   "arn:aws:iam::aws:policy/AmazonVPCReadOnlyAccess,arn:aws:iam::aws:policy/AmazonRoute53ReadOnlyAccess",
		"EventBus":         "network", "NotifyTo": "network@example.com",
		"PermissionsBoundary": "arn:aws:iam::aws:policy/PowerUserAccess",
		"RolePath":            rolePath,
		"TaskRoleArns":        "arn:aws:iam::123456789012:role/network/*,arn:aws:iam::999999999999:role/dns",
		"Api":                 "vpce-0a1b,vpce-0c2d",
		"ActArns":             "arn:aws:iam::123456789012:role/NetworkOperator,arn:aws:iam::123456789012:user/ann",
	})
	maps.Copy(p, rehearsal.Parameters{"HttpsProxy": "http://proxy.example.com:3128,.internal.example.com,10.0.0.0/8"})
	return p
}

var artifacts struct {
	sync.Mutex
	dir    string
	build  *rehearsal.Artifacts
	stacks map[string]*rehearsal.Stack // by name and parameters
}

func TestMain(m *testing.M) {
	var err error
	if artifacts.dir, err = os.MkdirTemp("", "terrapulse-infra-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(artifacts.dir)
	os.Exit(code)
}

// built returns the result of `sam build`, once for all tests.
func built(t *testing.T) *rehearsal.Artifacts {
	t.Helper()
	slow(t)
	artifacts.Lock()
	defer artifacts.Unlock()
	if artifacts.build == nil {
		artifacts.build = rehearsal.Build(t, filepath.Join(artifacts.dir, "build"))
	}
	return artifacts.build
}

// deployed returns the stack with a name and parameters. It is created once for all tests, which must
// not change it.
func deployed(t *testing.T, name string, parameters rehearsal.Parameters) *rehearsal.Stack {
	t.Helper()
	build := built(t)
	all := rehearsal.Parameters{"Architecture": rehearsal.Here()}
	maps.Copy(all, parameters)
	key := fmt.Sprint(name, all)
	artifacts.Lock()
	defer artifacts.Unlock()
	if artifacts.stacks[key] == nil {
		if artifacts.stacks == nil {
			artifacts.stacks = map[string]*rehearsal.Stack{}
		}
		artifacts.stacks[key] = build.Deploy(t, name, all)
	}
	return artifacts.stacks[key]
}

// every returns a stack with every parameter.
func every(t *testing.T) *rehearsal.Stack {
	t.Helper()
	return deployed(t, "every", everything())
}

// bounds returns a stack with every parameter except the policies that a user adds.
func bounds(t *testing.T) *rehearsal.Stack {
	t.Helper()
	parameters := everything()
	delete(parameters, "RunnerPolicyArns")
	delete(parameters, "PlanPolicyArns")
	return deployed(t, "bounds", parameters)
}

func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the functions and deploys them into moto")
	}
}

// The template sets every variable that a function or the container reads. Every variable that the
// template sets is read, by Terrapulse or by a program that is named here.
func TestTemplate_SetsTheVariablesThatAreRead(t *testing.T) {
	others := []string{
		"AWS_REGION",                    // the SDK in the container; functions have it from Lambda
		"CONSUL_HTTP_ADDR",              // internal/taskfile/config
		"HTTPS_PROXY",                   // Go, and git
		"NO_PROXY",                      // Go, and git
		"AWS_USE_DUALSTACK_ENDPOINT",    // the SDK
		"SSL_CERT_DIR",                  // Go: /opt/trust, from layers/trust
		"TERRAPULSE_LAUNCH",             // the launcher
		"TERRAPULSE_RECONCILE_FUNCTION", // the launcher
		"AWS_LAMBDA_FUNCTION_NAME",      // Lambda
	}
	stack := every(t)
	var container []string
	environ := []string{"TERRAPULSE_LAUNCH=1"}
	for _, v := range stack.Runner().Environment {
		container = append(container, *v.Name)
		environ = append(environ, *v.Name+"="+*v.Value)
	}
	for _, v := range stack.Runner().Secrets {
		container = append(container, *v.Name)
	}
	for _, tt := range []struct {
		where string
		set   []string
		read  []settings.Variable
	}{
		{"ReconcileFunction", slices.Collect(maps.Keys(stack.Functions["ReconcileFunction"].Environment)), settings.Variables[settings.Reconcile]()},
		{"SettleFunction", slices.Collect(maps.Keys(stack.Functions["SettleFunction"].Environment)), settings.Variables[settings.Settle]()},
		{"NotificationFunction", slices.Collect(maps.Keys(stack.Functions["NotificationFunction"].Environment)), settings.Variables[settings.Notification]()},
		{"ApiFunction", slices.Collect(maps.Keys(stack.Functions["ApiFunction"].Environment)), settings.Variables[settings.API]()},
		{"the container", container, settings.Variables[settings.Runner]()},
	} {
		for _, v := range tt.read {
			if !slices.Contains(tt.set, v.Name) && !slices.Contains(others, v.Name) {
				t.Errorf("%s reads %s, which the template does not set", tt.where, v.Name)
			}
		}
		for _, name := range tt.set {
			if !slices.ContainsFunc(tt.read, func(v settings.Variable) bool { return v.Name == name }) && !slices.Contains(others, name) {
				t.Errorf("the template sets %s for %s, which nobody reads", name, tt.where)
			}
		}
	}
	if subnets := stack.Functions["ReconcileFunction"].VPC.SubnetIDs; !slices.Equal(subnets, []string{"subnet-3", "subnet-4"}) {
		t.Errorf("the function is in %v", subnets)
	}
	if given := stack.Runner().Secrets; len(given) != 1 || *given[0].Name != "TERRAPULSE_SECRET" || *given[0].ValueFrom != secretARN {
		t.Errorf("ECS gives the container %v", given)
	}
	for name, r := range stack.Template.Resources {
		if r.Type == "AWS::IAM::Role" && r.Properties["PermissionsBoundary"] == nil {
			t.Errorf("%s has no permissions boundary", name)
		}
		if r.Type == "AWS::IAM::Role" && r.Properties["Path"] == nil {
			t.Errorf("%s is not under RolePath", name)
		}
	}

	// Every parameter or resource that an error message names must exist.
	template := written(t)
	for _, v := range slices.Concat(settings.Variables[settings.Reconcile](), settings.Variables[settings.Settle](), settings.Variables[settings.Notification](), settings.Variables[settings.API](), settings.Variables[settings.Runner]()) {
		if _, name, found := strings.Cut(v.From, "the parameter "); found {
			if _, ok := template.Parameters[name]; !ok {
				t.Errorf("%s is said to come from the parameter %s: there is none", v.Name, name)
			}
		}
		if _, name, found := strings.Cut(v.From, "the resource "); found {
			if _, ok := template.Resources[name]; !ok {
				t.Errorf("%s is said to come from the resource %s: there is none", v.Name, name)
			}
		}
	}

	// The settings can be decoded from the values.
	reconcile, err := settings.Read[settings.Reconcile](stack.Env("ReconcileFunction"))
	if err != nil {
		t.Error(err)
	}
	if want := (s3url.URL{Bucket: "the-bucket", Prefix: "some-prefix"}); reconcile.Bundle != want {
		t.Errorf("the bundle is at %v", reconcile.Bundle)
	}
	if len(reconcile.Capacity) != 2 || len(reconcile.SecurityGroups) != 2 || !reconcile.PublicIP || reconcile.Window.Seconds() != 50 || reconcile.Linger.Seconds() != 300 || reconcile.MaxContainers != 7 || reconcile.EventBus != "network" {
		t.Errorf("%+v", reconcile)
	}
	if _, err := settings.Read[settings.Settle](stack.Env("SettleFunction")); err != nil {
		t.Error(err)
	}
	if _, err := settings.Read[settings.Notification](stack.Env("NotificationFunction")); err != nil {
		t.Error(err)
	}
	if api, err := settings.Read[settings.API](stack.Env("ApiFunction")); err != nil {
		t.Error(err)
	} else if !api.Act.Include("arn:aws:iam::123456789012:user/ann") || api.Act.Include("arn:aws:iam::123456789012:user/bob") {
		t.Errorf("may act: %v", api.Act)
	}
	runner, err := settings.Read[settings.Runner](environ)
	if err != nil {
		t.Error(err)
	}
	if want := (s3url.URL{Bucket: "the-bucket", Prefix: "some-prefix/logs"}); runner.Logs != want || runner.Parallel != 4 {
		t.Errorf("%+v", runner)
	}
}

// The minimum of parameters gives a stack with valid settings. The zips are the same for both
// architectures.
func TestTemplate_MinimalParameters(t *testing.T) {
	for _, arch := range []string{rehearsal.ARM64, rehearsal.X8664} {
		t.Run(arch, func(t *testing.T) {
			build := built(t)
			parameters := rehearsal.Minimal("10.0.0.1:8500")
			parameters["Architecture"] = arch
			stack := deployed(t, "least", parameters)
			for function, name := range map[string]string{"ReconcileFunction": "reconcile", "SettleFunction": "settle", "NotificationFunction": "notification", "ApiFunction": "api"} {
				info, err := os.Stat(build.Program(function, arch, name))
				if err != nil || info.Size() >= maxProgram {
					t.Errorf("%s has a program that is too large: %v (%v)", function, info, err)
				}
			}
			for function, name := range map[string]string{"ReconcileFunction": "reconcile", "SettleFunction": "settle", "ApiFunction": "api"} {
				program, err := elf.Open(build.Program(function, arch, name))
				if err != nil {
					t.Fatal(err)
				}
				if want := map[string]elf.Machine{rehearsal.ARM64: elf.EM_AARCH64, rehearsal.X8664: elf.EM_X86_64}[arch]; program.Machine != want {
					t.Errorf("%s is built for %s", function, program.Machine)
				}
				if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
					t.Errorf("%s is linked to %v, %v", function, libraries, err)
				}
				program.Close()
				f := stack.Functions[function]
				if f.Runtime != "provided.al2023" || f.Handler != "bootstrap" || (len(f.VPC.SubnetIDs) > 0) != (function == "ReconcileFunction") {
					t.Errorf("%+v", f)
				}
			}
			settings, err := settings.Read[settings.Reconcile](stack.Env("ReconcileFunction"))
			if err != nil {
				t.Fatal(err)
			}
			if settings.EventBus != "default" || !stack.Roles["ReconcileRole"].Allows(t, ask("events:PutEvents", arn("events", "event-bus/default"), "events:source", "terrapulse")) {
				t.Errorf("events are sent to the bus %q, with the rights %v", settings.EventBus, stack.Roles["ReconcileRole"])
			}
			if got := stack.Outputs["BundleUrl"]; got != settings.Bundle.String() {
				t.Errorf("bundles are pushed to %s and read from %s", got, settings.Bundle)
			}
			if got := stack.Outputs["StoreUrl"]; got != "dynamodb://"+settings.Table {
				t.Errorf("state is read from %s and written to %s", got, settings.Table)
			}
			if c := stack.Runner(); aws.ToString(c.User) != "65532:65532" || !aws.ToBool(c.ReadonlyRootFilesystem) || aws.ToInt32(c.StopTimeout) != 120 || len(c.Secrets) > 0 {
				t.Errorf("%+v", c)
			}
			if len(stack.Roles["RunnerRole"]) == 0 {
				t.Error("the container may do nothing")
			}
		})
	}
}

// Several stacks can exist in one account and region: no resource has a fixed name.
func TestTemplate_NoResourceHasAFixedName(t *testing.T) {
	stack := bounds(t)
	scoped := map[string]string{ // names within a resource that has a name of the stack
		"AWS::CloudWatch::Alarm/MetricName": "the metric has the stack as its dimension",
		"AWS::Events::Rule/EventBusName":    "rules of several stacks can be on a bus",
		"AWS::Lambda::Alias/Name":           "the alias is of a function of the stack",
		"AWS::ApiGateway::Stage/StageName":  "the stage is of an API of the stack",
		"AWS::IAM::Policy/PolicyName":       "each of the stack's roles has a policy of this name",
	}
	for id, r := range stack.Template.Resources {
		for property, value := range r.Properties {
			name := strings.HasSuffix(property, "Name") || strings.HasSuffix(property, "Identifier") || property == "Family"
			if !name || scoped[r.Type+"/"+property] != "" {
				continue
			}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			intrinsic, _ := value.(map[string]any)
			ref, _ := intrinsic["Ref"].(string)
			if _, ofStack := stack.Template.Resources[ref]; !ofStack && !strings.Contains(string(text), "${AWS::StackName}") {
				t.Errorf("%s (%s) has the same %s in every stack: %s", id, r.Type, property, text)
			}
		}
	}
	// Stacks can share a bucket: the deletion of one must not delete the programs of another.
	location, err := json.Marshal(stack.Template.Resources["Program"].Properties["Location"])
	if err != nil || !strings.Contains(string(location), "/programs/${AWS::StackName}\"") {
		t.Errorf("every stack of a bucket has its programs at %s, %v", location, err)
	}
}

// Every output that a command reads is in the template.
func TestTemplate_HasTheOutputsThatCommandsRead(t *testing.T) {
	outputs, found := written(t).Outputs, 0
	for _, folder := range []string{"cmd/terrapulse", "internal/aws/stack"} {
		files, err := filepath.Glob(filepath.Join(testtools.Root(t), folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range regexp.MustCompile(`(?i)\.outputs?[(\[]"(\w+)"`).FindAllStringSubmatch(string(code), -1) {
				found++
				if _, ok := outputs[call[1]]; !ok {
					t.Errorf("%s reads the output %s, which the template has not", file, call[1])
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d outputs are read: does this test search all callers?", found)
	}
}

// document is template.yaml, with what its aliases name in their place. Functions such as !Sub are only
// their arguments.
type document struct {
	Metadata struct {
		Interface struct {
			ParameterGroups []struct {
				Label      struct{ Default string } `yaml:"Label"`
				Parameters []string                 `yaml:"Parameters"`
			} `yaml:"ParameterGroups"`
		} `yaml:"AWS::CloudFormation::Interface"`
	} `yaml:"Metadata"`
	Parameters map[string]struct {
		Default        any    `yaml:"Default"`
		AllowedPattern string `yaml:"AllowedPattern"`
	} `yaml:"Parameters"`
	Globals struct {
		Function struct {
			Architectures []string `yaml:"Architectures"`
		} `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]struct {
		Type                string         `yaml:"Type"`
		Condition           string         `yaml:"Condition"`
		DeletionPolicy      string         `yaml:"DeletionPolicy"`
		UpdateReplacePolicy string         `yaml:"UpdateReplacePolicy"`
		Properties          map[string]any `yaml:"Properties"`
	} `yaml:"Resources"`
	Outputs map[string]struct {
		Value any `yaml:"Value"`
	} `yaml:"Outputs"`
}

// written returns template.yaml as it is before SAM translates it.
func written(t *testing.T) (d document) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, "template.yaml")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testtools.Root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The functions understand the events of the schedule and of the rules, which are limited to this
// stack.
func TestTemplate_FunctionsUnderstandTheirEvents(t *testing.T) {
	stack := every(t)
	schedule := stack.Template.Resources["ReconcileFunctionTick"]
	target, _ := schedule.Properties["Target"].(map[string]any)
	input, _ := target["Input"].(string)
	if req, err := invoke.Parse([]byte(input)); err != nil || req.Mode != invoke.Reconcile || !req.Window {
		t.Errorf("the schedule sends %q: %v", input, err)
	}

	cluster, family := stack.Outputs["Cluster"], strings.TrimSuffix(stack.Outputs["TaskDefinition"], ":1")
	stopped := func(cluster, definition, status string) map[string]any {
		return map[string]any{"source": "aws.ecs", "detail-type": "ECS Task State Change",
			"detail": map[string]any{"clusterArn": cluster, "taskDefinitionArn": definition, "lastStatus": status}}
	}
	pushed := func(bucket, key string) map[string]any {
		return map[string]any{"source": "aws.s3", "detail-type": "Object Created",
			"detail": map[string]any{"bucket": map[string]any{"name": bucket}, "object": map[string]any{"key": key}}}
	}
	sent := func(kind, fields string) map[string]any {
		var detail map[string]any
		if err := json.Unmarshal([]byte(`{"stack":"every"`+fields+`}`), &detail); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"source": eventbridge.Source, "detail-type": kind, "detail": detail}
	}
	for _, tt := range []struct {
		name, rule, target string
		event              map[string]any
		through            bool
	}{
		{"a task that stopped", "SettleFunctionStopped", "SettleFunction", stopped(cluster, family+":1", "STOPPED"), true},
		{"one of an earlier deployment", "SettleFunctionStopped", "SettleFunction", stopped(cluster, family+":0", "STOPPED"), true},
		{"one that runs", "SettleFunctionStopped", "SettleFunction", stopped(cluster, family+":1", "RUNNING"), false},
		{"one of another family", "SettleFunctionStopped", "SettleFunction", stopped(cluster, family+"-other:1", "STOPPED"), false},
		{"one of another cluster", "SettleFunctionStopped", "SettleFunction", stopped(cluster+"2", family+":1", "STOPPED"), false},
		{"the pointer", "ReconcileFunctionPushed", "ReconcileFunction", pushed("the-bucket", "some-prefix/current"), true},
		{"a bundle", "ReconcileFunctionPushed", "ReconcileFunction", pushed("the-bucket", "some-prefix/bundles/0123.zip"), false},
		{"another bucket", "ReconcileFunctionPushed", "ReconcileFunction", pushed("other", "some-prefix/current"), false},
		{"a message", "NotificationRule", "NotificationTopic", sent(eventbridge.MessageType, `,"kind":"run_failed","count":15`), true},
		{"one of the events that it is about", "NotificationRule", "NotificationTopic", sent("run_failed", ""), false},
		{"a message of another stack", "NotificationRule", "NotificationTopic", sent(eventbridge.MessageType, `,"stack":"other"`), false},
	} {
		rule := stack.Rules[tt.rule]
		if through := matches(rule.Pattern, tt.event); through != tt.through {
			t.Errorf("%s: %v through %v", tt.name, through, rule.Pattern)
		}
		if target := cmp.Or(stack.Outputs[tt.target], stack.Functions[tt.target].Name); len(rule.Targets) != 1 || !strings.HasSuffix(rule.Targets[0], target) {
			t.Errorf("%s goes to %v, not to %s", tt.rule, rule.Targets, target)
		}
	}
	text, err := json.Marshal(stack.Template.Resources["NotificationRule"].Properties["Targets"])
	if want := `{"InputPathsMap":{"message":"$.detail.message","stack":"$.detail.stack"},"InputTemplate":"\"Terrapulse (stack \u003cstack\u003e): \u003cmessage\u003e\""}`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("the topic gets %s, want %s", text, want)
	}
}

// matches implements the part of EventBridge's patterns that the template uses: each field has one
// of the listed values or prefixes, or is not there.
func matches(pattern, event map[string]any) bool {
	for field, wanted := range pattern {
		switch wanted := wanted.(type) {
		case map[string]any:
			inner, ok := event[field].(map[string]any)
			if !ok || !matches(wanted, inner) {
				return false
			}
		case []any:
			_, there := event[field]
			value, found := event[field].(string)
			if !slices.ContainsFunc(wanted, func(w any) bool {
				if filter, ok := w.(map[string]any); ok {
					prefix, ok := filter["prefix"].(string)
					return ok && found && strings.HasPrefix(value, prefix) || filter["exists"] == false && !there
				}
				return found && w == value
			}) {
				return false
			}
		}
	}
	return true
}

// NotifyTo gets all alarms, and, unless it is a topic that exists already, the messages of the bus.
func TestTemplate_AlarmsReachSomebody(t *testing.T) {
	const topic = "arn:aws:sns:eu-west-1:123456789012:alarms"
	for name, tt := range map[string]struct {
		given            rehearsal.Parameters
		alarms, messages string
	}{
		"nobody":              {nil, "", ""},
		"an address":          {rehearsal.Parameters{"NotifyTo": "you@example.com"}, "Notifications", "Notifications"},
		"a new topic":         {rehearsal.Parameters{"NotifyTo": "topic"}, "Notifications", "Notifications"},
		"a topic":             {rehearsal.Parameters{"NotifyTo": topic}, topic, ""},
		"an address, no bus":  {rehearsal.Parameters{"NotifyTo": "you@example.com", "EventBus": ""}, "Notifications", ""},
		"a topic, and no bus": {rehearsal.Parameters{"NotifyTo": topic, "EventBus": ""}, topic, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parameters := rehearsal.Minimal("10.0.0.1:8500")
			maps.Copy(parameters, tt.given)
			stack := deployed(t, "alarms", parameters)
			if len(stack.Alarms) == 0 {
				t.Fatal("no alarms")
			}
			for alarm, actions := range stack.Alarms {
				if told := strings.Join(actions, " "); told != tt.alarms {
					t.Errorf("alarm %s goes to %q, want %q", alarm, told, tt.alarms)
				}
			}
			if targets := stack.Rules["NotificationRule"].Targets; (len(targets) > 0) != (tt.messages != "") || len(targets) > 0 && targets[0] != stack.Resources[tt.messages].ID {
				t.Errorf("messages go to %q, want %q", targets, tt.messages)
			}
		})
	}
}

// Alarms and the dashboard use existing metrics, and each alarm is explained.
func TestTemplate_AlarmsAndDashboardUseExistingMetrics(t *testing.T) {
	var known []string
	for _, m := range metrics.All {
		known = append(known, m.Name)
	}
	text := read(t, "template.yaml")
	explained := read(t, "docs/operate-aws.md")
	alarms := 0
	for name, r := range written(t).Resources {
		if r.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		alarms++
		watched := metricsOf(r.Properties)
		if len(watched) == 0 {
			t.Errorf("alarm %s has no metric", name)
		}
		for _, m := range watched {
			if m[0] == metrics.Namespace && !slices.Contains(known, m[1]) {
				t.Errorf("alarm %s looks at %s, which nobody writes", name, m[1])
			}
		}
		if description, _ := r.Properties["AlarmDescription"].(string); !strings.HasSuffix(description, docs.Page("operate-aws.md#"+strings.ToLower(name))) {
			t.Errorf("the description of alarm %s does not end with its place in docs/operate-aws.md: %s", name, description)
		}
		if !strings.Contains(text, "${"+name+".Arn}") {
			t.Errorf("the dashboard does not show alarm %s", name)
		}
		if !strings.Contains(explained, "\n### "+name+"\n") {
			t.Errorf("docs/operate-aws.md does not explain alarm %s", name)
		}
	}
	if alarms < 10 {
		t.Errorf("only %d alarms are found", alarms)
	}
	_, body, _ := strings.Cut(text, "DashboardBody: !Sub\n        - |\n")
	body, _, _ = strings.Cut(body, "\n        - Api:")
	body = strings.ReplaceAll(body, "${ApiAlarm}", "")
	var dashboard struct {
		Widgets []struct{ Properties struct{ Metrics [][]any } }
	}
	if err := json.Unmarshal([]byte(body), &dashboard); err != nil {
		t.Fatalf("the dashboard is no JSON: %v", err)
	}
	for _, w := range dashboard.Widgets {
		namespace, name := any(nil), any(nil)
		for _, m := range w.Properties.Metrics {
			if m[0] != "." && m[0] != "..." {
				namespace = m[0]
			}
			if len(m) > 1 && m[0] != "..." && m[1] != "." {
				name = m[1]
			}
			if s, ok := name.(string); namespace == metrics.Namespace && (!ok || !slices.Contains(known, s)) {
				t.Errorf("the dashboard shows %v, which nobody writes", name)
			}
		}
	}
}

// metricsOf returns the namespace and name of each metric below a value.
func metricsOf(value any) (found [][2]string) {
	switch value := value.(type) {
	case map[string]any:
		if name, ok := value["MetricName"].(string); ok {
			return [][2]string{{fmt.Sprint(value["Namespace"]), name}}
		}
		for _, v := range value {
			found = append(found, metricsOf(v)...)
		}
	case []any:
		for _, v := range value {
			found = append(found, metricsOf(v)...)
		}
	}
	return found
}

// Somebody who deploys from the console has no folder docs.
func TestTemplate_DescriptionsNameTheAddressesOfPages(t *testing.T) {
	named := 0
	for i, line := range strings.Split(read(t, "template.yaml"), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		pages, addresses := strings.Count(line, "docs/"), strings.Count(line, docs.Page(""))
		if named += pages; pages != addresses {
			t.Errorf("template.yaml:%d names a page without its address: write %s before it", i+1, docs.Page(""))
		}
	}
	if named < 10 {
		t.Errorf("only %d names of pages were found", named)
	}
}
