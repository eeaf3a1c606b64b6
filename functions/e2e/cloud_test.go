//go:build linux

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/aws/eventbridge/bustest"
	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo"
	"github.com/terrapulse/terrapulse/internal/stores/dynamo/dynamotest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

const (
	// patience is how long something that must happen may take on a machine
	// that has other things to do. Nothing here waits for it in vain.
	patience = 5 * time.Minute
)

// rehearsed is what all tests share: programs, and what the template makes.
var rehearsed struct {
	dir       string // of programs
	artifacts *rehearsal.Artifacts

	mu     sync.Mutex
	things map[string]*thing
}

// thing is made by the first test that needs it. Other tests that need it wait meanwhile; tests that
// need other things do not.
type thing struct {
	sync.Mutex
	made  bool
	stack *rehearsal.Stack // nil for programs
}

// share returns the thing of this name. It is made if no test has made it.
func share(name string, make func(*thing)) *thing {
	rehearsed.mu.Lock()
	one := rehearsed.things[name]
	if one == nil {
		one = &thing{}
		rehearsed.things[name] = one
	}
	rehearsed.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	if !one.made {
		make(one) // if it ends the test, the next test makes the thing
		one.made = true
	}
	return one
}

// atOnce is how many tests run at a time. They wait for leases, polls and containers most of the time,
// so -parallel, which is meant for tests that compute, would leave the processors idle.
const atOnce = 6

func TestMain(m *testing.M) {
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() != "1" { // 1 runs one test after the other
		parallel.Value.Set(strconv.Itoa(atOnce))
	}
	var err error
	if rehearsed.dir, err = os.MkdirTemp("", "terrapulse-e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rehearsed.things = map[string]*thing{}
	code := m.Run()
	os.RemoveAll(rehearsed.dir)
	os.Exit(code)
}

// stackName is the name of most stacks.
const stackName = "e2e"

// consulAddress stands for the address of Consul in the stacks, which are the
// same for all tests.
const consulAddress = "127.0.0.1:8500"

// prebuilt returns the folder of what `sam build` has built, once for all tests.
func prebuilt(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds all functions")
	}
	dir := filepath.Join(rehearsed.dir, "build")
	share("build", func(*thing) { rehearsed.artifacts = rehearsal.Build(t, dir) })
	return dir
}

// rehearse returns the stack that the template makes with parameters beside
// those that have no default.
func rehearse(t testing.TB, o options) *rehearsal.Stack {
	t.Helper()
	if o.build != "" {
		return rehearsal.Built(o.build).Deploy(t, o.name, o.parameters)
	}
	prebuilt(t)
	name := cmp.Or(o.name, stackName)
	return share(fmt.Sprint("stack ", name, " with ", o.parameters), func(one *thing) {
		all := rehearsal.Minimal(consulAddress)
		maps.Copy(all, o.parameters)
		one.stack = rehearsed.artifacts.Deploy(t, name, all)
	}).stack
}

// built returns the path of a program that SAM does not build.
func built(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(rehearsed.dir, name)
	share(name, func(*thing) {
		pkg := "functions/" + name
		if name == "terrapulse" {
			pkg = "cmd/terrapulse"
		}
		if err := testtools.Build(path, pkg); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

// cloud is a deployment.
type cloud struct {
	t                 testing.TB
	name              string // of the stack
	dir               string // what Terraform makes, below out; task files, below files
	consul            *consultest.Server
	proxy             *consultest.Proxy // in front of Consul
	dynamo            *counter          // in front of DynamoDB
	s3                *counter          // in front of S3
	sts               *counter          // in front of STS
	bus               *bustest.Bus
	roles             map[string]rehearsal.Policy
	roleOf            func(arn string) string
	alarms            int
	ecs               *ecstest.Server
	lambda            *lambda
	store             state.Store
	client            *s3.Client
	table             string
	names             *strings.Replacer // the names in the policies of the roles, for those of this deployment
	reconcile, settle string            // functions
	api, notification string            // functions; notification only with HCP Terraform
	apiURL            string            // output ApiUrl
	gateway           bool              // the function api is behind API Gateway
	bucket            string
	bundles           string // URL
	told              bool   // the function that reconciles is, when a bundle was pushed
	image             string
	stock             bool // the image has no runner: a container installs it
	definitions       map[string]types.ContainerDefinition
	delay             time.Duration // that a container takes to start

	mu      sync.Mutex
	secrets map[string]string // by ARN
	started int               // containers that have ended
	had     []string          // roles of containers, in the order of their starts
	settled int               // containers whose end the function settle has been told
	sent    int               // bytes of the answers of the function api
	volumes []string          // of containers of a stock image
	output  testtools.Output  // of containers
	env     map[string]string // of people's programs that ask AWS for something
	guards  map[string]string // URLs of services, by the role of who sends requests and the service
}

// options say what is special about a deployment.
type options struct {
	consul     []consultest.Option
	parameters rehearsal.Parameters // of the template
	secrets    map[string]string    // by ARN
	image      string               // that containers are started from; a process of this machine if empty
	stock      bool                 // the image has no runner
	paused     bool                 // as a new deployment is, until somebody resumes

	build string // folder of what `sam build` has built, which is deployed with these parameters alone
	name  string // of the stack; e2e if empty

	server *consultest.Server // the Consul to use; a new one if nil
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
	o.name = cmp.Or(o.name, stackName)
	stack := rehearse(t, o)
	if built(t, "terrapulse"); o.image == "" {
		built(t, "runner") // not while a test waits for its container
	}
	c := &cloud{t: t, name: o.name, dir: t.TempDir(), secrets: maps.Clone(o.secrets), guards: map[string]string{},
		reconcile: stack.Outputs["ReconcileFunction"], settle: stack.Outputs["SettleFunction"], bucket: stack.Outputs["Bucket"], bundles: stack.Outputs["BundleUrl"], image: o.image, stock: o.stock, definitions: map[string]types.ContainerDefinition{},
		roles: stack.Roles, roleOf: stack.RoleOf, api: stack.Functions["ApiFunction"].Name, notification: stack.Functions["NotificationFunction"].Name, apiURL: stack.Outputs["ApiUrl"], gateway: gatewayHost.MatchString(stack.Outputs["ApiUrl"]), told: stack.Rules["ReconcileFunctionPushed"].State == "ENABLED"}
	for _, dir := range []string{"files", "out"} {
		if err := os.Mkdir(filepath.Join(c.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range stack.Template.Resources {
		if r.Type == "AWS::CloudWatch::Alarm" {
			metrics, _ := r.Properties["Metrics"].([]any)
			c.alarms += max(1, len(metrics)-1) // each metric is billed, an expression is not
		}
	}
	if c.consul = o.server; c.consul == nil {
		c.consul = consultest.Start(t, o.consul...)
	}
	c.proxy = consultest.NewProxy(t, c.consul.Addr())
	c.dynamo = count(t, dynamotest.Start(t))
	c.table = dynamotest.Table(t, c.dynamo.URL)

	backend := s3mem.New()
	if err := backend.CreateBucket(c.bucket); err != nil {
		t.Fatal(err)
	}
	objects := gofakes3.New(backend).Server()
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("notification") { // as the template configures the bucket
			io.WriteString(w, "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>")
			return
		}
		objects.ServeHTTP(w, r)
	}))
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
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": secrets.URL, "AWS_ENDPOINT_URL_EVENTBRIDGE": c.bus.URL, "AWS_ENDPOINT_URL_STS": c.sts.URL,
	}
	own := []string{stack.Outputs["Table"], c.table, stack.Functions["ReconcileFunction"].Environment["CONSUL_HTTP_ADDR"], "http://" + c.proxy.Addr()}

	if o.stock {
		own = append(own, c.installed(stack)...)
	}
	definition := types.TaskDefinition{Family: aws.String(ecstask.Family(stack.Outputs["TaskDefinition"])), TaskRoleArn: aws.String(stack.TaskRole())}
	for _, name := range []string{ecstask.Container, ecstask.InstallContainer} {
		d, ok := stack.Container(name)
		if !ok {
			continue
		}
		d.Environment = slices.Clone(d.Environment)
		for i, v := range d.Environment {
			d.Environment[i].Value = aws.String(strings.NewReplacer(own...).Replace(*v.Value))
		}
		c.definitions[name] = d
		definition.ContainerDefinitions = append(definition.ContainerDefinitions, d)
	}
	t.Cleanup(c.removeVolumes) // after the server of ECS has ended the containers
	c.ecs = ecstest.Start(t, ecstest.Options{
		TaskDefinition: definition,
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
	c.names = strings.NewReplacer(c.table, stack.Outputs["Table"], c.ecs.Cluster(), stack.Outputs["Cluster"], "arn:aws:ecs:"+ecstest.Region+":"+ecstest.Account+":", arn("ecs", ""))
	outputs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.describeStack(w, r, o.parameters, stack.Outputs, strings.NewReplacer(own...))
	}))
	t.Cleanup(outputs.Close)
	c.env["AWS_ENDPOINT_URL_CLOUDFORMATION"] = outputs.URL
	for _, function := range []string{"ReconcileFunction", "SettleFunction", "NotificationFunction", "ApiFunction"} {
		f, ok := stack.Functions[function]
		if !ok {
			continue
		}
		env := c.as(strings.TrimSuffix(function, "Function") + "Role")
		for name, value := range f.Environment {
			env[name] = strings.NewReplacer(own...).Replace(value)
		}
		c.lambda.deploy(f.Name, stack.Bootstrap(function), time.Duration(f.Timeout)*time.Second, env)
	}

	c.store = summary.Keep(dynamo.New(dynamotest.Config(c.dynamo.URL), c.table))
	if !o.paused && o.build == "" {
		c.resume()
	}
	c.client = s3.NewFromConfig(dynamotest.Config(c.s3.URL))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("reconcile:\n%s\nsettle:\n%s\napi:\n%s\ncontainers:\n%s", tail(c.lambda.logs(c.reconcile)), tail(c.lambda.logs(c.settle)), tail(c.lambda.logs(c.api)), tail(c.output.String()))
		}
	})
	return c
}

// resume ends the pause with which a deployment begins, before its first tick and without a trace in the audit.
func (c *cloud) resume() {
	c.t.Helper()
	rec, err := state.ReadReconcile(c.t.Context(), c.store)
	if err != nil {
		c.t.Fatal(err)
	}
	rec.Data.Resumed = time.Now()
	if _, err := c.store.Apply(c.t.Context(), rec.Write(rec.Data)); err != nil {
		c.t.Fatal(err)
	}
}

func tail(text string) string { return text[max(0, len(text)-6000):] }

// push pushes the task files as `terrapulse bundle push` does, and tells it as
// the bucket does.
func (c *cloud) push() (string, error) {
	out, err := c.bundlePush()
	if err == nil && c.told {
		_, err = c.lambda.invoke(c.t.Context(), c.reconcile, []byte(c.pushedEvent()))
	}
	return out, err
}

// pushedEvent is the event of the bucket that the pointer has moved.
func (c *cloud) pushedEvent() string {
	return `{"version":"0","source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"` + c.bucket + `"},"object":{"key":"terrapulse/current"}}}`
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
	register(c.t, c.consul, id, port)
}

func register(t testing.TB, consul *consultest.Server, id string, port int) {
	t.Helper()
	err := consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{Name: "web", ID: id, Port: port})
	if err != nil {
		t.Fatal(err)
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
		ended.State, ended.Digest, ended.Started, ended.Ended = state.RunSucceeded, task.Data.Observed.Digest, time.Now(), time.Now()
		next, _ := task.Data.Conclude(ended, task.Data.Attempted.Definition)
		if _, err := c.store.Apply(c.t.Context(), run.Write(ended), task.Write(next)); err != nil {
			c.t.Fatal(err)
		}
	}
}
