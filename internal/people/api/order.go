package api

import (
	"net/http"
	"slices"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
)

// seen returns the names that the sender may see.
func seen(sees func(string) bool, names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !sees(name) })
}

// getOrder answers with the tasks that come after others or before some, and with their phases.
func (a *api) getOrder(r *http.Request) (any, error) {
	effective, err := a.Control.Config(r.Context())
	if err != nil {
		return nil, err
	}
	tasks, matches := overview.Order(effective.Config)
	sees := sees(r)
	tasks = slices.DeleteFunc(tasks, func(t apispec.OrderedTask) bool { return !sees(t.Name) })
	own := map[string]bool{} // entries that the definitions of these tasks have
	for i := range tasks {
		for _, entry := range tasks[i].After {
			own[entry] = true
		}
	}
	for entry, names := range matches {
		if matches[entry] = seen(sees, names); !own[entry] {
			delete(matches, entry)
		}
	}
	answer := apispec.OrderResponse{RequestID: middleware.ID(r), Tasks: tasks, Matches: matches}
	if len(tasks) == 0 {
		return answer, nil
	}
	l, err := a.list(r)
	if err != nil {
		return nil, err
	}
	all, err := l.Select(r.Context(), selection.Selection{Sort: "name", Brief: true})
	if err != nil {
		return nil, err
	}
	at := make(map[string]int, len(all.Tasks))
	for i := range all.Tasks {
		at[all.Tasks[i].Name] = i
	}
	for i := range tasks {
		if n, ok := at[tasks[i].Name]; ok {
			tasks[i].Phase, tasks[i].Reason = &all.Tasks[n].Phase, &all.Tasks[n].Reason
		}
	}
	return answer, nil
}
