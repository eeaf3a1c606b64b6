package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Map returns the body with f applied to every text in it, in a fixed order. f gets
// the place of the text, such as token, auth.password or hosts[2].
func (b Body) Map(f func(place, text string) string) Body { return b.mapped("", f) }

func (b Body) mapped(path string, f func(place, text string) string) Body {
	next := Body{Attributes: maps.Clone(b.Attributes), Blocks: maps.Clone(b.Blocks)}
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		next.Attributes[name] = mapValue(b.Attributes[name], path+name, f)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Blocks)) {
		next.Blocks[name] = slices.Clone(b.Blocks[name])
		for i, block := range b.Blocks[name] {
			at := path + name
			if len(b.Blocks[name]) > 1 {
				at = fmt.Sprintf("%s[%d]", at, i)
			}
			next.Blocks[name][i] = block.mapped(at+".", f)
		}
	}
	return next
}

// mapValue maps the texts in a value of a task file: in strings, tuples and objects.
func mapValue(v cty.Value, path string, f func(place, text string) string) cty.Value {
	switch t := v.Type(); {
	case v.IsNull() || !v.IsKnown():
		return v
	case t == cty.String:
		return cty.StringVal(f(path, v.AsString()))
	case t.IsTupleType():
		items := v.AsValueSlice()
		for i := range items {
			items[i] = mapValue(items[i], fmt.Sprintf("%s[%d]", path, i), f)
		}
		return cty.TupleVal(items)
	case t.IsObjectType():
		attrs := v.AsValueMap()
		for _, name := range slices.Sorted(maps.Keys(attrs)) {
			attrs[name] = mapValue(attrs[name], path+"."+name, f)
		}
		return cty.ObjectVal(attrs)
	}
	return v
}

// Value returns the body as an object: a block that is repeated is a tuple of objects.
func (b Body) Value() cty.Value {
	attrs := make(map[string]cty.Value, len(b.Attributes)+len(b.Blocks))
	maps.Copy(attrs, b.Attributes)
	for name, blocks := range b.Blocks {
		values := list.Map(blocks, Body.Value)
		if len(values) == 1 {
			attrs[name] = values[0]
		} else {
			attrs[name] = cty.TupleVal(values)
		}
	}
	return cty.ObjectVal(attrs)
}
