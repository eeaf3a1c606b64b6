package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// SettingChanges says what differs between two configurations beside their tasks: rules, rights and other
// settings. It shows numbers, switches and grants; all other values may be secrets.
func SettingChanges(was, is *Config) []string {
	c := settingChanges{was: was, is: is}
	c.compare("", reflect.ValueOf(*was), reflect.ValueOf(*is))
	return c.found
}

// settingChanges are the differences that were found so far.
type settingChanges struct {
	was, is *Config
	found   []string
}

func (c *settingChanges) add(name, format string, args ...any) {
	c.found = append(c.found, name+": "+fmt.Sprintf(format, args...))
}

// notSettings are the keys that say nothing of what a configuration does beside its tasks, or what
// api.access says.
var notSettings = []string{"tasks", "warnings", "approval.people"}

// placeType is the place of a block in the files.
var placeType = reflect.TypeFor[block.Origin]()

// compare compares two values of one type.
func (c *settingChanges) compare(name string, was, is reflect.Value) {
	switch was.Kind() {
	case reflect.Func:
	case reflect.Struct:
		if was.Type() != placeType { // a block that is at another place says the same
			c.compareFields(name, was, is)
		}
	case reflect.Pointer, reflect.Interface:
		switch {
		case was.IsNil() && is.IsNil():
		case was.IsNil():
			c.add(name, "is new")
		case is.IsNil():
			c.add(name, "is gone")
		case was.Elem().Type() != is.Elem().Type():
			c.add(name, "is another one")
		default:
			c.compare(name, was.Elem(), is.Elem())
		}
	case reflect.Map:
		c.compareMaps(name, was, is)
	case reflect.Slice, reflect.Array:
		c.compareLists(name, was, is)
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		if was.Interface() != is.Interface() {
			c.add(name, "%v instead of %v", is, was)
		}
	case reflect.String: // a path in the folder of the files is the same in another folder
		if c.was.relative(was.String()) != c.is.relative(is.String()) {
			c.add(name, "has another value")
		}
	default:
		if !reflect.DeepEqual(was.Interface(), is.Interface()) {
			c.add(name, "has another value")
		}
	}
}

func (c *settingChanges) compareFields(name string, was, is reflect.Value) {
	shown := false
	for i := range was.NumField() {
		f := was.Type().Field(i)
		path := name
		if !f.Anonymous {
			path = strings.TrimPrefix(name+"."+keyOf(f.Name), ".")
		}
		if !f.IsExported() || slices.Contains(notSettings, path) {
			continue
		}
		shown = true
		c.compare(path, was.Field(i), is.Field(i))
	}
	if !shown && !reflect.DeepEqual(was.Interface(), is.Interface()) {
		c.add(name, "has another value")
	}
}

func (c *settingChanges) compareMaps(name string, was, is reflect.Value) {
	keys := map[string]reflect.Value{}
	for _, m := range []reflect.Value{was, is} {
		for _, k := range m.MapKeys() {
			keys[fmt.Sprint(k)] = k
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, after := was.MapIndex(keys[key]), is.MapIndex(keys[key])
		switch path := name + "." + key; {
		case namesPeople(path): // a new group is as one that was empty
			c.compare(path, orZero(before, was), orZero(after, was))
		case !before.IsValid():
			c.add(path, "is new")
		case !after.IsValid():
			c.add(path, "is gone")
		default:
			c.compare(path, before, after)
		}
	}
}

// orZero returns the value of a map, or the zero value if the map has none.
func orZero(value, of reflect.Value) reflect.Value {
	if value.IsValid() {
		return value
	}
	return reflect.Zero(of.Type().Elem())
}

// compareLists compares the elements of lists. A grant and a name of a person, a group or a program are
// shown, because their place says nothing.
func (c *settingChanges) compareLists(name string, was, is reflect.Value) {
	switch before := was.Interface().(type) {
	case []roles.Grant:
		c.compareShown(name, list.Map(before, grantText), list.Map(is.Interface().([]roles.Grant), grantText))
		return
	case []string:
		if namesPeople(name) {
			c.compareShown(name, before, is.Interface().([]string))
			return
		}
	}
	if was.Len() != is.Len() {
		c.add(name, "%d instead of %d", is.Len(), was.Len())
		return
	}
	for i := range was.Len() {
		path := name
		if was.Len() > 1 {
			path = fmt.Sprintf("%s[%d]", name, i)
		}
		c.compare(path, was.Index(i), is.Index(i))
	}
}

// namesPeople reports whether the values of a key name people, groups and programs, which are no secrets.
func namesPeople(key string) bool {
	return strings.HasPrefix(key, "api.access.") || key == "approval.from"
}

// compareShown shows what was removed from a list, and what was added.
func (c *settingChanges) compareShown(name string, was, is []string) {
	for _, side := range []struct {
		word string
		a, b []string
	}{{"no longer", was, is}, {"now", is, was}} {
		for _, text := range side.a {
			if !slices.Contains(side.b, text) {
				c.add(name, "%s %s", side.word, text)
			}
		}
	}
}

func grantText(g roles.Grant) string {
	text := fmt.Sprintf("%v to %s", g.Roles, strings.Join(g.To, ", "))
	if len(g.Tasks) > 0 {
		text += " for " + strings.Join(g.Tasks, ", ")
	}
	for _, label := range slices.Sorted(maps.Keys(g.Labels)) {
		text += fmt.Sprintf(" with %s=%s", label, g.Labels[label])
	}
	return text
}

// keyOf is the key of a field as files write it.
func keyOf(field string) string {
	var key strings.Builder
	runes := []rune(field)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			key.WriteByte('_')
		}
		key.WriteRune(unicode.ToLower(r))
	}
	return key.String()
}
