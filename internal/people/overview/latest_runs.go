package overview

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/record/state"
)

// LatestRuns reads the latest runs of the tasks that sees accepts, at most so many. One whose record cannot be
// decoded is left out, and given to wrong.
func (r Reader) LatestRuns(ctx context.Context, most int, sees func(task string) bool, wrong func(task string, err error)) ([]state.Run, error) {
	latest, err := r.Latest(ctx, most, sees)
	if err != nil {
		return nil, err
	}
	found, corrupt := make([]*state.Run, len(latest)), make([]error, len(latest))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, named := range latest {
		group.Go(func() error {
			run, err := state.Read[state.Run](ctx, r.Store, state.RunKey(named.Task, named.ID))
			switch {
			case errors.As(err, new(*state.CorruptError)):
				corrupt[i] = err
			case err != nil:
				return fmt.Errorf("read run %s of task %s: %w", named.ID, named.Task, err)
			case run.Exists(): // otherwise it has fallen out of the history by now
				found[i] = &run.Data
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var runs []state.Run
	for i, named := range latest {
		if corrupt[i] != nil {
			wrong(named.Task, corrupt[i])
		} else if found[i] != nil {
			runs = append(runs, *found[i])
		}
	}
	return runs, nil
}
