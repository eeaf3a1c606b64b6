package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

var backticked = regexp.MustCompile("`([^`]+)`")

// withTables returns a page of docs/reference with the tables that the schema
// makes. A section has one table, of the keys that all blocks in its heading have and no
// section before it has shown: "" is the top level. A block all of whose keys are shown is
// removed from blocks.
func withTables(t *testing.T, doc string, blocks map[string]described) string {
	t.Helper()
	var out []string
	var section []described // of the heading
	var deprecated, inTable bool
	shown := map[string]bool{} // by the paths of keys
	for _, line := range strings.Split(doc, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
			section, deprecated = nil, line == "## Deprecated keys"
			var names []string
			for _, m := range backticked.FindAllStringSubmatch(line, -1) {
				names = append(names, m[1])
			}
			switch line {
			case "## Top level":
				names = []string{""}
			case "## Keys of rules":
				names = []string{ruleKeys}
			}
			for _, name := range names {
				if b, ok := blocks[name]; ok {
					section = append(section, b)
				}
			}
		case strings.HasPrefix(line, "| key | type |"):
			inTable = true
			rows := deprecatedTable()
			if !deprecated {
				rows = table(section, shown)
			}
			if len(rows) == 1 {
				t.Errorf("a table under a heading that names no block, before:\n%s", line)
			}
			out = append(out, lines(rows)...)
			for _, b := range section {
				if !slices.ContainsFunc(schemaOf(b.of).keys, func(k key) bool { return k.listedOf(b) && !shown[block.Joined(b.path, k.name)] }) {
					delete(blocks, b.path)
				}
			}
			section = nil
			continue
		case inTable && strings.HasPrefix(line, "|"):
			continue
		default:
			inTable = false
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// A described block is one whose keys the reference has a table of.
type described struct {
	path   string
	of     reflect.Type
	prefix string
}

func describedBlocks() []described {
	all := []described{{path: "", of: reflect.TypeFor[rawConfig]()}, {path: "terraform_provider", of: reflect.TypeFor[rawProvider]()}}
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, prefix string, k key, t reflect.Type) {
		if k.deprecated != "" || strings.HasPrefix(path, "service.") || k.field && t.Kind() != reflect.Slice {
			return
		}
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		all = append(all, described{path, t, prefix + k.prefix})
	})
	return all
}

// listedOf reports whether a table of the block has the key.
func (k key) listedOf(b described) bool {
	return k.say == "" && k.deprecated == "" && (b.path == ruleKeys || !isRule(k))
}

// table has the keys that all blocks of a section have and that were not shown before: the cells of its rows, the
// first of which is the head.
func table(section []described, shown map[string]bool) [][]string {
	rows := [][]string{{"key", "type", "default", "environment", "meaning"}}
	if len(section) == 0 {
		return rows
	}
	for _, k := range schemaOf(section[0].of).keys {
		lacks := func(b described) bool {
			return !slices.ContainsFunc(schemaOf(b.of).keys, func(other key) bool { return other.name == k.name })
		}
		if !k.listedOf(section[0]) || shown[block.Joined(section[0].path, k.name)] || slices.ContainsFunc(section, lacks) {
			continue
		}
		for _, b := range section {
			shown[block.Joined(b.path, k.name)] = true
		}
		var env []string
		for _, b := range section {
			for _, name := range k.variables(b.prefix) {
				if name = "`" + name + "`"; !slices.Contains(env, name) {
					env = append(env, name)
				}
			}
		}
		rows = append(rows, []string{"`" + k.name + "`", kindOf(k.typ, k), k.otherwise(), strings.Join(env, ", "), k.meaning()})
	}
	return rows
}

// ruleKeys stands for the keys of rules, which are at the top level and in a task: they have one table.
const ruleKeys = "rules"

func isRule(k key) bool {
	return slices.ContainsFunc(schemaOf(reflect.TypeFor[rawRules]()).keys, func(rule key) bool { return rule.name == k.name && rule.typ == k.typ })
}

var replacement = regexp.MustCompile(`\w+ "\w+"|^\w+$`)

func deprecatedTable() [][]string {
	rows := [][]string{{"key", "type", "default", "instead"}}
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, t reflect.Type) {
		switch {
		case k.say != "":
		case k.deprecated != "":
			rows = append(rows, []string{"`" + path + "`", kindOf(t, k), k.otherwise(), replacement.ReplaceAllString(k.deprecated, "`$0`")})
		case strings.HasPrefix(path, "service."):
			rows = append(rows, []string{"`" + path + "`", kindOf(t, k), k.otherwise(), k.meaning()})
		}
	})
	return rows
}

// lines are those of a table in Markdown, without columns that only have a head.
func lines(rows [][]string) []string {
	lines, rule := make([]string, len(rows)), "|"
	for column := range rows[0] {
		if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[column] != "" }) {
			continue
		}
		rule += "---|"
		for i, row := range rows {
			cell := " " + strings.ReplaceAll(row[column], "|", "\\|")
			if row[column] != "" {
				cell += " "
			}
			lines[i] += "|" + cell
		}
	}
	for i := range lines {
		lines[i] += "|"
	}
	return slices.Insert(lines, 1, rule)
}

// otherwise is what counts where a key is not set.
func (k key) otherwise() string {
	switch {
	case k.required():
		return "*required*"
	case k.fallback != "":
		return "`" + k.fallback + "`"
	case k.short != "" && k.tag.Get("unset") == "":
		return k.shortKey().otherwise()
	default:
		return markdown(k.tag.Get("unset"))
	}
}

func (k key) meaning() string {
	doc := markdown(k.tag.Get("doc"))
	if k.short != "" {
		return doc + ". A string is its `" + k.short + "`, " + strings.TrimPrefix(k.shortKey().meaning(), markdown(k.shortKey().tag.Get("doc"))+": ")
	}
	if one, _ := k.one(); len(one) > 0 {
		doc += ": `" + strings.Join(one[:len(one)-1], "`, `") + "` or `" + one[len(one)-1] + "`"
	}
	return doc
}

// everyKey calls f for every key of the schema, with its full path.
func everyKey(of reflect.Type, path, prefix string, f func(path, prefix string, k key, t reflect.Type)) {
	for _, k := range schemaOf(of).keys {
		t := k.typ
		path := block.Joined(path, k.name)
		f(path, prefix, k, t)
		switch {
		case k.deprecated != "" && k.name == "source_input": // the keys of module_input
		case t.Kind() == reflect.Slice:
			everyKey(t.Elem(), path, prefix, f)
		case !k.field:
			everyKey(t, path, prefix+k.prefix, f)
		}
	}
}

func kindOf(t reflect.Type, k key) string {
	switch {
	case hasLabels(t):
		return "labelled blocks"
	case t.Kind() == reflect.Slice:
		return "blocks"
	case k.short != "":
		return kindOf(k.shortKey().typ, k.shortKey()) + " or block"
	case !k.field:
		return "block"
	case t == reflect.TypeFor[labelled]() && k.name != "backend": // there is one backend
		return "labelled blocks"
	}
	return cmp.Or(k.value, map[reflect.Type]string{
		reflect.TypeFor[freeForm](): "map of strings and maps",
		reflect.TypeFor[labelled](): "labelled block",
	}[t])
}

// A page is one of docs/reference that is about task files.
type page struct{ name, text string }

// referencePages are the pages that are about task files: all but those about
// commands, the API and what Terrapulse says.
func referencePages(t *testing.T) []page {
	t.Helper()
	files, err := filepath.Glob("../../../docs/reference/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []page
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "commands") || slices.Contains(otherPages, name) {
			continue
		}
		doc, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page{"reference/" + name, strings.ReplaceAll(string(doc), "\r\n", "\n")})
	}
	return pages
}

var otherPages = []string{"api.md", "events.md", "logs.md", "metrics.md", "reasons.md"}

func readReference(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, page := range referencePages(t) {
		all.WriteString(page.text)
	}
	return all.String()
}

func TestReference_IsCurrent(t *testing.T) {
	blocks := map[string]described{}
	for _, b := range describedBlocks() {
		blocks[b.path] = b
	}
	blocks[ruleKeys] = described{path: ruleKeys, of: reflect.TypeFor[rawRules]()}
	pages := referencePages(t)
	for _, page := range pages {
		text := withTables(t, page.text, blocks)
		if page.name == "reference/README.md" {
			text = withIndex(t, text, pages)
		}
		current(t, page.name, []byte(text))
	}
	for path, b := range blocks {
		if !likeACondition(b) {
			t.Errorf("docs/reference has no table under a heading for %q", path)
		}
	}
}

// likeACondition reports whether a block is a module input with the keys of the condition of its type,
// as docs/reference/module-input.md says.
func likeACondition(b described) bool {
	kind, ok := strings.CutPrefix(b.path, "task.module_input.")
	if !ok {
		return false
	}
	for _, c := range describedBlocks() {
		if c.path == "task.condition."+kind {
			rows := slices.DeleteFunc(table([]described{c}, map[string]bool{}), func(row []string) bool { return row[0] == "`use_as_module_input`" })
			return slices.EqualFunc(rows, table([]described{b}, map[string]bool{}), slices.Equal)
		}
	}
	return false
}

const indexHead = "Each block has its keys at:\n\n"

// withIndex returns the first page of the reference with its list of all blocks. Each
// block has a link to the heading that names it.
func withIndex(t *testing.T, doc string, pages []page) string {
	t.Helper()
	where := map[string]string{}
	for _, page := range pages {
		for _, m := range regexp.MustCompile("(?m)^##+ (.*`.*)$").FindAllStringSubmatch(page.text, -1) {
			anchor := strings.ReplaceAll(regexp.MustCompile("[^a-z0-9_ -]").ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
			for _, name := range backticked.FindAllStringSubmatch(m[1], -1) {
				where[name[1]] = strings.TrimPrefix(page.name, "reference/") + "#" + anchor
			}
		}
	}
	all := describedBlocks()
	slices.SortFunc(all, func(a, b described) int { return strings.Compare(a.path, b.path) })
	var rows []string
	last := ""
	for _, b := range all {
		if b.path == "" || likeACondition(b) && where[b.path] == "" {
			continue
		}
		link := fmt.Sprintf("[`%s`](%s)", b.path, where[b.path])
		if first, _, _ := strings.Cut(b.path, "."); first == last {
			rows[len(rows)-1] += ", " + link
		} else {
			rows, last = append(rows, "- "+link), first
		}
	}
	before, rest, ok := strings.Cut(doc, indexHead)
	if !ok {
		t.Errorf("docs/reference/README.md has no list after %q", indexHead)
		return doc
	}
	_, after, _ := strings.Cut(rest, "\n\n")
	return before + indexHead + strings.Join(rows, "\n") + "\n\n" + after
}

func TestReference_ListsUnsupportedKeys(t *testing.T) {
	said := map[string]bool{}
	for _, line := range strings.Split(readReference(t), "\n") {
		if cells := strings.Split(strings.Trim(line, "|"), "|"); strings.HasPrefix(line, "| `") && len(cells) == 2 {
			said[strings.Trim(cells[0], " `")] = true
		}
	}
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, _ reflect.Type) {
		if (k.say != "") != said[path] {
			t.Errorf("%s: not supported: %v, said to be: %v", path, k.say != "", said[path])
		}
		delete(said, path)
	})
	for path := range said {
		t.Errorf("%s is said not to be supported, and is not known", path)
	}
}

func TestSchema_DescribesEveryKey(t *testing.T) {
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, _ reflect.Type) {
		if k.say == "" && k.tag.Get("doc") == "" {
			t.Errorf("%s has no doc tag in schema.go", path)
		}
		for _, name := range []string{"doc", "unset", "deprecated"} {
			if strings.HasSuffix(k.tag.Get(name), ".") {
				t.Errorf("%s: %s ends in a full stop", path, name)
			}
		}
		if f := k.tag.Get("form"); f != "" && values[f] == nil {
			t.Errorf("%s: there is no form %q", path, f)
		}
	})
}

var fenced = regexp.MustCompile("(?ms)^```(yaml|hcl|json)( full)?\n(.*?)^```$")

func TestReference_ExamplesLoad(t *testing.T) {
	seen := map[string]bool{}
	var full []string
	for i, m := range fenced.FindAllStringSubmatch(readReference(t), -1) {
		name := fmt.Sprintf("example-%d.%s", i+1, m[1])
		dir := write(t, name, m[3], "policy/terrapulse.rego", "package main\n") // a file that an example names
		o := options(dir, name)
		cfg, err := Load(o)
		if err != nil {
			t.Errorf("%s\n%s\n%v", name, m[3], err)
			continue
		}
		if m[2] != "" {
			full = append(full, cfg.Digest())
		}
		if len(cfg.Warnings) > 0 && !strings.Contains(m[3], "kv_namespace") {
			t.Errorf("%s: %v", name, cfg.Warnings)
		}
		root, _ := parsers["."+m[1]](name, []byte(m[3]))
		mentioned(root, "", seen)
	}
	if len(full) != 2 || full[0] != full[1] {
		t.Errorf("the full file in YAML and in HCL do not mean the same: %v", full)
	}
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, _ reflect.Type) {
		if k.say == "" && k.deprecated == "" && !k.hidden && !strings.HasPrefix(path, "service.") && !seen[path] {
			t.Errorf("%s is in no example", path)
		}
	})
}

// mentioned collects the paths of the keys of a file, without indexes.
func mentioned(n *node, path string, seen map[string]bool) {
	for _, item := range n.items {
		mentioned(item, path, seen)
	}
	for _, e := range n.entries {
		path := block.Joined(path, e.key)
		seen[path] = true
		if e.key == "check" || e.key == "verify" || e.key == "group" || e.key == "person" { // their labels are in no path
			for _, label := range e.value.entries {
				mentioned(label.value, path, seen)
			}
			continue
		}
		mentioned(e.value, path, seen)
	}
}

func TestSchema_EveryDefaultCanBeDecoded(t *testing.T) {
	everyKey(reflect.TypeFor[rawConfig](), "", "", func(path, _ string, k key, typ reflect.Type) {
		if k.fallback == "" {
			return
		}
		if !slices.Contains([]string{"string", "bool", "number", "duration"}, k.value) {
			t.Errorf("%s has a default that is never read", path)
			return
		}
		var d loader
		fieldOf(reflect.New(typ).Elem()).decode(&d, &node{kind: kindString, text: k.fallback}, path)
		if len(d.Errors) > 0 {
			t.Error(d.Errors)
		}
	})
}
