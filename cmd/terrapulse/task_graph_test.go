package main

import (
	"strings"
	"testing"
)

const orderedFile = `
task:
  - {name: firewall, module: ./m, condition: {services: {names: [web]}}}
  - {name: lb, module: ./m, condition: {services: {names: [web]}}, after: ["fire*"]}
  - {name: dns, module: ./m, condition: {services: {names: [web]}}, after: [lb]}
  - {name: other, module: ./m, condition: {services: {names: [web]}}}
`

func TestTaskGraph_OfTaskFiles(t *testing.T) {
	s := &site{t: t, dir: t.TempDir()}
	t.Chdir(s.dir)
	s.write("tasks.yaml", orderedFile)
	for _, test := range []struct{ flags, want string }{
		{"", "firewall\n└─ lb\n   └─ dns\n"},
		{"-format dot", `"firewall" -> "lb";`},
		{"-format mermaid", "flowchart LR"},
		{"-json", `"fire*": [`},
	} {
		r := s.bare("task", strings.Fields("graph -config-file tasks.yaml "+test.flags)...)
		wantCode(t, r, exitOK)
		wantText(t, r.stdout, test.want)
		if strings.Contains(r.stdout, "other") {
			t.Errorf("a task without an order is shown:\n%s", r.stdout)
		}
	}
	r := s.bare("task", "graph", "-format", "svg", "-config-file", "tasks.yaml")
	wantCode(t, r, exitFlags)
	wantText(t, r.stderr, "use text, dot, mermaid")
	s.write("wrong.yaml", strings.Replace(orderedFile, "{name: firewall, module: ./m,", "{name: firewall, module: ./m, after: dns,", 1))
	r = s.bare("task", "graph", "-config-file", "wrong.yaml")
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "wrong.yaml:3: task[0].after: no task of a cycle could run: firewall comes after dns, dns comes after lb, lb comes after firewall")
}
