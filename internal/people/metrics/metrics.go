// Package metrics writes CloudWatch metrics as log lines in the embedded metric format: this needs
// no request, no right and no waiting.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
package metrics

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// Namespace is the namespace of the metrics in CloudWatch. Their only dimension is Stack: a metric
// for each task would cost as much as everything else together.
const Namespace = "Terrapulse"

// Metric is one metric: its name and CloudWatch's unit.
type Metric struct{ Name, Unit string }

// Every tick writes the metrics of ticks, so that alarms can react to their absence. The others are
// written only if there is something to count.
var (
	Ticks           = Metric{"Ticks", "Count"}
	IdleTicks       = Metric{"IdleTicks", "Count"}
	GoodTicks       = Metric{"GoodTicks", "Count"}         // read every view, and launched what it decided
	LastGoodTickAge = Metric{"LastGoodTickAge", "Seconds"} // 0 by a good tick
	FailuresInARow  = Metric{"FailuresInARow", "Count"}    // of the task that has most; by ticks that have read the tasks
	TasksApproval   = Metric{"TasksWaitingForApproval", "Count"}
	TasksUnreadable = Metric{"TasksUnreadable", "Count"} // whose conditions Consul does not show; as long as there are any
	TasksUnpolled   = Metric{"TasksUnpolled", "Count"}   // whose runs in another system cannot be polled; the same

	Paused        = Metric{"Paused", "Count"}      // by every tick, as long as everything is paused
	ChangesSeen   = Metric{"ChangesSeen", "Count"} // tasks whose condition was found changed
	ConsulErrors  = Metric{"ConsulErrors", "Count"}
	LeaseRefused  = Metric{"LeaseRefused", "Count"}
	BundleRefused = Metric{"BundleRefused", "Count"} // by every tick, as long as it is so

	LaunchesTaken   = Metric{"LaunchesTaken", "Count"}   // by containers that lingered
	OffersWithdrawn = Metric{"OffersWithdrawn", "Count"} // such a container did not take the launch in time
	LingerSeconds   = Metric{"LingerSeconds", "Seconds"} // that a container waited for a launch

	RunsSucceeded        = Metric{"RunsSucceeded", "Count"}
	RunsFailed           = Metric{"RunsFailed", "Count"}
	RunsInterrupted      = Metric{"RunsInterrupted", "Count"}
	RunsLost             = Metric{"RunsLost", "Count"}
	RunSeconds           = Metric{"RunSeconds", "Seconds"}
	SeenToAppliedSeconds = Metric{"SeenToAppliedSeconds", "Seconds"} // from when a change was first seen
	ResourcesDestroyed   = Metric{"ResourcesDestroyed", "Count"}     // by runs that destroyed some

	RequestsFailed = Metric{"RequestsFailed", "Count"} // requests to the API that it could not answer
)

// TasksIn counts the tasks in a phase; it is written as long as there are any.
func TasksIn(p lifecycle.Phase) Metric {
	return Metric{"Tasks" + strings.ToUpper(string(p[:1])) + string(p[1:]), "Count"}
}

// All lists every metric.
var All = append([]Metric{
	Ticks, IdleTicks, GoodTicks, LastGoodTickAge, FailuresInARow, TasksApproval, TasksUnreadable, TasksUnpolled, Paused, ChangesSeen, ConsulErrors, LeaseRefused, BundleRefused,
	LaunchesTaken, OffersWithdrawn, LingerSeconds,
	RunsSucceeded, RunsFailed, RunsInterrupted, RunsLost, RunSeconds, SeenToAppliedSeconds, ResourcesDestroyed, RequestsFailed,
}, tasksInPhases()...)

func tasksInPhases() (all []Metric) {
	for _, row := range lifecycle.Phases {
		if row.Counted {
			all = append(all, TasksIn(row.Phase))
		}
	}
	return all
}

// Values are measured values.
type Values map[Metric]float64

// Writer writes metrics. It is safe for concurrent use; nil writes nothing.
type Writer struct {
	mu    sync.Mutex
	out   io.Writer
	stack string
}

// New returns a Writer of the metrics of a stack to its log.
func New(out io.Writer, stack string) *Writer { return &Writer{out: out, stack: stack} }

// Write writes the values measured at a time as one line. Without values it writes nothing.
func (w *Writer) Write(now time.Time, values Values) error {
	if w == nil || len(values) == 0 {
		return nil
	}
	type definition struct{ Name, Unit string }
	var definitions []definition
	line := map[string]any{"Stack": w.stack}
	for _, m := range All {
		if v, ok := values[m]; ok {
			definitions = append(definitions, definition(m))
			line[m.Name] = v
		}
	}
	line["_aws"] = map[string]any{
		"Timestamp": now.UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace": Namespace, "Dimensions": [][]string{{"Stack"}}, "Metrics": definitions,
		}},
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(text, '\n'))
	return err
}
