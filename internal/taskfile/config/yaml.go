package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxYAMLAliased limits the values that come from aliases. A few lines of
// aliases of aliases can stand for billions.
const maxYAMLAliased = 100_000

// parseYAML reads YAML 1.2 as yaml.v3 does, with aliases and merge keys.
func parseYAML(file string, src []byte) (*node, []Diagnostic) {
	r := yamlReader{file: file, open: map[*yaml.Node]bool{}}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &node{kind: kindObject, pos: Position{File: file}}, nil
	} else if err != nil {
		return nil, []Diagnostic{r.syntaxError(err, src)}
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, []Diagnostic{{
			Position: r.position(&second), Problem: "more than one YAML document in the file",
			Hint: "put each into a file of its own",
		}}
	} else if !errors.Is(err, io.EOF) {
		return nil, []Diagnostic{r.syntaxError(err, src)}
	}

	root, err := r.value(doc.Content[0], 0)
	if err != nil {
		return nil, append(r.diags, *err)
	}
	switch root.kind {
	case kindNull:
		root = &node{kind: kindObject, pos: root.pos}
	case kindObject:
	default:
		return nil, append(r.diags, Diagnostic{
			Position: root.pos, Problem: "the top level is " + root.kind.String() + ", not keys with values",
		})
	}
	return root, r.diags
}

type yamlReader struct {
	file    string
	diags   []Diagnostic
	aliased int
	open    map[*yaml.Node]bool // anchors that are being followed
}

// FindYAMLError returns the place of a file's syntax error and describes it; ok is
// false if it finds none. It is set to yamlplace.Find by the program that people
// give their files to. Functions go without: their files were checked when they
// were pushed, and a second parser would make their programs larger.
var FindYAMLError func(src []byte) (line, column int, problem, hint string, ok bool)

// syntaxError describes what the parser found, at the line that a person has to
// correct if that can be told.
func (r *yamlReader) syntaxError(err error, src []byte) Diagnostic {
	d := Diagnostic{Position: Position{File: r.file}, Problem: "not valid YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if strings.HasPrefix(err.Error(), "yaml: unknown anchor ") { // the name may be a secret
		d.Problem = "not valid YAML: an alias of what has no anchor before it"
	}
	if FindYAMLError != nil {
		if line, column, problem, hint, ok := FindYAMLError(src); ok {
			d.Line, d.Column, d.Problem, d.Hint = line, column, "not valid YAML: "+problem, hint
		}
	}
	return d
}

func (r *yamlReader) position(n *yaml.Node) Position {
	return Position{File: r.file, Line: n.Line, Column: n.Column}
}

func (r *yamlReader) fault(n *yaml.Node, problem, hint string) *Diagnostic {
	return &Diagnostic{Position: r.position(n), Problem: problem, Hint: hint}
}

func (r *yamlReader) value(y *yaml.Node, depth int) (*node, *Diagnostic) {
	if depth > maxDepth {
		return nil, r.fault(y, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
	}
	if len(r.open) > 0 {
		if r.aliased++; r.aliased > maxYAMLAliased {
			return nil, r.fault(y, fmt.Sprintf("aliases stand for more than %d values", maxYAMLAliased),
				"write the values out, or use fewer aliases of aliases")
		}
	}

	n := &node{pos: r.position(y)}
	if y.Kind == yaml.AliasNode {
		return r.alias(y, depth)
	}
	if tag := y.ShortTag(); !strings.HasPrefix(tag, "!!") || tag == "!!binary" {
		return nil, r.fault(y, "a tag (!) has no meaning here", "a text that begins with ! needs quotes") // it may be a secret
	}
	switch y.Kind {
	case yaml.ScalarNode:
		n.text = y.Value
		switch y.ShortTag() {
		case "!!null":
			n.kind = kindNull
		case "!!bool":
			n.kind = kindBool
		case "!!int", "!!float":
			n.kind = kindNumber
		default: // also what looks like a date
			n.kind = kindString
		}
	case yaml.SequenceNode:
		n.kind = kindList
		for _, c := range y.Content {
			item, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case yaml.MappingNode:
		n.kind = kindObject
		if err := r.mapping(n, y, depth); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (r *yamlReader) alias(y *yaml.Node, depth int) (*node, *Diagnostic) {
	if y.Alias == nil || r.open[y.Alias] {
		return nil, r.fault(y, fmt.Sprintf("alias *%s contains itself", y.Value), "")
	}
	r.open[y.Alias] = true
	n, err := r.value(y.Alias, depth+1)
	delete(r.open, y.Alias)
	return n, err
}

func (r *yamlReader) mapping(n *node, y *yaml.Node, depth int) *Diagnostic {
	seen := map[string]Position{}
	var merged []entry
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		v, err := r.value(value, depth+1)
		if err != nil {
			return err
		}
		if key.Kind == yaml.AliasNode && key.Alias != nil {
			key = key.Alias
		}
		if key.Kind != yaml.ScalarNode {
			return r.fault(key, "a key must be a plain word", "")
		}
		if key.ShortTag() == "!!merge" {
			objects, ok := v.objects()
			if !ok {
				return r.fault(value, "a merge key (<<) needs a map or a list of maps", "")
			}
			for _, o := range objects {
				merged = append(merged, o.entries...)
			}
			continue
		}
		if first, ok := seen[key.Value]; ok {
			r.diags = append(r.diags, Diagnostic{
				Position: r.position(key), Key: key.Value,
				Problem: fmt.Sprintf("duplicate key: it is already set on line %d", first.Line), Hint: "keep one of them",
			})
			continue
		}
		seen[key.Value] = r.position(key)
		n.entries = append(n.entries, entry{key: key.Value, pos: r.position(key), value: v})
	}
	for _, e := range merged {
		if _, ok := seen[e.key]; !ok {
			seen[e.key] = e.pos
			n.entries = append(n.entries, e)
		}
	}
	return nil
}
