package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// Examine checks the deployment from outside and, through its function, from
// inside. With a container it also plans a task: the named one or, if task is "",
// the first enabled one.
func (s *Stack) Examine(ctx context.Context, task string, container bool) []invoke.Check {
	checks := []invoke.Check{
		{Name: "stack", OK: true, Found: fmt.Sprintf("%s in %s", s.Name, s.Region)},
	}
	checks = append(checks, doctor.Run(ctx, checkLimit, s.outside())...)
	answer, err := s.Invoke(ctx, invoke.Request{Mode: invoke.Doctor})
	if err != nil {
		return append(checks, invoke.Check{Name: "function", Found: err.Error(),
			Fix: "read its log; with subnets of its own it needs a route to DynamoDB, S3, ECS and Consul: see infra/network.yaml"})
	}
	checks = append(checks, invoke.Check{Name: "function", OK: true, Found: "answers"})
	checks = append(checks, answer.Checks...)
	found := versions{command: buildinfo.Version, functions: answer.Version, template: s.outputs["Version"]}
	if container {
		check, planned := s.container(ctx, cmp.Or(task, answer.Enabled))
		checks, found.container = append(checks, check), planned.Version
		if check.OK && planned.Remote == nil {
			checks = append(checks, doctor.Run(ctx, settleLimit, s.ended(planned))...)
		}
	}
	return append(checks, found.compare())
}

// container plans one task in a container or, if the function itself carries out the runs, in another
// system. It returns its run.
func (s *Stack) container(ctx context.Context, task string) (invoke.Check, state.Run) {
	var planned state.Run
	check := invoke.Check{Name: "container", Fix: "the reason why the container ended says what is wrong: the image, its subnets and security groups, its secrets, or the task itself; " +
		"`terrapulse logs` prints Terraform's output"}
	fail := func(err error) (invoke.Check, state.Run) {
		check.Found = err.Error()
		return check, planned
	}
	if task == "" {
		check.Fix = "push a bundle, enable a task, or name one with -task; -quick starts no container"
		return fail(errors.New("no enabled task was found to plan"))
	}
	store, err := s.Store(ctx)
	if err != nil {
		return fail(fmt.Errorf("open the stack's store: %w", err))
	}
	defer store.Close()
	req := invoke.Request{Mode: invoke.Inspect, Tasks: []string{task}}
	invoked := time.Now()
	answer, err := s.Invoke(ctx, req)
	if err != nil {
		return fail(err)
	}
	outcomes, err := Follow(ctx, store, invoked, answer, req.Tasks, func(state.Run) {})
	if err != nil {
		return fail(err)
	}
	for _, o := range outcomes {
		if o.Run == nil {
			return fail(errors.New("no container was requested"))
		}
		planned = *o.Run
		if planned.State != state.RunSucceeded {
			return fail(fmt.Errorf("the plan of task %s %s: %s", o.Task, o.Run.State, o.Run.Error))
		}
		if s.outputs["LogsUrl"] != "" && planned.Output.URL == "" {
			check.Fix = "read the log of the container: it may not write the output of runs into the bucket"
			return fail(fmt.Errorf("the output of the plan of task %s is not in the bucket", o.Task))
		}
		check.Found = fmt.Sprintf("planned task %s, %s after the request", o.Task, o.Run.Ended.Sub(o.Run.Created).Round(time.Second))
	}
	check.OK, check.Fix = true, ""
	if planned.Remote != nil {
		check.Name = "plan"
	}
	return check, planned
}
