package config

import (
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/record/notify"
)

// notify returns the notify blocks.
func (l *loader) notify(raw *rawConfig, cfg *Config) []notify.Spec {
	var all []notify.Spec
	for i := range raw.Notify {
		l.fill(&raw.Notify[i], "")
		all = append(all, raw.Notify[i].Specs(&l.Report)...)
	}
	notify.Unique(&l.Report, all)
	for _, s := range all {
		for _, v := range s.Values() {
			at := block.Origin{Pos: s.At.Pos, Path: v.Key}
			switch {
			case IsTemplate(v.Text):
				l.template(&node{kind: kindString, text: v.Text, pos: at.Pos}, at.Path, cfg.Vault.Enabled)
			case strings.Contains(v.Text, "{{"):
				l.Fail(at, "the template looks nothing up", `such as {{ env "WEBHOOK_SECRET" }}`)
			}
		}
		for _, name := range s.Tasks {
			if _, ok := cfg.Task(name); !ok && !strings.HasSuffix(name, "*") {
				l.Warn(s.At.Key("tasks"), "no task file has the task "+block.Quoted(name), "correct the name, unless the task is created through the API")
			}
		}
	}
	return all
}
