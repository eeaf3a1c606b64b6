// Package openmetrics provides metrics of an instance for Prometheus. Runs and ticks
// are counted in memory; metrics that all instances share are read from the store
// only for a scrape.
//
// It is for `terrapulse start`. In AWS, package metrics writes the same numbers to
// CloudWatch, because this package's library would make the functions larger.
package openmetrics

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/terrapulse/terrapulse/internal/engine/decide"
	"github.com/terrapulse/terrapulse/internal/engine/reconcile"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// How a scrape reads the store.
const (
	keepFor  = 5 * time.Second // how long a read record is used for further scrapes
	readTime = 5 * time.Second // limit of one read
)

// seconds are the upper bounds of histograms: a small apply takes half a second,
// and run_timeout is an hour.
var seconds = []float64{0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600}

// Metrics are the metrics of one instance. It is safe for concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	leader    prometheus.Gauge
	ticks     *prometheus.CounterVec
	seen      prometheus.Counter
	runs      *prometheus.CounterVec
	resources *prometheus.CounterVec
	duration  prometheus.Histogram
	toApplied prometheus.Histogram
	led       *led
}

// Options are the dependencies of Metrics.
type Options struct {
	Version, Commit string
	URL             string // at which people reach the pages; "" if it is not configured
	Store           state.Store
	Now             func() time.Time
	// Room returns how many runs this instance carries out at a time, and how many more it can
	// begin now; nil where there are no other instances to share with.
	Room func() (parallel, room int)
	// Tasks returns the tasks of the configuration with the latest change of them through the API; nil shows no labels.
	Tasks func(ctx context.Context, change string) ([]config.Task, error)
}

// New returns metrics with the value 0.
func New(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{Name: "terrapulse_leader",
			Help: "1 if this instance leads, 0 if it stands by."}),
		ticks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "terrapulse_ticks_total",
			Help: "Ticks of this instance by result: idle, done, incomplete (Consul or the launcher failed) or failed."}, []string{"result"}),
		seen: prometheus.NewCounter(prometheus.CounterOpts{Name: "terrapulse_changes_seen_total",
			Help: "Changes of conditions that this instance started a run for."}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "terrapulse_runs_total",
			Help: "Runs that ended on this instance by task and outcome; lost runs are counted by the leader."}, []string{"task", "outcome"}),
		resources: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "terrapulse_resources_total",
			Help: "Resources that runs on this instance added, changed or destroyed, by task and action."}, []string{"task", "action"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "terrapulse_run_duration_seconds",
			Help: "How long runs took on this instance.", Buckets: seconds}),
		toApplied: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "terrapulse_change_to_applied_seconds",
			Help: "Time from when a change was first seen in Consul until it was applied.", Buckets: seconds}),
		led: &led{now: o.Now},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "terrapulse_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": o.Version, "commit": o.Commit, "go_version": runtime.Version()}})
	build.Set(1)
	if o.URL != "" {
		pages := prometheus.NewGauge(prometheus.GaugeOpts{Name: "terrapulse_pages_info", Help: "Always 1; the label says where the pages are (api.url).",
			ConstLabels: prometheus.Labels{"url": o.URL}})
		pages.Set(1)
		m.registry.MustRegister(pages)
	}
	for _, result := range []string{tickIdle, tickDone, tickIncomplete, tickFailed} {
		m.ticks.WithLabelValues(result) // so that a rate begins at 0
	}
	if o.Room != nil {
		m.registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "terrapulse_parallel", Help: "Runs that this instance of a cluster carries out at a time."},
				func() float64 { parallel, _ := o.Room(); return float64(parallel) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "terrapulse_room", Help: "Runs that this instance of a cluster can begin now."},
				func() float64 { _, room := o.Room(); return float64(room) }))
	}
	m.registry.MustRegister(m.leader, m.ticks, m.seen, m.runs, m.resources, m.duration, m.toApplied, build, m.led, &shared{Options: o},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers scrapes in the text format of Prometheus or in OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// RunEnded counts a run whose outcome was recorded. Runs that are not in their task's history are not counted.
func (m *Metrics) RunEnded(run state.Run) {
	if !run.Kind.Occupies() || !run.State.Ended() {
		return
	}
	m.runs.WithLabelValues(run.Task, string(run.State)).Inc()
	if !run.Started.IsZero() && run.State != state.RunSuperseded {
		m.duration.Observe(run.Worked(run.Ended).Seconds())
	}
	if run.State == state.RunSucceeded && !run.Seen.IsZero() {
		m.toApplied.Observe(max(0, (run.Ended.Sub(run.Seen) - run.Waited).Seconds()))
	}
	if ch := run.Changes; ch != nil {
		m.resources.WithLabelValues(run.Task, "added").Add(float64(ch.Add))
		m.resources.WithLabelValues(run.Task, "changed").Add(float64(ch.Change))
		m.resources.WithLabelValues(run.Task, "destroyed").Add(float64(ch.Destroy))
	}
}

// The results of a tick.
const (
	tickIdle       = "idle"
	tickDone       = "done"
	tickIncomplete = "incomplete"
	tickFailed     = "failed"
)

// Ticked counts a tick of the leader.
func (m *Metrics) Ticked(report reconcile.Report, err error) {
	result := tickDone
	switch {
	case err != nil:
		result = tickFailed
	case report.Record.ConsulError != "" || report.Stalled != nil:
		result = tickIncomplete
	case report.Idle:
		result = tickIdle
	}
	m.ticks.WithLabelValues(result).Inc()
	if err == nil && !report.Idle {
		m.led.decided(report)
	}
	for _, d := range report.Decisions {
		if d.Reason.Code == state.ReasonChanged && d.Action == decide.Run {
			m.seen.Inc()
		}
		if d.Lost != nil {
			m.runs.WithLabelValues(d.Lost.Task, string(state.RunLost)).Inc()
		}
	}
}

// Leads sets whether this instance leads.
func (m *Metrics) Leads(leads bool) {
	m.leader.Set(0)
	if leads {
		m.leader.Set(1)
	} else {
		m.led.forget()
	}
}

// Backlog sets which events this instance has not delivered.
func (m *Metrics) Backlog(left outbox.Backlog) { m.led.undelivered(left) }

// shared are the metrics that all instances on a store share. They are in one record, which every
// tick of the leader updates.
type shared struct {
	Options

	mu   sync.Mutex
	read time.Time // when rec was read
	rec  state.Reconcile
	err  error

	tasks    []config.Task       // at that time
	labelled []prometheus.Metric // their labels
}

// Describe implements prometheus.Collector. It names no metrics, because most of them are missing
// while the store cannot be read.
func (s *shared) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A scrape reads one record, or none shortly after another
// scrape.
func (s *shared) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.Now(); s.read.IsZero() || now.Sub(s.read) >= keepFor || now.Before(s.read) {
		ctx, cancel := context.WithTimeout(context.Background(), readTime)
		rec, err := state.Read[state.Reconcile](ctx, s.Store, state.ReconcileKey)
		s.rec, s.err, s.read = rec.Data, err, now
		if s.Tasks != nil && err == nil {
			s.readLabels(ctx)
		}
		cancel()
	}
	gauge := func(name string, v float64, help string) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("terrapulse_"+name, help, nil, nil), prometheus.GaugeValue, v)
	}
	const up = "1 if the store could be read for this scrape; the metrics of tasks and of the last good tick are missing otherwise."
	if s.err != nil {
		gauge("store_up", 0, up)
		return
	}
	gauge("store_up", 1, up)
	for _, task := range s.labelled {
		out <- task
	}
	if !s.rec.LastSuccess.IsZero() {
		gauge("last_good_tick_age_seconds", max(0, s.Now().Sub(s.rec.LastSuccess).Seconds()),
			"Seconds since a tick last read all of Consul and launched what it decided; a tick without changes notes it every 5 minutes. Missing before the first one.")
	}
	paused := 0.0
	if s.rec.Paused != nil {
		paused = 1
	}
	gauge("paused", paused, "1 if everything is paused: no run begins until somebody resumes.")
	for _, row := range lifecycle.Phases {
		if row.Counted {
			gauge("tasks_"+string(row.Phase), float64(s.rec.Tasks.Phases[string(row.Phase)]), "Enabled tasks in this phase. "+row.Means)
		}
	}
	gauge("tasks_waiting_for_approval", float64(s.rec.Tasks.Approval), "Enabled tasks whose plan waits to be approved.")
	unreadable := 0
	if s.rec.Unreadable != nil {
		unreadable = s.rec.Unreadable.Count
	}
	gauge("tasks_unreadable", float64(unreadable), "Enabled tasks whose conditions Consul does not show.")
	unpolled := 0
	if s.rec.Unpolled != nil {
		unpolled = s.rec.Unpolled.Count
	}
	gauge("tasks_unpolled", float64(unpolled), "Tasks that wait for a run in another system which cannot be polled.")
	gauge("failures_in_a_row", float64(s.rec.Failing), "Runs in a row that failed or were lost, of the task that has most.")
}
