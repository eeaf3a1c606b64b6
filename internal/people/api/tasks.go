package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/people/apiview"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/people/overview"
	"github.com/terrapulse/terrapulse/internal/people/selection"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/overlay"
)

// What the parameter run asks for.
const (
	runNow     = "now"
	runInspect = "inspect"
)

// getTasks answers with the definitions of all tasks, or of the selected ones.
func (a *api) getTasks(r *http.Request) (any, error) {
	effective, err := a.Control.Config(r.Context())
	if err != nil {
		return nil, err
	}
	shown, err := a.reader().Definitions(r.Context(), effective)
	if err != nil {
		return nil, err
	}
	sees := sees(r)
	shown = slices.DeleteFunc(shown, func(t *config.Task) bool { return !sees(t.Name) })
	answer := apispec.TasksResponse{RequestID: middleware.ID(r)}
	if selection.Given(r.URL.Query()) {
		defined := map[string]*config.Task{}
		for _, t := range shown {
			defined[t.Name] = t
		}
		part, err := a.selected(r, func(name string) bool { return defined[name] != nil })
		if err != nil {
			return nil, err
		}
		shown, answer.Next = list.Map(part.Tasks, func(t apispec.TaskOverview) *config.Task { return defined[t.Name] }), apiview.Optional(part.Next)
	}
	answer.Tasks = list.Map(shown, func(t *config.Task) apispec.Task { return a.define(r, t) })
	return answer, nil
}

// planTask starts a plan of a task as it is configured, and does not wait for it.
func (a *api) planTask(r *http.Request) (any, error) {
	name := r.PathValue("name")
	_, t, err := a.task(r.Context(), name)
	if err == nil && !t.Enabled {
		err = control.ErrDisabled
	}
	if err != nil {
		return nil, err
	}
	planned, err := a.Control.StartPlan(r.Context(), name, control.Definition{}, by(r).Or(r.URL.Query().Get("by")).Name)
	url := apiview.RunURL(name, planned.ID)
	return answer{http.StatusAccepted, "Location", url, apispec.PlanStartedResponse{RequestID: middleware.ID(r), RunID: planned.ID, RunURL: url}}, err
}

// getTask answers with the definition of one task.
func (a *api) getTask(r *http.Request) (any, error) {
	_, t, err := a.task(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return apispec.TaskResponse{RequestID: middleware.ID(r), Task: a.define(r, t)}, nil
}

// define is apiview.Task for the sender of a request: what may be a secret is for those who may
// administer the task. Of variables, that is what the module declares sensitive.
func (a *api) define(r *http.Request, t *config.Task) apispec.Task {
	def := apiview.Task(t)
	if by(r).Rights.May(roles.Administer, t.Name) {
		return def
	}
	public := apiview.PublicTask(t)
	if a.Sensitive == nil || len(*def.Variables) == 0 {
		return public
	}
	sensitive := a.Sensitive(t)
	for name, value := range *def.Variables {
		if !sensitive(name) {
			(*public.Variables)[name] = value
		}
	}
	return public
}

// task returns the effective configuration, and a task that there is or that is
// leaving; else the error is control.ErrNoTask.
func (a *api) task(ctx context.Context, name string) (*overlay.Effective, *config.Task, error) {
	effective, err := a.Control.Known(ctx)
	if err != nil {
		return nil, nil, err
	}
	if t, ok := effective.Config.Task(name); ok {
		return effective, t, nil
	}
	if len(state.TaskKey(name)) > state.MaxKey {
		return nil, nil, control.ErrNoTask
	}
	known, err := state.Read[state.Task](ctx, a.Control.Store, state.TaskKey(name))
	if err != nil {
		return nil, nil, fmt.Errorf("read task %s: %w", name, err)
	}
	if t := overview.Leaving(effective, name, known.Data); t != nil {
		return effective, t, nil
	}
	if known.Exists() && effective.Unknown != nil {
		return nil, nil, effective.Unknown
	}
	return nil, nil, control.ErrNoTask
}

// createTask makes a task, or plans what making it would change.
func (a *api) createTask(r *http.Request) (any, error) {
	var asked struct{ Task json.RawMessage }
	var named struct {
		Name      string
		MovedFrom []string `json:"moved_from"`
	}
	err := json.NewDecoder(r.Body).Decode(&asked)
	if err == nil {
		err = json.Unmarshal(asked.Task, &named)
	}
	definition := asked.Task
	if err == nil {
		definition, err = withoutEmpty(definition)
	}
	if err != nil { // the request fits its description: this does not happen
		return nil, fmt.Errorf("read the definition of the task: %w", err)
	}
	r.SetPathValue("name", named.Name) // errors name the task by it
	if err := mayCreate(r, named.Name, named.MovedFrom); err != nil {
		return nil, err
	}
	if len(r.URL.Query()["run"]) > 1 {
		return nil, errTwoModes
	}
	mode := r.URL.Query().Get("run")
	if r.URL.Query().Get("replace") == "true" {
		return a.inspectReplacing(r, mode, definition)
	}
	t, err := a.Control.Check(r.Context(), definition)
	if err != nil {
		return nil, notMade(err)
	}
	if err := mayCreate(r, t.Name, t.MovedFrom); err != nil { // as it was understood
		return nil, err
	}
	if mode == runInspect {
		inspection, err := a.inspect(r, t.Name, definition)
		if wrong := (*runError)(nil); errors.As(err, &wrong) {
			wrong.status = http.StatusBadRequest
		}
		return apispec.TaskResponse{RequestID: middleware.ID(r), Task: a.define(r, t), Run: inspection}, err
	}
	if mode == "" || !t.Enabled {
		// It is not run now, and not made if Terraform refuses it: it is planned first.
		if _, err = a.inspect(r, t.Name, definition); err != nil {
			return nil, notMade(err)
		}
	}
	t, earlier, err := a.Control.Create(r.Context(), definition, control.ChangeOptions{By: by(r).Name, Provisional: mode == runNow})
	var run state.Run
	if err == nil && mode == runNow && t.Enabled {
		run, err = a.await(r.Context(), t.Name, earlier, "the task is not kept")
	}
	if err != nil {
		return nil, err
	}
	made := apispec.TaskResponse{RequestID: middleware.ID(r), Task: a.define(r, t)}
	if there := remoteURL(run); there != nil {
		made.Run = &apispec.Inspection{ChangesPresent: run.Changes.Any(), TfcRunURL: there}
	}
	return answer{http.StatusCreated, "Location", "/v1/tasks/" + t.Name, made}, nil
}

// mayCreate returns an error if the sender may not create a task with this name, or take over the states
// of the tasks that it replaces.
func mayCreate(r *http.Request, name string, movedFrom []string) error {
	for _, task := range append([]string{name}, movedFrom...) {
		if err := by(r).Need(roles.Administer, task); err != nil {
			return err
		}
	}
	return nil
}

// errTwoModes refuses a request that runs a task and inspects it.
var errTwoModes = refuse(http.StatusBadRequest, "the parameter run is there more than once: choose now or inspect")

// notMade is the error of createTask if it ends before it has written anything.
func notMade(err error) error {
	if unfinished(err) {
		return refuse(http.StatusGatewayTimeout, "the task is not made: %s", err)
	}
	return err
}

// withoutEmpty leaves out of a definition what is empty there in the requests of
// Consul-Terraform-Sync's clients, and would be wrong in a task file.
func withoutEmpty(definition json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(definition, &fields); err != nil {
		return nil, err
	}
	var empty bytes.Buffer
	if err := json.Compact(&empty, fields["module_input"]); err == nil && empty.String() == "{}" {
		delete(fields, "module_input")
	}
	return json.Marshal(fields)
}

// runError is why the run or the inspection that a request asked for has failed.
type runError struct {
	run       state.Run
	otherwise string // what becomes of the change then
	status    int    // of the answer
}

func (e *runError) Error() string {
	if e.run.Kind == state.KindPlan {
		return fmt.Sprintf("inspect task '%s': %s", e.run.Task, e.run.Error)
	}
	return fmt.Sprintf("run task '%s': %s; %s", e.run.Task, strings.TrimSpace(e.run.Error), e.otherwise)
}

// inspect plans a task and returns its plan. The definition is that of a task
// which is not there, else nil. The error is a *runError where Terraform had no
// plan.
func (a *api) inspect(r *http.Request, task string, definition json.RawMessage) (*apispec.Inspection, error) {
	planned, err := a.Control.StartPlan(r.Context(), task, control.Definition{JSON: definition}, by(r).Name)
	if err != nil {
		return nil, err
	}
	inspection, _, err := a.awaitPlan(r.Context(), planned)
	return inspection, withRunURL(err, apiview.RunURL(task, planned.ID))
}

func (a *api) awaitPlan(ctx context.Context, planned state.PlannedRun) (*apispec.Inspection, state.Run, error) {
	run, plan, err := a.Control.AwaitPlan(ctx, planned)
	if err == nil && run.State != state.RunSucceeded {
		err = &runError{run: run, status: http.StatusInternalServerError}
	}
	if err != nil {
		return nil, run, err
	}
	return &apispec.Inspection{ChangesPresent: run.Changes.Any(), Plan: plan, TfcRunURL: remoteURL(run)}, run, nil
}

// inspectReplacing plans a definition that may be another one of a task that there is.
func (a *api) inspectReplacing(r *http.Request, mode string, definition json.RawMessage) (any, error) {
	if mode != runInspect {
		return nil, refuse(http.StatusBadRequest, "the parameter replace needs run=inspect: a definition of a task file is changed in the file")
	}
	if a.Control.PlanReplacing == nil {
		return nil, refuse(http.StatusBadRequest, "a deployment in AWS plans changed task files with terrapulse bundle diff -plan")
	}
	t, err := a.Control.CheckReplacement(r.Context(), definition)
	if err != nil {
		return nil, err
	}
	if err := mayCreate(r, t.Name, t.MovedFrom); err != nil { // as it was understood
		return nil, err
	}
	planned, err := a.Control.StartPlan(r.Context(), t.Name, control.Definition{JSON: definition, Replacing: true}, by(r).Name)
	if err != nil {
		return nil, err
	}
	inspection, run, err := a.awaitPlan(r.Context(), planned)
	if wrong := (*runError)(nil); errors.As(err, &wrong) {
		wrong.status = http.StatusBadRequest
	}
	if err != nil {
		return nil, err
	}
	inspection.Changes, inspection.Verdict = apiview.Changes(run.Changes), apiview.Verdict(run.Verdict)
	return apispec.TaskResponse{RequestID: middleware.ID(r), Task: a.define(r, t), Run: inspection}, nil
}

// remoteURL is the page of the run in another system; nil if there is none.
func remoteURL(run state.Run) *string {
	if run.Remote == nil {
		return nil
	}
	return apiview.Optional(run.Remote.URL)
}

// await waits until the run after the earlier ones has ended, and returns it. The error
// is a *runError if that failed; otherwise says what becomes of the change then.
func (a *api) await(ctx context.Context, task string, earlier control.Earlier, otherwise string) (state.Run, error) {
	run, err := a.Control.AwaitRun(ctx, task, earlier)
	err = withRunURL(err, apiview.RunsURL(task, earlier.Newest()))
	switch {
	case errors.Is(err, control.ErrWaits):
		err = refuse(http.StatusConflict, "%s: when it has succeeded, the change is kept, and otherwise %s", err, otherwise)
	case err != nil:
	case run.State == state.RunWaiting:
		err = refuse(http.StatusConflict, "the run of task '%[1]s' %[2]s: when it has succeeded, the change is kept, and otherwise %[3]s", task, run.Wait, otherwise)
	case run.State != state.RunSucceeded:
		err = &runError{run, otherwise, http.StatusInternalServerError}
	}
	return run, err
}

// updateTask enables or disables a task, or plans what enabling it would change.
func (a *api) updateTask(r *http.Request) (any, error) {
	if r.PathValue("name") == "" {
		return nil, refuseOld(http.StatusBadRequest, "no task name was included in the api request. Updating a task requires the task name: '/v1/tasks/:task_name'")
	}
	mode := ""
	if asked, ok := r.URL.Query()["run"]; ok {
		if len(asked) > 1 {
			return nil, errTwoModes
		}
		if mode = asked[0]; mode != runNow && mode != runInspect {
			return nil, refuseOld(http.StatusBadRequest, "unsupported run parameter value. only supporting run values now and inspect but got %s", mode)
		}
	}
	enabled, err := updateOf(r)
	if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
		return nil, tooLarge(limit)
	}
	if err != nil {
		return nil, refuseOld(http.StatusBadRequest, "%s", err)
	}
	ctx, name := r.Context(), r.PathValue("name")
	if mode == runInspect {
		inspection := &apispec.Inspection{Plan: "Task is disabled, inspection was skipped."}
		if _, _, err = a.task(ctx, name); err == nil && enabled {
			inspection, err = a.inspect(r, name, nil)
		}
		return apispec.UpdateTaskResponse{Inspect: inspection}, err
	}
	provisional := mode == runNow && enabled
	earlier, err := a.Control.SetEnabled(ctx, name, enabled, control.ChangeOptions{By: by(r).Name, Provisional: provisional})
	if err == nil && provisional {
		_, err = a.await(ctx, name, earlier, "the task stays as it was")
	}
	return apispec.UpdateTaskResponse{}, err
}

// updateOf reads whether a task is to be enabled. Keys may be written in capitals.
func updateOf(r *http.Request) (enabled bool, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false, fmt.Errorf("read the request body: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return false, fmt.Errorf("unable to decode the request body: %w", err)
	}
	var asked *bool
	var unknown []string
	for key, value := range fields {
		if !strings.EqualFold(key, "enabled") {
			unknown = append(unknown, key)
			continue
		}
		if err := json.Unmarshal(value, &asked); err != nil {
			return false, fmt.Errorf("unable to decode '%s' of the request body: it must be true or false, and is %s", key, value)
		}
	}
	switch {
	case len(unknown) > 0:
		slices.Sort(unknown)
		return false, fmt.Errorf("request body's JSON contains unsupported keys: %s", strings.Join(unknown, ", "))
	case asked == nil:
		return false, errors.New("/v1/tasks/:task_name currently only supports the 'enabled' field. Missing 'enabled' from the request body")
	}
	return *asked, nil
}

// deleteTask deletes a task.
func (a *api) deleteTask(r *http.Request) (any, error) {
	name := r.PathValue("name")
	comesBack, err := a.Control.Delete(r.Context(), name, by(r).Name)
	deleted := answer{status: http.StatusAccepted, body: apispec.RequestID{RequestID: middleware.ID(r)}}
	if comesBack {
		deleted.header = "Terrapulse-Note"
		deleted.value = fmt.Sprintf("a file has task '%s': it comes back when its block there is changed, or with -reset-storage; delete it there to be rid of it", name)
	}
	return deleted, err
}
