package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// ruled is a held task that watches a service, with these rules. Nothing holds it.
func (e *ensemble) ruled(name, service, rules string) string {
	e.write("free."+name, "")
	return strings.Replace(e.heldTask(name), onWeb, strings.ReplaceAll(onWeb, "web", service)+"\n"+rules, 1)
}

// has registers instances of a service with a port.
func (e *ensemble) has(service string, port int, ids ...string) {
	e.t.Helper()
	for _, id := range ids {
		if _, err := e.servers[0].Client().Catalog().Register(&api.CatalogRegistration{Node: "worker", Address: "10.0.0.1",
			Service: &api.AgentService{ID: id, Service: service, Port: port}}, nil); err != nil {
			e.t.Fatal(err)
		}
	}
}

// loses removes an instance of a service.
func (e *ensemble) loses(id string) {
	e.t.Helper()
	if _, err := e.servers[0].Client().Catalog().Deregister(&api.CatalogDeregistration{Node: "worker", ServiceID: id}, nil); err != nil {
		e.t.Fatal(err)
	}
}

// busyLeader starts two instances with room for one run each, of which the first leads. All tasks were
// applied, and the leader is busy with t0.
func (e *ensemble) busyLeader(tasks string, n int) (one, two *member) {
	e.t.Helper()
	e.parallel = 1
	tasks = e.heldTask("t0") + tasks
	one = e.instance(1, tasks)
	eventually(e.t, "the first instance leads", one.leads)
	eventually(e.t, "all tasks were applied", func() bool { return e.idle(n) })
	e.write("hold", "")
	e.publish(e.servers[0], "web-1", 8080)
	eventually(e.t, "the leader is busy", func() bool { return e.began("t0")["cts-01"] == 2 })
	two = e.instance(2, tasks)
	eventually(e.t, "the second instance is there", func() bool { return one.sees(2, "cts-01") })
	e.write("log", "")
	return one, two
}

func (m *member) post(method, path, body string) {
	m.t.Helper()
	if code, text := m.call(method, "/v1/"+path, body); code >= 300 {
		m.t.Fatalf("%s answers %d %s", path, code, text)
	}
}

// overview returns what an instance shows of a task.
func (m *member) overview(task string) (found apispec.TaskOverview) {
	_, text := m.call("GET", "/v1/overview", "")
	var all apispec.Overview
	if json.Unmarshal([]byte(text), &all) == nil {
		for _, t := range all.Tasks {
			if t.Name == task {
				found = t
			}
		}
	}
	return found
}

func TestOrderVerificationsAndGuardsHoldForRunsOfOtherInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	e.write("works", "")
	e.has("api", 8080, "api-1", "api-2", "api-3", "api-4")
	one, two := e.busyLeader(e.ruled("t1", "api", fmt.Sprintf(`
  guard {
    max_removed = 1
  }
  verify "device" {
    command    = ["test", "-e", %q]
    within     = "1s"
    every      = "200ms"
    on_failure = "hold"
  }`, e.path("works")))+e.ruled("t2", "api", `after = ["t1"]`), 3)
	applied := func(task, port string, instances int) func() bool {
		return func() bool { return strings.Count(e.read(task+".out"), "api:"+port) == instances }
	}

	// A task that comes after another one waits for the run of the other instance.
	e.remove("free.t1")
	e.has("api", 9090, "api-1", "api-2", "api-3", "api-4")
	eventually(t, "the other instance has the run", func() bool { return e.began("t1")["cts-02"] == 1 })
	eventually(t, "t2 waits for t1", func() bool { return strings.Contains(one.overview("t2").Reason.Text, "waits for t1") })
	e.write("free.t1", "")
	eventually(t, "both are applied", func() bool { return applied("t1", "9090", 4)() && applied("t2", "9090", 4)() })
	if log := e.read("log"); strings.LastIndex(log, "t1 ") > strings.Index(log, "t2 ") {
		t.Errorf("t2 has begun before t1 had ended:\n%s", log)
	}

	// What the other instance could not verify is on hold, wherever the next run would begin.
	e.remove("works")
	e.has("api", 9191, "api-1", "api-2", "api-3", "api-4")
	eventually(t, "t1 is on hold", func() bool { return applied("t1", "9191", 4)() && one.overview("t1").Phase == apispec.PhaseUnverified })
	e.has("api", 9292, "api-1", "api-2", "api-3", "api-4")
	time.Sleep(2 * time.Second)
	if applied("t1", "9292", 4)() || e.read("t2.out") != "" && applied("t2", "9292", 4)() {
		t.Error("a task that is not verified runs, or another one after it")
	}
	e.write("works", "")
	two.post("DELETE", "tasks/t1/hold", "")
	eventually(t, "both are applied after the release", func() bool { return applied("t1", "9292", 4)() && applied("t2", "9292", 4)() })

	// What is gone within 15 minutes counts together, whichever instance has applied it.
	e.loses("api-1")
	eventually(t, "one is gone", func() bool { return applied("t1", "9292", 3)() && applied("t2", "9292", 3)() })
	e.loses("api-2")
	plan := ""
	eventually(t, "the guard holds the second loss", func() bool {
		if run := two.overview("t1").Run; run != nil && run.Wait != nil {
			plan = run.Wait.ID
		}
		return plan != ""
	})
	if !applied("t1", "9292", 3)() {
		t.Errorf("the guard has let it pass: %s", e.read("t1.out"))
	}
	two.post("POST", "tasks/t1/approval", fmt.Sprintf(`{"decision": "approve", "plan": %q}`, plan))
	eventually(t, "the loss is applied after the approval", func() bool { return applied("t1", "9292", 2)() && applied("t2", "9292", 2)() })

	if n := e.began("t1"); n["cts-01"] != 0 || n["cts-02"] < 5 {
		t.Errorf("applies of t1 began on %v", n)
	}
	e.ended(one, two)
}

// ended lets the task go that keeps the leader busy, and stops the instances.
func (e *ensemble) ended(members ...*member) {
	e.t.Helper()
	if strings.Contains(e.read("log"), "overlap") {
		e.t.Errorf("two runs of one task at once:\n%s", e.read("log"))
	}
	e.remove("hold")
	for _, m := range members {
		if code := m.stop(); code != exitOK {
			e.t.Errorf("%s: exit code %d", m.id, code)
		}
	}
}
