package consul

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// view is one read of Consul. Equal views are read once.
type view struct {
	kind     viewKind
	scope    scope
	name     string // of the service, the key or the prefix
	filter   string
	nodeMeta string // as in part
}

type viewKind int

const (
	serviceView viewKind = iota + 1 // the instances of a service
	namesView                       // the names of services, with their tags
	keyView                         // one key
	prefixView                      // all keys with a prefix
)

// contents is what a view shows; only the field of its kind is set.
type contents struct {
	instances []*instance
	names     map[string][]string // tags in the order in which Consul gave them
	pairs     []pair
	filtered  bool // access control has hidden something
}

// instance is what matters of an element of /v1/health/service.
type instance struct {
	Node struct {
		ID, Node, Address, Datacenter string
		TaggedAddresses, Meta         map[string]string
	}
	Service struct {
		ID, Service, Kind, Address, Namespace string
		Port                                  int
		Ports                                 []servicePort
		Tags                                  []string
		Meta                                  map[string]string
	}
	Checks []check
}

// servicePort is one port of a service with several (Consul 1.22).
type servicePort struct {
	Name    string
	Port    int
	Default bool
}

type check struct{ CheckID, Status, ServiceID string }

// pair is what matters of an element of /v1/kv.
type pair struct {
	Key   string
	Value []byte
}

func (v view) request() request {
	switch v.kind {
	case serviceView:
		query := url.Values{}
		if v.filter != "" {
			query.Set("filter", v.filter)
		}
		// A filter on the status of checks chooses among all instances.
		if !strings.Contains(v.filter, "Checks.Status") {
			query.Set("passing", "1")
		}
		return request{
			act:   fmt.Sprintf("read service %q%s", v.name, v.scope),
			needs: fmt.Sprintf("service:read on %q and node:read on its nodes", v.name),
			path:  "/v1/health/service/" + v.name, scope: v.scope, query: query,
		}
	case namesView:
		query, _ := url.ParseQuery(v.nodeMeta) // Encode wrote it
		return request{
			act:   fmt.Sprintf("read the names of services%s", v.scope),
			needs: "service:read on the services and node:read on their nodes",
			path:  "/v1/catalog/services", scope: v.scope, query: query,
		}
	case keyView:
		return request{
			act:   fmt.Sprintf("read key %q%s", v.name, v.scope),
			needs: fmt.Sprintf("key:read on %q", v.name),
			path:  "/v1/kv/" + v.name, scope: v.scope, missing: true,
		}
	default:
		return request{
			act:   fmt.Sprintf("read keys with prefix %q%s", v.name, v.scope),
			needs: fmt.Sprintf("key:read and, where the server asks for it, key:list on prefix %q", v.name),
			path:  "/v1/kv/" + v.name, scope: v.scope, missing: true,
			query: url.Values{"recurse": {""}},
		}
	}
}

// readView reads the view. What does not exist is empty, what access control
// has hidden altogether is an error: to take it for empty would remove what
// was made of it.
func (c *Client) readView(ctx context.Context, v view) (contents, error) {
	var got contents
	r := v.request()
	a, err := c.get(ctx, r, func(d *json.Decoder) error {
		switch v.kind {
		case serviceView:
			return decodeEach(d, func(i *instance) { got.instances = append(got.instances, i) })
		case namesView:
			return d.Decode(&got.names)
		default:
			return decodeEach(d, func(p *pair) { got.pairs = append(got.pairs, *p) })
		}
	})
	if err != nil {
		return contents{}, err
	}
	if a.filtered && len(got.instances)+len(got.names)+len(got.pairs) == 0 {
		return contents{}, &readError{act: r.act, address: c.address, kind: forbidden,
			cause:  errors.New("access control has hidden everything"),
			advice: c.lacks(r.needs)}
	}
	got.filtered = a.filtered
	slices.SortFunc(got.instances, compareInstances)
	return got, nil
}

// decodeEach decodes the elements of an array one by one, so that the answer
// is never in memory as a whole.
func decodeEach[T any](d *json.Decoder, each func(*T)) error {
	start, err := d.Token()
	if err != nil || start == nil { // null is as good as []
		return err
	}
	if start != json.Delim('[') {
		return &json.UnmarshalTypeError{Value: fmt.Sprint(start), Type: reflect.TypeFor[[]T](), Offset: d.InputOffset()}
	}
	for d.More() {
		element := new(T)
		if err := d.Decode(element); err != nil {
			return err
		}
		each(element)
	}
	_, err = d.Token()
	return err
}

// service is the instance as modules see it.
func (i *instance) service(userMeta map[string]string) Service {
	s := Service{
		ID: i.Service.ID, Name: i.Service.Service, Kind: i.Service.Kind,
		Address: i.Service.Address, Port: i.Service.Port,
		Meta: notNil(i.Service.Meta), Tags: slices.Sorted(slices.Values(i.Service.Tags)),
		Namespace: i.Service.Namespace, Status: i.status(),
		Node: i.Node.Node, NodeID: i.Node.ID, NodeAddress: i.Node.Address,
		NodeDatacenter:      i.Node.Datacenter,
		NodeTaggedAddresses: notNil(i.Node.TaggedAddresses),
		NodeMeta:            notNil(i.Node.Meta),
		CTSUserDefinedMeta:  notNil(userMeta),
	}
	if s.Address == "" {
		s.Address = s.NodeAddress
	}
	if len(i.Service.Ports) > 0 {
		s.Ports = make(map[string]int, len(i.Service.Ports))
		for _, p := range i.Service.Ports {
			s.Ports[p.Name] = p.Port
		}
		if s.Port == 0 { // an agent of 1.22 fills it
			s.Port = i.defaultPort()
		}
	}
	if s.Tags == nil {
		s.Tags = []string{}
	}
	return s
}

// defaultPort is the port that is marked as default, else the first one.
func (i *instance) defaultPort() int {
	for _, p := range i.Service.Ports {
		if p.Default {
			return p.Port
		}
	}
	return i.Service.Ports[0].Port
}

// portless reports whether the instance has health checks of its own, so that
// it serves something, and no port. An agent before 1.22 shows services with
// several ports in this way.
func (i *instance) portless() bool {
	return i.Service.Port == 0 && len(i.Service.Ports) == 0 && i.Service.Kind == "" &&
		slices.ContainsFunc(i.Checks, func(c check) bool { return c.ServiceID != "" })
}

// status is the worst status of the instance's checks. Maintenance is a
// check with a reserved name.
func (i *instance) status() string {
	rank := 0
	for _, c := range i.Checks {
		switch {
		case c.CheckID == "_node_maintenance", strings.HasPrefix(c.CheckID, "_service_maintenance:"):
			rank = max(rank, 3)
		case c.Status == "critical":
			rank = max(rank, 2)
		case c.Status == "warning":
			rank = max(rank, 1)
		}
	}
	return [...]string{"passing", "warning", "critical", "maintenance"}[rank]
}

// Key is what the instance is called where it is rendered:
// id.node.namespace.datacenter, without the parts that are empty.
func (s *Service) Key() string {
	var parts []string
	for _, p := range []string{s.ID, s.Node, s.Namespace, s.NodeDatacenter} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ".")
}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
