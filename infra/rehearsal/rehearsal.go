// Package rehearsal deploys template.yaml for tests, without an account: SAM builds and packages
// it, SAM's translator converts it to CloudFormation, and moto creates the stack. Tests of the
// whole system use the environment and the roles of that stack, so that template and code cannot
// disagree.
package rehearsal

import (
	_ "embed"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
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
	Outputs   map[string]string   `json:"outputs"`
	Functions map[string]Function `json:"functions"` // by logical id, such as ReconcileFunction
	Roles     map[string]Policy   `json:"roles"`     // by logical id, such as RunnerRole
	// Policies are those of resources, such as a queue, and the trust policies of roles, by logical id.
	Policies  map[string]json.RawMessage `json:"policies"`
	Rules     map[string]EventRule       `json:"rules"`     // by logical id
	Alarms    map[string][]string        `json:"alarms"`    // where each goes, by logical id: a parameter's value, or a resource
	Resources map[string]Resource        `json:"resources"` // that moto has created, by logical id
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
	if bucket, _, _ := strings.Cut(p["Bucket"], "/"); bucket != "" {
		asked["buckets"] = []string{bucket}
	}
	s := &Stack{Artifacts: a}
	deployer.request(t, asked, s)
	return s
}

// Refusals returns what CloudFormation says about parameters before it creates anything; "" if it
// accepts them. It checks patterns, values and rules.
func Refusals(t testing.TB, each []Parameters) (refusals []string) {
	t.Helper()
	deployer.request(t, map[string]any{"template": filepath.Join(testtools.Root(t), "template.yaml"), "check": each}, &refusals)
	return refusals
}

// deployer deploys.
var deployer = server{command: func(t testing.TB) *exec.Cmd { return exec.Command(testtools.Python(t), "-c", stackProgram) }}

// Lint returns what the schemas of CloudFormation's resources say about what the template makes with parameters.
func Lint(t testing.TB, each []Parameters) (findings [][]string) {
	t.Helper()
	deployer.request(t, map[string]any{"template": filepath.Join(testtools.Root(t), "template.yaml"), "lint": each}, &findings)
	return findings
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

// TaskRole returns the ARN of the role of the task definition, which moto does not keep.
func (s *Stack) TaskRole() string {
	value, _ := s.Template.Resources["TaskDefinition"].Properties["TaskRoleArn"].(map[string]any)
	attribute, _ := value["Fn::GetAtt"].([]any) // of the resource, and Arn
	if len(attribute) != 2 {
		return ""
	}
	return "arn:aws:iam::123456789012:role/" + s.Resources[attribute[0].(string)].ID
}

// RoleOf returns the logical id of the role with an ARN; "" if it is none of the stack.
func (s *Stack) RoleOf(arn string) string {
	for name := range s.Roles {
		if path.Base(arn) == s.Resources[name].ID {
			return name
		}
	}
	return ""
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
