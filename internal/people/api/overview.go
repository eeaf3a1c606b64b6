package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// getOverview answers with the phase of the selected tasks, and with who leads. It sends
// nothing to a client that has the same already: pages ask again and again, and AWS
// charges for what is sent.
func (a *api) getOverview(r *http.Request) (any, error) {
	selected, err := selectionOf(r)
	if err != nil {
		return nil, err
	}
	l, err := a.list(r)
	if err != nil {
		return nil, err
	}
	o, err := l.Select(r.Context(), selected)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode the overview: %w", err)
	}
	sum := sha256.Sum256(text)
	tag := `W/"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, "{\"request_id\":%q,%s\n", middleware.ID(r), text[1:]) // an error means that the client has gone
	}), nil
}

// selectionOf reads which tasks a request selects.
func selectionOf(r *http.Request) (selection.Selection, error) {
	selected, err := selection.Parse(r.URL.Query())
	if err != nil {
		return selected, &refusal{status: http.StatusBadRequest, legacy: strings.HasPrefix(r.URL.Path, "/v1/status"), text: err.Error()}
	}
	return selected, nil
}

// list reads the list of all tasks that the sender may view. Requests share what is read. Pages, which read one part of it after
// another, accept what was read a moment ago.
func (a *api) list(r *http.Request) (*overview.List, error) {
	age, _ := strings.CutPrefix(r.Header.Get("Cache-Control"), "max-age=")
	seconds, _ := strconv.Atoi(age) // 0 for any other text: a new read is never wrong
	l, err := a.lists.recent(r.Context(), time.Duration(seconds)*time.Second, func(ctx context.Context) (*overview.List, error) {
		effective, err := a.Control.Known(ctx)
		if err != nil {
			return nil, err
		}
		return a.reader().List(ctx, effective)
	})
	if err != nil || by(r).Rights.MayAll(roles.View) {
		return l, err
	}
	return l.Only(sees(r)), nil
}

// sees returns a function that reports whether the sender of a request may view a task.
func sees(r *http.Request) func(task string) bool {
	rights := by(r).Rights
	if rights.MayAll(roles.View) {
		return func(string) bool { return true }
	}
	return func(task string) bool { return rights.May(roles.View, task) }
}

// selected returns the part of a list that a request selects. Only tasks for which in
// returns true are in the list.
func (a *api) selected(r *http.Request, in func(name string) bool) (selection.Part, error) {
	chosen, err := selectionOf(r)
	if err != nil {
		return selection.Part{}, err
	}
	l, err := a.list(r)
	if err != nil {
		return selection.Part{}, err
	}
	return l.Part(chosen, in), nil
}

func (a *api) reader() overview.Reader {
	return overview.Reader{Store: a.Control.Store, Began: a.Began, Now: a.Control.Now, Where: a.Store, Version: a.Version, Instance: a.Instance, Gates: a.Gates,
		Links: a.Links, Console: a.Console, Known: &a.known, Log: a.Log}
}

// getTaskOverview answers with the phase of one task, and why it is in it.
func (a *api) getTaskOverview(r *http.Request) (any, error) {
	effective, definition, err := a.task(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	task, err := a.reader().ReadTask(r.Context(), effective, definition)
	for _, others := range []**[]string{&task.Predecessors, &task.Successors} {
		if *others != nil {
			if names := seen(sees(r), **others); len(names) > 0 {
				*others = &names
			} else {
				*others = nil
			}
		}
	}
	return apispec.TaskOverviewResponse{RequestID: middleware.ID(r), Task: task}, err
}
