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

// taskLabels returns the labels of a task; nil if it has none.
func (l *loader) taskLabels(raw *rawTask) map[string]string {
	if n := len(raw.Labels.V); n > maxLabels {
		l.Fail(raw.Labels.Origin, fmt.Sprintf("the task has %d labels", n), fmt.Sprintf("give it at most %d", maxLabels))
	}
	for _, key := range slices.Sorted(maps.Keys(raw.Labels.V)) {
		if !labelForm.MatchString(key) {
			l.Fail(raw.Labels.Entry(key), "not a key of a label: "+block.Quoted(key), labelHint)
		} else if value := raw.Labels.V[key]; !labelForm.MatchString(value) {
			l.Fail(raw.Labels.Entry(key), fmt.Sprintf("not a value of the label %s: %s", key, block.Quoted(value)), labelHint)
		}
	}
	if len(raw.Labels.V) == 0 {
		return nil
	}
	return raw.Labels.V
}
