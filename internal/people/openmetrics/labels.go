package openmetrics

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// noLabel matches what a label of Prometheus cannot have in its name.
var noLabel = regexp.MustCompile(`[^A-Za-z0-9_]`)

// readLabels makes the metric with the labels of each task that has some. If the configuration cannot be
// read, those of before stay.
func (s *shared) readLabels(ctx context.Context) {
	tasks, err := s.Tasks(ctx, s.rec.Overrides)
	if err != nil || len(tasks) == len(s.tasks) && len(tasks) > 0 && &tasks[0] == &s.tasks[0] {
		return // a configuration never changes: this one is the same
	}
	s.tasks, s.labelled = tasks, nil
	for i := range tasks {
		if t := &tasks[i]; len(t.Labels) > 0 {
			s.labelled = append(s.labelled, labelsOf(t))
		}
	}
}

// labelsOf is a metric whose labels are those of a task, named as kube-state-metrics names the labels of
// objects: label_site for site. Names that would be the same get a number.
func labelsOf(t *config.Task) prometheus.Metric {
	keys, same := slices.Sorted(maps.Keys(t.Labels)), map[string]int{}
	for _, key := range keys {
		same[nameOf(key)]++
	}
	names, values, nth := []string{"task"}, []string{t.Name}, map[string]int{}
	for _, key := range keys {
		name := nameOf(key)
		if nth[name]++; same[name] > 1 {
			names = append(names, fmt.Sprintf("%s_conflict%d", name, nth[name]))
		} else {
			names = append(names, name)
		}
		values = append(values, t.Labels[key])
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc("terrapulse_task_labels", "Always 1; the labels of a task that has some, to join with other metrics by task.", names, nil), prometheus.GaugeValue, 1, values...)
}

// nameOf is the name of a label of a task as Prometheus takes it.
func nameOf(key string) string { return "label_" + noLabel.ReplaceAllString(key, "_") }
