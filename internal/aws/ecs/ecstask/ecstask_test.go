package ecstask_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
)

func TestWhy_SaysWhyATaskStopped(t *testing.T) {
	for _, tt := range []struct{ name, task, says string }{
		{"out of memory", `{"stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited",
			"containers":[{"name":"runner","exitCode":137,"reason":"OutOfMemoryError: Container killed due to memory usage"}]}`,
			"ran out of memory"},
		{"out of memory, said of the task", `{"stoppedReason":"OutOfMemoryError: container killed"}`, "ran out of memory"},
		{"no such image", `{"stopCode":"TaskFailedToStart","stoppedReason":"CannotPullContainerError: pull image manifest has been retried 5 time(s): failed to resolve ref registry/runner:1: not found",
			"containers":[{"name":"runner"}]}`, "its image cannot be pulled: check the parameter RunnerImage or TerraformImage"},
		{"too many pulls from ECR Public", `{"stopCode":"TaskFailedToStart","stoppedReason":"CannotPullContainerError: pull image manifest has been retried 5 time(s): failed to copy: httpReadSeeker: failed open: unexpected status code https://public.ecr.aws/v2/hashicorp/terraform/manifests/1.16.4: 429 Too Many Requests - Server message: toomanyrequests: Rate exceeded"}`,
			"refuses so many pulls from one address: keep the image in ECR"},
		{"too many pulls from Docker Hub", `{"stopCode":"TaskFailedToStart","stoppedReason":"CannotPullContainerError: inspect image has been retried 5 time(s): toomanyrequests: You have reached your pull rate limit"}`,
			"pull-through cache for TerraformImage"},
		{"a registry out of reach", `{"stopCode":"TaskFailedToStart","stoppedReason":"ResourceInitializationError: unable to pull secrets or registry auth: execution resource retrieval failed"}`,
			"its secrets, or the registry's credentials, cannot be read"},
		{"a secret that is gone", `{"stopCode":"TaskFailedToStart","stoppedReason":"ResourceInitializationError: unable to pull secrets or registry auth: unable to retrieve secret from asm: access denied"}`,
			"check the ARNs of the parameters for Consul"},
		{"no right to pull", `{"stopCode":"TaskFailedToStart","stoppedReason":"ResourceInitializationError: unable to pull secrets or registry auth: unable to retrieve ecr registry auth: access denied"}`,
			"its image cannot be pulled"},
		{"an image for another processor", `{"stopCode":"TaskFailedToStart","stoppedReason":"CannotPullContainerError: image Manifest does not contain descriptor matching platform 'linux/arm64'"}`,
			"not for this processor"},
		{"a log group that is gone", `{"stopCode":"TaskFailedToStart","stoppedReason":"ResourceInitializationError: failed to validate logger args: The task cannot find the Amazon CloudWatch log group defined in the task definition."}`,
			"its log cannot be written"},
		{"Spot", `{"stopCode":"SpotInterruption","stoppedReason":"Your Spot Task was interrupted.","containers":[{"name":"runner","exitCode":143}]}`,
			"Fargate Spot took its capacity back"},
		{"a person", `{"stopCode":"UserInitiated","stoppedReason":"Task stopped by user","containers":[{"name":"runner","exitCode":0}]}`,
			"somebody stopped its container; ECS says: Task stopped by user"},
		{"a broken host", `{"stopCode":"InfrastructureHealth","stoppedReason":""}`, "AWS took its host out of service"},
		{"a retired host", `{"stoppedReason":"ECS is performing maintenance on the underlying infrastructure hosting the task."}`, "AWS took its host out of service"},
		{"no capacity", `{"stopCode":"TaskFailedToStart","stoppedReason":"Capacity is unavailable at this time. Please try again later or in a different availability zone"}`,
			"there was no capacity for it"},
		{"no address", `{"stopCode":"TaskFailedToStart","stoppedReason":"Unexpected EC2 error while attempting to Create Network Interface in subnet 'subnet-1': InsufficientFreeAddressesInSubnet"}`,
			"its network interface could not be created"},
		{"another processor", `{"stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited","containers":[{"name":"runner","exitCode":255,"reason":"exec /runner: exec format error"}]}`,
			"not for this processor"},
		{"a failed start", `{"stopCode":"TaskFailedToStart","stoppedReason":"CannotStartContainerError: no such file"}`, "could not be started; ECS says: CannotStart"},
		{"an error of the runner", `{"stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited","containers":[{"name":"runner","exitCode":3}]}`,
			"exited with code 3: the runner's log says why"},
		{"a program that cannot be loaded", `{"stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited","containers":[{"name":"runner"},{"name":"install","exitCode":1}]}`,
			"could not load the program from the bucket"},
		{"a program that cannot be loaded, so that nothing started", `{"stopCode":"TaskFailedToStart","stoppedReason":"","containers":[{"name":"runner"},{"name":"install","exitCode":1}]}`,
			"could not load the program from the bucket"},
		{"an error of the runner, after its program was loaded", `{"containers":[{"name":"runner","exitCode":3},{"name":"install","exitCode":0}]}`, "exited with code 3"},
		{"killed", `{"stopCode":"EssentialContainerExited","containers":[{"name":"runner","exitCode":137}]}`, "was killed (exit code 137)"},
		{"stopped", `{"containers":[{"name":"runner","exitCode":143}]}`, "was stopped"},
		{"ended in peace", `{"stopCode":"EssentialContainerExited","containers":[{"name":"runner","exitCode":0}]}`, "exited before the run was finished"},
		{"a reason unheard of", `{"stopCode":"NewCode","stoppedReason":"Something new"}`, "its container stopped; ECS says: Something new"},
		{"nothing said", `{}`, "ECS does not say why"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			task := read(t, tt.task)
			why := task.Why()
			if !strings.Contains(why, tt.says) || !strings.Contains(why, task.StoppedReason) {
				t.Errorf("said %q, want %q with ECS's words", why, tt.says)
			}
		})
	}
}

func TestTask_Launch(t *testing.T) {
	for _, tt := range []struct{ name, task, launch string }{
		{"by its override", `{"startedBy":"someone","overrides":{"containerOverrides":[{"name":"other","environment":[{"name":"TERRAPULSE_LAUNCH","value":"no"}]},
			{"name":"runner","environment":[{"name":"A","value":"b"},{"name":"TERRAPULSE_LAUNCH","value":"l-1"}]}]}}`, "l-1"},
		{"by who started it", `{"startedBy":"l-2","overrides":{"containerOverrides":[{"name":"runner"}]}}`, "l-2"},
		{"not at all", `{}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := read(t, tt.task).Launch(); got != tt.launch {
				t.Errorf("launch %q, want %q", got, tt.launch)
			}
		})
	}
}

func TestTask_PartsOfARNs(t *testing.T) {
	task := ecstask.Task{ARN: "arn:aws:ecs:eu-west-1:111122223333:task/terrapulse/cd189a933e5849daa93386466019ab50"}
	if id := task.ID(); id != "cd189a933e5849daa93386466019ab50" {
		t.Error(id)
	}
	for _, definition := range []string{"arn:aws:ecs:eu-west-1:111122223333:task-definition/prod-runner:7", "prod-runner:7", "prod-runner"} {
		if family := ecstask.Family(definition); family != "prod-runner" {
			t.Errorf("%s: %s", definition, family)
		}
		if revision := ecstask.Revision(definition); !strings.HasSuffix(definition, revision) || strings.Contains(revision, "/") {
			t.Errorf("%s: %s", definition, revision)
		}
	}
}

func read(t *testing.T, text string) ecstask.Task {
	t.Helper()
	var task ecstask.Task
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		t.Fatal(err)
	}
	return task
}
