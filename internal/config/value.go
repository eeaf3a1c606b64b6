package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A value is one scalar, list or map. V holds the default where none was set.
type value[T string | bool | int | time.Duration | []string | map[string]string] struct {
	origin
	V     T
	text  string              // of a scalar, as written
	parts map[string]Position // of the elements of a list and the keys of a map, by path
}

// part is the place of an element of a list or of a key of a map.
func (v *value[T]) part(path string) origin {
	pos, ok := v.parts[path]
	if !ok {
		pos = v.pos
	}
	return origin{pos: pos, path: path}
}

// element is the place of an element of a list.
func (v *value[T]) element(i int) origin { return v.part(indexed(v.path, i)) }

// entry is the place of a key of a map.
func (v *value[T]) entry(name string) origin { return v.part(joined(v.path, name)) }

func (v *value[T]) decode(d *decoder, n *node, path string) {
	if n.kind == kindNull {
		return
	}
	at := origin{pos: n.pos, path: path}
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
		*p, ok = d.duration(n, at)
	case *[]string:
		*p, ok = d.strings(n, at)
	case *map[string]string:
		ok = d.stringMap(p, n, at)
	}
	if ok {
		v.mark(n.pos, path)
		v.text = n.text
		v.locate(n, path)
	}
}

// locate keeps the places of the parts of a list or map.
func (v *value[T]) locate(n *node, path string) {
	switch any(&v.V).(type) {
	case *[]string:
		v.parts = map[string]Position{}
		for i, item := range n.items {
			v.parts[indexed(path, i)] = item.pos
		}
	case *map[string]string:
		if v.parts == nil {
			v.parts = map[string]Position{}
		}
		objects, _ := n.objects()
		for _, o := range objects {
			for _, e := range o.entries {
				v.parts[joined(path, e.key)] = e.pos
			}
		}
	}
}

// single returns the element of a list of one where a single value is expected,
// as Consul-Terraform-Sync does. Any other value is returned as it is.
func (d *decoder) single(n *node, at origin) *node {
	element := n.element()
	if element == n || !d.weak {
		return n
	}
	d.warn(at, "a list of one, where a single value is expected: its element is used", "remove the brackets")
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
func (d *decoder) text(n *node, at origin) (string, bool) {
	switch n.kind {
	case kindString, kindNumber, kindBool:
		return n.text, true
	default:
		d.fail(at, "must be a string, not "+n.kind.String(), "")
		return "", false
	}
}

func (d *decoder) bool(n *node, at origin) (bool, bool) {
	b, err := strconv.ParseBool(n.whole())
	if n.kind == kindList || n.kind == kindObject || err != nil {
		d.fail(at, "cannot parse "+d.shown(n)+" as a bool", "allowed: true, false")
		return false, false
	}
	return b, true
}

func (d *decoder) int(n *node, at origin) (int, bool) {
	i, err := strconv.ParseInt(n.whole(), 0, 32)
	if n.kind == kindList || n.kind == kindObject || err != nil {
		d.fail(at, "cannot parse "+d.shown(n)+" as int", "it must be a whole number")
		return 0, false
	}
	return int(i), true
}

func (d *decoder) duration(n *node, at origin) (time.Duration, bool) {
	t, err := time.ParseDuration(n.whole())
	if n.kind == kindList || n.kind == kindObject || err != nil {
		d.fail(at, "invalid duration "+d.shown(n), `a number with a unit, such as "500ms", "20s", "5m" or "1h"`)
		return 0, false
	}
	return t, true
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

func (d *decoder) strings(n *node, at origin) ([]string, bool) {
	if n.kind != kindList {
		s, ok := d.text(n, at)
		return []string{s}, ok
	}
	list := make([]string, 0, len(n.items))
	all := true
	for i, item := range n.items {
		s, ok := d.text(item, origin{pos: item.pos, path: indexed(at.path, i)})
		list, all = append(list, s), all && ok
	}
	return list, all
}

func (d *decoder) stringMap(m *map[string]string, n *node, at origin) bool {
	objects, ok := n.objects()
	if !ok {
		d.fail(at, "must be a map of strings, not "+n.kind.String(), "")
		return false
	}
	all := true
	for _, o := range objects {
		for _, e := range o.entries {
			s, ok := "", e.value.kind == kindNull
			if !ok {
				at := origin{pos: e.pos, path: joined(at.path, e.key)}
				s, ok = d.text(d.single(e.value, at), at)
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
func (d *decoder) shown(n *node) string {
	if n.kind == kindList || n.kind == kindObject {
		return n.kind.String()
	}
	return quoted(n.text)
}

// quoted quotes text that came from a file, shortened to what a person reads.
func quoted(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return fmt.Sprintf("%q... (%d characters)", string(runes[:most]), len(runes))
	}
	return strconv.Quote(s)
}

func quotedList(list []string) string {
	parts := make([]string, min(len(list), 10))
	for i := range parts {
		parts[i] = quoted(list[i])
	}
	if len(parts) < len(list) {
		parts = append(parts, "...")
	}
	return strings.Join(parts, ", ")
}
