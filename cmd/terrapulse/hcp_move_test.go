package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/testtools"
)

// terraform runs Terraform in a folder as a person does, and returns what it prints.
func (s *site) terraform(folder, ca string, args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), testtools.Terraform(s.t), args...)
	cmd.Dir, cmd.Env = s.path(folder), append(cmd.Environ(), s.env...)
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+ca, "CHECKPOINT_DISABLE=1")
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("terraform %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// The state of a task is moved from driver "terraform" to HCP Terraform and back, as
// docs/hcp.md shows: nothing is made anew.
func TestHCP_StateIsMovedToHCPTerraformAndBack(t *testing.T) {
	s, hcp := newCloudSite(t)
	cloud := s.cloudFile(0, "")
	const local = "driver \"terraform\" {\n  backend \"local\" {}\n"
	here := strings.Replace(strings.Replace(cloud, "driver \"terraform-cloud\" {\n  workspace_prefix = \"cts\"\n", local, 1), "terraform_version = \"1.16.4\"", "", 1)
	file := s.write("cts.hcl", here)
	r := s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantRow(t, r.stdout, "lb", "succeeded", "1", "0", "0")

	s.write("cts.hcl", cloud)
	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitError)
	wantText(t, r.stdout+r.stderr, "task lb was applied with another driver, and the workspace cts-lb in HCP Terraform does not have its state")

	s.write("move/lb.tfstate", s.terraform(filepath.Join("sync-tasks", "lb"), "", "state", "pull"))
	s.write("move/cloud.tf", fmt.Sprintf("terraform {\n  cloud {\n    hostname = %q\n    token = %q\n    organization = %q\n    workspaces {\n      name = \"cts-lb\"\n    }\n  }\n}\n",
		strings.TrimPrefix(hcp.SecureURL, "https://"), hcp.Token, hcp.Organization))
	s.terraform("move", hcp.CA, "init")
	s.terraform("move", hcp.CA, "state", "push", "lb.tfstate")
	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitOK)
	wantRow(t, r.stdout, "lb", "succeeded", "0", "0", "0")
	if runs := hcp.Workspace("cts-lb").Runs; len(runs) != 1 || runs[0].Status != "planned_and_finished" {
		t.Errorf("runs: %+v", runs)
	}

	s.write("cts.hcl", here)
	if err := os.RemoveAll(s.path("sync-tasks/lb")); err != nil {
		t.Fatal(err)
	}
	r = s.run("-once", "-config-file", file)
	wantCode(t, r, exitError)
	wantText(t, r.stdout+r.stderr, "task lb was applied in HCP Terraform, in the workspace cts-lb, and the backend does not have its state")

	s.write("sync-tasks/lb/lb.tfstate", s.terraform("move", hcp.CA, "state", "pull"))
	s.terraform(filepath.Join("sync-tasks", "lb"), "", "state", "push", "lb.tfstate")
	for range 2 {
		r = s.run("-once", "-config-file", file)
		wantCode(t, r, exitOK)
		wantRow(t, r.stdout, "lb", "succeeded", "0", "0", "0")
	}
}
