package ecstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
)

// target precedes the operation in the header X-Amz-Target.
const target = "AmazonEC2ContainerServiceV20141113."

// apiError is an error in the format of ECS.
type apiError struct {
	status  int
	code    string
	message string
	fields  map[string]any
}

func refuse(code, format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, code: code, message: fmt.Sprintf(format, args...)}
}

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v4/") {
		s.metadata(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), target)
	s.mu.Lock()
	if attempt := r.Header.Get("Amz-Sdk-Request"); attempt == "" || strings.HasPrefix(attempt, "attempt=1;") {
		s.requests[operation]++
	}
	fault := s.fault(operation)
	answer, refusal := any(nil), fault.refusal()
	if refusal == nil {
		answer, refusal = s.answer(operation, body, fault)
	}
	s.mu.Unlock()
	if fault.Lose {
		panic(http.ErrAbortHandler) // break the connection
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if refusal != nil {
		text := map[string]any{"__type": refusal.code, "message": refusal.message}
		for name, value := range refusal.fields {
			text[name] = value
		}
		w.WriteHeader(refusal.status)
		json.NewEncoder(w).Encode(text)
		return
	}
	json.NewEncoder(w).Encode(answer)
}

func (s *Server) answer(operation string, body []byte, fault Fault) (any, *apiError) {
	switch operation {
	case "RunTask":
		return handle(body, func(r runTask) (any, *apiError) { return s.runTask(r, fault) })
	case "ListTasks":
		return handle(body, s.listTasks)
	case "DescribeTasks":
		return handle(body, s.describeTasks)
	case "StopTask":
		return handle(body, s.stopTask)
	case "DescribeTaskDefinition":
		return handle(body, s.describeTaskDefinition)
	case "DescribeClusters":
		return handle(body, s.describeClusters)
	}
	return nil, refuse("UnknownOperationException", "the stand-in knows no %q", operation)
}

// handle decodes a request, and refuses fields that the simulation does not support.
func handle[T any](body []byte, do func(T) (any, *apiError)) (any, *apiError) {
	var request T
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&request); err != nil {
		return nil, refuse("SerializationException", "%v", err)
	}
	return do(request)
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// runTask is the request of RunTask.
type runTask struct {
	Cluster                  string            `json:"cluster"`
	TaskDefinition           string            `json:"taskDefinition"`
	ClientToken              string            `json:"clientToken"`
	StartedBy                string            `json:"startedBy"`
	Count                    *int              `json:"count"`
	LaunchType               string            `json:"launchType"`
	Overrides                ecstask.Overrides `json:"overrides"`
	Tags                     []tag             `json:"tags"`
	EnableECSManagedTags     bool              `json:"enableECSManagedTags"`
	EnableExecuteCommand     bool              `json:"enableExecuteCommand"`
	CapacityProviderStrategy []struct {
		CapacityProvider string `json:"capacityProvider"`
		Weight           int    `json:"weight"`
		Base             int    `json:"base"`
	} `json:"capacityProviderStrategy"`
	NetworkConfiguration *struct {
		AwsvpcConfiguration struct {
			Subnets        []string `json:"subnets"`
			SecurityGroups []string `json:"securityGroups"`
			AssignPublicIP string   `json:"assignPublicIp"`
		} `json:"awsvpcConfiguration"`
	} `json:"networkConfiguration"`
}

var (
	tokenForm     = regexp.MustCompile(`^[!-~]{1,64}$`)
	startedByForm = regexp.MustCompile(`^[A-Za-z0-9/_-]{0,128}$`)
)

func (s *Server) runTask(r runTask, fault Fault) (any, *apiError) {
	if refusal := s.cluster(r.Cluster); refusal != nil {
		return nil, refusal
	}
	d, ok := s.definition(r.TaskDefinition)
	if !ok {
		return nil, refuse("ClientException", "TaskDefinition not found.")
	}
	if refusal := r.check(d); refusal != nil {
		return nil, refusal
	}
	var known token
	if r.ClientToken != "" {
		known = s.tokens[r.ClientToken]
		if s.opts.Now().Sub(known.at) >= tokenMemory {
			known = token{}
		}
	}
	asked := r
	asked.ClientToken = ""
	text, _ := json.Marshal(asked)
	if known.task != nil {
		if known.request != string(text) {
			refusal := refuse("ConflictException", "A previous request with the same client token and other parameters has started tasks.")
			refusal.fields = map[string]any{"resourceIds": []string{known.task.now.ARN}}
			return nil, refusal
		}
		return map[string]any{"tasks": []any{known.task.now.wire()}, "failures": []any{}}, nil
	}
	if fault.Failure != "" {
		return map[string]any{"tasks": []any{}, "failures": []any{map[string]any{"reason": fault.Failure}}}, nil
	}
	t := s.begin(r, d, fault.FailToStart)
	if r.ClientToken != "" {
		s.tokens[r.ClientToken] = token{string(text), t, s.opts.Now()}
	}
	return map[string]any{"tasks": []any{t.now.wire()}, "failures": []any{}}, nil
}

// check refuses what ECS refuses.
func (r runTask) check(d TaskDefinition) *apiError {
	text, _ := json.Marshal(r.Overrides)
	switch {
	case r.ClientToken != "" && !tokenForm.MatchString(r.ClientToken):
		return refuse("InvalidParameterException", "clientToken must be 1 to 64 printable ASCII characters.")
	case !startedByForm.MatchString(r.StartedBy):
		return refuse("InvalidParameterException", "Invalid startedBy.")
	case len(text) > 8192:
		return refuse("InvalidParameterException", "Container Overrides length must be at most 8192")
	case r.LaunchType != "" && len(r.CapacityProviderStrategy) > 0:
		return refuse("InvalidParameterException", "Specifying both a launch type and capacity provider strategy is not supported. Remove one and try again.")
	case r.Count != nil && *r.Count != 1:
		return refuse("InvalidParameterException", "the stand-in starts one task at a time")
	case r.NetworkConfiguration == nil || len(r.NetworkConfiguration.AwsvpcConfiguration.Subnets) == 0:
		return refuse("InvalidParameterException", "Network Configuration must be provided when networkMode 'awsvpc' is specified.")
	case len(r.NetworkConfiguration.AwsvpcConfiguration.Subnets) > 16 || len(r.NetworkConfiguration.AwsvpcConfiguration.SecurityGroups) > 5:
		return refuse("InvalidParameterException", "There is a limit of 16 subnets and 5 security groups.")
	case len(r.Tags) > 50:
		return refuse("InvalidParameterException", "There is a limit of 50 tags.")
	}
	for _, p := range r.CapacityProviderStrategy {
		if p.CapacityProvider != "FARGATE" && p.CapacityProvider != "FARGATE_SPOT" || p.Weight < 0 || p.Weight > 1000 {
			return refuse("InvalidParameterException", "The specified capacity provider %s with weight %d was not found.", p.CapacityProvider, p.Weight)
		}
	}
	for _, o := range r.Overrides.Containers {
		if !slices.ContainsFunc(d.ContainerDefinitions, func(c ContainerDefinition) bool { return c.Name == o.Name }) {
			return refuse("InvalidParameterException", "Override for container named %s is not a container in the TaskDefinition.", o.Name)
		}
	}
	return nil
}

func (s *Server) cluster(name string) *apiError {
	if name != s.opts.Cluster && name != s.Cluster() {
		return refuse("ClusterNotFoundException", "Cluster not found.")
	}
	return nil
}

// definition finds a task definition by its ARN, by family:revision, or the latest revision of a
// family.
func (s *Server) definition(name string) (TaskDefinition, bool) {
	name = name[strings.LastIndex(name, "/")+1:]
	for _, d := range slices.Backward(s.definitions) {
		if name == d.Family || name == d.Family+":"+strconv.Itoa(d.revision) {
			return d, true
		}
	}
	return TaskDefinition{}, false
}

// seen returns a task as it was before the lag, if it existed then.
func (s *Server) seen(t *task) (status, bool) {
	for _, st := range slices.Backward(t.before) {
		if !st.Updated.After(s.opts.Now().Add(-s.lag)) {
			forgotten := !st.Stopped.IsZero() && s.opts.Now().Sub(st.Stopped) >= stoppedMemory
			return st, !forgotten
		}
	}
	return status{}, false
}

type listTasks struct {
	Cluster       string `json:"cluster"`
	Family        string `json:"family"`
	StartedBy     string `json:"startedBy"`
	DesiredStatus string `json:"desiredStatus"`
	MaxResults    int    `json:"maxResults"`
	NextToken     string `json:"nextToken"`
}

func (s *Server) listTasks(r listTasks) (any, *apiError) {
	if refusal := s.cluster(r.Cluster); refusal != nil {
		return nil, refusal
	}
	if r.StartedBy != "" && (r.Family != "" || r.DesiredStatus != "") {
		return nil, refuse("InvalidParameterException", "startedBy must be the only filter.")
	}
	if r.DesiredStatus == "" {
		r.DesiredStatus = "RUNNING"
	}
	if r.MaxResults == 0 || r.MaxResults > 100 {
		r.MaxResults = 100
	}
	arns := []string{}
	for _, t := range s.tasks {
		st, known := s.seen(t)
		if known && st.DesiredStatus == r.DesiredStatus && (r.Family == "" || r.Family == t.definition.Family) &&
			(r.StartedBy == "" || r.StartedBy == st.StartedBy) {
			arns = append(arns, st.ARN)
		}
	}
	from, _ := strconv.Atoi(r.NextToken)
	from = min(from, len(arns))
	to := min(from+r.MaxResults, len(arns))
	answer := map[string]any{"taskArns": arns[from:to]}
	if to < len(arns) {
		answer["nextToken"] = strconv.Itoa(to)
	}
	return answer, nil
}

type describeTasks struct {
	Cluster string   `json:"cluster"`
	Tasks   []string `json:"tasks"`
	Include []string `json:"include"`
}

func (s *Server) describeTasks(r describeTasks) (any, *apiError) {
	if refusal := s.cluster(r.Cluster); refusal != nil {
		return nil, refusal
	}
	if n := len(r.Tasks); n == 0 || n > 100 {
		return nil, refuse("InvalidParameterException", "Tasks must be 1 to 100.")
	}
	tasks, failures := []any{}, []any{}
	for _, arn := range r.Tasks {
		if t := s.find(arn); t != nil {
			if st, known := s.seen(t); known {
				tasks = append(tasks, st.wire())
				continue
			}
		}
		failures = append(failures, map[string]any{"arn": arn, "reason": "MISSING"})
	}
	return map[string]any{"tasks": tasks, "failures": failures}, nil
}

type stopTask struct {
	Cluster string `json:"cluster"`
	Task    string `json:"task"`
	Reason  string `json:"reason"`
}

func (s *Server) stopTask(r stopTask) (any, *apiError) {
	if refusal := s.cluster(r.Cluster); refusal != nil {
		return nil, refusal
	}
	t := s.find(r.Task)
	if t == nil {
		return nil, refuse("InvalidParameterException", "The referenced task was not found.")
	}
	if r.Reason == "" {
		r.Reason = "Task stopped by user"
	}
	s.stop(t, stop{code: "UserInitiated", reason: r.Reason})
	return map[string]any{"task": t.now.wire()}, nil
}

type describeTaskDefinition struct {
	TaskDefinition string   `json:"taskDefinition"`
	Include        []string `json:"include"`
}

func (s *Server) describeTaskDefinition(r describeTaskDefinition) (any, *apiError) {
	d, ok := s.definition(r.TaskDefinition)
	if !ok {
		return nil, refuse("ClientException", "Unable to describe task definition.")
	}
	return map[string]any{"taskDefinition": map[string]any{
		"taskDefinitionArn": d.arn(), "family": d.Family, "revision": d.revision, "status": "ACTIVE",
		"containerDefinitions": d.ContainerDefinitions, "cpu": d.CPU, "memory": d.Memory,
		"networkMode": "awsvpc", "requiresCompatibilities": []string{"FARGATE"},
	}}, nil
}

type describeClusters struct {
	Clusters []string `json:"clusters"`
	Include  []string `json:"include"`
}

func (s *Server) describeClusters(r describeClusters) (any, *apiError) {
	clusters, failures := []any{}, []any{}
	for _, name := range r.Clusters {
		if s.cluster(name) != nil {
			failures = append(failures, map[string]any{"arn": name, "reason": "MISSING"})
			continue
		}
		clusters = append(clusters, map[string]any{"clusterArn": s.Cluster(), "clusterName": s.opts.Cluster, "status": "ACTIVE",
			"capacityProviders": []string{"FARGATE", "FARGATE_SPOT"}})
	}
	return map[string]any{"clusters": clusters, "failures": failures}, nil
}

// metadata answers a container's request for its own task.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate.html
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	id, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v4/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.find(strings.TrimSuffix(id, "-1"))
	if t == nil || path != "task" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"Cluster": s.Cluster(), "TaskARN": t.now.ARN, "Family": t.definition.Family,
		"Revision": strconv.Itoa(t.definition.revision), "DesiredStatus": t.now.DesiredStatus, "KnownStatus": t.now.LastStatus})
}

// status is the state of a task at one time.
type status struct {
	ARN, Cluster, TaskDefinition, StartedBy string
	LastStatus, DesiredStatus               string
	StopCode, StoppedReason                 string
	LaunchType, Capacity, CPU, Memory       string
	Group                                   string
	Overrides                               ecstask.Overrides
	Tags                                    []tag
	Containers                              []containerStatus
	Created, Started, Stopping, Stopped     time.Time
	Updated                                 time.Time
	Version                                 int
}

type containerStatus struct {
	ARN        string `json:"containerArn"`
	Name       string `json:"name"`
	Image      string `json:"image"`
	LastStatus string `json:"lastStatus"`
	ExitCode   *int   `json:"exitCode,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// fields are the fields that the API and an event have in common.
func (s status) fields(at func(time.Time) any) map[string]any {
	all := map[string]any{
		"taskArn": s.ARN, "clusterArn": s.Cluster, "taskDefinitionArn": s.TaskDefinition, "lastStatus": s.LastStatus,
		"desiredStatus": s.DesiredStatus, "launchType": s.LaunchType, "capacityProviderName": s.Capacity, "cpu": s.CPU, "memory": s.Memory,
		"group": s.Group, "overrides": s.Overrides, "containers": s.Containers, "version": s.Version, "connectivity": "CONNECTED",
		"availabilityZone": Region + "a", "platformVersion": "1.4.0", "attachments": []any{}, "enableExecuteCommand": false,
	}
	for name, text := range map[string]string{"startedBy": s.StartedBy, "stopCode": s.StopCode, "stoppedReason": s.StoppedReason} {
		if text != "" {
			all[name] = text
		}
	}
	for name, t := range map[string]time.Time{"createdAt": s.Created, "startedAt": s.Started, "stoppingAt": s.Stopping, "stoppedAt": s.Stopped} {
		if !t.IsZero() {
			all[name] = at(t)
		}
	}
	return all
}

// wire returns the task in the format of the API.
func (s status) wire() map[string]any {
	all := s.fields(func(t time.Time) any { return float64(t.UnixMilli()) / 1000 })
	all["tags"] = s.Tags
	return all
}
