package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// newCloudSite is a site whose tasks run in a stand-in of HCP Terraform. The token is in the
// environment of processes.
func newCloudSite(t *testing.T, options ...hcptest.Option) (*site, *hcptest.Server) {
	t.Helper()
	s, hcp := newParallelSite(t), hcptest.New(t, options...)
	s.env = append(s.env, "TFC_HOSTNAME="+hcp.URL, "TFC_ORGANIZATION="+hcp.Organization, "TFC_TOKEN="+hcp.Token)
	s.register("web", "web-1", 8080, "passing")
	return s, hcp
}

// cloudConfig writes a task file of Consul-Terraform-Sync Enterprise, with deprecated keys.
func (s *site) cloudConfig(port int, more string) string {
	return s.write("cts.hcl", s.cloudFile(port, more))
}

func (s *site) cloudFile(port int, more string) string {
	s.write("lb.tfvars", fmt.Sprintf("file = %q\n", s.path("lb.txt")))
	return fmt.Sprintf(`
license_path = "/opt/consul/license.hclic"
port         = %d
consul {
  address = %q
}
buffer_period {
  enabled = false
}
driver "terraform-cloud" {
  workspace_prefix = "cts"
  required_providers {
    local = {
      source = "hashicorp/local"
    }
  }
}
terraform_provider "local" {
  task_env {
    "CREDENTIAL" = "{{ env \"TFC_TOKEN\" }}-of-the-task"
  }
}
task {
  name              = "lb"
  description       = "load balancer"
  source            = "./mod"
  providers         = ["local"]
  services          = ["web"]
  terraform_version = "1.16.4"
  variable_files    = ["lb.tfvars"]
  %s
}
`, port, s.consul.Addr(), more)
}

// shown returns the runs of a task, the newest first.
func (s *site) shown(task string) (runs []apispec.Run) {
	s.t.Helper()
	r := s.runInTest("runs", "-json", task)
	if err := json.Unmarshal([]byte(r.stdout), &runs); err != nil {
		s.t.Fatalf("%v: %s%s", err, r.stdout, r.stderr)
	}
	return runs
}

// The workspace is one that Consul-Terraform-Sync has left, with the data from Consul in a
// variable, which would win over what Terrapulse uploads.
func TestHCP_TaskFileOfCTSEnterpriseRunsUnchanged(t *testing.T) {
	s, hcp := newCloudSite(t)
	hcp.Create("cts-lb", map[string]any{"auto-apply": true, "execution-mode": "remote"}, "source:cts")
	hcp.SetVariable("cts-lb", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform", HCL: true})
	hcp.Upload("cts-lb")
	port := testtools.FreePort(t)
	p := s.start("-config-file", s.cloudConfig(port, ""), "-log-level", "DEBUG")

	eventually(t, "the service is applied", func() bool { return s.read("lb.txt") == "web 10.0.0.1:8080 passing\n" })
	eventually(t, "the run has succeeded", func() bool { return s.shown("lb")[0].State == apispec.RunStateSucceeded })
	s.register("web", "web-2", 8081, "passing")
	eventually(t, "the change is applied", func() bool { return strings.Contains(s.read("lb.txt"), "8081") })

	w := hcp.Workspace("cts-lb")
	if len(hcp.Workspaces()) != 1 || len(w.Runs) != 2 || !slices.Contains(w.Tags, "source:cts") || w.Attributes["terraform-version"] != "1.16.4" {
		t.Errorf("workspaces %v: %d runs, tags %v, %v", hcp.Workspaces(), len(w.Runs), w.Tags, w.Attributes)
	}
	for _, r := range w.Runs {
		if r.AutoApply || strings.Contains(r.Upload["main.tf"], "backend") {
			t.Errorf("run %s applies by itself: %v; its module is\n%s", r.ID, r.AutoApply, r.Upload["main.tf"])
		}
		for name, text := range r.Upload {
			if strings.Contains(text, hcp.Token) {
				t.Errorf("%s has the token:\n%s", name, text)
			}
		}
	}
	for _, v := range w.Variables {
		if v.Key == "services" || v.Key == "CREDENTIAL" && (!v.Sensitive || v.Value != hcp.Token+"-of-the-task") {
			t.Errorf("the workspace has the variable %+v", v)
		}
	}

	var second apispec.Run
	eventually(t, "both runs are shown as succeeded", func() bool {
		runs := s.shown("lb")
		second = runs[0]
		return len(runs) == 2 && second.State == apispec.RunStateSucceeded
	})
	if second.Remote == nil || !strings.Contains(second.Remote.URL, "/runs/"+w.Runs[1].ID) {
		t.Errorf("the run shows %+v as its page, want that of %s", second.Remote, w.Runs[1].ID)
	}
	wantText(t, s.runInTest("runs", "lb").stdout, "in HCP Terraform: "+hcp.URL)
	wantText(t, s.runInTest("logs", "lb").stdout, "Apply complete!")

	m := &member{p, "", port}
	status, answer := m.call("POST", "/v1/tasks?run=inspect", `{"task":{"name":"new","module":"./mod","condition":{"services":{"names":["web"]}},"variables":{"file":"\"/none/x\""},
		"terraform_version":"","terraform_cloud_workspace":{"terraform_version":"1.16.4"}}}`)
	if status != 200 || !strings.Contains(answer, `"tfc_run_url":"`+hcp.URL) || !strings.Contains(answer, `"terraform_version":"1.16.4"`) {
		t.Errorf("an inspection answers %d %s", status, answer)
	}
	if names := hcp.Workspaces(); len(names) != 1 {
		t.Errorf("an inspection leaves the workspaces %v", names)
	}
	status, answer = m.call("POST", "/v1/tasks?run=now", fmt.Sprintf(`{"task":{"name":"new","module":"./mod","condition":{"services":{"names":["web"]}},"variables":{"file":%q}}}`, strconv.Quote(s.path("new.txt"))))
	if made := hcp.Workspace("cts-new"); status != 201 || len(made.Runs) != 1 || made.Runs[0].Status != "applied" || !strings.Contains(answer, "/runs/"+made.Runs[0].ID) {
		t.Errorf("a task that is created with a run: %d %s, %+v", status, answer, made)
	}
	if code := p.stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	wantText(t, p.stderr.String(), "terraform_version is deprecated", "remote_url="+hcp.URL)

	secret := []string{p.stderr.String()}
	files, err := filepath.Glob(s.path("state.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		secret = append(secret, string(text))
	}
	for i, text := range secret {
		if strings.Contains(text, hcp.Token) {
			t.Errorf("the token is in the log (0) or the store: %d", i)
		}
	}
}

// Once-mode waits until HCP Terraform has applied.
func TestHCP_OnceWaitsForTheApplyAndInspectAppliesNothing(t *testing.T) {
	s, hcp := newCloudSite(t)
	file := s.cloudConfig(0, "")
	wantCode(t, s.run("validate", "-config-file", file), exitOK)

	r := s.run("-inspect", "-config-file", file)
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "### Task lb", "Plan: 1 to add, 0 to change, 0 to destroy.")
	if s.read("lb.txt") != "" || len(hcp.Workspaces()) != 0 {
		t.Errorf("an inspection has made %q, and leaves %v", s.read("lb.txt"), hcp.Workspaces())
	}

	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	if s.read("lb.txt") != "web 10.0.0.1:8080 passing\n" || len(hcp.Workspace("cts-lb").Runs) != 1 {
		t.Errorf("applied %q with %d runs", s.read("lb.txt"), len(hcp.Workspace("cts-lb").Runs))
	}
	wantRow(t, r.stdout, "lb", "succeeded", "1", "0", "0")

	s.env = slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "TFC_TOKEN=") })
	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitConfig)
	wantText(t, r.stderr, "driver.terraform-cloud.token: token is required; set the environment variable TFC_TOKEN")
}

// The plan of a what-if is a speculative run with the data that is supposed; the workspace stays as it is.
func TestHCP_WhatIfPlansWithWhatIsLeft(t *testing.T) {
	s, hcp := newCloudSite(t)
	for n := 2; n <= 6; n++ {
		s.register("web", fmt.Sprint("web-", n), 8079+n, "passing")
	}
	file := s.cloudConfig(0, "")
	wantCode(t, s.run("-once", "-config-file", file), exitOK)
	applied, before := s.read("lb.txt"), hcp.Workspace("cts-lb")

	r := s.run("inspect", "-http-addr", s.start("-config-file", file).served(), "-without", "instance=web-2")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "### Task lb", "module.lb.local_file.out: Plan to replace", "would be applied: 1 to add, 0 to change, 1 to destroy", "1 task: 1 would be applied")
	// With task files, it has the records of the store.
	r = s.run("inspect", "-config-file", file, "-without", "instance=web-2")
	wantCode(t, r, exitOK)
	wantText(t, r.stdout, "would be applied: 1 to add, 0 to change, 1 to destroy")
	after := hcp.Workspace("cts-lb")
	if s.read("lb.txt") != applied || !reflect.DeepEqual(after.Variables, before.Variables) {
		t.Errorf("applied is %q, the variables are %+v", s.read("lb.txt"), after.Variables)
	}
	for _, run := range after.Runs[len(before.Runs):] {
		if !run.PlanOnly {
			t.Errorf("run %s is not speculative", run.ID)
		}
	}
	if len(after.Runs) == len(before.Runs) {
		t.Error("the workspace has no run of the what-if")
	}
}

// A plan that waits can be approved with Terrapulse and in HCP Terraform.
func TestHCP_ApprovalInEitherSystemCounts(t *testing.T) {
	s, hcp := newCloudSite(t)
	s.env = slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, "TFC_TOKEN=") })
	s.env = append(s.env, "TEAM_TOKEN="+hcp.Token)
	port := testtools.FreePort(t)
	file := s.write("cts.hcl", strings.Replace(s.cloudFile(port, `approval = "always"`), `workspace_prefix = "cts"`, fmt.Sprintf(`workspace_prefix = "cts"
  token            = "{{ env \"TEAM_TOKEN\" }}"
  notification {
    url   = "http://127.0.0.1:%d/v1/notifications/terraform-cloud"
    token = "{{ env \"TFC_ORGANIZATION\" }}-key"
  }`, port), 1))
	p := s.start("-config-file", file)
	waits := func() (run apispec.Run) {
		t.Helper()
		eventually(t, "the run waits for an approval", func() bool {
			runs := s.runInTest("runs", "-json", "lb")
			if !strings.HasPrefix(runs.stdout, "[") {
				return false
			}
			run = s.shown("lb")[0]
			return run.Wait != nil && run.Wait.For == apispec.WaitForApproval
		})
		return run
	}
	first := waits()
	wantCode(t, s.run("approve", "-config-file", file, "lb"), exitOK)
	wantText(t, s.runInTest("status").stdout, "in HCP Terraform:", hcp.URL+"/app/")
	hcp.Await(hcp.Workspace("cts-lb").Runs[0].ID, "applied")
	eventually(t, "it is applied", func() bool { return s.shown("lb")[0].State == apispec.RunStateSucceeded })

	s.register("web", "web-2", 8081, "passing")
	eventually(t, "another run begins", func() bool { return s.shown("lb")[0].ID != first.ID })
	waits()
	hcp.Confirm(hcp.Workspace("cts-lb").Runs[1].ID, "jane")
	eventually(t, "that is applied, too", func() bool { return s.shown("lb")[0].State == apispec.RunStateSucceeded })
	if by := apispec.Deref(s.shown("lb")[0].ApprovedBy); !strings.HasPrefix(by, "jane") {
		t.Errorf("it was approved by %q", by)
	}
	// HCP Terraform enables only a notification whose destination accepts it.
	if log := p.stderr.String(); hcp.Count("POST workspaces/*/notification-configurations") != 1 || strings.Contains(log, "sends no notifications") {
		t.Errorf("notifications are not set up:\n%s", log)
	}
	if !strings.Contains(s.read("lb.txt"), "8081") {
		t.Errorf("applied: %s", s.read("lb.txt"))
	}
}
