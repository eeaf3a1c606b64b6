package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// part is a part of Terrapulse that needs rights of its own in Consul.
type part struct {
	section string
	// config writes the task files.
	config func(*site) string
	// change changes what the part reads; nil where it reads nothing.
	change func(s *site, to string)
	// shows reports whether what was applied shows the change.
	shows func(s *site, to string) bool
}

// This test takes longest. Go begins with parallel tests of the last files, so nothing waits for it in
// the end.
func TestThePoliciesOfTheDocumentationAreEnoughAndNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program many times")
	}
	base := newParallelSite(t, consultest.WithACLs(), consultest.WithPeering())
	there := consultest.Start(t, consultest.WithPeering())
	base.register("web", "web-1", 8080, "passing")
	(&site{t: t, consul: there}).register("web", "web-1", 8080, "passing")
	there.Export("web")
	base.consul.ImportFrom(there, "cluster-02")
	base.consul.Imported("cluster-02", "web", 1)
	base.put("app/colour", []byte("red"))
	out := func(s *site, to string) bool { return strings.Contains(s.read("out.txt"), to) }
	portOf := func(to string) (n int) {
		fmt.Sscan(to, &n)
		return n
	}
	port := func(s *site, to string) { s.register("web", "web-1", portOf(to), "passing") }
	colour := func(s *site, to string) { s.put("app/colour", []byte(to)) }
	intend := func(s *site, to string) { s.intend("web", "from-"+to) }
	limit := func(s *site, to string) {
		n := 0
		fmt.Sscan(to, &n)
		s.entry(&api.ServiceConfigEntry{Kind: api.ServiceDefaults, Name: "web", MaxInboundConnections: n})
	}
	export := func(s *site, to string) {
		s.entry(&api.ExportedServicesConfigEntry{Name: "default", Services: []api.ExportedService{{Name: "web", Consumers: []api.ServiceConsumer{{Peer: "to-" + to}}}}})
	}
	const onExports = "condition \"resources\" {\n    group    = \"multicluster\"\n    version  = \"v2\"\n    kind     = \"exportedservices\"\n    interval = \"5s\"\n  }"
	share := func(kind, services string) func(s *site, to string) {
		return func(s *site, to string) {
			s.resource("multicluster/v2/"+kind+"/some", `{`+services+`"consumers": [{"peer": "to-`+to+`"}]}`)
		}
	}
	task := func(body string) func(*site) string {
		return func(s *site) string { return s.config(s.task("out", body)) }
	}
	parts := []part{
		{"Services by name", task(`condition "services" { names = ["web"] }`), port, out},
		{"Services by name", task(`condition "schedule" { cron = "* * * * * * *" }
  module_input "services" { names = ["web"] }`), port, out},
		{"Services by expression, and names of services", task(`condition "services" { regexp = "^w" }`), port, out},
		{"Services by expression, and names of services", func(s *site) string {
			s.write("names/main.tf", `
variable "services" {}
variable "catalog_services" {}
resource "local_file" "out" {
  filename = "`+s.path("out.txt")+`"
  content  = join(" ", keys(var.catalog_services))
}
`)
			return s.config(`
task {
  name   = "out"
  module = "` + s.path("names") + `"
  condition "catalog-services" { regexp = "" }
}
`)
		}, func(s *site, to string) { s.register("name-"+to, "name-"+to, 1, "passing") }, out},
		{"Services of a peer", task("condition \"services\" {\n    names = [\"web\"]\n    peer  = \"cluster-02\"\n  }"), func(_ *site, to string) { (&site{t: t, consul: there}).register("web", "web-1", portOf(to), "passing") }, out},
		{"Nodes", task(`condition "nodes" {}`), func(s *site, to string) {
			if _, err := s.consul.Client().Catalog().Register(&api.CatalogRegistration{Node: "node-" + to, Address: "10.0.0.9"}, nil); err != nil {
				s.t.Fatal(err)
			}
		}, out},
		{"A key", task(`condition "consul-kv" { path = "app/colour" }`), colour, out},
		{"Keys with a prefix", task(`condition "consul-kv" {
    path    = "app/"
    recurse = true
  }`), colour, out},
		{"A config entry of a service", task("condition \"config-entries\" {\n    kind = \"service-intentions\"\n    name = \"web\"\n  }"), intend, out},
		{"A config entry of a service", task("condition \"schedule\" { cron = \"* * * * * * *\" }\n  module_input \"config-entries\" {\n    kind = \"service-defaults\"\n    name = \"web\"\n  }"), limit, out},
		{"Config entries of services", task("condition \"config-entries\" {\n    kind   = \"service-intentions\"\n    regexp = \"^w\"\n  }"), intend, out},
		{"Other config entries", task(`condition "config-entries" { kind = "exported-services" }`), export, out},
		{"Resources", task(onExports), share("exportedservices", `"services": ["web"], `), out},
		{"Other resources", task(strings.Replace(onExports, "exported", "namespaceexported", 1)), share("namespaceexportedservices", ""), out},
		{"A key", func(s *site) string {
			return s.config(s.task("out", `providers = ["local"]
  condition "schedule" { cron = "* * * * * * *" }`) + `
terraform_provider "local" {
  task_env {
    COLOUR = "{{ key \"app/colour\" }}"
  }
}
`)
		}, nil, func(s *site, _ string) bool { return fileExists(s.path("out.txt")) }},
		{"Terraform's state", func(s *site) string {
			return s.write("tasks.hcl", fmt.Sprintf(`
port = 0
working_dir = %q
consul {
  address = %q
}
`, s.path("work"), s.consul.Addr())+s.task("out", `condition "schedule" { cron = "* * * * * * *" }`))
		}, nil, func(s *site, _ string) bool { return fileExists(s.path("out.txt")) }},
	}

	const namesOnly = 3 // the part that reads only names of services
	policies := documentedPolicies(t)
	tried := map[string]bool{"Self-registration": true, "High availability": true} // below
	for n, p := range parts {
		policy := policies[p.section]
		if policy == "" {
			t.Fatalf("docs/acl.md has no policy for %s", p.section)
		}
		tried[p.section] = true
		t.Run(fmt.Sprintf("%d %s", n, p.section), func(t *testing.T) {
			s := base.beside(t)
			name := fmt.Sprintf("%d-%s", n, p.section)
			s.useToken(name, policy)
			if p.change != nil {
				p.change(s, "1001")
			}
			program := s.start("-config-file", p.config(s))
			eventually(t, "the first apply", func() bool { return fileExists(s.path("out.txt")) })
			if p.change != nil {
				p.change(s, "1002")
			}
			eventually(t, "a change is seen and applied", func() bool { return p.shows(s, "1002") })
			program.stop()

			started := map[*process]func(){}
			for lack, rules := range less(policy) {
				if n == namesOnly && lack == `without node_prefix ""` && !base.consul.AtLeast("1.20") {
					continue // an older Consul lists names without rights on nodes
				}
				w := base.beside(t)
				w.useToken(name+lack, rules)
				started[w.start("-once", "-config-file", p.config(w))] = func() {
					if fileExists(w.path("out.txt")) {
						t.Errorf("%s: the task is applied; the policy has more rights than necessary", lack)
					}
				}
			}
			limit, cancel := context.WithTimeout(t.Context(), 8*time.Second) // Terraform retries its lock for long
			defer cancel()
			for program, check := range started {
				select {
				case <-program.ended:
				case <-limit.Done():
				}
				check()
			}
		})
	}
	for section := range policies {
		if !tried[section] {
			t.Errorf("the policy for %s is not tried", section)
		}
	}
}
