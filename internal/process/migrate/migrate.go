// Package migrate checks what would change if Terrapulse took over the tasks of
// Consul-Terraform-Sync.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/driver/preview"
	"github.com/terrapulse/terrapulse/internal/people/apiclient"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// What Terrapulse would do with a task.
const (
	WillNothing = "nothing" // change nothing
	WillChange  = "changes"
	WillNot     = "cannot" // it cannot take the task over
	WillStay    = "disabled"
)

// Task is what Terrapulse would do with one task.
type Task struct {
	Task    string `json:"task"`
	Will    string `json:"will"`
	Why     string `json:"why,omitempty"`
	Add     int    `json:"add"`
	Change  int    `json:"change"`
	Destroy int    `json:"destroy"`
	Plan    string `json:"plan,omitempty"` // of a task that changes
	// FirstRun is what the first run does in another system besides, in words.
	FirstRun []string `json:"first_run,omitempty"`
}

// Report is the result of a check.
type Report struct {
	API   string   `json:"api,omitempty"` // the URL at which an API answers
	Notes []string `json:"notes"`         // differences from the files, and other remarks
	Lost  bool     `json:"lost"`          // changes through the API would be lost
	Tasks []Task   `json:"tasks"`
}

// Check plans the enabled tasks of a configuration and compares its tasks with
// those of a Consul-Terraform-Sync whose API is at the address. Without an
// address, it uses the configured port on this machine.
func Check(ctx context.Context, planner *preview.Planner, address string) *Report {
	r := &Report{Notes: []string{}}
	cfg := planner.Config
	r.compare(ctx, cfg, address)
	tasks := make([]*config.Task, len(cfg.Tasks))
	for i := range cfg.Tasks {
		tasks[i] = &cfg.Tasks[i]
	}
	for _, result := range planner.Plan(ctx, tasks) {
		t := takeOver(cfg, result)
		r.Tasks = append(r.Tasks, t)
		if len(t.FirstRun) > 0 {
			r.note("the first run of task %s %s", t.Task, strings.Join(t.FirstRun, "; "))
		}
	}
	if differs := cfg.Guard.Differs(); differs != "" {
		r.note("%s", differs)
	}
	folders := map[string]bool{} // with files that Consul-Terraform-Sync reads
	yaml := func(file string) bool {
		ext := strings.ToLower(filepath.Ext(file))
		return ext == ".yaml" || ext == ".yml"
	}
	for _, file := range cfg.Files() {
		folders[filepath.Dir(file)] = folders[filepath.Dir(file)] || !yaml(file)
	}
	for _, file := range cfg.Files() {
		if yaml(file) && folders[filepath.Dir(file)] {
			r.note("Consul-Terraform-Sync ignores %s, and Terrapulse reads it: move it to another folder if it is not meant", file)
		}
	}
	if cfg.Anonymous() {
		r.note("from other machines, the HTTP API can only be read, unlike that of Consul-Terraform-Sync: before scripts there can run, create, enable or delete tasks, " +
			"set api.token (they send it as a bearer token) or tls.verify_incoming (they send a client certificate)")
	}
	if r.API != "" && r.Count(WillChange) > 0 {
		r.note("the plans were made without a lock: they may show what was being applied at that time")
	}
	return r
}

// takeOver returns what Terrapulse would do with a task, by its plan against the
// state of Consul-Terraform-Sync.
func takeOver(cfg *config.Config, planned preview.Result) Task {
	t, plan := planned.Task, planned.Plan
	result := Task{Task: t.Name}
	switch {
	case !t.Enabled:
		result.Will, result.Why = WillStay, "it is disabled and stays disabled"
		return result
	case planned.Err != nil:
		result.Will, result.Why = WillNot, planned.Err.Error()
		return result
	}
	result.FirstRun = plan.Setup
	result.Add, result.Change, result.Destroy = plan.Changes.Add, plan.Changes.Change, plan.Changes.Destroy
	if !plan.Changes.Any() {
		result.Will = WillNothing
		if plan.New {
			result.Why = "it has no state, and would create nothing"
		}
		return result
	}
	result.Will, result.Plan = WillChange, plan.Text
	for _, cause := range plan.Causes {
		result.FirstRun = append(result.FirstRun, "waits for an approval, because "+cause.Text)
	}
	result.Why = plan.Changes.ToDo()
	if plan.New {
		result.Why = fmt.Sprintf("it has no state %s, so that everything would be created (%s): if it has run before, its state is elsewhere",
			cfg.Driver().StateOf(t), result.Why)
	}
	return result
}

// Count returns for how many tasks Terrapulse would do this.
func (r *Report) Count(will string) int {
	n := 0
	for _, t := range r.Tasks {
		if t.Will == will {
			n++
		}
	}
	return n
}

// apiPatience is how long the API of a Consul-Terraform-Sync may take to answer.
const apiPatience = 5 * time.Second

// compare notes how the tasks of a running Consul-Terraform-Sync differ from the
// files.
func (r *Report) compare(ctx context.Context, cfg *config.Config, address string) {
	given := address != ""
	if !given && cfg.Port == 0 {
		return
	}
	if !given {
		scheme := "http"
		if cfg.TLS.Enabled {
			scheme = "https"
		}
		address = fmt.Sprintf("%s://localhost:%d", scheme, cfg.Port)
	}
	address = strings.TrimSuffix(address, "/")
	running, err := taskStatuses(ctx, cfg, address)
	var dial *net.OpError
	switch {
	case !given && errors.As(err, &dial) && dial.Op == "dial":
		r.note("no Consul-Terraform-Sync runs here: nothing answers at %s. Changes through its API ended with it, and cannot be compared", address)
		return
	case err != nil:
		r.note("what runs at %s was not compared with the files: %v", address, err)
		return
	}
	r.API = address
	r.note("an API answers at %s: stop what runs there before `terrapulse start`, as two programs must not work on one state", address)
	for _, name := range slices.Sorted(maps.Keys(running)) {
		t, ok := cfg.Task(name)
		switch is := running[name]; {
		case !ok:
			r.lose("task %s was created through the API and is in no file, so that it would be lost: save what %s/v1/tasks/%s shows, "+
				"and create it again with `terrapulse task create`", name, address, name)
		case is.Enabled && !t.Enabled:
			r.lose("task %s runs, but the files say that it is disabled, and so it would not run any more: set enabled = true", name)
		case !is.Enabled && t.Enabled:
			r.lose("task %s was disabled through the API, but the files say that it is enabled, and so it would run again: set enabled = false", name)
		}
		if s := running[name].Status; ok && (s == "errored" || s == "critical") {
			r.note("task %s fails where it runs now (%s)", name, s)
		}
	}
	for _, t := range cfg.Tasks {
		if _, ok := running[t.Name]; !ok {
			r.note("task %s is in the files but does not run there: they have changed since it was started", t.Name)
		}
	}
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Report) lose(format string, args ...any) {
	r.Lost = true
	r.note(format, args...)
}

// taskStatuses requests the tasks of an API, with the TLS settings of the
// configuration.
func taskStatuses(ctx context.Context, cfg *config.Config, address string) (map[string]apiclient.TaskStatus, error) {
	o := apiclient.Options{Address: address}
	if cfg.TLS.Enabled {
		o.CACert, o.CAPath = cfg.TLS.CACert, cfg.TLS.CAPath
	}
	if cfg.TLS.VerifyIncoming {
		o.Cert, o.Key = cfg.TLS.Cert, cfg.TLS.Key
	}
	client, err := apiclient.New(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	return client.TaskStatuses(ctx)
}
