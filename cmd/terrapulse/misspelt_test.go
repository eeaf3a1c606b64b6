package main

import (
	"strings"
	"testing"
)

// Nothing is wrong with a task for a service that is not there yet, so that only a near name shows the mistake.
func TestMisspeltService_IsNamedByEachCommandThatChecksATask(t *testing.T) {
	s := newParallelSite(t)
	for i, name := range []string{"web", "payments-api", "api"} {
		s.register(name, name+"-1", 8080+i, "passing")
	}
	file := s.config(s.task("lb", `condition "services" {
    names = ["wbe", "api", "later"]
  }
  module_input "consul-kv" {
    path = "web"
  }`) + s.task("pay", `condition "schedule" {
    cron = "0 0 * * * * *"
  }
  module_input "services" {
    names = ["payment-api"]
  }`))
	wants := []string{`task lb: Consul has no service "wbe"; did you mean "web"?`, `task pay: Consul has no service "payment-api"; did you mean "payments-api"?`}
	wantsAll := func(what, text string) {
		t.Helper()
		text = unwrapped(strings.ReplaceAll(text, `\"`, `"`))
		for _, want := range wants {
			if strings.Count(text, want) != 1 {
				t.Errorf("%s does not say once %s:\n%s", what, want, text)
			}
		}
		if strings.Count(text, "did you mean") != len(wants) {
			t.Errorf("%s takes more for misspelt:\n%s", what, text)
		}
	}
	r := s.run("validate", "-consul", "-config-file", file)
	wantCode(t, r, exitOK)
	wantsAll("validate", r.stdout)
	r = s.run("inspect", "-config-file", file)
	wantCode(t, r, exitOK)
	wantsAll("inspect", r.stderr)
	s.write("port.yaml", "port: 8558\n")
	for _, c := range s.examined(exitOK, "-config-file", file) {
		if c.Name == "consul rights" {
			wantsAll("doctor", c.Found)
		}
	}
	wants = []string{`task webb: Consul has no service "webb"; did you mean "web"?`}
	r = s.run("init", "-consul-addr="+s.consul.Addr(), "-service=webb", "-dir=new")
	wantCode(t, r, exitOK)
	wantsAll("init", r.stdout)
}
