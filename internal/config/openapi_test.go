package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/condition"
)

// The schemas of conditions and module inputs in openapi.yaml are generated from
// the keys of the kinds.
func TestOpenAPI_SchemasOfConditionsAreCurrent(t *testing.T) {
	const file = "../internal/apispec/openapi.yaml" // from docs
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(doc), "\r\n", "\n")
	const begin, end = "# generate ./internal/config.\n", "    # end of the generated schemas\n"
	before, rest, ok := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatal("the marks of the generated schemas are gone")
	}
	schemas := apiSchema("Condition", "the trigger of the task; one of these", &conditionBlocks{}) +
		apiSchema("ModuleInput", "further data for the module, which does not trigger the task", &inputBlocks{})
	current(t, file, []byte(before+begin+schemas+end+after))
}

// apiSchema is the OpenAPI schema of a block with kinds.
func apiSchema(name, description string, blocks kindBlock) string {
	var b strings.Builder
	fmt.Fprintf(&b, "    %s:\n      type: object\n      additionalProperties: false\n      description: %s\n", name, description)
	b.WriteString("      x-go-type: map[string]any\n      properties:\n")
	for _, kind := range condition.Kinds {
		keys, doc := blocks.of(kind)
		if keys == nil {
			continue
		}
		fmt.Fprintf(&b, "        %s:\n          type: object\n          additionalProperties: false\n          description: %q\n", kind.APIName(), plainText(doc))
		var required []string
		var properties strings.Builder
		for _, k := range schemaOf(reflect.TypeOf(keys()).Elem()).keys {
			if k.deprecated != "" || k.say != "" {
				continue
			}
			if k.required() {
				required = append(required, k.name)
			}
			fmt.Fprintf(&properties, "            %s: {%s, description: %q}\n", k.name, apiType(k), plainText(k.tag.Get("doc")))
		}
		if len(required) > 0 {
			fmt.Fprintf(&b, "          required: [%s]\n", strings.Join(required, ", "))
		}
		b.WriteString("          properties:\n" + properties.String())
	}
	return b.String()
}

func plainText(doc string) string { return strings.ReplaceAll(markdown(doc), "`", "'") }

func apiType(k key) string {
	text := map[string]string{
		"string": "type: string", "bool": "type: boolean", "number": "type: integer", "duration": "type: string",
		"list": "type: array, items: {type: string}", "map": "type: object, additionalProperties: {type: string}",
	}[k.value]
	if k.fallback != "" {
		text += ", default: " + k.fallback
	}
	if example := k.tag.Get("example"); example != "" {
		text += fmt.Sprintf(", example: %q", example)
	}
	return text
}
