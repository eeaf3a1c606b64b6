package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
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
	cancelled := ""
	for i := range n {
		if task := fmt.Sprintf("t%d", i); e.began(task)["cts-03"] == 1 {
			cancelled = task
		}
	}
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
		r := e.run("runs", "-store", clusterStore, cancelled)
		return strings.Contains(r.stdout, "cancelled")
	})

	e.remove("hold")
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
	for _, m := range []*member{three, two, one} {
		if code := m.stop(); code != exitOK {
			t.Errorf("%s: exit code %d", m.id, code)
		}
	}
}
