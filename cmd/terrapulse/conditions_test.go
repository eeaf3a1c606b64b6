package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestConfigEntries_IntentionsTriggerATask(t *testing.T) {
	s := newParallelSite(t)
	services := make([]string, 12)
	for i := range services {
		services[i] = fmt.Sprintf("web-%02d", i)
		s.intend(services[i], "api")
	}
	file := s.config(s.task("lb", "condition \"config-entries\" {\n    kind   = \"service-intentions\"\n    regexp = \"^web\"\n  }"))
	wantText(t, s.run("render", "-config-file", file, "lb").stdout, `"web-00" = "{\"Kind\":\"service-intentions\",\"Name\":\"web-00\",\"Sources\":[`)
	p := s.start("-config-file", file)
	at := "-http-addr=" + p.served()
	eventually(t, "all intentions are applied", func() bool { return s.applied() == len(services) })
	s.inPhase(apispec.PhaseApplied, "")
	wantText(t, s.run("status", "-json", at).stdout, `service-intentions entries that match \"^web\"`)

	s.intend("web-03", "api", "batch")
	s.intend("db", "api") // is not selected
	eventually(t, "another source is applied", func() bool { return strings.Contains(s.read("lb.txt"), "batch") })
	s.inPhase(apispec.PhaseApplied, "")
	wantText(t, s.run("runs", "lb").stdout, "condition_changed: service-intentions: ~web-03 (Sources)")

	wantCode(t, s.run("pause", at, "-reason=one change for the guard"), exitOK)
	for _, name := range services[1:] {
		if _, err := s.consul.Client().ConfigEntries().Delete("service-intentions", name, nil); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, s.run("resume", at), exitOK)
	s.inPhase(apispec.PhaseWaiting, "11 of 12 config entries are gone")
	if s.applied() != len(services) {
		t.Errorf("%d of %d intentions are applied before the approval", s.applied(), len(services))
	}
	wantCode(t, s.run("approve", at, "lb"), exitOK)
	eventually(t, "the approved removal is applied", func() bool { return s.applied() == 1 })

	// The same by the API, as module input.
	body := fmt.Sprintf(`{"task": {"name": "more", "module": %q, "variables": {"file": "\"%s\""},
		"condition": {"consul_kv": {"path": "go"}}, "module_input": {"config_entries": {"kind": "service-intentions", "name": "web-00"}}}}`, s.path("mod"), s.path("more.txt"))
	s.put("go", []byte("1"))
	created := ask(t, "POST", p.served()+"/v1/tasks?run=now", body, 201)
	if text := fmt.Sprint(created); !strings.Contains(text, "config_entries") || !strings.Contains(text, "kind:service-intentions") {
		t.Errorf("the API shows %s", text)
	}
	if got := s.read("more.txt"); !strings.Contains(got, "go=1") || !strings.Contains(got, `web-00={"Kind":"service-intentions"`) {
		t.Errorf("more.txt = %q", got)
	}
}

func TestResources_ExportedServicesTriggerATask(t *testing.T) {
	s := newParallelSite(t)
	export := func(name, services string) {
		t.Helper()
		s.resource("multicluster/v2/exportedservices/"+name, `{"services": [`+services+`], "consumers": [{"peer": "p"}]}`)
	}
	export("web", `"web"`)
	export("other", `"other"`)
	s.resource("demo/v2/artist/korn", `{"name": "Korn"}`)
	onArtists := func(input string) string {
		return input + " \"resources\" {\n    group    = \"demo\"\n    version  = \"v2\"\n    kind     = \"Artist\"\n    interval = \"5s\"\n  }"
	}
	file := s.config(s.task("lb", strings.NewReplacer("demo", "multicluster", "Artist", "ExportedServices", "5s\"", "5s\"\n    name_prefix = \"w\"").Replace(onArtists("condition"))) +
		s.task("nightly", "condition \"schedule\" { cron = \"0 0 1 1 *\" }\n  "+onArtists("module_input")))
	p := s.start("-config-file", file)
	at := "-http-addr=" + p.served()
	eventually(t, "the resource is applied", func() bool { return s.applied() == 1 && strings.HasPrefix(s.read("lb.txt"), "web=") })
	eventually(t, "the module input is applied", func() bool { return strings.HasPrefix(s.read("nightly.txt"), "korn=") })
	s.inPhase(apispec.PhaseApplied, "")
	wantText(t, s.run("status", "-json", at).stdout, `resources multicluster/v2/exportedservices that begin with w`)

	export("web", `"web", "api"`)
	export("other", `"other", "api"`) // is not selected
	eventually(t, "the change is applied", func() bool { return strings.Contains(s.read("lb.txt"), "api") })
	s.inPhase(apispec.PhaseApplied, "")
	wantText(t, s.run("runs", "lb").stdout, "condition_changed: multicluster/v2/exportedservices: ~web (services)")
	if runs := s.runInTest("runs", "lb").stdout; strings.Count(runs, "succeeded") != 2 {
		t.Errorf("the status of resources has triggered runs:\n%s", runs)
	}
}
