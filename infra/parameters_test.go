package infra_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
)

// parametersCase has parameters of a deployment, besides those without a default, and a part of what is said about them: ""
// for nothing.
type parametersCase struct {
	name       string
	parameters rehearsal.Parameters
	want       string
}

// complete returns the parameters of each case with those that have no default.
func complete(cases []parametersCase) (all []rehearsal.Parameters) {
	for _, tt := range cases {
		parameters := rehearsal.Minimal("10.0.0.1:8500")
		maps.Copy(parameters, tt.parameters)
		all = append(all, parameters)
	}
	return all
}

// A deployment that cannot work is refused before anything is created.
func TestTemplate_RefusesWhatCannotWork(t *testing.T) {
	slow(t)
	cases := []parametersCase{
		{"the least parameters", nil, ""},
		{"every parameter", everything(), ""},
		{"CPU and memory that are no pair", rehearsal.Parameters{"RunnerSize": "4096/4096"}, "CPU units and memory that Fargate has together"},
		{"a size with a disk", rehearsal.Parameters{"RunnerSize": "1024/3072/100"}, ""},
		{"a function in public subnets", rehearsal.Parameters{"AssignPublicIp": "true"}, "A function has no public address"},
		{"subnets for a function outside of the VPC", rehearsal.Parameters{"FunctionsInVpc": "none", "FunctionSubnets": "subnet-1"}, "FunctionSubnets needs FunctionsInVpc=consul or all"},
		{"all functions in the VPC, without a group", rehearsal.Parameters{"FunctionsInVpc": "all"}, "FunctionsInVpc=all needs SecurityGroups or FunctionSecurityGroups"},
		{"all functions in the VPC", rehearsal.Parameters{"FunctionsInVpc": "all", "SecurityGroups": "sg-1"}, ""},
		{"all functions in the VPC, with a group of their own", rehearsal.Parameters{"FunctionsInVpc": "all", "FunctionSecurityGroups": "sg-1"}, ""},
		{"an API behind API Gateway", rehearsal.Parameters{"Api": "gateway"}, ""},
		{"a private API", rehearsal.Parameters{"Api": "vpce-0a1b,vpce-0c2d"}, ""},
		{"a private API without an endpoint", rehearsal.Parameters{"Api": "private"}, "url, gateway, none, or VPC endpoints"},
		{"no such API", rehearsal.Parameters{"Api": "gateway,vpce-0a1b"}, "url, gateway, none, or VPC endpoints"},
		{"Consul with an IPv6 address", rehearsal.Parameters{"ConsulAddress": "http://[2001:db8::1]:8501"}, ""},
		{"Consul with an IPv6 address without brackets", rehearsal.Parameters{"ConsulAddress": "http://2001:db8::1"}, "with an IPv6 address in brackets"},
		{"Consul at every address", rehearsal.Parameters{"ConsulAddress": "http://[::]:8501"}, "with an IPv6 address in brackets"},
		{"spaces between subnets", rehearsal.Parameters{"FunctionSubnets": "subnet-1, subnet-2"}, "without spaces"},
		{"one key of a secret", rehearsal.Parameters{"SecretArns": secretARN + ":token::"}, "without a key at the end"},
		{"one key of a further secret", rehearsal.Parameters{"SecretArns": secretARN + "," + secretARN + ":token::"}, "without a key at the end"},
		{"a comma after the secrets", rehearsal.Parameters{"SecretArns": secretARN + ","}, "ARNs of Secrets Manager secrets"},
		{"a comma before the secrets", rehearsal.Parameters{"SecretArns": "," + secretARN}, "ARNs of Secrets Manager secrets"},
		{"secrets", rehearsal.Parameters{"SecretArns": secretARN + "," + notifyARN}, ""},
		{"a topic", rehearsal.Parameters{"NotifyTo": "topic"}, ""},
		{"another word than topic", rehearsal.Parameters{"NotifyTo": "true"}, "an email address, the ARN of an SNS topic, or topic"},
		{"a prefix with a slash", rehearsal.Parameters{"Bucket": "the-bucket/some/prefix"}, "a prefix without further slashes"},
		{"a bucket with a slash at its end", rehearsal.Parameters{"Bucket": "the-bucket/"}, "a prefix without further slashes"},
		{"spaces after the proxy", rehearsal.Parameters{"HttpsProxy": "http://proxy.example.com:3128, .example.com"}, "after commas"},
		{"hosts without a proxy", rehearsal.Parameters{"HttpsProxy": ".example.com"}, "after commas"},
		{"a path of roles without a slash at its end", rehearsal.Parameters{"RolePath": "/network"}, "begins and ends with a slash"},
		{"everybody may act", rehearsal.Parameters{"ActArns": "*"}, ""},
		{"nobody may act", rehearsal.Parameters{"ActArns": ""}, ""},
		{"more people than fit into the environment of a function", rehearsal.Parameters{"ActArns": strings.Repeat("arn:aws:iam::123456789012:user/ann,", 80)}, "Let an asterisk stand for several roles"},
		{"Consul without a scheme", rehearsal.Parameters{"ConsulAddress": "consul.example.com:8501"}, "http:// or https://"},
		{"no address of Consul", rehearsal.Parameters{"ConsulAddress": ""}, "ConsulAddress"},
	}
	for i, refusal := range rehearsal.Refusals(t, complete(cases)) {
		if want := cases[i].want; want == "" && refusal != "" || !strings.Contains(refusal, want) {
			t.Errorf("%s: %q, want %q", cases[i].name, refusal, want)
		}
	}
}

// RunnerSize accepts what Fargate has, and nothing else. Memory, in GiB, grows from the least to the most by steps.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-tasks-services.html
func TestTemplate_SizesAreThoseOfFargate(t *testing.T) {
	steps := map[int][3]int{512: {1, 4, 1}, 1024: {2, 8, 1}, 2048: {4, 16, 1}, 4096: {8, 30, 1}, 8192: {16, 60, 4}, 16384: {32, 120, 8}}
	fargate := func(cpu, memory int) bool { // memory in units of 512 MiB
		if cpu == 256 {
			return memory == 1 || memory == 2 || memory == 4
		}
		of, known := steps[cpu]
		return known && memory%2 == 0 && memory/2 >= of[0] && memory/2 <= of[1] && (memory/2-of[0])%of[2] == 0
	}
	accepts := regexp.MustCompile(written(t).Parameters["RunnerSize"].AllowedPattern)
	for cpu := 128; cpu <= 32768; cpu *= 2 {
		for memory := range 300 {
			size := fmt.Sprintf("%d/%d", cpu, memory*512)
			if got := accepts.MatchString(size); got != fargate(cpu, memory) {
				t.Errorf("%s is accepted: %v", size, got)
			}
		}
	}
	for disk := range 250 { // GiB; 20 is what a container has if none is given
		if got := accepts.MatchString(fmt.Sprintf("1024/2048/%d", disk)); got != (disk >= 21 && disk <= 200) {
			t.Errorf("a disk of %d GiB is accepted: %v", disk, got)
		}
	}
}

// CloudFormation documents functions of rules only by their full names.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-rules.html
func TestTemplate_RulesUseFunctionsInTheirDocumentedForm(t *testing.T) {
	_, rules, _ := strings.Cut(read(t, "template.yaml"), "\nRules:\n")
	rules, _, _ = strings.Cut(rules, "\nGlobals:\n")
	if found := regexp.MustCompile(`!(Contains|EachMember\w+|RefAll|ValueOf\w*)\b`).FindAllString(rules, -1); len(found) > 0 {
		t.Errorf("short forms: %v", found)
	}
	if found := regexp.MustCompile(`(?:Fn::|!)(Join|Sub|Split|If|Select|FindInMap)`).FindAllString(rules, -1); len(found) > 0 {
		t.Errorf("rules do not support %v", found)
	}
}

// Lambda limits all variables of a function together to 4 KB, and refuses the function otherwise.
// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
func TestTemplate_EnvironmentsOfFunctionsFitIntoTheLimitOfLambda(t *testing.T) {
	stack := bounds(t)
	longest := strings.Repeat("s", 128) // the name of a stack
	_, act, _ := strings.Cut(read(t, "template.yaml"), "\n  ActArns:\n")
	limit := regexp.MustCompile(`MaxLength: (\d+)`).FindStringSubmatch(act)
	if limit == nil {
		t.Fatal("ActArns has no limit")
	}
	most, _ := strconv.Atoi(limit[1])
	for name, f := range stack.Functions {
		size := 0
		for variable, value := range f.Environment {
			if variable == "TERRAPULSE_ACT_ARNS" {
				size += len(variable) + most
				continue
			}
			value = strings.ReplaceAll(value, "bounds", longest)
			size += len(variable) + len(strings.ReplaceAll(value, "some-prefix", strings.Repeat("p", 100)))
		}
		if size > 4096 {
			t.Errorf("the environment of %s can have %d bytes", name, size)
		}
	}
}

// An event that was lost once is no reason for an alarm of 14 days, as long as the queue keeps it.
func TestTemplate_AlarmOfLostEventsEnds(t *testing.T) {
	if alarm := written(t).Resources["Undelivered"].Properties; alarm["MetricName"] != "NumberOfMessagesSent" || alarm["Period"] != 3600 {
		t.Errorf("the alarm watches what is in the queue, or misses late metrics: %v", alarm)
	}
}

// Containers that wait for their start load the program of the deployment before, also after a
// change to an image that contains the program.
func TestTemplate_ProgramStaysAfterAChangeToAnImage(t *testing.T) {
	_, program, _ := strings.Cut(read(t, "template.yaml"), "\n    Type: Custom::Program\n")
	if strings.HasPrefix(program, "    Condition:") {
		t.Error("a change of RunnerImage deletes the programs")
	}
}

// A cluster needs the service-linked role of ECS.
func TestTemplate_ClusterComesAfterTheRoleOfECS(t *testing.T) {
	_, cluster, _ := strings.Cut(read(t, "template.yaml"), "\n    Type: AWS::ECS::Cluster\n")
	if !strings.HasPrefix(cluster, "    DependsOn: LinkedRole\n") {
		t.Error("ECS creates its role and assumes it in one breath")
	}
}

// Without the HTTP API, nothing of it is created.
func TestTemplate_WithoutTheAPI(t *testing.T) {
	parameters := rehearsal.Minimal("10.0.0.1:8500")
	parameters["Api"] = "none"
	stack := deployed(t, "silent", parameters)
	if _, ok := stack.Functions["ApiFunction"]; ok || stack.Outputs["ApiUrl"] != "" || len(stack.Roles["ApiRole"]) > 0 || stack.Resources["Gateway"].ID != "" {
		t.Errorf("created %v with the address %q and the role %v", stack.Functions["ApiFunction"], stack.Outputs["ApiUrl"], stack.Roles["ApiRole"])
	}
}

// Wherever the HTTP API is, IAM authenticates each request, and the function ends before the front does.
func TestTemplate_HTTPAPIIsWhereTheParameterSays(t *testing.T) {
	const gateway = `^https://[a-z0-9]+\.execute-api\.eu-west-1\.amazonaws\.com/terrapulse/$`
	stacks := map[string]*rehearsal.Stack{}
	for api, want := range map[string]struct {
		address string
		timeout int
		made    bool // the REST API
	}{
		"url":                 {`^https://[a-z0-9]+\.lambda-url\.eu-west-1\.on\.aws/$`, 300, false},
		"gateway":             {gateway, 29, true},
		"vpce-0a1b,vpce-0c2d": {strings.Replace(gateway, "+", "+-vpce-0a1b", 1), 29, true},
	} {
		parameters := rehearsal.Minimal("10.0.0.1:8500")
		parameters["Api"] = api
		stack := deployed(t, "front", parameters)
		stacks[api] = stack
		if address := stack.Outputs["ApiUrl"]; !regexp.MustCompile(want.address).MatchString(address) {
			t.Errorf("%s: the address is %q", api, address)
		}
		if got := stack.Functions["ApiFunction"].Timeout; got != want.timeout {
			t.Errorf("%s: the function may take %d seconds", api, got)
		}
		if made := stack.Resources["Gateway"].ID != ""; made != want.made {
			t.Errorf("%s: there is a REST API: %t", api, made)
		}
	}

	template := stacks["gateway"].Template.Resources
	if url := template["ApiFunctionUrl"]; url.Condition != "HasUrl" || url.Properties["AuthType"] != "AWS_IAM" || url.Properties["InvokeMode"] != nil {
		t.Errorf("the function URL is %+v", url)
	}
	var body struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string
		}
		Components struct {
			SecuritySchemes map[string]map[string]string `json:"securitySchemes"`
		}
		Policy json.RawMessage `json:"x-amazon-apigateway-policy"`
	}
	raw, err := json.Marshal(template["Gateway"].Properties["Body"])
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil || len(body.Paths) != 1 || len(body.Paths["/{proxy+}"]) != 1 {
		t.Fatalf("%v: %s", err, raw)
	}
	for method, operation := range body.Paths["/{proxy+}"] {
		if len(operation.Security) != 1 || body.Components.SecuritySchemes["sigv4"]["x-amazon-apigateway-authtype"] != "awsSigv4" {
			t.Errorf("%s needs no signature: %s", method, raw)
		}
	}
	// An Allow would let callers in without a right by IAM.
	if policy := string(body.Policy); strings.Contains(policy, `"Allow"`) || !strings.Contains(policy, `"StringNotEquals":{"aws:SourceVpce":`) {
		t.Errorf("the resource policy is %s", policy)
	}
	stages := 0
	for _, r := range template {
		if r.Type == "AWS::ApiGateway::Stage" {
			stages++
		}
		if r.Type == "AWS::ApiGateway::Deployment" && r.Properties["StageName"] != nil {
			t.Errorf("the deployment makes another stage: %v", r.Properties)
		}
	}
	if stages != 1 {
		t.Errorf("%d stages", stages)
	}
}

// Each parameter is in one group. At most 12 are usual, as many as a person reads; all that have no
// default are among them.
func TestTemplate_GroupsItsParameters(t *testing.T) {
	template := written(t)
	usual, groups := 0, map[string]string{}
	for _, g := range template.Metadata.Interface.ParameterGroups {
		for _, name := range g.Parameters {
			if groups[name] != "" {
				t.Errorf("%s is in the groups %q and %q", name, groups[name], g.Label.Default)
			}
			groups[name] = g.Label.Default
			switch {
			case strings.HasPrefix(g.Label.Default, "Usual: "):
				usual++
			case !strings.HasPrefix(g.Label.Default, "Rarely needed: "):
				t.Errorf("the group %q is neither usual nor rarely needed", g.Label.Default)
			}
		}
	}
	guide := regexp.MustCompile(`Only (.*) have no default`).FindString(read(t, "docs/deploy.md"))
	for name, p := range template.Parameters {
		if (p.Default == nil) != strings.Contains(guide, "`"+name+"`") {
			t.Errorf("%s has the default %v, and docs/deploy.md says: %s", name, p.Default, guide)
		}
		if p.Default == nil && !strings.HasPrefix(groups[name], "Usual: ") {
			t.Errorf("%s has no default, and is in the group %q", name, groups[name])
		}
		if groups[name] == "" {
			t.Errorf("%s has no group", name)
		}
		delete(groups, name)
	}
	if usual > 12 || len(groups) > 0 {
		t.Errorf("%d parameters are usual; unknown parameters in groups: %v", usual, groups)
	}
}

// What the template accepts as a capacity, the functions accept, too.
func TestTemplate_CapacityIsWhatTheFunctionsRead(t *testing.T) {
	_, capacity, _ := strings.Cut(read(t, "template.yaml"), "\n  Capacity:\n")
	_, pattern, _ := strings.Cut(capacity, "AllowedPattern: ")
	pattern, _, _ = strings.Cut(pattern, "\n")
	accepts := regexp.MustCompile(pattern)
	for _, value := range []string{"FARGATE", "FARGATE_SPOT", "FARGATE=1", "FARGATE=0", "FARGATE=1000", "FARGATE=1001", "FARGATE=01", "FARGATE_SPOT=3,FARGATE=1", "FARGATE_SPOT=1,FARGATE=0", ""} {
		err := new(settings.Capacity).UnmarshalText([]byte(value))
		if accepts.MatchString(value) && err != nil {
			t.Errorf("%q is deployed, and then: %v", value, err)
		}
	}
	for _, value := range []string{"FARGATE", "FARGATE=1000", "FARGATE_SPOT=3,FARGATE=1"} {
		if !accepts.MatchString(value) {
			t.Errorf("%q is refused", value)
		}
	}
}

// Several providers have no build for arm64, so containers run on x86_64 if nobody says otherwise. Functions, which run
// only Terrapulse, are always on arm64, which is cheaper.
func TestTemplate_OnlyContainersRunOnX86(t *testing.T) {
	d := written(t)
	if d.Parameters["Architecture"].Default != rehearsal.X8664 || !slices.Equal(d.Globals.Function.Architectures, []string{rehearsal.ARM64}) {
		t.Errorf("containers run on %v, functions on %v", d.Parameters["Architecture"].Default, d.Globals.Function.Architectures)
	}
	for name, r := range d.Resources {
		if own, ok := r.Properties["Architectures"]; ok {
			t.Errorf("%s runs on %v", name, own)
		}
		if platform, ok := r.Properties["RuntimePlatform"].(map[string]any); ok && fmt.Sprint(platform["CpuArchitecture"]) != "[OnArm ARM64 X86_64]" {
			t.Errorf("%s runs on %v", name, platform)
		}
	}
}

// The check of the subnets decides which addresses of AWS the function and the containers use.
func TestTemplate_SubnetsDecideAboutDualStack(t *testing.T) {
	d := written(t)
	found := map[string]string{}
	for name, r := range d.Resources {
		text := fmt.Sprint(r.Properties)
		for _, m := range regexp.MustCompile(`AWS_USE_DUALSTACK_ENDPOINT(?: Value)?:(\S+?)[ \]]`).FindAllStringSubmatch(text, -1) {
			found[name] += m[1]
		}
	}
	if want := map[string]string{"ReconcileFunction": "Network.DualStack", "TaskDefinition": "Network.ContainerDualStack"}; !maps.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}
