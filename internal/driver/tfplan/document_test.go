package tfplan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"
)

// document returns a plan of `terraform show -json` as programs that judge it get it.
func document(t *testing.T, text string) string {
	t.Helper()
	var p tfjson.Plan
	p.UseJSONNumber(true)
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	raw, err := Document(&p)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", " "); err != nil {
		t.Fatal(err)
	}
	return indented.String()
}

// A check must see the value that it forbids, also if that is what Terrapulse hides from people.
func TestDocument_HasTerraformsFormatAndHidesOnlyWhatTerraformMarks(t *testing.T) {
	got := document(t, `{"format_version": "1.2", "terraform_version": "1.11.4", "timestamp": "2026-07-01T12:00:00Z", "applyable": true, "later": "not-known",
		"variables": {"name": {"value": "web"}, "password": {"value": "variable-secret"}, "undeclared": {"value": "other-secret"},
			"key": {"value": "key-secret"}, "for_provider": {"value": "token-secret"}},
		"resource_changes": [{"address": "a.b[\"known-secret-value\"]", "mode": "managed", "type": "a", "name": "b", "index": "known-secret-value",
			"change": {"actions": ["update"], "before": {"port": 80, "p": "old-secret"}, "after": {"port": 12345678901234567890, "p": null},
				"after_unknown": {"id": true}, "before_sensitive": {"p": true}, "after_sensitive": {}, "generated_config": "config-secret"}}],
		"resource_drift": [{"address": "a.drift", "type": "a", "change": {"actions": ["update"], "before": {"p": "drift-secret"}, "after": {"p": "drift-secret2"}, "after_sensitive": {"p": true}}}],
		"action_invocations": [{"address": "action.a.run", "type": "a", "name": "run", "config_values": {"host": "web-1", "key": "action-secret"}, "config_sensitive": {"key": true}, "config_unknown": {}}],
		"output_changes": {"o": {"actions": ["create"], "after": "output-secret", "after_sensitive": true}},
		"planned_values": {"outputs": {"o": {"sensitive": true, "value": "output-secret"}, "q": {"sensitive": false, "value": "shown"}},
			"root_module": {"child_modules": [{"address": "module.m", "resources": [
				{"address": "a.x", "type": "a", "schema_version": 0, "values": {"p": "value-secret", "q": "shown"}, "sensitive_values": {"p": true}},
				{"address": "a.old", "type": "a", "schema_version": 0, "values": {"p": "unmarked-secret"}}]}]}},
		"prior_state": {"format_version": "1.0", "values": {"root_module": {"resources": [
			{"address": "a.drift", "type": "a", "schema_version": 0, "values": {"p": "prior-secret"}, "sensitive_values": {}, "identity": {"id": "identity-secret"}}]}}},
		"configuration": {"provider_config": {"a": {"name": "a", "expressions": {"token": {"constant_value": "provider-secret"}, "block": [{"key": {"constant_value": "nested-secret"}}]}}},
			"root_module": {"variables": {"name": {}, "password": {"default": "default-secret", "sensitive": true}, "key": {}, "for_provider": {}},
				"module_calls": {"m": {"source": "./m", "expressions": {"name": {"references": ["var.name"]}, "password": {"references": ["var.password"]}, "key": {"references": ["var.key"]}},
					"module": {"variables": {"name": {}, "password": {}, "key": {"sensitive": true}}, "resources": [{"address": "a.x", "type": "a", "expressions": {"p": {"constant_value": "constant-secret"}}}]}}}}},
		"checks": [{"address": {"kind": "resource", "to_display": "a.x"}, "status": "fail", "instances": [{"address": {"to_display": "a.x"}, "status": "fail", "problems": [{"message": "problem-secret"}]}]}]}`)
	if strings.Contains(strings.ReplaceAll(got, "known-secret-value", ""), "secret") {
		t.Errorf("it holds a secret:\n%s", got)
	}
	const want = `{"configuration":{"provider_config":{"a":{"name":"a","expressions":{"token":{"constant_value":"(sensitive)"},"block":[{"key":{"constant_value":"(sensitive)"}}]}}},
		"root_module":{"variables":{"name":{},"password":{"default":"(sensitive)","sensitive":true},"key":{},"for_provider":{}},
			"module_calls":{"m":{"source":"./m","expressions":{"name":{"references":["var.name"]},"password":{"references":["var.password"]},"key":{"references":["var.key"]}},
				"module":{"variables":{"name":{},"password":{},"key":{"sensitive":true}},"resources":[{"address":"a.x","type":"a","expressions":{"p":{"constant_value":"(sensitive)"}},"schema_version":0}]}}}}},
		"format_version":"1.2","terraform_version":"1.11.4","timestamp":"2026-07-01T12:00:00Z",
		"action_invocations":[{"address":"action.a.run","type":"a","name":"run","config_values":{"host":"web-1","key":"(sensitive)"},"config_sensitive":{"key":true},"config_unknown":{}}],
		"output_changes":{"o":{"actions":["create"],"before":null,"after":"(sensitive)","after_sensitive":true}},
		"planned_values":{"outputs":{"o":{"sensitive":true,"value":"(sensitive)"},"q":{"sensitive":false,"value":"shown"}},
			"root_module":{"child_modules":[{"address":"module.m","resources":[
				{"address":"a.x","type":"a","schema_version":0,"values":{"p":"(sensitive)","q":"shown"},"sensitive_values":{"p":true}},
				{"address":"a.old","type":"a","schema_version":0}]}]}},
		"prior_state":{"format_version":"1.0","values":{"root_module":{"resources":[
			{"address":"a.drift","type":"a","schema_version":0,"values":{"p":"(sensitive)"},"sensitive_values":{}}]}}},
		"resource_changes":[{"address":"a.b[\"known-secret-value\"]","mode":"managed","type":"a","name":"b","index":"known-secret-value",
			"change":{"actions":["update"],"before":{"port":80,"p":"(sensitive)"},"after":{"port":12345678901234567890,"p":"(sensitive)"},
				"after_unknown":{"id":true},"before_sensitive":{"p":true},"after_sensitive":{}}}],
		"resource_drift":[{"address":"a.drift","type":"a","change":{"actions":["update"],"before":{"p":"(sensitive)"},"after":{"p":"(sensitive)"},"after_sensitive":{"p":true}}}],
		"variables":{"name":{"value":"web"},"password":{"value":"(sensitive)"},"undeclared":{"value":"(sensitive)"},
			"key":{"value":"(sensitive)"},"for_provider":{"value":"(sensitive)"}}}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
		t.Errorf("unexpected document (-want +got):\n%s", diff)
	}
}

func TestDocument_OfAnOldTerraformHidesEveryValue(t *testing.T) {
	got := document(t, `{"format_version": "0.1", "variables": {"v": {"value": "variable-secret"}},
		"resource_changes": [{"address": "a.b", "type": "a", "change": {"actions": ["update"], "before": {"p": "old-secret"}, "after": {"p": "new-secret"}}}],
		"planned_values": {"root_module": {"resources": [{"address": "a.b", "schema_version": 0, "values": {"p": "value-secret"}, "sensitive_values": {}}]}},
		"configuration": {"root_module": {"variables": {"v": {}}}}}`)
	if strings.Contains(got, "-secret") || !strings.Contains(got, `"actions": [`) {
		t.Errorf("it holds a secret, or no changes:\n%s", got)
	}
}

// decoded returns JSON as a value with exact numbers.
func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
