package condition

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// ConsulKVKind is condition "consul-kv", and the module input of that name.
var ConsulKVKind = &Kind{
	Name:      "consul-kv",
	Doc:       "a key, or all keys with a prefix",
	Keys:      func() Keys { return &consulKVCondition{} },
	InputDoc:  "keys and values, in 'consul_kv'",
	Entries:   "keys",
	InputKeys: func() Keys { return &consulKV{} },
	Variable: &Variable{
		Name: "consul_kv",
		Declaration: func(string) string {
			return `
# Consul KV definition protocol v0
variable "consul_kv" {
  description = "Consul KV pair"
  type        = map(string)
}
`
		},
	},
}

type consulKV struct {
	block.Origin
	Path       block.String `key:"path" required:"true" doc:"the key; with 'recurse' the prefix of the keys ('cfg' also selects 'cfg2'). A leading '/' is ignored"`
	Recurse    block.Bool   `key:"recurse" default:"false" doc:"select all keys that begin with 'path'"`
	Datacenter block.String `key:"datacenter" unset:"the agent's" doc:"datacenter to read from"`
	Namespace  block.String `key:"namespace" unset:"the agent's" doc:"Consul Enterprise"`
}

type consulKVCondition struct {
	consulKV
	sourceIncludesVar
}

func (k *consulKV) Spec(r *block.Report, parent string) Spec {
	path := strings.TrimPrefix(k.Path.V, "/")
	// "/" with recurse selects every key.
	if path == "" && (k.Path.V == "" || !k.Recurse.V) {
		r.Missing(k.Key("path"), "path is required for consul-kv "+parent, `the key, such as "config/web"`)
	}
	return ConsulKV{Path: path, Recurse: k.Recurse.V, Datacenter: k.Datacenter.V, Namespace: k.Namespace.V}
}

// ConsulKV selects one key, or all keys with a prefix.
type ConsulKV struct {
	Path       string `json:"path,omitempty"` // without leading slash
	Recurse    bool   `json:"recurse,omitempty"`
	Datacenter string `json:"datacenter,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// Kind is ConsulKVKind.
func (ConsulKV) Kind() *Kind { return ConsulKVKind }

// KeySelector is a condition on keys of Consul's KV.
type KeySelector interface {
	// Selects reports whether a key of a datacenter and a namespace triggers the task; "" are those of the agent.
	Selects(key, datacenter, namespace string) bool
}

// Selects implements KeySelector.
func (c ConsulKV) Selects(key, datacenter, namespace string) bool {
	return (c.Path == key || c.Recurse && strings.HasPrefix(key, c.Path)) && c.Datacenter == datacenter && c.Namespace == namespace
}

// String says which keys are selected.
func (c ConsulKV) String() string {
	text := "key " + c.Path
	switch path := strings.TrimPrefix(c.Path, "/"); {
	case c.Recurse && path == "":
		text = "every key"
	case c.Recurse:
		text = "keys that begin with " + path
	}
	return text + Scope{Datacenter: c.Datacenter, Namespace: c.Namespace}.String()
}

// Feeds is the block itself.
func (c ConsulKV) Feeds() []Feed {
	f := Feed{Kind: ConsulKVKind, Text: c.String(), Of: OfKey, Scope: Scope{Datacenter: c.Datacenter, Namespace: c.Namespace}}
	if path := strings.TrimPrefix(c.Path, "/"); c.Recurse {
		f.matches = func(name string) bool { return strings.HasPrefix(name, path) }
	} else {
		f.Name = path
	}
	return []Feed{f}
}

// Selections is the block itself.
func (c ConsulKV) Selections() []Selection {
	c.Path = strings.TrimPrefix(c.Path, "/")
	return []Selection{kvSelection(c)}
}

// kvSelection is selection and view in one.
type kvSelection ConsulKV

func (c kvSelection) ID() string {
	return Encode(ConsulKVKind.Name, c.Datacenter, c.Namespace, c.Path, strconv.FormatBool(c.Recurse))
}

func (c kvSelection) Scope() Scope                       { return Scope{Datacenter: c.Datacenter, Namespace: c.Namespace} }
func (c kvSelection) Family() *Family                    { return kvStore }
func (c kvSelection) Views() []View                      { return []View{c} }
func (c kvSelection) Adapt(elements []Element) []Element { return elements }

// ViewOf is nil for a single key: if it may not be read, that is an error.
func (c kvSelection) ViewOf(source Source) View {
	if source.Scope != c.Scope() || source.Of != OfKey || !c.Recurse || !strings.HasPrefix(source.Name, c.Path) {
		return nil
	}
	return c
}

func (c kvSelection) Missing(source Source, _ Reader) []Right {
	return []Right{{Scope: source.Scope, Of: OfKey, Name: source.Name}}
}

func (c kvSelection) Render(into Entries, read []Contents) (Entries, error) {
	pairs, _ := into.(Pairs)
	for _, got := range read {
		for _, p := range got.(keyContents) {
			value := string(p.Value)
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return nil, fmt.Errorf("render key %q%s: its value is not UTF-8 text, and Terraform knows no other strings; "+
					"store it encoded (base64), or leave the key out", p.Key, c.Scope())
			}
			pairs = append(pairs, KVPair{Key: p.Key, Value: value})
		}
	}
	return pairs, nil
}

func (c kvSelection) Request() Request {
	r := Request{Path: "/v1/kv/" + c.Path, Scope: c.Scope(), Missing: true}
	if c.Recurse {
		r.Act = fmt.Sprintf("read keys with prefix %q%s", c.Path, r.Scope)
		r.Needs = fmt.Sprintf("key:read and, where the server asks for it, key:list on prefix %q", c.Path)
		r.Query = url.Values{"recurse": {""}}
	} else {
		r.Act = fmt.Sprintf("read key %q%s", c.Path, r.Scope)
		r.Needs = fmt.Sprintf("key:read on %q", c.Path)
	}
	return r
}

// Gate reads the keys alone, which have the same index as with their values.
func (c kvSelection) Gate() Request {
	r := c.Request()
	if c.Recurse {
		r.Query = url.Values{"keys": {""}, "separator": {"/"}}
	}
	return r
}

func (c kvSelection) Decode(d *json.Decoder) (Contents, error) {
	var got keyContents
	err := DecodeEach(d, func(p *keyPair) { got = append(got, *p) })
	return got, err
}

func (c kvSelection) Empty(reader Reader) (string, []Right) {
	if !c.Recurse || !reader.Tokenless {
		return "", nil
	}
	return fmt.Sprintf("every key with prefix %q%s", c.Path, c.Scope()), []Right{{Scope: c.Scope(), Of: OfKey, Name: c.Path, Any: true}}
}

// keyPair is what matters of an element of /v1/kv.
type keyPair struct {
	Key   string
	Value []byte
}

type keyContents []keyPair

func (c keyContents) Elements(v View) []Element {
	return list.Map(c, func(p keyPair) Element {
		return Element{Source{Scope: v.(kvSelection).Scope(), Of: OfKey, Name: p.Key}, p.Key, sha256.Sum256(p.Value), ConsulKVKind.Entries}
	})
}

// kvStore is Consul's KV store. A few keys are held open one by one, more of them by their
// folders, so that other keys start no tick: those of Terraform's state, and those of a
// store in Consul, which every renewal of the lease writes.
var kvStore = &Family{Name: "consul-kv", Poll: kvGates, Block: kvFolders, Few: 3, Loose: true}

// folders is how many folders are held open, unless the keys have more that differ in their
// first letter.
const folders = 4

// kvFolders returns a gate for each folder of the views.
func kvFolders(s Scope, views []View) []Gate {
	behind := map[string][]View{}
	byPath := slices.SortedFunc(slices.Values(views), func(a, b View) int {
		return strings.Compare(a.(kvSelection).Path, b.(kvSelection).Path)
	})
	paths := list.Map(byPath, func(v View) string { return v.(kvSelection).Path })
	var order []string
	for i, prefix := range commonPrefixes(paths, folders) {
		if behind[prefix] == nil {
			order = append(order, prefix)
		}
		behind[prefix] = append(behind[prefix], byPath[i])
	}
	var gates []Gate
	for _, prefix := range order {
		if prefix == "" {
			return kvGates(s, views)
		}
		gates = append(gates, Gate{
			Key: Encode("keys", prefix) + s.String(), Instead: behind[prefix], Only: true,
			Request: Request{Act: fmt.Sprintf("watch keys with prefix %q%s", prefix, s), Needs: fmt.Sprintf("key:list on prefix %q", prefix),
				Path: "/v1/kv/" + prefix, Scope: s, Query: url.Values{"keys": {""}, "separator": {"/"}}, Missing: true},
		})
	}
	return gates
}

// commonPrefixes returns a prefix for each of the sorted paths: about so many different
// ones, as long as possible, and none that is empty unless a path is.
func commonPrefixes(paths []string, most int) []string {
	common := make([]int, len(paths)) // bytes that a path shares with the previous one
	for i := 1; i < len(paths); i++ {
		a, b := paths[i-1], paths[i]
		for common[i] < min(len(a), len(b)) && a[common[i]] == b[common[i]] {
			common[i]++
		}
	}
	// Paths that share fewer bytes than this are in different folders.
	shared := 1
	if len(paths) > most {
		sorted := slices.Sorted(slices.Values(common[1:]))
		shared = max(1, sorted[most-1])
	} else if len(paths) > 1 {
		shared = slices.Max(common) + 1
	}
	prefixes := make([]string, len(paths))
	for first := 0; first < len(paths); {
		last := first
		for last+1 < len(paths) && (common[last+1] >= shared || common[last+1] >= len(paths[first])) {
			last++
		}
		prefix := paths[first]
		for _, path := range paths[first : last+1] {
			for !strings.HasPrefix(path, prefix) {
				prefix = prefix[:len(prefix)-1]
			}
		}
		for i := first; i <= last; i++ {
			prefixes[i] = prefix
		}
		first = last + 1
	}
	return prefixes
}

func kvGates(s Scope, views []View) []Gate {
	return []Gate{{
		Key: "keys" + s.String(), Instead: views,
		Request: Request{Act: "watch the KV store" + s.String(), Needs: "key:list on all keys",
			Path: "/v1/kv/", Scope: s, Query: url.Values{"keys": {""}, "separator": {"/"}}, Missing: true},
	}}
}

// Pairs are the entries of a map of texts, such as consul_kv.
type Pairs []KVPair

// KVPair is a key of Consul's KV store by its full path, and its value; or the name of
// a document, and its text.
type KVPair struct {
	Key, Value string
}

// Len is the number of texts.
func (p Pairs) Len() int { return len(p) }

// Write writes the texts by key.
func (p Pairs) Write(w *tfvars.Writer, _ map[string]bool) {
	for _, pair := range p {
		w.Entry(pair.Key)
		w.Quoted(pair.Value)
		w.WriteByte('\n')
	}
}
