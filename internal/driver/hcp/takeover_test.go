package hcp_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// usedBefore is the workspace as Consul-Terraform-Sync leaves it: variables have the data.
func (s *task) usedBefore() {
	s.t.Helper()
	s.hcp.Create("net-web", map[string]any{"auto-apply": true}, config.CloudTag)
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "services", Value: `{ "old" = { port = 1 } }`, Category: "terraform", HCL: true})
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "name", Value: "old", Category: "terraform"})
	s.hcp.UploadFiles("net-web", map[string]string{"main.tf": `
variable "services" { type = any }
variable "name" { type = string }
module "web" {
  source   = "./modules"
  services = var.services
  name     = var.name
}`, "modules/main.tf": module})
	s.hcp.Await(s.hcp.Start("net-web", "cts"), "applied")
}

// untouched is what a plan must not change of the workspace.
func (s *task) untouched() hcptest.Workspace {
	w := s.hcp.Workspace("net-web")
	w.Runs, w.Versions = nil, nil
	return w
}

// The variables of Consul-Terraform-Sync stay, and do not replace the data of the plan.
func TestDriver_PlanBeforeATakeoverHasTheTasksOwnData(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.usedBefore()
	before := s.untouched()
	const value = "two \"${quoted}\"\nlines"
	s.job.Task.Variables = map[string]cty.Value{"name": cty.StringVal(value)}
	plan, err := s.driver.Plan(t.Context(), s.job)
	if err != nil || plan.Changes.Change != 1 || plan.Changes.Add+plan.Changes.Destroy != 0 || plan.New || len(plan.Setup) > 0 {
		t.Fatalf("the plan is %+v: %v", plan, err)
	}
	if after := plan.Resources[0].Attributes[0].After; after != value {
		t.Errorf("the plan gives the module %q", after)
	}
	s.name("old")
	s.job.Snapshot = &consul.Snapshot{Blocks: []consul.Block{{Variable: "services"}}}
	if plan, err = s.driver.Plan(t.Context(), s.job); err != nil || plan.Changes.Any() {
		t.Errorf("with the same data, the plan is %+v: %v", plan, err)
	}
	if diff := cmp.Diff(before, s.untouched()); diff != "" {
		t.Errorf("a plan changes the workspace: %s", diff)
	}
}

func TestDriver_UntouchedWorkspacesAreComparedWithTheTask(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.usedBefore()
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "PRESENT", Value: "x", Category: "env", Sensitive: true})
	s.hcp.Lock("net-web", "jane")
	s.hcp.Set("net-web", map[string]any{"auto-apply": false})
	s.job.Config.Cloud().Tags = append(s.job.Config.Cloud().Tags, "network")
	s.job.Config.Cloud().NotificationURL = "https://terrapulse.example.com/v1/notifications/terraform-cloud"
	s.job.Task.Cloud = config.CloudWorkspace{ExecutionMode: "agent", AgentPoolID: s.pool("edge"), TerraformVersion: "1.9.8"}
	s.job.Config.Providers = []config.Provider{{Name: "local", Env: map[string]string{"PRESENT": "secret-1", "MISSING": "secret-2"}}}
	s.job.Task.Providers = []string{"local"}
	s.driver.Untouched = true
	before := s.untouched()

	plan, err := s.driver.Plan(t.Context(), s.job)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, strings.Join(plan.Setup, "\n"),
		"takes over the workspace net-web of Consul-Terraform-Sync\n", "sets its Terraform to 1.9.8 (this plan was made with ", "sets its execution mode to agent instead of remote\n",
		"sets another agent pool\n", "adds the tags: network\n", "waits until the workspace is unlocked (it is locked by jane)\n",
		"removes the variables that would replace what it uploads: name, services\n", "writes again the secrets that the workspace has: PRESENT\n",
		"writes the secrets that this plan did not have: MISSING, local\n", "sets up a notification to https://terrapulse.example.com/")
	if len(plan.Causes) != 1 || !strings.Contains(plan.Causes[0].Text, "manual apply") {
		t.Errorf("an approval is needed because of %+v", plan.Causes)
	}
	if diff := cmp.Diff(before, s.untouched()); diff != "" {
		t.Errorf("the plan changes the workspace: %s", diff)
	}

	// The first run of a task without a workspace has nothing to take over.
	s.job.Task.Name = "site"
	if plan, err = s.driver.Plan(t.Context(), s.job); err != nil || !cmp.Equal(plan.Setup, []string{"creates the workspace net-site"}) {
		t.Errorf("without a workspace, the first run %v: %v", plan.Setup, err)
	}
	if names := s.hcp.Workspaces(); len(names) != 1 {
		t.Errorf("the plan leaves the workspaces %v", names)
	}
}

func TestDriver_FailedPlanOfAnUntouchedWorkspaceNamesTheSecretsThatItLacks(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.usedBefore()
	s.withProvider("the-secret")
	s.module(module + "resource \"terraform_data\" \"checked\" {\n  lifecycle {\n    precondition {\n      condition     = var.name == \"the-secret\"\n      error_message = \"Another name.\"\n    }\n  }\n}\n")
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "local", Value: "{}", Category: "terraform", HCL: true, Sensitive: true})
	s.driver.Untouched = true
	_, err := s.driver.Plan(t.Context(), s.job)
	if err == nil {
		t.Fatal("a plan with another secret succeeds")
	}
	contains(t, err.Error(), "Another name.", "the plan was made without these secrets, which the workspace net-web does not have before the first run: APP_TOKEN")
}
