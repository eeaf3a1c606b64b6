//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/terrapulse/terrapulse/internal/consul/consultest"
	"github.com/terrapulse/terrapulse/internal/process/nomad/nomadtest"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// orchard is a cluster of instances that dispatch their launches to a Nomad agent.
type orchard struct {
	*site
	agent *nomadtest.Agent
	port  int // of the API of the instance that was started last
}

func newOrchard(t *testing.T, options ...nomadtest.Option) *orchard {
	t.Helper()
	testtools.NeedsPrograms(t)
	t.Parallel()
	server := consultest.Start(t)
	o := &orchard{&site{t: t, dir: testtools.Folder(t), consul: server, env: append(terraformEnv(t), "CONSUL_HTTP_ADDR="+server.Addr())}, nomadtest.Start(t, options...), 0}
	o.writeModule()
	return o
}

// config writes the task files of all instances and runners. NOMAD_ADDR has the address.
func (o *orchard) config(tasks string) string {
	o.t.Helper()
	return o.write("tasks.hcl", fmt.Sprintf(`
working_dir = %q
driver "terraform" {
  backend "consul" {
    path = "states"
  }
}
buffer_period {
  enabled = false
}
high_availability {
  cluster {
    name = "network"
    storage "consul" {
      session_ttl = "10s"
    }
  }
}
nomad {
  job = "runner"
}
`, o.path("work"))+tasks)
}

// registerJob registers the job of the runners. Each writes its process's id into a file.
func (o *orchard) registerJob(file string) {
	o.t.Helper()
	variables := map[string]string{"TERRAPULSE_TEST_AS_PROGRAM": "1"}
	for _, kv := range o.env {
		name, value, _ := strings.Cut(kv, "=")
		variables[name] = value
	}
	script := fmt.Sprintf("echo $$ > %s; exec %s runner -config-file %s 2>> %s", o.path("pid"), os.Args[0], file, o.path("runner.log"))
	o.agent.Run(nomadtest.RunnerJob(script, variables, 64))
	o.t.Cleanup(func() {
		if o.t.Failed() {
			o.t.Logf("the runners say:\n%s", o.read("runner.log"))
		}
	})
}

// lead starts an instance that has no Terraform.
func (o *orchard) lead(file, id string) *process {
	o.t.Helper()
	o.port = testtools.FreePort(o.t)
	own := &site{t: o.t, dir: o.path(id), env: []string{"PATH=/nowhere", "CONSUL_HTTP_ADDR=" + o.consul.Addr(), "NOMAD_ADDR=" + o.agent.Addr()}}
	for _, kv := range o.env {
		if strings.HasPrefix(kv, "OTEL_") {
			own.env = append(own.env, kv)
		}
	}
	if err := os.MkdirAll(own.dir, 0o755); err != nil {
		o.t.Fatal(err)
	}
	return own.start("-config-file", file, "-config-file", o.write(id+".hcl", fmt.Sprintf("id = %q\nport = %d\n", id, o.port)))
}

// slowTask is a task whose apply waits while the file hold exists.
func (o *orchard) slowTask() string {
	o.write("slow/main.tf", `
variable "services" {}
resource "terraform_data" "one" {
  triggers_replace = join(" ", sort([for s in var.services : "${s.name}:${s.port}"]))
  provisioner "local-exec" {
    command = <<-EOT
      echo began >> `+o.path("log")+`
      while [ -e `+o.path("hold")+` ]; do sleep 0.05; done
      echo "${self.triggers_replace}" > `+o.path("slow.out")+`
    EOT
  }
}
`)
	return fmt.Sprintf("task {\n  name = \"slow\"\n  module = %q\n  %s\n}\n", o.path("slow"), onWeb)
}

// ranRun is a run as `terrapulse runs -json` prints it.
type ranRun struct {
	ID, State, Error string
	Launch           string
}

func (o *orchard) runs(task string) (runs []ranRun) {
	o.t.Helper()
	r := o.run("runs", "-store", clusterStore, "-json", task)
	if strings.Contains(r.stderr, "there is no task") { // nothing was decided yet
		return nil
	}
	if err := json.Unmarshal([]byte(r.stdout), &runs); err != nil {
		o.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return runs
}

func (o *orchard) began() int { return strings.Count(o.read("log"), "began") }

func TestNomad_ADispatchedJobAppliesAChange(t *testing.T) {
	o := newOrchard(t)
	file := o.config(o.task("web", onWeb))
	o.registerJob(file)
	o.site.register("web", "web-1", 8080, "passing")
	leader := o.lead(file, "one")
	eventually(t, "the first state is applied", func() bool { return strings.Contains(o.read("web.txt"), "web 10.0.0.1:8080") })
	o.site.register("web", "web-2", 8081, "passing")
	eventually(t, "the change is applied", func() bool { return strings.Contains(o.read("web.txt"), "web 10.0.0.1:8081") })
	eventually(t, "both runs are recorded", func() bool {
		runs := o.runs("web")
		return len(runs) == 2 && runs[0].State == "succeeded" && runs[1].State == "succeeded"
	})
	eventually(t, "both jobs have ended", func() bool {
		jobs := o.agent.Dispatched("runner")
		return len(jobs) == 2 && jobs[0].Status == "dead" && jobs[1].Status == "dead"
	})
	eventually(t, "the leader counts both runs", func() bool {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/v1/metrics", o.port))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(text), `terrapulse_runs_total{outcome="succeeded",task="web"} 2`)
	})
	if out := o.run("logs", "-store", clusterStore, "web"); !strings.Contains(out.stdout, "Apply complete!") {
		t.Errorf("the output of the run: %s%s", out.stdout, out.stderr)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, fmt.Sprintf("http://127.0.0.1:%d/v1/tasks/web?run=inspect", o.port), strings.NewReader(`{"enabled": true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if plan, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(plan), "No changes.") || len(o.agent.Dispatched("runner")) != 3 {
		t.Errorf("the plan of a third job: %s, %v", plan, err)
	}
	if code := leader.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// A runner is killed, the next job is stopped, and somebody cancels a run.
func TestNomad_RunsWhoseJobsEndEarly(t *testing.T) {
	o := newOrchard(t)
	traces := o.traced()
	file := o.config(o.slowTask())
	// Consul would keep the lock of a killed Terraform for half a minute.
	o.write("tasks.hcl", strings.Replace(o.read("tasks.hcl"), "backend \"consul\" {\n    path = \"states\"\n  }", `backend "local" {}`, 1))
	o.registerJob(file)
	o.site.register("web", "web-1", 8080, "passing")
	o.write("hold", "")
	o.lead(file, "one")
	eventually(t, "an apply has begun", func() bool { return o.began() == 1 })
	pid, err := strconv.Atoi(strings.TrimSpace(o.read("pid")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the run is lost", func() bool {
		runs := o.runs("slow")
		return len(runs) > 1 && runs[len(runs)-1].State == "lost"
	})
	first := o.runs("slow")
	if why := first[len(first)-1].Error; !strings.Contains(why, "its Nomad job runner/dispatch-") || !strings.Contains(why, "Signal: 9") {
		t.Errorf("the run was lost because of %q, not of its job", why)
	}

	eventually(t, "the task runs again", func() bool { return o.began() == 2 && o.runs("slow")[0].State == "running" })
	for _, job := range o.agent.Dispatched("runner") {
		if job.Status != "dead" {
			if out, err := o.agent.Command("job", "stop", "-detach", job.ID); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	eventually(t, "the run is interrupted", func() bool {
		return slices.ContainsFunc(o.runs("slow"), func(r ranRun) bool { return r.State == "interrupted" })
	})
	o.remove("hold")
	eventually(t, "the task runs again", func() bool {
		return o.runs("slow")[0].State == "succeeded" && strings.Contains(o.read("slow.out"), "web:8080")
	})
	states := map[string]int{}
	eventually(t, "all runs have traces", func() bool {
		clear(states)
		for _, root := range spansNamed(traces.Spans(), "apply slow") {
			states[root.Attributes["terrapulse.state"]]++
		}
		return states["succeeded"] == 1
	})
	if soundTraces(t, traces.Spans()); states["lost"] != 1 || states["interrupted"] != 1 {
		t.Errorf("the traces are of runs that are %v", states)
	}

	o.write("hold", "")
	before := o.began()
	o.site.register("web", "web-2", 8081, "passing")
	eventually(t, "another apply has begun", func() bool { return o.began() == before+1 })
	wantCode(t, o.run("cancel", fmt.Sprintf("-http-addr=http://127.0.0.1:%d", o.port), "slow"), exitOK)
	eventually(t, "the run is cancelled", func() bool { return o.runs("slow")[0].State == "cancelled" })
	eventually(t, "its job has ended", func() bool {
		return !slices.ContainsFunc(o.agent.Dispatched("runner"), func(j nomadtest.Job) bool { return j.Status != "dead" })
	})
	if o.began() != before+1 {
		t.Error("the cancelled task runs again")
	}
}

func TestNomad_ATakeoverDispatchesNoSecondJob(t *testing.T) {
	o := newOrchard(t)
	file := o.config(o.slowTask())
	o.registerJob(file)
	o.site.register("web", "web-1", 8080, "passing")
	o.write("hold", "")
	first := o.lead(file, "one")
	eventually(t, "an apply has begun", func() bool { return o.began() == 1 })
	second := o.lead(file, "two")
	eventually(t, "the second instance stands by", func() bool { return strings.Contains(second.stderr.String(), "standing by") })
	first.Process.Kill()
	<-first.ended
	eventually(t, "it leads", func() bool { return strings.Contains(second.stderr.String(), "acquired leadership lock: id=two") })
	o.remove("hold")
	eventually(t, "the run ends", func() bool { return o.runs("slow")[0].State == "succeeded" })
	if runs, jobs := o.runs("slow"), o.agent.Dispatched("runner"); len(runs) != 1 || len(jobs) != 1 || o.began() != 1 {
		t.Errorf("%d applies, runs %+v, jobs %+v", o.began(), runs, jobs)
	}
}

func TestNomad_TheLeaderIsAJobToo(t *testing.T) {
	o := newOrchard(t, nomadtest.WithACLs())
	file := o.config(o.task("web", onWeb))
	o.registerJob(file)
	policy := map[string]any{"Name": "terrapulse", "Rules": "namespace \"default\" {\n  capabilities = [\"list-jobs\", \"read-job\", \"dispatch-job\"]\n}",
		"JobACL": map[string]string{"Namespace": "default", "JobID": "terrapulse"}}
	if err := o.agent.Call(http.MethodPost, "acl/policy/terrapulse", policy, nil); err != nil {
		t.Fatal(err)
	}
	o.agent.Run(fmt.Sprintf(`
job "terrapulse" {
  group "instance" {
    task "instance" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      identity {
        env = true
      }
      env {
        NOMAD_ADDR                 = "unix://${NOMAD_SECRETS_DIR}/api.sock"
        CONSUL_HTTP_ADDR           = %q
        TERRAPULSE_TEST_AS_PROGRAM = "1"
      }
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
`, fmt.Sprintf("exec %s start -config-file %s -config-file %s 2> %s", os.Args[0], file, o.write("port.hcl", "port = 0\n"), o.path("instance.log")), o.consul.Addr()))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the instance says:\n%s", o.read("instance.log"))
		}
	})
	o.site.register("web", "web-1", 8080, "passing")
	eventually(t, "the change is applied", func() bool { return strings.Contains(o.read("web.txt"), "web 10.0.0.1:8080") })
}

func TestNomad_ARunnerWithoutTerraformSaysSo(t *testing.T) {
	o := newOrchard(t)
	o.env = append(o.env, "PATH=/nowhere", "HTTPS_PROXY=http://127.0.0.1:1") // it downloads none
	file := o.config(o.task("web", onWeb))
	o.registerJob(file)
	o.site.register("web", "web-1", 8080, "passing")
	o.lead(file, "one")
	eventually(t, "the run has failed", func() bool {
		runs := o.runs("web")
		return len(runs) > 0 && runs[len(runs)-1].State == "failed"
	})
	runs := o.runs("web")
	if why := runs[len(runs)-1].Error; !strings.Contains(why, "no usable Terraform: ") {
		t.Errorf("the run failed with %q", why)
	}
}

func TestRunner_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := &site{t: t, dir: t.TempDir()}
	alone := s.write("alone.hcl", "port = 0\n")
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-config-file", alone}, exitMissing, "no launch: Nomad sets it as NOMAD_META_launch"},
		{[]string{"-launch", "l1"}, exitMissing, "no configuration"},
		{[]string{"-launch", "l1", "-config-file", alone}, exitConfig, "no high_availability block"},
	} {
		var stdout, stderr testtools.Output
		code := run(t.Context(), append([]string{"runner"}, tt.args...), &stdout, &stderr)
		if code != tt.code || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%v: exit code %d, %s", tt.args, code, stderr.String())
		}
	}
}

func TestRunner_RefusesALaunchThatTheStoreDoesNotHave(t *testing.T) {
	s := newParallelSite(t)
	file := s.config("high_availability {\n  cluster {\n    name = \"network\"\n  }\n}\n")
	r := s.run("runner", "-config-file", file, "-launch", "l1")
	if r.code != exitError || !strings.Contains(r.stderr, "the store has no launch l1: the leader writes a launch before it starts this program") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}
