package condition

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
)

// WhatIf is what is supposed of Consul's data, to show what tasks would do then. It is
// a value: Suppose changes what a view showed, and nothing else changes.
type WhatIf struct {
	Without []Gone `json:"without,omitempty"`
	// With are entries that are there besides, or instead of those of the same identity, in
	// the format in which Consul's HTTP API shows them.
	With []json.RawMessage `json:"with,omitempty"`
}

// Gone selects what is supposed to be gone: everything that matches each field that is
// set. A star in a value stands for any characters.
type Gone struct {
	Node       string `json:"node,omitempty"`
	Service    string `json:"service,omitempty"`
	Instance   string `json:"instance,omitempty"` // the id of a service instance
	Datacenter string `json:"datacenter,omitempty"`
	Peer       string `json:"peer,omitempty"` // of the cluster, that exports it
}

// fields are the fields by their names in flags.
func (g *Gone) fields() []struct {
	name  string
	value *string
} {
	return []struct {
		name  string
		value *string
	}{{"node", &g.Node}, {"service", &g.Service}, {"instance", &g.Instance}, {"datacenter", &g.Datacenter}, {"peer", &g.Peer}}
}

// goneNames are the names of the fields of Gone, for errors.
const goneNames = "node, service, instance, datacenter and peer"

// ParseGone reads what is gone from the value of a flag, such as node=n7 or
// service=web,datacenter=dc2.
func ParseGone(text string) (Gone, error) {
	var g Gone
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		fields := g.fields()
		i := slices.IndexFunc(fields, func(f struct {
			name  string
			value *string
		}) bool {
			return f.name == name
		})
		switch {
		case i < 0:
			return g, fmt.Errorf("%q is none of %s: write it as in node=n7 or service=web,datacenter=dc2", name, goneNames)
		case value == "":
			return g, fmt.Errorf("%s has no value: write it as in %[1]s=NAME", name)
		case *fields[i].value != "":
			return g, fmt.Errorf("%s is there twice: what matches all of it is gone; repeat the flag for a second %[1]s", name)
		}
		*fields[i].value = value
	}
	return g, nil
}

// String is what is gone, in words.
func (g Gone) String() string {
	text := ""
	for i, value := range [...]string{g.Node, g.Service, g.Instance, g.Datacenter, g.Peer} {
		if value != "" {
			text += ", " + [...]string{"node ", "service ", "instance ", "datacenter ", "peer "}[i] + value
		}
	}
	return strings.TrimPrefix(text, ", ")
}

// ofInstances reports whether single instances match, and not only whole services or
// whole datacenters.
func (g Gone) ofInstances() bool { return g.Node != "" || g.Instance != "" }

// everything reports whether everything of a datacenter is gone, also what is no instance.
func (g Gone) everything() bool { return g.Node == "" && g.Service == "" && g.Instance == "" }

// fits reports whether a value matches a pattern; an empty pattern fits everything.
func fits(pattern, value string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == value
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	value = value[len(first) : len(value)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return true
}

// String is what is supposed, in words.
func (w WhatIf) String() string {
	words := list.Map(w.Without, func(g Gone) string { return "without " + g.String() })
	switch n := len(w.With); n {
	case 0:
	case 1:
		words = append(words, "with 1 entry")
	default:
		words = append(words, fmt.Sprintf("with %d entries", n))
	}
	return strings.Join(words, "; ")
}

// None reports whether nothing is supposed.
func (w WhatIf) None() bool { return len(w.Without) == 0 && len(w.With) == 0 }

// ParseWhatIf reads a WhatIf in its JSON form, and checks it.
func ParseWhatIf(text []byte) (WhatIf, error) {
	var w WhatIf
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return w, fmt.Errorf("read what is supposed: %w", err)
	}
	return w, w.Check()
}

// Check returns what is wrong with the value.
func (w WhatIf) Check() error {
	if w.None() {
		return errors.New("nothing is supposed: say what is gone, or what is there besides")
	}
	for i, g := range w.Without {
		if g == (Gone{}) {
			return fmt.Errorf("without: element %d says nothing: it has one or more of %s", i+1, goneNames)
		}
	}
	_, err := w.entries()
	return err
}

// withEntries are the entries of WhatIf.With.
type withEntries struct {
	instances []*withInstance
	keys      []withKey
	documents []withDocument
}

type withInstance struct {
	*instance
	at  int // in WhatIf.With
	raw json.RawMessage
}

type withKey struct {
	Key        string
	Value      []byte
	Datacenter string
	at         int
}

type withDocument struct {
	Kind, Name, Datacenter string
	fields                 json.RawMessage
	at                     int
}

// entries decodes the entries. The error names the element and the key.
func (w WhatIf) entries() (all withEntries, err error) {
	for i, raw := range w.With {
		if err := all.add(i, raw); err != nil {
			return all, fmt.Errorf("with: element %d: %w", i+1, err)
		}
	}
	return all, nil
}

func (all *withEntries) add(at int, raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return errors.New("it is no object")
	}
	_, service := fields["Service"]
	_, key := fields["Key"]
	_, kind := fields["Kind"]
	switch {
	case service:
		var i instance
		if err := json.Unmarshal(raw, &i); err != nil {
			return inElement(err)
		}
		for _, required := range []struct{ key, value string }{
			{"Node.Node", i.Node.Node}, {"Service.Service", i.Service.Service}, {"Service.Address, or Node.Address,", i.Service.Address + i.Node.Address},
		} {
			if required.value == "" {
				return fmt.Errorf("%s is missing", required.key)
			}
		}
		i.Service.ID = cmp.Or(i.Service.ID, i.Service.Service) // as Consul does
		all.instances = append(all.instances, &withInstance{&i, at, raw})
	case key:
		k := withKey{at: at}
		if err := json.Unmarshal(raw, &k); err != nil {
			return inElement(err)
		}
		if k.Key == "" {
			return errors.New("Key is empty")
		}
		all.keys = append(all.keys, k)
	case kind:
		d := withDocument{at: at, fields: raw}
		if err := json.Unmarshal(raw, &d); err != nil {
			return inElement(err)
		}
		if d.Kind == "" {
			return errors.New("Kind is empty")
		}
		all.documents = append(all.documents, d)
	case fields["ServiceName"] != nil:
		return errors.New("this is the format of /v1/catalog/service: use that of /v1/health/service, which has the checks")
	default:
		return errors.New("it is no instance as /v1/health/service shows it (Node, Service, Checks), no key as /v1/kv shows it (Key, Value), and no config entry as /v1/config shows it (Kind, Name)")
	}
	return nil
}

// inElement says in the words of JSON which key of an element is wrong.
func inElement(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s must be %s, and is %s", cmp.Or(wrong.Field, "it"), typeInWords(wrong.Type.Kind().String()), wrong.Value)
	}
	return fmt.Errorf("%w: Value is encoded in base64, as Consul shows it", err)
}

func typeInWords(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "slice":
		return "a list"
	case "struct", "map":
		return "an object"
	}
	return "a text"
}
