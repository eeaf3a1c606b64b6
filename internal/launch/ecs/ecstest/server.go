// Package ecstest simulates the control plane of ECS. It speaks the wire protocol,
// runs "containers" by a function and sends events like EventBridge. It can fail,
// throttle, lag, lose answers, forget client tokens and kill containers.
//
// It has one cluster and the operations that Terrapulse uses: RunTask, ListTasks,
// DescribeTasks, StopTask, DescribeTaskDefinition, DescribeClusters.
package ecstest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
)

const (
	// Region and Account are part of every ARN.
	Region  = "eu-west-1"
	Account = "111122223333"

	// tokenMemory is how long a client token is valid, and stoppedMemory how long a stopped task is
	// still listed. https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html
	tokenMemory   = 24 * time.Hour
	stoppedMemory = time.Hour

	// stopTimeout is the default of a container definition.
	stopTimeout = 30 * time.Second
)

// Options configure a Server.
type Options struct {
	// Cluster is the name of the cluster; "terrapulse" if empty.
	Cluster string
	// TaskDefinition is the first task definition.
	TaskDefinition TaskDefinition
	// Run executes a container and returns its exit code. It must return at once when ctx ends,
	// which is SIGKILL. Without Run, containers run until they are stopped.
	Run func(ctx context.Context, c Container) int
	// Secret returns the secret for an ARN. A task whose secrets cannot be read does not start.
	Secret func(arn string) (string, error)
	// Events receives all events of ECS, one at a time, without the filter of a rule.
	Events func(event []byte)
	// Now returns the current time; time.Now if nil.
	Now func() time.Time
}

// TaskDefinition is a task definition. It can be decoded from the answer of DescribeTaskDefinition
// or from a template's properties, because decoding ignores case.
type TaskDefinition struct {
	Family               string                `json:"family"`
	ContainerDefinitions []ContainerDefinition `json:"containerDefinitions"`
	CPU                  string                `json:"cpu"`
	Memory               string                `json:"memory"`

	revision int
}

// ContainerDefinition is a container of a task definition. Only the first one runs.
type ContainerDefinition struct {
	Name        string             `json:"name"`
	Image       string             `json:"image"`
	Environment []ecstask.Variable `json:"environment"`
	Secrets     []Secret           `json:"secrets"`
	StopTimeout int                `json:"stopTimeout"` // seconds between SIGTERM and SIGKILL
}

// Secret is an environment variable whose value is a secret.
type Secret struct {
	Name      string `json:"name"`
	ValueFrom string `json:"valueFrom"`
}

// Container is a running container.
type Container struct {
	TaskARN string
	Image   string
	Env     []string // NAME=value: from the definition, its secrets and the override
	// Terminated is closed when the container must end, as by SIGTERM.
	Terminated <-chan struct{}
}

// Getenv returns an environment variable of the container.
func (c Container) Getenv(name string) string {
	for _, v := range slices.Backward(c.Env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Server is a simulated ECS. Its methods are safe for concurrent use.
type Server struct {
	// URL is the address, for AWS_ENDPOINT_URL_ECS.
	URL string

	opts Options
	http *httptest.Server
	work sync.WaitGroup // containers

	mu          sync.Mutex
	definitions []TaskDefinition
	tasks       []*task // in the order of their starts
	tokens      map[string]token
	faults      []Fault
	requests    map[string]int
	lag         time.Duration
	starts      chan struct{} // closed unless HoldStarts is active
	events      events
}

// token is the memory of a client token.
type token struct {
	request string // without the token
	task    *task
	at      time.Time
}

// New starts a server; Close ends it.
func New(opts Options) *Server {
	if opts.Cluster == "" {
		opts.Cluster = "terrapulse"
	}
	if opts.TaskDefinition.Family == "" {
		opts.TaskDefinition = TaskDefinition{Family: "terrapulse-runner", ContainerDefinitions: []ContainerDefinition{{Name: "runner", Image: "runner:1"}}}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Run == nil {
		opts.Run = func(ctx context.Context, c Container) int {
			select {
			case <-c.Terminated:
				return 143
			case <-ctx.Done():
				return 137
			}
		}
	}
	starts := make(chan struct{})
	close(starts)
	s := &Server{opts: opts, tokens: map[string]token{}, requests: map[string]int{}, starts: starts}
	s.Register(opts.TaskDefinition)
	s.events.begin(opts.Events)
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	return s
}

// Start starts a server that ends with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	s := New(opts)
	t.Cleanup(s.Close)
	return s
}

// Close kills every container, delivers the remaining events, and ends the server.
func (s *Server) Close() {
	s.mu.Lock()
	for _, t := range s.tasks {
		t.kill()
	}
	s.mu.Unlock()
	s.work.Wait()
	s.Release(1, false)
	s.events.end()
	s.http.Close()
}

// Register adds a task definition, as a deployment does, and returns its ARN.
func (s *Server) Register(d TaskDefinition) (arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.revision = 1
	for _, known := range s.definitions {
		if known.Family == d.Family {
			d.revision = known.revision + 1
		}
	}
	s.definitions = append(s.definitions, d)
	return d.arn()
}

func (d TaskDefinition) arn() string {
	return fmt.Sprintf("arn:aws:ecs:%s:%s:task-definition/%s:%d", Region, Account, d.Family, d.revision)
}

// Cluster returns the ARN of the cluster.
func (s *Server) Cluster() string {
	return fmt.Sprintf("arn:aws:ecs:%s:%s:cluster/%s", Region, Account, s.opts.Cluster)
}

// TaskDefinition returns the ARN of the latest task definition.
func (s *Server) TaskDefinition() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.definitions[len(s.definitions)-1].arn()
}

// Requests counts the requests by operation. Repetitions by the SDK are not counted: it repeats
// requests needlessly if answers come as fast as here, because it closes the body of a request that
// the transport still uses.
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Tasks returns the ARNs of the tasks with this startedBy, such as the id of a launch, or of all
// tasks if it is empty. The oldest is first.
func (s *Server) Tasks(startedBy string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var arns []string
	for _, t := range s.tasks {
		if startedBy == "" || t.now.StartedBy == startedBy {
			arns = append(arns, t.now.ARN)
		}
	}
	return arns
}

// LastStatus returns the status of a task, ignoring the lag.
func (s *Server) LastStatus(arn string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(arn); t != nil {
		return t.now.LastStatus
	}
	return ""
}

func (s *Server) find(arn string) *task {
	for _, t := range s.tasks {
		if t.now.ARN == arn || strings.HasSuffix(t.now.ARN, "/"+arn) {
			return t
		}
	}
	return nil
}

// task is an ECS task.
type task struct {
	definition TaskDefinition
	env        []ecstask.Variable // of the override
	now        status
	before     []status // earlier states, the oldest first

	terminate func()
	kill      func()
	killer    *time.Timer // kills the container after its stopTimeout
	stopped   stop        // why it stops, if it was stopped
}

// stop is why a task stops.
type stop struct{ code, reason, container string }

// begin creates the task of a request; its container starts in another goroutine.
func (s *Server) begin(req runTask, d TaskDefinition, failToStart string) *task {
	ctx, kill := context.WithCancel(context.Background())
	terminated := make(chan struct{})
	arn := fmt.Sprintf("arn:aws:ecs:%s:%s:task/%s/%s", Region, Account, s.opts.Cluster, strings.ReplaceAll(uuid.NewString(), "-", ""))
	t := &task{definition: d, kill: kill, terminate: sync.OnceFunc(func() { close(terminated) })}
	capacity := "FARGATE"
	if len(req.CapacityProviderStrategy) > 0 {
		capacity = req.CapacityProviderStrategy[0].CapacityProvider
	}
	t.now = status{ARN: arn, Cluster: s.Cluster(), TaskDefinition: d.arn(), StartedBy: req.StartedBy, Overrides: req.Overrides,
		DesiredStatus: "RUNNING", LaunchType: "FARGATE", Capacity: capacity, CPU: d.CPU, Memory: d.Memory, Tags: req.Tags,
		Group: "family:" + d.Family, Created: s.opts.Now()}
	for _, c := range d.ContainerDefinitions {
		t.now.Containers = append(t.now.Containers, containerStatus{Name: c.Name, Image: c.Image, ARN: strings.Replace(arn, ":task/", ":container/", 1)})
	}
	for _, o := range req.Overrides.Containers {
		t.env = append(t.env, o.Environment...)
	}
	s.tasks = append(s.tasks, t)
	s.move(t, "PROVISIONING")
	starts := s.starts
	s.work.Go(func() {
		defer kill()
		s.live(ctx, t, starts, terminated, failToStart)
	})
	return t
}

// live runs a task from its start to its end.
func (s *Server) live(ctx context.Context, t *task, starts, terminated <-chan struct{}, failToStart string) {
	select {
	case <-starts:
	case <-terminated:
	case <-ctx.Done():
	}
	c := Container{TaskARN: t.now.ARN, Terminated: terminated, Image: t.definition.ContainerDefinitions[0].Image}
	env, err := s.environment(t)
	switch {
	case ctx.Err() != nil || isClosed(terminated):
		s.end(t, nil, stop{code: "UserInitiated", reason: "Task stopped by user"})
		return
	case failToStart != "":
		s.end(t, nil, stop{code: "TaskFailedToStart", reason: failToStart})
		return
	case err != nil:
		s.end(t, nil, stop{code: "TaskFailedToStart", reason: "ResourceInitializationError: unable to pull secrets or registry auth: " + err.Error()})
		return
	}
	c.Env = env
	s.change(t, func() { s.move(t, "PENDING") })
	s.change(t, func() { t.now.Started = s.opts.Now(); s.move(t, "RUNNING") })
	code := s.opts.Run(ctx, c)
	s.end(t, &code, stop{code: "EssentialContainerExited", reason: "Essential container in task exited"})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// environment returns the environment of the container.
func (s *Server) environment(t *task) ([]string, error) {
	d := t.definition.ContainerDefinitions[0]
	id := t.now.ARN[strings.LastIndex(t.now.ARN, "/")+1:]
	env := []string{"AWS_REGION=" + Region, "AWS_EXECUTION_ENV=AWS_ECS_FARGATE", "ECS_CONTAINER_METADATA_URI_V4=" + s.URL + "/v4/" + id + "-1"}
	for _, v := range d.Environment {
		env = append(env, v.Name+"="+v.Value)
	}
	for _, secret := range d.Secrets {
		if s.opts.Secret == nil {
			return nil, fmt.Errorf("unable to retrieve secret %s", secret.ValueFrom)
		}
		value, err := s.opts.Secret(secret.ValueFrom)
		if err != nil {
			return nil, err
		}
		env = append(env, secret.Name+"="+value)
	}
	for _, v := range t.env {
		env = append(env, v.Name+"="+v.Value)
	}
	return env, nil
}

// end stops a task whose container has ended or never began.
func (s *Server) end(t *task, code *int, why stop) {
	s.change(t, func() {
		t.now.DesiredStatus = "STOPPED"
		if t.stopped != (stop{}) {
			why = t.stopped
		}
		t.now.StopCode, t.now.StoppedReason = why.code, why.reason
		if t.now.Stopping.IsZero() {
			t.now.Stopping = s.opts.Now()
		}
		containers := slices.Clone(t.now.Containers)
		containers[0].ExitCode, containers[0].Reason = code, why.container
		t.now.Containers = containers
		if t.killer != nil {
			t.killer.Stop()
		}
		s.move(t, "DEPROVISIONING")
		t.now.Stopped = s.opts.Now()
		s.move(t, "STOPPED")
	})
}

func (s *Server) change(t *task, how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// move changes the status of a task and sends the event. The caller holds mu.
func (s *Server) move(t *task, to string) {
	t.now.LastStatus = to
	containers := slices.Clone(t.now.Containers)
	for i := range containers {
		containers[i].LastStatus = to
	}
	t.now.Containers = containers
	t.now.Version++
	t.now.Updated = s.opts.Now()
	t.before = append(t.before, t.now)
	s.events.add(t.now.event())
}

// stop sends SIGTERM to a task's container, and kills it after its stopTimeout. The caller holds
// mu.
func (s *Server) stop(t *task, why stop) {
	if t.now.DesiredStatus == "STOPPED" {
		return
	}
	t.stopped = why
	t.now.DesiredStatus, t.now.Stopping = "STOPPED", s.opts.Now()
	s.move(t, t.now.LastStatus)
	wait := stopTimeout
	if n := t.definition.ContainerDefinitions[0].StopTimeout; n > 0 {
		wait = time.Duration(n) * time.Second
	}
	t.killer = time.AfterFunc(wait, t.kill)
	t.terminate()
}
