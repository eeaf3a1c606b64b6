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

	"github.com/terrapulse/terrapulse/internal/launch/ecs/ecstask"
	"github.com/terrapulse/terrapulse/internal/metrics"
	"github.com/terrapulse/terrapulse/internal/reconcile"
	"github.com/terrapulse/terrapulse/internal/state"
)

// handler settles the runs of tasks that have stopped.
type handler struct {
	store   state.Store
	cluster string // ARN, or name
	family  string // of the task definition
	// proceed has functions/reconcile look at once, and does not wait for it.
	// It is nil where the schedule is disabled: nothing is to look then.
	proceed func(ctx context.Context) error
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics.Writer
}

// handle takes one event. They come late, twice and out of order: STOPPED is a
// task's last status and settling is idempotent, so that none of it matters.
//
// Its error is for what another attempt may do better: Lambda tries events
// again that come asynchronously. What is no event of a task of this stack is
// logged and dropped, as it would be the same then.
func (h *handler) handle(ctx context.Context, payload json.RawMessage) error {
	task, err := h.read(payload)
	if err != nil {
		h.log.Error("event dropped", "error", err, "event", start(payload))
		return nil
	}
	log := h.log.With("launch", task.Launch(), "ecs_task", task.ID())
	if task.LastStatus != ecstask.Stopped {
		log.Debug("the task has not stopped", "status", task.LastStatus)
		return nil
	}

	why := task.Why()
	lost, err := reconcile.Settle(ctx, h.store, reconcile.Stopped{Launch: task.Launch(), Runner: task.ID(), Why: why}, h.now())
	for _, run := range lost {
		log.Warn("a run was lost", "task", run.Task, "run", run.ID, "fence", run.Fence, "cause", why)
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
	if h.proceed == nil {
		log.Info("what follows is not looked at: ScheduleState is DISABLED")
		return nil
	}

	// Also where nothing was lost: there is room for a launch that had to wait,
	// and a change that came while its task was run goes on now, not at the
	// next minute. It is one tick for each container.
	if err := h.proceed(ctx); err != nil {
		return fmt.Errorf("have functions/reconcile decide anew after launch %s: %w", task.Launch(), err)
	}
	return nil
}

// read returns the task that an event tells of, if it is one of this stack.
func (h *handler) read(payload []byte) (ecstask.Task, error) {
	var event events.CloudWatchEvent
	var task ecstask.Task
	if err := json.Unmarshal(payload, &event); err != nil {
		return task, fmt.Errorf("it is no event of EventBridge: %w", err)
	}
	if event.Source != "aws.ecs" || event.DetailType != "ECS Task State Change" {
		return task, fmt.Errorf("it is no task state change of ECS but %.40q from %.40q: look at the rule in the template", event.DetailType, event.Source)
	}
	if err := json.Unmarshal(event.Detail, &task); err != nil {
		return task, fmt.Errorf("its detail is not understood: %w", err)
	}
	switch {
	case task.ID() == "" || task.LastStatus == "":
		return task, errors.New("its detail names no task, or not its status")
	case task.Cluster != h.cluster && !strings.HasSuffix(task.Cluster, ":cluster/"+h.cluster):
		return task, fmt.Errorf("it is of cluster %s, not %s: look at the rule in the template", task.Cluster, h.cluster)
	case ecstask.Family(task.TaskDefinition) != h.family:
		return task, fmt.Errorf("it is of task definition %s, not of family %s: look at the rule in the template", task.TaskDefinition, h.family)
	case task.Launch() == "":
		return task, fmt.Errorf("task %s was not started by Terrapulse: it names no launch", task.ID())
	}
	return task, nil
}

// start is enough of an event to recognise it.
func start(payload []byte) string {
	const most = 500
	return strings.ToValidUTF8(string(payload[:min(len(payload), most)]), "")
}
