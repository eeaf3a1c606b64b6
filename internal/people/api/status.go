package api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/record/summary"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// readsAtOnce is how many records are read from the store at a time.
const readsAtOnce = 16

// status is the status of one task as Consul-Terraform-Sync shows it, ready to
// be sent. It belongs to one row of the task's record and one definition of
// the task. It never expires: runs that have ended do not change.
type status struct {
	name       string
	row        summary.Row // of the task's record
	definition apispec.EventConfig
	enabled    bool

	is      apispec.Status
	history []string               // ids of the newest runs that have ended, the latest first
	brief   []byte                 // TaskStatus in JSON, without events
	full    atomic.Pointer[[]byte] // the same with events; nil until a request needs them
}

// statusOf derives the status from how the newest runs ended, oldest first.
func statusOf(recent []state.RunState) apispec.Status {
	failures := 0
	for _, s := range recent {
		if failed(s) {
			failures++
		}
	}
	switch {
	case len(recent) == 0:
		return apispec.StatusUnknown
	case !failed(recent[len(recent)-1]):
		return apispec.StatusSuccessful
	case failures == 1:
		return apispec.StatusErrored
	}
	return apispec.StatusCritical
}

func failed(s state.RunState) bool {
	return s == state.RunFailed || s == state.RunLost || s == state.RunCancelled
}

// judgedRuns is how many of a task's newest runs its status is judged by.
const judgedRuns = 5

// ended returns how the task's newest runs ended and their ids, oldest first.
// Interrupted runs are left out: Consul-Terraform-Sync keeps no event of a run
// that it stopped together with itself.
func ended(t state.Task) (outcomes []state.RunState, ids []string) {
	recent := t.RecentRuns()
	for _, r := range recent[max(0, len(recent)-judgedRuns):] {
		if r.State != state.RunInterrupted {
			outcomes, ids = append(outcomes, r.State), append(ids, r.ID)
		}
	}
	return outcomes, ids
}

// all returns the statuses of all tasks that the sender may view, sorted by name. Requests share what is
// read.
func (a *api) all(r *http.Request) ([]*status, error) {
	tasks, err := a.allStatuses.get(r.Context(), a.read)
	if err != nil || by(r).Rights.MayAll(roles.View) {
		return tasks, err
	}
	sees := sees(r)
	return slices.DeleteFunc(slices.Clone(tasks), func(s *status) bool { return !sees(s.name) }), nil
}

// read reads the statuses of all tasks; allStatuses calls it once at a time.
func (a *api) read(ctx context.Context) ([]*status, error) {
	effective, err := a.Control.Config(ctx)
	if err != nil {
		return nil, err
	}
	shown, err := a.reader().Shown(ctx, effective, func(t *config.Task, row summary.Row) bool {
		s := a.statuses[t.Name]
		return s == nil || !s.holds(t, row)
	})
	if err != nil {
		return nil, err
	}
	tasks, known := make([]*status, len(shown)), make(map[string]*status, len(shown))
	for i, t := range shown {
		s := a.statuses[t.Definition.Name]
		if s == nil || !s.holds(t.Definition, t.Row) {
			if s, err = newStatus(t.Definition, t.Row, t.Task); err != nil {
				return nil, err
			}
		}
		tasks[i], known[s.name] = s, s
	}
	slices.SortFunc(tasks, func(a, b *status) int { return cmp.Compare(a.name, b.name) })
	a.statuses = known
	return tasks, nil
}

// one returns the status of one task, by its name.
func (a *api) one(ctx context.Context, name string) ([]*status, error) {
	_, t, err := a.task(ctx, name)
	if errors.Is(err, control.ErrNoTask) {
		return nil, refuseOld(http.StatusNotFound, noTask, name)
	}
	if err != nil {
		return nil, err
	}
	known, _, err := state.ReadAnyway[state.Task](ctx, a.Control.Store, state.TaskKey(name)) // of a corrupt record, the runs are not known
	if err != nil {
		return nil, fmt.Errorf("read task %s: %w", name, err)
	}
	s, err := newStatus(t, summary.Row{}, known.Data)
	return []*status{s}, err
}

// holds reports whether the status belongs to this definition of the task and
// the record with this row.
func (s *status) holds(t *config.Task, row summary.Row) bool {
	return row.Revision > 0 && s.row == row && s.enabled == t.Enabled && s.definition.Source == t.Module &&
		slices.Equal(s.definition.Providers, t.Providers) && slices.Equal(s.definition.Services, t.DeprecatedServices)
}

// newStatus derives the status of a task from its record.
func newStatus(t *config.Task, row summary.Row, known state.Task) (*status, error) {
	outcomes, ids := ended(known)
	s := &status{
		name: t.Name, row: row, enabled: t.Enabled, is: statusOf(outcomes),
		definition: apispec.EventConfig{Providers: append([]string{}, t.Providers...), Services: append([]string{}, t.DeprecatedServices...), Source: t.Module},
		history:    ids,
	}
	slices.Reverse(s.history)
	var err error
	s.brief, err = json.Marshal(s.task())
	return s, err
}

func (s *status) task() apispec.TaskStatus {
	t := apispec.TaskStatus{TaskName: s.name, Status: s.is, Enabled: s.enabled, Providers: s.definition.Providers, Services: s.definition.Services}
	if len(s.history) > 0 {
		t.EventsURL = "/v1/status/tasks/" + url.PathEscape(s.name) + "?include=events"
	}
	return t
}

// withEvents reads the events of the tasks, where they are not known yet.
func (a *api) withEvents(ctx context.Context, tasks []*status) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for _, s := range tasks {
		if s.full.Load() != nil {
			continue
		}
		group.Go(func() error {
			t := s.task()
			events := []apispec.Event{}
			for _, id := range s.history {
				run, err := a.kept(ctx, s.name, id)
				if err != nil {
					return err
				}
				if run != nil {
					events = append(events, event(*run, s.definition))
				}
			}
			t.Events = &events
			full, err := json.Marshal(t)
			s.full.Store(&full)
			return err
		})
	}
	return group.Wait()
}

// event is a run that has ended, as Consul-Terraform-Sync shows it.
func event(run state.Run, definition apispec.EventConfig) apispec.Event {
	e := apispec.Event{ID: run.ID, Success: !failed(run.State), TaskName: run.Task, StartTime: run.Started, EndTime: run.Ended, Config: definition}
	if run.Started.IsZero() {
		e.StartTime = run.Created
	}
	if !e.Success {
		e.Error = &apispec.ErrorObject{Message: run.Error}
	}
	return e
}

// getStatus answers with how many tasks have which status.
func (a *api) getStatus(r *http.Request) (any, error) {
	tasks, err := a.all(r)
	if err != nil {
		return nil, err
	}
	var all apispec.OverallStatus
	for _, s := range tasks {
		if s.enabled {
			all.TaskSummary.Enabled.Enabled++
		} else {
			all.TaskSummary.Enabled.Disabled++
		}
		n := &all.TaskSummary.Status
		switch s.is {
		case apispec.StatusSuccessful:
			n.Successful++
		case apispec.StatusErrored:
			n.Errored++
		case apispec.StatusCritical:
			n.Critical++
		default:
			n.Unknown++
		}
	}
	return all, nil
}

// getTaskStatuses answers with the status of each task, or of one.
func (a *api) getTaskStatuses(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if strings.Contains(name, "/") {
		return nil, refuseOld(http.StatusBadRequest, "unsupported path '%s'. request must be format 'path/{task-name}'. task name cannot have '/ ' and api does not support further resources", r.URL.Path)
	}
	only, events, err := statusQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	var tasks []*status
	if name != "" {
		tasks, err = a.one(r.Context(), name)
	} else {
		tasks, err = a.all(r)
	}
	if err != nil {
		return nil, err
	}
	if only != "" {
		tasks = slices.DeleteFunc(slices.Clone(tasks), func(s *status) bool { return s.is != only })
	}
	next := ""
	if name == "" && selection.Given(r.URL.Query()) {
		if tasks, next, err = a.selectedStatuses(r, tasks); err != nil {
			return nil, err
		}
	}
	if events {
		if err := a.withEvents(r.Context(), tasks); err != nil {
			return nil, err
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if next != "" {
			w.Header().Set("Terrapulse-Next", next) // the body has no place for it
		}
		send(w, tasks, events)
	}), nil
}

// selectedStatuses returns the statuses of the tasks that a request selects, and the name
// behind which further ones follow.
func (a *api) selectedStatuses(r *http.Request, tasks []*status) (part []*status, next string, err error) {
	known := make(map[string]*status, len(tasks))
	for _, s := range tasks {
		known[s.name] = s
	}
	selected, err := a.selected(r, func(name string) bool { return known[name] != nil })
	return list.Map(selected.Tasks, func(t apispec.TaskOverview) *status { return known[t.Name] }), selected.Next, err
}

// statusQuery reads the parameters of a request for statuses.
func statusQuery(q url.Values) (only apispec.Status, events bool, err error) {
	if asked := q["status"]; len(asked) > 1 {
		return "", false, refuseOld(http.StatusBadRequest, "cannot support more than one status query parameter, got status values: %s", strings.Join(asked, ", "))
	} else if len(asked) == 1 {
		only = apispec.Status(strings.ToLower(asked[0]))
		if !slices.Contains([]apispec.Status{apispec.StatusSuccessful, apispec.StatusErrored, apispec.StatusCritical, apispec.StatusUnknown}, only) {
			return "", false, refuseOld(http.StatusBadRequest, "unsupported status parameter value. only supporting status values successful, errored, critical, and unknown but got %s", asked[0])
		}
	}
	for _, include := range q["include"] {
		if include != "events" {
			return "", false, refuseOld(http.StatusBadRequest, "unsupported ?include parameter value. only supporting 'include=events' but got 'include=%s'", include)
		}
		events = true
	}
	return only, events, nil
}

// send answers with what is ready to be sent.
func send(w http.ResponseWriter, tasks []*status, events bool) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 64<<10)
	out.WriteByte('{')
	for i, s := range tasks {
		body := s.brief
		if events {
			body = *s.full.Load()
		}
		if i > 0 {
			out.WriteByte(',')
		}
		key, _ := json.Marshal(s.name)
		out.Write(key)
		out.WriteByte(':')
		out.Write(body)
	}
	out.WriteString("}\n")
	_ = out.Flush() // an error means that the client has gone
}

// getClusterStatus answers with the instances of the cluster.
func (a *api) getClusterStatus(r *http.Request) (any, error) {
	if a.Cluster == nil {
		return nil, refuseOld(http.StatusMethodNotAllowed, "this endpoint is only available with high availability configured")
	}
	cluster, err := a.Cluster.Status(r.Context())
	cluster.RequestID = middleware.ID(r)
	return cluster, err
}

// HealthPath is the path of the health check, which needs no token.
const HealthPath = "/v1/health"

// getHealth answers whether Terrapulse does its work. Only a sender that may read
// gets the reason why it does not, and which tasks cannot be read.
func (a *api) getHealth(r *http.Request) (any, error) {
	rec, err := state.Read[state.Reconcile](r.Context(), a.Control.Store, state.ReconcileKey)
	unhealthy := overview.Unhealthy(a.Control.Store, rec.Data, a.Began, a.Control.Now())
	if err != nil {
		unhealthy = "the store cannot be read: " + err.Error()
	}
	rights := by(r).Rights
	switch u := rec.Data.Unreadable; {
	case unhealthy != "" && rights.MayAny(roles.View) && !rights.MayAll(roles.View):
		return nil, refuse(http.StatusServiceUnavailable, "unhealthy: only those who may view all tasks see why")
	case unhealthy != "" && !rights.MayAny(roles.View):
		return nil, refuse(http.StatusServiceUnavailable, "unhealthy: a request with a token shows why")
	case unhealthy != "":
		return nil, refuse(http.StatusServiceUnavailable, "%s", unhealthy)
	case u == nil || !rights.MayAny(roles.View):
	case rights.MayAll(roles.View):
		return apispec.HealthResponse{UnreadableTasks: &u.Tasks, UnreadableCount: &u.Count}, nil
	default:
		sees := sees(r)
		own := slices.DeleteFunc(slices.Clone(u.Tasks), func(task string) bool { return !sees(task) })
		if len(own) > 0 {
			return apispec.HealthResponse{UnreadableTasks: &own, UnreadableCount: new(len(own))}, nil
		}
	}
	return apispec.HealthResponse{}, nil
}
