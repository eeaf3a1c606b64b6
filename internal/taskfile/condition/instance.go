package condition

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// Instances are the entries of services.
type Instances []Service

// Service is one instance of a service, with the fields that modules see, in the
// order in which they are rendered. Maps and Tags are never nil.
type Service struct {
	ID                  string
	Name                string
	Kind                string         // "" for an ordinary service
	Address             string         // the service's own or, where it has none, the node's
	Port                int            // the default port of a service with several
	Ports               map[string]int `json:",omitempty"` // by name; nil unless the service has several
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
	Peer                string            `json:",omitempty"` // that exports it; not an attribute
	CTSUserDefinedMeta  map[string]string `json:"-"`          // from the task file

	Portless bool `json:"-"` // has health checks of its own and no port; not rendered
}

// instance is what matters of an element of /v1/health/service.
type instance struct {
	Node struct {
		ID, Node, Address, Datacenter string
		TaggedAddresses, Meta         map[string]string
	}
	Service struct {
		ID, Service, Kind, Address, Namespace string
		PeerName                              string
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

// service is the instance as modules see it.
func (i *instance) service(userMeta map[string]string) Service {
	s := Service{
		ID: i.Service.ID, Name: i.Service.Service, Kind: i.Service.Kind,
		Address: cmp.Or(i.Service.Address, i.Node.Address), Port: i.Service.Port,
		Meta: notNil(i.Service.Meta), Tags: slices.Sorted(slices.Values(i.Service.Tags)),
		Namespace: i.Service.Namespace, Status: i.status(),
		Node: i.Node.Node, NodeID: i.Node.ID, NodeAddress: i.Node.Address,
		NodeDatacenter:      i.Node.Datacenter,
		Peer:                i.Service.PeerName,
		NodeTaggedAddresses: notNil(i.Node.TaggedAddresses),
		NodeMeta:            notNil(i.Node.Meta),
		CTSUserDefinedMeta:  notNil(userMeta),
		Portless:            i.portless(),
	}
	if ports := i.Service.Ports; len(ports) > 0 {
		s.Ports = make(map[string]int, len(ports))
		for _, p := range ports {
			s.Ports[p.Name] = p.Port
		}
		if s.Port == 0 { // an agent of 1.22 fills it
			// The port that is marked as default, else the first one.
			s.Port = ports[max(0, slices.IndexFunc(ports, func(p servicePort) bool { return p.Default }))].Port
		}
	}
	if s.Tags == nil {
		s.Tags = []string{}
	}
	return s
}

// portless reports whether the instance has health checks of its own, so that it
// serves something, and no port. If the agent or the servers are older than 1.22, a service with several ports
// looks like this.
func (i *instance) portless() bool {
	return i.Service.Port == 0 && len(i.Service.Ports) == 0 && i.Service.Kind == "" &&
		slices.ContainsFunc(i.Checks, func(c check) bool { return c.ServiceID != "" })
}

// status is the worst status of the instance's checks.
func (i *instance) status() string { return worst(i.Checks) }

// statuses are those of nodes and instances, the worst last.
var statuses = [...]string{"passing", "warning", "critical", "maintenance"}

// worst is the worst status of checks. Maintenance is a check with a reserved name.
func worst(checks []check) string {
	rank := 0
	for _, c := range checks {
		switch {
		case c.CheckID == "_node_maintenance", strings.HasPrefix(c.CheckID, "_service_maintenance:"):
			rank = max(rank, 3)
		case c.Status == "critical":
			rank = max(rank, 2)
		case c.Status == "warning":
			rank = max(rank, 1)
		}
	}
	return statuses[rank]
}

// Key is the name of the instance in the variable: id, node, namespace, datacenter and
// peer, without the parts that are empty.
func (s *Service) Key() string {
	parts := []string{s.ID, s.Node, s.Namespace, s.NodeDatacenter, s.Peer}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ".")
}

// endpoint is the address of the instance with its port, if it has one.
func (s *Service) endpoint() string {
	if s.Port == 0 {
		return s.Address
	}
	return net.JoinHostPort(s.Address, strconv.Itoa(s.Port))
}

// noEntries is shared by thousands of instances, and never changed.
var noEntries = map[string]string{}

func notNil(m map[string]string) map[string]string {
	if m == nil {
		return noEntries
	}
	return m
}

// sum digests everything that is rendered except what the task file adds. It includes the
// ports even if the module does not declare them, which is not known here.
func (s *Service) sum(h hash.Hash) (sum [sha256.Size]byte) {
	h.Reset()
	_ = json.NewEncoder(h).Encode(s) // strings and numbers
	h.Sum(sum[:0])
	return sum
}

// Len is the number of instances.
func (all Instances) Len() int { return len(all) }

// Write writes the attributes of each instance.
func (all Instances) Write(w *tfvars.Writer, attributes map[string]bool) {
	var (
		fields []tfvars.Field
		fill   []func(*tfvars.Field, *Service)
	)
	for _, a := range serviceAttributes {
		if attributes[a.Name] {
			fields, fill = append(fields, a.Field), append(fill, a.fill)
		}
	}
	for i := range all {
		for n := range fields {
			fill[n](&fields[n], &all[i])
		}
		w.Entry(all[i].Key())
		w.Object(fields)
	}
}

// serviceAttributes are the attributes of a service in the order in which they are
// written.
var serviceAttributes = []struct {
	tfvars.Field
	fill func(*tfvars.Field, *Service)
}{
	{tfvars.Field{Name: "id"}, func(f *tfvars.Field, s *Service) { f.Text = s.ID }},
	{tfvars.Field{Name: "name"}, func(f *tfvars.Field, s *Service) { f.Text = s.Name }},
	{tfvars.Field{Name: "kind"}, func(f *tfvars.Field, s *Service) { f.Text = s.Kind }},
	{tfvars.Field{Name: "address"}, func(f *tfvars.Field, s *Service) { f.Text = s.Address }},
	{tfvars.Field{Name: "port", Kind: tfvars.Number}, func(f *tfvars.Field, s *Service) { f.Text = strconv.Itoa(s.Port) }},
	{tfvars.Field{Name: "ports", Kind: tfvars.Numbers}, func(f *tfvars.Field, s *Service) { f.Table = numbers(s.Ports) }},
	{tfvars.Field{Name: "meta", Kind: tfvars.Table}, func(f *tfvars.Field, s *Service) { f.Table = s.Meta }},
	{tfvars.Field{Name: "tags", Kind: tfvars.List}, func(f *tfvars.Field, s *Service) { f.List = s.Tags }},
	{tfvars.Field{Name: "namespace"}, func(f *tfvars.Field, s *Service) { f.Text = s.Namespace }},
	{tfvars.Field{Name: "status"}, func(f *tfvars.Field, s *Service) { f.Text = s.Status }},
	{tfvars.Field{Name: "node"}, func(f *tfvars.Field, s *Service) { f.Text = s.Node }},
	{tfvars.Field{Name: "node_id"}, func(f *tfvars.Field, s *Service) { f.Text = s.NodeID }},
	{tfvars.Field{Name: "node_address"}, func(f *tfvars.Field, s *Service) { f.Text = s.NodeAddress }},
	{tfvars.Field{Name: "node_datacenter"}, func(f *tfvars.Field, s *Service) { f.Text = s.NodeDatacenter }},
	{tfvars.Field{Name: "node_tagged_addresses", Kind: tfvars.Table}, func(f *tfvars.Field, s *Service) { f.Table = s.NodeTaggedAddresses }},
	{tfvars.Field{Name: "node_meta", Kind: tfvars.Table}, func(f *tfvars.Field, s *Service) { f.Table = s.NodeMeta }},
	{tfvars.Field{Name: "cts_user_defined_meta", Kind: tfvars.Table}, func(f *tfvars.Field, s *Service) { f.Table = s.CTSUserDefinedMeta }},
}

// numbers is a table of numbers as they are written.
func numbers(of map[string]int) map[string]string {
	if len(of) == 0 {
		return nil
	}
	table := make(map[string]string, len(of))
	for name, n := range of {
		table[name] = strconv.Itoa(n)
	}
	return table
}

// Warning says which services are rendered with port 0.
func (all Instances) Warning() string {
	var names []string
	for i := range all {
		if s := &all[i]; s.Portless && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("port 0 is rendered for services that have health checks: %s; Consul before 1.22 shows services with several ports "+
		"in this way: upgrade its servers and the agent at consul.address, or register the services with a port", Shorten(names))
}

// servicesDeclaration is the declaration of services. It has the attribute ports
// only for a module that declares it, so that every other module sees exactly what
// it saw with Consul-Terraform-Sync.
func servicesDeclaration(declared string) string {
	ports := ""
	if WantsPorts(declared) {
		ports = "      ports     = map(number)\n"
	}
	return `
# Service definition protocol v0
variable "services" {
  description = "Consul services monitored by Consul-Terraform-Sync"
  type = map(
    object({
      id        = string
      name      = string
      kind      = string
      address   = string
      port      = number
` + ports + `      meta      = map(string)
      tags      = list(string)
      namespace = string
      status    = string

      node                  = string
      node_id               = string
      node_address          = string
      node_datacenter       = string
      node_tagged_addresses = map(string)
      node_meta             = map(string)

      cts_user_defined_meta = map(string)
    })
  )
}
`
}

// WantsPorts reports whether this type of services has the attribute ports, with a
// type that can take them. An optional attribute of another type is the module's
// own.
func WantsPorts(declared string) bool {
	expr, diags := hclsyntax.ParseExpression([]byte(declared), "variables.tf", hcl.InitialPos)
	if diags.HasErrors() {
		return false
	}
	t, _, diags := typeexpr.TypeConstraintWithDefaults(expr) // with optional attributes
	if diags.HasErrors() || !t.IsMapType() || !t.ElementType().IsObjectType() || !t.ElementType().HasAttribute("ports") {
		return false
	}
	ports, theirs := cty.Map(cty.Number), t.ElementType().AttributeType("ports")
	return theirs.Equals(ports) || convert.GetConversion(ports, theirs) != nil
}
