package openmetrics

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
)

// maxNamed is how many tasks the metrics name at most: with thousands that fail for one cause, the
// counts say enough.
const maxNamed = 100

// led are the metrics that only the instance that leads has values for: it alone decides about all
// tasks, and delivers the events.
type led struct {
	now func() time.Time

	mu   sync.Mutex
	need []need
	left outbox.Backlog
}

// need is why a person should care for a task.
type need struct{ task, state string }

var (
	attention = prometheus.NewDesc("terrapulse_task_attention",
		"1 for each task that needs a person, by what it needs one for, on the instance that leads: 100 tasks at most.", []string{"task", "state"}, nil)
	undelivered = prometheus.NewDesc("terrapulse_events_undelivered",
		"Events that some sink has not taken; 0 on instances that stand by.", nil, nil)
	undeliveredAge = prometheus.NewDesc("terrapulse_events_undelivered_age_seconds",
		"Age of the oldest event that some sink has not taken; 0 without any, and on instances that stand by.", nil, nil)
)

// decided takes the tasks that need a person from a tick. The tasks that it left out need nobody.
func (l *led) decided(report reconcile.Report) {
	var all []need
	for _, d := range report.Decisions {
		if d.Task == nil {
			continue
		}
		var c state.TaskCounts
		reconcile.Count(&c, d)
		if c.Approval > 0 {
			all = append(all, need{d.Task.Name, "waiting_for_approval"})
		}
		for phase := range c.Phases {
			p := lifecycle.Phase(phase)
			if tone := p.Tone(); tone == lifecycle.Bad || tone == lifecycle.Ask && (p != lifecycle.Waiting || c.Approval == 0) {
				all = append(all, need{d.Task.Name, phase})
			}
		}
		if !d.State.Observed.UnreadableSince.IsZero() {
			all = append(all, need{d.Task.Name, "unreadable"})
		}
	}
	slices.SortFunc(all, func(a, b need) int { return cmp.Or(cmp.Compare(a.task, b.task), cmp.Compare(a.state, b.state)) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.need = all[:min(len(all), maxNamed)]
}

func (l *led) undelivered(left outbox.Backlog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = left
}

// forget is for an instance that stops leading.
func (l *led) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.need, l.left = nil, outbox.Backlog{}
}

// Describe implements prometheus.Collector.
func (l *led) Describe(out chan<- *prometheus.Desc) {
	out <- attention
	out <- undelivered
	out <- undeliveredAge
}

// Collect implements prometheus.Collector.
func (l *led) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.need {
		out <- prometheus.MustNewConstMetric(attention, prometheus.GaugeValue, 1, n.task, n.state)
	}
	age := 0.0
	if !l.left.Oldest.IsZero() {
		age = max(0, l.now().Sub(l.left.Oldest).Seconds())
	}
	out <- prometheus.MustNewConstMetric(undelivered, prometheus.GaugeValue, float64(l.left.Events))
	out <- prometheus.MustNewConstMetric(undeliveredAge, prometheus.GaugeValue, age)
}
