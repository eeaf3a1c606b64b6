package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"
)

// echo is a module that writes all that it is given, as JSON.
const echo = `
terraform {
  required_providers {
    local = {
      source = "hashicorp/local"
    }
  }
}
variable "services" {}
variable "catalog_services" {
  default = {}
}
variable "consul_kv" {
  default = {}
}
variable "file" {}
resource "local_file" "out" {
  filename = var.file
  content  = jsonencode({ services = var.services, catalog = var.catalog_services, kv = var.consul_kv })
}
`

// echoed is what that module wrote.
type echoed struct {
	Services map[string]echoedService
	Catalog  map[string][]string
	KV       map[string]string
}

type echoedService struct {
	Name, ID, Address, Status, Node string
	Port                            int
	Tags                            []string
	Meta, Node_meta                 map[string]string
	CTS_user_defined_meta           map[string]string
}

// echoTask is a task whose module writes all that it is given to <name>.json.
func (s *site) echoTask(name, body string) string {
	s.write("echo/main.tf", echo)
	return taskOf(name, s.path("echo"), fmt.Sprintf("variables {\n    file = \"\\\"%s\\\"\"\n  }\n  %s", s.path(name+".json"), body))
}

func (s *site) echoed(name string) echoed {
	s.t.Helper()
	var e echoed
	if text := s.read(name + ".json"); text != "" {
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			s.t.Fatalf("%s: %v", name, err)
		}
	}
	return e
}

func TestWhateverConsulHoldsArrivesIntactInTheModule(t *testing.T) {
	s := newParallelSite(t)
	odd := []string{"two\nlines", "${var.x}", "%{if true}", `"quoted"`, `back\slash\n`, "$${", "tab\there", "ü ☂ \U0001F600", "</script>", "EOT", "#", "//", "", " "}
	meta := map[string]string{"quotes": `"`, "line": "a\nb", "template": "${x}%{y}", "back": `\`}
	names := []string{`quo"te`, "${name}", "per%20cent", "a/b", "ü", `back\slash`, "a=b"}
	catalog := s.consul.Client().Catalog()
	for i, name := range names {
		_, err := catalog.Register(&api.CatalogRegistration{
			Node: "odd", Address: "10.1.1.1", NodeMeta: meta,
			Service: &api.AgentService{ID: fmt.Sprintf("%s-%d", name, i), Service: name, Port: 1000 + i, Tags: odd, Meta: meta},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	values := map[string]string{}
	for i, value := range append(odd, strings.Repeat("x\n\"${", 100)+strings.Repeat("y\n\"", 100_000), `{"json": ["${a}", "\"b\""]}`) {
		if value != "" {
			values[fmt.Sprintf("odd/%d", i)] = value
		}
	}
	values[`odd/"${key}"`] = "a key"
	for key, value := range values {
		s.put(key, []byte(value))
	}
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", name)) // CTS's HCL knows no templates: ${ is just text
	}

	file := s.config(s.echoTask("by_name", "condition \"services\" {\n names = ["+strings.Join(list, ", ")+"]\n}\nmodule_input \"consul-kv\" {\n path = \"odd/\"\n recurse = true\n}") +
		s.echoTask("by_regexp", "condition \"services\" {\n regexp = \"^(quo\\\"te|[$][{]name[}]|per%20cent|a[/=]b|ü|line\\\\sbreak|back\\\\\\\\slash)$\"\n}") +
		s.echoTask("catalog", "condition \"catalog-services\" {\n regexp = \"[^a-z]\"\n}"))
	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)

	if diff := cmp.Diff(values, s.echoed("by_name").KV); diff != "" {
		t.Errorf("keys and values: %.2000s", diff)
	}
	for _, task := range []string{"by_name", "by_regexp"} {
		got := map[string]bool{}
		for key, service := range s.echoed(task).Services {
			got[service.Name] = true
			if key != service.ID+".odd.dc1" {
				t.Errorf("%s: service %q is under key %q", task, service.ID, key)
			}
			if diff := cmp.Diff(sorted(odd), sorted(service.Tags)); diff != "" {
				t.Errorf("%s: tags of %q: %s", task, service.Name, diff)
			}
			for what, m := range map[string]map[string]string{"meta": service.Meta, "node meta": service.Node_meta} {
				if diff := cmp.Diff(meta, m); diff != "" {
					t.Errorf("%s: %s of %q: %s", task, what, service.Name, diff)
				}
			}
		}
		for _, name := range names {
			if !got[name] {
				t.Errorf("%s: service %q did not arrive", task, name)
			}
		}
	}
	for _, name := range names {
		if diff := cmp.Diff(sorted(odd), sorted(s.echoed("catalog").Catalog[name])); diff != "" && strings.ContainsAny(name, `"$%/=\ü`+"\n") {
			t.Errorf("catalog: tags of %q: %s", name, diff)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^(by_name|by_regexp|catalog) +succeeded `).FindAllString(s.run("-once", "-config-file", file).stdout, -1)); n != 3 {
		t.Errorf("%d of 3 tasks succeeded the second time", n)
	}
	for _, task := range []string{"by_name", "by_regexp", "catalog"} {
		r := s.run("inspect", "-detailed-exitcode", "-config-file", file, task)
		wantCode(t, r, exitOK) // it is applied, and is read back as the same
	}
}

func TestAServiceWith5000InstancesIsApplied(t *testing.T) {
	if testing.Short() {
		t.Skip("Terraform takes its time for so many")
	}
	s := newParallelSite(t)
	const instances, portion = 5000, 60
	txn := s.consul.Client().Txn()
	for first := 0; first < instances; first += portion {
		var ops api.TxnOps
		node := fmt.Sprintf("node-%d", first/portion)
		ops = append(ops, &api.TxnOp{Node: &api.NodeTxnOp{Verb: api.NodeSet, Node: api.Node{Node: node, Address: "10.2.0.1"}}})
		for i := first; i < min(first+portion, instances); i++ {
			ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceSet, Node: node,
				Service: api.AgentService{ID: fmt.Sprintf("big-%d", i), Service: "big", Port: 1 + i, Tags: []string{"a", "b"}}}})
		}
		if ok, answer, _, err := txn.Txn(ops, nil); err != nil || !ok {
			t.Fatal(ok, answer, err)
		}
	}
	file := s.config(s.echoTask("big", `condition "services" { names = ["big"] }`))
	wantCode(t, s.run("-once", "-config-file", file), exitOK)
	ports := map[int]bool{}
	for _, service := range s.echoed("big").Services {
		ports[service.Port] = true
	}
	if len(ports) != instances {
		t.Errorf("%d of %d instances arrived", len(ports), instances)
	}
	if n := len(s.run("runs", "big").stdout); n > 2000 {
		t.Errorf("the run is told in %d bytes", n)
	}
	wantText(t, s.run("logs", "big").stdout, "Apply complete!")
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
