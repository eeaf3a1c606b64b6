package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// sameTree reports whether two trees say the same, whatever the order of keys.
func sameTree(a, b *node) bool {
	if a.kind != b.kind || a.text != b.text || !slices.EqualFunc(a.items, b.items, sameTree) || len(a.entries) != len(b.entries) {
		return false
	}
	return !slices.ContainsFunc(a.entries, func(e entry) bool {
		other := b.get(e.key)
		return other == nil || !sameTree(e.value, other)
	})
}

// writeYAML writes a tree as a file that is read as the same tree.
func writeYAML(root *node) ([]byte, error) {
	for _, style := range []yaml.Style{0, yaml.DoubleQuotedStyle} {
		var b bytes.Buffer
		enc := yaml.NewEncoder(&b)
		enc.SetIndent(2)
		if err := enc.Encode(yamlTree(root, style)); err != nil {
			return nil, fmt.Errorf("write YAML: %w", err)
		}
		file := spaced(b.Bytes())
		again, diags := parseYAML("", file)
		if again != nil && len(diags) == 0 && sameTree(root, again) {
			return file, nil
		}
	}
	return nil, errors.New("write YAML: what was written would not be read as what the files say")
}

// yamlTree is a tree for the encoder. The style is that of texts.
func yamlTree(n *node, style yaml.Style) *yaml.Node {
	y := &yaml.Node{HeadComment: marked(n.above)}
	switch n.kind {
	case kindObject:
		y.Kind = yaml.MappingNode
		for _, e := range n.entries {
			key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: e.key, HeadComment: marked(e.above)}
			value := yamlTree(e.value, style)
			if value.Kind == yaml.ScalarNode {
				value.LineComment = marked(strings.ReplaceAll(e.beside, "\n", " "))
			} else {
				key.LineComment = marked(strings.ReplaceAll(e.beside, "\n", " "))
			}
			y.Content = append(y.Content, key, value)
		}
	case kindList:
		y.Kind = yaml.SequenceNode
		length := 0
		for _, item := range n.items {
			y.Content = append(y.Content, yamlTree(item, style))
			length += len(item.text)
			if item.kind == kindObject || item.kind == kindList {
				length = maxFlow
			}
		}
		if length < maxFlow {
			y.Style = yaml.FlowStyle
		}
	case kindNull:
		y.Kind, y.Tag, y.Value = yaml.ScalarNode, "!!null", "null"
	case kindString:
		y.Kind, y.Tag, y.Value, y.Style = yaml.ScalarNode, "!!str", n.text, style
	default:
		y.Kind, y.Value = yaml.ScalarNode, n.text
		switch tag := y.ShortTag(); {
		case n.kind == kindBool && tag != "!!bool":
			y.Tag = "!!bool"
		case n.kind == kindNumber && tag != "!!int" && tag != "!!float":
			y.Tag = "!!float"
		}
	}
	return y
}

// maxFlow is how many characters a list may have that is written in one line.
const maxFlow = 60

func marked(comment string) string {
	if comment == "" {
		return ""
	}
	return "# " + strings.ReplaceAll(comment, "\n", "\n# ")
}

// spaced puts an empty line before each key of the top level, and what is said
// above it, as people do.
func spaced(file []byte) []byte {
	var out, comments []string
	for line := range strings.Lines(string(file)) {
		switch {
		case strings.HasPrefix(line, "#"):
			comments = append(comments, line)
			continue
		case strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '-' && len(out) > 0:
			out = append(out, "\n")
		}
		out = append(append(out, comments...), line)
		comments = nil
	}
	return []byte(strings.Join(append(out, comments...), ""))
}
