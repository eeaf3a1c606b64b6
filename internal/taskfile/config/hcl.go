package config

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/scanner"
	"github.com/hashicorp/hcl/hcl/token"
)

// parseHCL reads HCL version 1, the language of task files before YAML. It has
// no expressions: "${...}" is literal text. A file that begins with { is JSON.
func parseHCL(file string, src []byte) (*node, []Diagnostic) {
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		return parseJSON(file, src)
	}
	r := hclReader{file: file}
	if d, ok := r.refused(src); ok {
		return nil, []Diagnostic{d}
	}
	tree, err := parser.ParseDontErrorOnDuplicateKeys(src)
	if err != nil {
		return nil, []Diagnostic{r.syntaxError(err, src)}
	}
	list, ok := tree.Node.(*ast.ObjectList)
	if !ok {
		return nil, []Diagnostic{{Position: Position{File: file}, Problem: "not valid HCL: no keys at the top level"}}
	}
	root := r.object(list, Position{File: file, Line: 1, Column: 1})
	return root, r.diags
}

type hclReader struct {
	file  string
	diags []Diagnostic
}

// tokens returns the tokens of a file without comments, up to what cannot be one: the
// parser reports that.
func tokens(src []byte) iter.Seq[token.Token] {
	return func(yield func(token.Token) bool) {
		s := scanner.New(src)
		s.Error = func(token.Pos, string) {}
		for t := s.Scan(); t.Type != token.EOF && t.Type != token.ILLEGAL; t = s.Scan() {
			if t.Type != token.COMMENT && !yield(t) {
				return
			}
		}
	}
}

// refused reports brackets that would exhaust the stack of the parser, and a file that
// ends where a value should follow: the parser drops the key without an error.
func (r *hclReader) refused(src []byte) (Diagnostic, bool) {
	depth := 0
	var last token.Token
	for last = range tokens(src) {
		switch last.Type {
		case token.LBRACE, token.LBRACK:
			if depth++; depth > maxDepth {
				return Diagnostic{Position: r.position(last.Pos), Problem: fmt.Sprintf("nested deeper than %d levels", maxDepth)}, true
			}
		case token.RBRACE, token.RBRACK:
			depth--
		}
	}
	return Diagnostic{Position: r.position(last.Pos), Problem: "not valid HCL: a value was expected after ="}, last.Type == token.ASSIGN
}

var atPosition = regexp.MustCompile(`^At (\d+):(\d+): `)

func (r *hclReader) syntaxError(err error, src []byte) Diagnostic {
	d := Diagnostic{Position: Position{File: r.file}}
	if at, ok := errors.AsType[*parser.PosError](err); ok {
		d.Position = r.position(at.Pos)
		err = at.Err
	}
	text := err.Error()
	// An error inside a list carries the place of what is really wrong as text.
	if i := strings.LastIndex(text, "At "); i >= 0 {
		if m := atPosition.FindStringSubmatch(text[i:]); m != nil {
			d.Line, _ = strconv.Atoi(m[1])
			d.Column, _ = strconv.Atoi(m[2])
			text = text[i+len(m[0]):]
		}
	}
	switch { // some show what is there, which may be a secret
	case strings.HasPrefix(text, "Unknown token: "):
		text = "a value was expected here (strings need double quotes)"
	case strings.HasPrefix(text, "key '"):
		d.Position = r.before(src, d.Position)
		text = "a key stands alone here: = and a value, or a block, should follow it"
	}
	d.Problem = "not valid HCL: " + text
	return d
}

// before is where what stands before a place begins.
func (r *hclReader) before(src []byte, place Position) Position {
	before := place
	for t := range tokens(src) {
		if t.Pos.Line > place.Line || t.Pos.Line == place.Line && t.Pos.Column >= place.Column {
			break
		}
		before = r.position(t.Pos)
	}
	return before
}

func (r *hclReader) position(p token.Pos) Position {
	return Position{File: r.file, Line: p.Line, Column: p.Column}
}

func (r *hclReader) object(list *ast.ObjectList, pos Position) *node {
	n := &node{kind: kindObject, pos: pos}
	assigned := map[string]bool{}
	for _, item := range list.Items {
		if len(item.Keys) == 0 {
			continue
		}
		keys := make([]string, len(item.Keys))
		for i, k := range item.Keys {
			keys[i] = fmt.Sprint(r.literal(k.Token))
		}
		e := entry{
			key: keys[0], pos: r.position(item.Keys[0].Pos()), form: formBlock,
		}
		if item.Assign.IsValid() {
			e.form = formAttribute
		}
		e.value = r.value(item.Val)
		if e.form == formAttribute { // as in JSON, its keys are labels or arguments
			for i := range e.value.entries {
				e.value.entries[i].form = formPlain
			}
		}
		for i := len(keys) - 1; i > 0; i-- {
			pos := r.position(item.Keys[i].Pos())
			e.value = &node{kind: kindObject, pos: pos, entries: []entry{
				{key: keys[i], pos: pos, form: formBlock, label: true, value: e.value},
			}}
		}
		// Maps and lists that are assigned to the same key are joined, as blocks are.
		if e.form == formAttribute && e.value.kind != kindObject && assigned[e.key] {
			if list := n.listOf(e); list != nil {
				list.items = append(list.items, e.value.items...)
			} else {
				n.set(e)
			}
			continue
		}
		assigned[e.key] = assigned[e.key] || e.form == formAttribute
		n.entries = append(n.entries, e)
	}
	return n
}

// listOf returns the list that the object has for the key of an entry that is a list, too.
func (n *node) listOf(e entry) *node {
	i := slices.IndexFunc(n.entries, func(first entry) bool {
		return first.key == e.key && first.form == e.form && first.value.kind == kindList && e.value.kind == kindList
	})
	if i < 0 {
		return nil
	}
	return n.entries[i].value
}

func (r *hclReader) value(v ast.Node) *node {
	switch v := v.(type) {
	case *ast.ObjectType:
		return r.object(v.List, r.position(v.Lbrace))
	case *ast.ListType:
		n := &node{kind: kindList, pos: r.position(v.Lbrack)}
		for _, item := range v.List {
			n.items = append(n.items, r.value(item))
		}
		return n
	case *ast.LiteralType:
		n := &node{pos: r.position(v.Token.Pos), text: v.Token.Text}
		switch v.Token.Type {
		case token.BOOL:
			n.kind = kindBool
		case token.NUMBER, token.FLOAT:
			n.kind = kindNumber
		default:
			n.kind, n.text = kindString, r.literal(v.Token)
		}
		return n
	default:
		return &node{}
	}
}

// literal returns the text that a key or string stands for.
func (r *hclReader) literal(t token.Token) (text string) {
	defer func() {
		if recover() != nil {
			r.diags = append(r.diags, Diagnostic{
				Position: r.position(t.Pos), Problem: "not valid HCL: malformed string",
			})
		}
	}()
	text, _ = t.Value().(string)
	return text
}
