package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/engine/control"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/record/outbox"
	"github.com/terrapulse/terrapulse/internal/record/state"
	approvals "github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/lifecycle"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// twoOf is a bench with a plan that needs two approvals, each valid for an hour.
func twoOf(t *testing.T, from ...string) (*bench, state.PlannedRun) {
	t.Helper()
	b, run := waiting(t, planned)
	b.Config.Tasks[0].Approval = approvals.Spec{Rule: approvals.Always, Expires: time.Hour, Require: 2, From: from}
	record, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey("task-0"))
	b.must(err)
	next, wait := record.Data, planned
	wait.Needs, wait.From, wait.Since = 2, from, b.now
	live := *next.Run
	live.Wait = &wait
	next.Run = &live
	b.must(b.store.Apply(t.Context(), record.Write(next)))
	return b, run
}

// tokens are the named tokens of the bench.
func (b *bench) tokens() *credentials.Keeper {
	return credentials.New(b.store, func() time.Time { return b.now })
}

func TestApprovers_RunGoesOnWhenTheLastOneHasApproved(t *testing.T) {
	b, run := twoOf(t)
	people, events := b.people(), b.recording()
	for range 3 { // an answer is lost, and the request is repeated, through another instance, too
		b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("ann"), "rack 7"))
		b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken("ann"), "rack 7"))
	}
	b.tick() // the leader ticks in between
	if got := b.run(run).Data; got.State != state.RunWaiting {
		t.Fatalf("after one approval, the run is %s", got.State)
	}
	task := b.task("task-0")
	if why := task.Reason.Text; !strings.Contains(why, "waits for 2 approvals") {
		t.Errorf("the reason is %q", why)
	}
	if why := (lifecycle.Facts{Task: task}).Assess().Reason.Text; !strings.Contains(why, "1 of 2 approvals: token:ann has approved") {
		t.Errorf("people see %q", why)
	}
	b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("bob"), ""))
	b.tick()
	got := b.run(run).Data
	if got.State != state.RunIntended || got.Approval == nil || got.Approval.Names() != "token:ann and token:bob" || got.Approval.Before[0].Proof != identity.Token {
		t.Fatalf("the run is %s, approved by %+v", got.State, got.Approval)
	}
	if n := events.count(outbox.PlanApproved); n != 2 {
		t.Errorf("%d events tell of the approvals", n)
	}
}

func TestApprovers_ApprovalThatExpiredIsNoneOfThoseNeeded(t *testing.T) {
	b, run := twoOf(t)
	people := b.people()
	b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("ann"), ""))
	b.now = b.now.Add(time.Hour)
	b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("bob"), ""))
	b.tick()
	if got := b.run(run).Data; got.State != state.RunWaiting {
		t.Fatalf("ann's approval has expired, and the run is %s", got.State)
	}
	b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("cho"), ""))
	b.now = b.now.Add(time.Hour) // bob's and cho's have expired before the leader resumes the run
	b.tick()
	if got := b.run(run).Data; got.State != state.RunWaiting || len(b.task("task-0").Run.Approvals) != 0 {
		t.Fatalf("every approval has expired, and the run is %s", got.State)
	}
}

func TestApprovers_OnlyThosePermittedCount(t *testing.T) {
	b, run := twoOf(t, "group:network", "user:ann@example.com")
	people := b.people()
	for _, who := range []identity.Identity{
		{Name: "user:ann@example.com (not proven)"}, {Name: "user:ann@example.com", Proof: identity.Local}, {Name: "user:ann@example.com"},
		identity.OfToken("dan"), {Name: "x", Groups: []string{"network"}},
	} {
		refused := new(approvals.RefusedError)
		if err := people.Approve(t.Context(), "task-0", "", who, ""); !errors.As(err, &refused) {
			t.Errorf("%+v approves: %v", who, err)
		}
	}
	ann := identity.Identity{Name: "user:ann@example.com", Proof: identity.OIDC}
	b.must(people.Approve(t.Context(), "task-0", "", ann, ""))
	b.must(people.Approve(t.Context(), "task-0", "", identity.Identity{Name: "cert:n1", Proof: identity.Certificate, Groups: []string{"network"}}, ""))
	b.tick()
	if a := b.run(run).Data.Approval; a == nil || a.Before[0].As != "user:ann@example.com" || a.As != "group:network" {
		t.Errorf("the run was approved by %+v", a)
	}
}

func TestApprovers_AnotherRuleDiscardsTheApprovals(t *testing.T) {
	for name, require := range map[string]int{"more people": 3, "fewer people": 0} {
		b, run := twoOf(t)
		live := b.task("task-0").Run
		live.Wait.Rules = b.Config.Tasks[0].RulesDigest()
		record, err := state.Read[state.Task](t.Context(), b.store, state.TaskKey("task-0"))
		b.must(err)
		next := record.Data
		next.Run = live
		b.must(b.store.Apply(t.Context(), record.Write(next)))
		b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken("ann"), ""))
		b.Config.Tasks[0].Approval.Require = require
		b.tick()
		if got := b.run(run).Data; got.State != state.RunSuperseded || b.task("task-0").Run != nil && len(b.task("task-0").Run.Approvals) > 0 {
			t.Errorf("%s must approve now, and the run is %s", name, got.State)
		}
	}
}

func TestApprovers_RejectionEndsTheRunForAll(t *testing.T) {
	b, run := twoOf(t)
	people := b.people()
	b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("ann"), ""))
	b.must(people.Reject(t.Context(), "task-0", "", "bob", "not now"))
	if got := b.run(run).Data; got.State != state.RunCancelled {
		t.Errorf("the run is %s", got.State)
	}
	if err := people.Approve(t.Context(), "task-0", "", identity.OfToken("cho"), ""); !errors.Is(err, state.ErrNoPlan) {
		t.Errorf("cho approves a plan that was rejected: %v", err)
	}
}

// One of two approvals is given, and something happens before the other one.
func TestApprovers_WhatHappensBetweenTwoApprovals(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(b *bench)
		stays   bool
	}{
		"nothing":                {func(*bench) {}, true},
		"a takeover, and a tick": {func(b *bench) { b.leads() }, true},
		"pause and resume": {func(b *bench) {
			b.must(b.people().PauseAll(b.t.Context(), "ann", ""))
			b.tick()
			b.must(b.people().ResumeAll(b.t.Context(), "ann", ""))
		}, true},
		"hold and release": {func(b *bench) {
			b.must(b.people().Hold(b.t.Context(), "task-0", "ann", ""))
			b.tick()
			b.must(b.people().Release(b.t.Context(), "task-0", "ann"))
		}, true},
		"disable and enable": {func(b *bench) {
			b.must(b.people().SetEnabled(b.t.Context(), "task-0", false, control.ChangeOptions{By: "ann"}))
			b.tick()
			b.must(b.people().SetEnabled(b.t.Context(), "task-0", true, control.ChangeOptions{By: "ann"}))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, run := twoOf(t)
			b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken("ann"), ""))
			tt.happens(b)
			b.tick()
			if got := b.run(run).Data.State; (got == state.RunWaiting) != tt.stays {
				t.Fatalf("the run is %s: %+v", got, b.task("task-0").Reason)
			}
			err := b.people().Approve(t.Context(), "task-0", "", identity.OfToken("bob"), "")
			if !tt.stays {
				if !errors.Is(err, state.ErrNoPlan) {
					t.Errorf("bob approves a plan that is withdrawn: %v", err)
				}
				return
			}
			b.must(err)
			b.tick()
			if got := b.run(run).Data; got.State != state.RunIntended || got.Approval == nil || got.Approval.Names() != "token:ann and token:bob" {
				t.Errorf("the run is %s, approved by %+v", got.State, got.Approval)
			}
		})
	}
}

// Each row is two identities of ann, who approves twice.
var identitiesOfAnn = map[string][2]identity.Identity{
	"a token and a login":       {identity.OfToken("ann-laptop"), {Name: "user:ann@example.com", Proof: identity.OIDC}},
	"a certificate and a token": {{Name: "cert:ann", Proof: identity.Certificate}, identity.OfToken("ann-laptop")},
	"two roles in AWS":          {identity.OfARN("arn:aws:sts::123456789012:assumed-role/ann/laptop"), identity.OfARN("arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Net_1a2b/ann@example.com")},
}

var onlyAnn = roles.People{"ann": {"token:ann-laptop", "user:ann@example.com", "cert:ann", "arn:aws:iam::123456789012:role/ann", "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_*/ann@example.com"}}

func TestApprovers_PersonCountsOnceWithAllIdentities(t *testing.T) {
	for name, both := range identitiesOfAnn {
		t.Run(name, func(t *testing.T) {
			b, run := twoOf(t)
			b.Config.Tasks[0].Approval.People = onlyAnn
			people, events := b.people(), b.recording()
			b.must(people.Approve(t.Context(), "task-0", "", both[0], ""))
			err := people.Approve(t.Context(), "task-0", "", both[1], "")
			if refused := new(approvals.RefusedError); !errors.As(err, &refused) || !strings.HasSuffix(err.Error(), "ann has approved already, as "+both[0].Name) {
				t.Errorf("the other identity: %v", err)
			}
			b.tick()
			if got := b.run(run).Data; got.State != state.RunWaiting || events.count(outbox.PlanApproved) != 1 {
				t.Fatalf("one person has approved, and the run is %s", got.State)
			}
			b.must(people.Approve(t.Context(), "task-0", "", identity.OfToken("bob"), ""))
			b.tick()
			if got := b.run(run).Data; got.State != state.RunIntended || got.Approval.Names() != both[0].Name+" and token:bob" {
				t.Errorf("the run is %s, approved by %+v", got.State, got.Approval)
			}
		})
	}
}

// The approvals are older than the configuration that says who is one person: first all of them, and the run was
// to be resumed, then those of a run that still waits.
func TestApprovers_AreCountedByTheConfigurationWhenTheRunResumes(t *testing.T) {
	for name, both := range identitiesOfAnn {
		for _, need := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, %d must approve", name, need), func(t *testing.T) {
				b, run := twoOf(t)
				b.Config.Tasks[0].Approval.Require = need
				b.must(b.people().Approve(t.Context(), "task-0", "", both[0], ""))
				b.must(b.people().Approve(t.Context(), "task-0", "", both[1], ""))
				if resumes := b.task("task-0").Run.Resume != nil; resumes != (need == 2) {
					t.Fatalf("the run is to be resumed: %v", resumes)
				}
				b.Config.Tasks[0].Approval.People = onlyAnn
				b.tick()
				live := b.task("task-0").Run
				if got := b.run(run).Data; got.State != state.RunWaiting || live.Resume != nil || len(live.Approvals) != 1 || live.Approvals[0].By != both[0].Name {
					t.Fatalf("the run is %s, %+v", got.State, live)
				}
				for _, who := range []string{"bob", "cho"}[:need-1] {
					b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken(who), ""))
				}
				b.tick()
				if got := b.run(run).Data; got.State != state.RunIntended {
					t.Errorf("enough people have approved, and the run is %s", got.State)
				}
			})
		}
	}
}

// The next person may approve before a tick finds that the approvals are not enough any more.
func TestApprovers_ApprovalBeforeTheNextTickCountsWithTheOthers(t *testing.T) {
	b, run := twoOf(t)
	both := identitiesOfAnn["a token and a login"]
	b.must(b.people().Approve(t.Context(), "task-0", "", both[0], ""))
	b.must(b.people().Approve(t.Context(), "task-0", "", both[1], ""))
	b.Config.Tasks[0].Approval.People, b.Config.Tasks[0].Approval.Require = onlyAnn, 3
	b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken("bob"), ""))
	if live := b.task("task-0").Run; live.Resume != nil || len(live.Approvals) != 2 {
		t.Fatalf("two people of three have approved: %+v", live)
	}
	b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken("cho"), ""))
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended || got.Approval.Names() != both[0].Name+", token:bob and token:cho" {
		t.Errorf("the run is %s, approved by %+v", got.State, got.Approval)
	}
}

func TestApprovers_PersonDoesNotApproveWhatTheyChangedAsAnotherIdentity(t *testing.T) {
	for name, both := range identitiesOfAnn {
		t.Run(name, func(t *testing.T) {
			b, run := twoOf(t)
			rule := &b.Config.Tasks[0].Approval
			rule.Require, rule.DistinctApprover = 0, true
			enabled := true
			b.overridden(state.Override{Task: "task-0", Enabled: &enabled, By: "token:eve", Others: []string{both[0].Name}, At: b.now, Made: b.now})
			rule.People = onlyAnn
			if err := b.people().Approve(t.Context(), "task-0", "", both[1], ""); !errors.Is(err, approvals.ErrSamePerson) {
				t.Errorf("%s approves what %s has changed: %v", both[1].Name, both[0].Name, err)
			}
			b.must(b.people().Approve(t.Context(), "task-0", "", identity.OfToken("bob"), ""))
			b.tick()
			if got := b.run(run).Data; got.State != state.RunIntended {
				t.Errorf("the run is %s", got.State)
			}
		})
	}
}

// An administrator revokes a token because somebody else has it. Until the plan is applied, nothing that was done
// with it counts, also if the same name is given to another token.
func TestApprovers_ApprovalOfARevokedTokenDoesNotCount(t *testing.T) {
	for name, again := range map[string]bool{"revoked": false, "and made again": true} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all have approved: %t", name, all), func(t *testing.T) {
				b, run := twoOf(t)
				tokens := b.tokens()
				token := func(name string) identity.Identity {
					_, made, err := tokens.Create(t.Context(), name, "user:eve", time.Time{})
					b.must(err)
					return made.Identity()
				}
				b.now = b.now.Add(-24 * time.Hour) // long before the plan
				ann, bob, cho := token("ann"), token("bob"), token("cho")
				b.now = b.now.Add(24 * time.Hour)
				b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
				if all {
					b.must(b.people().Approve(t.Context(), "task-0", "", bob, ""))
				}
				b.must(tokens.Revoke(t.Context(), "ann", "user:eve"))
				if again {
					token("ann")
				}
				if all {
					b.tick()
					if live := b.task("task-0").Run; live.Resume != nil || len(live.Approvals) != 1 || live.Approvals[0].By != "token:bob" {
						t.Fatalf("the approval still counts: %+v", live)
					}
				} else {
					b.must(b.people().Approve(t.Context(), "task-0", "", bob, ""))
				}
				b.tick()
				if got := b.run(run).Data; got.State != state.RunWaiting {
					t.Fatalf("one valid token has approved, and the run is %s", got.State)
				}
				b.must(b.people().Approve(t.Context(), "task-0", "", cho, ""))
				b.tick()
				if got := b.run(run).Data; got.State != state.RunIntended || got.Approval.Names() != "token:bob and token:cho" {
					t.Errorf("the run is %s, approved by %+v", got.State, got.Approval)
				}
			})
		}
	}
}

// Anybody who can make tokens could make the second approver.
func TestApprovers_TokenThatWasMadeWhileThePlanWaitsDoesNotApproveIt(t *testing.T) {
	b, run := twoOf(t)
	b.now = b.now.Add(time.Minute)
	_, made, err := b.tokens().Create(t.Context(), "ann", "user:eve", time.Time{})
	b.must(err)
	refused := new(approvals.RefusedError)
	if err := b.people().Approve(t.Context(), "task-0", "", made.Identity(), ""); !errors.As(err, &refused) || !strings.Contains(err.Error(), "token:ann cannot approve: the token was made after") {
		t.Errorf("a token that was made for it approves: %v", err)
	}
	b.Config.Tasks[0].Approval.Require = 0 // one person is enough, who may be anybody with the role
	b.must(b.people().Approve(t.Context(), "task-0", "", made.Identity(), ""))
	b.tick()
	if got := b.run(run).Data; got.State != state.RunIntended {
		t.Errorf("the run is %s", got.State)
	}
}

// A person changes their address of email at the OpenID provider.
func TestApprovers_PersonWithAnotherNameIsTheSame(t *testing.T) {
	ann := identity.Identity{Name: "user:ann@example.com", Proof: identity.OIDC, Account: "https://id.example.com#1"}
	renamed := ann
	renamed.Name = "user:ann.smith@example.com"
	b, run := twoOf(t)
	b.must(b.people().Approve(t.Context(), "task-0", "", ann, ""))
	refused := new(approvals.RefusedError)
	if err := b.people().Approve(t.Context(), "task-0", "", renamed, ""); !errors.As(err, &refused) || !strings.HasSuffix(err.Error(), "the same account has approved already, as user:ann@example.com") {
		t.Errorf("the other name: %v", err)
	}
	b.tick()
	if got := b.run(run).Data; got.State != state.RunWaiting {
		t.Fatalf("one person has approved, and the run is %s", got.State)
	}
}
