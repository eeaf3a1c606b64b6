package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// askWhatIf starts the plans of a what-if.
func (a *api) askWhatIf(r *http.Request, asked apispec.WhatIfRequest) (any, error) {
	if a.Control.WhatIf == nil {
		return nil, refuse(http.StatusNotImplemented, "%s", control.ErrNoWhatIf)
	}
	raw, err := json.Marshal(apispec.WhatIfRequest{Without: asked.Without, With: asked.With})
	if err != nil {
		return nil, fmt.Errorf("encode what is supposed: %w", err)
	}
	w, err := condition.ParseWhatIf(raw)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%s", err)
	}
	tasks := apispec.Deref(asked.Tasks)
	for _, name := range tasks {
		_, t, err := a.task(r.Context(), name)
		if errors.Is(err, control.ErrNoTask) {
			return nil, refuse(http.StatusNotFound, "a task with the name '%s' does not exist or has not been initialized yet", name)
		}
		if err != nil {
			return nil, err
		}
		if !t.Enabled {
			return nil, refuse(http.StatusBadRequest, "task '%s' is disabled: nothing would happen to it", name)
		}
	}
	q, err := a.Control.Suppose(r.Context(), w, tasks, by(r).Or(apispec.Deref(asked.By)).Name)
	if err != nil {
		return nil, err
	}
	shown, err := a.question(r.Context(), q)
	return answer{http.StatusAccepted, "Location", "/v1/what-if/" + q.ID, apispec.WhatIfResponse{RequestID: middleware.ID(r), WhatIf: shown}}, err
}

// getWhatIf answers with what would happen under a what-if.
func (a *api) getWhatIf(r *http.Request) (any, error) {
	id := r.PathValue("id")
	var q state.Stored[state.Question]
	var err error
	if len(state.QuestionKey(id)) <= state.MaxKey {
		q, err = state.Read[state.Question](r.Context(), a.Control.Store, state.QuestionKey(id))
	}
	if err == nil && !q.Exists() {
		err = refuse(http.StatusNotFound, "there is no what-if %s, or it was so long ago that it is not kept", id)
	}
	if err != nil {
		return nil, err
	}
	shown, err := a.question(r.Context(), q.Data)
	return apispec.WhatIfResponse{RequestID: middleware.ID(r), WhatIf: shown}, err
}

// question returns a what-if with what its runs have found.
func (a *api) question(ctx context.Context, q state.Question) (apispec.WhatIf, error) {
	found := make([]*state.Run, len(q.Runs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, of := range q.Runs {
		group.Go(func() (err error) {
			found[i], err = a.kept(ctx, of.Task, of.Run)
			return err
		})
	}
	err := group.Wait()
	runs := map[string]state.Run{}
	for _, run := range found {
		if run != nil {
			runs[run.ID] = *run
		}
	}
	return apiview.Question(q, runs, a.Control.Now()), err
}
