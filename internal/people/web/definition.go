package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"gopkg.in/yaml.v3"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// firstKeys are the keys of a task that come first, in this order.
var firstKeys = []string{"name", "description", "enabled", "module", "version", "providers", "variables", "condition", "module_input"}

// labelled are the blocks whose keys in the API are labels in a file.
var labelled = []string{"condition", "module_input", "check", "verify"}

// sourceOf shows a definition as in a task file: in YAML if it is from such a file, else in HCL.
func sourceOf(t apispec.Task, file string) string {
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
	if ext := strings.ToLower(path.Ext(file)); ext == ".yaml" || ext == ".yml" {
		return yamlOf(keys, task)
	}
	var b strings.Builder
	b.WriteString("task {\n")
	for _, key := range keys {
		writeKey(&b, key, task[key])
	}
	b.WriteString("}\n")
	return string(hclwrite.Format([]byte(b.String())))
}

// yamlOf shows the keys of a task in YAML.
func yamlOf(keys []string, task map[string]any) string {
	block := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range keys {
		value := withoutEmpty(task[key])
		if kinds, ok := value.(map[string]any); ok && (key == "condition" || key == "module_input") {
			renamed := map[string]any{}
			for kind, body := range kinds {
				renamed[strings.ReplaceAll(kind, "_", "-")] = body
			}
			value = renamed
		}
		var node yaml.Node
		if empty(value) || node.Encode(value) != nil {
			continue
		}
		block.Content = append(block.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, &node)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(map[string][]*yaml.Node{"task": {block}}); err != nil {
		return ""
	}
	return b.String()
}

// withoutEmpty leaves out of a block what is empty there.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case []any:
		return list.Map(v, withoutEmpty)
	case map[string]any:
		kept := map[string]any{}
		for key, inside := range v {
			if inside = withoutEmpty(inside); !empty(inside) {
				kept[key] = inside
			}
		}
		return kept
	}
	return value
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
