package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// rack registers instances of a service on a node.
func (s *site) rack(node, service string, first, last int) {
	s.t.Helper()
	for n := first; n <= last; n++ {
		_, err := s.consul.Client().Catalog().Register(&api.CatalogRegistration{Node: node, Address: "10.0.0.1",
			Service: &api.AgentService{ID: fmt.Sprintf("%s-%d", service, n), Service: service, Port: 8000 + n}}, nil)
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// racks is a site with two racks, and tasks that read them in different ways; all that may
// be applied is applied.
func racks(t *testing.T) (s *site, file string) {
	s = newParallelSite(t)
	s.rack("rack-a", "web", 1, 12)
	s.rack("rack-b", "web", 13, 20)
	s.rack("rack-b", "api", 1, 1)
	s.put("config/a", []byte("1"))
	on := func(what string) string { return "condition \"services\" {\n names = [\"" + what + "\"]\n }\n" }
	file = s.config(s.task("lb", on("web")) + s.task("api", on("api")) + s.task("gated", on("api")+"approval = \"always\"") +
		s.task("stopped", on("api")) + s.task("off", on("api")+"enabled = false") + s.task("keys", "condition \"consul-kv\" {\n path = \"config/\"\n recurse = true\n }"))
	wantCode(t, s.run("-once", "-config-file", file), exitWaits)
	wantCode(t, s.run("hold", "-config-file", file, "stopped"), exitOK)
	return s, file
}

// answerOf is what would happen, by task.
func answerOf(t *testing.T, r result) (apispec.WhatIf, map[string]apispec.WhatIfResult) {
	t.Helper()
	var printed struct {
		WhatIf apispec.WhatIf `json:"what_if"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &printed); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	byTask := map[string]apispec.WhatIfResult{}
	for _, result := range printed.WhatIf.Results {
		byTask[result.Task] = result
	}
	return printed.WhatIf, byTask
}

func would(t *testing.T, results map[string]apispec.WhatIfResult, task string, outcome apispec.WouldBe, text string) {
	t.Helper()
	if r := results[task]; r.Verdict == nil || r.Verdict.Outcome != outcome || !strings.Contains(r.Verdict.Text, text) {
		t.Errorf("task %s: %+v, want %s: %s", task, r.Verdict, outcome, text)
	}
}

func TestWhatIf_SaysWhatWouldHappenWithoutARack(t *testing.T) {
	s, file := racks(t)
	before := s.read("lb.txt")
	store := []string{"inspect", "-store", "sqlite:" + s.path("state.db"), "-config-file", file}
	ask := func(flags ...string) result { return s.run(slices.Concat(store, flags)...) }

	r := ask("-without", "node=rack-a")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "### Task lb", "would be held: 12 of 20 service instances are gone", "max_removed_percent is 50", "replaces module.lb.local_file.out",
		"What if, without node rack-a: 5 tasks: 1 would be held, 4 not concerned")

	r = ask("-json", "-detailed-exitcode", "-without", "node=rack-b")
	wantCode(t, r, exitChanges)
	w, results := answerOf(t, r)
	would(t, results, "lb", apispec.WouldBeApplied, "1 to add, 0 to change, 1 to destroy")
	would(t, results, "api", apispec.WouldBeApplied, "would be applied")
	would(t, results, "gated", apispec.WouldBeApproval, "every plan of the task needs an approval")
	would(t, results, "stopped", apispec.WouldBeStopped, "would not run: on hold by")
	if len(results) != 4 || w.NotConcerned != 1 || w.Tasks != 5 {
		t.Errorf("%d of %d tasks are concerned, %d are not", len(results), w.Tasks, w.NotConcerned)
	}

	for flag, tasks := range map[string][]string{
		"service=web": {"lb"}, "service=web,node=rack-a": {"lb"}, "instance=web-3": {"lb"}, "datacenter=dc1": {"api", "gated", "keys", "lb", "stopped"},
	} {
		_, results := answerOf(t, ask("-json", "-without", flag))
		var concerned []string
		for task := range results {
			concerned = append(concerned, task)
		}
		if slices.Sort(concerned); !slices.Equal(concerned, tasks) {
			t.Errorf("without %s: concerned %v, want %v", flag, concerned, tasks)
		}
	}

	r = ask("-without", "node=n7")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "Warning: no task reads node n7 or an instance on it", "check the names")
	r = ask("-without", "nod=n7")
	wantCode(t, r, exitFlags)
	wantText(t, r.stderr, `"nod" is none of node, service, instance, datacenter and peer`)

	// What is supposed in addition is as curl http://localhost:8500/v1/health/service/web prints it; what is not
	// needed may be left out.
	entries := s.write("more.yaml", `
- Node: {Node: rack-c, Address: 10.0.3.1}
  Service: {ID: web-21, Service: web, Port: 8080}
- Key: config/b
  Value: Mg==
`)
	_, results = answerOf(t, ask("-json", "-with", entries))
	would(t, results, "lb", apispec.WouldBeApplied, "to add")
	would(t, results, "keys", apispec.WouldBeApplied, "to add")
	if len(results) != 2 {
		t.Errorf("%d tasks are concerned, want 2", len(results))
	}
	r = s.run("inspect", "-config-file", file, "-without", "node=rack-a", "lb")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout+r.stderr, "There is no store", "would be held: 12 of 20 service instances are gone")

	if s.read("lb.txt") != before {
		t.Error("something was applied")
	}
	if runs := s.run("runs", "lb").stdout; strings.Count(runs, "succeeded") != 1 {
		t.Errorf("a what-if counts as a run:\n%s", runs)
	}
}

func TestWhatIf_ARunningInstanceAnswersAndRecordsNothingOfIt(t *testing.T) {
	s, file := racks(t)
	p := s.start("-config-file", file)
	at := p.served()
	stable := func() string {
		r := s.run("status", "-http-addr", at, "-json")
		var status struct{ Tasks []apispec.TaskOverview }
		if err := json.Unmarshal([]byte(r.stdout), &status); err != nil {
			t.Fatal(err, r.stdout, r.stderr)
		}
		var all []string
		for _, o := range status.Tasks {
			text, _ := json.Marshal(map[string]any{"task": o.Name, "phase": o.Phase, "reason": o.Reason, "last": o.LastRun, "failures": o.Failures})
			all = append(all, string(text))
		}
		return strings.Join(all, "\n")
	}
	eventually(t, "the instance is at rest", func() bool { return strings.Contains(stable(), `"phase":"applied"`) })
	before := stable()
	r := s.run("inspect", "-http-addr", at, "-without", "node=rack-a")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "would be held: 12 of 20 service instances are gone", "# module.lb.local_file.out must be replaced", "5 tasks: 1 would be held, 4 not concerned")
	w, results := answerOf(t, s.run("inspect", "-http-addr", at, "-json", "-without", "service=api", "-without", "instance=web-1", "lb", "stopped"))
	would(t, results, "lb", apispec.WouldBeApplied, "would be applied")
	would(t, results, "stopped", apispec.WouldBeStopped, "would not run: on hold by")
	if w.Tasks != 2 {
		t.Errorf("%d tasks were examined, want the 2 that are named", w.Tasks)
	}
	if after := stable(); after != before {
		t.Errorf("the tasks are now\n%s\nand were\n%s", after, before)
	}
	wantText(t, s.run("runs", "-http-addr", at, "lb").stdout, "what if, without node rack-a")
	wantText(t, p.stderr.String(), "what if, without node rack-a: would be held")
	r = s.run("inspect", "-http-addr", at, "-without", "node=n7")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "no task reads node n7 or an instance on it")
	r = s.run("inspect", "-http-addr", at, "-without", "node=rack-a", "nobody")
	wantCode(t, r, exitError)
	wantText(t, r.stderr, "nobody")
}
