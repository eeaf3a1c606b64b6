// Package ecs starts runners as ECS tasks.
package ecs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/fault"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// describedAtOnce is the maximum number of tasks of one DescribeTasks.
	// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_DescribeTasks.html
	describedAtOnce = 100

	// startPatience is how long a task may take to start. Fargate needs about half a minute, and
	// one or two minutes with a large image.
	startPatience = 10 * time.Minute
)

// Launcher starts an ECS task for each launch. It keeps nothing in memory: it reports what ECS
// reports. It is safe for concurrent use.
type Launcher struct {
	Client         *awsecs.Client
	Stack          string // for the tag terrapulse:stack
	Cluster        string // name or ARN
	TaskDefinition string // family:revision, or ARN with revision; with the role of containers that apply
	PlanRole       string // ARN of the role of the other containers
	Capacity       settings.Capacity
	Subnets        []string
	SecurityGroups []string // the default group of the VPC if empty
	PublicIP       bool
	Function       string // functions/reconcile, which containers that linger invoke
	// Program returns an address from which a container loads its program. It is nil if the image
	// contains the program.
	Program func(ctx context.Context) (string, error)
	// MaxPlans limits the containers with plans at a time: runs do not wait for these. 0 is no limit.
	MaxPlans int
	Now      func() time.Time
}

var _ reconcile.Launcher = (*Launcher)(nil)

// Start requests an ECS task that executes the launch. The client token is the launch's id, with the number
// of answers that started nothing: a repeated request, after a lost answer or from another process, starts
// no second task as long as ECS remembers the first, and no request gets the answer of one that started
// nothing. Package fault classifies its errors; that ECS started nothing is reconcile.ErrRefused.
func (l *Launcher) Start(ctx context.Context, launch state.Launch) error {
	token := launch.ID
	if launch.Refused > 0 {
		token += fmt.Sprintf("-%d", launch.Refused)
	}
	in := &awsecs.RunTaskInput{Cluster: &l.Cluster, TaskDefinition: &l.TaskDefinition, ClientToken: &token, StartedBy: &launch.ID, Count: aws.Int32(1),
		Tags:          []types.Tag{{Key: aws.String("terrapulse:stack"), Value: &l.Stack}, {Key: aws.String("terrapulse:launch"), Value: &launch.ID}},
		PropagateTags: types.PropagateTagsTaskDefinition} // with those of the stack
	network := &types.AwsVpcConfiguration{Subnets: l.Subnets, SecurityGroups: l.SecurityGroups, AssignPublicIp: types.AssignPublicIpDisabled}
	if l.PublicIP {
		network.AssignPublicIp = types.AssignPublicIpEnabled
	}
	in.NetworkConfiguration = &types.NetworkConfiguration{AwsvpcConfiguration: network}
	for _, p := range l.Capacity {
		in.CapacityProviderStrategy = append(in.CapacityProviderStrategy, types.CapacityProviderStrategyItem{CapacityProvider: &p.Name, Weight: int32(p.Weight)})
	}
	if launch.Kind == state.KindPlan {
		in.Group = aws.String(planGroup)
	}
	act := "run a task of " + l.TaskDefinition
	variables := []types.KeyValuePair{variable(ecstask.LaunchVariable, launch.ID)}
	if launch.Linger > 0 {
		variables = append(variables, variable(ecstask.FunctionVariable, l.Function))
	}
	overrides := []types.ContainerOverride{{Name: aws.String(ecstask.Container), Environment: variables}}
	if l.Program != nil {
		address, err := l.Program(ctx)
		if err != nil {
			return fault.As(fault.Transient, fmt.Errorf("%s: sign the address of its program: %w; %s", act, err, adviceLater))
		}
		overrides = append(overrides, types.ContainerOverride{Name: aws.String(ecstask.InstallContainer), Environment: []types.KeyValuePair{variable(ecstask.ProgramVariable, address)}})
	}
	in.Overrides = &types.TaskOverride{ContainerOverrides: overrides}
	if !launch.Kind.Applies() {
		in.Overrides.TaskRoleArn = &l.PlanRole
	}
	out, err := l.Client.RunTask(ctx, in)
	if conflict, ok := errors.AsType[*types.ConflictException](err); ok && len(conflict.ResourceIds) > 0 {
		return nil // the launch was requested before: the stack was deployed in between
	}
	switch {
	case err != nil:
		return classify(act, err)
	case len(out.Tasks) > 0:
		return nil
	case len(out.Failures) > 0:
		return refused(act, out.Failures[0])
	}
	return refused(act, types.Failure{})
}

func variable(name, value string) types.KeyValuePair {
	return types.KeyValuePair{Name: &name, Value: &value}
}

// Status reports the state of launches in ECS, and of tasks by their ids: a container
// that lingered has taken the launches of others. A launch runs if any of its tasks has
// not stopped; there may be several if ECS has forgotten a client token. A launch
// that was just requested, or that stopped more than an hour ago, may be unknown:
// the lists of ECS lag behind.
//
// It needs one request to list the tasks that should run, and one for every 100 of
// them. Only if a launch is not among them does it also list the tasks that stopped
// in the last hour. (Listing by startedBy would need a request for each launch and
// could not show stopped tasks, because it allows no other filter.)
func (l *Launcher) Status(ctx context.Context, ids []string) (map[string]reconcile.LaunchStatus, error) {
	statuses := map[string]reconcile.LaunchStatus{}
	if len(ids) == 0 {
		return statuses, nil
	}
	stopped := map[string]time.Time{} // when the last task of a launch stopped
	for _, desired := range []types.DesiredStatus{types.DesiredStatusRunning, types.DesiredStatusStopped} {
		missing := func(id string) bool { return !statuses[id].Running }
		if !slices.ContainsFunc(ids, missing) {
			break
		}
		tasks, err := l.described(ctx, desired)
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			for _, id := range []string{task.Launch(), task.ID()} {
				l.note(statuses, stopped, id, task)
			}
		}
	}
	maps.DeleteFunc(statuses, func(id string, _ reconcile.LaunchStatus) bool { return !slices.Contains(ids, id) })
	return statuses, nil
}

// planGroup is the group of the tasks that make plans.
const planGroup = "terrapulse-plans"

// Admits implements reconcile.Bounded. Each launch needs a container.
func (l *Launcher) Admits(ctx context.Context, _ string, plans int) (launches int, err error) {
	if l.MaxPlans == 0 {
		return plans, nil
	}
	tasks, err := l.described(ctx, types.DesiredStatusRunning)
	if err != nil {
		return 0, err
	}
	free := l.MaxPlans
	for _, task := range tasks {
		if task.group == planGroup {
			free--
		}
	}
	return free, reconcile.Fit(plans, free*reconcile.MaxPlans, fmt.Sprintf(
		"%d containers make plans: try again when some have ended, name fewer tasks, or raise the parameter MaxContainers (%d)", l.MaxPlans-free, l.MaxPlans))
}

// described returns the tasks of the task definition's family with a desired status. Those that ECS does
// not know (yet, or any more) are left out.
func (l *Launcher) described(ctx context.Context, desired types.DesiredStatus) (tasks []task, err error) {
	var arns []string
	pages := awsecs.NewListTasksPaginator(l.Client, &awsecs.ListTasksInput{Cluster: &l.Cluster, Family: aws.String(ecstask.Family(l.TaskDefinition)), DesiredStatus: desired})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, classify("list the tasks of cluster "+l.Cluster, err)
		}
		arns = append(arns, page.TaskArns...)
	}
	for chunk := range slices.Chunk(arns, describedAtOnce) {
		out, err := l.Client.DescribeTasks(ctx, &awsecs.DescribeTasksInput{Cluster: &l.Cluster, Tasks: chunk})
		if err != nil {
			return nil, classify("describe tasks of cluster "+l.Cluster, err)
		}
		tasks = append(tasks, list.Map(out.Tasks, taskOf)...)
	}
	return tasks, nil
}

// task is a task as DescribeTasks shows it. Times that have not come are zero.
type task struct {
	ecstask.Task
	group                       string
	created, started, stoppedAt time.Time
}

func taskOf(t types.Task) task {
	d := task{group: aws.ToString(t.Group), created: aws.ToTime(t.CreatedAt), started: aws.ToTime(t.StartedAt), stoppedAt: aws.ToTime(t.StoppedAt)}
	d.ARN, d.StartedBy, d.LastStatus = aws.ToString(t.TaskArn), aws.ToString(t.StartedBy), aws.ToString(t.LastStatus)
	d.StopCode, d.StoppedReason = string(t.StopCode), aws.ToString(t.StoppedReason)
	for _, c := range t.Containers {
		d.Containers = append(d.Containers, ecstask.Ended{Name: aws.ToString(c.Name), ExitCode: c.ExitCode, Reason: aws.ToString(c.Reason)})
	}
	if t.Overrides == nil {
		return d
	}
	for _, o := range t.Overrides.ContainerOverrides {
		override := ecstask.Override{Name: aws.ToString(o.Name)}
		for _, v := range o.Environment {
			override.Environment = append(override.Environment, ecstask.Variable{Name: aws.ToString(v.Name), Value: aws.ToString(v.Value)})
		}
		d.Overrides.ContainerOverrides = append(d.Overrides.ContainerOverrides, override)
	}
	return d
}

// note adds the state of a task to that of its launch, or of the task itself.
func (l *Launcher) note(statuses map[string]reconcile.LaunchStatus, stopped map[string]time.Time, id string, task task) {
	why, at, runner := "", task.stoppedAt, task.ID()
	switch {
	case task.LastStatus == ecstask.Stopped:
		why = task.Why()
	case task.started.IsZero() && !task.created.IsZero() && l.Now().Sub(task.created) >= startPatience:
		// The task is not stopped first: that would need the right to stop any container, even
		// during an apply. If it starts after all, its claims are refused, because its runs are
		// lost by then. If it starts at this very moment, its claims stay valid: no claim names
		// this task.
		why = fmt.Sprintf("its container has not started within %s (ECS says %s): check the task %s", startPatience, task.LastStatus, task.ID())
		at, runner = task.created, "not started: "+task.ID()
	default:
		statuses[id] = reconcile.LaunchStatus{Running: true}
		return
	}
	if statuses[id].Running || statuses[id].Stopped != "" && at.Before(stopped[id]) {
		return
	}
	statuses[id], stopped[id] = reconcile.LaunchStatus{Stopped: why, Runner: runner}, at
}

// Check reports the task definition and the cluster, or what is wrong with them.
func (l *Launcher) Check(ctx context.Context) (found string, err error) {
	definition, err := l.Client.DescribeTaskDefinition(ctx, &awsecs.DescribeTaskDefinitionInput{TaskDefinition: &l.TaskDefinition})
	if err != nil {
		return "", classify("describe task definition "+l.TaskDefinition, err)
	}
	clusters, err := l.Client.DescribeClusters(ctx, &awsecs.DescribeClustersInput{Clusters: []string{l.Cluster}})
	if err != nil {
		return "", classify("describe cluster "+l.Cluster, err)
	}
	if len(clusters.Clusters) == 0 || aws.ToString(clusters.Clusters[0].Status) != "ACTIVE" {
		return "", fmt.Errorf("cluster %s does not exist or is not active", l.Cluster)
	}
	for _, p := range l.Capacity {
		if !slices.Contains(clusters.Clusters[0].CapacityProviders, p.Name) {
			return "", fmt.Errorf("cluster %s has no capacity provider %s", l.Cluster, p.Name)
		}
	}
	for _, c := range definition.TaskDefinition.ContainerDefinitions {
		if aws.ToString(c.Name) == ecstask.Container {
			return "image " + aws.ToString(c.Image), nil
		}
	}
	return "", fmt.Errorf("task definition %s has no container %s", l.TaskDefinition, ecstask.Container)
}
