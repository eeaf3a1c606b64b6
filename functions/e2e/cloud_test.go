//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/hashicorp/consul/api"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/terrapulse/terrapulse/infra/rehearsal"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/eventbridge/bustest"
	"github.com/terrapulse/terrapulse/internal/invoke"
	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/state"
	"github.com/terrapulse/terrapulse/internal/state/dynamo"
	"github.com/terrapulse/terrapulse/internal/state/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const (
	// patience is how long something that must happen may take on a machine
	// that has other things to do. Nothing here waits for it in vain.
	patience = 2 * time.Minute
)

// rehearsed is what the template makes, once for all tests.
var rehearsed struct {
	sync.Mutex
	dir       string // of programs
	artifacts *rehearsal.Artifacts
	stacks    map[string]*rehearsal.Stack // by their parameters
}

func TestMain(m *testing.M) {
	var err error
	if rehearsed.dir, err = os.MkdirTemp("", "terrapulse-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rehearsed.stacks = map[string]*rehearsal.Stack{}
	code := m.Run()
	os.RemoveAll(rehearsed.dir)
	os.Exit(code)
}

// consulAddress stands for the address of Consul in the stacks, which are the
// same for all tests.
const consulAddress = "127.0.0.1:8500"

// rehearse returns the stack that the template makes with parameters beside
// those that have no default.
func rehearse(t testing.TB, parameters rehearsal.Parameters) *rehearsal.Stack {
	t.Helper()
	rehearsed.Lock()
	defer rehearsed.Unlock()
	if rehearsed.artifacts == nil {
		rehearsed.artifacts = rehearsal.Build(t, filepath.Join(rehearsed.dir, "build"), rehearsal.Here())
	}
	key := fmt.Sprint(parameters)
	if rehearsed.stacks[key] == nil {
		all := rehearsal.Minimal(consulAddress)
		maps.Copy(all, parameters)
		rehearsed.stacks[key] = rehearsed.artifacts.Deploy(t, "e2e", all)
	}
	return rehearsed.stacks[key]
}

// built returns the path of a program that SAM does not build.
func built(t testing.TB, name string) string {
	t.Helper()
	rehearsed.Lock()
	defer rehearsed.Unlock()
	path := filepath.Join(rehearsed.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	pkg := "./functions/" + name
	if name == "terrapulse" {
		pkg = "./cmd/terrapulse"
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = testtools.Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return path
}

// cloud is a deployment.
type cloud struct {
	t                 testing.TB
	dir               string // what Terraform makes, below out; task files, below files
	consul            *consultest.Server
	proxy             *consultest.Proxy // in front of Consul
	dynamo            *counter          // in front of DynamoDB
	s3                *counter          // in front of S3
	sts               *counter          // in front of STS
	bus               *bustest.Bus
	roles             map[string]rehearsal.Policy
	alarms            int
	ecs               *ecstest.Server
	lambda            *lambda
	store             state.Store
	client            *s3.Client
	table             string
	reconcile, settle string // functions
	api               string // function
	bucket            string
	bundles           string // URL
	told              bool   // the function that reconciles is, when a bundle was pushed
	image             string

	mu      sync.Mutex
	secrets map[string]string // by ARN
	started int               // containers that have ended
	settled int               // containers whose end the function settle has been told
	sent    int               // bytes of the answers of the function URL
	output  testtools.Output  // of containers
	env     map[string]string // of every program that asks AWS for something
}

// options say what is special about a deployment.
type options struct {
	consul     []consultest.Option
	parameters rehearsal.Parameters // of the template
	secrets    map[string]string    // by ARN
	image      string               // that containers are started from; a process of this machine if empty
}

// deploy makes a deployment. The programs, their environment, their time limits
// and the container's definition are those of the stack that the template
// makes; only the names of what every test has for itself are put in, and where
// AWS is.
func deploy(t testing.TB, o options) *cloud {
	t.Helper()
	if testing.Short() {
		t.Skip("starts everything that a deployment has")
	}
	stack := rehearse(t, o.parameters)
	c := &cloud{t: t, dir: t.TempDir(), secrets: maps.Clone(o.secrets),
		reconcile: stack.Outputs["ReconcileFunction"], settle: stack.Outputs["SettleFunction"], bucket: stack.Outputs["Bucket"], bundles: stack.Outputs["BundleUrl"], image: o.image,
		roles: stack.Roles, api: stack.Functions["ApiFunction"].Name, told: stack.Rules["ReconcileFunctionPushed"].State == "ENABLED"}
	for _, dir := range []string{"files", "out"} {
		if err := os.Mkdir(filepath.Join(c.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range stack.Template.Resources {
		if r.Type == "AWS::CloudWatch::Alarm" {
			c.alarms++
		}
	}
	c.consul = consultest.Start(t, o.consul...)
	c.proxy = consultest.NewProxy(t, c.consul.Addr())
	c.dynamo = count(t, dynamotest.Start(t))
	c.table = dynamotest.Table(t, c.dynamo.URL)

	backend := s3mem.New()
	if err := backend.CreateBucket(c.bucket); err != nil {
		t.Fatal(err)
	}
	files := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(files.Close)
	c.s3 = count(t, files.URL)
	identity := httptest.NewServer(http.HandlerFunc(callerIdentity))
	t.Cleanup(identity.Close)
	c.sts = count(t, identity.URL)

	c.lambda = newLambda(t, testtools.RIE(t))
	c.bus = bustest.Start(t, "default")
	secrets := httptest.NewServer(http.HandlerFunc(c.secretsManager))
	t.Cleanup(secrets.Close)
	c.env = map[string]string{
		"AWS_REGION": ecstest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": "none", "AWS_SHARED_CREDENTIALS_FILE": "none", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ENDPOINT_URL_DYNAMODB": c.dynamo.URL, "AWS_ENDPOINT_URL_S3": c.s3.URL, "AWS_ENDPOINT_URL_LAMBDA": c.lambda.URL,
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": secrets.URL, "AWS_ENDPOINT_URL_EVENTBRIDGE": c.bus.URL,
	}
	own := []string{stack.Outputs["Table"], c.table, consulAddress, c.proxy.Addr()}

	definition := stack.Runner()
	definition.Environment = slices.Clone(definition.Environment)
	for i, v := range definition.Environment {
		definition.Environment[i].Value = aws.String(strings.NewReplacer(own...).Replace(*v.Value))
	}
	c.ecs = ecstest.Start(t, ecstest.Options{
		TaskDefinition: types.TaskDefinition{Family: aws.String(ecstask.Family(stack.Outputs["TaskDefinition"])), ContainerDefinitions: []types.ContainerDefinition{definition}},
		Run:            c.container,
		Secret:         c.secret,
		Events: func(event []byte) {
			var e struct{ Detail struct{ LastStatus string } }
			if json.Unmarshal(event, &e) == nil && e.Detail.LastStatus == "STOPPED" { // as the rule picks
				c.lambda.invoke(context.Background(), c.settle, event)
				c.mu.Lock()
				c.settled++
				c.mu.Unlock()
			}
		},
	})
	c.env["AWS_ENDPOINT_URL_ECS"] = c.ecs.URL
	own = append(own, stack.Outputs["Cluster"], c.ecs.Cluster(), stack.Outputs["TaskDefinition"], c.ecs.TaskDefinition())
	all := maps.Clone(stack.Outputs)
	all["ApiUrl"] = "https://" + urlHost + "/" // moto makes no function URL
	outputs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.describeStack(w, r, o.parameters, all, strings.NewReplacer(own...))
	}))
	t.Cleanup(outputs.Close)
	c.env["AWS_ENDPOINT_URL_CLOUDFORMATION"] = outputs.URL
	for _, function := range []string{"ReconcileFunction", "SettleFunction", "ApiFunction"} {
		f := stack.Functions[function]
		env := maps.Clone(c.env)
		for name, value := range f.Environment {
			env[name] = strings.NewReplacer(own...).Replace(value)
		}
		c.lambda.deploy(f.Name, stack.Bootstrap(function), time.Duration(f.Timeout)*time.Second, env)
	}

	c.store = dynamo.New(dynamotest.Config(c.dynamo.URL), c.table)
	c.client = s3.NewFromConfig(dynamotest.Config(c.s3.URL))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("reconcile:\n%s\nsettle:\n%s\napi:\n%s\ncontainers:\n%s", tail(c.lambda.logs(c.reconcile)), tail(c.lambda.logs(c.settle)), tail(c.lambda.logs(c.api)), tail(c.output.String()))
		}
	})
	return c
}

func tail(text string) string { return text[max(0, len(text)-6000):] }

// container runs the container's program as a process, in a folder of its own.
func (c *cloud) container(ctx context.Context, container ecstest.Container) int {
	if c.image != "" {
		return c.fromImage(ctx, container)
	}
	// Providers listen on a socket below TMPDIR, whose path must be short.
	work, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		c.t.Error(err)
		return 1
	}
	defer os.RemoveAll(work)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.started++
	}()
	env := []string{"TERRAPULSE_WORK=" + work, "TF_CLI_CONFIG_FILE=" + testtools.TerraformRC(c.t), "PATH=" + filepath.Dir(testtools.Terraform(c.t)) + ":/usr/bin:/bin"}
	for name, value := range c.env {
		env = append(env, name+"="+value)
	}
	return ecstest.Process{Path: built(c.t, "runner"), Dir: work, Output: &c.output, Env: env}.Run(ctx, container)
}

// fromImage runs a container of the runner's image as the task definition says:
// its root cannot be written, and its user has no name.
func (c *cloud) fromImage(ctx context.Context, container ecstest.Container) int {
	out := filepath.Join(c.dir, "out") // what Terraform makes is made there
	args := []string{"run", "--rm", "--read-only", "--read-only-tmpfs=false", "--passwd=false", "--cap-drop", "all", "--network", "host",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--volume", out + ":" + out}
	env := container.Env
	for name, value := range c.env {
		env = append(env, name+"="+value)
	}
	for _, v := range env {
		args = append(args, "--env", v)
	}
	cmd := rehearsal.Podman(ctx, append(args, c.image)...)
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
			return exit.ExitCode()
		}
		io.WriteString(&c.output, err.Error()+"\n")
		return 1
	}
	return 0
}

// push pushes the task files as `terrapulse bundle push` does, and tells it as
// the bucket does.
func (c *cloud) push() (string, error) {
	out, err := c.bundlePush()
	if err == nil && c.told {
		event := `{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"` + c.bucket + `"},"object":{"key":"terrapulse/current"}}}`
		_, err = c.lambda.invoke(c.t.Context(), c.reconcile, []byte(event))
	}
	return out, err
}

func (c *cloud) bundlePush() (string, error) {
	return c.terrapulse("bundle", "push", c.bundles, "-config-file=tasks.hcl")
}

// terrapulse runs the command line in the folder of the task files.
func (c *cloud) terrapulse(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), built(c.t, "terrapulse"), args...)
	cmd.Dir = filepath.Join(c.dir, "files")
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + os.Getenv("PATH"), "CONSUL_HTTP_ADDR=" + c.proxy.Addr(), "TF_CLI_CONFIG_FILE=" + testtools.TerraformRC(c.t)}
	for name, value := range c.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("terrapulse %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// must pushes or ends the test.
func (c *cloud) mustPush() {
	c.t.Helper()
	if out, err := c.push(); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
}

// invoke invokes the function that reconciles.
func (c *cloud) invoke(payload string) (invoke.Answer, error) {
	text, err := c.lambda.invoke(c.t.Context(), c.reconcile, []byte(payload))
	if err != nil {
		return invoke.Answer{}, err
	}
	var answer invoke.Answer
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("%w: %s", err, text)
	}
	return answer, nil
}

func (c *cloud) mustInvoke(payload string) invoke.Answer {
	c.t.Helper()
	answer, err := c.invoke(payload)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// tick is what the schedule does.
func (c *cloud) tick() invoke.Answer { c.t.Helper(); return c.mustInvoke(`{"mode":"reconcile"}`) }

// tickUntil ticks every other second until it is so.
func (c *cloud) tickUntil(what string, is func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			c.t.Fatalf("it never came to this: %s", what)
		}
		c.tick()
		time.Sleep(500 * time.Millisecond)
	}
}

// until waits until it is so, without a tick.
func (c *cloud) until(what string, is func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			c.t.Fatalf("it never came to this: %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// register registers an instance of the service web.
func (c *cloud) register(id string, port int) {
	c.t.Helper()
	err := c.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: id, Port: port})
	if err != nil {
		c.t.Fatal(err)
	}
}

// runs are the runs of a task that have ended, the oldest first.
func (c *cloud) runs(task string) []state.Run {
	c.t.Helper()
	all, err := state.ReadAll[state.Run](c.t.Context(), c.store, state.RunPrefix(task))
	if err != nil {
		c.t.Fatal(err)
	}
	var runs []state.Run
	for _, r := range all {
		if r.Data.State.Ended() {
			runs = append(runs, r.Data)
		}
	}
	return runs
}

func (c *cloud) record() state.Reconcile {
	c.t.Helper()
	rec, err := state.Read[state.Reconcile](c.t.Context(), c.store, state.ReconcileKey)
	if err != nil {
		c.t.Fatal(err)
	}
	return rec.Data
}

// containers is how many tasks of ECS were started.
func (c *cloud) containers() int { return len(c.ecs.Tasks("")) }

// exists reports whether an object is in the bucket.
func (c *cloud) exists(key string) bool {
	_, err := c.client.HeadObject(c.t.Context(), &s3.HeadObjectInput{Bucket: &c.bucket, Key: &key})
	return err == nil
}

// applyAll ends every run under way as if it had been applied.
func (c *cloud) applyAll() {
	c.t.Helper()
	tasks, err := state.ReadAll[state.Task](c.t.Context(), c.store, state.TaskPrefix)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, task := range tasks {
		live := task.Data.Run
		if live == nil {
			continue
		}
		name := state.TaskName(task.Key)
		run, err := state.Read[state.Run](c.t.Context(), c.store, state.RunKey(name, live.ID))
		if err != nil {
			c.t.Fatal(err)
		}
		ended := run.Data
		ended.State, ended.Digest, ended.Started, ended.Ended = state.RunSucceeded, task.Data.Observed, time.Now(), time.Now()
		next, _ := task.Data.Conclude(ended, task.Data.Attempted.Definition)
		if _, err := c.store.Apply(c.t.Context(), run.Write(ended), task.Write(next)); err != nil {
			c.t.Fatal(err)
		}
	}
}
