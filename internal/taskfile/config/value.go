package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// valueOf decodes the keys whose value is one of the types of package block.
type valueOf[T string | bool | int | time.Duration | []string | map[string]string] struct{ *block.Value[T] }

// fieldOf returns what decodes a key, or nil if the key is a plain block.
func fieldOf(key reflect.Value) field {
	switch v := key.Addr().Interface().(type) {
	case field:
		return v
	case *string:
		return plainValue[string]{v}
	case *bool:
		return plainValue[bool]{v}
	case *int:
		return plainValue[int]{v}
	case *time.Duration:
		return plainValue[time.Duration]{v}
	case *block.String:
		return valueOf[string]{v}
	case *block.Bool:
		return valueOf[bool]{v}
	case *block.Int:
		return valueOf[int]{v}
	case *block.Duration:
		return valueOf[time.Duration]{v}
	case *block.Strings:
		return valueOf[[]string]{v}
	case *block.Map:
		return valueOf[map[string]string]{v}
	}
	return nil
}

func (v valueOf[T]) decode(d *loader, n *node, path string) {
	at := block.Origin{Pos: n.pos, Path: path}
	var ok bool
	switch any(&v.V).(type) {
	case *string, *bool, *int, *time.Duration:
		n = d.single(n, at)
	}
	switch p := any(&v.V).(type) {
	case *string:
		*p, ok = d.text(n, at)
	case *bool:
		*p, ok = d.bool(n, at)
	case *int:
		*p, ok = d.int(n, at)
	case *time.Duration:
		*p, ok = scalar(d, n, at, time.ParseDuration, "invalid duration %s", `a number with a unit, such as "500ms", "20s", "5m" or "1h"`)
	case *[]string:
		*p, ok = d.strings(n, at)
	case *map[string]string:
		ok = d.stringMap(p, n, at)
	}
	if ok {
		v.Mark(n.pos, path)
		v.Text = n.text
		v.locate(n, path)
	}
}

func (v valueOf[T]) origin(*loader) *block.Origin { return &v.Origin }

// written is the value as a file sets it, or nil; a duration is a text.
func (v valueOf[T]) written() any {
	switch d, ok := any(v.V).(time.Duration); {
	case !v.Set:
		return nil
	case ok:
		return d.String()
	}
	return v.V
}

// plainValue decodes the keys whose value has only its type.
type plainValue[T string | bool | int | time.Duration] struct{ v *T }

func (p plainValue[T]) decode(d *loader, n *node, path string) {
	written := rawOf(d, p.v)
	valueOf[T]{written}.decode(d, n, path)
	*p.v = written.V
}

func (p plainValue[T]) origin(d *loader) *block.Origin { return &rawOf(d, p.v).Origin }

// rawOf returns a plain value as it was written, and where.
func rawOf[T string | bool | int | time.Duration](l *loader, v *T) *block.Value[T] {
	return writtenAt(l, v, block.Value[T]{V: *v})
}

// place returns where a block is.
func (l *loader) place(b any) *block.Origin {
	if b, ok := b.(interface{ Place() *block.Origin }); ok {
		return b.Place()
	}
	return writtenAt(l, b, block.Origin{})
}

// writtenAt returns what the loader knows about the value that pointer points to. It begins with first.
func writtenAt[T any](l *loader, pointer any, first T) *T {
	if l.written == nil {
		l.written = map[any]any{}
	}
	if l.written[pointer] == nil {
		l.written[pointer] = &first
	}
	return l.written[pointer].(*T)
}

// locate keeps the places of the parts of a list or map.
func (v valueOf[T]) locate(n *node, path string) {
	objects, ok := n.objects()
	if !ok {
		objects = []*node{n}
	}
	for _, o := range objects {
		for path, e := range o.below(path, "") {
			if v.Parts == nil {
				v.Parts = map[string]Position{}
			}
			v.Parts[path] = e.pos
		}
	}
}

// single returns the element of a list of one where a single value is expected,
// as Consul-Terraform-Sync does. Any other value is returned as it is.
func (d *loader) single(n *node, at block.Origin) *node {
	element := n.element()
	if element == n || !d.weak {
		return n
	}
	d.Warn(at, "a list of one, where a single value is expected: its element is used", "remove the brackets")
	return element
}

// element returns the scalar of a list that holds nothing else, or the value itself.
func (n *node) element() *node {
	if n.kind != kindList || len(n.items) != 1 {
		return n
	}
	switch n.items[0].kind {
	case kindBool, kindNumber, kindString:
		return n.items[0]
	}
	return n
}

// text accepts any scalar, as weakly typed as Consul-Terraform-Sync is.
func (d *loader) text(n *node, at block.Origin) (string, bool) {
	switch n.kind {
	case kindString, kindNumber, kindBool:
		return n.text, true
	default:
		d.Fail(at, "must be a string, not "+n.kind.String(), "")
		return "", false
	}
}

func (d *loader) bool(n *node, at block.Origin) (bool, bool) {
	return scalar(d, n, at, strconv.ParseBool, "cannot parse %s as a bool", "allowed: true, false")
}

func (d *loader) int(n *node, at block.Origin) (int, bool) {
	parse := func(text string) (int64, error) { return strconv.ParseInt(text, 0, 32) }
	i, ok := scalar(d, n, at, parse, "cannot parse %s as int", "it must be a whole number")
	return int(i), ok
}

// scalar parses a value, which the problem shows.
func scalar[T any](d *loader, n *node, at block.Origin, parse func(string) (T, error), problem, hint string) (v T, ok bool) {
	parsed, err := parse(n.whole())
	if n.kind == kindList || n.kind == kindObject || err != nil {
		d.Fail(at, fmt.Sprintf(problem, d.shown(n)), hint)
		return v, false
	}
	return parsed, true
}

// whole is the text of a value, of a whole number without a fraction or an
// exponent: to JSON, 8502.0 and 8.502e3 are 8502.
func (n *node) whole() string {
	if n.kind != kindNumber {
		return n.text
	}
	f, ok := number(n.text)
	if !ok || !f.IsInt() {
		return n.text
	}
	return f.Text('f', 0)
}

func (d *loader) strings(n *node, at block.Origin) ([]string, bool) {
	if n.kind != kindList {
		s, ok := d.text(n, at)
		return []string{s}, ok
	}
	list := make([]string, 0, len(n.items))
	all := true
	for i, item := range n.items {
		s, ok := d.text(item, block.Origin{Pos: item.pos, Path: block.Indexed(at.Path, i)})
		list, all = append(list, s), all && ok
	}
	return list, all
}

// weakBools are the texts that Consul-Terraform-Sync makes of booleans.
var weakBools = map[string]string{"true": "1", "false": "0"}

func (d *loader) stringMap(m *map[string]string, n *node, at block.Origin) bool {
	objects, ok := n.objects()
	if !ok {
		d.Fail(at, "must be a map of strings, not "+n.kind.String(), "")
		return false
	}
	all := true
	for _, o := range objects {
		for _, e := range o.entries {
			s, ok := "", e.value.kind == kindNull
			if !ok {
				at := block.Origin{Pos: e.pos, Path: block.Joined(at.Path, e.key)}
				value := d.single(e.value, at)
				if s, ok = d.text(value, at); d.weak && value.kind == kindBool && strings.HasSuffix(at.Path, ".cts_user_defined_meta."+e.key) {
					d.Warn(at, fmt.Sprintf("the module gets %q, and got %q from Consul-Terraform-Sync", s, weakBools[s]),
						fmt.Sprintf("write it in quotes: %q, or %q if the module compares with that", s, weakBools[s]))
				}
			}
			if *m == nil {
				*m = map[string]string{}
			}
			(*m)[e.key] = s
			all = all && ok
		}
	}
	return all
}

// shown quotes a value for an error.
func (d *loader) shown(n *node) string {
	if n.kind == kindList || n.kind == kindObject {
		return n.kind.String()
	}
	return block.Quoted(n.text)
}
