package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
)

// A condition triggers its task; module inputs do not, so a tick does not read them.
// There are two exceptions: if Consul was replaced, they may have lost entries, too;
// and a run that is held because they have lost entries ends when those are back.

// readsModules reports whether the tick also reads the module inputs of a task.
func (t *tick) readsModules(of task, s state.Task) bool {
	wait := s.Waits()
	return t.modules || s.Unconfirmed || wait != nil && wait.Content != nil && wait.HeldByInput() &&
		slices.ContainsFunc(of.inputs, func(q consul.InputQuery) bool { return !q.Triggers })
}

// observedInputs adds what all inputs of a task show to what its condition showed. If
// they cannot be read, a task that may have lost entries waits for that.
func (t *tick) observedInputs(ctx context.Context, in *decide.Input, queries []consul.InputQuery, answers []consul.Answer) {
	if in.Observed == nil {
		return
	}
	o, err := t.withInputs(ctx, in, queries, answers)
	switch {
	case err == nil:
		in.Observed = &o
	case t.modules || in.State.Unconfirmed:
		in.Observed, in.Unreadable = nil, err
	}
}

func (t *tick) withInputs(ctx context.Context, in *decide.Input, queries []consul.InputQuery, answers []consul.Answer) (decide.Observed, error) {
	o := *in.Observed
	before, err := state.LoadInputs(ctx, t.Store, in.Task.Name)
	unknown := errors.Is(err, state.ErrTorn)
	if err != nil && !unknown {
		return o, fmt.Errorf("read what the task was applied with: %w", err)
	}
	var inputs []consul.Input
	var sources []guard.Source
	var lost decide.Loss
	var texts []string
	for n, a := range answers {
		q := queries[n]
		if a.Err != nil {
			return o, a.Err
		}
		if err := a.Visibility.Confirm(ctx, before.Sources); err != nil {
			return o, err
		}
		inputs = append(inputs, consul.Input{Kind: q.Kind, Triggers: q.Triggers, Observation: a.Observation})
		diff := consul.Diff(q.Kind.Entries, before.Of(q.Kind.Name), before.Details, a.Observation)
		source := guard.Source{Count: diff.Count().WithPeaks(in.State.Applied.Counts), Changes: diff.Changes()}
		sources = append(sources, source)
		if n := source.Changes.Removed; n > 0 {
			lost.Entries += n
			texts = append(texts, guard.Removed(source))
		}
	}
	o.Inputs, o.Excess = consul.DigestOf(inputs), in.Task.Guard.Input(sources, t.Now()).Text
	switch {
	case unknown:
		o.Lost = &decide.Loss{Text: unknownLoss}
		o.Excess = unknownLoss
	case lost.Entries > 0:
		lost.Text = strings.Join(texts, "; ")
		o.Lost = &lost
	}
	return o, nil
}
