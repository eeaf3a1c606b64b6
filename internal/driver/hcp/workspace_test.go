package hcp_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/driver"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

func TestDriver_RefusesWorkspacesOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(s *task)
		want    []string
	}{
		"connected to version control": {func(s *task) {
			s.hcp.Create("net-web", map[string]any{"vcs-repo": map[string]any{"identifier": "acme/network"}})
		}, []string{"connected to acme/network", "disconnect it"}},
		"local execution": {func(s *task) {
			s.hcp.Create("net-web", map[string]any{"execution-mode": "local"})
		}, []string{`execution mode is "local"`, "set it to remote or agent"}},
		"configuration of another program": {func(s *task) {
			s.hcp.Create("net-web", nil)
			s.hcp.Upload("net-web")
		}, []string{"another program has uploaded", "source:cts"}},
		"a tag that is denied": {func(s *task) {
			s.hcp.Create("net-web", nil, "prod", "frozen")
			s.job.Config.Cloud().TagsAllowlist, s.job.Config.Cloud().TagsDenylist = []string{"prod"}, []string{"frozen"}
		}, []string{"it has the tag frozen, which is in tags_denylist"}},
		"a tag that is denied, in other letters": {func(s *task) {
			s.hcp.Create("net-web", nil, "frozen")
			s.job.Config.Cloud().TagsDenylist = []string{"Frozen"}
		}, []string{"it has the tag frozen, which is in tags_denylist"}},
		"no tag that is allowed": {func(s *task) {
			s.hcp.Create("net-web", nil, "test")
			s.job.Config.Cloud().TagsAllowlist = []string{"prod", "stage"}
		}, []string{"none of the tags in tags_allowlist (prod, stage)"}},
		"tags of a new one": {func(s *task) {
			s.job.Config.Cloud().TagsAllowlist = []string{"prod"}
		}, []string{"cannot be created", "change workspaces.tags"}},
		"an agent pool that does not exist": {func(s *task) {
			s.job.Task.Cloud = config.CloudWorkspace{ExecutionMode: "agent", AgentPoolName: "edge"}
		}, []string{`no agent pool "edge"`}},
		"a token without rights": {func(s *task) {
			s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoWorkspaces: true})
		}, []string{"create the workspace net-web", "token"}},
		"a token that is revoked":             {func(s *task) { s.hcp.Revoke(s.hcp.Token) }, []string{"read the workspace net-web", "the token lacks a right or has expired"}},
		"an organization that does not exist": {func(s *task) { s.job.Config.Cloud().Organization = "other" }, []string{"check the organization other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTask(t, hcptest.WithoutTerraform())
			c.prepare(s)
			wait, _, err := s.step()
			if err == nil {
				t.Fatalf("the run goes on: %+v", wait)
			}
			contains(t, err.Error(), c.want...)
			if runs := s.runs(); len(runs) > 0 {
				t.Errorf("there are the runs %+v", runs)
			}
		})
	}
}

func TestDriver_WorkspaceOfConsulTerraformSyncIsTakenOver(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Create("net-web", map[string]any{"auto-apply": true}, config.CloudTag)
	s.hcp.Upload("net-web")
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform", HCL: true})
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "name", Value: "old", Category: "terraform"})
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "other", Value: "kept", Category: "terraform"})
	s.job.Config.Cloud().NotificationURL, s.job.Config.Cloud().NotificationToken = receiver(t), "signing-secret"
	s.succeeds()
	w := s.hcp.Workspace("net-web")
	if len(w.Variables) != 1 || w.Variables[0].Key != "other" || s.rec.Created {
		t.Errorf("the workspace has the variables %+v, and %+v was recorded", w.Variables, s.rec)
	}

	s.next("run2")
	s.job.Run.Kind = state.KindDestroy
	s.withProvider("x-secret")
	s.succeeds()
	w = s.hcp.Workspace("net-web")
	if w.ID == "" {
		t.Error("a workspace that Terrapulse has not created was deleted")
	}
	if len(w.Variables) != 1 || w.Variables[0].Key != "other" || s.hcp.Count("DELETE notification-configurations/*") != 1 || len(s.rec.Variables) > 0 || s.rec.Notification != "" {
		t.Errorf("it keeps the variables %+v, and %+v is recorded", w.Variables, s.rec)
	}
	contains(t, s.out.String(), "was not created by Terrapulse: it is left as it is, without the secrets of the task")
}

func TestDriver_TakenOverDataIsNotReplacedByAVariableSet(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Create("net-web", nil, config.CloudTag)
	s.hcp.Upload("net-web")
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform", HCL: true})
	s.hcp.Inherit("net-web", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform", HCL: true})
	_, _, err := s.step()
	if err == nil {
		t.Fatal("a run begins although a variable set replaces its data")
	}
	contains(t, err.Error(), "inherits a variable services from a variable set")
}

func TestDriver_WorkspaceThatTheTokenMayNotDeleteIsNamed(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.withProvider("x-secret")
	s.succeeds()
	s.hcp.Restrict(s.hcp.Token, hcptest.Rights{NoDelete: true})
	s.next("run2")
	s.job.Run.Kind = state.KindDestroy
	s.succeeds()
	if w := s.hcp.Workspace("net-web"); w.ID == "" || len(w.Variables) > 0 {
		t.Errorf("the workspace is %+v", w)
	}
	contains(t, s.out.String(), "The workspace net-web is not deleted: HCP Terraform says that the token may not delete it.")
}

func TestDriver_WorkspaceKeepsTheExecutionModeThatNobodyNames(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.pool("edge")
	s.job.Task.Cloud = config.CloudWorkspace{ExecutionMode: "agent", AgentPoolName: "edge"}
	s.succeeds()
	s.job.Task.Cloud = config.CloudWorkspace{}
	s.next("run2")
	s.name("two")
	s.succeeds()
	if mode := s.hcp.Workspace("net-web").Attributes["execution-mode"]; mode != "agent" {
		t.Errorf("its execution mode is %v", mode)
	}
}

func TestDriver_TagsInCapitalLettersAreThoseOfTheWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Config.Cloud().Tags = append(s.job.Config.Cloud().Tags, "Prod")
	s.job.Config.Cloud().TagsAllowlist = []string{"Prod"}
	for _, id := range []string{"run1", "run2"} {
		s.next(id)
		s.name(id)
		s.succeeds()
	}
	if n := s.hcp.Count("POST workspaces/*/relationships/tags"); n != 0 {
		t.Errorf("tags that the workspace has were added %d times", n)
	}
}

func TestDriver_WorkspaceGetsWhatTheTaskSays(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Config.Cloud().Tags = append(s.job.Config.Cloud().Tags, "network")
	s.job.Task.Description = "the web tier"
	s.succeeds()
	w := s.hcp.Workspace("net-web")
	for name, want := range map[string]any{"description": "the web tier", "execution-mode": "remote", "auto-apply": true, "source-name": "Terrapulse"} {
		if w.Attributes[name] != want {
			t.Errorf("%s is %v, want %v", name, w.Attributes[name], want)
		}
	}
	if !slices.Equal(w.Tags, []string{"network", "source:cts"}) {
		t.Errorf("the tags are %v", w.Tags)
	}

	s.hcp.Untag("net-web", "network")
	s.job.Task.Cloud.TerraformVersion = "1.9.8"
	s.next("run2")
	s.succeeds()
	w = s.hcp.Workspace("net-web")
	if !slices.Contains(w.Tags, "network") || w.Attributes["terraform-version"] != "1.9.8" {
		t.Errorf("afterwards it has %v and Terraform %v", w.Tags, w.Attributes["terraform-version"])
	}
}

func TestDriver_RenamedTaskKeepsItsWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	id := s.rec.Workspace

	s.rec = state.Remote{}
	s.job.Task.Name = "site"
	s.next("run2")
	s.job.Run.Moves = &state.Move{From: []string{"web"}, Expected: true}
	s.succeeds()
	if names := s.hcp.Workspaces(); !slices.Equal(names, []string{"net-site"}) || s.rec.Workspace != id || !s.rec.Created {
		t.Errorf("there are the workspaces %v, and %+v was recorded", names, s.rec)
	}

	// The record of the task has been taken along.
	s.job.Task.Name = "edge"
	s.next("run2b")
	s.job.Run.Moves = &state.Move{From: []string{"site"}, Expected: true}
	s.succeeds()
	if names := s.hcp.Workspaces(); !slices.Equal(names, []string{"net-edge"}) || s.rec.Workspace != id {
		t.Errorf("there are the workspaces %v, and %+v was recorded", names, s.rec)
	}

	s.rec = state.Remote{}
	s.job.Task.Name = "third"
	s.next("run3")
	s.job.Run.Moves = &state.Move{From: []string{"second"}, Expected: true}
	if _, _, err := s.step(); err == nil || !strings.Contains(err.Error(), "there is no workspace net-second to rename") {
		t.Errorf("a workspace that is missing: %v", err)
	}
}

// A task is renamed twice before a run of the second name: the workspace has the first name, and
// its state has the module under that name.
func TestDriver_TaskThatWasRenamedTwiceKeepsItsWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.succeeds()
	s.rec = state.Remote{}
	s.job.Task.Name = "edge"
	s.next("run2")
	s.job.Run.Moves = &state.Move{From: []string{"site", "web"}, Expected: true}
	var destroys int
	s.job.Judge = func(_ context.Context, p driver.Plan) error {
		destroys = p.Changes.Destroy
		return nil
	}
	s.succeeds()
	if names := s.hcp.Workspaces(); !slices.Equal(names, []string{"net-edge"}) || destroys > 0 {
		t.Errorf("there are the workspaces %v; %d resources would be destroyed", names, destroys)
	}
}

func TestDriver_TaskOfAnotherDriverIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.job.Applied = true
	for what, step := range map[string]func() error{
		"apply":   func() error { _, err := s.driver.Apply(t.Context(), s.job); return err },
		"destroy": func() error { _, err := s.driver.Destroy(t.Context(), s.job); return err },
	} {
		if err := step(); err == nil || !strings.Contains(err.Error(), "was applied with another driver, and the workspace net-web in HCP Terraform does not have its state") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names := s.hcp.Workspaces(); len(names) > 0 {
		t.Errorf("it leaves the workspaces %v", names)
	}

	// With a state in the workspace, the task goes on there.
	s.job.Applied = false
	s.succeeds()
	s.rec = state.Remote{}
	s.job.Applied = true
	s.next("run2")
	s.succeeds()

	// A person must see what is made anew with a state that may be an older one.
	var causes []state.Cause
	s.job.Judge = func(_ context.Context, p driver.Plan) error {
		causes = p.Causes
		return nil
	}
	s.rec = state.Remote{}
	s.next("run3")
	s.module(module + `resource "terraform_data" "newer" {}`)
	s.succeeds()
	if len(causes) != 1 || causes[0].Rule != state.RuleApproval || !strings.Contains(causes[0].Text, "another driver has applied the task before") || s.rec.Moved {
		t.Errorf("the causes are %+v, and %+v was recorded", causes, s.rec)
	}
	s.next("run4")
	s.module(module + `resource "terraform_data" "newest" {}`)
	if s.succeeds(); len(causes) > 0 {
		t.Errorf("a run after one that has succeeded: %+v", causes)
	}
	s.next("run5")
	s.job.Run.Kind = state.KindDestroy
	if s.succeeds(); s.rec.Applied || len(causes) > 0 {
		t.Errorf("after a destroy, %+v is recorded; causes: %+v", s.rec, causes)
	}

	// A task that was applied in HCP Terraform may have no resources.
	empty := newTask(t, hcptest.WithoutTerraform())
	empty.succeeds()
	empty.job.Applied = true
	empty.next("run2")
	empty.succeeds()
}

func TestDriver_TaskKeepsAWorkspaceThatAPersonRenamed(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.Hold("planning")
	s.waits(state.WaitRemotePlan)
	s.hcp.Await(s.rec.Run.ID, "planning")
	s.hcp.Set("net-web", map[string]any{"name": "renamed"})
	s.poll(state.RemoteEnded) // it is not found under its former name
	s.waits(state.WaitRemotePlan)
	hold.Release()
	s.poll(state.RemoteReady)
	s.succeeds()
	if runs := s.hcp.Workspace("renamed").Runs; len(runs) != 1 || runs[0].Status != "applied" {
		t.Errorf("the runs are %+v", runs)
	}
}

// A plan has created it, and has deleted it while a run began there.
func TestDriver_WorkspaceInWhichNothingWasAppliedIsCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.rec = state.Remote{Workspace: "ws-gone", Name: "net-web", Created: true}
	s.succeeds()
	if s.rec.Workspace == "ws-gone" || !s.rec.Applied {
		t.Errorf("recorded: %+v", s.rec)
	}
}

func TestDriver_DestroyInAWorkspaceThatIsGoneFailsOnlyIfSomethingMayHaveBeenApplied(t *testing.T) {
	t.Parallel()
	gone := state.Remote{Workspace: "ws-gone", Name: "net-web", Created: true}
	for name, begun := range map[string]state.RemoteRun{
		"no run":                         {},
		"a run":                          {ID: "run-1", Workspace: "net-web"},
		"a run whose creation was asked": {Version: "cv-1", Workspace: "net-web"}, // the answer was lost
	} {
		s := newTask(t, hcptest.WithoutTerraform())
		s.job.Run.Kind, s.rec = state.KindDestroy, gone
		s.rec.Run = begun
		_, err := s.driver.Destroy(t.Context(), s.job)
		if begun.Workspace != "" {
			if err == nil {
				t.Fatalf("%s: a destroy succeeds although a run may have been confirmed there", name)
			}
			contains(t, err.Error(), "is gone, or the token may not read it")
		} else if err != nil {
			t.Errorf("nothing was applied, and the destroy fails: %v", err)
		}
	}
}

func TestDriver_WorkspaceThatIsGoneIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	s.hcp.Delete("net-web")
	s.next("run2")
	_, _, err := s.step()
	if err == nil {
		t.Fatal("a run begins without the state")
	}
	contains(t, err.Error(), "net-web", "is gone, or the token may not read it", "create an empty one called net-web to begin anew")
	s.hcp.Create("net-web", nil)
	s.next("run3")
	s.succeeds()
}

func TestDriver_WorkspaceOfAnEarlierOrganizationIsNotUsed(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	s.job.Config.Cloud().Organization = "another"
	s.next("run2")
	_, _, err := s.step()
	if err == nil {
		t.Fatal("a run begins in the earlier organization")
	}
	contains(t, err.Error(), "is not in the organization another", "move the state to a workspace net-web")
}

func TestDriver_TextSaysWhyARunDoesNotGoOn(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Create("net-web", nil)
	s.hcp.Lock("net-web", "jane")
	wait := s.waits(state.WaitRemotePlan)
	contains(t, wait.Wait.Text, "pending: the workspace net-web is locked by jane: unlock it in HCP Terraform")
	contains(t, s.poll(state.RemotePlanning).Text, "pending: the workspace net-web is locked")
	s.hcp.Unlock("net-web")
	s.poll(state.RemoteReady)
	s.succeeds()

	s.hcp.Check(hcptest.Checks{Policy: "soft_failed"})
	s.next("run2")
	s.name("two")
	s.waits(state.WaitRemotePlan)
	s.hcp.Await(s.rec.Run.ID, "policy_override")
	contains(t, s.poll(state.RemotePlanning).Text, "policy_override: a policy or a run task refuses the plan: override it in HCP Terraform")
	s.hcp.Override(s.rec.Run.ID, "jane")
	s.pollPast(state.RemotePlanning)
	s.succeeds()
}

func TestDriver_ConnectsWithAPrivateAuthority(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Config.Cloud().Hostname = s.hcp.SecureURL
	if _, _, err := s.step(); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server with an unknown authority: %v", err)
	}
	s.job.Config.Cloud().TLS = config.ClientTLS{Enabled: true, CACert: s.hcp.CA, Verify: true}
	s.next("run2")
	s.succeeds()
}

func TestDriver_AgentsCarryOutRuns(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	pool := s.pool("edge")
	s.job.Task.Cloud = config.CloudWorkspace{ExecutionMode: "agent", AgentPoolName: "edge"}
	s.succeeds()
	api, err := hcp.NewClient(hcp.Connection{Address: s.hcp.URL, Token: s.hcp.Token})
	if err != nil {
		t.Fatal(err)
	}
	w, err := api.WorkspaceByID(t.Context(), s.rec.Workspace)
	if err != nil || w.ExecutionMode != "agent" || w.AgentPool != pool {
		t.Errorf("the workspace is %+v: %v", w, err)
	}
	s.next("run2")
	s.name("two")
	before := len(s.hcp.Requests())
	s.succeeds()
	for _, request := range s.hcp.Requests()[before:] {
		if strings.HasPrefix(request, "PATCH workspaces/") {
			t.Errorf("settings that have not changed are written again: %s", request)
		}
	}
}

func TestUpload_IsTheSameFromEachProcess(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Task.Module = filepath.Join(filepath.Dir(s.job.Task.Module), "stacks", "web")
	s.module(module + "module \"dns\" {\n  source = \"../dns\"\n}\n")
	s.write("templates/run.sh", "#!/bin/sh\n")
	s.write("../dns/main.tf", "resource \"terraform_data\" \"dns\" {}\n")
	s.write("../dns/.terraform/leftover", "x")
	s.waits(state.WaitRemotePlan)
	first := s.rec
	files := s.runs()[0].Upload
	for _, name := range []string{"main.tf", "variables.tf", "variables.auto.tfvars", "terrapulse.auto.tfvars"} {
		if files[name] == "" {
			t.Errorf("%s is not in the upload: %v", name, files)
		}
	}
	modules := 0
	for name := range files {
		if strings.HasPrefix(name, "modules/") {
			modules++
		}
		if strings.Contains(name, "leftover") || name == "providers.auto.tfvars" || name == "terraform.tfvars" {
			t.Errorf("%s is in the upload", name)
		}
	}
	if modules != 3 {
		t.Errorf("the upload has %d files of modules: %v", modules, files)
	}
	s.driver = s.newDriver()
	s.poll(state.RemoteReady)
	s.succeeds()
	if s.rec.Content != first.Content || len(s.runs()) != 1 {
		t.Errorf("the same files have another digest: %+v", s.rec)
	}
}
