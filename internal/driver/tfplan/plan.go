// Package tfplan reads plans as `terraform show -json` prints them, without their secrets.
package tfplan

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// hidden replaces a value that Terraform marks as sensitive.
const hidden = "(sensitive)"

// unsaid is the action of a resource of which the plan does not say what happens to it.
const unsaid driver.Action = "unknown"

// marksAll is the first plan format in which providers' sensitive attributes are
// marked. All values of older plans are hidden.
var marksAll = version.Must(version.NewVersion("0.2"))

// sanitizer makes data of Terraform's plan without secrets. Values are hidden if
// Terraform marks them as sensitive; clean removes the secrets that Terrapulse
// gives to Terraform from all the rest, such as addresses and names.
type sanitizer struct {
	clean   func(string) string
	hideAll bool
	whole   bool // long texts are not cut
}

// Of returns Terraform's plan as data.
func Of(p *tfjson.Plan, clean func(string) string) (driver.Plan, error) {
	format, err := version.NewVersion(p.FormatVersion)
	if err != nil {
		return driver.Plan{}, fmt.Errorf("read the plan: its format version: %w", err)
	}
	s := sanitizer{clean: clean, hideAll: format.LessThan(marksAll)}
	plan := driver.Plan{Resources: []driver.ResourceChange{}}
	for _, r := range p.ResourceChanges {
		if change := s.resource(r); change.Action != driver.NoOp {
			plan.Resources = append(plan.Resources, change)
		}
	}
	for _, i := range p.ActionInvocations {
		plan.Resources = append(plan.Resources, driver.ResourceChange{Address: s.clean(i.Address), Type: i.Type, Provider: i.ProviderName, Action: driver.Invoke,
			Attributes: s.attributes(&tfjson.Change{After: i.ConfigValues, AfterSensitive: i.ConfigSensitive, AfterUnknown: i.ConfigUnknown})})
	}
	for _, r := range p.ResourceDrift {
		if change := s.resource(r); change.Action != driver.NoOp {
			plan.Drift = append(plan.Drift, change)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.OutputChanges)) {
		if o := p.OutputChanges[name]; !o.Actions.NoOp() {
			plan.Outputs = append(plan.Outputs, driver.OutputChange{Name: clean(name), Action: actionOf(o.Actions), Values: s.attributes(o)})
		}
	}
	plan.Changes = driver.Count(plan.Resources)
	if before := p.PriorState; before != nil {
		plan.InState = new(managed(before.Values))
	}
	plan.Digest, err = driver.DigestOf(plan.Resources, plan.Outputs)
	return plan, err
}

// managed counts the managed resources of a state.
func managed(values *tfjson.StateValues) (n int) {
	if values == nil {
		return 0
	}
	modules := []*tfjson.StateModule{values.RootModule}
	for len(modules) > 0 {
		m := modules[0]
		if modules = modules[1:]; m == nil {
			continue
		}
		modules = append(modules, m.ChildModules...)
		for _, r := range m.Resources {
			if r.Mode == tfjson.ManagedResourceMode {
				n++
			}
		}
	}
	return n
}

func (s sanitizer) resource(r *tfjson.ResourceChange) driver.ResourceChange {
	change := driver.ResourceChange{
		Address: s.clean(r.Address), Type: r.Type, Provider: r.ProviderName, Reason: string(r.ActionReason), Deposed: r.DeposedKey != "",
	}
	if r.PreviousAddress != r.Address {
		change.Previous = s.clean(r.PreviousAddress)
	}
	if r.Change == nil || len(r.Change.Actions) == 0 {
		change.Action = unsaid
		return change
	}
	change.Action, change.CreateFirst = actionOf(r.Change.Actions), r.Change.Actions.CreateBeforeDestroy()
	change.Imported = r.Change.Importing != nil
	if change.Action == driver.NoOp {
		switch {
		case change.Imported:
			change.Action = driver.Import
		case change.Previous != "":
			change.Action = driver.Move
		}
		return change
	}
	change.Attributes = s.attributes(r.Change)
	return change
}

// actionOf returns Terraform's list of actions as one. An action that a later
// Terraform adds keeps its name.
func actionOf(a tfjson.Actions) driver.Action {
	if a.Replace() {
		return driver.Replace
	}
	names := list.Map(a, func(action tfjson.Action) string { return string(action) })
	return driver.Action(cmp.Or(strings.Join(names, "+"), string(driver.NoOp)))
}

// attributes returns the values that a change changes.
func (s sanitizer) attributes(c *tfjson.Change) []driver.AttributeChange {
	d := differ{sanitizer: s}
	for _, path := range c.ReplacePaths {
		if steps, ok := path.([]any); ok {
			text := ""
			for _, step := range steps {
				text = join(text, step)
			}
			d.replaces = append(d.replaces, text)
		}
	}
	sensitive := c.AfterSensitive
	if s.hideAll {
		sensitive = true
	}
	d.walk("", side{c.Before, c.BeforeSensitive}, side{c.After, sensitive}, c.AfterUnknown)
	return d.found
}

// side is a value before or after the change, with its marks of sensitivity.
type side struct{ value, sensitive any }

func (s side) child(step any) side { return side{at(s.value, step), marksAt(s, step)} }

// differ collects the changes below a value.
type differ struct {
	sanitizer
	replaces []string // paths
	found    []driver.AttributeChange
}

func (d *differ) walk(path string, before, after side, unknown any) {
	switch {
	case before.sensitive == true || after.sensitive == true:
		if marked(unknown) || !reflect.DeepEqual(before.value, after.value) {
			d.add(driver.AttributeChange{Path: path, Sensitive: true})
		}
	case unknown == true:
		d.add(driver.AttributeChange{Path: path, Before: d.shown(before), Unknown: true})
	default:
		steps, ok := stepsOf(before.value, after.value, unknown)
		if !ok {
			if !reflect.DeepEqual(before.value, after.value) {
				d.add(driver.AttributeChange{Path: path, Before: d.shown(before), After: d.shown(after)})
			}
			return
		}
		for _, step := range steps {
			d.walk(join(path, step), before.child(step), after.child(step), at(unknown, step))
		}
	}
}

func (d *differ) add(c driver.AttributeChange) {
	c.Replaces = slices.ContainsFunc(d.replaces, func(path string) bool {
		rest, ok := strings.CutPrefix(c.Path, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
	c.Path = d.clean(c.Path)
	d.found = append(d.found, c)
}

// shown returns a value without secrets.
func (s sanitizer) shown(of side) any {
	if of.sensitive == true {
		return hidden
	}
	switch v := of.value.(type) {
	case string:
		if s.whole {
			return s.clean(v)
		}
		return shortened(s.clean(v))
	case json.Number:
		if text := s.clean(v.String()); text != v.String() {
			return text
		}
		return v
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = s.shown(of.child(i))
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for key := range v {
			object[s.clean(key)] = s.shown(of.child(key))
		}
		return object
	default: // a boolean or null
		return v
	}
}

// shortened cuts a long text. A digest of all of it keeps plans apart that differ
// in the rest.
func shortened(text string) string {
	if len(text) <= state.MaxText {
		return text
	}
	return fmt.Sprintf("%s (%d bytes, SHA-256 %x)", state.Cut(text), len(text), sha256.Sum256([]byte(text)))
}

// stepsOf returns the keys or indexes of values of one kind, of which some may be
// nil; not ok if they are scalars or of different kinds.
func stepsOf(values ...any) (steps []any, ok bool) {
	keys, length, lists := map[string]bool{}, 0, false
	for _, v := range values {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				keys[key] = true
			}
			ok = true
		case []any:
			length, lists = max(length, len(v)), true
		case nil, bool: // no value, or none of it is unknown
			if v == true {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	switch {
	case ok && lists:
		return nil, false
	case ok:
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			steps = append(steps, key)
		}
	case lists:
		for i := range length {
			steps = append(steps, i)
		}
	}
	return steps, ok || lists
}

// at returns a part of a value; nil if the value has no such part.
func at(value, step any) any {
	switch v := value.(type) {
	case map[string]any:
		if key, ok := step.(string); ok {
			return v[key]
		}
	case []any:
		if i, ok := step.(int); ok && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// marksAt returns the marks of a part of a value. Marks that do not have the
// shape of their value hide all of it if there is one mark.
func marksAt(of side, step any) any {
	switch marks := of.sensitive.(type) {
	case map[string]any:
		if _, ok := of.value.(map[string]any); ok || of.value == nil {
			return at(marks, step)
		}
	case []any:
		if list, ok := of.value.([]any); ok && len(list) == len(marks) || of.value == nil {
			return at(marks, step)
		}
	}
	return marked(of.sensitive)
}

// marked reports whether there is a mark in marks.
func marked(marks any) bool {
	switch v := marks.(type) {
	case bool:
		return v
	case map[string]any:
		for _, m := range v {
			if marked(m) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, marked)
	}
	return false
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// join adds a key or an index to a path.
func join(path string, step any) string {
	key, ok := step.(string)
	switch {
	case !ok:
		return fmt.Sprintf("%s[%v]", path, step)
	case !identifier.MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}
