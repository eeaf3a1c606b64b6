package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// Masked replaces what people may not see of a value.
const Masked = "(sensitive value)"

// shown are what people may see of a value, by the tag secret of its key. The value is as JSON has it.
var shown = map[string]func(value any) any{
	"value":     func(any) any { return Masked },
	"source":    func(any) any { return `"` + Masked + `"` }, // of Terraform
	"query":     withoutQuery,
	"arguments": withoutArguments,
}

func withoutQuery(url any) any {
	text, _ := url.(string)
	if address, _, found := strings.Cut(text, "?"); found {
		return address + "?" + Masked
	}
	return url
}

func withoutArguments(command any) any {
	if argv, _ := command.([]any); len(argv) > 1 {
		return []any{argv[0], Masked}
	}
	return command
}

// Public returns the definition of a task, in the keys of the API, with what people may see of it who
// may not see secrets.
func Public(definition any) (map[string]any, error) {
	keys, err := asJSON(definition)
	hideSecrets(reflect.TypeFor[rawTask](), keys, "", func(_ string, public any) any { return public })
	return keys, err
}

// Kept is Definition without what may be a secret in the rules of the task, and names these keys.
func (t *Task) Kept() (keys map[string]any, missing []string, err error) {
	keys = t.Definition()
	rules, err := asJSON(t.rules)
	hideSecrets(reflect.TypeFor[rawRules](), rules, "", func(path string, _ any) any {
		missing = append(missing, path)
		return nil
	})
	maps.Copy(keys, rules)
	return keys, missing, err
}

func asJSON(definition any) (keys map[string]any, err error) {
	text, err := json.Marshal(definition)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	return keys, err
}

// hideSecrets calls hide for each key of a block that has a secret, with its path and with what people may see
// of it, and replaces the value by the result. Nil removes the key.
func hideSecrets(of reflect.Type, keys map[string]any, path string, hide func(path string, public any) any) {
	for _, k := range schemaOf(of).keys {
		value, is := keys[k.name]
		if !is {
			continue
		}
		at := block.Joined(path, k.name)
		inside, _ := value.(map[string]any)
		switch public := shown[k.tag.Get("secret")]; {
		case public != nil:
			hidden := public(value)
			if inside != nil { // of a map, the values are secret
				hidden = map[string]any{}
				for name, v := range inside {
					hidden.(map[string]any)[name] = public(v)
				}
			}
			if reflect.DeepEqual(hidden, value) {
				continue
			}
			if keys[k.name] = hide(at, hidden); keys[k.name] == nil {
				delete(keys, k.name)
			}
		case k.field:
		case hasLabels(k.typ):
			for _, label := range slices.Sorted(maps.Keys(inside)) {
				if b, ok := inside[label].(map[string]any); ok {
					hideSecrets(k.typ.Elem(), b, block.Joined(at, label), hide)
				}
			}
		case k.typ.Kind() == reflect.Struct && inside != nil:
			hideSecrets(k.typ, inside, at, hide)
		}
	}
}
