// Package tfvars writes values of Terraform variables as hclwrite formats them,
// several times faster. It streams: tens of thousands of entries take no more
// memory than one.
package tfvars

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/text/unicode/norm"
)

// Writer writes the entries of maps. The embedded bufio.Writer remembers the
// first error, so only the error of Flush needs a check.
type Writer struct {
	*bufio.Writer
	scratch []byte
	keys    []string
	grouped bool
	entries int // of the variable so far
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{Writer: bufio.NewWriterSize(w, 64<<10)} }

// GroupSize is the number of entries of a group. From 30 to 200 it makes no
// difference that could be measured.
const GroupSize = 100

// Begin starts the map of a variable. In a grouped map, the entries are in maps of
// GroupSize entries.
func (w *Writer) Begin(variable string, grouped bool) {
	w.grouped, w.entries = grouped, 0
	w.WriteString("\n" + variable + " = {\n")
}

// Entry starts an entry of the map. Its value follows.
func (w *Writer) Entry(key string) {
	if w.grouped && w.entries%GroupSize == 0 {
		if w.entries > 0 {
			w.WriteString("},\n")
		}
		fmt.Fprintf(w, "\"%06d\" = {\n", w.entries/GroupSize)
	}
	w.entries++
	w.WriteString("  ")
	w.Quoted(key)
	w.WriteString(" = ")
}

// End ends the map of the variable.
func (w *Writer) End() {
	if w.grouped && w.entries > 0 {
		w.WriteString("},\n")
	}
	w.WriteString("}\n")
}

// Field is one attribute of an object.
type Field struct {
	Name  string
	Kind  FieldKind
	Text  string            // of a text or number
	List  []string          // of a list of strings
	Table map[string]string // of a map of strings or numbers
}

// FieldKind is the type of an attribute.
type FieldKind int8

// The types of attributes.
const (
	Text FieldKind = iota
	Number
	List
	Table
	Numbers // a map of numbers
)

// Object writes an object that is an entry of a map. The equals signs of
// neighbouring lines are aligned; a map that is not empty takes several lines and
// ends the neighbourhood.
func (w *Writer) Object(fields []Field) {
	w.WriteString("{\n")
	for i := 0; i < len(fields); {
		if f := &fields[i]; len(f.Table) > 0 {
			w.WriteString("    ")
			w.WriteString(f.Name)
			w.WriteString(" = {\n")
			w.table(f.Table, f.Kind == Numbers)
			w.WriteString("    }\n")
			i++
			continue
		}
		end, width := i, 0
		for ; end < len(fields) && len(fields[end].Table) == 0; end++ {
			width = max(width, len(fields[end].Name))
		}
		for ; i < end; i++ {
			f := &fields[i]
			w.WriteString("    ")
			w.WriteString(f.Name)
			w.spaces(width - len(f.Name))
			w.WriteString(" = ")
			switch f.Kind {
			case Table, Numbers:
				w.WriteString("{}")
			case List:
				w.List(f.List)
			case Number:
				w.WriteString(f.Text)
			default:
				w.Quoted(f.Text)
			}
			w.WriteByte('\n')
		}
	}
	w.WriteString("  },\n")
}

// table writes the entries of a map, sorted and aligned.
func (w *Writer) table(table map[string]string, numbers bool) {
	w.keys = w.keys[:0]
	width := 0
	for key := range table {
		w.keys = append(w.keys, key)
		width = max(width, w.keyColumns(key))
	}
	slices.Sort(w.keys)
	for _, key := range w.keys {
		w.WriteString("      ")
		w.Write(w.key(key))
		w.spaces(width - w.keyColumns(key))
		w.WriteString(" = ")
		if numbers {
			w.WriteString(table[key])
		} else {
			w.Quoted(table[key])
		}
		w.WriteByte('\n')
	}
}

// key is a map's key as it is written, in the scratch space: bare where HCL
// allows that.
func (w *Writer) key(key string) []byte {
	if identifier(key) {
		w.scratch = append(w.scratch[:0], norm.NFC.String(key)...)
	} else {
		w.scratch = appendQuoted(w.scratch[:0], key)
	}
	return w.scratch
}

// keyColumns is the width of a key as written, in characters as a person sees
// them.
func (w *Writer) keyColumns(key string) int {
	written, quotes := w.key(key), 0
	if written[0] == '"' {
		written, quotes = written[1:len(written)-1], 2
	}
	if slices.ContainsFunc(written, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return hclwrite.Tokens{{Bytes: written}}.Columns() + quotes
	}
	return len(written) + quotes
}

// identifier is hclsyntax.ValidIdentifier, which scans and allocates, with a
// short way for the usual keys.
func identifier(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case '0' <= c && c <= '9', c == '-':
			if i == 0 {
				return false
			}
		case c >= utf8.RuneSelf:
			// A byte order mark passes there, as it is skipped in front of a file.
			return !strings.Contains(s, "\uFEFF") && hclsyntax.ValidIdentifier(norm.NFC.String(s))
		default:
			return false
		}
	}
	return s != ""
}

// List writes a list of strings.
func (w *Writer) List(items []string) {
	w.WriteByte('[')
	for i, item := range items {
		if i > 0 {
			w.WriteString(", ")
		}
		w.Quoted(item)
	}
	w.WriteByte(']')
}

// Quoted writes a string so that Terraform reads exactly this string.
func (w *Writer) Quoted(s string) {
	w.scratch = appendQuoted(w.scratch[:0], s)
	w.Write(w.scratch)
}

const blanks = "                                "

func (w *Writer) spaces(n int) {
	for ; n > len(blanks); n -= len(blanks) {
		w.WriteString(blanks)
	}
	w.WriteString(blanks[:max(n, 0)])
}

// appendQuoted appends s in quotes, so that Terraform reads exactly s: nothing in it
// is taken for a template.
func appendQuoted(b []byte, s string) []byte {
	if !plain(s) {
		return append(b, hclwrite.TokensForValue(cty.StringVal(s)).Bytes()...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether s needs no escaping, which nearly all strings of a
// catalog do not.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '{' {
			return false
		}
	}
	return true
}
