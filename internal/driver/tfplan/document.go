package tfplan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	tfjson "github.com/hashicorp/terraform-json"
)

// Document returns Terraform's plan in Terraform's own JSON format, for programs that judge it. It has the
// parts in which Terraform marks what is sensitive, which is hidden; all else is as it is. Constants in
// the configuration have no such marks: all of them are hidden.
func Document(p *tfjson.Plan) (json.RawMessage, error) {
	format, err := version.NewVersion(p.FormatVersion)
	if err != nil {
		return nil, fmt.Errorf("read the plan: its format version: %w", err)
	}
	s := sanitizer{clean: func(text string) string { return text }, hideAll: format.LessThan(marksAll), whole: true}
	doc := tfjson.Plan{
		FormatVersion: p.FormatVersion, TerraformVersion: p.TerraformVersion, Timestamp: p.Timestamp, Complete: p.Complete,
		Variables: map[string]*tfjson.PlanVariable{}, OutputChanges: map[string]*tfjson.Change{}, Config: p.Config,
	}
	public := publicVariables(p.Config)
	for name, v := range p.Variables {
		doc.Variables[name] = &tfjson.PlanVariable{Value: s.shown(side{v.Value, s.hideAll || !public[name]})}
	}
	marks := map[string]any{} // of the resources that change, by address
	for _, r := range slices.Concat(p.ResourceChanges, p.ResourceDrift) {
		if r.Change != nil {
			marks[r.Address] = union(marks[r.Address], union(r.Change.BeforeSensitive, r.Change.AfterSensitive))
		}
	}
	doc.ResourceChanges, doc.ResourceDrift = s.changes(p.ResourceChanges), s.changes(p.ResourceDrift)
	for _, i := range p.ActionInvocations {
		copied := *i
		copied.ConfigValues = s.shown(side{i.ConfigValues, i.ConfigSensitive})
		doc.ActionInvocations = append(doc.ActionInvocations, &copied)
	}
	for name, c := range p.OutputChanges {
		doc.OutputChanges[name] = s.change(c)
	}
	doc.PlannedValues = s.values(p.PlannedValues, marks)
	if p.PriorState != nil {
		prior := *p.PriorState
		prior.Values, prior.Checks = s.values(prior.Values, marks), nil
		doc.PriorState = &prior
	}
	return s.encode(&doc)
}

// publicVariables are the variables of the root module that are given only to variables
// of a module that are not sensitive. The others are for providers, and may be secret.
func publicVariables(c *tfjson.Config) map[string]bool {
	public, secret := map[string]bool{}, map[string]bool{}
	if c == nil || c.RootModule == nil {
		return public
	}
	for _, call := range c.RootModule.ModuleCalls {
		for to, e := range call.Expressions {
			if e == nil || e.ExpressionData == nil || call.Module == nil {
				continue
			}
			for _, reference := range e.References {
				name := strings.TrimPrefix(reference, "var.")
				target, declared := call.Module.Variables[to], c.RootModule.Variables[name]
				if target == nil || target.Sensitive || declared == nil || declared.Sensitive {
					secret[name] = true
				} else {
					public[name] = true
				}
			}
		}
	}
	maps.DeleteFunc(public, func(name string, _ bool) bool { return secret[name] })
	return public
}

func (s sanitizer) changes(all []*tfjson.ResourceChange) []*tfjson.ResourceChange {
	clean := make([]*tfjson.ResourceChange, len(all))
	for i, r := range all {
		copied := *r
		copied.Change = s.change(r.Change)
		clean[i] = &copied
	}
	return clean
}

// change returns a change without secrets: a value that is sensitive before or after
// is hidden on both sides.
func (s sanitizer) change(c *tfjson.Change) *tfjson.Change {
	if c == nil {
		return nil
	}
	marks := union(c.BeforeSensitive, c.AfterSensitive)
	if s.hideAll {
		marks = true
	}
	clean := &tfjson.Change{
		Actions: c.Actions, AfterUnknown: c.AfterUnknown, Importing: c.Importing, ReplacePaths: c.ReplacePaths,
		BeforeSensitive: c.BeforeSensitive, AfterSensitive: c.AfterSensitive,
	}
	if c.Before != nil {
		clean.Before = s.shown(side{c.Before, marks})
	}
	if c.After != nil {
		clean.After = s.shown(side{c.After, marks})
	}
	return clean
}

// values returns the values of a state without secrets.
func (s sanitizer) values(v *tfjson.StateValues, marks map[string]any) *tfjson.StateValues {
	if v == nil {
		return nil
	}
	clean := &tfjson.StateValues{Outputs: map[string]*tfjson.StateOutput{}, RootModule: s.module(v.RootModule, marks)}
	for name, o := range v.Outputs {
		copied := *o
		copied.Value = s.shown(side{o.Value, o.Sensitive || s.hideAll})
		clean.Outputs[name] = &copied
	}
	return clean
}

func (s sanitizer) module(m *tfjson.StateModule, marks map[string]any) *tfjson.StateModule {
	if m == nil {
		return nil
	}
	clean := &tfjson.StateModule{Address: m.Address}
	for _, r := range m.Resources {
		copied := *r
		copied.IdentityValues = nil
		var own any
		if len(r.SensitiveValues) == 0 || json.Unmarshal(r.SensitiveValues, &own) != nil || s.hideAll {
			own = true
		}
		copied.AttributeValues, _ = s.shown(side{r.AttributeValues, union(own, marks[r.Address])}).(map[string]any)
		clean.Resources = append(clean.Resources, &copied)
	}
	for _, child := range m.ChildModules {
		clean.ChildModules = append(clean.ChildModules, s.module(child, marks))
	}
	return clean
}

// encode returns a plan as JSON.
func (s sanitizer) encode(p *tfjson.Plan) (json.RawMessage, error) {
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the plan: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var doc map[string]any
	if err := decoder.Decode(&doc); err != nil {
		return nil, fmt.Errorf("encode the plan: %w", err)
	}
	if configuration, ok := doc["configuration"]; ok {
		hideConstants(configuration)
	}
	return json.Marshal(doc)
}

// hideConstants hides the values that are written in the configuration.
func hideConstants(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			hideConstants(e)
		}
	case map[string]any:
		for key, e := range v {
			if key == "constant_value" && e != nil {
				v[key] = hidden
				continue
			}
			if variables, ok := e.(map[string]any); ok && key == "variables" {
				for _, declared := range variables {
					if d, ok := declared.(map[string]any); ok && d["default"] != nil {
						d["default"] = hidden
					}
				}
			}
			hideConstants(e)
		}
	}
}

// union joins the marks of two values in one place: a part is sensitive if it is in
// one of them.
func union(a, b any) any {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		both := make(map[string]any, len(x)+len(y))
		for key := range x {
			both[key] = union(x[key], y[key])
		}
		for key := range y {
			if _, ok := x[key]; !ok {
				both[key] = y[key]
			}
		}
		return both
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			both := make([]any, len(x))
			for i := range x {
				both[i] = union(x[i], y[i])
			}
			return both
		}
	}
	if !marked(b) {
		return a
	}
	if !marked(a) {
		return b
	}
	return true
}
