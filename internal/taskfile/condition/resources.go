package condition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/block"
)

// ResourcesKind is condition "resources", and the module input of that name.
var ResourcesKind = &Kind{
	Name:      "resources",
	Doc:       "resources of one kind of Consul's resource API, such as exported services",
	Keys:      func() Keys { return &resourcesCondition{} },
	InputDoc:  "resources as JSON, in 'resources'",
	Entries:   "resources",
	InputKeys: func() Keys { return &resources{} },
	Variable: &Variable{
		Name: "resources",
		Declaration: func(string) string {
			return `
# Consul resources: the JSON text of each resource by its name
variable "resources" {
  description = "Consul resources as JSON, by name"
  type        = map(string)
}
`
		},
	},
}

type resources struct {
	block.Origin
	Group        block.String   `key:"group" required:"true" example:"multicluster" doc:"group of the kind"`
	Version      block.String   `key:"version" required:"true" example:"v2" doc:"version of the group"`
	ResourceKind block.String   `key:"kind" required:"true" example:"exportedservices" doc:"kind of the resources; case-insensitive"`
	NamePrefix   block.String   `key:"name_prefix" unset:"every resource of the kind" doc:"prefix of the names"`
	Namespace    block.String   `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
	Interval     block.Duration `key:"interval" default:"30s" form:"delay" doc:"how often Consul is polled, from 5s to 5m"`
}

type resourcesCondition struct {
	resources
	UseAsInput
}

// The time between two polls of resources. The least is that of everything without an index;
// after the most, every view is read in any case.
const (
	defaultInterval = 30 * time.Second
	leastInterval   = 5 * time.Second
	mostInterval    = 5 * time.Minute
)

// partForm matches a group, a version and a kind.
var partForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

func (k *resources) Spec(r *block.Report, parent string) Spec {
	where := parent + ` "resources"`
	for _, part := range []struct {
		name, example string
		block.String
	}{{"group", "multicluster", k.Group}, {"version", "v2", k.Version}, {"kind", "exportedservices", k.ResourceKind}} {
		switch {
		case part.V == "":
			r.Missing(k.Key(part.name), part.name+" is required for resources "+parent, fmt.Sprintf("such as %q", part.example))
		case !partForm.MatchString(part.V):
			r.Fail(part.Origin, fmt.Sprintf("%s: %s is not a valid %s", where, block.Quoted(part.V), part.name), fmt.Sprintf("such as %q", part.example))
		}
	}
	if k.Namespace.V == "*" {
		r.Fail(k.Namespace.Origin, where+": resources are read from one namespace", "make a task for each namespace")
	}
	spec := Resources{Group: strings.ToLower(k.Group.V), Version: strings.ToLower(k.Version.V), Of: strings.ToLower(k.ResourceKind.V), NamePrefix: k.NamePrefix.V, Namespace: k.Namespace.V}
	if k.Interval.Set {
		if k.Interval.V < leastInterval || k.Interval.V > mostInterval {
			r.Fail(k.Interval.Origin, fmt.Sprintf("%s: interval must be from %s to %s", where, block.Brief(leastInterval), block.Brief(mostInterval)), "everything is read every 5 minutes in any case")
		}
		if k.Interval.V != defaultInterval {
			spec.Interval = k.Interval.V
		}
	}
	return spec
}

// Resources selects resources of one kind, all or those with a prefix.
type Resources struct {
	Group      string        `json:"group,omitempty"` // in lower case, as all names of a kind
	Version    string        `json:"version,omitempty"`
	Of         string        `json:"kind,omitempty"`
	NamePrefix string        `json:"name_prefix,omitempty"`
	Namespace  string        `json:"namespace,omitempty"`
	Interval   time.Duration `json:"interval,omitempty"` // 0 for the default
}

// Kind is ResourcesKind.
func (Resources) Kind() *Kind { return ResourcesKind }

// Definition has the interval as people write it.
func (s Resources) Definition() map[string]any {
	type fields Resources
	shown := Definition(fields(s))
	shown["interval"] = block.Brief(s.every())
	return shown
}

func (s Resources) every() time.Duration { return cmp.Or(s.Interval, defaultInterval) }

// Selections is the block itself.
func (s Resources) Selections() []Selection {
	view := resourcesView{scope: Scope{Namespace: s.Namespace}, kind: s.Group + "/" + s.Version + "/" + s.Of, every: s.every()}
	return []Selection{resourceSelection{view: view, prefix: s.NamePrefix}}
}

// resourceSelection picks resources of a view that all selections of the kind share.
type resourceSelection struct {
	view   resourcesView
	prefix string
}

func (s resourceSelection) ID() string {
	return Encode(ResourcesKind.Name, s.view.scope.Namespace, s.view.kind, s.prefix, s.view.every.String())
}

func (s resourceSelection) Scope() Scope             { return s.view.scope }
func (s resourceSelection) Family() *Family          { return resourceAPI }
func (s resourceSelection) Views() []View            { return []View{s.view} }
func (s resourceSelection) Picks(source Source) bool { return strings.HasPrefix(source.Name, s.prefix) }

func (s resourceSelection) Adapt(elements []Element) []Element {
	return slices.DeleteFunc(slices.Clone(elements), func(e Element) bool { return !s.Picks(e.Source) })
}

func (s resourceSelection) ViewOf(source Source) View {
	if source.Scope != s.view.scope || source.Of != s.view.kind || !s.Picks(source) {
		return nil
	}
	return s.view
}

func (s resourceSelection) Missing(source Source, _ Reader) []Right {
	return []Right{s.view.right(source.Name, false)}
}

func (s resourceSelection) Render(into Entries, read []Contents) (Entries, error) {
	return renderDocuments(into, read, func(name string) bool { return strings.HasPrefix(name, s.prefix) })
}

// resourceAPI has no index.
var resourceAPI = &Family{Name: "resources", NoIndex: true}

// resourcesView has the resources of a kind.
type resourcesView struct {
	scope Scope
	kind  string // group/version/kind
	every time.Duration
}

// Every implements Paced.
func (v resourcesView) Every() time.Duration { return v.every }

func (v resourcesView) Gate() Request { return v.Request() }

// Request is a consistent read: a server without a leader shows nothing otherwise.
func (v resourcesView) Request() Request {
	return Request{
		Act: fmt.Sprintf("read the %s resources%s", v.kind, v.scope), Needs: v.right("", true).Needs,
		Path: "/api/" + v.kind, Scope: v.scope, Query: url.Values{"consistent": {""}},
	}
}

// right is the right to read a resource, or all. Whether a resource of exported services
// may be read depends on the services in it: Consul only denies the read of one that
// exists, which proves nothing about all of them.
func (v resourcesView) right(name string, any bool) Right {
	if any && v.kind == "multicluster/v2/exportedservices" {
		return Right{Scope: v.scope, Of: OfService, Any: true, Needs: "service:read on all services"}
	}
	return Right{Scope: v.scope, Of: v.kind, Name: name, Any: any, Path: "/api/" + v.kind + "/", Needs: "the right that this answer names"}
}

func (v resourcesView) Decode(d *json.Decoder) (Contents, error) {
	var answer struct{ Resources []json.RawMessage }
	if err := d.Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Resources == nil { // Consul gives an empty list
		return nil, &json.UnmarshalTypeError{Value: "object without resources", Type: reflect.TypeOf(answer), Offset: d.InputOffset()}
	}
	var got documents
	for _, text := range answer.Resources {
		fields, err := decodeDocument(text)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"generation", "status", "version"} {
			delete(fields, name)
		}
		var name string
		for _, key := range []string{"id", "owner"} {
			id, _ := fields[key].(map[string]any)
			delete(id, "uid")
			if key == "id" {
				name, _ = id["name"].(string)
			}
		}
		got = append(got, newDocument(name, fields))
	}
	got.sort()
	return got, nil
}

// Empty always takes a proof: the API does not report that it hides something.
func (v resourcesView) Empty(Reader) (string, []Right) {
	return fmt.Sprintf("every resource %s that the task selects%s", v.kind, v.scope), []Right{v.right("", true)}
}

func (v resourcesView) source(name string) Source {
	return Source{Scope: v.scope, Of: v.kind, Name: name}
}

// Feeds is the block itself.
func (s Resources) Feeds() []Feed {
	return []Feed{{Kind: ResourcesKind, Text: s.String(), Scope: Scope{Namespace: s.Namespace}}}
}

// String says which resources are selected.
func (s Resources) String() string {
	text := "resources " + s.Group + "/" + s.Version + "/" + s.Of
	if s.NamePrefix != "" {
		text += " that begin with " + s.NamePrefix
	}
	return text + Scope{Namespace: s.Namespace}.String()
}
