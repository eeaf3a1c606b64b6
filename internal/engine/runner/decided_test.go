package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/consul"
	"github.com/terrapulse/terrapulse/internal/driver/hcp"
	"github.com/terrapulse/terrapulse/internal/driver/hcp/hcptest"
	"github.com/terrapulse/terrapulse/internal/record/audit"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// people decide in HCP Terraform about the plans of a task, each of which needs an approval.
type people struct {
	*fixture
	hcp    *hcptest.Server
	driver *hcp.Driver
}

// asHCP shows data as the root module of a task needs it.
type asHCP struct{ catalog }

func (asHCP) Snapshot(context.Context, *config.Task) (*consul.Snapshot, error) {
	return &consul.Snapshot{Blocks: []consul.Block{{Variable: "services"}}, Condition: consul.Observation{Digest: "B", Elements: map[string]string{"web-1": "x"}}}, nil
}

func newPeople(t *testing.T) *people {
	t.Helper()
	p := &people{fixture: newFixture(t, nil), hcp: hcptest.New(t, hcptest.WithoutTerraform())}
	p.driver = hcp.New(hcp.Options{Wait: func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(d, 20*time.Millisecond)):
			return nil
		}
	}})
	p.Driver, p.Consul = p.driver, asHCP{}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte("variable \"services\" {}\nresource \"terraform_data\" \"x\" {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := p.Config()
	cfg.WorkingDir, cfg.AuditRetention = t.TempDir(), 48*time.Hour
	cfg.OtherDriver = &config.Cloud{Hostname: p.hcp.URL, Organization: p.hcp.Organization, Token: p.hcp.Token, WorkspacePrefix: "net-", Tags: []string{config.CloudTag}}
	cfg.Tasks[0].Module, cfg.Tasks[0].WorkingDir, cfg.Tasks[0].Approval = dir, filepath.Join(cfg.WorkingDir, "web"), approval.Spec{Rule: approval.Always}
	p.launch.Runs = p.planned("r1")
	return p
}

// step carries out one step of a run.
func (p *people) step() {
	p.t.Helper()
	if err := p.run(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// remote is the latest remote run.
func (p *people) remote() state.Remote {
	p.t.Helper()
	rec, err := state.Read[state.Remote](p.t.Context(), p.store, state.RemoteKey("web"))
	if err != nil {
		p.t.Fatal(err)
	}
	return rec.Data
}

// waitsForApproval takes the run to where its plan waits for an approval, and returns the remote run.
func (p *people) waitsForApproval(id string) string {
	p.t.Helper()
	p.step()
	there := p.remote().Run.ID
	p.hcp.Await(there, "planned")
	p.resumeAs(state.RemoteReady)
	p.step()
	if w := p.stored(id).Wait; w == nil || w.For != state.WaitApproval {
		p.t.Fatalf("the run waits for %+v: %s", w, p.log)
	}
	return there
}

func (p *people) entries() []audit.Entry {
	p.t.Helper()
	all, _, err := audit.List(p.t.Context(), p.store, audit.Filter{Since: noon.Add(-time.Hour), Until: noon.Add(time.Hour), Limit: 100}, func(audit.Entry) bool { return true })
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b audit.Entry) int { return strings.Compare(string(a.Action), string(b.Action)) })
	return all
}

// decided checks that the audit record has these decisions of jane about a run, each once.
func (p *people) decided(run, there string, actions ...audit.Action) []audit.Entry {
	p.t.Helper()
	all := p.entries()
	if len(all) != len(actions) {
		p.t.Fatalf("the audit record has %+v, want %s", all, actions)
	}
	for i, e := range all {
		if e.Action != actions[i] || e.By != "jane in HCP Terraform" || e.Proof != identity.Attested || e.Via != audit.Remote || e.Task != "web" || e.Run != run ||
			!strings.HasPrefix(e.Detail, "remote run "+there+", decided at 2") || !strings.Contains(e.Detail, "/runs/"+there) {
			p.t.Errorf("the entry is %+v", e)
		}
	}
	return all
}

// loses loses the answer to the first write of an entry of the audit record.
func (p *people) loses() {
	lost := false
	p.store.After = func(changes []state.Change) error {
		if writes(changes, "audit-", "") && !lost {
			lost = true
			return errors.New("connection reset")
		}
		return nil
	}
	p.t.Cleanup(func() {
		if !lost {
			p.t.Error("no answer was lost")
		}
	})
}

func TestAudit_PersonWhoConfirmsInHCPTerraformIsThereOnce(t *testing.T) {
	p := newPeople(t)
	there := p.waitsForApproval("r1")
	waited := *p.stored("r1").Wait
	p.hcp.Confirm(there, "jane")
	p.hcp.Await(there, "applied")
	p.loses()
	p.resumeAs(state.RemoteEnded)
	p.step()
	e := p.decided("r1", there, audit.Approve)[0]
	if e.Content == nil || *e.Content != *waited.Content || e.Content.Plan == "" || e.Plan != waited.ID {
		t.Errorf("the entry is about the plan %s with %+v, the plan that waited was %s with %+v", e.Plan, e.Content, waited.ID, waited.Content)
	}
	p.resumeAs(state.RemoteEnded)
	p.step()
	if run := p.stored("r1"); run.State != state.RunSucceeded {
		t.Errorf("the run is %+v", run)
	}
	p.decided("r1", there, audit.Approve)

	p.intendNext("r2") // it finds a run that has ended
	p.step()
	p.decided("r1", there, audit.Approve)
}

func TestAudit_PersonWhoDiscardsInHCPTerraformIsThereOnce(t *testing.T) {
	p := newPeople(t)
	there := p.waitsForApproval("r1")
	waited := *p.stored("r1").Wait
	p.hcp.Discard(there, "jane", "not on a Friday")
	p.loses()
	p.resumeAs(state.RemoteEnded)
	p.step()
	if e := p.decided("r1", there, audit.Reject)[0]; e.Comment != "not on a Friday" || e.Content == nil || *e.Content != *waited.Content {
		t.Errorf("the entry is %+v", e)
	}
	if run := p.stored("r1"); !run.Rejected {
		t.Errorf("the run is %+v", run)
	}
	p.intendNext("r2")
	p.step()
	p.decided("r1", there, audit.Reject)
}

func TestAudit_PersonWhoCancelsInHCPTerraformIsThere(t *testing.T) {
	p := newPeople(t)
	hold := p.hcp.Hold("applying")
	there := p.waitsForApproval("r1")
	p.hcp.Confirm(there, "jane")
	p.hcp.Await(there, "applying")
	p.resumeAs(state.RemoteApplying)
	p.step()
	p.hcp.Cancel(there, "jane")
	hold.Release()
	p.hcp.Await(there, "canceled")
	p.resumeAs(state.RemoteEnded)
	p.step()
	if all := p.decided("r1", there, audit.Approve, audit.Cancel); all[1].Content == nil || *all[1].Content != *all[0].Content {
		t.Errorf("the entries are %+v", all)
	}
}

// A plan that applies nothing can be cancelled there, too.
func TestAudit_PersonWhoCancelsAPlanInHCPTerraformIsThere(t *testing.T) {
	p := newPeople(t)
	p.intendKind(state.KindPlan)
	p.launch.Runs = p.planned("r1")
	hold := p.hcp.Hold("planning")
	p.loses()
	ended := make(chan error, 1)
	go func() { ended <- p.run(t.Context()) }()
	there := p.hcp.AwaitRun("net-web", 1).ID
	p.hcp.Await(there, "planning")
	p.hcp.Cancel(there, "jane")
	hold.Release()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	p.decided("r1", there, audit.Cancel)
}

// The process that learns of a decision dies before it records that: the next run of the task does.
func TestAudit_DecisionInHCPTerraformSurvivesTheDeathOfARun(t *testing.T) {
	for name, test := range map[string]struct {
		decides func(p *people, there string)
		ends    string
		action  audit.Action
	}{
		"confirmed": {func(p *people, there string) { p.hcp.Confirm(there, "jane") }, "applied", audit.Approve},
		"discarded": {func(p *people, there string) { p.hcp.Discard(there, "jane", "no") }, "discarded", audit.Reject},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeople(t)
			there := p.waitsForApproval("r1")
			content := *p.stored("r1").Wait.Content
			test.decides(p, there)
			p.hcp.Await(there, test.ends)
			p.resumeAs(state.RemoteEnded)
			p.giveUp("r1")
			p.decided("r1", there)
			p.intendNext("r2")
			p.step()
			if e := p.decided("r1", there, test.action)[0]; e.Content == nil || *e.Content != content {
				t.Errorf("the entry is %+v", e)
			}
			p.giveUp("r2")
			p.intendNext("r3")
			p.step()
			p.decided("r1", there, test.action)
		})
	}
}

// What Terrapulse itself stops and confirms is no decision of a person.
func TestAudit_WhatTerrapulseDoesInHCPTerraformIsNotThere(t *testing.T) {
	p := newPeople(t)
	there := p.waitsForApproval("r1")
	p.giveUp("r1")
	left := *p.task().GivenUp()
	if _, err := p.driver.Stop(t.Context(), p.Config(), &left); err != nil {
		t.Fatal(err)
	}
	p.hcp.Await(there, "discarded")
	p.Config().Tasks[0].Approval = approval.Spec{}
	p.intendNext("r2")
	p.step()
	there = p.remote().Run.ID
	p.hcp.Await(there, "planned")
	p.resumeAs(state.RemoteReady)
	p.step()
	p.hcp.Await(there, "applied")
	p.intendNext("r3")
	p.step()
	if all := p.entries(); len(all) != 0 {
		t.Errorf("the audit record has %+v", all)
	}
}
