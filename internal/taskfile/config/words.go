package config

import (
	"fmt"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// Watches says in words what starts runs of the task, and what its module gets besides.
func (t *Task) Watches() string {
	var texts []string
	if t.Condition.Spec != nil {
		texts = append(texts, t.Condition.Spec.String())
	}
	for _, input := range t.ModuleInputs {
		texts = append(texts, "also reads "+input.String())
	}
	return strings.Join(texts, "; ")
}

// Feeds are what the condition and the module inputs read.
func (t *Task) Feeds() (all []condition.Feed) {
	if t.Condition.Spec != nil {
		all = t.Condition.Spec.Feeds()
	}
	for _, input := range t.ModuleInputs {
		all = append(all, input.Feeds()...)
	}
	return all
}

// Settings says in words what else is in force for the task, wherever it is configured,
// beside its guards, windows, checks and approvals.
func (t *Task) Settings() []string {
	buffer := "a change is applied at once"
	if b := t.BufferPeriod; b.Enabled {
		buffer = fmt.Sprintf("a change is applied when nothing more has changed for %s, at the latest after %s", block.Brief(b.Min), block.Brief(b.Max))
	}
	settings := []string{buffer, t.Removal.String(), t.Drift.String()}
	for _, v := range verify.Active(t.Verify) {
		settings = append(settings, v.String())
	}
	if t.RunTimeout > 0 {
		settings = append(settings, "a run ends after "+block.Brief(t.RunTimeout))
	}
	if len(t.After) > 0 {
		after := "runs only while these tasks have nothing to apply: " + strings.Join(t.After, ", ")
		if t.AfterTimeout > 0 {
			after += "; if that takes more than " + block.Brief(t.AfterTimeout) + ", this is reported"
		}
		settings = append(settings, after)
	}
	if t.AWSRole != "" {
		settings = append(settings, "Terraform assumes the AWS role "+t.AWSRole)
	}
	return settings
}
