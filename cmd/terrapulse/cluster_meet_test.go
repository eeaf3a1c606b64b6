package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

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

// The leader is busy with another task all the time, so that other instances carry out the runs.
func TestApprovalsHoldsAndPausesWorkForRunsOfOtherInstances(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	e.parallel = 1
	busy := e.heldTask("t0")
	judged := strings.Replace(e.heldTask("t1"), "task {", "task {\n  approval = \"always\"", 1)
	one := e.instance(1, busy+judged)
	eventually(t, "the first instance leads", one.leads)
	post := func(m *member, path, body string) {
		t.Helper()
		if code, text := m.call("POST", "/v1/"+path, body); code >= 300 {
			t.Fatalf("%s answers %d %s", path, code, text)
		}
	}
	two, three := e.instance(2, busy+judged), e.instance(3, busy+judged)
	eventually(t, "all are there", func() bool { return one.sees(3, "cts-01") })
	approve := func(m *member) {
		t.Helper()
		plan := ""
		eventually(t, "a plan waits for an approval", func() bool {
			if run := m.overview("t1").Run; run != nil && run.Wait != nil {
				plan = run.Wait.ID
			}
			return plan != ""
		})
		post(m, "tasks/t1/approval", fmt.Sprintf(`{"decision": "approve", "plan": %q}`, plan))
	}
	approve(three)
	eventually(t, "both were applied", func() bool { return e.idle(2) })
	e.write("log", "")
	e.write("hold", "")
	e.write("free.t1", "")
	e.publish(e.servers[0], "web-1", 8080)
	eventually(t, "the leader is busy", func() bool {
		return e.began("t0")["cts-01"] == 1 || e.began("t0")["cts-02"]+e.began("t0")["cts-03"] == 1
	})

	elsewhere := func(port string) {
		t.Helper()
		eventually(t, "it is applied", func() bool { return strings.Contains(e.read("t1.out"), port) })
		if n := e.began("t1"); n["cts-01"] > 0 && e.began("t0")["cts-01"] > 0 {
			t.Errorf("the leader, which is busy, has applied %v", n)
		}
	}
	approve(three)
	elsewhere("8080")

	// Somebody puts the task on hold while its plan waits. The approval counts when the hold ends.
	change := func(port int, shown string) {
		t.Helper()
		e.publish(e.servers[0], "web-2", port)
		eventually(t, "a new plan waits", func() bool {
			run := two.overview("t1").Run
			return run != nil && run.Wait != nil && strings.Contains(fmt.Sprint(two.overview("t1").Run.Reason.Text), shown)
		})
	}
	change(9090, "web-2")
	post(two, "tasks/t1/hold", `{}`)
	approve(three)
	time.Sleep(2 * time.Second)
	if strings.Contains(e.read("t1.out"), "9090") {
		t.Error("a task is applied that is on hold")
	}
	if code, text := three.call("DELETE", "/v1/tasks/t1/hold", ""); code >= 300 {
		t.Fatalf("the release answers %d %s", code, text)
	}
	elsewhere("9090")

	// The same with a pause of everything.
	change(9191, "web-2")
	post(two, "pause", `{}`)
	approve(three)
	time.Sleep(2 * time.Second)
	if strings.Contains(e.read("t1.out"), "9191") {
		t.Error("a task is applied while everything is paused")
	}
	post(three, "resume", `{}`)
	elsewhere("9191")

	if strings.Contains(e.read("log"), "overlap") {
		t.Errorf("two runs of one task at once:\n%s", e.read("log"))
	}
	if err := os.Remove(e.path("hold")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*member{three, two, one} {
		if code := m.stop(); code != exitOK {
			t.Errorf("%s: exit code %d", m.id, code)
		}
	}
}
