package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	other := &site{t: t, dir: testtools.Folder(t), consul: s.consul, env: slices.Clip(s.env)}
	other.write("mod/main.tf", s.read("mod/main.tf"))
	return other
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
