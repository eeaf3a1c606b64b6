package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/drift"
	"github.com/terrapulse/terrapulse/internal/rules/guard"
	"github.com/terrapulse/terrapulse/internal/rules/policycheck"
	"github.com/terrapulse/terrapulse/internal/rules/removal"
	"github.com/terrapulse/terrapulse/internal/rules/verify"
	"github.com/terrapulse/terrapulse/internal/rules/window"
)

// rawRules are the keys of the rules: what may be applied without a person, and when.
// The whole configuration has them, and each task may override them.
type rawRules struct {
	Guard guard.Keys `key:"guard" doc:"holds a change that removes or destroys too much"`
	approval.Keys
	removalKeys
	Windows []window.Keys      `key:"window" doc:"when changes may be applied; the windows of a task replace the global windows"`
	Checks  []policycheck.Keys `key:"check" doc:"programs that judge each plan; a task also has the global checks"`
	Drift   drift.Keys         `key:"drift" doc:"checks whether the infrastructure differs from what was applied last"`
	Verify  []verify.Keys      `key:"verify" doc:"tests after an apply whether it works; a task also has the global verifications"`
}

type removalKeys = removal.Keys // an embedded field has the name of its type

// Rules say what may be applied without a person, and when. They are no part of what
// is applied: a rule that changes runs no task.
type Rules struct {
	Guard    guard.Spec
	Approval approval.Spec
	Removal  removal.Spec
	Windows  []window.Window // at any time if empty
	Checks   []policycheck.Spec
	Drift    drift.Spec
	Verify   []verify.Spec
}

// defaultRules are those of a configuration that has none.
var defaultRules = Rules{Guard: guard.Default, Approval: approval.Default, Removal: removal.Default, Drift: drift.Default}

// rules checks the keys. A key that is not set has the value of parent; the windows
// are one value, and a check changes the one of the same name.
func (l *loader) rules(raw *rawRules, parent Rules, api API) Rules {
	rules := Rules{
		Guard:    raw.Guard.Spec(&l.Report, parent.Guard),
		Approval: raw.Keys.Spec(&l.Report, parent.Approval),
		Removal:  raw.removalKeys.Spec(&l.Report, parent.Removal),
		Windows:  parent.Windows,
		Drift:    raw.Drift.Spec(&l.Report, parent.Drift),
	}
	if !l.fromAPI || !l.Existing { // a stored task stays valid without its people
		l.approvers(&raw.Approval, rules.Approval, api)
	}
	if raw.Windows != nil { // also if it is empty
		rules.Windows = window.Specs(&l.Report, raw.Windows)
	}
	read := func(files []string) (string, error) { return policycheck.Content(l.Dir, files) }
	if l.fromAPI {
		read = nil // in AWS, they are only in the container
	}
	rules.Checks = policycheck.Specs(&l.Report, raw.Checks, parent.Checks, read)
	rules.Verify = verify.Specs(&l.Report, raw.Verify, parent.Verify)
	return rules
}

// meaning is the canonical form of the rules, by the names that people read.
func (r *Rules) meaning() meaning {
	m := meaning{}
	if r.Guard != defaultRules.Guard {
		m.set("guard", r.Guard)
	}
	if !r.Approval.Equal(defaultRules.Approval) {
		m.set("approval", r.Approval)
	}
	if r.Removal != defaultRules.Removal {
		m.set("on_removal", r.Removal)
	}
	if len(r.Windows) > 0 {
		m["window"] = json.RawMessage(jsonOf(r.Windows)) // without what is derived from the keys
	}
	if len(r.Checks) > 0 {
		m["check"] = json.RawMessage(jsonOf(r.Checks))
	}
	if !r.Drift.Same(defaultRules.Drift) {
		m.set("drift", r.Drift)
	}
	if len(r.Verify) > 0 {
		m["verify"] = json.RawMessage(jsonOf(r.Verify))
	}
	return m
}

// RulesDigest identifies the rules that judge the runs of the task, in hex SHA-256.
// They are no part of its Digest: a waiting run is judged anew if they change.
func (t *Task) RulesDigest() string {
	m := t.Rules.meaning()
	delete(m, "drift") // it judges no run
	delete(m, "verify")
	return m.digest()
}

// PlansFirst reports whether the task's rules judge a plan before it is applied.
func (r *Rules) PlansFirst() bool {
	return r.Approval.Rule == approval.Always || r.Approval.Rule == approval.Destructive || r.Guard.PlanLimited() ||
		len(policycheck.Active(r.Checks)) > 0
}

// PlansDestroyFirst is PlansFirst for a run that destroys what the task has made.
func (r *Rules) PlansDestroyFirst() bool {
	return r.Removal.Destroy() != "" || len(policycheck.Active(r.Checks)) > 0
}

// writtenKeys returns the keys of a block that a file sets, with their values; nil if
// there are none.
func writtenKeys(b reflect.Value) map[string]any {
	var keys map[string]any
	set := func(name string, value any) {
		if keys == nil {
			keys = map[string]any{}
		}
		keys[name] = value
	}
	for _, k := range schemaOf(b.Type()).keys {
		switch v := k.in(b); {
		case hasLabels(v.Type()) && !v.IsNil():
			blocks := map[string]any{}
			for i := range v.Len() {
				inside := writtenKeys(v.Index(i))
				if inside == nil {
					inside = map[string]any{}
				}
				blocks[v.Index(i).FieldByName("Label").String()] = inside
			}
			set(k.name, blocks)
		case v.Kind() == reflect.Slice && !v.IsNil():
			blocks := make([]any, v.Len())
			for i := range blocks {
				blocks[i] = writtenKeys(v.Index(i))
			}
			set(k.name, blocks)
		case v.Kind() == reflect.Slice:
		case k.field:
			if value := fieldOf(v).(interface{ written() any }).written(); value != nil {
				set(k.name, value)
			}
		default:
			inside := writtenKeys(v)
			switch short, is := inside[k.short]; {
			case is && len(inside) == 1:
				set(k.name, short)
			case inside != nil:
				set(k.name, inside)
			}
		}
	}
	return keys
}

// LastMayGo says which tasks apply the loss of their last entry without an approval; "" if none does. An approval
// of what is destroyed does not help where the loss changes a resource.
func (c *Config) LastMayGo() string {
	var names []string
	for i := range c.Tasks {
		if t := &c.Tasks[i]; t.Approval.Rule != approval.Always && t.Guard.LastMayGo() {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	shown := strings.Join(names[:min(len(names), 5)], ", ")
	if more := len(names) - 5; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return "the loss of the last entry is applied without an approval (guard { on_empty = \"hold\" } holds it): " + shown
}
