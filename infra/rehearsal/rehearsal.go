// Package rehearsal deploys template.yaml for tests, without an account: SAM builds and packages
// it, SAM's translator converts it to CloudFormation, and moto creates the stack. Tests of the
// whole system use the environment and the roles of that stack, so that template and code cannot
// disagree.
package rehearsal

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The values of the template's parameter Architecture.
const (
	ARM64 = "arm64"
	X8664 = "x86_64"
)

// Here returns the architecture of this machine, for functions that tests run.
func Here() string {
	if runtime.GOARCH == "arm64" {
		return ARM64
	}
	return X8664
}

// ProgramURL and ProgramSHA256 stand for the attributes of the resource Program, which a function
// gives.
const (
	ProgramURL    = "s3://installed/program"
	ProgramSHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
)

//go:embed stack.py
var stackProgram string

// Artifacts are the results of `sam build`.
type Artifacts struct {
	dir     string
	version string // of a release, whose files are in the release's bucket; "" for sam build
}

// Build runs `sam build` into a folder. It takes seconds.
func Build(t testing.TB, dir string) *Artifacts {
	t.Helper()
	a := &Artifacts{dir: dir}
	cmd := exec.CommandContext(t.Context(), testtools.SAM(t), "build", "--config-file", "samconfig.example.toml", "--build-dir", a.dir)
	cmd.Dir = testtools.Root(t)
	cmd.Env = append(os.Environ(), "SAM_CLI_TELEMETRY=0", "AWS_DEFAULT_REGION=eu-west-1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sam build: %v\n%s", err, out)
	}
	return a
}

// Packaged returns the files of a release that tools/release has written to a folder. They are in
// the bucket of the release before a stack is deployed.
func Packaged(folder, version string) *Artifacts {
	return &Artifacts{dir: folder, version: version}
}

// Built returns what `sam build` has built into a folder.
func Built(dir string) *Artifacts { return &Artifacts{dir: dir} }

// Bootstrap returns the path of what Lambda starts for a function, such as ReconcileFunction.
func (a *Artifacts) Bootstrap(function string) string {
	return filepath.Join(a.dir, function, "bootstrap")
}

// Program returns the path of a program, such as reconcile, that the zip of a function contains for
// an architecture.
func (a *Artifacts) Program(function, architecture, program string) string {
	processor := map[string]string{ARM64: "aarch64", X8664: "x86_64"}[architecture]
	return filepath.Join(a.dir, function, processor, program)
}

// Parameters are parameters of the template, by name.
type Parameters map[string]string

// Minimal returns the parameters without a default, for a Consul at an address such as
// 127.0.0.1:8500 with plain HTTP.
func Minimal(consul string) Parameters {
	return Parameters{
		"ConsulAddress": "http://" + consul,
		"Subnets":       "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
		"ActArns":       "*",
	}
}

// Stack is a stack that CloudFormation has created.
type Stack struct {
	*Artifacts
	Outputs   map[string]string    `json:"outputs"`
	Functions map[string]Function  `json:"functions"` // by logical id, such as ReconcileFunction
	Roles     map[string]Policy    `json:"roles"`     // by logical id, such as RunnerRole
	Rules     map[string]EventRule `json:"rules"`     // by logical id
	Alarms    map[string][]string  `json:"alarms"`    // where each goes, by logical id: a parameter's value, or a resource
	Resources map[string]Resource  `json:"resources"` // that moto has created, by logical id
	// Template is the CloudFormation template. Moto creates no alarms, no dashboard and no
	// schedule: they are only here.
	Template Template `json:"template"`

	TaskDefinitions map[string]struct {
		ContainerDefinitions []types.ContainerDefinition
	} `json:"taskDefinitions"`
}

// Template is a CloudFormation template.
type Template struct {
	Resources map[string]struct {
		Type       string
		Condition  string
		Properties map[string]any
	}
}

// Resource is a resource of a stack.
type Resource struct {
	ID string `json:"id"`
}

// Function is a Lambda function.
type Function struct {
	Name        string            `json:"name"`
	Environment map[string]string `json:"environment"`
	Runtime     string            `json:"runtime"`
	Handler     string            `json:"handler"`
	Timeout     int               `json:"timeout"` // seconds
	Memory      int               `json:"memory"`  // MiB
	VPC         struct {
		SubnetIDs      []string `json:"SubnetIds"`
		SecurityGroups []string `json:"SecurityGroupIds"`
	} `json:"vpc"`
}

// EventRule is an EventBridge rule.
type EventRule struct {
	Pattern map[string]any `json:"pattern"`
	State   string         `json:"state"` // ENABLED or DISABLED
	Targets []string       `json:"targets"`
}

// Deploy creates a stack with a name and parameters, for this machine's architecture unless they
// name another. If the parameter Bucket names a bucket, it is created first.
func (a *Artifacts) Deploy(t testing.TB, name string, p Parameters) *Stack {
	t.Helper()
	parameters := Parameters{"Architecture": Here()}
	maps.Copy(parameters, p)
	asked := map[string]any{"template": filepath.Join(a.dir, "template.yaml"), "name": name, "parameters": parameters, "buckets": nil}
	if a.version == "" {
		asked["keep"] = a.dir + "-packaged"
	} else {
		asked["release"] = map[string]string{"bucket": "terrapulse-eu-west-1", "prefix": a.version, "folder": a.dir}
	}
	if bucket := p["Bucket"]; bucket != "" {
		asked["buckets"] = []string{bucket}
	}
	s := &Stack{Artifacts: a}
	run(t, asked, s)
	return s
}

// Refusals returns what CloudFormation says about parameters before it creates anything; "" if it
// accepts them. It checks patterns, values and rules.
func Refusals(t testing.TB, each []Parameters) (refusals []string) {
	t.Helper()
	run(t, map[string]any{"template": filepath.Join(testtools.Root(t), "template.yaml"), "check": each}, &refusals)
	return refusals
}

// deployer is the program that deploys, one for all tests of this process. It ends with the process.
var deployer struct {
	sync.Mutex
	requests *json.Encoder // nil before the first test
	answers  *json.Decoder
	said     *testtools.Output
}

// run requests something of the program, and decodes its result.
func run(t testing.TB, asked map[string]any, into any) {
	t.Helper()
	deployer.Lock()
	defer deployer.Unlock()
	if deployer.requests == nil {
		startDeployer(t)
	}
	var answer struct {
		Result  json.RawMessage
		Problem string
	}
	err := deployer.requests.Encode(asked)
	if err == nil {
		err = deployer.answers.Decode(&answer)
	}
	if err != nil {
		deployer.requests = nil // the next test starts it again
		t.Fatalf("deploy %v: %v\n%s", asked, err, deployer.said)
	}
	if answer.Problem != "" {
		t.Fatalf("deploy %v: %s", asked, answer.Problem)
	}
	if err := json.Unmarshal(answer.Result, into); err != nil {
		t.Fatalf("%v in:\n%s", err, answer.Result)
	}
}

// startDeployer starts the program. It reads requests until its input ends, at the latest with this
// process.
func startDeployer(t testing.TB) {
	t.Helper()
	cmd := exec.Command(testtools.Python(t), "-c", stackProgram)
	said := &testtools.Output{}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the program that deploys: %v", err)
	}
	deployer.requests, deployer.answers, deployer.said = json.NewEncoder(in), json.NewDecoder(out), said
}

// Env returns the environment of a function, such as ReconcileFunction, in the format of
// os.Environ.
func (s *Stack) Env(function string) []string {
	var env []string
	for name, value := range s.Functions[function].Environment {
		env = append(env, name+"="+value)
	}
	return env
}

// Runner returns the container that runs Terraform.
func (s *Stack) Runner() types.ContainerDefinition {
	c, _ := s.Container(ecstask.Container)
	return c
}

// Container returns the definition of a container, if there is one of this name.
func (s *Stack) Container(name string) (types.ContainerDefinition, bool) {
	for _, d := range s.TaskDefinitions {
		for _, c := range d.ContainerDefinitions {
			if *c.Name == name {
				return c, true
			}
		}
	}
	return types.ContainerDefinition{}, false
}

// Policy are the statements of a role, from its inline and its managed policies.
type Policy []Statement

// Statement is a statement of a policy.
type Statement struct {
	SID       string         `json:"sid"`
	Effect    string         `json:"effect"`
	Actions   []string       `json:"actions"`
	Resources []string       `json:"resources"`
	Condition map[string]any `json:"condition"`
}

// Allows reports whether a statement allows the action on the resource, ignoring its condition.
func (p Policy) Allows(action, resource string) bool {
	for _, s := range p {
		if s.Effect == "Allow" && anyMatches(s.Actions, action) && anyMatches(s.Resources, resource) {
			return true
		}
	}
	return false
}

// AllowsRecords reports whether a statement allows an action of DynamoDB on the records of all these collections,
// as IAM judges the conditions of the template: a statement without LeadingKeys allows all collections.
func (p Policy) AllowsRecords(action string, collections ...string) bool {
	for _, s := range p {
		if s.Effect != "Allow" || !anyMatches(s.Actions, action) {
			continue
		}
		keys, limited := s.LeadingKeys()
		if !limited || !slices.ContainsFunc(collections, func(c string) bool { return !anyMatches(keys, c) }) {
			return true
		}
	}
	return false
}

// LeadingKeys are the patterns of the collections that a statement is limited to, if it is.
func (s Statement) LeadingKeys() (patterns []string, limited bool) {
	like, _ := s.Condition["ForAllValues:StringLike"].(map[string]any)
	keys, limited := like["dynamodb:LeadingKeys"].([]any)
	for _, key := range keys {
		patterns = append(patterns, fmt.Sprint(key))
	}
	return patterns, limited
}

func anyMatches(patterns []string, s string) bool {
	for _, p := range patterns {
		// In IAM, * also matches slashes; in path.Match it does not.
		if ok, err := path.Match(strings.ReplaceAll(p, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00")); err == nil && ok {
			return true
		}
	}
	return false
}

func (s Statement) String() string { return fmt.Sprintf("%s %v on %v", s.SID, s.Actions, s.Resources) }
