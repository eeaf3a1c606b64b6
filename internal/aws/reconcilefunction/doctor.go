package reconcilefunction

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/invoke"
	"github.com/terrapulse/terrapulse/internal/aws/invoke/doctor"
	"github.com/terrapulse/terrapulse/internal/base/buildinfo"
	"github.com/terrapulse/terrapulse/internal/base/docs"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver/remotes"
	"github.com/terrapulse/terrapulse/internal/engine/inforce"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// checkLimit limits one check: a security group that blocks everything causes a timeout.
const checkLimit = 10 * time.Second

// examine runs all checks in parallel.
func (i *invocation) examine(ctx context.Context) invoke.Answer {
	i.bundles.Forget()
	_, bundleErr := i.prepare(ctx) // once, for all checks that need it
	checks := append([]doctor.Check{
		{Name: "bundle", Look: func(context.Context) (string, error) { return i.checkBundle(bundleErr) }, Fix: "push one with `terrapulse bundle push`, or put right what is wrong with the one that was pushed"},
		{Name: "consul", Look: i.checkConsul, Fix: "see whether the function's subnets and security groups let it reach Consul, and whether ConsulAddress and consul_token in the stack's secret are right"},
		{Name: "consul rights", Look: i.checkRights, Fix: "store consul_token in the stack's secret, and give that token service:read and node:read, and key:read for the keys that tasks watch: " + docs.Page("acl.md")},
		{Name: "paused", Look: i.checkPaused, Fix: "deploy the stack again, or restore the table: see " + docs.Page("operate-aws.md")},
		{Name: "tasks", Look: i.checkTasks, Fix: "see `terrapulse status` for what each of them needs, and `terrapulse logs TASK`"},
	}, i.checks...)
	if bundleErr == nil {
		if k := remotes.Of(i.engine.current.Config); k != nil {
			reach := func(ctx context.Context) (string, error) {
				return i.executor.drivers[k].Reach(ctx, i.engine.current.Config)
			}
			checks = append(checks, doctor.Check{Name: strings.ToLower(k.System), Look: reach, Fix: k.FixInAWS})
		}
	}
	answer := invoke.Answer{Mode: invoke.Doctor, Checks: doctor.Run(ctx, checkLimit, checks), Version: buildinfo.Version}
	if bundleErr == nil {
		answer.Bundle = i.engine.current.Digest
		effective, err := i.effective(ctx) // whether the table can be read is a separate check
		if err == nil && len(enabled(effective.Config)) > 0 {
			answer.Enabled = enabled(effective.Config)[0]
		}
	}
	return answer
}

func (i *invocation) checkBundle(err error) (string, error) {
	if err != nil {
		return "", err
	}
	if problem := i.bundles.Problem; problem != "" {
		return "", fmt.Errorf("bundle %.12s stays in force: %s", i.engine.current.Digest, problem)
	}
	if r := i.engine.current.Refused; r != nil {
		return "", fmt.Errorf("bundle %.12s is refused, and %.12s still in force: %s", r.Bundle, i.engine.current.Digest, r.Error)
	}
	found := fmt.Sprintf("%.12s with %s", i.engine.current.Digest, counted(len(i.engine.current.Config.Tasks), "task"))
	if last := i.engine.current.Config.LastMayGo(); last != "" {
		found += "; " + last
	}
	return found, nil
}

// checkPaused says whether tasks run, or who has paused them.
func (i *invocation) checkPaused(ctx context.Context) (string, error) {
	rec, err := state.ReadReconcile(ctx, i.store)
	until := ": nothing is applied until `terrapulse resume -stack=" + i.engine.common.Stack + "`"
	switch {
	case err != nil:
		return "", err
	case rec.Data.Paused != nil:
		return rec.Data.Paused.String() + until, nil
	case i.engine.common.BeginsPaused && rec.Data.Undecided():
		return "the next tick pauses the new deployment" + until, nil
	}
	return "no", nil
}

// checkTasks counts the tasks in each phase, and fails if there is one that needs a
// person.
func (i *invocation) checkTasks(ctx context.Context) (string, error) {
	effective, err := i.effective(ctx)
	if err != nil {
		return "", err
	}
	names, err := overview.Reader{Store: i.store, Now: i.now}.Phases(ctx, effective)
	if err != nil {
		return "", err
	}
	return lifecycle.Summary(names)
}

func (i *invocation) checkConsul(ctx context.Context) (string, error) {
	if i.engine.current == nil {
		return "", inforce.ErrNone
	}
	return "answers, and has a leader", i.engine.client.Leader(ctx)
}

// checkRights reads every view of the configuration once.
func (i *invocation) checkRights(ctx context.Context) (string, error) {
	if i.engine.current == nil {
		return "", inforce.ErrNone
	}
	client, cfg := i.engine.client, i.engine.current.Config
	var queries []consul.Query
	for n := range cfg.Tasks {
		if q, ok := consul.ConditionQuery(&cfg.Tasks[n]); ok && cfg.Tasks[n].Enabled {
			queries = append(queries, q)
		}
	}
	if _, err := client.Poll(ctx, consul.PollGates(queries)); err != nil {
		return "", err
	}
	partial := ""
	for n, answer := range client.Observe(ctx, queries) {
		err := answer.Err
		if err == nil {
			err = answer.Visibility.Confirm(ctx, nil)
		}
		if err != nil {
			return "", fmt.Errorf("condition %d of %d: %w", n+1, len(queries), err)
		}
		if hidden := answer.Visibility.Hidden(); hidden != "" {
			partial = "; " + hidden
		}
	}
	return fmt.Sprintf("%s can be read%s", counted(len(queries), "condition"), partial), nil
}

// counted is a number with its noun.
func counted(n int, noun string) string { return fmt.Sprintf("%d %s", n, state.Plural(n, noun)) }
