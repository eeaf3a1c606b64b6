// Package ecstask interprets ECS tasks of Terrapulse: which launch a task executes, and why it
// stopped. It needs no ECS client, so that a program that only receives ECS events works without
// one.
package ecstask

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/docs"
)

const (
	// Container is the name of the container in the task definition that executes a launch.
	Container = "runner"

	// LaunchVariable is its environment variable with the id of the launch.
	LaunchVariable = "TERRAPULSE_LAUNCH"

	// FunctionVariable is its environment variable with the name of functions/reconcile, if it
	// lingers. The task definition cannot name that function, which names the task definition.
	FunctionVariable = "TERRAPULSE_RECONCILE_FUNCTION"

	// InstallContainer is the name of the container that loads the program of the other one, if the
	// image does not contain it, and ends before the other one starts.
	InstallContainer = "install"

	// ProgramVariable is its environment variable with the address of the program.
	ProgramVariable = "TERRAPULSE_PROGRAM_URL"
)

// Stopped is the last status of a task. Everything in it has ended.
const Stopped = "STOPPED"

// Task is an ECS task, with the field names of task state change events and of DescribeTasks, except
// for the case of letters, which decoding ignores.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs_task_events.html
type Task struct {
	ARN            string `json:"taskArn"`
	Cluster        string `json:"clusterArn"`
	TaskDefinition string `json:"taskDefinitionArn"`
	StartedBy      string
	LastStatus     string
	StopCode       string
	StoppedReason  string
	Containers     []Ended
	Overrides      struct{ ContainerOverrides []Override }
}

// Ended is a container of a task, and how it ended.
type Ended struct {
	Name     string
	ExitCode *int32 // nil if it never ran
	Reason   string
}

// Override is what a task gives to one of its containers.
type Override struct {
	Name        string
	Environment []Variable
}

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// Launch returns the id of the launch that the task was started for; "" if it is not a task of
// Terrapulse.
func (t Task) Launch() string {
	for _, c := range t.Overrides.ContainerOverrides {
		if c.Name != Container {
			continue
		}
		for _, v := range c.Environment {
			if v.Name == LaunchVariable {
				return v.Value
			}
		}
	}
	return t.StartedBy
}

// ID returns the last part of the task's ARN, which is unique.
func (t Task) ID() string { return t.ARN[strings.LastIndex(t.ARN, "/")+1:] }

// Family returns the family of a task definition, given by its ARN, by family:revision or by its
// family.
func Family(taskDefinition string) string {
	family, _, _ := strings.Cut(Revision(taskDefinition), ":")
	return family
}

// Revision returns family:revision of a task definition, given by its ARN or so.
func Revision(taskDefinition string) string {
	return taskDefinition[strings.LastIndex(taskDefinition, "/")+1:]
}

// Why says why a stopped task stopped, and what to do about it. It includes ECS's own text, which
// changes often.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/stopped-task-error-codes.html
func (t Task) Why() string {
	says := t.StoppedReason
	for _, c := range t.Containers {
		if c.Reason != "" && !strings.Contains(says, c.Reason) {
			says = strings.TrimPrefix(says+", "+c.Reason, ", ")
		}
	}
	why := t.why(strings.ToLower(says))
	if says == "" {
		return why
	}
	return cmp.Or(why, "its container stopped") + "; ECS says: " + says
}

// why returns the meaning of ECS's own text, in lower case, and of the codes.
func (t Task) why(says string) string {
	for _, c := range t.Containers {
		if c.Name == InstallContainer && c.ExitCode != nil && *c.ExitCode != 0 && t.StopCode != "UserInitiated" && t.StopCode != "SpotInterruption" {
			return "its container could not load the program from the bucket: the log of the container " + InstallContainer + " says why; check that the subnets reach S3, and deploy the stack again"
		}
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(says, word) })
	}
	switch {
	case has("outofmemory", "out of memory"):
		return "its container ran out of memory: increase the parameter RunnerSize, or fewer parallel runs by RunnerParallel"
	case t.StopCode == "SpotInterruption", has("spot task was interrupted", "spot interruption"):
		return "Fargate Spot took its capacity back: if that is too often, give FARGATE a share in the parameter Capacity"
	case has("exec format error", "matching platform"):
		return "its image or program is not for this processor: check the parameters RunnerImage, TerraformImage and Architecture"
	case has("toomanyrequests", "too many requests", "pull rate limit"): // of a registry without credentials
		return "its registry refuses so many pulls from one address: keep the image in ECR, by RunnerImage or by a pull-through cache for TerraformImage (" + docs.Page("deploy.md") + ", Many containers at once), or lower MaxContainers"
	case has("cannotpull", "pull image", "pull container", " ecr "):
		return "its image cannot be pulled: check the parameter RunnerImage or TerraformImage, the rights of the execution role, and that the subnets reach the registry"
	case has("secret", "ssm parameter", "getparameter"):
		return "its secrets, or the registry's credentials, cannot be read: check the ARNs of the parameters for Consul, the rights of the execution role, and that the subnets reach Secrets Manager, SSM and the registry"
	case has("logging driver", "logger", "log group", "logs:"):
		return "its log cannot be written: check the log group, the rights of the execution role, and that the subnets reach CloudWatch Logs"
	case has("capacity is unavailable"):
		return "there was no capacity for it: subnets in more availability zones help"
	case has("network interface", "subnet"):
		return "its network interface could not be created: check the subnets, and that they have free addresses"
	case t.StopCode == "UserInitiated":
		return "somebody stopped its container"
	case t.StopCode == "InfrastructureHealth", t.StopCode == "TerminationNotice", has("maintenance", "retire", "host ec2", "underlying"):
		return "AWS took its host out of service"
	case t.StopCode == "TaskFailedToStart":
		return "its container could not be started"
	}
	for _, c := range t.Containers {
		if c.Name == Container && c.ExitCode != nil {
			return exited(*c.ExitCode)
		}
	}
	if t.StopCode == "" && says == "" {
		return "its container stopped, and ECS does not say why"
	}
	return ""
}

// exited returns the meaning of an exit code.
func exited(code int32) string {
	switch code {
	case 0:
		return "its container exited before the run was finished"
	case 137:
		return "its container was killed (exit code 137): it had too little memory, or did not end in time after a stop"
	case 143:
		return "its container was stopped (exit code 143)"
	}
	return fmt.Sprintf("its container exited with code %d: the runner's log says why", code)
}
