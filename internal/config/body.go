package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

const identifierHint = "a name starts with a letter or underscore and has only letters, digits, underscores and dashes"

// body returns the content of a block whose keys are not ours to know. What is
// a nested block and what an attribute of object type, only HCL can tell: in
// JSON and YAML an object is an attribute, and a list of objects is blocks.
func (l *loader) body(n *node, at origin) Body {
	var b Body
	for _, e := range n.entries {
		l.argument(&b, e, at, e.form == formBlock)
	}
	return b
}

// providerBody is body for a provider, in which every object directly below the
// provider is a nested block, as in Consul-Terraform-Sync.
func (l *loader) providerBody(n *node, at origin) Body {
	var b Body
	for _, e := range n.entries {
		switch e.key {
		case "alias", "auto_commit", "task_env":
		default:
			l.argument(&b, e, at, e.form == formBlock || e.value.kind == kindObject)
		}
	}
	return b
}

func (l *loader) argument(b *Body, e entry, parent origin, block bool) {
	at := origin{pos: e.pos, path: joined(parent.path, e.key)}
	if !identifier(e.key) {
		l.fail(at, "not the name of an argument: "+quoted(e.key), identifierHint)
		return
	}
	if objects, ok := e.value.objects(); ok && e.value.kind != kindNull && len(objects) > 0 &&
		(block || e.form == formPlain && e.value.kind == kindList) {
		if b.Blocks == nil {
			b.Blocks = map[string][]Body{}
		}
		for _, o := range objects {
			b.Blocks[e.key] = append(b.Blocks[e.key], l.body(o, at))
		}
		return
	}
	v, ok := l.attribute(e.value, at)
	if !ok {
		return
	}
	if b.Attributes == nil {
		b.Attributes = map[string]cty.Value{}
	}
	b.Attributes[e.key] = v
}

// attribute returns a value as it was written: a string stays a string.
func (l *loader) attribute(n *node, at origin) (cty.Value, bool) {
	switch n.kind {
	case kindNull:
		return cty.NullVal(cty.DynamicPseudoType), true
	case kindBool:
		return cty.BoolVal(strings.EqualFold(n.text, "true")), true
	case kindString:
		return cty.StringVal(n.text), true
	case kindNumber:
		f, ok := number(n.text)
		if !ok {
			l.fail(at, "not a usable number: "+quoted(n.text), "a finite number of sensible size")
			return cty.NilVal, false
		}
		return cty.NumberVal(f), true
	case kindList:
		items := make([]cty.Value, len(n.items))
		all := true
		for i, item := range n.items {
			v, ok := l.attribute(item, origin{pos: item.pos, path: indexed(at.path, i)})
			items[i], all = v, all && ok
		}
		return cty.TupleVal(items), all
	default:
		attrs := map[string]cty.Value{}
		all := true
		for _, e := range n.entries {
			at := origin{pos: e.pos, path: joined(at.path, e.key)}
			if _, ok := attrs[e.key]; ok {
				l.fail(at, "duplicate key", "keep one of them")
				all = false
				continue
			}
			v, ok := l.attribute(e.value, at)
			attrs[e.key], all = v, all && ok
		}
		if !all {
			return cty.NilVal, false
		}
		return cty.ObjectVal(attrs), true
	}
}

// merged returns b with the arguments and blocks of over in place of its own.
func (b Body) merged(over Body) Body {
	m := Body{Attributes: maps.Clone(b.Attributes), Blocks: maps.Clone(b.Blocks)}
	if m.Attributes == nil {
		m.Attributes = over.Attributes
	} else {
		maps.Copy(m.Attributes, over.Attributes)
	}
	if m.Blocks == nil {
		m.Blocks = over.Blocks
	} else {
		maps.Copy(m.Blocks, over.Blocks)
	}
	return m
}

// providers returns the terraform_provider blocks.
func (l *loader) providers(raw *labelled, vault bool) []Provider {
	var providers []Provider
	first := map[string]Position{}
	for _, block := range raw.blocks {
		if !identifier(block.label) {
			l.fail(block.origin, "not a provider's name: "+quoted(block.label), identifierHint)
			continue
		}
		p := l.provider(block)
		if pos, ok := first[p.ID()]; ok {
			l.fail(block.origin, fmt.Sprintf("duplicate provider configuration: %s is already configured at %s", p.ID(), pos),
				"remove one, or give it an alias of its own")
			continue
		}
		first[p.ID()] = block.pos
		block.body.walk(block.path, func(n *node, path string) {
			if IsTemplate(n.text) {
				p.dynamic = true
				l.template(n, path, vault)
			}
		})
		providers = append(providers, p)
	}
	return providers
}

func (l *loader) provider(block labelledBlock) Provider {
	p := Provider{Name: block.label, Body: l.providerBody(block.body, block.origin)}
	for _, e := range block.body.entries {
		at := origin{pos: e.pos, path: joined(block.path, e.key)}
		switch e.key {
		case "alias":
			if e.value.kind != kindString || !identifier(e.value.text) {
				l.fail(at, "alias must be a name, not "+l.shown(e.value), identifierHint)
				continue
			}
			p.Alias = e.value.text
		case "auto_commit":
			p.AutoCommit, _ = l.bool(e.value, at)
			if p.AutoCommit && p.Name != "panos" {
				l.warn(at, "auto_commit has no effect on "+quoted(p.Name)+": it is for panos", "remove it")
			}
		case "task_env":
			l.taskEnv(&p, e.value, at)
		}
	}
	return p
}

func (l *loader) taskEnv(p *Provider, n *node, at origin) {
	objects, ok := n.objects()
	if !ok {
		l.fail(at, "unexpected task_env block format: task_env should be a map of strings", `such as task_env { "NAME" = "value" }`)
		return
	}
	for _, o := range objects {
		for _, e := range o.entries {
			if e.value.kind != kindString {
				l.fail(origin{pos: e.pos, path: joined(at.path, e.key)},
					fmt.Sprintf("unexpected task_env block format: value for %s should be a string", quoted(e.key)), "put it in quotes")
				continue
			}
			if e.key == "" || strings.ContainsAny(e.key, "=\x00") {
				l.fail(at, "not the name of an environment variable: "+quoted(e.key), "")
				continue
			}
			if p.Env == nil {
				p.Env = map[string]string{}
			}
			p.Env[e.key] = e.value.text
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
