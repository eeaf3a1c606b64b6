package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/people/apispec"
)

func TestStartFollowsConsul(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb) + s.task("flags", `condition "consul-kv" {
    path    = "app/"
    recurse = true
  }`) + s.task("all", `condition "services" {
    regexp = "^w\\w+$"
  }
  module_input "consul-kv" {
    path = "app/colour"
  }`))
	p := s.start("-config-file", file)
	eventually(t, "the first apply", func() bool { return s.read("lb.txt") == "web 10.0.0.1:8080 passing\n" })

	s.register("web", "web-2", 8081, "passing")
	eventually(t, "a new instance is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8081") })
	eventually(t, "a new instance is seen through a regexp", func() bool { return strings.Contains(s.read("all.txt"), "8081") })

	if err := s.consul.Client().Agent().UpdateTTL("check-web-1", "down", api.HealthCritical); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a failing check takes the instance out", func() bool { return s.read("lb.txt") == "web 10.0.0.1:8081 passing\n" })
	eventually(t, "also through a regexp", func() bool { return !strings.Contains(s.read("all.txt"), "8080") })

	put := func(key, value string) {
		t.Helper()
		if _, err := s.consul.Client().KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	odd := "a \"quoted\" ${value} %{with}\nlines\\n"
	put("app/motto", odd)
	eventually(t, "a KV value arrives intact", func() bool { return s.read("flags.txt") == "app/motto="+odd+"\n" })

	put("app/colour", "red")
	eventually(t, "the condition on the prefix sees the new key", func() bool { return strings.Contains(s.read("flags.txt"), "red") })
	if strings.Contains(s.read("all.txt"), "red") {
		t.Error("a module input alone triggered a run")
	}
	s.register("worker", "worker-1", 9000, "passing")
	eventually(t, "the module input is fresh when the condition triggers", func() bool {
		return strings.Contains(s.read("all.txt"), "9000") && strings.Contains(s.read("all.txt"), "red")
	})

	var st apispec.Overview
	decode(t, s.runInTest("status", "-json"), &st)
	if st.Leader == nil || len(st.Tasks) != 3 || st.LastGoodTick == nil {
		t.Errorf("status while start runs: %+v", st)
	}
	wantText(t, s.runInTest("runs", "lb").stdout, "condition_changed", "web-2")

	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d after an interrupt, want 0", code)
	}
	if st := s.runInTest("status").stdout; !strings.Contains(st, "Leader: none") {
		t.Errorf("the lease was not released:\n%s", st)
	}
}

func TestStartWaitsForAConsulThatIsNotThereYet(t *testing.T) {
	s := newParallelSite(t)
	file := s.config(s.task("lb", onWeb))
	s.consul.Stop()
	p := s.start("-config-file", file)
	eventually(t, "it says so", func() bool { return strings.Contains(s.runInTest("status").stdout, "Problem:") })
	s.consul.Restart()
	s.register("web", "web-1", 8080, "passing")
	eventually(t, "it applies", func() bool { return strings.Contains(s.read("lb.txt"), "8080") })
	p.stop()
}

// slowModule is a module whose apply takes until the file "go" exists.
func (s *site) slowTask(name string) string {
	s.write("slow/main.tf", `
variable "services" {}
resource "terraform_data" "slow" {
  input = keys(var.services)
  provisioner "local-exec" {
    command = "echo began >> `+s.path("began")+`; while [ -e `+s.path("began")+` -a ! -e `+s.path("go")+` ]; do sleep 0.05; done"
  }
}
`)
	return `
task {
  name   = "` + name + `"
  module = "` + s.path("slow") + `"
  condition "services" {
    names = ["web"]
  }
}
`
}

func TestAKilledProcessLeavesNoTerraformAndItsRunIsMadeGood(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to expire")
	}
	s := newParallelSite(t)
	temp, err := os.MkdirTemp("/tmp", "tp") // the test's own is too long for a socket
	if err != nil {
		t.Skip("needs /tmp")
	}
	defer os.RemoveAll(temp)
	s.env = append(s.env, "TMPDIR="+temp)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.slowTask("slow"))
	first := s.start("-config-file", file)
	eventually(t, "the apply has begun", func() bool { return s.read("began") != "" })
	first.Process.Signal(syscall.SIGKILL)
	<-first.ended
	eventually(t, "no Terraform is left", func() bool { return !terraformIn(t, s.path("work")) })
	left, err := filepath.Glob(filepath.Join(temp, "terrapulse-*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("left behind: %q, %v", left, err)
	}
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(left[0], long, long); err != nil {
		t.Fatal(err)
	}

	s.write("go", "")
	s.start("-config-file", file)
	eventually(t, "what is left of it among temporary files is gone", func() bool { return !fileExists(left[0]) })
	eventually(t, "the run is made good", func() bool {
		r := s.runInTest("runs", "slow")
		return strings.Contains(r.stdout, "lost") && strings.Contains(r.stdout, "succeeded")
	})
	wantText(t, s.runInTest("runs", "slow").stdout, "should have reported by", "lost")
}

// terraformIn reports whether a Terraform works below a folder.
func terraformIn(t *testing.T, dir string) bool {
	t.Helper()
	procs, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("needs /proc")
	}
	for _, p := range procs {
		exe, _ := os.Readlink("/proc/" + p.Name() + "/exe")
		cwd, _ := os.Readlink("/proc/" + p.Name() + "/cwd")
		if strings.Contains(exe, "terraform") && strings.HasPrefix(cwd, dir) {
			return true
		}
	}
	return false
}

func TestAFailingTaskIsRetriedAsSoonAsItsModuleIsRepaired(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	module := func(command string) {
		s.write("fw/rules/main.tf", "resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" { command = \""+command+"\" }\n}\n")
	}
	module("exit 3")
	s.write("fw/main.tf", "variable \"services\" {}\nmodule \"rules\" {\n  source = \"./rules\"\n}\n")
	s.start("-config-file", s.config(taskOf("fw", s.path("fw"), onWeb)))
	eventually(t, "it has failed three times", func() bool { return strings.Contains(s.runInTest("status", "-json").stdout, `"failures": 3`) })
	module("echo repaired")
	eventually(t, "it succeeds", func() bool { return strings.Contains(s.runInTest("runs", "-json", "fw").stdout, `"succeeded"`) })
	wantText(t, s.runInTest("runs", "-json", "fw").stdout, ": its local module was changed")
}

func TestAFailingTaskIsRetriedUntilItSucceeds(t *testing.T) {
	s := newParallelSite(t)
	s.register("web", "web-1", 8080, "passing")
	file := s.config(s.task("lb", onWeb))
	s.write("lb.txt/in-the-way", "") // a folder where the file should be
	s.start("-config-file", file)
	eventually(t, "two attempts have failed", func() bool {
		r := s.runInTest("status", "-json")
		return strings.Contains(r.stdout, `"failures": 2`)
	})
	wantText(t, s.runInTest("status").stdout, "failing", "retry number")
	if err := os.RemoveAll(s.path("lb.txt")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it succeeds", func() bool { return strings.Contains(s.read("lb.txt"), "8080") })
}
