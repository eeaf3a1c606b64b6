// Package rehearsal deploys template.yaml for tests, without an account: SAM
// builds and packages it, SAM's translator turns it into CloudFormation, and
// moto makes the stack. What the functions and the container find in that
// stack's environment, and what its roles allow, is what tests of the whole run
// with: template and code cannot disagree.
package rehearsal

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// The values of the template's parameter Architecture.
const (
	ARM64 = "arm64"
	X8664 = "x86_64"
)

// Here is the architecture of this machine, for functions that are to run.
func Here() string {
	if runtime.GOARCH == "arm64" {
		return ARM64
	}
	return X8664
}

//go:embed stack.py
var stackProgram string

// Artifacts are what `sam build` has made of the checkout.
type Artifacts struct {
	Architecture string
	dir          string
}

// Build runs `sam build` for an architecture. It takes seconds.
func Build(t testing.TB, architecture string) *Artifacts {
	t.Helper()
	return BuildIn(t, filepath.Join(t.TempDir(), "build"), architecture)
}

// BuildIn is Build into a folder that may outlast the test.
func BuildIn(t testing.TB, dir, architecture string) *Artifacts {
	t.Helper()
	a := &Artifacts{Architecture: architecture, dir: dir}
	cmd := exec.CommandContext(t.Context(), testtools.SAM(t), "build", "--config-file", "samconfig.example.toml", "--build-dir", a.dir)
	cmd.Dir = testtools.Root(t)
	cmd.Env = append(os.Environ(), "ARCH="+architecture, "SAM_CLI_TELEMETRY=0", "AWS_DEFAULT_REGION=eu-west-1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sam build: %v\n%s", err, out)
	}
	return a
}

// Bootstrap is the path of the program of a function, such as
// ReconcileFunction.
func (a *Artifacts) Bootstrap(function string) string {
	return filepath.Join(a.dir, function, "bootstrap")
}

// Layer is the path of the folder that functions find under /opt.
func (a *Artifacts) Layer(name string) string { return filepath.Join(a.dir, name) }

// Parameters are those of the template, by name.
type Parameters map[string]string

// Minimal returns the parameters that have no default, for a Consul at an
// address such as 127.0.0.1:8500 that talks plain HTTP.
func Minimal(consul string) Parameters {
	return Parameters{
		"ConsulAddress": consul, "ConsulScheme": "http",
		"RunnerImage": "123456789012.dkr.ecr.eu-west-1.amazonaws.com/terrapulse:1", "Subnets": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
	}
}

// Stack is a stack as CloudFormation has made it.
type Stack struct {
	*Artifacts
	Outputs   map[string]string    `json:"outputs"`
	Functions map[string]Function  `json:"functions"` // by logical id, such as ReconcileFunction
	Roles     map[string]Policy    `json:"roles"`     // by logical id, such as RunnerRole
	Rules     map[string]EventRule `json:"rules"`     // by logical id
	// Template is CloudFormation's template. Moto makes no alarms, no
	// dashboard and no schedule: they are here alone.
	Template Template `json:"template"`

	TaskDefinitions map[string]TaskDefinition `json:"taskDefinitions"`
}

// Template is a template of CloudFormation.
type Template struct {
	Resources map[string]struct {
		Type       string
		Properties map[string]any
	}
}

// Function is a function of Lambda.
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

// EventRule is a rule of EventBridge.
type EventRule struct {
	Pattern map[string]any `json:"pattern"`
	State   string         `json:"state"` // ENABLED or DISABLED
	Targets []string       `json:"targets"`
}

// TaskDefinition is what ECS makes containers of.
type TaskDefinition struct {
	ARN        string      `json:"taskDefinitionArn"`
	Family     string      `json:"family"`
	Containers []Container `json:"containerDefinitions"`
}

// Container is a container of a task definition.
type Container struct {
	Name         string `json:"name"`
	Image        string `json:"image"`
	User         string `json:"user"`
	ReadOnlyRoot bool   `json:"readonlyRootFilesystem"`
	StopTimeout  int    `json:"stopTimeout"` // seconds
	Environment  []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"environment"`
	// Secrets are variables that ECS sets from what an ARN names.
	Secrets []struct {
		Name string `json:"name"`
		From string `json:"valueFrom"`
	} `json:"secrets"`
}

// Deploy makes a stack of a name with parameters beside Architecture, which is
// that of the artifacts. A bucket that the parameter Bucket names is made
// first.
func (a *Artifacts) Deploy(t testing.TB, name string, p Parameters) *Stack {
	t.Helper()
	asked := struct {
		Template   string     `json:"template"`
		Name       string     `json:"name"`
		Parameters Parameters `json:"parameters"`
		Buckets    []string   `json:"buckets"`
	}{filepath.Join(a.dir, "template.yaml"), name, Parameters{"Architecture": a.Architecture}, nil}
	for key, value := range p {
		asked.Parameters[key] = value
	}
	if bucket := p["Bucket"]; bucket != "" {
		asked.Buckets = []string{bucket}
	}
	in, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), testtools.Python(t), "-c", stackProgram)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = t.TempDir(), bytes.NewReader(in), &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("deploy %s with %v: %v\n%s", name, asked.Parameters, err, said.Bytes())
	}
	s := &Stack{Artifacts: a}
	if err := json.Unmarshal(out.Bytes(), s); err != nil {
		t.Fatalf("%v in:\n%s", err, out.Bytes())
	}
	return s
}

// Env is the environment of a function, such as ReconcileFunction, as
// os.Environ would return it.
func (s *Stack) Env(function string) []string {
	var env []string
	for name, value := range s.Functions[function].Environment {
		env = append(env, name+"="+value)
	}
	return env
}

// Runner is the container that runs Terraform.
func (s *Stack) Runner() Container {
	for _, d := range s.TaskDefinitions {
		for _, c := range d.Containers {
			if c.Name == "runner" {
				return c
			}
		}
	}
	return Container{}
}

// Env is the environment of the container without secrets, and without what a
// launch adds, as os.Environ would return it.
func (c Container) Env() []string {
	var env []string
	for _, v := range c.Environment {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// Policy is what a role may do, whether that is written down with the role or
// in policies of their own.
type Policy []Statement

// Statement is a statement of a policy.
type Statement struct {
	SID       string         `json:"sid"`
	Effect    string         `json:"effect"`
	Actions   []string       `json:"actions"`
	Resources []string       `json:"resources"`
	Condition map[string]any `json:"condition"`
}

// Allows reports whether some statement allows the action on the resource,
// whatever its condition.
func (p Policy) Allows(action, resource string) bool {
	for _, s := range p {
		if s.Effect == "Allow" && anyMatches(s.Actions, action) && anyMatches(s.Resources, resource) {
			return true
		}
	}
	return false
}

func anyMatches(patterns []string, s string) bool {
	for _, p := range patterns {
		// IAM's * matches slashes, path.Match's does not.
		if ok, err := path.Match(strings.ReplaceAll(p, "/", "\x00"), strings.ReplaceAll(s, "/", "\x00")); err == nil && ok {
			return true
		}
	}
	return false
}

func (s Statement) String() string { return fmt.Sprintf("%s %v on %v", s.SID, s.Actions, s.Resources) }
