//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
)

// A machine that is halted, and goes on later, does no harm: its Terraform
// holds the state's lock, and what it wants to write comes too late.
func TestALeaderThatWasFrozenDoesNoHarm(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end")
	}
	t.Parallel()
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	task := e.overlapTask("slow", onWeb)
	e.publish(e.servers[0], "web-1", 8080)
	one := e.instance(1, task)
	eventually(t, "the first apply", func() bool { return e.read("slow.out") == "web:8080\n" })
	two := e.instance(2, task)
	eventually(t, "there are two", func() bool { return one.sees(2, "cts-01") })
	e.write("hold", "")
	e.publish(e.servers[0], "web-2", 8081)
	eventually(t, "the second apply has begun", func() bool { return strings.Count(e.read("log"), "began") == 2 })
	one.Process.Signal(syscall.SIGSTOP)
	eventually(t, "the other instance leads", two.leads)
	e.publish(e.servers[0], "web-3", 8082)
	eventually(t, "it runs the task anew", func() bool { return strings.Contains(two.stderr.String(), "run started") })
	time.Sleep(3 * time.Second) // time to overlap in
	if log := e.read("log"); strings.Count(log, "began") != 2 {
		t.Errorf("the task is applied while the frozen instance's Terraform applies it:\n%s", log)
	}
	if err := os.Remove(e.path("hold")); err != nil {
		t.Fatal(err)
	}
	one.Process.Signal(syscall.SIGCONT)
	eventually(t, "all is applied", func() bool { return e.read("slow.out") == "web:8080 web:8081 web:8082\n" })
	eventually(t, "the one that was frozen follows", func() bool { return one.sees(2, "cts-02") && two.sees(2, "cts-02") })
	eventually(t, "it knows", func() bool { return strings.Contains(one.stderr.String(), "no longer leading") })
	if log := e.read("log"); strings.Contains(log, "overlap") {
		t.Errorf("two runs of one task at once:\n%s", log)
	}
	e.publish(e.servers[0], "web-4", 8083)
	eventually(t, "changes are followed", func() bool { return strings.Contains(e.read("slow.out"), "web:8083") })
}
