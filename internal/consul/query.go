package consul

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Query is what one condition, or all module inputs of a scheduled task, ask
// of Consul. It is canonical: the order of names and the like does not matter.
type Query struct {
	kind  config.Kind
	parts []part
}

// ConditionQuery returns what triggers the task: its condition or, for a
// schedule, what its module inputs show when it is due. It returns false for a
// task without a condition.
func ConditionQuery(t *config.Task) (Query, bool) {
	q := Query{kind: t.Condition.Kind}
	switch t.Condition.Kind {
	case config.KindNone:
		return Query{}, false
	case config.KindSchedule:
		for _, input := range t.ModuleInputs {
			q.parts = append(q.parts, inputParts(input)...)
		}
	default:
		q.parts = conditionParts(t.Condition)
	}
	return q, true
}

// ID tells queries apart: by kind and every parameter. It is short, printable
// and the same in every process.
func (q Query) ID() string {
	encoded := make([]string, len(q.parts))
	for i, p := range q.parts {
		encoded[i] = p.encode()
	}
	slices.Sort(encoded)
	sum := sha256.Sum256([]byte(encode(encoded...)))
	return fmt.Sprintf("%s-%s", q.kind, hex.EncodeToString(sum[:16]))
}

// scope is where something lives in Consul; empty for the agent's own
// datacenter and the client's own namespace.
type scope struct{ datacenter, namespace string }

func (s scope) String() string {
	var b strings.Builder
	if s.datacenter != "" {
		b.WriteString(" in datacenter " + s.datacenter)
	}
	if s.namespace != "" {
		b.WriteString(" in namespace " + s.namespace)
	}
	return b.String()
}

// part is one selection of a query.
type part struct {
	kind  config.Kind // services, catalog-services or consul-kv
	scope scope

	names    []string       // of services, sorted, each once
	regexp   *regexp.Regexp // chooses services instead of names; nil if those do
	invalid  error          // of the regular expression
	filter   string
	userMeta map[string]string // cts_user_defined_meta

	nodeMeta string // as parameters of a URL

	path    string // in the KV store
	recurse bool
}

func conditionParts(c config.Condition) []part {
	switch {
	case c.Kind == config.KindServices:
		return servicesParts(c.Services)
	case c.Kind == config.KindCatalogServices && c.CatalogServices != nil:
		return []part{catalogPart(c.CatalogServices)}
	case c.Kind == config.KindConsulKV && c.ConsulKV != nil:
		return []part{kvPart(c.ConsulKV)}
	}
	return nil
}

func inputParts(in config.Input) []part {
	return conditionParts(config.Condition{Kind: in.Kind, Services: in.Services, ConsulKV: in.ConsulKV})
}

func servicesParts(selections []config.Services) []part {
	var parts []part
	for _, s := range selections {
		p := part{
			kind:     config.KindServices,
			scope:    scope{s.Datacenter, s.Namespace},
			filter:   strings.Trim(s.Filter, "\n"),
			userMeta: s.CTSUserDefinedMeta,
		}
		if s.Regexp != nil {
			p.compile(*s.Regexp)
		} else {
			p.names = slices.Compact(slices.Sorted(slices.Values(s.Names)))
		}
		parts = append(parts, p)
	}
	return parts
}

func catalogPart(c *config.CatalogServices) part {
	nodeMeta := url.Values{}
	for _, key := range slices.Sorted(maps.Keys(c.NodeMeta)) {
		nodeMeta.Add("node-meta", key+":"+c.NodeMeta[key])
	}
	p := part{
		kind:     config.KindCatalogServices,
		scope:    scope{c.Datacenter, c.Namespace},
		nodeMeta: nodeMeta.Encode(),
	}
	p.compile(c.Regexp)
	return p
}

// compile takes an expression that does not compile for one that matches
// nothing: reading the part gives the error.
func (p *part) compile(expression string) {
	re, err := regexp.Compile(expression)
	if err != nil {
		p.invalid = &readError{act: fmt.Sprintf("choose services by regexp %q", expression), kind: badQuery, cause: err}
		re = regexp.MustCompile(`[^\s\S]`)
	}
	p.regexp = re
}

func kvPart(kv *config.ConsulKV) part {
	return part{
		kind:    config.KindConsulKV,
		scope:   scope{kv.Datacenter, kv.Namespace},
		path:    strings.TrimPrefix(kv.Path, "/"),
		recurse: kv.Recurse,
	}
}

func (p part) encode() string {
	var meta []string
	for _, key := range slices.Sorted(maps.Keys(p.userMeta)) {
		meta = append(meta, key, p.userMeta[key])
	}
	expression := ""
	if p.regexp != nil {
		expression = "/" + p.regexp.String() // an empty one is not none
	}
	return encode(string(p.kind), p.scope.datacenter, p.scope.namespace,
		encode(p.names...), expression, p.filter, encode(meta...),
		p.nodeMeta, p.path, fmt.Sprint(p.recurse))
}

// encode joins strings so that no other strings give the same result.
func encode(fields ...string) string {
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "%d:%s", len(f), f)
	}
	return b.String()
}

// byRegexp reports whether the services are not known by name beforehand.
func (p part) byRegexp() bool { return p.kind == config.KindServices && p.regexp != nil }

// views are what can be read of the part without knowing anything else: for
// services chosen by a regular expression, the catalog's names.
func (p part) views() []view {
	switch p.kind {
	case config.KindServices:
		if p.byRegexp() {
			return []view{{kind: namesView, scope: p.scope}}
		}
		return p.serviceViews(p.names)
	case config.KindCatalogServices:
		return []view{{kind: namesView, scope: p.scope, nodeMeta: p.nodeMeta}}
	case config.KindConsulKV:
		if p.recurse {
			return []view{{kind: prefixView, scope: p.scope, name: p.path}}
		}
		return []view{{kind: keyView, scope: p.scope, name: p.path}}
	}
	return nil
}

func (p part) serviceViews(names []string) []view {
	views := make([]view, len(names))
	for i, name := range names {
		views[i] = view{kind: serviceView, scope: p.scope, name: name, filter: p.filter}
	}
	return views
}

// compareInstances orders service instances as modules see them.
func compareInstances(a, b *instance) int {
	return cmp.Or(strings.Compare(a.Node.Node, b.Node.Node), strings.Compare(a.Service.ID, b.Service.ID))
}
