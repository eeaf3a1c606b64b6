package dynamic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
)

// KeyPair is a key of Consul's KV store.
type KeyPair struct {
	*api.KVPair        // indexes, flags and session
	Path        string // the whole key
	Key         string // the key below the given prefix
	Value       string
}

// NodeServices is a node with the services on it.
type NodeServices struct {
	Node     *api.Node
	Services []*api.AgentService
}

// Service is a service of Consul's catalog.
type Service struct {
	Name string
	Tags []string
}

// Instance is an instance of a service, with its health.
type Instance struct {
	Node, NodeID, NodeAddress, NodeDatacenter string
	NodeTaggedAddresses, NodeMeta             map[string]string
	ID, Name, Kind, Namespace                 string
	Address                                   string // the node's, if the instance has none
	Port                                      int
	Tags                                      []string
	ServiceMeta                               map[string]string
	ServiceTaggedAddresses                    map[string]api.ServiceAddress
	Checks                                    api.HealthChecks
	Status                                    string
	Weights                                   api.AgentWeights
}

func (l *lookups) key(name string, options ...string) (string, error) {
	pair, err := l.pair("key", name, options)
	if err != nil {
		return "", err
	}
	if pair == nil {
		return "", &lookupError{named("key", name), errors.New("no such key in Consul's KV store, or the token may not read it (key:read): write a value")}
	}
	return string(pair.Value), nil
}

func (l *lookups) keyExists(name string, options ...string) (bool, error) {
	pair, err := l.pair("keyExists", name, options)
	return pair != nil, err
}

func (l *lookups) keyOrDefault(name, otherwise string, options ...string) (string, error) {
	pair, err := l.pair("keyOrDefault", name, options)
	if err != nil || pair == nil || len(pair.Value) == 0 {
		return otherwise, err
	}
	return string(pair.Value), nil
}

// pair returns nil if the key does not exist.
func (l *lookups) pair(function, name string, options []string) (*api.KVPair, error) {
	q := parseQuery(function, name, options)
	return lookUp(l, q, "key", func(client *api.Client, o *api.QueryOptions) (*api.KVPair, *api.QueryMeta, error) {
		return client.KV().Get(strings.TrimPrefix(q.name, "/"), o)
	})
}

// ls matches the keys directly below a prefix, without those below them.
func ls(below string) bool { return !strings.Contains(below, "/") }

// tree matches all keys below a prefix, except folders.
func tree(below string) bool { return !strings.HasSuffix(below, "/") }

// keys returns a function that lists the keys below a prefix that match. A prefix with a slash at its
// end is a folder; without a slash it may end in the middle of a name. An empty list is an error of
// safeLs and safeTree.
func (l *lookups) keys(function string, matches func(below string) bool) func(prefix string, options ...string) ([]*KeyPair, error) {
	return func(prefix string, options ...string) ([]*KeyPair, error) {
		q := parseQuery(function, prefix, options)
		q.name = strings.TrimPrefix(q.name, "/")
		pairs, err := lookUp(l, q, "tree", func(client *api.Client, o *api.QueryOptions) (api.KVPairs, *api.QueryMeta, error) {
			return client.KV().List(q.name, o)
		})
		var list []*KeyPair
		for _, p := range pairs {
			below, ok := strings.CutPrefix(p.Key, q.name)
			if below = strings.TrimPrefix(below, "/"); ok && below != "" && matches(below) {
				list = append(list, &KeyPair{p, p.Key, below, string(p.Value)})
			}
		}
		if err == nil && len(list) == 0 && strings.HasPrefix(function, "safe") {
			err = &lookupError{q.what, errors.New("there are no such keys in Consul's KV store, or the token may not read them (key:read)")}
		}
		return list, err
	}
}

func (l *lookups) datacenters() ([]string, error) {
	return lookUp(l, query{what: "datacenters"}, "datacenters", func(client *api.Client, o *api.QueryOptions) ([]string, *api.QueryMeta, error) {
		var names []string
		meta, err := client.Raw().Query("/v1/catalog/datacenters", &names, o)
		return names, meta, err
	})
}

func (l *lookups) nodes(options ...string) ([]*api.Node, error) {
	return lookUp(l, parseQuery("nodes", "", options), "nodes", func(client *api.Client, o *api.QueryOptions) ([]*api.Node, *api.QueryMeta, error) {
		all, meta, err := client.Catalog().Nodes(o)
		if o.Near == "" {
			slices.SortFunc(all, func(a, b *api.Node) int { return cmp.Compare(a.Node, b.Node) })
		}
		return all, meta, err
	})
}

// node is {{ node "name" }}, or without a name the node of the agent.
func (l *lookups) node(options ...string) (*NodeServices, error) {
	name := ""
	if len(options) > 0 {
		name, options = options[0], options[1:]
	}
	q := parseQuery("node", name, options)
	return lookUp(l, q, "node", func(client *api.Client, o *api.QueryOptions) (*NodeServices, *api.QueryMeta, error) {
		name := q.name
		if name == "" {
			var self struct{ Config struct{ NodeName string } }
			if _, err := client.Raw().Query("/v1/agent/self", &self, o); err != nil {
				return nil, nil, err
			}
			name = self.Config.NodeName
		}
		found, meta, err := client.Catalog().Node(name, o)
		if err != nil {
			return nil, nil, err
		}
		if found == nil || found.Node == nil {
			return nil, nil, errors.New("no such node in Consul, or the token may not read it (node:read)")
		}
		n := &NodeServices{Node: found.Node}
		for _, s := range found.Services {
			s.Port = cmp.Or(s.Port, s.DefaultPort())
			n.Services = append(n.Services, s)
		}
		slices.SortFunc(n.Services, func(a, b *api.AgentService) int {
			return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.ID, b.ID))
		})
		return n, meta, nil
	})
}

func (l *lookups) services(options ...string) ([]*Service, error) {
	return lookUp(l, parseQuery("services", "", options), "services", func(client *api.Client, o *api.QueryOptions) ([]*Service, *api.QueryMeta, error) {
		all, meta, err := client.Catalog().Services(o)
		var services []*Service
		for _, name := range slices.Sorted(maps.Keys(all)) {
			slices.Sort(all[name])
			services = append(services, &Service{name, all[name]})
		}
		return services, meta, err
	})
}

// service is {{ range service "tag.name" }}: the passing instances, or those with the listed
// states: service "web|any", service "web" "warning".
func (l *lookups) service(name string, options ...string) ([]*Instance, error) {
	q := parseQuery("service", name, options)
	tag, bare := "", q.name
	if i := strings.LastIndexByte(bare, '.'); i >= 0 {
		tag, bare = bare[:i], bare[i+1:]
	}
	all, err := lookUp(l, q, "service", func(client *api.Client, o *api.QueryOptions) ([]*api.ServiceEntry, *api.QueryMeta, error) {
		entries, meta, err := client.Health().Service(bare, tag, false, o)
		if o.Near == "" {
			slices.SortFunc(entries, func(a, b *api.ServiceEntry) int {
				return cmp.Or(cmp.Compare(a.Node.Node, b.Node.Node), cmp.Compare(a.Service.ID, b.Service.ID))
			})
		}
		return entries, meta, err
	})
	if err != nil {
		return nil, err
	}
	var instances []*Instance
	for _, e := range all {
		status := e.Checks.AggregatedStatus()
		if !slices.Contains(q.states, status) && !slices.Contains(q.states, "any") {
			continue
		}
		instances = append(instances, &Instance{
			Node: e.Node.Node, NodeID: e.Node.ID, NodeAddress: e.Node.Address, NodeDatacenter: e.Node.Datacenter,
			NodeTaggedAddresses: e.Node.TaggedAddresses, NodeMeta: e.Node.Meta,
			ID: e.Service.ID, Name: e.Service.Service, Kind: string(e.Service.Kind), Namespace: e.Service.Namespace,
			Address: cmp.Or(e.Service.Address, e.Node.Address), Port: cmp.Or(e.Service.Port, e.Service.DefaultPort()), Tags: e.Service.Tags,
			ServiceMeta: e.Service.Meta, ServiceTaggedAddresses: e.Service.TaggedAddresses,
			Checks: e.Checks, Status: status, Weights: e.Service.Weights,
		})
	}
	return instances, nil
}

// query is a query to Consul.
type query struct {
	what    string // the call, for people
	name    string
	options api.QueryOptions
	states  []string // of the instances of a service
	err     error    // in the arguments
}

// address is a name in the syntax of Consul-Template, with its location:
// name?ns=n&partition=p@datacenter~near|state,state
var address = regexp.MustCompile(`^([^@?~|]*)(?:\?([^@~|]*))?(?:@([\w.-]+))?(?:~([\w.-]+))?(?:\|([\w,]+))?$`)

var states = []string{"any", api.HealthPassing, api.HealthWarning, api.HealthCritical, api.HealthMaint}

// parseQuery parses the arguments of a function: a name and options such as dc=dc2. Without
// options, they may be part of the name; with options, the name is taken literally.
func parseQuery(function, name string, options []string) query {
	q := query{what: function, name: name}
	if name != "" {
		q.what = named(function, name)
	}
	fail := func(problem string) query {
		return query{err: &argumentError{named(function, append([]string{name}, options...)...) + ": " + problem}}
	}
	if name == "" && len(options) == 1 && strings.ContainsAny(options[0], "@~") {
		name, options = options[0], nil // nodes "@dc2"
	}
	filter := ""
	if len(options) == 0 {
		parts := address.FindStringSubmatch(name)
		if parts == nil {
			return fail(`a name with @, ?, ~ or | of its own needs its datacenter apart, such as "dc=dc1"`)
		}
		q.name, filter = parts[1], parts[5]
		q.options.Datacenter, q.options.Near = parts[3], parts[4]
		values, err := url.ParseQuery(parts[2])
		if err != nil {
			return fail("after the ? come ns=NAME and partition=NAME")
		}
		for name, value := range values {
			options = append(options, name+"="+value[0])
		}
	}
	for _, o := range options {
		name, value, ok := strings.Cut(o, "=")
		switch {
		case !ok && function == "service":
			filter = o
		case name == "dc":
			q.options.Datacenter = value
		case name == "ns":
			q.options.Namespace = value
		case name == "partition":
			q.options.Partition = value
		case name == "near":
			q.options.Near = value
		default:
			return fail("options are dc=, ns=, partition= and near=")
		}
	}
	if filter != "" && function != "service" {
		return fail("only services have states")
	}
	q.states = []string{api.HealthPassing}
	if filter != "" {
		q.states = strings.Split(filter, ",")
	}
	for _, s := range q.states {
		if !slices.Contains(states, s) {
			return fail("the states of an instance are " + strings.Join(states, ", "))
		}
	}
	return q
}

// lookUp queries Consul, once per run. The kind distinguishes queries; several functions may use
// the same one.
func lookUp[T any](l *lookups, q query, kind string, get func(*api.Client, *api.QueryOptions) (T, *api.QueryMeta, error)) (T, error) {
	var none T
	if q.err != nil {
		return none, q.err
	}
	key := named(kind, q.name, q.options.Datacenter, q.options.Namespace, q.options.Partition, q.options.Near)
	return with(l, q.what, key, l.consulClient, func(ctx context.Context, client *consul.Client) (T, error) {
		found, meta, err := get(client.API(), q.options.WithContext(ctx))
		if err != nil {
			return none, l.failed(err)
		}
		if list := reflect.ValueOf(found); list.Kind() == reflect.Slice && list.Len() == 0 {
			return found, client.MayRead(ctx, q.what, q.rights(kind, client.Tokenless() || meta.ResultsFilteredByACLs)...)
		}
		return found, nil
	})
}

// rights returns the rights without which an empty list does not prove that nothing exists. all is
// set if Consul does not report what it hides: it does so to clients with a token, or denies some
// queries.
func (q query) rights(kind string, all bool) []condition.Right {
	in := condition.Scope{Datacenter: q.options.Datacenter, Namespace: q.options.Namespace}
	name := q.name[strings.LastIndexByte(q.name, '.')+1:] // of a service, without the tag
	service := condition.Right{Scope: in, Of: condition.OfService, Name: name, Any: name == ""}
	nodes := condition.Right{Scope: in, Of: condition.OfNode, Any: true}
	keys := condition.Right{Scope: in, Of: condition.OfKey, Name: q.name, Any: true}
	switch {
	case all:
		return map[string][]condition.Right{"service": {service, nodes}, "services": {service, nodes}, "nodes": {nodes}, "tree": {keys}}[kind]
	case kind == "service":
		return []condition.Right{service}
	}
	return nil
}

// failed adds the meaning to an error of Consul.
func (l *lookups) failed(err error) error {
	if status := (api.StatusError{}); errors.As(err, &status) && status.Code == http.StatusForbidden {
		return fmt.Errorf("the Consul at %s denies the request: the token lacks a right (%s)", l.cfg.Consul.Address, strings.TrimSpace(status.Body))
	}
	return fmt.Errorf("the Consul at %s: %w", l.cfg.Consul.Address, err)
}
