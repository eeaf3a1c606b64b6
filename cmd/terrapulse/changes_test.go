package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestChanges_ModuleAndPeopleAreToldWhatDiffersFromTheLastApply(t *testing.T) {
	s := newParallelSite(t)
	s.instances(1, 3, true)
	module := s.module("told", fmt.Sprintf(`
variable "services" {}
variable "consul_kv" {}
variable "changes" {
  type = object({ added = list(string), removed = list(string), changed = list(string) })
}
resource "local_file" "told" {
  filename = %q
  content  = jsonencode(var.changes)
}
`, s.path("told.txt")))
	s.put("cfg/a", []byte("1"))
	file := s.config(taskOf("told", module, onWeb+`
  module_input "consul-kv" {
    path = "cfg/"
    recurse = true
  }`))
	p := s.start("-config-file", file)
	told := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return s.read("told.txt") == want })
	}
	told(`{"added":["cfg/a","web-01.racks.dc1","web-02.racks.dc1","web-03.racks.dc1"],"changed":[],"removed":[]}`)

	s.inPhase(apispec.PhaseApplied, "")

	// The key starts no run, and is there in the next one.
	s.put("cfg/a", []byte("2"))
	s.instances(2, 2, false)
	told(`{"added":[],"changed":["cfg/a"],"removed":["web-02.racks.dc1"]}`)
	eventually(t, "the end of the run", func() bool { return strings.Count(p.stderr.String(), "run succeeded") == 2 })
	wantText(t, s.run("runs", "told").stdout, "condition_changed: web: -web-02 (10.0.0.1:8002)", "changed in Consul: web: -web-02 (10.0.0.1:8002); keys: ~cfg/a")
	wantText(t, s.run("status").stdout, "last run: web: -web-02 (")
	wantText(t, p.stderr.String(), `msg="change seen" task=told detail="web: -web-02 (10.0.0.1:8002)"`)

	wantCode(t, s.run("run", "-http-addr="+p.served(), "told"), exitOK)
	told(`{"added":[],"changed":[],"removed":[]}`)
}
