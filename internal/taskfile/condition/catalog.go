package condition

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"

	"github.com/terrapulse/terrapulse/internal/base/list"
)

// Consul's catalog: what the kinds that read services have in common.

// catalog is the catalog of a datacenter. Its gates were measured (the tests of
// package consul do it again). Polled, catalog/nodes moves with every registration
// and every change of a node or an instance. It does not move with the status of
// checks, but health/state/critical does. Blocking queries on catalog/nodes miss
// changes of instances, and those on health/state/critical miss checks that pass,
// so that catalog/services and health/state/any are needed.
var catalog = &Family{
	Name: "catalog",
	Poll: func(s Scope, _ []View) []Gate { return []Gate{nodesGate(s), checksGate(s, "critical")} },
	Block: func(s Scope, _ []View) []Gate {
		return []Gate{nodesGate(s), catalogGate(s, "services", "names of services", "service:read", "/v1/catalog/services", "ServiceName"), checksGate(s, "any")}
	},
}

func catalogGate(s Scope, key, what, needs, path, field string) Gate {
	return Gate{Key: key + s.String(), Request: Request{Act: "watch the " + what + s.String(), Needs: needs, Path: path, Scope: s, Query: NoElement(field)}}
}

func nodesGate(s Scope) Gate {
	s.Namespace = ""
	g := catalogGate(s, "nodes", "nodes", "node:read", "/v1/catalog/nodes", "Node")
	g.EveryNamespace, g.PartitionOnly = true, true
	return g
}

func checksGate(s Scope, state string) Gate {
	return catalogGate(s, "checks-"+state, "health checks", "service:read and node:read", "/v1/health/state/"+state, "Node")
}

// nameFilter selects services by a regular expression. One that does not compile
// matches nothing, and is an error when the services are read.
type nameFilter struct {
	*regexp.Regexp
	invalid error
}

func compile(expression string) nameFilter {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nameFilter{regexp.MustCompile(`[^\s\S]`), fmt.Errorf("regexp %q: %w", expression, err)}
	}
	return nameFilter{Regexp: re}
}

// Invalid implements Fallible.
func (f nameFilter) Invalid() error { return f.invalid }

// namesView has the names of services, with their tags.
type namesView struct {
	scope    Scope
	nodeMeta string // as parameters of a URL
}

func (v namesView) Gate() Request { return v.Request() }

func (v namesView) Request() Request {
	query, _ := url.ParseQuery(v.nodeMeta) // url.Values has encoded it
	return Request{
		Act:   fmt.Sprintf("read the names of services%s", v.scope),
		Needs: "service:read on the services and node:read on their nodes",
		Path:  "/v1/catalog/services", Scope: v.scope, Query: query,
	}
}

func (v namesView) Decode(d *json.Decoder) (Contents, error) {
	var got nameContents
	err := d.Decode(&got)
	return got, err
}

func (v namesView) Empty(reader Reader) (string, []Right) {
	if !reader.Tokenless && !reader.Filtered {
		return "", nil
	}
	return "every service that the task selects" + v.scope.String(), []Right{
		{Scope: v.scope, Of: OfService, Any: true}, {Scope: v.scope, Of: OfNode, Any: true},
	}
}

// nameContents are the tags by the service's name, in the order in which Consul
// gave them.
type nameContents map[string][]string

// Elements are the names: tags trigger nothing.
func (c nameContents) Elements(v View) []Element {
	return list.Map(slices.Sorted(maps.Keys(c)), func(name string) Element {
		return Element{Source: Source{Scope: v.(namesView).scope, Of: OfService, Name: name}, Name: name, Detail: CatalogServicesKind.Entries}
	})
}
