// Package ecs starts runners as ECS tasks.
package ecs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/deployment"
	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
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
	TaskDefinition string // family:revision, or ARN with revision
	Capacity       deployment.Capacity
	Subnets        []string
	SecurityGroups []string // the default group of the VPC if empty
	PublicIP       bool
	Now            func() time.Time
}

var _ reconcile.Launcher = (*Launcher)(nil)

// Start requests an ECS task that executes the launch. The launch's id is the client token: a
// repeated request, after a lost answer or from another process, starts no second task as long as
// ECS remembers the first, up to a day. Package fault classifies its errors.
func (l *Launcher) Start(ctx context.Context, launch state.Launch) error {
	assign := types.AssignPublicIpDisabled
	if l.PublicIP {
		assign = types.AssignPublicIpEnabled
	}
	var strategy []types.CapacityProviderStrategyItem
	for _, p := range l.Capacity {
		strategy = append(strategy, types.CapacityProviderStrategyItem{CapacityProvider: &p.Name, Weight: int32(p.Weight)})
	}
	out, err := l.Client.RunTask(ctx, &awsecs.RunTaskInput{
		Cluster:                  &l.Cluster,
		TaskDefinition:           &l.TaskDefinition,
		ClientToken:              &launch.ID,
		StartedBy:                &launch.ID,
		Count:                    aws.Int32(1),
		CapacityProviderStrategy: strategy,
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: l.Subnets, SecurityGroups: l.SecurityGroups, AssignPublicIp: assign,
		}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
			Name:        aws.String(ecstask.Container),
			Environment: []types.KeyValuePair{{Name: aws.String(ecstask.LaunchVariable), Value: &launch.ID}},
		}}},
		Tags: []types.Tag{
			{Key: aws.String("terrapulse:stack"), Value: &l.Stack},
			{Key: aws.String("terrapulse:launch"), Value: &launch.ID},
		},
	})
	// The launch was requested before with other parameters: the stack was deployed in between.
	if conflict := new(types.ConflictException); errors.As(err, &conflict) && len(conflict.ResourceIds) > 0 {
		return nil
	}
	act := "run a task of " + l.TaskDefinition
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

// Status reports the state of launches in ECS. A launch runs if any of its tasks has
// not stopped; there may be several if ECS has forgotten a client token. A launch
// that was just requested, or that stopped more than an hour ago, may be unknown:
// the lists of ECS lag behind.
//
// It needs one request to list the tasks that should run, and one for every 100 of
// them. Only if a launch is not among them does it also list the tasks that stopped
// in the last hour. (Listing by startedBy would need a request for each launch and
// could not show stopped tasks, because it allows no other filter.)
func (l *Launcher) Status(ctx context.Context, launches []string) (map[string]reconcile.LaunchStatus, error) {
	statuses := map[string]reconcile.LaunchStatus{}
	if len(launches) == 0 {
		return statuses, nil
	}
	stopped := map[string]time.Time{} // when the last task of a launch stopped
	for _, desired := range []types.DesiredStatus{types.DesiredStatusRunning, types.DesiredStatusStopped} {
		missing := func(id string) bool { return !statuses[id].Running }
		if !slices.ContainsFunc(launches, missing) {
			break
		}
		arns, err := l.list(ctx, desired)
		if err != nil {
			return nil, err
		}
		for chunk := range slices.Chunk(arns, describedAtOnce) {
			// Tasks that ECS does not know (yet, or any more) are not in the answer.
			out, err := l.Client.DescribeTasks(ctx, &awsecs.DescribeTasksInput{Cluster: &l.Cluster, Tasks: chunk})
			if err != nil {
				return nil, classify("describe tasks of cluster "+l.Cluster, err)
			}
			for _, task := range out.Tasks {
				l.note(statuses, stopped, task)
			}
		}
	}
	maps.DeleteFunc(statuses, func(id string, _ reconcile.LaunchStatus) bool { return !slices.Contains(launches, id) })
	return statuses, nil
}

// note adds the state of a task to its launch.
func (l *Launcher) note(statuses map[string]reconcile.LaunchStatus, stopped map[string]time.Time, task types.Task) {
	seen := seen(task)
	id := seen.Launch()
	why, at, runner := "", aws.ToTime(task.StoppedAt), seen.ID()
	switch {
	case seen.LastStatus == ecstask.Stopped:
		why = seen.Why()
	case task.StartedAt == nil && task.CreatedAt != nil && l.Now().Sub(*task.CreatedAt) >= startPatience:
		// The task is not stopped first: that would need the right to stop any container, even
		// during an apply. If it starts after all, its claims are refused, because its runs are
		// lost by then. If it starts at this very moment, its claims stay valid: no claim names
		// this task.
		why = fmt.Sprintf("its container has not started within %s (ECS says %s): check the task %s", startPatience, seen.LastStatus, seen.ID())
		at, runner = aws.ToTime(task.CreatedAt), "not started: "+seen.ID()
	default:
		statuses[id] = reconcile.LaunchStatus{Running: true}
		return
	}
	if statuses[id].Running || statuses[id].Stopped != "" && at.Before(stopped[id]) {
		return
	}
	statuses[id], stopped[id] = reconcile.LaunchStatus{Stopped: why, Runner: runner}, at
}

// list returns the ARNs of the tasks of the task definition's family, of all revisions, with a
// desired status.
func (l *Launcher) list(ctx context.Context, desired types.DesiredStatus) ([]string, error) {
	var arns []string
	pages := awsecs.NewListTasksPaginator(l.Client, &awsecs.ListTasksInput{
		Cluster: &l.Cluster, Family: aws.String(ecstask.Family(l.TaskDefinition)), DesiredStatus: desired,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, classify("list the tasks of cluster "+l.Cluster, err)
		}
		arns = append(arns, page.TaskArns...)
	}
	return arns, nil
}

// seen converts a task to the form of an event. Their names differ only in the case of letters,
// which decoding ignores.
func seen(task types.Task) (seen ecstask.Task) {
	text, err := json.Marshal(task)
	if err == nil {
		err = json.Unmarshal(text, &seen)
	}
	if err != nil {
		panic(fmt.Sprintf("decode task %s: %v", aws.ToString(task.TaskArn), err)) // they have the same types
	}
	return seen
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
