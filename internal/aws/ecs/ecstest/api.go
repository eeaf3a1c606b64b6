package ecstest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/schemas"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/aws/smithy-go"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
)

// refuse returns an error of ECS.
func refuse(code, format string, args ...any) error {
	return &smithy.GenericAPIError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	attempt := r.Header.Get("Amz-Sdk-Request")
	answer, fault, err := s.answer(operation, body, attempt == "" || strings.HasPrefix(attempt, "attempt=1;"))
	if fault.Lose {
		panic(http.ErrAbortHandler) // break the connection
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	var refusal smithy.APIError
	if errors.As(err, &refusal) {
		text := map[string]any{"__type": refusal.ErrorCode(), "message": refusal.ErrorMessage()}
		if conflict, ok := errors.AsType[*types.ConflictException](err); ok {
			text["resourceIds"] = conflict.ResourceIds
		}
		answer, _ = json.Marshal(text)
		w.WriteHeader(max(fault.Status, http.StatusBadRequest))
	}
	w.Write(answer)
}

func (s *Server) answer(operation string, body []byte, first bool) (answer []byte, fault Fault, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.requests[operation]++
	}
	fault = s.fault(operation)
	if fault.Code != "" {
		return nil, fault, refuse(fault.Code, "%s", fault.Message)
	}
	switch operation {
	case "RunTask":
		answer, err = handle(body, func(in *awsecs.RunTaskInput) (smithy.Serializable, error) { return s.runTask(in, fault) })
	case "ListTasks":
		answer, err = handle(body, s.listTasks)
	case "DescribeTasks":
		answer, err = handle(body, s.describeTasks)
	case "StopTask":
		answer, err = handle(body, s.stopTask)
	case "DescribeTaskDefinition":
		answer, err = handle(body, s.describeTaskDefinition)
	case "DescribeClusters":
		answer, err = handle(body, s.describeClusters)
	default:
		err = refuse("UnknownOperationException", "the simulation does not support %q", operation)
	}
	return answer, fault, err
}

// handle decodes a request and encodes its answer. The fields of the SDK's inputs have the names of
// the wire format, except for the case of letters, which decoding ignores.
func handle[T any](body []byte, do func(*T) (smithy.Serializable, error)) ([]byte, error) {
	var request T
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, refuse("SerializationException", "%v", err)
	}
	answer, err := do(&request)
	if err != nil {
		return nil, err
	}
	return wire(answer), nil
}

var (
	protocol  = awsjson.New11(schemas.AmazonEC2ContainerServiceV20141113)
	operation = smithy.NewOperationSchema(schemas.RunTask, schemas.RunTaskRequest, schemas.RunTaskResponse)
)

// wire encodes a value of the SDK in the wire format. The SDK encodes requests only, but of any
// type.
func wire(v smithy.Serializable) []byte {
	request := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	if err := protocol.SerializeRequest(context.Background(), operation, v, request); err != nil {
		panic(err)
	}
	text, err := io.ReadAll(request.GetStream())
	if err != nil {
		panic(err)
	}
	return text
}

var (
	tokenForm     = regexp.MustCompile(`^[!-~]{1,64}$`)
	startedByForm = regexp.MustCompile(`^[A-Za-z0-9/_-]{0,128}$`)
	roleForm      = regexp.MustCompile(`^arn:[a-z-]+:iam::[0-9]{12}:role/.+$`)
)

func (s *Server) runTask(in *awsecs.RunTaskInput, fault Fault) (smithy.Serializable, error) {
	if err := s.cluster(in.Cluster); err != nil {
		return nil, err
	}
	d := s.definition(in.TaskDefinition)
	if d == nil {
		return nil, refuse("ClientException", "TaskDefinition not found.")
	}
	if err := check(in, d); err != nil {
		return nil, err
	}
	name := *in.ClientToken
	in.ClientToken = nil
	request, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	known, ok := s.tokens[name]
	switch valid := ok && known.valid(s.opts.Now()); {
	case valid && known.request != string(request):
		conflict := &types.ConflictException{Message: aws.String("A previous request with the same client token had other parameters.")}
		if known.task != nil {
			conflict.ResourceIds = []string{*known.task.now.TaskArn}
		}
		return nil, conflict
	case valid && known.task != nil:
		return &awsecs.RunTaskOutput{Tasks: []types.Task{known.task.now}}, nil
	case valid:
		return &awsecs.RunTaskOutput{Failures: []types.Failure{{Reason: &known.failure}}}, nil
	case fault.Failure != "":
		s.tokens[name] = token{request: string(request), failure: fault.Failure, at: s.opts.Now()}
		return &awsecs.RunTaskOutput{Failures: []types.Failure{{Reason: &fault.Failure}}}, nil
	}
	t := s.begin(in, d, fault.FailToStart)
	s.tokens[name] = token{request: string(request), task: t, at: s.opts.Now()}
	return &awsecs.RunTaskOutput{Tasks: []types.Task{t.now}}, nil
}

// valid reports whether ECS still knows a client token: as long as the task and an hour. That of a request
// that started nothing counts, too.
func (k token) valid(now time.Time) bool {
	switch {
	case k.task == nil:
		return now.Sub(k.at) < tokenMemory
	case k.task.now.StoppedAt != nil:
		return now.Sub(*k.task.now.StoppedAt) < stoppedMemory
	}
	return true
}

// check refuses what ECS refuses.
func check(in *awsecs.RunTaskInput, d *types.TaskDefinition) error {
	overrides, err := json.Marshal(in.Overrides)
	network := in.NetworkConfiguration
	switch {
	case err != nil:
		return err
	case !tokenForm.MatchString(aws.ToString(in.ClientToken)):
		return refuse("InvalidParameterException", "clientToken must be 1 to 64 printable ASCII characters.")
	case !startedByForm.MatchString(aws.ToString(in.StartedBy)):
		return refuse("InvalidParameterException", "Invalid startedBy.")
	case in.Overrides.TaskRoleArn != nil && !roleForm.MatchString(*in.Overrides.TaskRoleArn):
		return refuse("ClientException", "Role is not valid")
	case len(overrides) > 8192:
		return refuse("InvalidParameterException", "Container Overrides length must be at most 8192")
	case in.LaunchType != "" && len(in.CapacityProviderStrategy) > 0:
		return refuse("InvalidParameterException", "Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.")
	case network == nil || network.AwsvpcConfiguration == nil || len(network.AwsvpcConfiguration.Subnets) == 0:
		return refuse("InvalidParameterException", "Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	}
	for _, p := range in.CapacityProviderStrategy {
		if !slices.Contains(capacityProviders, *p.CapacityProvider) {
			return refuse("InvalidParameterException", "The specified capacity provider %s was not found.", *p.CapacityProvider)
		}
	}
	for _, o := range in.Overrides.ContainerOverrides {
		if !slices.ContainsFunc(d.ContainerDefinitions, func(c types.ContainerDefinition) bool { return *c.Name == *o.Name }) {
			return refuse("InvalidParameterException", "Override for container named %s is not a container in the TaskDefinition.", *o.Name)
		}
	}
	return nil
}

// cluster refuses every name but that of the only cluster.
func (s *Server) cluster(name *string) error {
	if *name != clusterName && *name != s.Cluster() {
		return refuse("ClusterNotFoundException", "Cluster not found.")
	}
	return nil
}

// definition finds a task definition by its ARN, by family:revision, or the latest revision of a
// family. It returns nil if there is none.
func (s *Server) definition(wanted *string) *types.TaskDefinition {
	name := (*wanted)[strings.LastIndex(*wanted, "/")+1:]
	for _, d := range slices.Backward(s.definitions) {
		if name == *d.Family || strings.HasSuffix(*d.TaskDefinitionArn, "/"+name) {
			return d
		}
	}
	return nil
}

// seen returns a task as it was before a lag, if it existed then and is still listed.
func (s *Server) seen(t *task, lag time.Duration) (types.Task, bool) {
	now := s.opts.Now()
	for _, st := range slices.Backward(t.history) {
		if !st.updated.After(now.Add(-lag)) {
			return st.task, st.task.StoppedAt == nil || now.Sub(*st.task.StoppedAt) < stoppedMemory
		}
	}
	return types.Task{}, false
}

func (s *Server) listTasks(in *awsecs.ListTasksInput) (smithy.Serializable, error) {
	if err := s.cluster(in.Cluster); err != nil {
		return nil, err
	}
	if in.StartedBy != nil && (in.Family != nil || in.DesiredStatus != "") {
		return nil, refuse("InvalidParameterException", "startedBy must be the only filter.")
	}
	var arns []string
	for _, t := range s.tasks {
		st, known := s.seen(t, s.lagOfList)
		if known && aws.ToString(st.DesiredStatus) == cmp.Or(string(in.DesiredStatus), "RUNNING") && (in.Family == nil || *in.Family == *t.definition.Family) &&
			(in.StartedBy == nil || *in.StartedBy == aws.ToString(st.StartedBy)) {
			arns = append(arns, *st.TaskArn)
		}
	}
	from, _ := strconv.Atoi(aws.ToString(in.NextToken))
	from = min(from, len(arns))
	to := min(from+100, len(arns))
	out := &awsecs.ListTasksOutput{TaskArns: arns[from:to]}
	if to < len(arns) {
		out.NextToken = aws.String(strconv.Itoa(to))
	}
	return out, nil
}

func (s *Server) describeTasks(in *awsecs.DescribeTasksInput) (smithy.Serializable, error) {
	if err := s.cluster(in.Cluster); err != nil {
		return nil, err
	}
	if n := len(in.Tasks); n == 0 || n > 100 {
		return nil, refuse("InvalidParameterException", "Tasks must be 1 to 100.")
	}
	out := &awsecs.DescribeTasksOutput{}
	for _, arn := range in.Tasks {
		if t := s.find(arn); t != nil {
			if st, known := s.seen(t, s.lagOfDescribe); known {
				out.Tasks = append(out.Tasks, st)
				continue
			}
		}
		out.Failures = append(out.Failures, missing(arn))
	}
	return out, nil
}

func (s *Server) stopTask(in *awsecs.StopTaskInput) (smithy.Serializable, error) {
	if err := s.cluster(in.Cluster); err != nil {
		return nil, err
	}
	for _, t := range s.tasks {
		if id := *t.now.TaskArn; id == *in.Task || strings.HasSuffix(id, "/"+*in.Task) {
			if t.stopped == nil && *t.now.LastStatus != "STOPPED" {
				s.terminate(t, &stop{code: types.TaskStopCodeUserInitiated, reason: cmp.Or(aws.ToString(in.Reason), "Task stopped by user")})
			}
			return &awsecs.StopTaskOutput{Task: &t.now}, nil
		}
	}
	return nil, refuse("InvalidParameterException", "The referenced task was not found.")
}

func missing(arn string) types.Failure {
	return types.Failure{Arn: &arn, Reason: aws.String("MISSING")}
}

func (s *Server) describeTaskDefinition(in *awsecs.DescribeTaskDefinitionInput) (smithy.Serializable, error) {
	d := s.definition(in.TaskDefinition)
	if d == nil {
		return nil, refuse("ClientException", "Unable to describe task definition.")
	}
	return &awsecs.DescribeTaskDefinitionOutput{TaskDefinition: d}, nil
}

func (s *Server) describeClusters(in *awsecs.DescribeClustersInput) (smithy.Serializable, error) {
	out := &awsecs.DescribeClustersOutput{}
	for _, name := range in.Clusters {
		if s.cluster(&name) != nil {
			out.Failures = append(out.Failures, missing(name))
			continue
		}
		out.Clusters = append(out.Clusters, types.Cluster{ClusterArn: aws.String(s.Cluster()), ClusterName: aws.String(clusterName),
			Status: aws.String("ACTIVE"), CapacityProviders: capacityProviders})
	}
	return out, nil
}

// metadata answers a container's request for its own task.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate.html
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(r.PathValue("id"))
	if t == nil {
		http.NotFound(w, r)
		return
	}
	family, revision, _ := strings.Cut(ecstask.Revision(*t.now.TaskDefinitionArn), ":")
	json.NewEncoder(w).Encode(map[string]any{"TaskARN": *t.now.TaskArn, "Family": family, "Revision": revision})
}
