package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

const identifierHint = "a name starts with a letter or underscore and has only letters, digits, underscores and dashes"

// body returns the content of a block with keys of a provider or backend. HCL
// distinguishes nested blocks and attributes; in JSON and YAML an object is an
// attribute, and a list of objects is blocks.
func (l *loader) body(n *node, at block.Origin) Body {
	var b Body
	for _, e := range n.entries {
		l.argument(&b, e, at, e.form == formBlock)
	}
	return b
}

// providerBody is body for a provider, in which every object directly below the
// provider is a nested block, as in Consul-Terraform-Sync.
func (l *loader) providerBody(n *node, at block.Origin) Body {
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

func (l *loader) argument(b *Body, e entry, parent block.Origin, isBlock bool) {
	at := block.Origin{Pos: e.pos, Path: block.Joined(parent.Path, e.key)}
	if !identifier(e.key) {
		l.Fail(at, "not the name of an argument: "+block.Quoted(e.key), identifierHint)
		return
	}
	if objects, ok := e.value.objects(); ok && e.value.kind != kindNull && len(objects) > 0 &&
		(isBlock || e.form == formPlain && e.value.kind == kindList) {
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
func (l *loader) attribute(n *node, at block.Origin) (cty.Value, bool) {
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
			l.Fail(at, "not a usable number: "+block.Quoted(n.text), "a finite number of sensible size")
			return cty.NilVal, false
		}
		return cty.NumberVal(f), true
	case kindList:
		items := make([]cty.Value, len(n.items))
		all := true
		for i, item := range n.items {
			v, ok := l.attribute(item, block.Origin{Pos: item.pos, Path: block.Indexed(at.Path, i)})
			items[i], all = v, all && ok
		}
		return cty.TupleVal(items), all
	default:
		attrs := map[string]cty.Value{}
		all := true
		for _, e := range n.entries {
			at := block.Origin{Pos: e.pos, Path: block.Joined(at.Path, e.key)}
			if _, ok := attrs[e.key]; ok {
				l.Fail(at, "duplicate key", "keep one of them")
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

// mergedMap returns m with the values of over in place of its own.
func mergedMap[V any](m, over map[string]V) map[string]V {
	if m == nil {
		return over
	}
	m = maps.Clone(m)
	maps.Copy(m, over)
	return m
}

// providers returns the terraform_provider blocks.
func (l *loader) providers(raw *labelled, vault bool) []Provider {
	var providers []Provider
	first := map[string]Position{}
	for _, b := range raw.blocks {
		if !identifier(b.label) {
			l.Fail(b.Origin, "not a provider's name: "+block.Quoted(b.label), identifierHint)
			continue
		}
		p := l.provider(b)
		if pos, ok := first[p.ID()]; ok {
			l.Fail(b.Origin, fmt.Sprintf("duplicate provider configuration: %s is already configured at %s", p.ID(), pos),
				"remove one, or give it an alias of its own")
			continue
		}
		first[p.ID()] = b.Pos
		for path, e := range b.body.below(b.Path, "") {
			if e.value.kind == kindString && IsTemplate(e.value.text) {
				p.dynamic = true
				l.template(e.value, path, vault)
			}
		}
		providers = append(providers, p)
	}
	return providers
}

func (l *loader) provider(b labelledBlock) Provider {
	p := Provider{Name: b.label, Body: l.providerBody(b.body, b.Origin)}
	for _, e := range b.body.entries {
		at := block.Origin{Pos: e.pos, Path: block.Joined(b.Path, e.key)}
		switch e.key {
		case "alias":
			if e.value.kind != kindString || !identifier(e.value.text) {
				l.Fail(at, "alias must be a name, not "+l.shown(e.value), identifierHint)
				continue
			}
			p.Alias = e.value.text
		case "auto_commit":
			p.AutoCommit, _ = l.bool(e.value, at)
			if p.AutoCommit && p.Name != "panos" {
				l.Warn(at, "auto_commit has no effect on "+block.Quoted(p.Name)+": it is for panos", "remove it")
			}
		case "task_env":
			l.taskEnv(&p, e.value, at)
		}
	}
	return p
}

func (l *loader) taskEnv(p *Provider, n *node, at block.Origin) {
	objects, ok := n.objects()
	if !ok {
		l.Fail(at, "unexpected task_env block format: task_env should be a map of strings", `such as task_env { "NAME" = "value" }`)
		return
	}
	for _, o := range objects {
		for _, e := range o.entries {
			if e.value.kind != kindString {
				l.Fail(block.Origin{Pos: e.pos, Path: block.Joined(at.Path, e.key)},
					fmt.Sprintf("unexpected task_env block format: value for %s should be a string", block.Quoted(e.key)), "put it in quotes")
				continue
			}
			if e.key == "" || strings.ContainsAny(e.key, "=\x00") {
				l.Fail(at, "not the name of an environment variable: "+block.Quoted(e.key), "")
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
