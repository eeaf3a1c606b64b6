package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// firstKeys are the keys of a task that come first, in this order.
var firstKeys = []string{"name", "description", "enabled", "module", "version", "providers", "variables", "condition", "module_input"}

// labelled are the blocks whose keys in the API are labels in a file.
var labelled = []string{"condition", "module_input", "check", "verify"}

// sourceOf shows a definition as in a task file, in HCL.
func sourceOf(t apispec.Task) string {
	raw, err := json.Marshal(t)
	var task map[string]any
	if err != nil || json.Unmarshal(raw, &task) != nil {
		return "" // it came as JSON
	}
	if task["enabled"] == true {
		delete(task, "enabled")
	}
	var keys []string
	for _, key := range append(firstKeys, slices.Sorted(maps.Keys(task))...) {
		if _, ok := task[key]; ok && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	var b strings.Builder
	b.WriteString("task {\n")
	for _, key := range keys {
		writeKey(&b, key, task[key])
	}
	b.WriteString("}\n")
	return string(hclwrite.Format([]byte(b.String())))
}

// writeKey writes a key of a task: an attribute, or a block. What is empty is left out.
func writeKey(b *strings.Builder, key string, value any) {
	if empty(value) {
		return
	}
	switch v := value.(type) {
	case []any:
		if _, blocks := v[0].(map[string]any); blocks {
			for _, one := range v {
				writeBlock(b, key, one)
			}
			return
		}
	case map[string]any:
		switch {
		case slices.Contains(labelled, key):
			for _, label := range slices.Sorted(maps.Keys(v)) {
				kind := label
				if key != "check" && key != "verify" {
					kind = strings.ReplaceAll(label, "_", "-") // as task files have it
				}
				writeBlock(b, key+" "+hclValue(kind), v[label])
			}
		default:
			writeBlock(b, key, v)
		}
		return
	}
	fmt.Fprintf(b, "%s = %s\n", key, hclValue(value))
}

// empty reports whether a value says as much as none.
func empty(value any) bool {
	switch v := value.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return value == nil
}

func writeBlock(b *strings.Builder, head string, body any) {
	fmt.Fprintf(b, "\n%s {\n", head)
	if keys, ok := body.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if inside, ok := keys[key].(map[string]any); ok && key == "http" { // of a verification
				writeBlock(b, key, inside)
			} else if !empty(keys[key]) {
				fmt.Fprintf(b, "%s = %s\n", hclKey(key), hclValue(keys[key]))
			}
		}
	}
	b.WriteString("}\n")
}

func hclKey(name string) string {
	if hclsyntax.ValidIdentifier(name) {
		return name
	}
	return hclValue(name)
}

// hclValue is a value that came as JSON.
func hclValue(value any) string {
	switch v := value.(type) {
	case string:
		if strings.Contains(v, "\n") && !strings.Contains(v, "EOT") {
			return "<<EOT\n" + strings.TrimSuffix(v, "\n") + "\nEOT"
		}
		return strconv.Quote(v)
	case []any:
		return "[" + strings.Join(list.Map(v, hclValue), ", ") + "]"
	case map[string]any:
		var b strings.Builder
		b.WriteString("{\n")
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(&b, "%s = %s\n", hclKey(key), hclValue(v[key]))
		}
		return b.String() + "}"
	case nil:
		return "null"
	}
	return fmt.Sprint(value) // a number or a bool
}
