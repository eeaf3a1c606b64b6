package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/terrapulse/terrapulse/internal/aws/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/people/metrics"
	"github.com/terrapulse/terrapulse/internal/record/orphan"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// handler settles the runs of stopped tasks.
type handler struct {
	store   state.Store
	cluster string // ARN, or name
	family  string // of the task definition
	// proceed invokes functions/reconcile for one tick, without waiting for it.
	proceed func(ctx context.Context) error
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics.Writer
}

// handle processes one event. Events come late, twice and out of order. That does not
// matter: STOPPED is a task's last status, and settling is idempotent.
//
// It returns an error if a retry may help: Lambda retries asynchronous events. Events
// of other tasks are logged and dropped, because a retry would not change them.
func (h *handler) handle(ctx context.Context, payload json.RawMessage) error {
	task, err := h.read(payload)
	if err != nil {
		h.log.Error("event dropped", "error", err, "event", fmt.Sprintf("%.500s", payload)) // enough to recognise it
		return nil
	}
	container := h.log.With("ecs_task", task.ID())
	log := container.With("launch", task.Launch()) // that the task was started for
	if task.LastStatus != ecstask.Stopped {
		log.Debug("the task has not stopped", "status", task.LastStatus)
		return nil
	}

	why := task.Why()
	lost, err := orphan.Runs(ctx, h.store, orphan.Stopped{Launch: task.Launch(), Runner: task.ID(), Why: why}, h.now())
	for _, run := range lost {
		container.Warn("a run was lost", "task", run.Task, "run", run.ID, "fence", run.Fence, "cause", why)
	}
	if len(lost) > 0 {
		if err := h.metrics.Write(h.now(), metrics.Values{metrics.RunsLost: float64(len(lost))}); err != nil {
			log.Warn("metrics not written", "error", err)
		}
	}
	if err != nil {
		return fmt.Errorf("settle launch %s, whose task %s stopped: %w", task.Launch(), task.ID(), err)
	}
	log.Info("launch settled", "lost", len(lost), "stopped", why)

	// Also if nothing was lost: now there may be capacity for a waiting launch, and a change that
	// came while its task ran can proceed at once, not at the next minute. This costs one tick per
	// container.
	if err := h.proceed(ctx); err != nil {
		return fmt.Errorf("invoke functions/reconcile after launch %s: %w", task.Launch(), err)
	}
	return nil
}

// read returns the task of an event, if it belongs to this stack.
func (h *handler) read(payload []byte) (ecstask.Task, error) {
	var event events.CloudWatchEvent
	var task ecstask.Task
	if err := json.Unmarshal(payload, &event); err != nil {
		return task, fmt.Errorf("it is not an event of EventBridge: %w", err)
	}
	if event.Source != "aws.ecs" || event.DetailType != "ECS Task State Change" {
		return task, fmt.Errorf("it is not a task state change of ECS but %.40q from %.40q: check the rule in the template", event.DetailType, event.Source)
	}
	if err := json.Unmarshal(event.Detail, &task); err != nil {
		return task, fmt.Errorf("its detail cannot be decoded: %w", err)
	}
	switch {
	case task.ID() == "" || task.LastStatus == "":
		return task, errors.New("its detail has no task, or no status")
	case task.Cluster != h.cluster && !strings.HasSuffix(task.Cluster, ":cluster/"+h.cluster):
		return task, fmt.Errorf("it is of cluster %s, not %s: check the rule in the template", task.Cluster, h.cluster)
	case ecstask.Family(task.TaskDefinition) != h.family:
		return task, fmt.Errorf("it is of task definition %s, not of family %s: check the rule in the template", task.TaskDefinition, h.family)
	case task.Launch() == "":
		return task, fmt.Errorf("task %s was not started by Terrapulse: it has no launch", task.ID())
	}
	return task, nil
}
