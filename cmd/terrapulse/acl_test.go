package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// documentedPolicies are the policies of docs/acl.md by their headings.
func documentedPolicies(t *testing.T) map[string]string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join(testtools.Root(t), "docs", "acl.md"))
	if err != nil {
		t.Fatal(err)
	}
	policies := map[string]string{}
	for _, section := range strings.Split(string(doc), "\n## ")[1:] {
		heading, text, _ := strings.Cut(section, "\n")
		if _, rules, ok := strings.Cut(text, "```hcl\n"); ok {
			policies[heading], _, _ = strings.Cut(rules, "```")
		}
	}
	return policies
}

// rule is one rule of a policy.
var rule = regexp.MustCompile(`(?ms)^\w+ (".*?" \{$.*?^\}|= "\w+")\n`)

// less returns the policies that have one right less than this one, by the missing right: a rule, or
// a rule's right to write.
func less(policy string) map[string]string {
	variants := map[string]string{}
	for _, r := range rule.FindAllString(policy, -1) {
		name, _, _ := strings.Cut(strings.TrimSpace(r), " {")
		variants["without "+name] = strings.Replace(policy, r, "", 1)
		if strings.Contains(r, `"write"`) {
			variants["with read on "+name] = strings.Replace(policy, r, strings.Replace(r, `"write"`, `"read"`, 1), 1)
		}
	}
	return variants
}

// useToken lets the program use a token with these rules only. The site is of a parallel test.
func (s *site) useToken(name, rules string) {
	s.t.Helper()
	s.env = append(s.env, "CONSUL_HTTP_TOKEN="+s.token(name, rules))
}

// token creates a token with these rules only.
func (s *site) token(name, rules string) string {
	s.t.Helper()
	acl := s.consul.Client().ACL()
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: regexp.MustCompile(`\W+`).ReplaceAllString(name, "-"), Rules: rules}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	token, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return token.SecretID
}

// entry writes a config entry.
func (s *site) entry(e api.ConfigEntry) {
	s.t.Helper()
	if _, _, err := s.consul.Client().ConfigEntries().Set(e, nil); err != nil {
		s.t.Fatal(err)
	}
}

// intend lets services reach another one.
func (s *site) intend(service string, sources ...string) {
	s.t.Helper()
	e := &api.ServiceIntentionsConfigEntry{Kind: api.ServiceIntentions, Name: service}
	for _, name := range sources {
		e.Sources = append(e.Sources, &api.SourceIntention{Name: name, Action: api.IntentionActionAllow})
	}
	s.entry(e)
}

// resource writes the data of a resource.
func (s *site) resource(name, data string) {
	s.t.Helper()
	r := s.consul.Client().Raw()
	if _, err := r.Write("/api/"+name, map[string]json.RawMessage{"data": json.RawMessage(data)}, nil, nil); err != nil {
		s.t.Fatal(err)
	}
}

// beside returns another site with the same Consul.
func (s *site) beside(t *testing.T) *site {
	t.Helper()
	other := &site{t: t, dir: t.TempDir(), consul: s.consul, env: slices.Clip(s.env)}
	other.write("mod/main.tf", s.read("mod/main.tf"))
	return other
}

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

func TestThePoliciesOfTheDocumentationAreEnoughAndNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program many times")
	}
	base := newParallelSite(t, consultest.WithACLs())
	base.register("web", "web-1", 8080, "passing")
	base.put("app/colour", []byte("red"))
	out := func(s *site, to string) bool { return strings.Contains(s.read("out.txt"), to) }
	port := func(s *site, to string) {
		n := 0
		fmt.Sscan(to, &n)
		s.register("web", "web-1", n, "passing")
	}
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
			to := "1001"
			if p.change != nil {
				p.change(s, to)
			}
			wantCode(t, s.run("start", "-once", "-config-file", p.config(s)), exitOK)
			if !p.shows(s, to) {
				t.Errorf("out.txt = %q", s.read("out.txt"))
			}

			d := base.beside(t)
			d.env = s.env
			to = "1002"
			program := d.start("-config-file", p.config(d))
			eventually(t, "the first apply", func() bool { return fileExists(d.path("out.txt")) })
			if p.change != nil {
				p.change(d, to)
				eventually(t, "a change is seen and applied", func() bool { return p.shows(d, to) })
			}
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

func TestThePolicyForSelfRegistrationIsEnoughAndNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program several times")
	}
	base := newParallelSite(t, consultest.WithACLs())
	config := func(s *site, id string) string {
		return s.write("cts.hcl", fmt.Sprintf("port = 0\nid = %q\nconsul {\n  address = %q\n}\n", id, s.consul.Addr()))
	}
	health := func(id string) string {
		checks, _, err := base.consul.Client().Health().Checks("consul-terraform-sync", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range checks {
			if c.ServiceID == id {
				return c.Status
			}
		}
		return "none"
	}
	policy := documentedPolicies(t)["Self-registration"]

	s := base.beside(t)
	s.useToken("registration", policy)
	program := s.start("-config-file", config(s, "cts-enough"))
	eventually(t, "it is registered and well", func() bool { return health("cts-enough") == api.HealthPassing })
	if code := program.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "it is deregistered", func() bool { return health("cts-enough") == "none" })

	for lack, rules := range less(policy) {
		w := base.beside(t)
		w.useToken("registration "+lack, rules)
		program := w.start("-config-file", config(w, "cts-less"))
		eventually(t, lack+": it is said", func() bool { return strings.Contains(program.stderr.String(), "missing required Consul ACL") })
		program.stop()
	}
	if health("cts-less") != "none" {
		t.Error("it is registered all the same")
	}
}

func TestThePolicyForHighAvailabilityIsEnoughAndNoMore(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program several times")
	}
	base := newParallelSite(t, consultest.WithACLs())
	config := func(s *site) string {
		return s.config(`
high_availability {
  cluster {
    name = "main"
    storage "consul" {
      session_ttl = "10s"
    }
  }
}
` + s.task("out", `condition "schedule" { cron = "* * * * * * *" }`))
	}
	policy := documentedPolicies(t)["High availability"]
	for lack, rules := range less(policy) {
		w := base.beside(t)
		w.useToken("cluster "+lack, rules)
		program := w.startProgram(os.Args[0], "-config-file", config(w))
		eventually(t, lack+": it is said", func() bool { return strings.Contains(program.stderr.String(), "needs key_prefix") })
		if fileExists(w.path("out.txt")) {
			t.Errorf("%s: all is well; the policy asks for too much", lack)
		}
		program.Process.Kill()
		<-program.ended
	}
	s := base.beside(t)
	s.useToken("cluster", policy)
	program := s.start("-config-file", config(s))
	eventually(t, "it leads and applies", func() bool { return fileExists(s.path("out.txt")) })
	if code := program.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(program.stderr.String(), "Permission denied") {
		t.Error("something was denied")
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
