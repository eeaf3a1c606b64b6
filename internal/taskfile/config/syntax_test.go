package config

import (
	"os"
	"strings"
	"testing"
)

func TestLoad_SyntaxErrorsNameTheLine(t *testing.T) {
	tests := []struct{ name, file, content, want string }{
		{"HCL", "f.hcl", "task {\n  name = \"a\"\n\n", `f.hcl:4: not valid HCL: object expected closing RBRACE got: EOF`},
		{"HCL in a list", "f.hcl", "a = [\n 1,\n {\n  b = }\n]", `f.hcl:4: not valid HCL: a value was expected here (strings need double quotes)`},
		{"HCL without =", "f.hcl", "consul {\n  token \"x\" # why\n\n  # more\n}", `f.hcl:2: not valid HCL: a key stands alone here: = and a value, or a block, should follow it`},
		{"HCL without = at the end", "f.hcl", "port = 1\n\nid\n", `f.hcl:3: not valid HCL: a key stands alone here: = and a value, or a block, should follow it`},
		{"HCL without a value at the end", "f.hcl", "port = 1\nid = ", `f.hcl:2: not valid HCL: a value was expected after =`},
		{"JSON", "f.json", "{\n  \"port\": 1,\n}", `f.json:3: not valid JSON: invalid character '}' looking for beginning of object key string`},
		{"JSON, a value", "f.json", "{\n  \"port\": }", `f.json:2: not valid JSON: invalid character '}' looking for beginning of value`},
		{"JSON that ends early", "f.json", "{\n  \"port\": 1", `f.json:2: not valid JSON: unexpected end of the file`},
		{"JSON that goes on", "f.json", "{}\n{}", `f.json:2: not valid JSON: more than one value`},
		{"JSON that is a list", "f.json", "[]", `f.json:1: not valid JSON: the top level is not an object`},
		{"YAML", "f.yaml", "port: 1\n  id: x\n", `f.yaml:2: not valid YAML: mapping values are not allowed in this context`},
		{"YAML with a key that is indented less", "f.yaml", "task:\n- name: a\n  module: ./m\n condition: x\n", `f.yaml:4: not valid YAML: did not find expected key; check the indentation, and whether a quote or bracket ends too early`},
		{"YAML with a list that does not end", "f.yaml", "port: 1\ntask:\n- providers: [a\n  name: t\n", `f.yaml:4: not valid YAML: did not find expected ',' or ']' of the list that begins on line 3`},
		{"YAML with a list that the file ends in", "f.yaml", "port: 1\ntask: [\n\n", `f.yaml:2: not valid YAML: did not find expected node content`},
		{"YAML with a quote that does not end", "f.yaml", "port: 1\nid: \"x\nconsul:\n  address: a\n", `f.yaml:2: not valid YAML: the quote that begins here does not end`},
		{"YAML with a key that stands alone", "f.yaml", "port: 1\nid\nconsul:\n  address: a\n", `f.yaml:2: not valid YAML: a key stands alone here: a colon and a value should follow it`},
		{"YAML with a key beside list items", "f.yaml", "task:\n  - name: a\n  b: c\n", `f.yaml:3: not valid YAML: did not find expected '-' indicator`},
		{"YAML with a tab", "f.yaml", "consul:\n\taddress: x\n", `f.yaml:2: not valid YAML: found character that cannot start any token; indent with spaces, YAML allows no tabs there; a text that begins with @, % or ` + "`" + ` needs quotes`},
		{"YAML of two documents", "f.yaml", "port: 1\n---\nport: 2\n", `f.yaml:2: more than one YAML document in the file; put each into a file of its own`},
		{"YAML that is a list", "f.yaml", "- a\n", `f.yaml:1: the top level is a list, not keys with values`},
		{"YAML with an unknown alias", "f.yaml", "port: 1\nid: *x\n", `f.yaml:2: not valid YAML: an alias of what has no anchor before it; a text that begins with * needs quotes`},
		{"YAML with a tag", "f.yaml", "port: 1\nid: !Ref x\n", `f.yaml:2: a tag (!) has no meaning here; a text that begins with ! needs quotes`},
		{"YAML with a map that has a tag", "f.yaml", "port: 1\nconsul: !x\n  address: a\n", `f.yaml:2: a tag (!) has no meaning here; a text that begins with ! needs quotes`},
		{"YAML with a key that is a map", "f.yaml", "{a: b}: c\n", `f.yaml:1: a key must be a plain word`},
		{"a duplicate key in YAML", "f.yaml", "port: 1\nport: 2\n", `f.yaml:2: port: duplicate key: it is already set on line 1; keep one of them`},
		{"the second variable", "f.yaml", "task:\n  name: t\n  module: ./m\n  condition: {services: {names: [a]}}\n  variables:\n    a: '1'\n    b: '[x]'\n", "f.yaml:7: task[0].variables.b: not a literal value: Variables not allowed: Variables may not be used here; the text is Terraform source: a string has quotes of its own, \"\\\"text\\\"\""},
		{"the second name", "f.yaml", "task:\n  name: t\n  module: ./m\n  condition:\n    services:\n      names:\n        - a\n        - ''\n", `f.yaml:8: task[0].condition.services.names[1]: condition "services": names field includes empty string(s). services names cannot be empty; remove it`},
		{"the second instance of a provider", "f.yaml", "terraform_provider:\n  b:\n    - alias: x\n    - alias: x\n", `f.yaml:4: terraform_provider.b: duplicate provider configuration: b.x is already configured at f.yaml:3; remove one, or give it an alias of its own`},
		{"not UTF-8", "f.yaml", "port: 1\nid: \xff\n", `f.yaml:2: the file is not UTF-8 text; save it as UTF-8`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mistakes(t, tt.file, tt.content); got != tt.want {
				t.Errorf("said:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

func TestLoad_ErrorsShowNoSecret(t *testing.T) {
	for name, content := range map[string]string{
		"f.hcl":  "consul {\n token = hunter2\n}",
		"g.hcl":  "consul {\n token = [\"hunter2\", \"x\"]\n}",
		"f.json": `{"consul": {"token": {"x": "hunter2"}}}`,
		"f.yaml": "consul:\n  token:\n    x: hunter2\n",
		"h.hcl":  `terraform_provider "a" { task_env { "X" = ["hunter2"] } }`,
		"i.hcl":  aTask("variables { x = \"hunter2\" }"),
		"k.hcl":  "consul {\n token \"hunter2\"\n}",
		"l.hcl":  "consul {\n token = \"x\" hunter2\n}",
		"g.yaml": "consul:\n  token: *hunter2\n",
		"h.yaml": "consul:\n  token: !hunter2\n",
		"j.hcl":  `consul { token = "{{ env \"hunter2\" }}" }`,
	} {
		if got := mistakes(t, name, content); strings.Contains(got, "hunter2") {
			t.Errorf("%s: said: %s", name, got)
		}
	}

	dir := write(t, "f.hcl", aTask(services+"\nvariable_files = [\"v.tfvars.json\"]"), "v.tfvars.json", `{"password": hunter}`)
	if got := mistakesIn(t, options(dir, "f.hcl")); strings.Contains(got, "hunter") || !strings.Contains(got, "v.tfvars.json:1: task[0].variable_files[0]: ") {
		t.Errorf("said: %s", got)
	}
}

func TestLoad_MissingPath(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.Paths = []Path{{Name: "gone.hcl"}, {Name: "gone.d", Dir: true}, {Name: "no/gone.hcl"}, {Name: ""}}
	init := ": correct the path, or write a first task file with `terrapulse init`"
	want := "-config-file: stat gone.hcl: no such file or directory; there is no gone.hcl in the folder " + dir + init +
		"\n-config-dir: stat gone.d: no such file or directory; there is no gone.d in the folder " + dir + init +
		"\n-config-file: stat no/gone.hcl: no such file or directory; there is no folder " + dir + "/no" + init +
		"\n-config-file: the path is empty"
	if got := mistakesIn(t, o); got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}

func TestLoad_NoFiles(t *testing.T) {
	dir := write(t, "empty.hcl", "", "notes.txt", "x", "sub.hcl/inside.hcl", "port = 1", "sub/inside.hcl", "bogus = 1")
	if err := os.WriteFile(dir+"/empty.yaml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{options(dir, "."), options(dir, "empty.hcl", "notes.txt"), options(dir)} {
		if got := mistakesIn(t, o); !strings.HasPrefix(got, "no configuration files found; name files or folders") {
			t.Errorf("said: %s", got)
		}
	}
}
