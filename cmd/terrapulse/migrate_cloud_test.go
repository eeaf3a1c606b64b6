package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/process/migrate"
)

// leaveInCloud leaves the workspace of a task as Consul-Terraform-Sync Enterprise does after it
// has applied these services: they are in a variable of the workspace.
func (s *site) leaveInCloud(hcp *hcptest.Server, task, services string) {
	s.t.Helper()
	name := "cts-" + task
	hcp.Create(name, map[string]any{"auto-apply": true}, "source:cts")
	hcp.SetVariable(name, hcptest.Variable{Key: "services", Value: services, Category: "terraform", HCL: true})
	hcp.SetVariable(name, hcptest.Variable{Key: "file", Value: s.path(task + ".txt"), Category: "terraform"})
	hcp.SetVariable(name, hcptest.Variable{Key: "CREDENTIAL", Value: "of-the-task", Category: "env", Sensitive: true})
	hcp.UploadFiles(name, map[string]string{"mod/main.tf": s.read("mod/main.tf"), "main.tf": fmt.Sprintf(`
variable "services" {
  type = map(object({ name = string, address = string, port = number, status = string }))
}
variable "file" {
  type = string
}
module %q {
  source   = "./mod"
  services = var.services
  file     = var.file
}
`, task)})
	hcp.Await(hcp.Start(name, "cts"), "applied")
}

// allOf is everything that a check could change by mistake.
func allOf(hcp *hcptest.Server) map[string]hcptest.Workspace {
	all := map[string]hcptest.Workspace{}
	for _, name := range hcp.Workspaces() {
		w := hcp.Workspace(name)
		w.Runs, w.Versions = nil, nil // speculative ones
		all[name] = w
	}
	return all
}

func TestMigrateCheck_WorkspacesOfCTSEnterprise(t *testing.T) {
	s, hcp := newCloudSite(t)
	const services = `{ "web-1.consul-server.dc1" = { name = "web", address = "10.0.0.1", port = %d, status = "passing" } }`
	s.leaveInCloud(hcp, "same", fmt.Sprintf(services, 8080))
	s.leaveInCloud(hcp, "old", fmt.Sprintf(services, 8000)) // Consul has changed since
	hcp.Set("cts-old", map[string]any{"auto-apply": false})
	hcp.Create("cts-vcs", map[string]any{"vcs-repo": map[string]any{"identifier": "acme/network"}}, "source:cts")
	hcp.Create("cts-foreign", nil)
	hcp.Upload("cts-foreign")
	hcp.Create("cts-wins", nil)
	hcp.SetVariable("cts-wins", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform", HCL: true})
	head, _, _ := strings.Cut(s.cloudFile(0, ""), "\ntask {")
	head = strings.Replace(head, `workspace_prefix = "cts"`, `workspaces {
    prefix = "cts-"
    tags   = ["network"]
  }`, 1)
	tasks := ""
	for _, name := range []string{"same", "old", "new", "vcs", "foreign", "wins"} {
		tasks += s.task(name, `providers = ["local"]`+"\n"+onWeb)
	}
	file := s.write("cts.hcl", head+tasks+s.task("off", "enabled = false\n"+onWeb))
	before, written := allOf(hcp), s.read("same.txt")+s.read("old.txt")

	r := s.run("migrate", "check", "-config-file", file, "-detailed-exitcode", "-plan")
	wantCode(t, r, exitError)
	wantLine(t, r.stdout, "same nothing")
	wantLine(t, r.stdout, "old this 1 to add, 0 to change, 1 to destroy")
	wantLine(t, r.stdout, "new this it has no state in the workspace cts-new of HCP Terraform, so that everything would be created (1 to add, 0 to change, 0 to destroy)")
	wantLine(t, r.stdout, "vcs cannot be taken over the workspace cts-vcs", "connected to acme/network")
	wantLine(t, r.stdout, "foreign cannot be taken over", "another program has uploaded")
	wantLine(t, r.stdout, "wins cannot be taken over", "has a variable services, which replaces the data from Consul in each run: delete it there")
	wantLine(t, r.stdout, "off nothing it is disabled")
	wantLine(t, r.stdout, "Note: the first run of task same takes over the workspace cts-same of Consul-Terraform-Sync; adds the tags: network; "+
		"removes the variables that would replace what it uploads: file, services; writes again the secrets that the workspace has: CREDENTIAL; writes the secrets that this plan did not have: local.")
	wantLine(t, r.stdout, "Note: the first run of task old takes over", "waits for an approval, because the workspace cts-old is set to manual apply.")
	wantLine(t, r.stdout, "Note: the first run of task new creates the workspace cts-new.")
	wantText(t, r.stdout, "### Task old", "module.old.local_file.out: Plan to replace")
	if diff := cmp.Diff(before, allOf(hcp)); diff != "" {
		t.Errorf("the check changes workspaces: %s", diff)
	}
	if s.read("same.txt")+s.read("old.txt") != written || s.read("new.txt") != "" {
		t.Error("the check applies something")
	}

	// What it says is what happens.
	file = s.write("cts.hcl", head+s.task("same", `providers = ["local"]`+"\n"+onWeb))
	var m migrate.Report
	decode(t, s.run("migrate", "check", "-config-file", file, "-detailed-exitcode", "-json"), &m)
	if len(m.Tasks) != 1 || m.Tasks[0].Will != migrate.WillNothing || len(m.Tasks[0].FirstRun) != 5 {
		t.Errorf("the check says %+v", m.Tasks)
	}
	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantRow(t, r.stdout, "same", "succeeded", "0", "0", "0")
	w := hcp.Workspace("cts-same")
	var kept []string
	for _, v := range w.Variables {
		kept = append(kept, v.Key)
	}
	if diff := cmp.Diff([]string{"CREDENTIAL", "local"}, kept); diff != "" {
		t.Errorf("the first run leaves other variables: %s", diff)
	}
}
