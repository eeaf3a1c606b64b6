package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/access"
	"github.com/terrapulse/terrapulse/internal/apispec"
	"github.com/terrapulse/terrapulse/internal/config"
	"github.com/terrapulse/terrapulse/internal/overview"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/request"
	"github.com/terrapulse/terrapulse/internal/state"
)

// readsAtOnce is how many records are read from the store at a time.
const readsAtOnce = 16

// readingTime is how long the records of all tasks may take to be read.
const readingTime = time.Minute

// status is the status of one task as Consul-Terraform-Sync shows it, ready to
// be sent. It belongs to one version of the task's record and one definition of
// the task. It never expires: runs that have ended do not change.
type status struct {
	version    string // of the task's record
	definition apispec.EventConfig
	enabled    bool

	is      apispec.Status
	history []string // ids of the newest runs that have ended, the latest first
	brief   []byte   // TaskStatus in JSON, without events
	full    []byte   // the same with events; nil until a request needs them
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

// ended returns how the task's newest runs ended and their ids, oldest first.
// Interrupted runs are left out: Consul-Terraform-Sync keeps no event of a run
// that it stopped together with itself.
func ended(t state.Task) (outcomes []state.RunState, ids []string) {
	recent := t.Outcomes()
	newest := t.History[max(0, len(t.History)-len(recent)):]
	recent = recent[len(recent)-len(newest):]
	for i, s := range recent {
		if s != state.RunInterrupted {
			outcomes, ids = append(outcomes, s), append(ids, newest[i])
		}
	}
	return outcomes, ids
}

// all returns the statuses of all tasks by name, and the sorted names. The
// records are read once at a time, however many requests there are. A request
// that arrives during a read waits for the next one, so that it never gets
// records that were read before it arrived.
func (a *api) all(ctx context.Context) (map[string]*status, []string, error) {
	a.mu.Lock()
	if a.next == nil {
		a.next = &reading{done: make(chan struct{})}
		if !a.reading {
			a.reading = true
			go a.readAll()
		}
	}
	r := a.next
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.tasks, r.names, r.err
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// reading is one read of the records of all tasks.
type reading struct {
	done  chan struct{} // closed when the other fields are set
	tasks map[string]*status
	names []string
	err   error
}

// readAll reads as long as a request waits.
func (a *api) readAll() {
	for {
		a.mu.Lock()
		r := a.next
		a.next, a.reading = nil, r != nil
		a.mu.Unlock()
		if r == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), readingTime)
		r.tasks, r.names, r.err = a.read(ctx)
		cancel()
		close(r.done)
	}
}

func (a *api) read(ctx context.Context) (map[string]*status, []string, error) {
	effective, err := a.Control.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	records, err := a.Control.Store.List(ctx, state.TaskPrefix)
	if err != nil {
		return nil, nil, fmt.Errorf("read the tasks' records: %w", err)
	}
	byKey := make(map[string]state.Record, len(records))
	for _, rec := range records {
		byKey[rec.Key] = rec
	}
	shown := overview.Definitions(effective, records)
	tasks, names := make(map[string]*status, len(shown)), make([]string, len(shown))
	for i, t := range shown {
		rec := byKey[state.TaskKey(t.Name)]
		s := a.statuses[t.Name]
		if s == nil || !s.holds(t, rec.Version) {
			if s, err = newStatus(t, rec); err != nil {
				return nil, nil, err
			}
		}
		tasks[t.Name], names[i] = s, t.Name
	}
	slices.Sort(names)
	a.statuses = tasks
	return tasks, names, nil
}

// one returns the status of one task, by its name; empty if there is none.
func (a *api) one(ctx context.Context, name string) (map[string]*status, []string, error) {
	t, err := a.task(ctx, name)
	if errors.Is(err, reconcile.ErrNoTask) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rec, err := a.Control.Store.Get(ctx, state.TaskKey(name))
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return nil, nil, fmt.Errorf("read task %s: %w", name, err)
	}
	s, err := newStatus(t, rec)
	return map[string]*status{name: s}, []string{name}, err
}

// holds reports whether the status belongs to this definition of the task and
// this version of its record.
func (s *status) holds(t *config.Task, version string) bool {
	return s.version == version && s.enabled == t.Enabled && s.definition.Source == t.Module &&
		slices.Equal(s.definition.Providers, t.Providers) && slices.Equal(s.definition.Services, t.DeprecatedServices)
}

// newStatus derives the status of a task from its record.
func newStatus(t *config.Task, rec state.Record) (*status, error) {
	var known state.Task
	if rec.Version != "" {
		stored, err := state.Decode[state.Task](rec)
		if errors.As(err, new(*state.NewerError)) {
			return nil, err
		}
		if err == nil {
			known = stored.Data // of a corrupt record, the runs are not known
		}
	}
	outcomes, ids := ended(known)
	s := &status{
		version: rec.Version, enabled: t.Enabled, is: statusOf(outcomes),
		definition: apispec.EventConfig{Providers: append([]string{}, t.Providers...), Services: append([]string{}, t.DeprecatedServices...), Source: t.Module},
		history:    ids,
	}
	slices.Reverse(s.history)
	var err error
	s.brief, err = json.Marshal(s.task(t.Name))
	return s, err
}

func (s *status) task(name string) apispec.TaskStatus {
	t := apispec.TaskStatus{TaskName: name, Status: s.is, Enabled: s.enabled, Providers: s.definition.Providers, Services: s.definition.Services}
	if len(s.history) > 0 {
		t.EventsURL = "/v1/status/tasks/" + url.PathEscape(name) + "?include=events"
	}
	return t
}

// withEvents reads the events of the tasks, where they are not known yet.
func (a *api) withEvents(ctx context.Context, tasks map[string]*status) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for name, s := range tasks {
		a.mu.Lock()
		known := s.full != nil
		a.mu.Unlock()
		if known {
			continue
		}
		group.Go(func() error {
			t := s.task(name)
			events := []apispec.Event{}
			for _, id := range s.history {
				run, err := state.Read[state.Run](ctx, a.Control.Store, state.RunKey(name, id))
				if wrong := (*state.CorruptError)(nil); errors.As(err, &wrong) {
					continue // it is no event: nothing is known of how it ended
				}
				if err != nil {
					return fmt.Errorf("read run %s of task %s: %w", id, name, err)
				}
				if run.Exists() { // it may have fallen out of the history by now
					events = append(events, event(run.Data, s.definition))
				}
			}
			t.Events = &events
			full, err := json.Marshal(t)
			a.mu.Lock()
			defer a.mu.Unlock()
			s.full = full
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
func (a *api) getStatus(w http.ResponseWriter, r *http.Request) {
	tasks, _, err := a.all(r.Context())
	if err != nil {
		a.failOld(w, r, err)
		return
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
	write(w, http.StatusOK, all)
}

// getTaskStatuses answers with the status of each task, or of one.
func (a *api) getTaskStatuses(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if strings.Contains(name, "/") {
		refuseOld(w, http.StatusBadRequest, "unsupported path '%s'. request must be format 'path/{task-name}'. task name cannot have '/ ' and api does not support further resources", r.URL.Path)
		return
	}
	only, events, wrong := statusQuery(r.URL.Query())
	if wrong != "" {
		refuseOld(w, http.StatusBadRequest, "%s", wrong)
		return
	}
	read := a.all
	if name != "" {
		read = func(ctx context.Context) (map[string]*status, []string, error) { return a.one(ctx, name) }
	}
	tasks, sorted, err := read(r.Context())
	if err != nil {
		a.failOld(w, r, err)
		return
	}
	if name != "" && tasks[name] == nil {
		refuseOld(w, http.StatusNotFound, "%s", noTask(name))
		return
	}
	if only != "" {
		tasks = maps.Clone(tasks)
		maps.DeleteFunc(tasks, func(_ string, s *status) bool { return s.is != only })
	}
	if events {
		if err := a.withEvents(r.Context(), tasks); err != nil {
			a.failOld(w, r, err)
			return
		}
	}
	a.send(w, tasks, sorted, events)
}

// statusQuery reads the parameters of a request for statuses.
func statusQuery(q url.Values) (only apispec.Status, events bool, wrong string) {
	if asked := q["status"]; len(asked) > 1 {
		return "", false, "cannot support more than one status query parameter, got status values: " + strings.Join(asked, ", ")
	} else if len(asked) == 1 {
		only = apispec.Status(strings.ToLower(asked[0]))
		if !only.Valid() {
			return "", false, "unsupported status parameter value. only supporting status values successful, errored, critical, and unknown but got " + asked[0]
		}
	}
	for _, include := range q["include"] {
		if include != "events" {
			return "", false, fmt.Sprintf("unsupported ?include parameter value. only supporting 'include=events' but got 'include=%s'", include)
		}
		events = true
	}
	return only, events, ""
}

// send answers with what is ready to be sent.
func (a *api) send(w http.ResponseWriter, tasks map[string]*status, sorted []string, events bool) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 64<<10)
	between := byte('{')
	for _, name := range sorted {
		s := tasks[name]
		if s == nil {
			continue
		}
		body := s.brief
		if events {
			a.mu.Lock()
			body = s.full
			a.mu.Unlock()
		}
		key, _ := json.Marshal(name)
		out.WriteByte(between)
		out.Write(key)
		out.WriteByte(':')
		out.Write(body)
		between = ','
	}
	if between == '{' {
		out.WriteByte('{')
	}
	out.WriteString("}\n")
	_ = out.Flush() // an error means that the client has gone
}

// getClusterStatus answers with the instances of the cluster.
func (a *api) getClusterStatus(w http.ResponseWriter, r *http.Request) {
	if a.Cluster == nil {
		refuseOld(w, http.StatusMethodNotAllowed, "this endpoint is only available with high availability configured")
		return
	}
	cluster, err := a.Cluster.Status(r.Context())
	if err != nil {
		a.failOld(w, r, err)
		return
	}
	cluster.RequestID = request.ID(r)
	write(w, http.StatusOK, cluster)
}

// HealthPath is the path of the health check, which needs no token.
const HealthPath = "/v1/health"

// getHealth answers whether Terrapulse does its work. Only a sender that may read
// gets the reason why it does not.
func (a *api) getHealth(w http.ResponseWriter, r *http.Request) {
	rec, err := state.Read[state.Reconcile](r.Context(), a.Control.Store, state.ReconcileKey)
	unhealthy := overview.Unhealthy(rec.Data, a.Began, a.Control.Now())
	if err != nil {
		unhealthy = "the store cannot be read: " + err.Error()
	}
	if unhealthy != "" && access.Of(r.Context()) < access.Read {
		unhealthy = "unhealthy: a request with a token shows why"
	}
	if unhealthy != "" {
		refuse(w, r, http.StatusServiceUnavailable, "%s", unhealthy)
		return
	}
	if access.Of(r.Context()) < access.Read {
		write(w, http.StatusOK, apispec.HealthResponse{})
		return
	}
	write(w, http.StatusOK, health(rec.Data))
}

// health names the tasks that cannot be read, if there are any.
func health(rec state.Reconcile) apispec.HealthResponse {
	if rec.Unreadable == nil {
		return apispec.HealthResponse{}
	}
	return apispec.HealthResponse{UnreadableTasks: &rec.Unreadable.Tasks, UnreadableCount: &rec.Unreadable.Count}
}
