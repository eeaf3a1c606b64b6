package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

const (
	// maxLabels is how many labels a task has at most.
	maxLabels = 16
	// labelPattern is the form of keys and values of labels: they are in URLs, and in flags between = and commas.
	labelPattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`
	labelHint    = "use 1 to 63 letters (a-z), digits, '.', '_' and '-', the first of them a letter or a digit"
)

var labelForm = regexp.MustCompile(labelPattern)

// labelsOf returns the labels of a task or a grant; nil if it has none.
func (l *loader) labelsOf(owner string, raw *block.Map) map[string]string {
	if n := len(raw.V); n > maxLabels {
		l.Fail(raw.Origin, fmt.Sprintf("the %s has %d labels", owner, n), fmt.Sprintf("give it at most %d", maxLabels))
	}
	for _, key := range slices.Sorted(maps.Keys(raw.V)) {
		if !labelForm.MatchString(key) {
			l.Fail(raw.Entry(key), "not a key of a label: "+block.Quoted(key), labelHint)
		} else if value := raw.V[key]; !labelForm.MatchString(value) {
			l.Fail(raw.Entry(key), fmt.Sprintf("not a value of the label %s: %s", key, block.Quoted(value)), labelHint)
		}
	}
	if len(raw.V) == 0 {
		return nil
	}
	return raw.V
}

// LabelsInFiles returns the labels that a task file gives a task. A task that no file has has none here: who
// makes a task through the API must not gain rights by its labels.
func (c *Config) LabelsInFiles(task string) map[string]string {
	if t, ok := c.Task(task); ok && !t.FromAPI {
		return t.Labels
	}
	return nil
}
