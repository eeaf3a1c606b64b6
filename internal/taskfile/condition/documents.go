package condition

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/base/tfvars"
)

// documents are the documents of a view, sorted by name.
type documents []document

// document is a JSON object of Consul, such as a config entry. Modules get it as
// text, because no type of Terraform fits the objects of all kinds.
// Decoded it would be several times as large.
type document struct {
	name, text string
	sums       string // of its fields, for the details of a change
}

// newDocument makes a document of fields, which lack those that Consul changes by itself. The
// keys in the text are sorted, so that another order in an answer of Consul changes nothing.
func newDocument(name string, fields map[string]any) document {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(fields)                                 // decoded from JSON
	if data, ok := fields["data"].(map[string]any); ok { // of a resource
		fields = maps.Clone(fields)
		delete(fields, "data")
		maps.Copy(fields, data)
	}
	sums := make([]string, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value, _ := json.Marshal(fields[name]) // decoded from JSON
		sums = append(sums, fmt.Sprintf("%s=%04x", name, shortSum(&tfvars.Field{Text: string(value)})))
	}
	return document{name, strings.TrimSuffix(b.String(), "\n"), strings.Join(sums, ",")}
}

func (all documents) sort() {
	slices.SortFunc(all, func(a, b document) int { return strings.Compare(a.name, b.name) })
}

// renderDocuments adds the documents with the picked names to the entries of a variable.
func renderDocuments(into Entries, read []Contents, picks func(name string) bool) (Entries, error) {
	pairs, _ := into.(Pairs)
	for _, got := range read {
		for _, d := range got.(documents) {
			if picks(d.name) {
				pairs = append(pairs, KVPair{Key: d.name, Value: d.text})
			}
		}
	}
	return pairs, nil
}

// Elements implements Contents.
func (all documents) Elements(v View) []Element {
	source := v.(interface{ source(name string) Source }).source
	return list.Map(all, func(d document) Element { return d.element(source(d.name)) })
}

// decodeDocument reads one object. Numbers keep their digits.
func decodeDocument(text json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	err := d.Decode(&fields)
	return fields, err
}

// element returns the document as a part of an observation.
func (d document) element(source Source) Element {
	detail := Detail{Group: source.Of, attributes: d.sums}
	return Element{Source: source, Name: d.name, Sum: sha256.Sum256([]byte(d.text)), Detail: detail.String()}
}

// differingFields names the fields of a document whose short digests differ.
func differingFields(now, before string) []string {
	was, is := fieldSums(before), fieldSums(now)
	var names []string
	for name, sum := range is {
		if was[name] != sum {
			names = append(names, name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func fieldSums(text string) map[string]string {
	sums := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		if name, sum, ok := strings.Cut(field, "="); ok {
			sums[name] = sum
		}
	}
	return sums
}
