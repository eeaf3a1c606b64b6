package rootmodule

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/tfvars"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/taskfile/condition"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// A kind of condition that only this file knows: the addresses of nodes.
var nodesKind = &condition.Kind{
	Name: "catalog-nodes", Doc: "nodes", Keys: func() condition.Keys { return &nodesKeys{} },
	Variable: &condition.Variable{Name: "catalog_nodes", Declaration: func(string) string {
		return "\nvariable \"catalog_nodes\" {\n  type = map(string)\n}\n"
	}},
}

func init() { condition.Kinds = append(condition.Kinds, nodesKind) }

type nodesKeys struct {
	block.Origin
	Prefix block.String `key:"prefix" required:"true" doc:"prefix of the names"`
	condition.UseAsInput
}

func (k *nodesKeys) Spec(r *block.Report, parent string) condition.Spec {
	if k.Prefix.V == "" {
		r.Missing(k.Key("prefix"), "prefix is required for catalog-nodes "+parent, "")
	}
	return nodes{k.Prefix.V}
}

// nodes is spec, selection and view in one.
type nodes struct {
	Prefix string `json:"prefix,omitempty"`
}

func (n nodes) Kind() *condition.Kind                              { return nodesKind }
func (n nodes) String() string                                     { return "nodes whose names begin with " + n.Prefix }
func (n nodes) Feeds() []condition.Feed                            { return nil }
func (n nodes) Selections() []condition.Selection                  { return []condition.Selection{n} }
func (n nodes) ID() string                                         { return condition.Encode(nodesKind.Name, n.Prefix) }
func (n nodes) Scope() condition.Scope                             { return condition.Scope{} }
func (n nodes) Family() *condition.Family                          { return nodesFamily }
func (n nodes) Views() []condition.View                            { return []condition.View{n} }
func (n nodes) Gate() condition.Request                            { return n.Request() }
func (n nodes) ViewOf(condition.Source) condition.View             { return n }
func (n nodes) Empty(condition.Reader) (string, []condition.Right) { return "", nil }

var nodesFamily = &condition.Family{Name: "nodes"} // each view is its own gate

func (n nodes) Adapt(elements []condition.Element) []condition.Element { return elements }

func (n nodes) Missing(s condition.Source, _ condition.Reader) []condition.Right {
	return []condition.Right{{Scope: s.Scope, Of: condition.OfNode, Name: s.Name}}
}

func (n nodes) Request() condition.Request {
	return condition.Request{Act: "read the nodes", Needs: "node:read", Path: "/v1/catalog/nodes",
		Query: map[string][]string{"filter": {`Node matches "^` + n.Prefix + `"`}}}
}

func (n nodes) Decode(d *json.Decoder) (condition.Contents, error) {
	var got nodeEntries
	err := d.Decode(&got)
	return got, err
}

func (n nodes) Suppose(_ *condition.Supposition, c condition.Contents) condition.Contents { return c }

func (n nodes) Render(_ condition.Entries, read []condition.Contents) (condition.Entries, error) {
	return read[0].(nodeEntries), nil
}

type nodeEntries []struct{ Node, Address string }

func (e nodeEntries) Len() int { return len(e) }

func (e nodeEntries) Elements(condition.View) []condition.Element {
	var elements []condition.Element
	for _, n := range e {
		elements = append(elements, condition.Element{Source: condition.Source{Of: condition.OfNode, Name: n.Node}, Name: n.Node,
			Sum: sha256.Sum256([]byte(n.Address))})
	}
	return elements
}

func (e nodeEntries) Write(w *tfvars.Writer, _ map[string]bool) {
	for _, n := range e {
		w.Entry(n.Node)
		w.Quoted(n.Address)
		w.WriteByte('\n')
	}
}

// A new kind of condition is one file: this test goes from a task file to the
// files of Terraform with a kind that no other file knows.
func TestKind_OfOneFileIsLoadedObservedAndRendered(t *testing.T) {
	server := consultest.Start(t)
	register := func(node, address string) {
		if _, err := server.Client().Catalog().Register(&api.CatalogRegistration{Node: node, Address: address}, nil); err != nil {
			t.Fatal(err)
		}
	}
	register("edge-1", "10.0.0.1")
	register("core-1", "10.0.0.2")

	dir := t.TempDir()
	for name, text := range map[string]string{
		"f.hcl":  "task {\n name = \"t\"\n module = \"./m\"\n condition \"catalog-nodes\" { prefix = \"edge\" }\n}",
		"f.yaml": "task:\n- name: t\n  module: ./m\n  condition: {catalog-nodes: {prefix: edge}}\n",
		"f.json": `{"task": [{"name": "t", "module": "./m", "condition": {"catalog-nodes": {"prefix": "edge"}}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Options{Dir: dir, Paths: []config.Path{{Name: name}}})
		if err != nil {
			t.Fatal(err)
		}
		task := &cfg.Tasks[0]
		if task.Condition.Spec != (nodes{"edge"}) || !task.Condition.UseAsModuleInput {
			t.Fatalf("%s: the condition is %+v", name, task.Condition)
		}
		cfg.Consul.Address = server.Addr()
		client, err := consul.New(cfg.Consul)
		if err != nil {
			t.Fatal(err)
		}
		query, _ := consul.ConditionQuery(task)
		gates := consul.PollGates([]consul.Query{query})
		before, err := client.Poll(t.Context(), gates)
		if err != nil || gates.Len() != 1 {
			t.Fatalf("%d gates: %v", gates.Len(), err)
		}
		observed := client.Observe(t.Context(), []consul.Query{query})[0]
		snap, err := client.Snapshot(t.Context(), task)
		if err != nil || observed.Err != nil || snap.Condition.Digest != observed.Digest || len(observed.Elements) != 1 {
			t.Fatalf("observed %+v, snapshot %+v: %v", observed, snap, err)
		}
		out := t.TempDir()
		if _, err := (Module{Config: cfg, Task: task, Blocks: snap.Blocks}).Write(out); err != nil {
			t.Fatal(err)
		}
		files := contents(t, out)
		if want := "\ncatalog_nodes = {\n  \"edge-1\" = \"10.0.0.1\"\n}\n"; !strings.Contains(files[ValuesFile], want) {
			t.Errorf("%s:\n%s\nwant %s", ValuesFile, files[ValuesFile], want)
		}
		if !strings.Contains(files[MainFile], "catalog_nodes = var.catalog_nodes") || !strings.Contains(files[VariablesFile], `variable "catalog_nodes"`) {
			t.Errorf("%s\n%s", files[MainFile], files[VariablesFile])
		}

		register("edge-1", "10.0.0.9")
		after, err := client.Poll(t.Context(), gates)
		if err != nil || !gates.Moved(before, after)(query) {
			t.Errorf("the gate did not move: %v", err)
		}
		register("edge-1", "10.0.0.1")
	}
	if _, err := (&config.Config{}).Parse([]byte(`{"name": "u", "module": "./m", "condition": {"catalog_nodes": {}}}`)); err == nil ||
		!strings.Contains(err.Error(), "prefix is required for catalog-nodes condition") {
		t.Errorf("the API accepts a condition without a prefix: %v", err)
	}
}
