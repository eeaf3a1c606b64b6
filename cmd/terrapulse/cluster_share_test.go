package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

// heldTask is a task whose apply writes down on which instance it began, and waits as long as there
// is a file.
func (e *ensemble) heldTask(name string) string {
	e.write("held/main.tf", `
variable "services" {}
variable "name" {}
resource "terraform_data" "one" {
  triggers_replace = join(" ", sort([for s in var.services : "${s.name}:${s.port}"]))
  provisioner "local-exec" {
    command = <<-EOT
      echo "${var.name} $PWD" >> `+e.path("log")+`
      echo "device ${var.name} answers"
      for pid in $(ls `+e.path("live")+` | grep "^${var.name}\\."); do kill -0 $${pid##*.} 2>/dev/null && echo "overlap ${var.name}" >> `+e.path("log")+`; done
      touch `+e.path("live")+`/${var.name}.$$
      while [ -e `+e.path("hold")+` ] && ! [ -e `+e.path("free.")+`${var.name} ] && kill -0 $PPID; do sleep 0.05; done
      rm `+e.path("live")+`/${var.name}.$$
      kill -0 $PPID || exit 1 # with its Terraform
      echo "${self.triggers_replace}" > `+e.path("")+`/${var.name}.out
    EOT
  }
}
`)
	if err := os.MkdirAll(e.path("live"), 0o700); err != nil {
		e.t.Fatal(err)
	}
	e.write(name+".tfvars", fmt.Sprintf("name = %q\n", name))
	return fmt.Sprintf(`
task {
  name = %q
  module = %q
  variable_files = [%q]
  %s
}
`, name, e.path("held"), e.path(name+".tfvars"), onWeb)
}

// began counts on which instances applies of a task began.
func (e *ensemble) began(task string) map[string]int {
	n := map[string]int{}
	for _, line := range strings.Split(e.read("log"), "\n") {
		if name, dir, ok := strings.Cut(line, " "); ok && (task == "" || name == task) {
			for i := 1; i < 4; i++ {
				if id := fmt.Sprintf("cts-%02d", i); strings.Contains(dir, "/"+id+"/") {
					n[id]++
				}
			}
		}
	}
	return n
}

// idle reports whether so many tasks have been applied and nothing runs.
func (e *ensemble) idle(tasks int) bool {
	live, err := os.ReadDir(e.path("live"))
	done := 0
	for i := range tasks {
		if e.read(fmt.Sprintf("t%d.out", i)) != "" {
			done++
		}
	}
	return err == nil && len(live) == 0 && done == tasks
}

// pair is a cluster of two instances with room for one run each, both of which are at work: an apply of
// each of two held tasks has begun.
type pair struct {
	tasks        string
	one, two     *member // one leads
	ofOne, ofTwo string  // the task that each of them applies
}

// twoWithARunEach starts a pair: both tasks were applied before, and port 8080 is new.
func (e *ensemble) twoWithARunEach() pair {
	e.t.Helper()
	e.parallel = 1
	p := pair{tasks: e.heldTask("t0") + e.heldTask("t1"), ofOne: "t0", ofTwo: "t1"}
	p.one = e.instance(1, p.tasks)
	eventually(e.t, "the first instance leads", p.one.leads)
	p.two = e.instance(2, p.tasks)
	eventually(e.t, "both tasks were applied", func() bool { return p.one.sees(2, "cts-01") && e.idle(2) })
	e.write("log", "")
	e.write("hold", "")
	e.publish(e.servers[0], "web-1", 8080)
	eventually(e.t, "each instance has a run", func() bool { return e.began("")["cts-01"] == 1 && e.began("")["cts-02"] == 1 })
	if e.began("t0")["cts-02"] == 1 {
		p.ofOne, p.ofTwo = p.ofTwo, p.ofOne
	}
	return p
}

func TestAClusterSharesItsRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	e := newEnsemble(t, 10*time.Second, consultest.Start(t))
	e.parallel = 2
	var tasks strings.Builder
	const n = 6
	for i := range n {
		tasks.WriteString(e.heldTask(fmt.Sprintf("t%d", i)))
	}
	one := e.instance(1, tasks.String())
	eventually(t, "the first instance leads", one.leads)
	two, three := e.instance(2, tasks.String()), e.instance(3, tasks.String())
	all := map[string]*member{"cts-01": one, "cts-02": two, "cts-03": three}
	eventually(t, "all have room", func() bool {
		code, text := one.call("GET", "/v1/status/cluster", "")
		return code == http.StatusOK && strings.Count(text, `"room": 2`)+strings.Count(text, `"room":2`) == 3
	})

	eventually(t, "all were applied once", func() bool { return strings.Count(e.read("log"), "\n") == n && e.idle(n) })
	e.write("log", "")
	e.write("hold", "")
	e.publish(e.servers[0], "web-1", 8080)
	eventually(t, "each instance has two runs", func() bool {
		b := e.began("")
		return b["cts-01"] == 2 && b["cts-02"] == 2 && b["cts-03"] == 2
	})
	if text := three.stderr.String(); !strings.Contains(text, "launch taken") {
		t.Errorf("the third instance does not say that it took launches:\n%s", text)
	}

	// Output and cancellation go through any instance.
	of := func(id string) (tasks []string) {
		for i := range n {
			if task := fmt.Sprintf("t%d", i); e.began(task)[id] == 1 {
				tasks = append(tasks, task)
			}
		}
		return tasks
	}
	lost, cancelled := of("cts-02"), of("cts-03")[0]
	run := ""
	eventually(t, "another instance shows where the run works", func() bool {
		_, text := two.call("GET", "/v1/tasks/"+cancelled+"/runs", "")
		var all apispec.RunsResponse
		if json.Unmarshal([]byte(text), &all) != nil || len(all.Runs) == 0 || apispec.Deref(all.Runs[0].Runner) != "cts-03" {
			return false
		}
		run = all.Runs[0].ID
		return all.Runs[0].State == apispec.RunStateRunning
	})
	output := func() string {
		_, text := two.call("GET", "/v1/tasks/"+cancelled+"/runs/"+run+"/log", "")
		return text
	}
	eventually(t, "another instance shows the output", func() bool { return strings.Contains(output(), "device "+cancelled+" answers") })
	if code, text := two.call("POST", "/v1/tasks/"+cancelled+"/cancel", ""); code >= 300 {
		t.Errorf("the cancellation answers %d %s", code, text)
	}
	eventually(t, "the run is interrupted where it works", func() bool { return strings.Contains(output(), "Interrupt received") })
	e.write("free."+cancelled, "")
	eventually(t, "the run is cancelled", func() bool {
		r := e.run("runs", "-store", "consul:consul-terraform-sync/network", cancelled)
		return strings.Contains(r.stdout, "cancelled")
	})

	// One instance is killed: its tasks run again. The cancelled run has left room for one of the two.
	two.Process.Signal(syscall.SIGKILL)
	<-two.ended
	eventually(t, "a task of the instance that was killed runs again", func() bool {
		return len(e.began(lost[0])) == 2 || len(e.began(lost[1])) == 2
	})
	delete(all, "cts-02")
	if err := os.Remove(e.path("hold")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all but the cancelled task are applied", func() bool {
		for i := range n {
			if name := fmt.Sprintf("t%d", i); name != cancelled && !strings.Contains(e.read(name+".out"), "8080") {
				return false
			}
		}
		return true
	})
	if strings.Contains(e.read("log"), "overlap") {
		t.Errorf("two runs of one task at once:\n%s", e.read("log"))
	}
	for _, task := range lost {
		r := e.run("runs", "-store", "consul:consul-terraform-sync/network", task)
		wantText(t, r.stdout, "lost")
	}
	for _, m := range all {
		if code := m.stop(); code != exitOK {
			t.Errorf("%s: exit code %d", m.id, code)
		}
	}
}

func TestARunOfAnInstanceThatIsStoppedBeginsAgainElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several processes")
	}
	t.Parallel()
	e := newEnsemble(t, 30*time.Second, consultest.Start(t))
	c := e.twoWithARunEach()
	one, two, moves, stays := c.one, c.two, c.ofTwo, c.ofOne
	eventually(t, "the status shows how many runs they have", func() bool {
		r := e.run("status", "-store", "consul:consul-terraform-sync/network")
		return strings.Contains(r.stdout, "cts-01 has 1 of 1, cts-02 has 1 of 1")
	})
	e.write("free."+stays, "") // the leader has room again
	eventually(t, "the leader has room", func() bool { return strings.Contains(e.read(stays+".out"), "8080") })
	two.Process.Signal(syscall.SIGTERM)
	eventually(t, "it stops", func() bool { return strings.Contains(two.stderr.String(), "waiting for Terraform") })
	time.Sleep(2 * time.Second) // Terraform has seen the interrupt
	e.write("free."+moves, "")
	<-two.ended
	stopped := time.Now()
	eventually(t, "the task runs on the other instance", func() bool { return e.began(moves)["cts-01"] == 1 })
	// Claims last 30 s: nobody waited for one to expire.
	if took := time.Since(stopped); took > 25*time.Second {
		t.Errorf("it begins again after %s", took)
	}
	r := e.run("runs", "-store", "consul:consul-terraform-sync/network", moves)
	wantText(t, r.stdout, "interrupted")
	if code := one.stop(); code != exitOK {
		t.Errorf("cts-01: exit code %d", code)
	}
}
