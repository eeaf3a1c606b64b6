// Package block has the parts of a block of a task file: values that remember
// where they were set, and the report of what is wrong with them. A block is a
// struct of values; the tags of its fields are explained in schema.go of package
// config, which decodes it.
package block

import "time"

// Origin is the place where something was configured.
type Origin struct {
	Set  bool // true if a file has it, false for an environment variable or a default
	Pos  Position
	Path string // such as "task[0].condition"
}

// Mark notes the place in a file.
func (o *Origin) Mark(pos Position, path string) { *o = Origin{true, pos, path} }

// Key is the place of a key in the block o, whether the key is set or not.
func (o *Origin) Key(name string) Origin {
	return Origin{Pos: o.Pos, Path: Joined(o.Path, name)}
}

// Value is one scalar, list or map. V holds the default if nothing was set.
type Value[T string | bool | int | time.Duration | []string | map[string]string] struct {
	Origin
	V     T
	Text  string              // of a scalar, as written
	Parts map[string]Position // of the elements of a list and the keys of a map, by path
}

// The types of values.
type (
	String   = Value[string]
	Bool     = Value[bool]
	Int      = Value[int]
	Duration = Value[time.Duration]
	Strings  = Value[[]string]
	Map      = Value[map[string]string]
)

// Or returns the value if a file sets it, and otherwise the other value: that of
// the block around this one, or the default.
func (v *Value[T]) Or(other T) T {
	if v.Set {
		return v.V
	}
	return other
}

// Written returns a copy of the value if a file sets it, and otherwise nil. The block
// can then be freed.
func (v *Value[T]) Written() *T {
	if !v.Set {
		return nil
	}
	return new(v.V)
}

// Part is the place of an element of a list or of a key of a map.
func (v *Value[T]) Part(path string) Origin {
	pos, ok := v.Parts[path]
	if !ok {
		pos = v.Pos
	}
	return Origin{Pos: pos, Path: path}
}

// Element is the place of an element of a list.
func (v *Value[T]) Element(i int) Origin { return v.Part(Indexed(v.Path, i)) }

// Entry is the place of a key of a map.
func (v *Value[T]) Entry(name string) Origin { return v.Part(Joined(v.Path, name)) }

// Place is the origin itself, for blocks that embed it.
func (o *Origin) Place() *Origin { return o }
