package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Convert returns one YAML task file that means what the files of the options
// mean together, and what a person should know of it. It takes them as they are
// written: no default is added, nothing is taken from the environment, templates
// stay templates. Deprecated keys become those that replace them. Of comments it
// keeps those above a key or block of HCL, and beside one.
//
// Files that the configuration names need not be there. What is wrong with the
// shape of the files is reported all at once, as Errors.
func Convert(opts Options) (file []byte, notes []Diagnostic, err error) {
	l := loader{Options: opts}
	l.Dir = cmp.Or(l.Dir, ".")
	files := l.files("correct the path")
	for _, said := range [][]Diagnostic{l.Errors, l.Warnings} {
		for i := range said {
			said[i].Key = "" // here they are arguments, not flags
		}
	}
	if len(files) == 0 && len(l.Errors) == 0 {
		return nil, nil, Errors{{Problem: "no configuration files found", Hint: "name files of .hcl, .json, .yaml or .yml"}}
	}
	var raw rawConfig
	c := converter{out: &node{kind: kindObject}, notes: slices.Clone(l.Warnings)} // files that were skipped
	for _, file := range files {
		root := l.read(file, &raw)
		if root != nil && len(l.Errors) == 0 {
			c.block(c.out, root, reflect.TypeFor[rawConfig](), "")
		}
	}
	if l.Errors = append(l.Errors, c.errors...); len(l.Errors) > 0 {
		return nil, nil, Errors(l.sorted(l.Errors, files))
	}
	c.replaceDeprecated()
	file, err = writeYAML(c.out)
	return file, c.notes, err
}

// A converter merges the trees of files into one that has each key once, in the
// form that YAML and JSON have.
type converter struct {
	out    *node
	errors []Diagnostic
	notes  []Diagnostic
}

// at returns the entry of a key, or nil.
func (n *node) at(key string) *entry {
	i := slices.IndexFunc(n.entries, func(e entry) bool { return e.key == key })
	if i < 0 {
		return nil
	}
	return &n.entries[i]
}

// child returns the value of a key, which is made if it is not there.
func (n *node) child(e entry, kind kind) *node {
	if is := n.get(e.key); is != nil && is.kind == kind {
		return is
	}
	e.value = &node{kind: kind, pos: e.pos}
	n.put(e)
	return e.value
}

// put sets a key, in place of what it had.
func (n *node) put(e entry) {
	e.form, e.label = formPlain, false
	if is := n.at(e.key); is != nil {
		*is = e
	} else {
		n.entries = append(n.entries, e)
	}
}

// get returns the value of a key, or nil.
func (n *node) get(key string) *node {
	if e := n.at(key); e != nil {
		return e.value
	}
	return nil
}

// take removes a key, and returns its entry.
func (n *node) take(key string) (entry, bool) {
	for i, e := range n.entries {
		if e.key == key {
			n.entries = slices.Delete(n.entries, i, i+1)
			return e, true
		}
	}
	return entry{}, false
}

// block adds a block to what earlier files say of it, as the decoder does.
func (c *converter) block(dst, src *node, t reflect.Type, path string) {
	s := schemaOf(t)
	for _, e := range src.entries {
		k, ok := s.find(e.key)
		if !ok || k.say != "" {
			continue // was reported
		}
		e.key = k.name
		field := k.typ
		path := block.Joined(path, k.name)
		objects, isBlock := e.value.objects()
		switch {
		case e.value.kind == kindNull: // as if it were not there
		case hasLabels(field):
			for _, o := range objects {
				labels := dst.child(entry{key: e.key, pos: e.pos}, kindObject)
				for _, label := range o.entries {
					label.above, label.beside = e.above, e.beside
					bodies, _ := label.value.objects()
					for _, b := range bodies {
						c.block(labels.child(label, kindObject), b, field.Elem(), block.Joined(path, label.key))
					}
				}
			}
		case field.Kind() == reflect.Slice:
			list := dst.child(entry{key: e.key, pos: e.pos}, kindList)
			for _, o := range objects {
				item := &node{kind: kindObject, pos: o.pos, above: e.above}
				c.block(item, o, field.Elem(), block.Indexed(path, len(list.items)))
				list.items = append(list.items, item)
			}
		case !k.field:
			if k.short != "" && !isBlock {
				objects = []*node{k.whole(e)}
			}
			if is := dst.at(k.name); k.short != "" && is != nil {
				is.value = k.whole(*is)
			}
			for _, o := range objects {
				c.block(dst.child(e, kindObject), o, field, path)
			}
			if is := dst.at(k.name); k.short != "" && is != nil && len(is.value.entries) == 1 && is.value.entries[0].key == k.short {
				is.value = is.value.entries[0].value
			}
		case field == reflect.TypeFor[labelled]():
			for _, o := range objects {
				c.labelled(dst.child(entry{key: e.key, pos: e.pos}, kindObject), o, e, path)
			}
		case field == reflect.TypeFor[freeForm](), k.value == "map":
			for _, o := range objects {
				m := dst.child(e, kindObject)
				for _, e := range o.entries {
					if k.value == "map" {
						e.value = e.value.element()
					}
					e.value = attributeTree(e.value)
					m.put(e)
				}
			}
		default:
			if k.value != "list" {
				e.value = e.value.element()
			}
			e.value = attributeTree(e.value)
			dst.put(e)
		}
	}
}

// whole returns the block for which a value may stand.
func (k key) whole(e entry) *node {
	if _, isBlock := e.value.objects(); isBlock {
		return e.value
	}
	return &node{kind: kindObject, pos: e.value.pos, entries: []entry{{key: k.short, value: e.value, pos: e.pos}}}
}

// labelled adds the blocks of a label: those of a provider beside each other,
// those of the backend over each other.
func (c *converter) labelled(dst, src *node, parent entry, path string) {
	for _, e := range src.entries {
		e.above, e.beside = parent.above, parent.beside
		path := block.Joined(path, e.key)
		bodies, _ := e.value.objects()
		for _, b := range bodies {
			if parent.key == "backend" {
				body := dst.child(e, kindObject)
				for _, argument := range c.body(b, path, false).entries {
					body.put(argument)
				}
				continue
			}
			body := c.body(b, path, true)
			switch before := dst.get(e.key); {
			case before == nil:
				e.value = body
				dst.put(e)
			case before.kind == kindList:
				body.above = e.above
				before.items = append(before.items, body)
			default:
				body.above = e.above
				first := *before
				*before = node{kind: kindList, pos: before.pos, items: []*node{&first, body}}
			}
		}
	}
}

// body is a block whose keys are not ours to know, so written that YAML tells
// its blocks from its attributes as HCL does: see loader.body.
func (c *converter) body(src *node, path string, provider bool) *node {
	out := &node{kind: kindObject, pos: src.pos}
	arguments := map[string]bool{}
	for _, e := range src.entries {
		path := block.Joined(path, e.key)
		at := Diagnostic{Position: e.pos, Key: path}
		objects, ok := e.value.objects()
		ok = ok && e.value.kind != kindNull && len(objects) > 0
		blocks := e.form == formBlock || e.form == formPlain && e.value.kind == kindList || provider && e.value.kind == kindObject
		before := out.get(e.key)
		switch {
		case arguments[e.key] || before != nil && !(ok && blocks):
			at.Problem = "an argument and a block of the same name can be written in HCL alone"
			at.Hint = "leave the block in a file of HCL: files of both languages can be used together"
			c.errors = append(c.errors, at)
		case provider && e.key == "task_env" && ok:
			env := out.child(e, kindObject)
			for _, o := range objects {
				for _, e := range o.entries {
					env.put(e)
				}
			}
		case ok && blocks:
			bodies := list.Map(objects, func(o *node) *node { return c.body(o, path, false) })
			if before != nil && before.kind == kindObject {
				bodies = append([]*node{before}, bodies...)
			} else if before != nil {
				bodies = append(before.items, bodies...)
			}
			e.value = &node{kind: kindList, pos: e.value.pos, items: bodies}
			if provider && len(bodies) == 1 {
				e.value = bodies[0]
			}
			out.put(e)
		case ok && e.value.kind == kindList:
			at.Problem = "a list of objects that is an argument, and not blocks, can be written in HCL alone"
			at.Hint = "leave the block in a file of HCL: files of both languages can be used together"
			c.errors = append(c.errors, at)
		default:
			arguments[e.key] = true
			e.value = attributeTree(e.value)
			out.put(e)
		}
	}
	return out
}

// attributeTree is a value without how it was written.
func attributeTree(n *node) *node {
	out := *n
	out.items, out.entries = nil, nil
	for _, item := range n.items {
		out.items = append(out.items, attributeTree(item))
	}
	for _, e := range n.entries {
		e.value = attributeTree(e.value)
		out.put(e)
	}
	return &out
}

// moved moves the value of a deprecated key into a block. Beside the new key it has no
// effect, and neither if it is empty.
func moved(n *node, from, into, to, suffix string) {
	old, ok := n.take(from)
	if !ok || old.value.text == "" {
		return
	}
	target := n.child(entry{key: into, pos: old.pos}, kindObject)
	if is := target.get(to); is == nil || is.text == "" {
		old.key, old.value.text = to, old.value.text+suffix
		old.value.kind = kindString
		target.put(old)
	}
}

// replaceDeprecated rewrites the deprecated keys of tasks and of the driver.
func (c *converter) replaceDeprecated() {
	if driver := c.out.get("driver"); driver != nil {
		if cloud := driver.get("terraform-cloud"); cloud != nil {
			moved(cloud, "workspace_prefix", "workspaces", "prefix", "-")
		}
	}
	tasks := c.out.get("task")
	services := c.out.get("service")
	used := map[string]bool{} // ids of services that are still listed by a task
	if tasks != nil {
		for i, t := range tasks.items {
			renamed(t, "source", "module")
			if inputs, more := t.get("module_input"), t.get("source_input"); inputs != nil && more != nil {
				inputs.items = append(inputs.items, more.items...)
				t.take("source_input")
			}
			renamed(t, "source_input", "module_input")
			moved(t, "terraform_version", "terraform_cloud_workspace", "terraform_version", "")
			if condition := t.get("condition"); condition != nil {
				for _, kind := range condition.entries {
					renamed(kind.value, "source_includes_var", "use_as_module_input")
				}
			}
			for _, id := range c.services(t, services, block.Indexed("task", i)) {
				used[id] = true
			}
		}
	}
	if services == nil {
		return
	}
	services.items = slices.DeleteFunc(services.items, func(s *node) bool { return !used[serviceID(s)] })
	if len(services.items) == 0 {
		c.out.take("service")
	}
}

// renamed gives a deprecated key its new name. Beside the new key it has no effect.
func renamed(n *node, from, to string) {
	is := n.get(to)
	if is != nil && (is.kind != kindList || len(is.items) > 0) {
		n.take(from)
	} else if n.get(from) != nil {
		n.take(to)
		n.at(from).key = to
	}
}

func serviceID(service *node) string {
	for _, key := range []string{"id", "name"} {
		if v := service.get(key); v != nil && v.text != "" {
			return v.text
		}
	}
	return ""
}

// services makes the services list of a task its condition, or a module input.
// Where they are not all asked for in the same way, which one block cannot say,
// it returns the ids, and leaves the list.
func (c *converter) services(task, services *node, path string) (left []string) {
	list := task.get("services")
	if list == nil {
		return nil
	}
	ids := list.items
	if list.kind != kindList {
		ids = []*node{list}
	}
	if len(ids) == 0 {
		task.take("services")
		return nil
	}
	names := &node{kind: kindList}
	var like *node // the keys of the first service, without its name
	for _, id := range ids {
		left = append(left, id.text)
		one := &node{kind: kindObject}
		name := id
		if services != nil {
			for _, s := range services.items {
				if serviceID(s) != id.text {
					continue
				}
				for _, e := range s.entries {
					switch e.key {
					case "name":
						name = e.value
					case "id", "description":
					default:
						if e.key == "filter" {
							e.value = &node{kind: kindString, text: strings.Trim(e.value.text, "\n")}
						}
						if e.value.text != "" || len(e.value.entries) > 0 {
							one.put(entry{key: e.key, value: e.value})
						}
					}
				}
			}
		}
		names.items = append(names.items, name)
		if like == nil {
			like = one
		}
		if !sameTree(like, one) {
			c.notes = append(c.notes, Diagnostic{
				Position: list.pos, Key: path + ".services",
				Problem: "the services are not all asked for in the same way, which one condition or module_input cannot say: services and service stay",
				Hint:    "they are deprecated, and work",
			})
			return left
		}
	}
	if slices.Contains(left, "") { // will not load, and says why
		return left
	}
	query := &node{kind: kindObject, entries: append([]entry{{key: "names", value: names}}, like.entries...)}
	block := &node{kind: kindObject, entries: []entry{{key: "services", value: query}}}
	if condition := task.get("condition"); condition == nil {
		e := task.at("services")
		e.key, e.value = "condition", block
		return nil
	} else if condition.get("services") != nil {
		return left // will not load, and says why
	}
	taken, _ := task.take("services")
	block.above = taken.above
	inputs := task.child(entry{key: "module_input"}, kindList)
	for _, in := range inputs.items {
		if in.get("services") != nil {
			task.put(taken)
			return left // will not load, and says why
		}
	}
	inputs.items = append([]*node{block}, inputs.items...)
	return nil
}
