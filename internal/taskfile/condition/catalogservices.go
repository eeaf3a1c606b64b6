package condition

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// CatalogServicesKind is condition "catalog-services".
var CatalogServicesKind = &Kind{
	Name: "catalog-services",
	Doc:  "which services exist",
	Keys: func() Keys { return &catalogServices{} },

	Entries: "services",
	Variable: &Variable{
		Name:    "catalog_services",
		Grouped: true,
		Declaration: func(string) string {
			return `
# Catalog Services definition protocol v0
variable "catalog_services" {
  description = "Consul catalog service names and list of all known tags for a given service"
  type        = map(list(string))
}
`
		},
	},
}

type catalogServices struct {
	block.Origin
	Regexp     block.String `key:"regexp" empty:"true" required:"true" form:"any" example:"^web" doc:"as in 'services', for the names of services; '\".*\"' matches every service"`
	Datacenter block.String `key:"datacenter" unset:"the agent's" doc:"datacenter to read from"`
	Namespace  block.String `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
	Peer       block.String `key:"peer" example:"cluster-02" doc:"peer whose exported services are read"`
	NodeMeta   block.Map    `key:"node_meta" doc:"only services on nodes with this metadata"`
	sourceIncludesVar
}

func (k *catalogServices) Spec(r *block.Report, _ string) Spec {
	if !k.Regexp.Set {
		r.Missing(k.Key("regexp"), "catalog-services 'regexp' field must be set", `".*" is every service`)
	}
	checkRegexp(r, k.Regexp, "unable to compile catalog-services 'regexp'")
	peer := checkPeer(r, `condition "catalog-services"`, k.Peer, k.Datacenter)
	return CatalogServices{Regexp: k.Regexp.V, Datacenter: k.Datacenter.V, Namespace: k.Namespace.V, Peer: peer, NodeMeta: k.NodeMeta.V}
}

func checkRegexp(r *block.Report, expression block.String, problem string) {
	if _, err := regexp.Compile(expression.V); err != nil {
		r.Fail(expression.Origin, problem+" "+block.Quoted(expression.V)+": "+err.Error(), "the syntax is https://golang.org/s/re2syntax")
	}
}

// CatalogServices selects the names of services, and their tags.
type CatalogServices struct {
	Regexp     string            `json:"regexp,omitempty"`
	Datacenter string            `json:"datacenter,omitempty"`
	Namespace  string            `json:"namespace,omitempty"`
	Peer       string            `json:"peer,omitempty"`
	NodeMeta   map[string]string `json:"node_meta,omitempty"`
}

// Kind is CatalogServicesKind.
func (CatalogServices) Kind() *Kind { return CatalogServicesKind }

// Definition leaves out what Consul-Terraform-Sync does not know.
func (c CatalogServices) Definition() map[string]any {
	type fields CatalogServices
	return withoutPeer(Definition(fields(c)))
}

// String says of which services the names are selected.
func (c CatalogServices) String() string {
	text := "names of " + matching(c.Regexp) + Scope{Datacenter: c.Datacenter, Namespace: c.Namespace, Peer: c.Peer}.String()
	meta := list.Map(slices.Sorted(maps.Keys(c.NodeMeta)), func(key string) string { return key + "=" + c.NodeMeta[key] })
	if len(meta) > 0 {
		text += " on nodes with " + strings.Join(meta, ", ")
	}
	return text
}

// Feeds is the block itself.
func (c CatalogServices) Feeds() []Feed {
	return []Feed{{Kind: CatalogServicesKind, Text: c.String(), Of: OfService, Scope: Scope{Datacenter: c.Datacenter, Namespace: c.Namespace, Peer: c.Peer}, matches: matcher(c.Regexp, "")}}
}

// Selections is the block itself.
func (c CatalogServices) Selections() []Selection {
	nodeMeta := url.Values{}
	for _, key := range slices.Sorted(maps.Keys(c.NodeMeta)) {
		nodeMeta.Add("node-meta", key+":"+c.NodeMeta[key])
	}
	one := catalogSelection{nameFilter: compile(c.Regexp), scope: Scope{Datacenter: c.Datacenter, Namespace: c.Namespace, Peer: c.Peer}, nodeMeta: nodeMeta.Encode()}
	if c.Peer != "" {
		return []Selection{&peerCatalogSelection{one}}
	}
	return []Selection{&one}
}

type catalogSelection struct {
	nameFilter
	scope    Scope
	nodeMeta string // as parameters of a URL
}

func (s *catalogSelection) ID() string {
	return Encode(CatalogServicesKind.Name, s.scope.Datacenter, s.scope.Namespace, s.Regexp.String(), s.nodeMeta) + ofPeer(s.scope)
}

func (s *catalogSelection) Scope() Scope    { return s.scope }
func (s *catalogSelection) Family() *Family { return familyOf(s.scope) }
func (s *catalogSelection) Views() []View   { return []View{namesView{s.scope, s.nodeMeta}} }

func (s *catalogSelection) Adapt(elements []Element) []Element {
	return slices.DeleteFunc(slices.Clone(elements), func(e Element) bool { return !s.MatchString(e.Name) })
}

func (s *catalogSelection) Picks(source Source) bool { return s.MatchString(source.Name) }

func (s *catalogSelection) ViewOf(source Source) View {
	if source.Scope != s.scope || source.Of != OfService || source.Node != "" || !s.Picks(source) {
		return nil
	}
	return s.Views()[0]
}

func (s *catalogSelection) Missing(source Source, reader Reader) []Right {
	rights := []Right{{Scope: source.Scope, Of: OfService, Name: source.Name}}
	if reader.Tokenless || reader.Filtered {
		rights = append(rights, Right{Scope: source.Scope, Of: OfNode, Any: true})
	}
	return rights
}

func (s *catalogSelection) Render(into Entries, read []Contents) (Entries, error) {
	services, _ := into.(CatalogEntries)
	for _, got := range read {
		names := got.(nameContents)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if s.MatchString(name) {
				tags := append([]string{}, names[name]...)
				slices.Sort(tags)
				services = append(services, CatalogService{Name: name, Tags: tags})
			}
		}
	}
	return services, nil
}

// CatalogEntries are the entries of catalog_services.
type CatalogEntries []CatalogService

// CatalogService is a service's name with all tags of its instances, sorted.
type CatalogService struct {
	Name string
	Tags []string
}

// Len is the number of services.
func (c CatalogEntries) Len() int { return len(c) }

// Write writes the tags by service.
func (c CatalogEntries) Write(w *tfvars.Writer, _ map[string]bool) {
	for _, s := range c {
		w.Entry(s.Name)
		w.List(s.Tags)
		w.WriteByte('\n')
	}
}
