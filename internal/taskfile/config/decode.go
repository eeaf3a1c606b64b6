package config

import (
	"fmt"
	"math/big"
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/suggest"
)

// A field is a key of a block that is not itself a plain block.
type field interface {
	decode(d *loader, n *node, path string)
}

// An unsupported key is one of Consul-Terraform-Sync, or one that people expect,
// without meaning here. Its tag "say" is the error; with the tag "warn", a warning.
type unsupported struct{}

func (*unsupported) decode(*loader, *node, string) {}

// A labelled key is a block with any label and content: backend "s3" {},
// terraform_provider "aws" {}.
type labelled struct{ blocks []labelledBlock }

type labelledBlock struct {
	block.Origin
	label string
	body  *node
}

func (l *labelled) decode(d *loader, n *node, path string) {
	l.blocks = append(l.blocks, d.labels(n, path)...)
}

// labels returns the blocks of a labelled key.
func (d *loader) labels(n *node, path string) (blocks []labelledBlock) {
	key := path[strings.LastIndex(path, ".")+1:]
	hint := fmt.Sprintf("write it as in %s \"NAME\" { ... }; in YAML as in %[1]s: {NAME: { ... }}", key)
	at := block.Origin{Pos: n.pos, Path: path}
	objects, ok := n.objects()
	if !ok {
		d.Fail(at, "must be a labelled block, not "+n.kind.String(), hint)
		return nil
	}
	for _, o := range objects {
		if len(o.entries) == 0 {
			d.Fail(block.Origin{Pos: o.pos, Path: path}, "the block has no name", hint)
		}
		for _, e := range o.entries {
			at := block.Origin{Set: true, Pos: e.pos, Path: block.Joined(path, e.key)}
			bodies, isBlock := e.value.objects()
			if !isBlock || e.form != formPlain && !e.label {
				d.Fail(block.Origin{Pos: o.pos, Path: path}, "the block has no name", hint)
				break
			}
			for _, b := range bodies {
				if len(bodies) > 1 {
					at.Pos = b.pos
				}
				if len(b.entries) > 0 && b.entries[0].label {
					d.Fail(at, fmt.Sprintf("the block has two labels, %q and %q", e.key, b.entries[0].key), "it takes one")
					continue
				}
				blocks = append(blocks, labelledBlock{Origin: at, label: e.key, body: b})
			}
		}
	}
	return blocks
}

// withLabel is a block of a repeatable key whose blocks have labels.
type withLabel interface{ SetLabel(string) }

// hasLabels reports whether the blocks of a repeatable key have labels.
func hasLabels(slice reflect.Type) bool {
	return slice.Kind() == reflect.Slice && reflect.PointerTo(slice.Elem()).Implements(reflect.TypeFor[withLabel]())
}

// block decodes an object into the struct of its schema.
func (d *loader) block(n *node, dst reflect.Value, path string) {
	d.place(dst.Addr().Interface()).Mark(n.pos, path)
	s := schemaOf(dst.Type())
	seen := map[string]bool{}
	for _, e := range n.entries {
		k, ok := s.find(e.key)
		at := block.Origin{Pos: e.pos, Path: block.Joined(path, e.key)}
		if !ok {
			d.Fail(at, s.unknown+" "+block.Quoted(e.key), s.suggest(e.key))
			continue
		}
		if e.value.unset(d, k) {
			continue
		}
		at.Path = block.Joined(path, k.name)
		if k.say != "" {
			if k.warn {
				d.Warn(at, k.say, "remove it")
			} else {
				d.Fail(at, k.say, "")
			}
			continue
		}
		if k.deprecated != "" {
			d.Warn(at, k.name+" is deprecated", "use "+k.deprecated)
		}
		f := k.in(dst)
		switch {
		case f.Kind() == reflect.Slice:
			d.blocks(e.value, f, at.Path)
		case k.field:
			if seen[k.name] && !k.adds() {
				d.Fail(at, "duplicate key", "keep one of them")
				continue
			}
			fieldOf(f).decode(d, e.value, at.Path)
		default:
			objects, ok := e.value.objects()
			if !ok && k.short == "" {
				d.Fail(at, fmt.Sprintf("must be a block, not %s", e.value.kind), fmt.Sprintf("write %s { ... }, or in YAML its keys indented below it", k.name))
				continue
			}
			if seen[k.name] || len(objects) > 1 {
				d.Fail(at, fmt.Sprintf("only one '%s' block can be configured", k.name), "join the blocks")
				continue
			}
			if !ok {
				fieldOf(k.shortKey().in(f)).decode(d, e.value, at.Path)
			}
			for _, o := range objects {
				d.block(o, f, at.Path)
			}
		}
		seen[k.name] = true
	}
}

// unset reports whether a key with this value is as if the file did not have it, as in
// Consul-Terraform-Sync: null, or an empty string. YAML writes an empty block as null.
func (n *node) unset(d *loader, k key) bool {
	switch n.kind {
	case kindNull:
		return k.value != "" || d.weak
	case kindString:
		return n.text == "" && k.tag.Get("empty") == ""
	}
	return false
}

// blocks appends the objects of a repeatable block.
func (d *loader) blocks(n *node, slice reflect.Value, path string) {
	if hasLabels(slice.Type()) {
		for _, b := range d.labels(n, path) {
			i := slice.Len()
			slice.Set(reflect.Append(slice, reflect.Zero(slice.Type().Elem())))
			block := slice.Index(i)
			block.Addr().Interface().(withLabel).SetLabel(b.label)
			d.block(b.body, block, b.Path)
			*d.place(block.Addr().Interface()) = b.Origin
		}
		return
	}
	objects, ok := n.objects()
	if !ok {
		d.Fail(block.Origin{Pos: n.pos, Path: path}, "must be a block or a list of blocks, not "+n.kind.String(), "")
		return
	}
	if slice.IsNil() { // a file has the key, also if the list is empty
		slice.Set(reflect.MakeSlice(slice.Type(), 0, len(objects)))
	}
	for _, o := range objects {
		i := slice.Len()
		slice.Set(reflect.Append(slice, reflect.Zero(slice.Type().Elem())))
		d.block(o, slice.Index(i), block.Indexed(path, i-d.earlier[path]))
	}
}

// fill sets keys that no file sets, from the environment or the schema's default.
// Repeatable blocks exist only if a file has them. A block that is switched off has
// neither what files say nor what the environment does.
func (d *loader) fill(block any, prefix string) {
	v := reflect.ValueOf(block).Elem()
	if d.off(v) {
		defer func(before func(string) string) { d.Getenv = before }(d.Getenv)
		d.Getenv = func(string) string { return "" }
		d.empty(v)
	}
	for _, k := range schemaOf(v.Type()).keys {
		if k.newKeys != nil && v.Addr().Interface().(kindBlock).keys()[k.name] == nil {
			continue
		}
		f := k.in(v)
		switch {
		case k.say != "" || f.Kind() == reflect.Slice:
		case !k.field:
			d.fill(f.Addr().Interface(), prefix+k.prefix)
		default:
			d.fillField(f, k, prefix)
		}
	}
}

func (d *loader) fillField(f reflect.Value, k key, prefix string) {
	v, ok := fieldOf(f).(interface {
		field
		origin(*loader) *block.Origin
	})
	if !ok {
		return
	}
	if at := v.origin(d); !at.Set {
		text, from := k.fallback, ""
		for _, name := range k.variables(prefix) {
			if s := d.Getenv(name); s != "" {
				text, from = s, "environment variable "+name
				break
			}
		}
		if text != "" {
			v.decode(d, &node{kind: kindString, text: text}, from)
			*at = block.Origin{}
		}
	}
	if text, ok := f.Addr().Interface().(*string); ok {
		*text = d.checked(k, rawOf(d, text))
	}
}

// A freeForm block has any keys. A key of a later file replaces that of an earlier
// one.
type freeForm struct{ entries map[string]*node }

func (v *freeForm) decode(d *loader, n *node, path string) {
	objects, ok := n.objects()
	if !ok {
		d.Fail(block.Origin{Pos: n.pos, Path: path}, "must be a block, not "+n.kind.String(), "")
		return
	}
	if v.entries == nil {
		v.entries = map[string]*node{}
	}
	for _, o := range objects {
		for _, e := range o.entries {
			v.entries[e.key] = e.value
		}
	}
}

// A schema is what is known about a block, read from its struct once.
type schema struct {
	keys    []key
	byName  map[string]int
	unknown string // what a key is called that is not one of these
}

type key struct {
	name       string
	index      []int         // of the struct's field
	newKeys    func() placed // instead of a field, if the key is a kind
	typ        reflect.Type  // of the value
	field      bool
	value      string   // the kind of its value, a name of values in jsonschema.go; "" if it has none
	fallback   string   // default
	env        []string // environment variables, the first that is set counts; * is the prefix
	prefix     string   // of the environment variables of a nested block
	short      string   // of a block: the key that a value in its place sets
	deprecated string   // what to use instead
	say        string   // of an unsupported key: why
	warn       bool     // an unsupported key that harms nothing
	hidden     bool     // not suggested

	tag reflect.StructTag // all tags
}

var schemas sync.Map // reflect.Type -> *schema

func schemaOf(t reflect.Type) *schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*schema)
	}
	s := &schema{byName: map[string]int{}, unknown: "invalid key"}
	inherited := map[int]string{} // the tag unset of embedded structs
	for _, f := range reflect.VisibleFields(t) {
		if unknown := f.Tag.Get("unknown"); unknown != "" {
			s.unknown = unknown
		}
		name, ok := f.Tag.Lookup("key")
		if !ok {
			if f.Anonymous && len(f.Index) == 1 {
				inherited[f.Index[0]] = f.Tag.Get("unset")
			}
			continue
		}
		fallback := f.Tag.Get("default")
		if unset := inherited[f.Index[0]]; unset != "" {
			f.Tag, fallback = reflect.StructTag(fmt.Sprintf("unset:%q ", unset))+f.Tag, ""
		}
		s.byName[name] = len(s.keys)
		s.keys = append(s.keys, key{
			name:       name,
			index:      f.Index,
			typ:        f.Type,
			field:      fieldOf(reflect.New(f.Type).Elem()) != nil,
			value:      valueNames[f.Type],
			fallback:   fallback,
			env:        strings.Fields(f.Tag.Get("env")),
			prefix:     f.Tag.Get("prefix"),
			short:      f.Tag.Get("short"),
			deprecated: f.Tag.Get("deprecated"),
			say:        f.Tag.Get("say"),
			warn:       f.Tag.Get("warn") != "",
			hidden:     f.Tag.Get("hidden") != "",
			tag:        f.Tag,
		})
	}
	if b, ok := reflect.New(t).Interface().(kindBlock); ok {
		for _, k := range b.kinds() {
			s.byName[k.name] = len(s.keys)
			s.keys = append(s.keys, k)
		}
	}
	schemas.Store(t, s)
	return s
}

// in returns the value of the key in a block.
func (k key) in(b reflect.Value) reflect.Value {
	if k.newKeys != nil {
		blocks := b.Addr().Interface().(kindBlock).keys()
		if blocks[k.name] == nil {
			blocks[k.name] = k.newKeys()
		}
		return reflect.ValueOf(blocks[k.name]).Elem()
	}
	return b.FieldByIndex(k.index)
}

// adds reports whether a further value of the key adds to the first one.
func (k key) adds() bool {
	return k.value == "map" || k.typ == reflect.TypeFor[labelled]() || k.typ == reflect.TypeFor[freeForm]()
}

// shortKey returns the key of a block that a value in its place sets.
func (k key) shortKey() key {
	s := schemaOf(k.typ)
	return s.keys[s.byName[k.short]]
}

// find looks a key up as written, and then without regard to case, which
// Consul-Terraform-Sync ignores.
func (s *schema) find(name string) (key, bool) {
	if i, ok := s.byName[name]; ok {
		return s.keys[i], true
	}
	for _, k := range s.keys {
		if strings.EqualFold(k.name, name) {
			return k, true
		}
	}
	return key{}, false
}

// names returns what may be written, sorted.
func (s *schema) names() []string {
	var names []string
	for _, k := range s.keys {
		if k.say == "" && k.deprecated == "" && !k.hidden {
			names = append(names, k.name)
		}
	}
	sort.Strings(names)
	return names
}

func (s *schema) suggest(name string) string {
	names := s.names()
	if near, ok := suggest.Nearest(name, names); ok {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "allowed: " + strings.Join(names, ", ")
}

// maxExponent bounds the size of a number: writing a larger one takes gigabytes.
const maxExponent = 4096

// number reads a number as any of the three formats writes it.
func number(text string) (*big.Float, bool) {
	if i, ok := new(big.Int).SetString(text, 0); ok {
		f := new(big.Float).SetPrec(max(512, uint(i.BitLen()))).SetInt(i)
		return f, i.BitLen() <= maxExponent
	}
	f, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	if err != nil || f.IsInf() {
		return nil, false
	}
	return f, sane(f)
}

func sane(f *big.Float) bool {
	exp := f.MantExp(nil)
	return !f.IsInf() && -maxExponent <= exp && exp <= maxExponent
}
