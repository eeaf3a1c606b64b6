package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

func TestOnce_NothingIsDestroyedWithoutTheRightToReadIt(t *testing.T) {
	base := newParallelSite(t, consultest.WithACLs())
	base.register("web", "web-1", 8080, "passing")
	base.put("app/colour", []byte("red"))
	nothing := base.token("nothing", "")
	for place, body := range map[string]string{
		"condition":        onWeb,
		"keys of an input": "condition \"schedule\" { cron = \"0 0 1 1 *\" }\n  module_input \"consul-kv\" {\n    path = \"app/\"\n    recurse = true\n  }",
	} {
		t.Run(place, func(t *testing.T) {
			s := base.beside(t)
			file := s.config(s.task("out", body))
			s.env = append(s.env, "CONSUL_HTTP_TOKEN="+consultest.ManagementToken)
			wantCode(t, s.run("start", "-once", "-config-file", file), exitOK)
			before := s.read("out.txt")
			if before == "" {
				t.Fatal("nothing was applied")
			}
			for who, token := range map[string]string{"no token": "", "a token without rights": nothing} {
				s.env = append(s.env, "CONSUL_HTTP_TOKEN="+token)
				for _, args := range [][]string{{"start", "-once"}, {"start", "-inspect"}, {"validate", "-consul"}} {
					r := s.run(append(args, "-config-file", file)...)
					if r.code == exitOK {
						t.Errorf("%s: %v succeeds", who, args)
					}
					said := r.stdout + r.stderr
					if !strings.Contains(said, "consul.token, CONSUL_HTTP_TOKEN") || !strings.Contains(said, "needs") && !strings.Contains(said, "set one that has") {
						t.Errorf("%s: %v does not say what to do:\n%s", who, args, said)
					}
					if token == "" && !strings.Contains(said, "access control is on and there is no token") {
						t.Errorf("%v does not say that there is no token:\n%s", args, said)
					}
				}
				if got := s.read("out.txt"); got != before {
					t.Fatalf("%s: out.txt = %q, was %q", who, got, before)
				}
			}
			// A first apply, over what another program may have applied.
			fresh := base.beside(t)
			fresh.env = append(fresh.env, "CONSUL_HTTP_TOKEN=")
			if r := fresh.run("start", "-once", "-config-file", fresh.config(fresh.task("out", body))); r.code == exitOK || fileExists(fresh.path("out.txt")) {
				t.Errorf("an empty answer was applied:\n%s", r.stderr)
			}
		})
	}
}

func TestValidate_FindsARightThatIsMissingWhereNothingIsYet(t *testing.T) {
	s := newSite(t, consultest.WithACLs())
	const kv = `condition "consul-kv" {
    path    = "cfg/"
    recurse = true
  }`
	const may, prefix = "may read what the tasks watch", `key_prefix "cfg/" { policy = "read" }`
	for _, tt := range []struct {
		name, condition, rules string
		code                   int
		says                   string
	}{
		{"prefix", kv, `key_prefix "other/" { policy = "read" }`, exitConfig, `task out: confirm that every key with prefix "cfg/" is gone and not hidden`},
		{"prefix that may be read", kv, prefix, exitOK, may},
		{"service without its nodes", onWeb, `service "web" { policy = "read" }`,
			exitOK, "Warning: task out: Consul has nothing yet that the task selects, so nothing shows whether the token may read it: "},
		{"service and nodes", onWeb, `service "web" { policy = "read" } node_prefix "" { policy = "read" }`, exitOK, may},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.beside(t)
			t.Setenv("CONSUL_HTTP_TOKEN", s.token("to validate the "+tt.name, tt.rules))
			r := s.run("validate", "-consul", "-config-file", s.config(s.task("out", tt.condition)))
			wantCode(t, r, tt.code)
			wantText(t, r.stdout+r.stderr, tt.says)
			if tt.says != may && strings.Contains(r.stdout, may) {
				t.Errorf("it claims the right:\n%s", r.stdout)
			}
		})
	}
}

func TestStart_TokenThatLosesItsRights(t *testing.T) {
	s := newParallelSite(t, consultest.WithACLs())
	s.register("web", "web-1", 8080, "passing")
	s.register("api", "api-1", 9090, "passing")
	acl := s.consul.Client().ACL()
	const rules = `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }`
	policy, _, err := acl.PolicyCreate(&api.ACLPolicy{Name: "rights", Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLLink{{ID: policy.ID}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	grant := func(rules string) {
		t.Helper()
		policy.Rules = rules
		if _, _, err := acl.PolicyUpdate(policy, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(s.env, "CONSUL_HTTP_TOKEN="+token.SecretID)
	file := s.config(s.task("web", onWeb) + s.task("api", `condition "services" {
    names = ["api"]
  }`))
	p := s.start("-config-file", file)
	health := p.served() + "/v1/health"
	eventually(t, "both tasks are applied", func() bool { return s.read("web.txt") != "" && s.read("api.txt") != "" })
	before := s.read("web.txt")
	ask(t, "GET", health, "", 200)

	grant(`service "api" { policy = "read" } node_prefix "" { policy = "read" }`)
	s.register("api", "api-2", 9091, "passing") // moves the gates
	warning := `level=WARN msg="the task cannot be read, it waits" task=web`
	eventually(t, "it is said", func() bool { return strings.Contains(p.stderr.String(), warning) })
	eventually(t, "health names the task", func() bool {
		return cmp.Equal(ask(t, "GET", health, "", 200), map[string]any{"unreadable_tasks": []any{"web"}, "unreadable_count": 1.0})
	})
	eventually(t, "the other task goes on", func() bool { return strings.Contains(s.read("api.txt"), "9091") })
	s.register("api", "api-3", 9092, "passing")
	eventually(t, "and on", func() bool { return strings.Contains(s.read("api.txt"), "9092") })
	if got := s.read("web.txt"); got != before {
		t.Errorf("web.txt = %q, was %q", got, before)
	}
	if n := strings.Count(p.stderr.String(), warning); n != 1 {
		t.Errorf("the warning was logged %d times", n)
	}

	p.stop()
	p = s.start("-config-file", file)
	health = p.served() + "/v1/health"
	eventually(t, "a new process warns, too", func() bool { return strings.Contains(p.stderr.String(), warning) })

	grant(rules)
	eventually(t, "it can be read again", func() bool {
		return strings.Contains(p.stderr.String(), `level=INFO msg="the task can be read again" task=web`)
	})
	eventually(t, "health is as before", func() bool { return len(ask(t, "GET", health, "", 200)) == 0 })
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "changes are applied again", func() bool { return strings.Contains(s.read("web.txt"), "8081") })
	if n := strings.Count(p.stderr.String(), warning); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	p.stop()
}
