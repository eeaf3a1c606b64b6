package state

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Field is a field of a record, also one within a value such as Applied.Digest.
type Field struct {
	Name  string
	Index []int
}

// FieldsOf returns the fields of a type of records.
func FieldsOf(typ reflect.Type) (all []Field) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := f.Name + "."
		if f.Anonymous {
			name = ""
		}
		if f.Type.Kind() != reflect.Struct || f.Type == reflect.TypeFor[time.Time]() {
			all = append(all, Field{f.Name, f.Index})
			continue
		}
		for _, in := range FieldsOf(f.Type) {
			all = append(all, Field{name + in.Name, slices.Concat(f.Index, in.Index)})
		}
	}
	return all
}

// In reports whether the names have the field, or a value that it is in.
func (f Field) In(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return f.Name == name || strings.HasPrefix(f.Name, name+".") })
}
