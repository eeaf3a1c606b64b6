package condition

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
)

// ServicesKind is condition "services", and the module input of that name. What
// the module gets of an instance is in instance.go.
var ServicesKind = &Kind{
	Name:      "services",
	Doc:       "instances of services and their health",
	Keys:      func() Keys { return &servicesCondition{} },
	InputDoc:  "instances, in 'services'",
	Entries:   "service instances",
	InputKeys: func() Keys { return &services{} },
	Variable:  &Variable{Name: "services", Declaration: servicesDeclaration, Always: true, Grouped: true},
}

type services struct {
	block.Origin
	Names              block.Strings `key:"names" doc:"exact names; either these or 'regexp'"`
	Regexp             block.String  `key:"regexp" empty:"true" example:"^web" doc:"[RE2](https://golang.org/s/re2syntax), matches anywhere in a name: '^web' matches names that begin with web. '\"\"' matches every service"`
	Datacenter         block.String  `key:"datacenter" unset:"the agent's" doc:"datacenter to read from"`
	Namespace          block.String  `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
	Peer               block.String  `key:"peer" example:"cluster-02" doc:"peer whose exported services are read"`
	Filter             block.String  `key:"filter" example:"\"v1\" in Service.Tags" doc:"[filter](https://developer.hashicorp.com/consul/api-docs/features/filtering) on the instances. If it does not contain 'Checks.Status', only passing instances are selected"`
	CTSUserDefinedMeta block.Map     `key:"cts_user_defined_meta" doc:"metadata for the module, added to every instance"`
}

type servicesCondition struct {
	services
	sourceIncludesVar
}

// Schema adds to the JSON Schema of the block that either names or regexp is set.
func (*services) Schema(schema map[string]any) {
	type object = map[string]any
	schema["anyOf"] = []object{{"required": []string{"names"}}, {"required": []string{"regexp"}}}
	schema["not"] = object{
		"required": []string{"names", "regexp"},
		"properties": object{
			"names":  object{"not": object{"enum": []any{nil, []any{}}}},
			"regexp": object{"not": object{"type": "null"}},
		},
	}
}

func (k *services) Spec(r *block.Report, parent string) Spec {
	where := parent + ` "services"`
	switch {
	case k.Names.Set && len(k.Names.V) > 0 && k.Regexp.Set:
		r.Fail(k.Regexp.Origin, where+": regexp and names fields cannot both be configured: "+block.Quoted(k.Regexp.V)+" and "+block.QuotedList(k.Names.V), "make the names part of the regexp, or make two tasks")
	case len(k.Names.V) == 0 && !k.Regexp.Set:
		r.Missing(k.Origin, where+": either the regexp or names field must be configured", `such as names = ["web"] or regexp = "^web"`)
	}
	for i, name := range k.Names.V {
		if name == "" {
			r.Fail(k.Names.Element(i), where+": names field includes empty string(s). services names cannot be empty", "remove it")
		}
	}
	checkRegexp(r, k.Regexp, where+": unable to compile services regexp")
	s := ServiceQuery{
		Names:              k.Names.V,
		Datacenter:         k.Datacenter.V,
		Namespace:          k.Namespace.V,
		Peer:               checkPeer(r, where, k.Peer, k.Datacenter),
		Filter:             CheckFilter(r, k.Filter),
		CTSUserDefinedMeta: k.CTSUserDefinedMeta.V,
	}
	if len(s.Names) == 0 {
		s.Names = nil
	}
	if k.Regexp.Set {
		s.Regexp = &k.Regexp.V
	}
	return Services{s}
}

// maxFilterSteps bounds how long the parser of filters may take for one: its
// time doubles with every nested parenthesis. A hundred terms take a fraction.
const maxFilterSteps = 1_000_000

// CheckFilter checks a filter, and returns it without the newlines that a heredoc
// has around it.
func CheckFilter(r *block.Report, key block.String) string {
	filter := strings.Trim(key.V, "\n")
	if strings.TrimSpace(filter) == "" {
		return ""
	}
	if block.TooDeep([]byte(filter)) {
		r.Fail(key.Origin, "invalid filter "+block.Quoted(filter)+": nested too deep", "")
		return filter
	}
	_, err := bexpr.CreateEvaluator(filter, bexpr.WithMaxExpressions(maxFilterSteps))
	// A filter that is too complex for this check is left to Consul.
	if err != nil && !strings.Contains(err.Error(), "max number of expressions parsed") {
		r.Fail(key.Origin, "invalid filter "+block.Quoted(filter)+": "+err.Error(), "the syntax is https://developer.hashicorp.com/consul/api-docs/features/filtering")
	}
	return filter
}

// Services selects instances of services. It has one element, or one for each
// service of the deprecated services list.
type Services []ServiceQuery

// ServiceQuery selects instances by the exact names of services or by a regular
// expression.
type ServiceQuery struct {
	Names              []string          `json:"names,omitempty"`  // as configured; empty if Regexp is used
	Regexp             *string           `json:"regexp,omitempty"` // RE2, unanchored; nil if Names is used
	Datacenter         string            `json:"datacenter,omitempty"`
	Namespace          string            `json:"namespace,omitempty"`
	Peer               string            `json:"peer,omitempty"`
	Filter             string            `json:"filter,omitempty"` // bexpr
	CTSUserDefinedMeta map[string]string `json:"cts_user_defined_meta,omitempty"`
}

// Kind is ServicesKind.
func (Services) Kind() *Kind { return ServicesKind }

// String says which services are selected.
func (s Services) String() string {
	return strings.Join(list.Map(s, ServiceQuery.String), "; ")
}

func (q ServiceQuery) String() string {
	text := listed("service", q.Names)
	if q.Regexp != nil {
		text = matching(*q.Regexp)
	}
	text += Scope{Datacenter: q.Datacenter, Namespace: q.Namespace, Peer: q.Peer}.String()
	if filter := strings.Trim(q.Filter, "\n"); filter != "" {
		text += " with filter " + filter
	}
	return text
}

// Feeds are the services, without filters.
func (s Services) Feeds() (all []Feed) {
	for _, q := range s {
		scope := Scope{Datacenter: q.Datacenter, Namespace: q.Namespace, Peer: q.Peer}
		if q.Regexp != nil {
			all = append(all, Feed{Kind: ServicesKind, Text: matching(*q.Regexp) + scope.String(), Of: OfService, Scope: scope, matches: matcher(*q.Regexp, "")})
		}
		for _, name := range q.Names {
			all = append(all, Feed{Kind: ServicesKind, Text: "service " + name + scope.String(), Of: OfService, Name: name, Scope: scope})
		}
	}
	return all
}

// namesInWords is how many names the words for a condition list.
const namesInWords = 20

// listed names things, such as "services api and web".
func listed(what string, names []string) string {
	switch n := len(names); {
	case n == 0:
		return "no " + what
	case n == 1:
		return what + " " + names[0]
	case n > namesInWords:
		return fmt.Sprintf("%ss %s and %d more", what, strings.Join(names[:namesInWords], ", "), n-namesInWords)
	default:
		return what + "s " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// matching says which services an expression selects. It may match anywhere in a name.
func matching(expression string) string {
	if expression == "" || expression == ".*" {
		return "every service"
	}
	return fmt.Sprintf("services that match %q", expression)
}

// Definition is one block with the names of all queries.
func (s Services) Definition() map[string]any {
	if len(s) == 0 {
		s = Services{{}}
	}
	shown := withoutPeer(Definition(s[0]))
	delete(shown, "names")
	if s[0].Regexp == nil {
		names := []string{}
		for _, q := range s {
			names = append(names, q.Names...)
		}
		shown["names"] = names
	}
	return shown
}

// Selections has one element for each query.
func (s Services) Selections() []Selection {
	all := make([]Selection, len(s))
	for i, q := range s {
		one := serviceSelection{
			scope:    Scope{Datacenter: q.Datacenter, Namespace: q.Namespace, Peer: q.Peer},
			filter:   strings.Trim(q.Filter, "\n"),
			userMeta: q.CTSUserDefinedMeta,
		}
		if q.Regexp != nil {
			all[i] = &regexpSelection{one, compile(*q.Regexp)}
			continue
		}
		one.names = slices.Compact(slices.Sorted(slices.Values(q.Names)))
		one.views = one.viewsOf(one.names)
		if all[i] = &one; q.Peer != "" {
			all[i] = &peerSelection{one}
		}
	}
	return all
}

// serviceSelection selects services by name.
type serviceSelection struct {
	scope    Scope
	names    []string // sorted, each once
	views    []View   // of the names
	filter   string
	userMeta map[string]string // cts_user_defined_meta
}

func (s *serviceSelection) ID() string { return s.encode("") }

func (s *serviceSelection) encode(expression string) string {
	var meta []string
	for _, key := range slices.Sorted(maps.Keys(s.userMeta)) {
		meta = append(meta, key, s.userMeta[key])
	}
	return Encode(ServicesKind.Name, s.scope.Datacenter, s.scope.Namespace, Encode(s.names...), expression, s.filter, Encode(meta...)) + ofPeer(s.scope)
}

func (s *serviceSelection) Scope() Scope    { return s.scope }
func (s *serviceSelection) Family() *Family { return familyOf(s.scope) }
func (s *serviceSelection) Views() []View   { return s.views }

func (s *serviceSelection) viewsOf(names []string) []View {
	return list.Map(names, func(name string) View { return instancesView{scope: s.scope, name: name, filter: s.filter} })
}

func (s *serviceSelection) Adapt(elements []Element) []Element {
	if len(s.userMeta) == 0 {
		return elements
	}
	meta, _ := json.Marshal(s.userMeta) // texts
	elements = slices.Clone(elements)
	for i := range elements {
		elements[i].Sum = sha256.Sum256(append(elements[i].Sum[:], meta...))
	}
	return elements
}

func (s *serviceSelection) ViewOf(source Source) View {
	if _, listed := slices.BinarySearch(s.names, source.Name); !listed || !s.isInstance(source) {
		return nil
	}
	return instancesView{scope: s.scope, name: source.Name, filter: s.filter}
}

func (s *serviceSelection) isInstance(source Source) bool {
	return source.Scope == s.scope && source.Of == OfService && source.Node != ""
}

func (s *serviceSelection) Missing(source Source, _ Reader) []Right {
	if s.scope.Peer != "" {
		return []Right{{Scope: s.scope, Of: OfPeer, Name: source.Name}}
	}
	return []Right{{Scope: source.Scope, Of: OfService, Name: source.Name}, {Scope: source.Scope, Of: OfNode, Name: source.Node}}
}

// Render lists the instances by service, then by node and id.
func (s *serviceSelection) Render(into Entries, read []Contents) (Entries, error) {
	entries, _ := into.(Instances)
	merges := len(entries) > 0
	all := merged(read)
	entries = slices.Grow(entries, len(all))
	for _, i := range all {
		entries = append(entries, i.service(s.userMeta))
	}
	if merges {
		slices.SortStableFunc(entries, func(x, y Service) int { return strings.Compare(x.Name, y.Name) })
	}
	return entries, nil
}

// regexpSelection selects services by a regular expression: their names are read
// first.
type regexpSelection struct {
	serviceSelection
	nameFilter
}

// ID has a slash before the expression, which may be empty.
func (s *regexpSelection) ID() string { return s.encode("/" + s.Regexp.String()) }

func (s *regexpSelection) Views() []View { return []View{listOf(s.scope)} }

func (s *regexpSelection) Choose(names []Element) (views []View, leftOut []string) {
	var chosen []string
	for _, e := range names {
		switch {
		case !s.MatchString(e.Name):
		case Addressable(instancesPath + e.Name):
			chosen = append(chosen, e.Name)
		default: // a service that anybody may register must not stop the task with its name
			leftOut = append(leftOut, e.Name)
		}
	}
	return s.viewsOf(chosen), leftOut
}

func (s *regexpSelection) ViewOf(source Source) View {
	if !s.isInstance(source) || !s.MatchString(source.Name) {
		return nil
	}
	return s.Views()[0]
}

// Render lists the instances by node and id.
func (s *regexpSelection) Render(into Entries, read []Contents) (Entries, error) {
	all := merged(read)
	slices.SortStableFunc(all, compareInstances)
	return s.serviceSelection.Render(into, []Contents{all})
}

// instancesView has the instances of a service.
type instancesView struct {
	scope  Scope
	name   string
	filter string
}

// instancesPath is the path of the instances of a service, without its name.
const instancesPath = "/v1/health/service/"

// passingOnly is the query without a filter, shared by thousands of views.
var passingOnly = url.Values{"passing": {"1"}}

func (v instancesView) Gate() Request { return v.Request() }

func (v instancesView) Request() Request {
	query := passingOnly
	needs := fmt.Sprintf("service:read on %q and node:read on its nodes", v.name)
	if v.scope.Peer != "" {
		needs = ImportedNeeds
	}
	if v.filter != "" {
		query = url.Values{"filter": {v.filter}}
		// A filter on the status of checks selects among all instances.
		if !strings.Contains(v.filter, "Checks.Status") {
			query["passing"] = passingOnly["passing"]
		}
	}
	return Request{
		Act:   fmt.Sprintf("read service %q%s", v.name, v.scope),
		Needs: needs,
		Path:  instancesPath + v.name, Scope: v.scope, Query: query,
	}
}

func (v instancesView) Decode(d *json.Decoder) (Contents, error) {
	var got instances
	err := DecodeEach(d, func(i *instance) { got = append(got, i) })
	slices.SortFunc(got, compareInstances)
	return got, err
}

func (v instancesView) Empty(reader Reader) (string, []Right) {
	if v.scope.Peer != "" {
		return fmt.Sprintf("service %q%s", v.name, v.scope), []Right{{Scope: v.scope, Of: OfPeer, Name: v.name}}
	}
	rights := []Right{{Scope: v.scope, Of: OfService, Name: v.name}}
	if reader.Tokenless {
		rights = append(rights, Right{Scope: v.scope, Of: OfNode, Any: true})
	}
	return fmt.Sprintf("service %q%s", v.name, v.scope), rights
}

// instances are sorted as modules see them.
type instances []*instance

func (all instances) Elements(v View) []Element {
	of := v.(instancesView)
	elements := make([]Element, len(all))
	h := sha256.New()
	for n, i := range all {
		s := i.service(nil)
		source := Source{Scope: of.scope, Of: OfService, Name: of.name, Node: s.Node}
		if of.scope.Peer != "" {
			source.ID = s.ID
		}
		elements[n] = Element{source, s.Key(), s.sum(h), s.detail()}
	}
	return elements
}

func merged(read []Contents) instances {
	var all instances
	for _, got := range read {
		of, _ := got.(instances) // not of a peering
		all = append(all, of...)
	}
	return all
}

func compareInstances(a, b *instance) int {
	return cmp.Or(strings.Compare(a.Node.Node, b.Node.Node), strings.Compare(a.Service.ID, b.Service.ID))
}
