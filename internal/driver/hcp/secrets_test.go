package hcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sync/errgroup"

	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
	"github.com/terrapulse/terrapulse/internal/taskfile/values"
)

// withProvider gives the task a provider with a secret argument and a secret in task_env.
func (s *task) withProvider(password string) {
	s.job.Config.Providers = []config.Provider{{Name: "local", Body: config.Body{Attributes: map[string]cty.Value{}},
		Env: map[string]string{"APP_TOKEN": "secret-of-env"}}}
	s.job.Task.Providers = []string{"local"}
	s.job.Task.Variables = nil
	s.job.Task.VariableTemplates = map[string]string{"name": `{{ env "PASSWORD" }}`}
	s.values(password)
}

// values makes the templates of the task have this value.
func (s *task) values(password string) {
	s.driver = hcp.New(hcp.Options{Values: values.Simple{Look: func(context.Context, string, []string) (string, error) { return password, nil }}})
}

// variables are the variables of the workspace by their names.
func (s *task) variables() map[string]hcptest.Variable {
	all := map[string]hcptest.Variable{}
	for _, v := range s.hcp.Workspace("net-web").Variables {
		all[v.Key] = v
	}
	return all
}

// writes are how many variables were written since.
func (s *task) writes(since int) (n int) {
	for _, request := range s.hcp.Requests()[since:] {
		if strings.Contains(request, "/vars") && !strings.HasPrefix(request, "GET") {
			n++
		}
	}
	return n
}

func TestDriver_SecretsAreVariablesOfTheWorkspace(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.module(strings.ReplaceAll(module, `input = var.name`, `input = nonsensitive(var.name)`))
	const password = "secret ${of} %{a} \"template\""
	s.withProvider(password)
	s.succeeds()
	v := s.variables()
	if env := v["APP_TOKEN"]; env.Category != "env" || !env.Sensitive || env.Value != "secret-of-env" {
		t.Errorf("task_env is %+v", env)
	}
	if name := v["name"]; name.Category != "terraform" || !name.Sensitive || !name.HCL {
		t.Errorf("the template is %+v", name)
	}
	state := string(s.hcp.Workspace("net-web").State)
	if want, _ := json.Marshal(password); !strings.Contains(state, string(want)) {
		t.Errorf("Terraform got another value: %s", state)
	}
	recorded, err := json.Marshal(s.rec)
	if err != nil {
		t.Fatal(err)
	}
	upload := ""
	for name, text := range s.runs()[0].Upload {
		upload += name + "\n" + text
	}
	for where, text := range map[string]string{"output": s.out.String(), "record": string(recorded), "upload": upload} {
		for _, secret := range []string{password, "secret-of-env", "%{a}", s.hcp.Token} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s shows %q:\n%s", where, secret, text)
			}
		}
	}

	since := len(s.hcp.Requests())
	s.next("run2")
	s.succeeds()
	if n := s.writes(since); n != 0 {
		t.Errorf("%d variables that have not changed were written again", n)
	}
	since = len(s.hcp.Requests())
	s.values("another")
	s.next("run3")
	s.succeeds()
	if n := s.writes(since); n != 1 {
		t.Errorf("%d variables were written, but one has changed", n)
	}
	s.job.Config.Providers, s.job.Task.Providers = nil, nil
	s.next("run4")
	s.succeeds()
	if _, left := s.variables()["APP_TOKEN"]; left {
		t.Error("a secret that is not needed any more is left")
	}
}

func TestDriver_VariableThatIsDeletedThereIsWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.withProvider("x-secret")
	s.hcp.Create("net-web", nil)
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "APP_TOKEN", Value: "of a person", Category: "env"})
	s.succeeds()
	if v := s.variables()["APP_TOKEN"]; v.Value != "secret-of-env" || !v.Sensitive {
		t.Errorf("a variable that a person has written is %+v", v)
	}
}

// TestDriver_SensitiveVariableThatDiffersIsReplaced has a server that changes nothing of a sensitive
// variable but its value.
func TestDriver_SensitiveVariableThatDiffersIsReplaced(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform(), hcptest.With(hcptest.ValueOnly))
	s.withProvider("x-secret")
	s.hcp.Create("net-web", nil)
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "name", Value: "of a person", Category: "terraform", Sensitive: true})
	s.succeeds()
	if v := s.variables()["name"]; !v.HCL || !v.Sensitive || !strings.Contains(v.Value, "x-secret") {
		t.Errorf("a sensitive variable that is not HCL is %+v", v)
	}
	s.next("run2")
	s.values("y-secret")
	s.succeeds()
	if v := s.variables()["name"]; !strings.Contains(v.Value, "y-secret") || s.hcp.Count("DELETE workspaces/*/vars/*") != 1 {
		t.Errorf("after a new value, the variable is %+v", v)
	}
}

func TestDriver_TaskThatAssumesARoleUsesTheIdentityOfHCP(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.job.Task.AWSRole = "arn:aws:iam::123456789012:role/network"
	s.succeeds()
	v := s.variables()
	if v["TFC_AWS_PROVIDER_AUTH"].Value != "true" || v["TFC_AWS_RUN_ROLE_ARN"].Value != s.job.Task.AWSRole || v["TFC_AWS_RUN_ROLE_ARN"].Category != "env" {
		t.Errorf("the variables are %+v", v)
	}
}

func TestDriver_VariablesThatReplaceTheDataAreReported(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "name", Value: "mine", Category: "terraform"})
	s.next("run2")
	s.succeeds()
	contains(t, s.out.String(), "The variable name of the workspace net-web replaces the value that task web gives to it.")
	s.hcp.SetVariable("net-web", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform"})
	s.next("run3")
	_, _, err := s.step()
	if err == nil {
		t.Fatal("a run begins although a variable replaces its data")
	}
	contains(t, err.Error(), "has a variable services, which replaces the data from Consul in each run: delete it there")
}

// For Terraform, the files of the upload win over its environment.
func TestDriver_EnvironmentVariablesReplaceNothing(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.hcp.Create("net-web", nil)
	for _, key := range []string{"TF_VAR_services", "TF_VAR_name"} {
		s.hcp.SetVariable("net-web", hcptest.Variable{Key: key, Value: "{}", Category: "env"})
	}
	s.name("from-the-task")
	s.succeeds()
	if text := string(s.hcp.Workspace("net-web").State); !strings.Contains(text, "from-the-task") {
		t.Errorf("the state has another value:\n%s", text)
	}
	if strings.Contains(s.out.String(), "replaces the value") {
		t.Errorf("the run reports a variable that replaces nothing:\n%s", s.out.String())
	}
}

func TestDriver_VariableSetsThatReplaceTheDataAreReported(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.succeeds()
	s.hcp.Inherit("net-web", hcptest.Variable{Key: "name", Value: "ours", Category: "terraform"})
	s.hcp.Inherit("net-web", hcptest.Variable{Key: "region", Value: "north", Category: "terraform"})
	s.next("run2")
	s.succeeds()
	contains(t, s.out.String(), "The variable name of a variable set replaces the value that task web gives to it.")
	if strings.Contains(s.out.String(), "region") {
		t.Errorf("a variable that the task does not have is reported:\n%s", s.out.String())
	}
	s.hcp.Inherit("net-web", hcptest.Variable{Key: "services", Value: "{}", Category: "terraform"})
	s.next("run3")
	_, _, err := s.step()
	if err == nil {
		t.Fatal("a run begins although a variable set replaces its data")
	}
	contains(t, err.Error(), "inherits a variable services from a variable set, which replaces the data from Consul in each run")
}

func TestDriver_RunsWhereVariableSetsCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Fail(hcptest.Fault{Request: "GET workspaces/*/all-vars", Status: http.StatusNotFound, Times: -1})
	s.succeeds()
}

func TestDriver_NotificationsAreSetOnce(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	c := s.job.Config.Cloud()
	c.NotificationURL, c.NotificationToken = s.hcp.URL, "signing-secret" // which does not accept it
	s.succeeds()
	count := func() int { return s.hcp.Count("POST workspaces/*/notification-configurations") }
	if count() != 1 || s.rec.Notification != "" {
		t.Errorf("%d notifications were set, and %q was recorded", count(), s.rec.Notification)
	}
	c.NotificationURL = receiver(t)
	for i, id := range []string{"run2", "run3"} {
		s.next(id)
		s.name(id)
		s.succeeds()
		if count() != 2 || s.rec.Notification == "" {
			t.Errorf("after %d runs, %d notifications were set", i+2, count())
		}
	}
	if raw, _ := json.Marshal(s.rec); strings.Contains(string(raw), "signing-secret") {
		t.Errorf("the record shows a secret: %s", raw)
	}
}

func TestDriver_PlansWithoutApplying(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	plan, err := s.driver.Plan(t.Context(), s.job)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Resources) != 1 || plan.Changes.Add != 1 || !plan.New || plan.Digest == "" || !strings.Contains(plan.Text, "Plan: 1 to add") {
		t.Errorf("the plan is %+v", plan)
	}
	if names := s.hcp.Workspaces(); len(names) > 0 || s.rec.Workspace != "" {
		t.Errorf("the plan leaves the workspaces %v and the record %+v", names, s.rec)
	}
	s.succeeds()

	s.name("two")
	plan, err = s.driver.Plan(t.Context(), s.job)
	if err != nil || plan.Changes.Change != 1 || plan.New {
		t.Errorf("the plan is %+v: %v", plan, err)
	}
	if _, err := plan.JSON(t.Context()); err != nil {
		t.Error(err)
	}
	s.name("one")
	s.job.Run.Kind = state.KindDrift
	if plan, err = s.driver.Plan(t.Context(), s.job); err != nil || plan.Changes.Any() {
		t.Errorf("without drift, the plan is %+v: %v", plan, err)
	}
	runs := s.runs()
	if len(runs) != 3 || !runs[1].PlanOnly || s.hcp.Workspace("net-web").Current != runs[0].ConfigurationVersion {
		t.Errorf("the runs are %+v", runs)
	}
	s.module("variable \"services\" {}\nvariable \"name\" {}\nresource \"terraform_data\" \"x\" {\n  lifecycle {\n    precondition {\n      condition     = var.name == \"\"\n      error_message = \"Only without a name.\"\n    }\n  }\n}\n")
	if _, err = s.driver.Plan(t.Context(), s.job); err == nil {
		t.Fatal("an invalid plan succeeds")
	}
	contains(t, err.Error(), "the plan in HCP Terraform failed: Resource precondition failed", "Only without a name.", "/runs/run-")
}

func TestDriver_PlanLeavesTheWorkspaceAsItIs(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.withProvider("first-secret")
	s.succeeds()
	before := s.hcp.Workspace("net-web")
	s.job.Config.Cloud().Tags = append(s.job.Config.Cloud().Tags, "network")
	s.job.Task.Cloud.TerraformVersion = "1.9.8"
	s.withProvider("second-secret")
	since := len(s.hcp.Requests())
	if _, err := s.driver.Plan(t.Context(), s.job); err != nil {
		t.Fatal(err)
	}
	after := s.hcp.Workspace("net-web")
	if !slices.Equal(before.Tags, after.Tags) || after.Attributes["terraform-version"] == "1.9.8" || s.writes(since) != 0 {
		t.Errorf("a plan changes the workspace to %+v", after)
	}
}

func TestDriver_PlanThatIsCancelledCancelsItsRun(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	s.hcp.Create("net-web", nil)
	s.hcp.Hold("planning")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		s.hcp.Await(s.hcp.AwaitRun("net-web", 1).ID, "planning")
		stop()
	}()
	if _, err := s.driver.Plan(ctx, s.job); err == nil {
		t.Fatal("a plan that was cancelled succeeds")
	}
	s.hcp.Await(s.runs()[0].ID, "canceled")
}

func TestDriver_DestroysWithoutTheModule(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.succeeds()
	if err := os.RemoveAll(s.job.Task.Module); err != nil {
		t.Fatal(err)
	}
	s.next("run2")
	s.job.Run.Kind = state.KindDestroy
	if changes := s.succeeds(); changes.Destroy != 1 {
		t.Errorf("the destroy changed %+v", changes)
	}
	s.next("run3")
	s.job.Run.Kind, s.rec = state.KindDestroy, state.Remote{}
	if changes := s.succeeds(); changes.Any() {
		t.Errorf("without a workspace, the destroy changed %+v", changes)
	}
}

func TestDriver_FailedApplySaysWhatTerraformSays(t *testing.T) {
	t.Parallel()
	s := newTask(t)
	s.module(module + "resource \"terraform_data\" \"fails\" {\n  provisioner \"local-exec\" {\n    command = \"exit 3\"\n  }\n}\n")
	s.planned()
	wait, _, err := s.step()
	if wait != nil { // the apply has not ended yet
		s.poll(state.RemoteEnded)
		_, _, err = s.step()
	}
	if err == nil {
		t.Fatal("the run succeeds")
	}
	contains(t, err.Error(), "the apply in HCP Terraform failed: local-exec provisioner error", "exit status 3", s.rec.Run.URL)
	if applied, err := s.driver.Stop(t.Context(), s.job.Config, s.rec.Run.GiveUp(state.GivenUp{})); err != nil || !applied {
		t.Errorf("what a failed apply has done counts as done: %v, %v", applied, err)
	}
}

// receiver accepts notifications.
func receiver(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestDriver_PlansOfOneProcessShareTheirPolls(t *testing.T) {
	t.Parallel()
	s := newTask(t, hcptest.WithoutTerraform())
	hold := s.hcp.Hold("planning")
	var waits atomic.Int64
	d := hcp.New(hcp.Options{Wait: func(context.Context, time.Duration) error {
		waits.Add(1)
		time.Sleep(20 * time.Millisecond)
		return nil
	}})
	var group errgroup.Group
	const plans, polls = 10, 5
	for i := range plans {
		job := s.job
		of := *s.job.Task
		of.Name = fmt.Sprintf("web%d", i)
		job.Task, job.Output, job.Remote = &of, io.Discard, nil
		group.Go(func() error {
			_, err := d.Plan(t.Context(), job)
			return err
		})
	}
	s.hcp.AwaitRequest("POST runs", plans)
	before, polled := waits.Load(), s.hcp.Count("GET organizations/*/runs")
	s.hcp.AwaitRequest("GET organizations/*/runs", polled+polls)
	if waited := waits.Load() - before; waited < 3*polls {
		t.Errorf("%d plans made %d polls while they waited %d times", plans, polls, waited)
	}
	hold.Release()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
