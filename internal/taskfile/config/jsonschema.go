package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

const schemaURL = "https://raw.githubusercontent.com/terrapulse/terrapulse/main/docs/terrapulse.schema.json"

// JSONSchema returns the JSON Schema, of draft 2020-12, of task files in YAML and
// JSON, with a newline at its end. It refuses what Load refuses for its
// structure (unknown keys, values of a wrong type, blocks that may be written
// once), and accepts what Load accepts, except keys in another case, and null for a block that has
// required keys, which only JSON takes for no block.
func JSONSchema() []byte {
	g := schemaWriter{defs: map[string]any{}}
	root := g.object(reflect.TypeFor[rawConfig](), "")
	root["type"] = []string{"object", "null"} // an empty file
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = schemaURL
	root["title"] = "Terrapulse task file"
	root["description"] = "What Terrapulse keeps in step with Consul, and how. Task files of Consul-Terraform-Sync have the same keys."
	root["$defs"] = g.defs
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic(fmt.Sprintf("config: JSON Schema: %v", err)) // a type that JSON cannot hold
	}
	return b.Bytes()
}

type object = map[string]any

// identifierPattern is that of hclsyntax.ValidIdentifier, near enough.
const identifierPattern = `^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{M}\p{N}\p{Pc}-]*$`

const (
	integerPattern  = `^[+-]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO]?[0-7_]+|[0-9][0-9_]*)$`
	durationPattern = `^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
)

// entryValue is the schema of an entry of after.
var entryValue = object{"type": []string{"string", "boolean"}, "pattern": entryPattern}

// values are the schemas of the types of values, as weakly typed as the loader is, and
// of what the tag "form" of a key names. Null and an empty string are the same as no key.
var values = map[string]object{
	"identifier": {"type": "string", "pattern": "^$|" + identifierPattern},
	"task":       {"type": []string{"string", "boolean"}, "pattern": identifierPattern, "maxLength": maxTaskName},
	"tasks":      {"anyOf": []object{unsetValue, {"$ref": "#/$defs/task"}, {"type": "array", "items": object{"$ref": "#/$defs/task"}}}},
	"order":      {"anyOf": []object{unsetValue, entryValue, {"type": "array", "items": entryValue}}},
	"cluster":    {"type": []string{"string", "number", "boolean"}, "pattern": "^[^/]+$"},
	"any":        {"type": []string{"string", "number", "boolean"}}, // also the empty text
	"port":       integer(0, 65535),
	"delay":      {"anyOf": []object{unsetValue, {"const": 0}, {"type": "string", "pattern": strings.Replace(durationPattern, "[+-]?", `\+?`, 1)}}},
	"count":      integer(0, 1<<31-1),
	"positive":   integer(1, 1<<31-1),
	"percent":    integer(0, 100),
	"role":       {"type": "string", "pattern": "^$|" + rolePattern},
	"labels": blocks(object{"type": "object", "maxProperties": maxLabels, "propertyNames": object{"pattern": labelPattern},
		"additionalProperties": object{"type": []string{"string", "number", "boolean"}, "pattern": labelPattern, "minimum": 0}}, true),
	"version": {"type": []string{"string", "null"}, "pattern": `^$|^v?\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`},
	"text":    {"type": []string{"string", "number", "boolean"}, "minLength": 1},
	"string":  {"type": []string{"string", "number", "boolean", "null"}},
	"bool": {"anyOf": []object{unsetValue, {"type": "boolean"},
		{"enum": []any{"true", "True", "TRUE", "t", "T", "1", 1, "false", "False", "FALSE", "f", "F", "0", 0}},
	}},
	"number":   integer(-1<<31, 1<<31-1),
	"duration": {"anyOf": []object{unsetValue, {"const": 0}, {"type": "string", "pattern": durationPattern}}},
	"list": {"anyOf": []object{
		{"type": []string{"string", "number", "boolean", "null"}},
		{"type": "array", "items": object{"type": []string{"string", "number", "boolean"}}},
	}},
	"map": blocks(object{"type": "object", "additionalProperties": object{"$ref": "#/$defs/string"}}, true),
}

// unsetValue is what leaves a key unset.
var unsetValue = object{"enum": []any{nil, ""}}

// integer is a whole number, or the text of one.
func integer(least, most int) object {
	return object{"anyOf": []object{unsetValue, {"type": "integer", "minimum": least, "maximum": most}, {"type": "string", "pattern": integerPattern}}}
}

// valueNames are the names of values by the types of keys.
var valueNames = map[reflect.Type]string{
	reflect.TypeFor[string]():         "string",
	reflect.TypeFor[bool]():           "bool",
	reflect.TypeFor[int]():            "number",
	reflect.TypeFor[time.Duration]():  "duration",
	reflect.TypeFor[block.String]():   "string",
	reflect.TypeFor[block.Bool]():     "bool",
	reflect.TypeFor[block.Int]():      "number",
	reflect.TypeFor[block.Duration](): "duration",
	reflect.TypeFor[block.Strings]():  "list",
	reflect.TypeFor[block.Map]():      "map",
}

// blocks is a block, or a list of them, or not set; with null it may also be empty.
func blocks(block object, null bool) object {
	any := []object{block, {"type": "array", "items": block}, {"const": ""}}
	if null {
		any[2] = unsetValue
	}
	return object{"anyOf": any}
}

// oneBlock is a block that can be written once.
func oneBlock(block object, null bool) object {
	b := blocks(block, null)
	b["anyOf"].([]object)[1]["maxItems"] = 1
	return b
}

// named is a labelled block: an object of bodies by their labels.
func named(bodies object) object {
	bodies["type"], bodies["minProperties"] = "object", 1
	return bodies
}

type schemaWriter struct{ defs map[string]any }

// define returns a reference to a schema that several places share.
func (g *schemaWriter) define(name string, schema func() object) object {
	if _, ok := g.defs[name]; !ok {
		g.defs[name] = nil // against recursion
		g.defs[name] = schema()
	}
	return object{"$ref": "#/$defs/" + name}
}

// block is the schema of a struct of schema.go.
func (g *schemaWriter) block(t reflect.Type, prefix string) object {
	name := strings.TrimPrefix(t.Name(), "raw")
	if name == "Keys" { // of a package for one block
		name = path.Base(t.PkgPath())
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	if slices.ContainsFunc(schemaOf(t).keys, func(k key) bool { return len(k.env) > 0 && strings.HasPrefix(k.env[0], "*") }) {
		name = strings.ToLower(prefix) + name
	}
	return g.define(name, func() object { return g.object(t, prefix) })
}

func (g *schemaWriter) object(t reflect.Type, prefix string) object {
	properties := object{}
	var required []string
	for _, k := range schemaOf(t).keys {
		if k.say != "" {
			if k.warn {
				properties[k.name] = object{"deprecated": true, "description": k.say}
			}
			continue
		}
		properties[k.name] = g.property(k, prefix)
		if k.required() && !slices.Contains(spread, t) {
			required = append(required, k.name)
		}
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	switch t {
	case reflect.TypeFor[rawTask]():
		o["anyOf"] = []object{{"required": []string{"module"}}, {"required": []string{"source"}}}
		required = []string{"name"}
	case reflect.TypeFor[rawCondition]():
		o["minProperties"], o["maxProperties"] = 1, 1
	case reflect.TypeFor[rawModuleInput]():
		o["minProperties"] = 1
	}
	if special, ok := reflect.New(t).Interface().(interface{ Schema(map[string]any) }); ok {
		special.Schema(o)
	}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

// spread are the blocks with required keys that may stand in another file, or in the
// environment.
var spread = []reflect.Type{reflect.TypeFor[HighAvailability](), reflect.TypeFor[Cluster](), reflect.TypeFor[rawCloud]()}

func (k key) required() bool { return k.tag.Get("required") != "" }

// empty reports whether a block may be written without anything in it.
func empty(o map[string]any) bool {
	return o["required"] == nil && o["anyOf"] == nil && o["minProperties"] == nil
}

func (g *schemaWriter) property(k key, prefix string) object {
	var p object
	switch t := k.typ; {
	case hasLabels(t):
		p = blocks(named(object{"additionalProperties": oneBlock(g.block(t.Elem(), ""), true)}), false)
	case t.Kind() == reflect.Slice:
		p = blocks(g.block(t.Elem(), ""), false)
	case !k.field:
		under := prefix
		if k.prefix != "" {
			under = k.prefix
		}
		ref := g.block(t, under)
		def, _ := g.defs[strings.TrimPrefix(ref["$ref"].(string), "#/$defs/")].(object)
		p = oneBlock(ref, empty(def))
		if k.short != "" {
			p["anyOf"] = append(p["anyOf"].([]object), g.value(k.shortKey()))
		}
	case t == reflect.TypeFor[freeForm]():
		p = blocks(object{
			"type": "object", "propertyNames": object{"pattern": identifierPattern},
			"additionalProperties": object{"type": []string{"string", "object"}},
		}, true)
	case t == reflect.TypeFor[labelled]() && k.name == "backend":
		p = g.backend()
	case t == reflect.TypeFor[labelled]():
		p = g.providers()
	default:
		p = g.value(k)
	}
	p["description"] = k.description(prefix)
	if k.deprecated != "" {
		p["deprecated"] = true
	}
	if v, ok := k.typed(k.fallback); ok {
		p["default"] = v
	}
	if v, ok := k.typed(k.tag.Get("example")); ok {
		p["examples"] = []any{v}
	}
	return p
}

// value is the schema of a scalar, list or map.
func (g *schemaWriter) value(k key) object {
	if one, anyCase := k.one(); len(one) > 0 {
		any := []object{{"enum": one}, unsetValue}
		if k.value == "list" {
			any = append(any, object{"type": "array", "items": object{"enum": one}})
		}
		if anyCase {
			any = append(any, object{"pattern": "^(" + insensitive(strings.Join(one, "|")) + ")$", "type": "string"})
		}
		return object{"anyOf": any}
	}
	name := cmp.Or(k.tag.Get("form"), k.value)
	if k.required() && name == "string" {
		name = "text"
	}
	g.define("string", func() object { return values["string"] }) // that of maps refers to it
	return g.define(name, func() object { return values[name] })
}

// one returns the values that are allowed, if they are listed, and whether they
// may be written in any case.
func (k key) one() (values []string, anyCase bool) {
	list, anyCase := strings.CutSuffix(k.tag.Get("one"), " any case")
	return strings.Fields(list), anyCase
}

// insensitive makes a pattern match in any case, which JSON Schema has no flag for.
func insensitive(pattern string) string {
	return regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(pattern, func(c string) string {
		return "[" + c + strings.ToLower(c) + "]"
	})
}

// typed returns a text of a tag as a value of the key's type.
func (k key) typed(text string) (any, bool) {
	if text == "" {
		return nil, false
	}
	switch k.value {
	case "bool":
		return text == "true", true
	case "number":
		n, err := strconv.Atoi(text)
		return n, err == nil
	default:
		return text, true
	}
}

var codeWords = regexp.MustCompile(`(^|[\s(])'([^']+)'`)

// markdown is a text of a tag, in which quotes stand for code.
func markdown(text string) string { return codeWords.ReplaceAllString(text, "$1`$2`") }

// description is what an editor shows of a key.
func (k key) description(prefix string) string {
	doc := markdown(k.tag.Get("doc"))
	if doc == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString(strings.ToUpper(doc[:1]) + doc[1:] + ".")
	if unset := k.tag.Get("unset"); unset != "" {
		b.WriteString(" If not set: " + markdown(unset) + ".")
	}
	if names := k.variables(prefix); len(names) > 0 {
		b.WriteString(" From the environment: " + strings.Join(names, ", ") + ".")
	}
	if k.deprecated != "" {
		b.WriteString(" Deprecated: use " + k.deprecated + ".")
	}
	return b.String()
}

// variables are the environment variables of a key. A block without a prefix has none
// of those whose names begin with it.
func (k key) variables(prefix string) []string {
	var names []string
	for _, name := range k.env {
		if prefix == "" && strings.HasPrefix(name, "*") {
			continue
		}
		names = append(names, strings.Replace(name, "*", prefix, 1))
	}
	return names
}

// backend is the schema of the one backend. Its arguments are Terraform's.
func (g *schemaWriter) backend() object {
	body := g.arguments()
	kinds := object{}
	for _, kind := range backends {
		kinds[kind] = oneBlock(body, true)
	}
	return oneBlock(g.define("backend", func() object {
		return named(object{"properties": kinds, "additionalProperties": false, "maxProperties": 1})
	}), false)
}

// arguments is the schema of a block that is not ours to know. A list of objects
// in it is blocks, any other value an argument.
func (g *schemaWriter) arguments() object {
	return g.define("arguments", func() object {
		return object{
			"type": "object", "propertyNames": object{"pattern": identifierPattern},
			"additionalProperties": object{
				"if":   object{"type": "array", "items": object{"type": "object"}},
				"then": object{"items": object{"$ref": "#/$defs/arguments"}},
			},
		}
	})
}

// providers is the schema of terraform_provider, whose content is the
// provider's but for a few keys.
func (g *schemaWriter) providers() object {
	body := g.define("provider", func() object {
		o := g.object(reflect.TypeFor[rawProvider](), "")
		block := g.arguments()
		o["additionalProperties"] = object{
			"if":   object{"type": "object"}, // a block, too
			"then": block,
			"else": g.defs["arguments"].(object)["additionalProperties"],
		}
		o["propertyNames"] = object{"pattern": identifierPattern}
		properties := o["properties"].(object)
		strict := func(key string, schema object) {
			p := properties[key].(object)
			delete(p, "$ref")
			maps.Copy(p, schema)
		}
		// The environment of a process holds strings, and nothing is made of null.
		strict("task_env", blocks(object{"type": "object", "additionalProperties": object{"type": "string"}}, true))
		strict("auto_commit", object{"anyOf": values["bool"]["anyOf"].([]object)[1:]})
		return o
	})
	return blocks(g.define("providers", func() object {
		return named(object{"propertyNames": object{"pattern": identifierPattern}, "additionalProperties": blocks(body, true)})
	}), false)
}
