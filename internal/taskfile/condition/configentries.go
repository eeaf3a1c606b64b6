package condition

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
)

// ConfigEntriesKind is condition "config-entries", and the module input of that name.
var ConfigEntriesKind = &Kind{
	Name:      "config-entries",
	Doc:       "config entries of one kind, such as intentions",
	Keys:      func() Keys { return &configEntriesCondition{} },
	InputDoc:  "config entries as JSON, in 'config_entries'",
	Entries:   "config entries",
	InputKeys: func() Keys { return &configEntries{} },
	Variable: &Variable{
		Name: "config_entries",
		Declaration: func(string) string {
			return `
# Consul config entries: the JSON text of each entry by its name
variable "config_entries" {
  description = "Consul config entries as JSON, by name"
  type        = map(string)
}
`
		},
	},
}

type configEntries struct {
	block.Origin
	EntryKind  block.String `key:"kind" required:"true" example:"service-intentions" doc:"kind of the entries: 'service-intentions', 'exported-services', 'service-defaults', 'ingress-gateway', or another kind of Consul"`
	Name       block.String `key:"name" doc:"name of the entry; 'global' for 'proxy-defaults', 'mesh' for 'mesh'"`
	Regexp     block.String `key:"regexp" empty:"true" form:"any" example:"^web" doc:"as in 'services', for the names of entries. Without 'name' and 'regexp', every entry of the kind is selected"`
	Datacenter block.String `key:"datacenter" unset:"the agent's" doc:"datacenter to read from"`
	Namespace  block.String `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
}

type configEntriesCondition struct {
	configEntries
	UseAsInput
}

// kindForm matches the name of a kind.
var kindForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// entryKinds are the kinds of config entries in Consul 1.22, with the right that reading an
// entry takes: OfService and "intentions" are rights to the service with the entry's name, "" is
// no right.
var entryKinds = map[string]string{
	"api-gateway":             OfService,
	"bound-api-gateway":       OfService,
	"exported-services":       meshRead,
	"file-system-certificate": meshRead,
	"http-route":              meshRead,
	"ingress-gateway":         OfService,
	"inline-certificate":      meshRead,
	"jwt-provider":            meshRead,
	"mesh":                    "",
	"proxy-defaults":          "",
	"sameness-group":          "",
	"service-defaults":        OfService,
	"service-intentions":      "intentions",
	"service-resolver":        OfService,
	"service-router":          OfService,
	"service-splitter":        OfService,
	"tcp-route":               meshRead,
	"terminating-gateway":     OfService,
}

const meshRead = "mesh:read"

func (k *configEntries) Spec(r *block.Report, parent string) Spec {
	where := parent + ` "config-entries"`
	switch _, known := entryKinds[k.EntryKind.V]; {
	case k.EntryKind.V == "":
		r.Missing(k.Key("kind"), "kind is required for config-entries "+parent, `such as "service-intentions"`)
	case !kindForm.MatchString(k.EntryKind.V):
		r.Fail(k.EntryKind.Origin, where+": "+block.Quoted(k.EntryKind.V)+" is not a kind of config entries", `such as "service-intentions"`)
	case !known:
		r.Warn(k.EntryKind.Origin, where+": "+block.Quoted(k.EntryKind.V)+" is not a kind of config entries that Terrapulse knows", "check the spelling, unless your Consul has this kind")
	}
	if k.Name.V != "" && k.Regexp.V != "" {
		r.Fail(k.Regexp.Origin, where+": name and regexp cannot both be configured", "remove one of them; without both, every entry of the kind is selected")
	}
	if k.Namespace.V == "*" { // entries of two namespaces may have one name
		r.Fail(k.Namespace.Origin, where+": config entries are read from one namespace", "make a task for each namespace")
	}
	checkRegexp(r, k.Regexp, where+": unable to compile regexp")
	return ConfigEntries{Of: k.EntryKind.V, Name: k.Name.V, Regexp: k.Regexp.V, Datacenter: k.Datacenter.V, Namespace: k.Namespace.V}
}

// ConfigEntries selects config entries of one kind: one by its name, those that match
// a regular expression, or all.
type ConfigEntries struct {
	Of         string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
	Regexp     string `json:"regexp,omitempty"`
	Datacenter string `json:"datacenter,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// Kind is ConfigEntriesKind.
func (ConfigEntries) Kind() *Kind { return ConfigEntriesKind }

// Feeds is the block itself.
func (c ConfigEntries) Feeds() []Feed {
	f := Feed{Kind: ConfigEntriesKind, Text: c.String(), Of: OfEntry, Scope: Scope{Datacenter: c.Datacenter, Namespace: c.Namespace}}
	if c.Name != "" {
		f.Name = c.Of + "/" + c.Name
	} else {
		f.matches = matcher(c.Regexp, c.Of+"/")
	}
	return []Feed{f}
}

// Selections is the block itself.
func (c ConfigEntries) Selections() []Selection {
	view := entriesView{scope: Scope{Datacenter: c.Datacenter, Namespace: c.Namespace}, kind: c.Of, name: c.Name}
	return []Selection{&entriesSelection{nameFilter: compile(c.Regexp), view: view}}
}

type entriesSelection struct {
	nameFilter
	view entriesView
}

func (s *entriesSelection) ID() string {
	v := s.view
	return Encode(ConfigEntriesKind.Name, v.scope.Datacenter, v.scope.Namespace, v.kind, v.name, s.Regexp.String())
}

func (s *entriesSelection) Scope() Scope        { return s.view.scope }
func (s *entriesSelection) Family() *Family     { return configTable }
func (s *entriesSelection) Views() []View       { return []View{s.view} }
func (s *entriesSelection) Picks(o Source) bool { return s.MatchString(o.Name) }

func (s *entriesSelection) Adapt(elements []Element) []Element {
	return slices.DeleteFunc(slices.Clone(elements), func(e Element) bool { return !s.MatchString(e.Name) })
}

// ViewOf is nil for a single entry: if it may not be read, that is an error.
func (s *entriesSelection) ViewOf(source Source) View {
	if s.view.name != "" || source.Scope != s.view.scope || source.Of != s.view.kind || !s.Picks(source) {
		return nil
	}
	return s.view
}

func (s *entriesSelection) Missing(source Source, _ Reader) []Right {
	return []Right{s.view.right(source.Name, false)}
}

func (s *entriesSelection) Render(into Entries, read []Contents) (Entries, error) {
	return renderDocuments(into, read, s.MatchString)
}

// entriesView has the entries of a kind, or the one with a name.
type entriesView struct {
	scope      Scope
	kind, name string
}

func (v entriesView) Gate() Request { return v.Request() }

func (v entriesView) Request() Request {
	r := Request{Path: "/v1/config/" + v.kind, Scope: v.scope}
	if v.name != "" {
		r.Act = fmt.Sprintf("read the %s entry %q%s", v.kind, v.name, v.scope)
		r.Path, r.Missing = r.Path+"/"+v.name, true
	} else {
		r.Act = fmt.Sprintf("read the %s entries%s", v.kind, v.scope)
	}
	r.Needs = v.right(v.name, v.name == "").Needs
	return r
}

// right is the right to read an entry, or every entry. Consul denies the read of an
// entry without the right, also if there is no such entry.
func (v entriesView) right(name string, any bool) Right {
	right := Right{Scope: v.scope, Of: v.kind, Name: name, Any: any, Path: "/v1/config/" + v.kind + "/", Needs: entryKinds[v.kind]}
	switch _, known := entryKinds[v.kind]; {
	case !known:
		right.Needs = "the right to read config entries of the kind " + v.kind
	case right.Needs == "":
		right.Needs = "no right"
	case right.Needs == meshRead:
	case any:
		right.Needs += ":read on all services"
	default:
		right.Needs += fmt.Sprintf(":read on %q", name)
	}
	return right
}

func (v entriesView) Decode(d *json.Decoder) (Contents, error) {
	var (
		got  documents
		bad  error
		keep = func(text *json.RawMessage) {
			fields, err := decodeDocument(*text)
			bad = cmp.Or(bad, err)
			got = append(got, v.document(fields))
		}
		err error
	)
	if v.name != "" {
		var one json.RawMessage
		if err = d.Decode(&one); err == nil {
			keep(&one)
		}
	} else {
		err = DecodeEach(d, keep)
	}
	got.sort()
	return got, cmp.Or(err, bad)
}

// document leaves out what Consul changes by itself, and the key of a certificate.
func (v entriesView) document(fields map[string]any) document {
	for _, name := range []string{"CreateIndex", "ModifyIndex", "Hash", "Status"} {
		delete(fields, name)
	}
	if v.kind == "inline-certificate" {
		delete(fields, "PrivateKey")
	}
	sources, _ := fields["Sources"].([]any)
	for _, source := range sources {
		if s, ok := source.(map[string]any); ok && v.kind == "service-intentions" {
			delete(s, "LegacyID")
			delete(s, "LegacyCreateTime")
			delete(s, "LegacyUpdateTime")
		}
	}
	name, _ := fields["Name"].(string)
	return newDocument(cmp.Or(name, v.kind), fields) // an entry of the kind mesh has no name
}

func (v entriesView) Empty(reader Reader) (string, []Right) {
	if v.name != "" || !reader.Tokenless && !reader.Filtered {
		return "", nil
	}
	return fmt.Sprintf("every %s entry that the task selects%s", v.kind, v.scope), []Right{v.right("", true)}
}

func (v entriesView) source(name string) Source {
	return Source{Scope: v.scope, Of: v.kind, Name: name}
}

// configTable has all config entries of a datacenter. A poll of any entry shows the
// index of all, even if that entry does not exist. A blocking query only ends if what it
// reads changes: each kind has its own.
var configTable = &Family{
	Name: "config-entries",
	Poll: func(s Scope, views []View) []Gate { return []Gate{entriesGate(s, "proxy-defaults/global", views)} },
	Block: func(s Scope, views []View) []Gate {
		kinds := list.Map(views, func(v View) string { return v.(entriesView).kind })
		slices.Sort(kinds)
		return list.Map(slices.Compact(kinds), func(kind string) Gate { return entriesGate(s, kind, views) })
	},
	Few: 3, CheapPoll: true,
}

func entriesGate(s Scope, path string, views []View) Gate {
	kind, _, one := strings.Cut(path, "/")
	if one {
		kind = "config"
	}
	what := kind + " entries"
	return Gate{
		Key: kind + "-entries" + s.String(), Instead: views,
		Request: Request{Act: "watch the " + what + s.String(), Needs: "no right", Path: "/v1/config/" + path, Scope: s,
			Missing: true, PartitionOnly: one}, // proxy-defaults is in no namespace
	}
}

// String says which entries are selected.
func (c ConfigEntries) String() string {
	var text string
	switch {
	case c.Name != "":
		text = c.Of + " entry " + c.Name
	case c.Regexp == "" || c.Regexp == ".*":
		text = "every " + c.Of + " entry"
	default:
		text = fmt.Sprintf("%s entries that match %q", c.Of, c.Regexp)
	}
	return text + Scope{Datacenter: c.Datacenter, Namespace: c.Namespace}.String()
}
