package tfplan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/redact"
	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/record/state"
)

// known is a secret that Terrapulse gives to Terraform.
const known = "known-secret-value"

func clean(text string) string { return redact.Text(text, []string{known}) }

// parse reads a plan as `terraform show -json` prints it.
func parse(t testing.TB, text string) driver.Plan {
	t.Helper()
	var p tfjson.Plan
	p.UseJSONNumber(true)
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	plan, err := Of(&p, clean)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// change is a plan with one resource.
func change(t testing.TB, fields string) driver.Plan {
	t.Helper()
	return parse(t, `{"format_version": "1.2", "resource_changes": [{"address": "a.b", "type": "a", "change": `+fields+`}]}`)
}

func TestPlan_NamesEveryAction(t *testing.T) {
	plan := parse(t, `{"format_version": "1.2", "resource_changes": [
		{"address": "a.none", "type": "a", "change": {"actions": ["no-op"]}},
		{"address": "a.create", "type": "a", "change": {"actions": ["create"]}},
		{"address": "a.update", "type": "a", "previous_address": "a.old", "change": {"actions": ["update"]}},
		{"address": "a.delete", "type": "a", "action_reason": "delete_because_no_resource_config", "change": {"actions": ["delete"]}},
		{"address": "a.deposed", "type": "a", "deposed": "12ab", "change": {"actions": ["delete"]}},
		{"address": "a.replace", "type": "a", "change": {"actions": ["delete", "create"]}},
		{"address": "a.replace_first", "type": "a", "change": {"actions": ["create", "delete"]}},
		{"address": "data.a.read", "type": "a", "mode": "data", "change": {"actions": ["read"]}},
		{"address": "a.forget", "type": "a", "change": {"actions": ["forget"]}},
		{"address": "a.import", "type": "a", "change": {"actions": ["no-op"], "importing": {"id": "i-1"}}},
		{"address": "a.import_update", "type": "a", "change": {"actions": ["update"], "importing": {"id": "i-1"}}},
		{"address": "a.move", "type": "a", "previous_address": "a.was", "change": {"actions": ["no-op"]}},
		{"address": "a.later", "type": "a", "change": {"actions": ["frobnicate"]}}
	], "action_invocations": [{"address": "action.a.run", "type": "a", "name": "run", "config_values": {"host": "web-1", "key": "secret"}, "config_sensitive": {"key": true},
		"config_unknown": {"id": true}, "lifecycle_action_trigger": {"triggering_resource_address": "a.create", "action_trigger_event": "AfterCreate"}}],
	"resource_drift": [{"address": "a.drift", "type": "a", "change": {"actions": ["update"], "before": {"x": 1}, "after": {"x": 2}}}],
	"output_changes": {"same": {"actions": ["no-op"]}, "new": {"actions": ["create"], "after": "x", "after_sensitive": false}}}`)
	want := []driver.ResourceChange{
		{Address: "a.create", Type: "a", Action: driver.Create},
		{Address: "a.update", Type: "a", Action: driver.Update, Previous: "a.old"},
		{Address: "a.delete", Type: "a", Action: driver.Delete, Reason: "delete_because_no_resource_config"},
		{Address: "a.deposed", Type: "a", Action: driver.Delete, Deposed: true},
		{Address: "a.replace", Type: "a", Action: driver.Replace},
		{Address: "a.replace_first", Type: "a", Action: driver.Replace, CreateFirst: true},
		{Address: "data.a.read", Type: "a", Action: driver.Read},
		{Address: "a.forget", Type: "a", Action: driver.Forget},
		{Address: "a.import", Type: "a", Action: driver.Import, Imported: true},
		{Address: "a.import_update", Type: "a", Action: driver.Update, Imported: true},
		{Address: "a.move", Type: "a", Action: driver.Move, Previous: "a.was"},
		{Address: "a.later", Type: "a", Action: "frobnicate"},
		{Address: "action.a.run", Type: "a", Action: driver.Invoke, Attributes: []driver.AttributeChange{{Path: "host", After: "web-1"}, {Path: "id", Unknown: true}, {Path: "key", Sensitive: true}}},
	}
	if diff := cmp.Diff(want, plan.Resources); diff != "" {
		t.Error(diff)
	}
	drift := []driver.ResourceChange{{Address: "a.drift", Type: "a", Action: driver.Update, Attributes: []driver.AttributeChange{
		{Path: "x", Before: json.Number("1"), After: json.Number("2")}}}}
	if diff := cmp.Diff(drift, plan.Drift); diff != "" {
		t.Error(diff)
	}
	outputs := []driver.OutputChange{{Name: "new", Action: driver.Create, Values: []driver.AttributeChange{{After: "x"}}}}
	if diff := cmp.Diff(outputs, plan.Outputs); diff != "" {
		t.Error(diff)
	}
	if c := plan.Changes; !c.Unknown || c.Add != 3 || c.Change != 2 || c.Destroy != 4 || len(c.Resources) != len(want) {
		t.Errorf("the counts are %+v", c)
	}
}

func TestPlan_SaysIfItsNumbersAreNotAll(t *testing.T) {
	for fields, want := range map[string]state.Changes{
		`{"actions": ["delete"]}`:           {Destroy: 1},
		`{"actions": ["forget", "create"]}`: {Add: 1},
		`{"actions": ["create", "forget"]}`: {Add: 1},
		`{"actions": ["frobnicate"]}`:       {Unknown: true},
		`{"actions": []}`:                   {Unknown: true},
		`null`:                              {Unknown: true},
	} {
		if diff := cmp.Diff(&want, change(t, fields).Changes.Counts()); diff != "" {
			t.Errorf("%s: %s", fields, diff)
		}
	}
}

func TestPlan_CountsTheStateBeforeIt(t *testing.T) {
	const before = `"prior_state": {"format_version": "1.0", "values": {"root_module": {
		"resources": [{"mode": "managed", "address": "a.b"}, {"mode": "data", "address": "data.a.b"}],
		"child_modules": [{"address": "module.m", "resources": [{"mode": "managed", "address": "module.m.a.b"}]}]}}}`
	if n := parse(t, `{"format_version": "1.2", `+before+`}`).InState; n == nil || *n != 2 {
		t.Errorf("%v resources are in the state", n)
	}
	if n := parse(t, `{"format_version": "1.2"}`).InState; n != nil {
		t.Errorf("a plan without a state has %d resources", *n)
	}
}

func TestPlan_ListsTheAttributesThatChange(t *testing.T) {
	plan := change(t, `{"actions": ["delete", "create"],
		"before": {"same": 1, "port": 80, "rules": [{"a": 1}, {"b": 2}], "tags": {"x y": "1"}, "kind": "s", "gone": true},
		"after":  {"same": 1, "port": 81, "rules": [{"a": 1}], "tags": {"x y": "2"}, "kind": ["s"], "gone": null},
		"after_unknown": {"id": true, "rules": [{"c": true}]},
		"before_sensitive": {}, "after_sensitive": {}, "replace_paths": [["port"], ["tags", "x y"]]}`)
	want := []driver.AttributeChange{
		{Path: "gone", Before: true},
		{Path: "id", Unknown: true},
		{Path: "kind", Before: "s", After: []any{"s"}},
		{Path: "port", Before: json.Number("80"), After: json.Number("81"), Replaces: true},
		{Path: "rules[0].c", Unknown: true},
		{Path: "rules[1].b", Before: json.Number("2")},
		{Path: `tags["x y"]`, Before: "1", After: "2", Replaces: true},
	}
	if diff := cmp.Diff(want, plan.Resources[0].Attributes); diff != "" {
		t.Error(diff)
	}
}

func TestPlan_HidesSecrets(t *testing.T) {
	for name, fields := range map[string]string{
		"a sensitive attribute":         `"before": {"p": "old-secret"}, "after": {"p": "new-secret"}, "before_sensitive": {"p": true}, "after_sensitive": {"p": true}`,
		"sensitive only before":         `"before": {"p": "old-secret"}, "after": {"p": "new-secret"}, "before_sensitive": {"p": true}, "after_sensitive": {}`,
		"sensitive only after":          `"before": {"p": "old-secret"}, "after": {"p": "new-secret"}, "before_sensitive": {}, "after_sensitive": {"p": true}`,
		"the whole resource":            `"before": null, "after": {"p": "new-secret"}, "before_sensitive": false, "after_sensitive": true`,
		"a nested attribute":            `"before": {"l": [{"p": "old-secret"}]}, "after": {"l": [{"p": "new-secret"}]}, "before_sensitive": {"l": [{"p": true}]}, "after_sensitive": {"l": [{"p": true}]}`,
		"a part of what becomes a text": `"before": {"l": {"p": "old-secret"}}, "after": {"l": "text"}, "before_sensitive": {"l": {"p": true}}, "after_sensitive": {}`,
		"a part of what is not known":   `"before": {"l": {"p": "old-secret"}}, "after": {}, "after_unknown": {"l": true}, "before_sensitive": {"l": {"p": true}}, "after_sensitive": {}`,
		"marks of another length":       `"before": {"l": []}, "after": {"l": ["x", "new-secret"]}, "before_sensitive": {}, "after_sensitive": {"l": [true]}`,
		"marks of another shape":        `"before": {}, "after": {"l": ["new-secret"]}, "before_sensitive": {}, "after_sensitive": {"l": {"0": true}}`,
		"a known secret":                `"before": {"p": "x known-secret-value"}, "after": {"p": ["x known-secret-value"]}, "before_sensitive": {}, "after_sensitive": {}`,
		"a known secret as a key":       `"before": {}, "after": {"known-secret-value": {"known-secret-value": 1}}, "before_sensitive": {}, "after_sensitive": {}`,
	} {
		plan := change(t, `{"actions": ["update"], `+fields+`}`)
		raw, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Resources[0].Attributes) == 0 || strings.Contains(string(raw), "-secret") {
			t.Errorf("%s: %s", name, raw)
		}
	}
	plan := parse(t, `{"format_version": "1.2", "resource_changes": [
		{"address": "a.b[\"known-secret-value\"]", "previous_address": "a.known-secret-value", "type": "a", "change": {"actions": ["create"]}}],
		"output_changes": {"known-secret-value": {"actions": ["create"], "after": "out-secret", "after_sensitive": true}}}`)
	if raw, _ := json.Marshal(plan); strings.Contains(string(raw), "-secret") || !strings.Contains(string(raw), `a.b[\"(redacted)\"]`) {
		t.Errorf("names hold a secret: %s", raw)
	}
	if c := plan.Changes.Resources[0]; c != (state.Resource{Address: `a.b["(redacted)"]`, Action: "create"}) {
		t.Errorf("the record holds %+v", c)
	}
	// Terraform before 1.0 does not mark the sensitive attributes of providers.
	plan = parse(t, `{"format_version": "0.1", "resource_changes": [{"address": "a.b", "type": "a", "change": {"actions": ["update"],
		"before": {"p": "old-secret"}, "after": {"p": "new-secret"}, "before_sensitive": {}, "after_sensitive": {}}}]}`)
	if diff := cmp.Diff([]driver.AttributeChange{{Sensitive: true}}, plan.Resources[0].Attributes); diff != "" {
		t.Error(diff)
	}
}

// TestPlan_HoldsNoSecret makes values of any shape, in which any part may be
// sensitive before, after or both.
func TestPlan_HoldsNoSecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := 0
		secret := func() string { secrets++; return fmt.Sprintf("sensitive-%d", secrets) }
		text := rapid.SampledFrom([]string{"tcp", "x " + known + " y", known, ""})
		key := rapid.SampledFrom([]string{"a", "b c", "k" + known, "0"})
		var value func(depth int, hide bool) (value, marks any)
		value = func(depth int, hide bool) (any, any) {
			switch n := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case !hide && rapid.IntRange(0, 3).Draw(t, "hidden") == 0:
				v, _ := value(depth, true)
				return v, true
			case n == 0 && depth > 0:
				list, marks := []any{}, []any{}
				for range rapid.IntRange(0, 3).Draw(t, "length") {
					v, m := value(depth-1, hide)
					list, marks = append(list, v), append(marks, m)
				}
				return list, marks
			case n == 1 && depth > 0:
				object, marks := map[string]any{}, map[string]any{}
				for range rapid.IntRange(0, 3).Draw(t, "length") {
					k := key.Draw(t, "key")
					v, m := value(depth-1, hide)
					object[k] = v
					if m != false { // Terraform leaves out what is not sensitive
						marks[k] = m
					} else {
						delete(marks, k)
					}
				}
				return object, marks
			case n == 2:
				return nil, false
			case hide:
				return secret(), false
			case n == 3:
				return json.Number("12"), false
			default:
				return text.Draw(t, "text"), false
			}
		}
		c := &tfjson.Change{Actions: tfjson.Actions{tfjson.ActionUpdate}}
		c.Before, c.BeforeSensitive = value(3, false)
		c.After, c.AfterSensitive = value(3, false)
		c.AfterUnknown = rapid.SampledFrom([]any{nil, false, true, map[string]any{"a": true}, []any{true}, map[string]any{"a": []any{map[string]any{"b c": true}}}}).Draw(t, "unknown")
		address := "a.b[" + text.Draw(t, "index") + "]"
		p := &tfjson.Plan{
			FormatVersion:   "1.2",
			ResourceChanges: []*tfjson.ResourceChange{{Address: address, Change: c}},
			ResourceDrift:   []*tfjson.ResourceChange{{Address: address, PreviousAddress: known, Change: c}},
			OutputChanges:   map[string]*tfjson.Change{key.Draw(t, "output"): c},
			PlannedValues:   stateOf(address, c.After, c.AfterSensitive),
			PriorState:      &tfjson.State{FormatVersion: "1.0", Values: stateOf(address, c.Before, c.BeforeSensitive)},
		}
		plan, err := Of(p, clean)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		document, err := Document(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(raw), string(document)} {
			if strings.Contains(text, "sensitive-") || text == string(raw) && strings.Contains(text, known) {
				t.Fatalf("%s\nholds a secret of %+v", text, c)
			}
		}
	})
}

// stateOf is a state with one resource that has the value.
func stateOf(address string, value, marks any) *tfjson.StateValues {
	raw, _ := json.Marshal(map[string]any{"v": marks})
	r := &tfjson.StateResource{Address: address, AttributeValues: map[string]any{"v": value}, SensitiveValues: raw}
	return &tfjson.StateValues{RootModule: &tfjson.StateModule{ChildModules: []*tfjson.StateModule{{Resources: []*tfjson.StateResource{r}}}}}
}

func TestPlan_DigestIdentifiesWhatIsShown(t *testing.T) {
	with := func(value, secret string) string {
		return change(t, fmt.Sprintf(`{"actions": ["update"], "before": {"v": "a", "s": "b"}, "after": {"v": %q, "s": %q}, "after_sensitive": {"s": true}}`, value, secret)).Digest
	}
	if with("x", "s1") != with("x", "s2") {
		t.Error("the digest tells two secrets apart")
	}
	long := strings.Repeat("x", 2*state.MaxText)
	if with("x", "s1") == with("y", "s1") || with("x", "s1") == "" || with(long+"x", "s1") == with(long+"y", "s1") {
		t.Error("the digest does not tell two plans apart")
	}
}

func TestPlan_BoundedKeepsThePlanItself(t *testing.T) {
	plan := driver.Plan{Resources: make([]driver.ResourceChange, 6000)}
	for i := range plan.Resources {
		plan.Resources[i].Attributes = make([]driver.AttributeChange, 3)
	}
	plan.Outputs = []driver.OutputChange{{Name: "large", Values: make([]driver.AttributeChange, 3000)}}
	bounded := plan.Bounded()
	if out := bounded.Outputs; len(out) != 1 || out[0].Values != nil || plan.Outputs[0].Values == nil {
		t.Errorf("the outputs are %+v", out)
	}
	if len(bounded.Resources) != 5000 || bounded.Resources[0].Attributes == nil || bounded.Resources[4999].Attributes != nil {
		t.Errorf("%d resources", len(bounded.Resources))
	}
	if bounded.Omitted == 0 || plan.Resources[5999].Attributes == nil {
		t.Error("the plan itself is changed, or does not say what is left out")
	}
	if empty := (driver.Plan{Resources: []driver.ResourceChange{}}).Bounded(); empty.Resources == nil || empty.Omitted != 0 {
		t.Errorf("%+v", empty)
	}
}
