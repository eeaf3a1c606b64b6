package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// The schemas of the blocks of a task in openapi.yaml are generated from their keys.
func TestOpenAPI_SchemasOfBlocksAreCurrent(t *testing.T) {
	const file = "../internal/people/apispec/openapi.yaml" // from docs
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(doc), "\r\n", "\n")
	rules, schemas := apiRules()
	text = between(t, text, "# generate ./internal/taskfile/config.\n", "    # end of the generated schemas\n",
		kindsSchema("Condition", "the trigger of the task; one of these", &conditionBlocks{})+
			kindsSchema("ModuleInput", "further data for the module, which does not trigger the task", &inputBlocks{})+schemas)
	text = between(t, text, "# The rules are generated: run go generate ./internal/taskfile/config.\n", "        # end of the generated rules\n", rules)
	current(t, file, []byte(text))
}

// between replaces the text between two marks.
func between(t *testing.T, text, begin, end, generated string) string {
	t.Helper()
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("the marks of the generated schemas are gone: %s", begin)
	}
	return before + begin + generated + end + after
}

// apiRules are the properties of a task for its rules, and the schemas of their
// blocks. They have no defaults: the global value counts if a key is not given.
func apiRules() (properties, schemas string) {
	for _, k := range schemaOf(reflect.TypeFor[rawRules]()).keys {
		doc := plainText(k.tag.Get("doc"))
		name := strings.ToUpper(k.name[:1]) + k.name[1:]
		if k.short != "" {
			name += "Rule" // Approval is that of a person
		}
		schema, block := fmt.Sprintf(`$ref: "#/components/schemas/%s"`, name), k.typ
		switch {
		case hasLabels(block):
			schema, block = fmt.Sprintf("type: object, additionalProperties: {%s}, description: %q", schema, doc+". By their names"), block.Elem()
		case block.Kind() == reflect.Slice:
			schema, block = fmt.Sprintf("type: array, items: {%s}, description: %q", schema, doc+". Not given: the global value"), block.Elem()
		case k.short != "":
			schema = fmt.Sprintf("anyOf: [{%s}, {%s}], x-go-type: any, description: %q", apiType(k.shortKey(), false), schema, doc+"; a text is its "+k.short+". Not given: the global value")
		case k.field:
			schema, block = fmt.Sprintf("%s, description: %q", apiType(k, false), doc+". Not given: the global value"), nil
		}
		properties += fmt.Sprintf("        %s: {%s}\n", k.name, schema)
		if block != nil {
			schemas += fmt.Sprintf("    %s:\n      type: object\n      additionalProperties: false\n      description: %q\n      x-go-type: map[string]any\n", name, doc) +
				apiKeys(block, "      ", k.typ.Kind() == reflect.Slice)
		}
	}
	return properties, schemas
}

// kindsSchema is the OpenAPI schema of a block with kinds.
func kindsSchema(name, description string, blocks kindBlock) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %s:\n      type: object\n      additionalProperties: false\n      description: %s\n", name, description)
	b.WriteString("      x-go-type: map[string]any\n      properties:\n")
	for _, k := range blocks.kinds() {
		name := (&condition.Kind{Name: k.name}).APIName()
		fmt.Fprintf(&b, "        %s:\n          type: object\n          additionalProperties: false\n          description: %q\n", name, plainText(k.tag.Get("doc")))
		b.WriteString(apiKeys(k.typ, "          ", true))
	}
	return b.String()
}

// apiKeys are the keys of a block: which are required, and the properties.
func apiKeys(of reflect.Type, indent string, defaults bool) string {
	var required []string
	properties := indent + "properties:\n"
	for _, k := range schemaOf(of).keys {
		if k.deprecated != "" || k.say != "" {
			continue
		}
		if k.required() {
			required = append(required, k.name)
		}
		name := k.name
		if name == "on" { // true in YAML 1.1
			name = `"on"`
		}
		if !k.field { // a block in the block
			properties += fmt.Sprintf("%s  %s:\n%s    type: object\n%s    additionalProperties: false\n%s    description: %q\n", indent, name, indent, indent, indent, plainText(k.tag.Get("doc"))) +
				apiKeys(k.typ, indent+"    ", defaults)
			continue
		}
		properties += fmt.Sprintf("%s  %s: {%s, description: %q}\n", indent, name, apiType(k, defaults), plainText(k.tag.Get("doc")))
	}
	if len(required) > 0 {
		properties = indent + "required: [" + strings.Join(required, ", ") + "]\n" + properties
	}
	return properties
}

func plainText(doc string) string { return strings.ReplaceAll(markdown(doc), "`", "'") }

// apiType is the type of a key, and what is known of its values.
func apiType(k key, defaults bool) string {
	enum := ""
	if one, _ := k.one(); len(one) > 0 {
		enum = ", enum: [" + strings.Join(one, ", ") + "], x-go-type: string"
	}
	text := map[string]string{
		"string": "type: string" + enum, "bool": "type: boolean", "number": "type: integer", "duration": "type: string",
		"list": "type: array, items: {type: string" + enum + "}", "map": "type: object, additionalProperties: {type: string}",
	}[k.value]
	text += map[string]string{"count": ", minimum: 0", "percent": ", minimum: 0, maximum: 100"}[k.tag.Get("form")]
	if k.fallback != "" && defaults {
		text += ", default: " + k.fallback
	}
	if example := k.tag.Get("example"); example != "" {
		switch k.value {
		case "number":
		case "list":
			example = fmt.Sprintf("[%q]", example)
		default:
			example = strconv.Quote(example)
		}
		text += ", example: " + example
	}
	return text
}
