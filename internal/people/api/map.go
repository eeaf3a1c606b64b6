package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

const (
	// mapTasks is up to how many tasks a map has for which it has addresses, too.
	mapTasks = 10
	// mapAddresses is how many of them it has at most, and how many entries.
	mapAddresses = 500
)

// getMap answers with what feeds the selected tasks, and with the resources that they have.
func (a *api) getMap(r *http.Request) (any, error) {
	selected := selection.ParseMap(r.URL.Query())
	l, err := a.list(r)
	if err != nil {
		return nil, err
	}
	on, unknown, err := a.onNode(r.Context(), l, selected)
	if err != nil {
		return nil, err
	}
	answer := l.Map(selected, func(task string) bool { return on[task] })
	if unknown > 0 {
		answer.Counts.UnknownNodes = &unknown
	}
	answer.RequestID = middleware.ID(r)
	if answer.Counts.Tasks > mapTasks {
		return answer, nil
	}
	found, fed := make([][]apispec.MapAddress, len(answer.Tasks)), make([][]apispec.MapEntry, len(answer.Tasks))
	group, ctx := errgroup.WithContext(r.Context())
	for i, t := range answer.Tasks {
		group.Go(func() (err error) {
			found[i], err = a.addresses(r.WithContext(ctx), t.Name, selected.Type)
			return err
		})
		group.Go(func() error {
			inputs, err := a.inputs(ctx, t.Name)
			fed[i] = l.Fed(t.Name, selected, inputs)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := []apispec.MapAddress{}
	for _, of := range found {
		all = append(all, of[:min(len(of), mapAddresses-len(all))]...)
	}
	answer.Addresses = &all
	entries := append([]apispec.MapEntry{}, slices.Concat(fed...)...)
	if more := len(entries) - mapAddresses; more > 0 {
		entries, answer.MoreEntries = entries[:mapAddresses], &more
	}
	answer.Entries = &entries
	return answer, nil
}

// onNode returns which of the selected tasks were applied with the selected node, and of how many that is
// not known. It reads what each task that may have a node was applied with.
func (a *api) onNode(ctx context.Context, l *overview.List, selected selection.Map) (on map[string]bool, unknown int, err error) {
	if selected.Node == "" {
		return nil, 0, nil
	}
	on = map[string]bool{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, task := range l.MayHaveNode(selected) {
		group.Go(func() error {
			inputs, err := a.inputs(ctx, task)
			has, known := overview.HasNode(selected, inputs)
			mu.Lock()
			defer mu.Unlock()
			if on[task] = has; !has && !known {
				unknown++
			}
			return err
		})
	}
	err = group.Wait()
	return on, unknown, err
}

// inputs returns what a task was applied with, nothing if that was not written completely.
func (a *api) inputs(ctx context.Context, task string) (state.Inputs, error) {
	inputs, err := state.LoadInputs(ctx, a.Control.Store, task)
	switch {
	case errors.Is(err, state.ErrTorn):
		return state.Inputs{}, nil
	case err != nil:
		return state.Inputs{}, fmt.Errorf("read what task %s was applied with: %w", task, err)
	}
	return inputs, nil
}

// addresses returns those of a task's resources that are kept.
func (a *api) addresses(r *http.Request, task, ofType string) (all []apispec.MapAddress, err error) {
	record, corrupt, err := state.ReadAnyway[state.Task](r.Context(), a.Control.Store, state.TaskKey(task))
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", task, err)
	}
	made := record.Data.Applied.Made
	if corrupt != nil || made == nil {
		return nil, nil
	}
	text, err := a.Control.Kept(r.Context(), state.Run{Task: cmp.Or(made.Task, task)}, made.Addresses)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return nil, fmt.Errorf("read which resources task %s has: %w", task, err)
	}
	for address := range strings.Lines(string(text)) {
		address = strings.TrimSuffix(address, "\n")
		if is := state.ResourceType(address); ofType == "" || is == ofType {
			all = append(all, apispec.MapAddress{Address: address, Type: is, Task: task, Run: made.Run})
		}
	}
	return all, nil
}
