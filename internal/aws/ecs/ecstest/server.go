// Package ecstest simulates the control plane of ECS. It speaks the wire protocol,
// runs "containers" by a function and sends events like EventBridge. It can fail,
// throttle, lag, lose answers, forget client tokens and kill containers.
//
// It has one cluster and the operations that Terrapulse uses: RunTask, ListTasks,
// DescribeTasks, DescribeTaskDefinition, DescribeClusters.
package ecstest

import (
	"cmp"
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

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/google/uuid"
)

const (
	// Region and Account are part of every ARN.
	Region  = "eu-west-1"
	Account = "111122223333"

	clusterName = "terrapulse"

	// stoppedMemory is how long a stopped task is still listed, and its client token valid. tokenMemory is how
	// long a client token is valid that started nothing. https://docs.aws.amazon.com/AmazonECS/latest/APIReference/ECS_Idempotency.html
	tokenMemory   = 24 * time.Hour
	stoppedMemory = time.Hour

	// stopTimeout is the default of a container definition, in seconds.
	stopTimeout = 30
)

var capacityProviders = []string{"FARGATE", "FARGATE_SPOT"}

// Options configure a Server.
type Options struct {
	// TaskDefinition is the first task definition. Of its containers, the first one runs, after
	// those on whose success it depends.
	TaskDefinition types.TaskDefinition
	// Tags are those of each task definition.
	Tags []types.Tag
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

// Container is a running container.
type Container struct {
	Name string
	Task string   // id
	Role string   // ARN: from the override, or else the definition
	Env  []string // NAME=value: from the definition, its secrets and the override
	// Terminated ends when the container must end, as by SIGTERM.
	Terminated context.Context
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

	opts      Options
	http      *httptest.Server
	work      sync.WaitGroup // containers
	delivered sync.WaitGroup // events
	closed    sync.Once

	mu                       sync.Mutex
	definitions              []*types.TaskDefinition
	tasks                    []*task // in the order of their starts
	tokens                   map[string]token
	faults                   []Fault
	requests                 map[string]int
	lagOfList, lagOfDescribe time.Duration
	starts                   <-chan struct{} // nil unless HoldStarts was called
	events                   chan []byte     // nil after Close
	hold                     bool
	held                     [][]byte // events until Release
}

// token is the memory of a client token.
type token struct {
	request string
	task    *task  // nil if none was started
	failure string // why
	at      time.Time
}

// Start starts a server that ends with the test.
func Start(t testing.TB, opts Options) *Server {
	t.Helper()
	if opts.TaskDefinition.Family == nil {
		opts.TaskDefinition = types.TaskDefinition{Family: aws.String("terrapulse-runner"), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner")}}}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Events == nil {
		opts.Events = func([]byte) {}
	}
	if opts.Run == nil {
		opts.Run = func(ctx context.Context, c Container) int {
			<-c.Terminated.Done()
			if ctx.Err() != nil {
				return 137
			}
			return 143
		}
	}
	s := &Server{opts: opts, tokens: map[string]token{}, requests: map[string]int{}, events: make(chan []byte, 1<<16)}
	s.Register(opts.TaskDefinition)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", s.serve)
	mux.HandleFunc("GET /v4/{id}/task", s.metadata)
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	events := s.events
	s.delivered.Go(func() {
		for event := range events {
			opts.Events(event)
		}
	})
	t.Cleanup(s.Close)
	return s
}

// Close kills every container, delivers the remaining events, and ends the server.
func (s *Server) Close() {
	s.closed.Do(func() {
		s.mu.Lock()
		for _, t := range s.tasks {
			t.kill()
		}
		s.mu.Unlock()
		s.work.Wait()
		s.Release(1, false)
		s.mu.Lock()
		close(s.events)
		s.events = nil
		s.mu.Unlock()
		s.delivered.Wait()
		s.http.Close()
	})
}

// Register adds a task definition, as a deployment does, and returns its ARN.
func (s *Server) Register(d types.TaskDefinition) (arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Revision = 1
	for _, known := range s.definitions {
		if *known.Family == *d.Family {
			d.Revision = known.Revision + 1
		}
	}
	d.TaskDefinitionArn = arnOf("task-definition/%s:%d", *d.Family, d.Revision)
	s.definitions = append(s.definitions, &d)
	return *d.TaskDefinitionArn
}

func arnOf(format string, args ...any) *string {
	return aws.String("arn:aws:ecs:" + Region + ":" + Account + ":" + fmt.Sprintf(format, args...))
}

// Cluster returns the ARN of the cluster.
func (s *Server) Cluster() string { return *arnOf("cluster/" + clusterName) }

// TaskDefinition returns the ARN of the latest task definition.
func (s *Server) TaskDefinition() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.definitions[len(s.definitions)-1].TaskDefinitionArn
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
		if startedBy == "" || aws.ToString(t.now.StartedBy) == startedBy {
			arns = append(arns, *t.now.TaskArn)
		}
	}
	return arns
}

// LastStatus returns the status of a task, ignoring the lag.
func (s *Server) LastStatus(arn string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.find(arn); t != nil {
		return *t.now.LastStatus
	}
	return ""
}

// find returns the task with an ARN or an id.
func (s *Server) find(arn string) *task {
	for _, t := range s.tasks {
		if *t.now.TaskArn == arn || strings.HasSuffix(*t.now.TaskArn, "/"+arn) {
			return t
		}
	}
	return nil
}

// task is an ECS task.
type task struct {
	definition *types.TaskDefinition
	now        types.Task
	history    []state // the oldest first

	terminate, kill context.CancelFunc
	stopped         *stop // why it stops, if it was stopped
}

// state is the state of a task since a time.
type state struct {
	task    types.Task
	updated time.Time
}

// stop is why a task stops.
type stop struct {
	code              types.TaskStopCode
	reason, container string
}

// begin creates the task of a request; its container starts in another goroutine.
func (s *Server) begin(in *awsecs.RunTaskInput, d *types.TaskDefinition, failToStart string) *task {
	ctx, kill := context.WithCancel(context.Background())
	terminated, terminate := context.WithCancel(ctx)
	t := &task{definition: d, kill: kill, terminate: terminate, now: types.Task{
		TaskArn:    arnOf("task/%s/%s", clusterName, strings.ReplaceAll(uuid.NewString(), "-", "")),
		ClusterArn: aws.String(s.Cluster()), TaskDefinitionArn: d.TaskDefinitionArn, StartedBy: in.StartedBy, Group: in.Group, Overrides: in.Overrides, Tags: in.Tags,
		DesiredStatus: aws.String("RUNNING"), LaunchType: types.LaunchTypeFargate, CreatedAt: aws.Time(s.opts.Now()),
	}}
	if in.PropagateTags == types.PropagateTagsTaskDefinition {
		t.now.Tags = slices.Concat(t.now.Tags, s.opts.Tags)
	}
	if len(in.CapacityProviderStrategy) > 0 {
		t.now.CapacityProviderName = in.CapacityProviderStrategy[0].CapacityProvider
	}
	for _, c := range d.ContainerDefinitions {
		t.now.Containers = append(t.now.Containers, types.Container{Name: c.Name, Image: c.Image})
	}
	s.tasks = append(s.tasks, t)
	s.move(t, "PROVISIONING")
	starts := s.starts
	s.work.Go(func() {
		defer kill()
		if starts != nil {
			select {
			case <-starts:
			case <-terminated.Done():
			}
		}
		s.live(ctx, t, terminated, failToStart)
	})
	return t
}

// live runs a task from the start of its container to its end.
func (s *Server) live(ctx context.Context, t *task, terminated context.Context, failToStart string) {
	first := t.definition.ContainerDefinitions[0]
	var before []Container
	container, err := s.container(t, first, terminated)
	for _, d := range first.DependsOn {
		if err != nil {
			break
		}
		i := slices.IndexFunc(t.definition.ContainerDefinitions, func(c types.ContainerDefinition) bool { return *c.Name == *d.ContainerName })
		var c Container
		c, err = s.container(t, t.definition.ContainerDefinitions[i], terminated)
		before = append(before, c)
	}
	switch {
	case terminated.Err() != nil:
		s.end(t, nil, stop{code: types.TaskStopCodeUserInitiated, reason: "Task stopped by user"})
		return
	case failToStart != "":
		s.end(t, nil, stop{code: types.TaskStopCodeTaskFailedToStart, reason: failToStart})
		return
	case err != nil:
		s.end(t, nil, stop{code: types.TaskStopCodeTaskFailedToStart, reason: "ResourceInitializationError: unable to pull secrets or registry auth: " + err.Error()})
		return
	}
	s.mu.Lock()
	s.move(t, "PENDING")
	s.mu.Unlock()
	for _, c := range before {
		code := int32(s.opts.Run(ctx, c))
		s.exited(t, c.Name, code)
		if code != 0 {
			s.end(t, nil, stop{code: types.TaskStopCodeTaskFailedToStart, reason: "dependency failed to start"})
			return
		}
	}
	s.mu.Lock()
	t.now.StartedAt = aws.Time(s.opts.Now())
	s.move(t, "RUNNING")
	s.mu.Unlock()
	code := int32(s.opts.Run(ctx, container))
	s.end(t, &code, stop{code: types.TaskStopCodeEssentialContainerExited, reason: "Essential container in task exited"})
}

// exited notes the exit code of a container.
func (s *Server) exited(t *task, name string, code int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.now.Containers = slices.Clone(t.now.Containers)
	for i, c := range t.now.Containers {
		if *c.Name == name {
			t.now.Containers[i].ExitCode = &code
		}
	}
}

// container returns a container of a task, with its environment.
func (s *Server) container(t *task, d types.ContainerDefinition, terminated context.Context) (Container, error) {
	id := (*t.now.TaskArn)[strings.LastIndex(*t.now.TaskArn, "/")+1:]
	c := Container{Name: *d.Name, Task: id, Terminated: terminated, Role: aws.ToString(cmp.Or(t.now.Overrides.TaskRoleArn, t.definition.TaskRoleArn))}
	c.Env = []string{"AWS_REGION=" + Region, "AWS_EXECUTION_ENV=AWS_ECS_FARGATE", "ECS_CONTAINER_METADATA_URI_V4=" + s.URL + "/v4/" + id}
	variables := slices.Clone(d.Environment)
	for _, secret := range d.Secrets {
		if s.opts.Secret == nil {
			return c, fmt.Errorf("unable to retrieve secret %s", *secret.ValueFrom)
		}
		value, err := s.opts.Secret(*secret.ValueFrom)
		if err != nil {
			return c, err
		}
		variables = append(variables, types.KeyValuePair{Name: secret.Name, Value: &value})
	}
	for _, o := range t.now.Overrides.ContainerOverrides {
		if *o.Name == *d.Name {
			variables = append(variables, o.Environment...)
		}
	}
	for _, v := range variables {
		c.Env = append(c.Env, *v.Name+"="+*v.Value)
	}
	return c, nil
}

// end stops a task whose container has ended or never began.
func (s *Server) end(t *task, code *int32, why stop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.stopped != nil {
		why = *t.stopped
	}
	t.now.DesiredStatus, t.now.StopCode, t.now.StoppedReason = aws.String("STOPPED"), why.code, &why.reason
	if t.now.StoppingAt == nil {
		t.now.StoppingAt = aws.Time(s.opts.Now())
	}
	t.now.Containers = slices.Clone(t.now.Containers)
	t.now.Containers[0].ExitCode, t.now.Containers[0].Reason = code, &why.container
	s.move(t, "DEPROVISIONING")
	t.now.StoppedAt = aws.Time(s.opts.Now())
	s.move(t, "STOPPED")
}

// move changes the status of a task and sends the event. The caller holds mu.
func (s *Server) move(t *task, to string) {
	t.now.LastStatus = &to
	t.now.Containers = slices.Clone(t.now.Containers)
	for i := range t.now.Containers {
		t.now.Containers[i].LastStatus = &to
	}
	t.now.Version++
	t.history = append(t.history, state{t.now, s.opts.Now()})
	s.send(event(t.now, s.opts.Now()))
}
