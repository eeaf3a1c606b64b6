package ecs

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/base/awsjson"
)

// The inputs and outputs of the operations of ECS, with the fields that are used. The SDK's client
// of ECS would make the function 0.9 MB larger.
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/API_Operations.html

type runTaskInput struct {
	Cluster                  string             `json:"cluster"`
	TaskDefinition           string             `json:"taskDefinition"`
	ClientToken              string             `json:"clientToken"`
	StartedBy                string             `json:"startedBy"`
	Group                    string             `json:"group,omitempty"`
	Count                    int                `json:"count"`
	CapacityProviderStrategy []capacityProvider `json:"capacityProviderStrategy,omitempty"`
	NetworkConfiguration     struct {
		VPC vpc `json:"awsvpcConfiguration"`
	} `json:"networkConfiguration"`
	Overrides struct {
		Containers []containerOverride `json:"containerOverrides"`
	} `json:"overrides"`
	Tags []tag `json:"tags"`
}

type capacityProvider struct {
	Name   string `json:"capacityProvider"`
	Weight int    `json:"weight"`
}

type vpc struct {
	Subnets        []string `json:"subnets"`
	SecurityGroups []string `json:"securityGroups,omitempty"`
	AssignPublicIP string   `json:"assignPublicIp"` // ENABLED or DISABLED
}

type containerOverride struct {
	Name        string     `json:"name"`
	Environment []variable `json:"environment"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type runTaskOutput struct {
	Tasks    []task
	Failures []failure
}

type task struct {
	ecstask.Task
	Group                           string
	CreatedAt, StartedAt, StoppedAt seconds
}

type failure struct{ Reason, Detail string }

type listTasksInput struct {
	Cluster       string `json:"cluster"`
	Family        string `json:"family"`
	DesiredStatus string `json:"desiredStatus"`
	NextToken     string `json:"nextToken,omitempty"`
}

type listTasksOutput struct {
	TaskARNs  []string `json:"taskArns"`
	NextToken string
}

type describeTasksInput struct {
	Cluster string   `json:"cluster"`
	Tasks   []string `json:"tasks"`
}

type describeTasksOutput struct{ Tasks []task }

type describeTaskDefinitionInput struct {
	TaskDefinition string `json:"taskDefinition"`
}

type describeTaskDefinitionOutput struct {
	TaskDefinition struct {
		ContainerDefinitions []struct{ Name, Image string }
	}
}

type describeClustersInput struct {
	Clusters []string `json:"clusters"`
}

type describeClustersOutput struct {
	Clusters []struct {
		Status            string
		CapacityProviders []string
	}
}

// seconds is a time as ECS writes it, in seconds since 1970; 0 if it has not come.
type seconds float64

func (s seconds) time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(s * 1e6))
}

// isConflict reports whether ECS refuses a client token because a task was started with it before,
// with other parameters.
func isConflict(err error) bool {
	var refusal *awsjson.Refusal
	var conflict struct{ ResourceIDs []string }
	return errors.As(err, &refusal) && refusal.Code == "ConflictException" &&
		json.Unmarshal(refusal.Answer, &conflict) == nil && len(conflict.ResourceIDs) > 0
}
