package ecstest_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

func TestProcess_RunsAsAContainer(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		end          func(s *ecstest.Server, arn string)
		exit         int32
		stop         types.TaskStopCode
	}{
		{"that ends by itself", `echo up; exit 7`, nil, 7, types.TaskStopCodeEssentialContainerExited},
		{"that is told to end", `trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done`, (*ecstest.Server).Interrupt, 5, types.TaskStopCodeSpotInterruption},
		{"that is killed", `trap '' TERM; echo up; while :; do sleep 0.01; done`, func(s *ecstest.Server, arn string) { s.Kill(arn, "") }, 137, types.TaskStopCodeEssentialContainerExited},
		{"that does not end when it is told to", `trap '' TERM; echo up; while :; do sleep 0.01; done`, (*ecstest.Server).Interrupt, 137, types.TaskStopCodeSpotInterruption},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out testtools.Output
			definition := types.TaskDefinition{Family: aws.String("f"), ContainerDefinitions: []types.ContainerDefinition{{Name: aws.String("runner"), StopTimeout: aws.Int32(1)}}}
			s := ecstest.Start(t, ecstest.Options{TaskDefinition: definition, Run: ecstest.Process{
				Path: "/bin/sh", Args: []string{"-c", `echo "$TERRAPULSE_LAUNCH"; ` + tt.script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Output: &out}.Run})
			arn := run(t, s, "l-1")
			await(t, "up", func() bool { return strings.Contains(out.String(), "l-1\nup\n") })
			if tt.end != nil {
				tt.end(s, arn)
			}
			await(t, "STOPPED", func() bool { return s.LastStatus(arn) == "STOPPED" })
			got, err := client(s).DescribeTasks(t.Context(), &awsecs.DescribeTasksInput{Cluster: aws.String(s.Cluster()), Tasks: []string{arn}})
			if err != nil || *got.Tasks[0].Containers[0].ExitCode != tt.exit || got.Tasks[0].StopCode != tt.stop {
				t.Errorf("exit code %d, stop code %s (%v)", *got.Tasks[0].Containers[0].ExitCode, got.Tasks[0].StopCode, err)
			}
		})
	}
}

func TestProcess_KillEndsItsChildren(t *testing.T) {
	var out testtools.Output
	s := ecstest.Start(t, ecstest.Options{Run: ecstest.Process{Path: "/bin/bash", Output: &out, Env: []string{"PATH=" + os.Getenv("PATH")},
		Args: []string{"-c", `set -m; sleep 600 & echo "$!"; wait`}}.Run}) // in a group of its own
	arn := run(t, s, "l-1")
	await(t, "a child", func() bool { return strings.Contains(out.String(), "\n") })
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	s.Kill(arn, "")
	await(t, "the child is gone", func() bool { return gone(pid) })
}

// gone reports whether a process has ended; its parent may not have noticed yet.
func gone(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}
