package consul

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/terrapulse/terrapulse/internal/config"
)

// Snapshot is everything a task renders, read at one moment: complete, and
// from a cluster with a leader.
type Snapshot struct {
	// Blocks in the order in which they are rendered: what the condition
	// gives, then the module inputs as configured. There is always exactly one
	// services block, empty at the end where nothing renders services: every
	// module declares that variable.
	Blocks []Block

	// Condition is what triggers the task, also where it is not rendered. It
	// is the zero Observation for a task without a condition.
	Condition Observation

	// Portless are the names of services with health checks and without a port,
	// sorted.
	Portless []string

	// Visibility is of everything that was read.
	Visibility *Visibility
}

// Block is the value of one input variable of the module. Only the field that
// belongs to Variable is used.
type Block struct {
	Variable string // "services", "catalog_services" or "consul_kv"
	Services []Service
	Catalog  []CatalogService
	KV       []KVPair
}

// Service is one instance of a service, with the fields that modules see, in
// the order in which they are rendered. Maps and Tags are never nil.
type Service struct {
	ID                  string
	Name                string
	Kind                string         // "" for an ordinary service
	Address             string         // the service's own or, where it has none, the node's
	Port                int            // the default port of a service with several
	Ports               map[string]int // by name; nil unless the service has several
	Meta                map[string]string
	Tags                []string // sorted
	Namespace           string   // "" on Consul CE
	Status              string   // passing, warning, critical or maintenance: the worst of its checks
	Node                string
	NodeID              string
	NodeAddress         string
	NodeDatacenter      string
	NodeTaggedAddresses map[string]string
	NodeMeta            map[string]string
	CTSUserDefinedMeta  map[string]string // from the task file
}

// CatalogService is a service name with all tags of its instances, sorted.
type CatalogService struct {
	Name string
	Tags []string
}

// KVPair is a key of Consul's KV store by its full path, and its value.
type KVPair struct {
	Key, Value string
}

// Observation is a digest of what a query showed: of the rendered fields only,
// and independent of the order in which Consul gives them.
type Observation struct {
	Digest string // SHA-256 in hexadecimal

	// Elements are the parts of what was seen, so that Diff can say what has
	// changed: a short digest by the name of a service instance (as rendered:
	// id.node.namespace.datacenter), of a service, or of a key.
	Elements map[string]string
}

// The variables that modules are given.
const (
	servicesVariable = "services"
	catalogVariable  = "catalog_services"
	kvVariable       = "consul_kv"
)

// Snapshot reads everything that the task renders, and what triggers it. It is
// complete or an error.
func (c *Client) Snapshot(ctx context.Context, t *config.Task) (*Snapshot, error) {
	rendered := renderedParts(t)
	condition, triggers := ConditionQuery(t)

	r := newReading(c, func(_ view, got contents) contents { return got })
	all := append(slices.Clone(rendered), condition.parts...)
	r.load(ctx, all)

	snapshot := &Snapshot{}
	for _, p := range rendered {
		var read []contents
		if err := r.each(p, func(got contents) { read = append(read, got) }); err != nil {
			return nil, err
		}
		if err := snapshot.add(p, read); err != nil {
			return nil, err
		}
	}
	snapshot.block(servicesVariable)
	var err error
	if snapshot.Visibility, err = r.visibility(all); err != nil || !triggers {
		return snapshot, err
	}
	var elements []element
	for _, p := range condition.parts {
		views, err := r.viewsOf(p)
		if err != nil {
			return nil, err
		}
		for _, v := range views {
			if err := r.loaded[v].err; err != nil {
				return nil, err
			}
			elements = append(elements, p.adapt(v.elements(r.loaded[v].value))...)
		}
	}
	snapshot.Condition = observation(elements)
	return snapshot, nil
}

// PortWarning says which services are rendered with port 0, "" if none is.
func (s *Snapshot) PortWarning() string {
	if len(s.Portless) == 0 {
		return ""
	}
	return fmt.Sprintf("port 0 is rendered for services that have health checks: %s; a Consul agent before 1.22 shows services with several ports "+
		"in this way: upgrade the agent at consul.address, or register them with a port", shorten(s.Portless))
}

// Preview is Snapshot where nothing is known of what was applied before. What
// access control may hide altogether is an error.
func (c *Client) Preview(ctx context.Context, t *config.Task) (*Snapshot, error) {
	snap, err := c.Snapshot(ctx, t)
	if err != nil {
		return nil, err
	}
	return snap, snap.Visibility.Confirm(ctx, nil)
}

// renderedParts returns what the module is given, in the order of the blocks.
// The deprecated services list, which is in the condition or the only services
// input, comes first.
func renderedParts(t *config.Task) []part {
	var parts []part
	if t.Condition.UseAsModuleInput {
		parts = conditionParts(t.Condition)
	}
	for _, input := range t.ModuleInputs {
		if len(t.DeprecatedServices) > 0 && input.Kind == config.KindServices {
			parts = append(inputParts(input), parts...)
		} else {
			parts = append(parts, inputParts(input)...)
		}
	}
	return parts
}

// block returns the block of the variable, a new one if there is none: a
// variable is rendered once, whatever contributes to it.
func (s *Snapshot) block(variable string) *Block {
	for i := range s.Blocks {
		if s.Blocks[i].Variable == variable {
			return &s.Blocks[i]
		}
	}
	s.Blocks = append(s.Blocks, Block{Variable: variable})
	return &s.Blocks[len(s.Blocks)-1]
}

// add renders what was read of a part. Services that are chosen by name come
// by name, then by node and id, all others by node and id alone.
func (s *Snapshot) add(p part, read []contents) error {
	switch p.kind {
	case config.KindServices:
		b := s.block(servicesVariable)
		merges := len(b.Services) > 0
		var instances []*instance
		for _, got := range read {
			instances = append(instances, got.instances...)
		}
		if p.byRegexp() {
			slices.SortStableFunc(instances, compareInstances)
		}
		b.Services = slices.Grow(b.Services, len(instances))
		for _, i := range instances {
			b.Services = append(b.Services, i.service(p.userMeta))
			if i.portless() && !slices.Contains(s.Portless, i.Service.Service) {
				s.Portless = append(s.Portless, i.Service.Service)
			}
		}
		slices.Sort(s.Portless)
		if merges {
			slices.SortStableFunc(b.Services, func(x, y Service) int { return strings.Compare(x.Name, y.Name) })
		}
	case config.KindCatalogServices:
		b := s.block(catalogVariable)
		for _, got := range read {
			for _, name := range slices.Sorted(maps.Keys(got.names)) {
				if p.regexp.MatchString(name) {
					tags := append([]string{}, got.names[name]...)
					slices.Sort(tags)
					b.Catalog = append(b.Catalog, CatalogService{Name: name, Tags: tags})
				}
			}
		}
	case config.KindConsulKV:
		b := s.block(kvVariable)
		for _, got := range read {
			for _, pair := range got.pairs {
				value := string(pair.Value)
				if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
					return fmt.Errorf("render key %q%s: its value is not UTF-8 text, and Terraform knows no other strings; "+
						"store it encoded (base64), or leave the key out", pair.Key, p.scope)
				}
				b.KV = append(b.KV, KVPair{Key: pair.Key, Value: value})
			}
		}
	}
	return nil
}
