package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// runsOf counts the runs of a task that the store knows, by their states.
func (s *site) runsOf(task string) map[apispec.RunState]int {
	s.t.Helper()
	var runs []apispec.Run
	r := s.run("runs", "-json", task)
	if r.code == exitOK {
		if err := json.Unmarshal([]byte(r.stdout), &runs); err != nil {
			s.t.Fatal(err)
		}
	}
	count := map[apispec.RunState]int{}
	for _, run := range runs {
		count[run.State]++
	}
	return count
}

func TestCompat_TriggersOfATask(t *testing.T) {
	s := newSite(t)
	client := s.consul.Client()
	service := func(name string, tags ...string) {
		t.Helper()
		err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: name, ID: name, Port: 80, Address: "10.0.0.1", Tags: tags,
			Check: &api.AgentServiceCheck{TTL: "1h", Status: "passing", CheckID: "check-" + name}})
		if err != nil {
			t.Fatal(err)
		}
	}
	service("web", "one")
	service("db")
	s.put("app/colour", []byte("red"))

	const onDB = "condition \"services\" {\n names = [\"db\"]\n"
	p := s.start("-config-file", s.config(
		s.echoTask("names", "condition \"catalog-services\" {\n regexp = \"^(web|api)$\"\n}\nmodule_input \"services\" {\n names = [\"db\"]\n}")+
			s.echoTask("silent", onDB+"use_as_module_input = false\n}\nmodule_input \"consul-kv\" {\n path = \"app/colour\"\n}")+
			s.echoTask("meta", onDB+"cts_user_defined_meta {\n \"a key\" = \"x\"\n}\n}")+
			s.echoTask("failing", "condition \"services\" {\n names = [\"web\", \"db\"]\n filter = \"Checks.Status != \\\"passing\\\"\"\n}")+
			s.echoTask("scheduled", "condition \"schedule\" {\n cron = \"*/3 * * * * * *\"\n}\nmodule_input \"consul-kv\" {\n path = \"app/colour\"\n}")+
			s.echoTask("keys_seen", "condition \"consul-kv\" {\n path = \"mark\"\n}")+
			s.echoTask("services_seen", "condition \"services\" {\n names = [\"mark\"]\n}")))
	for _, name := range []string{"names", "silent", "meta", "failing", "scheduled", "keys_seen", "services_seen"} {
		eventually(t, "the first run of "+name, func() bool { return s.runsOf(name)[apispec.RunStateSucceeded] == 1 })
	}
	// settled returns when everything that happened before has been decided on.
	marks := 0
	settled := func() {
		t.Helper()
		marks++
		mark := fmt.Sprint(marks)
		s.put("mark", []byte(mark))
		service("mark", mark)
		eventually(t, "the marks are seen", func() bool {
			return s.echoed("keys_seen").KV["mark"] == mark &&
				cmp.Equal(s.echoed("services_seen").Services["mark.consul-server.dc1"].Tags, []string{mark})
		})
	}
	want := map[string]int{"names": 1, "silent": 1, "meta": 1, "failing": 1, "scheduled": 1}
	ran := func(why string) {
		t.Helper()
		for name, n := range want {
			eventually(t, fmt.Sprintf("%s: task %s has run %d times", why, name, n), func() bool { return s.runsOf(name)[apispec.RunStateSucceeded] >= n })
		}
		settled()
		for name, n := range want {
			got := s.runsOf(name)
			delete(got, apispec.RunStateUnchanged)
			if diff := cmp.Diff(map[apispec.RunState]int{apispec.RunStateSucceeded: n}, got); diff != "" {
				t.Errorf("%s: runs of task %s: %s", why, name, diff)
			}
		}
	}
	if e := s.echoed("names"); len(e.Services) != 1 || e.Services["db.consul-server.dc1"].Port != 80 {
		t.Errorf("the module input of a catalog-services task gives %+v", e.Services)
	}
	if e := s.echoed("silent"); len(e.Services) != 0 || e.KV["app/colour"] != "red" {
		t.Errorf("use_as_module_input = false gives %+v", e)
	}
	if got := s.echoed("meta").Services["db.consul-server.dc1"].CTS_user_defined_meta; !cmp.Equal(got, map[string]string{"a key": "x"}) {
		t.Errorf("cts_user_defined_meta is %v", got)
	}
	if e := s.echoed("failing"); len(e.Services) != 0 {
		t.Errorf("the filter for failing instances gives %+v", e.Services)
	}

	service("web", "one", "two")
	ran("a new tag")

	if err := client.Agent().UpdateTTL("check-db", "another text", "passing"); err != nil {
		t.Fatal(err)
	}
	ran("another output of a check")

	s.put("app/colour", []byte("blue"))
	want["scheduled"]++
	ran("a new value of a module input")
	if got := s.echoed("silent").KV["app/colour"]; got != "red" {
		t.Errorf("the module input alone was applied: %q", got)
	}
	if got := s.echoed("scheduled").KV["app/colour"]; got != "blue" {
		t.Errorf("the schedule applied %q", got)
	}

	service("api", "three")
	want["names"]++
	ran("a new name")
	if diff := cmp.Diff(map[string][]string{"web": {"one", "two"}, "api": {"three"}}, s.echoed("names").Catalog); diff != "" {
		t.Errorf("the catalog after a new name: %s", diff)
	}

	if err := client.Agent().UpdateTTL("check-db", "down", "critical"); err != nil {
		t.Fatal(err)
	}
	want["silent"], want["meta"], want["failing"] = 2, 2, 2
	ran("a check that fails")
	if got := s.echoed("silent").KV["app/colour"]; got != "blue" {
		t.Errorf("the module input is not fresh: %q", got)
	}
	if got := s.echoed("failing").Services["db.consul-server.dc1"].Status; got != "critical" {
		t.Errorf("the filter for failing instances gives %+v", s.echoed("failing").Services)
	}
	if got := s.echoed("meta").Services; len(got) != 0 {
		t.Errorf("an instance whose check fails is still there: %+v", got)
	}

	eventually(t, "the schedule notes that there was nothing to apply", func() bool { return s.runsOf("scheduled")[apispec.RunStateUnchanged] >= 2 })
	wantText(t, s.run("runs", "scheduled").stdout, "unchanged", "nothing to apply", "scheduled for")
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}
