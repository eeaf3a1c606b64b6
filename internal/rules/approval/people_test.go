package approval_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// anybody draws people: some only claim their name.
func anybody(t *rapid.T) identity.Identity {
	who := identity.Identity{Name: "user:" + rapid.SampledFrom([]string{"ann", "bob", "cho"}).Draw(t, "name"), Proof: identity.OIDC}
	switch rapid.IntRange(0, 3).Draw(t, "proof") {
	case 0:
		who = who.Or("") // as it is
		who.Proof, who.Name = identity.None, identity.Claimed(who.Name)
	case 1:
		who.Groups = []string{"network"}
	}
	return who
}

func TestCounting_IsOfDifferentPermittedPeopleWhoseApprovalsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := approval.Spec{Rule: approval.Always, Expires: 10 * time.Minute, Require: rapid.IntRange(0, 3).Draw(t, "require")}
		if rapid.Bool().Draw(t, "from") {
			rule.From = []string{"group:network", "user:ann"}
		}
		var all []state.Given
		at := noon
		for range rapid.IntRange(0, 6).Draw(t, "approvals") {
			who := anybody(t)
			given, err := rule.Given(who, nil, at, at, "")
			if rule.Restricted() && !who.Proven() && err == nil {
				t.Fatalf("%s is not proven, and may approve", who.Name)
			}
			if err != nil {
				continue
			}
			all = append(all, given)
			at = at.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "minutes")) * time.Minute)
		}
		people := map[string]bool{}
		for _, g := range all {
			if at.Before(g.Expires) && (g.Authenticated || !rule.Restricted()) {
				people[g.By] = true
			}
		}
		counting := rule.Counting(all, at)
		if len(counting) != len(people) {
			t.Fatalf("%d approvals of %+v count, want those of %v", len(counting), all, people)
		}
		if len(all) == 0 {
			return
		}
		if enough := rule.Enough(state.ApprovalOf(state.Content{}, all), at); enough != (len(people) >= max(1, rule.Require)) {
			t.Fatalf("%+v is enough: %v", all, enough)
		}
		narrower := rule
		narrower.From = []string{"user:dan"}
		if rule.From == nil && len(narrower.Counting(all, at)) > 0 {
			t.Fatal("approvals count of people whom a later rule does not name")
		}
	})
}

func TestGiven_SaysWhoMayApproveAndWhyNot(t *testing.T) {
	two := approval.Spec{Require: 2}
	some := approval.Spec{From: []string{"group:network", "user:ann@example.com"}}
	ann := identity.Identity{Name: "user:ann@example.com", Proof: identity.OIDC}
	for _, tt := range []struct {
		rule approval.Spec
		who  identity.Identity
		want string
	}{
		{approval.Spec{}, identity.Identity{Name: "ann (not proven)"}, ""},
		{two, ann, ""},
		{two, identity.Identity{Name: "user:ann@example.com", Proof: identity.Local}, "nothing proves this name"},
		{some, ann, "user:ann@example.com"},
		{some, identity.Identity{Name: "cert:n1", Proof: identity.Certificate, Groups: []string{"network"}}, "group:network"},
		{some, identity.Identity{Name: "x", Proof: identity.None, Groups: []string{"network"}}, "nothing proves this name"},
		{some, identity.Identity{Name: "user:ann@example.com", Proof: identity.Token}, "is not one of those who approve"},
		{some, identity.OfToken("bob"), "is not one of those who approve: someone of group:network, user:ann@example.com must approve"},
	} {
		given, err := tt.rule.Given(tt.who, nil, noon, noon, "")
		if got := fmt.Sprint(given.As, err); !strings.Contains(got, tt.want) || (err == nil) != !strings.Contains(tt.want, " ") {
			t.Errorf("%+v for %+v: %s, want %s", tt.who, tt.rule, got, tt.want)
		}
	}
}

func TestPerson_SessionsOfARoleAreOneUnlessAWSNamesThem(t *testing.T) {
	role, sso := "arn:aws:sts::123456789012:assumed-role/NetOps/", "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Net_1a2b/"
	rule := approval.Spec{Require: 2}
	for _, tt := range []struct {
		a, b string
		two  bool
	}{
		{role + "ann", role + "bob", false}, {sso + "ann@example.com", sso + "bob@example.com", true}, {sso + "ann", sso + "ann", false},
		{"arn:aws:iam::123456789012:user/ann", "arn:aws:iam::123456789012:user/bob", true}, {role + "ann", "arn:aws:sts::123456789012:assumed-role/Other/ann", true},
		{"token:ann", "user:ann", true}, {"token:ann", "token:ann", false},
	} {
		given := []state.Given{{By: tt.a, Authenticated: true}, {By: tt.b, Authenticated: true}}
		if got := rule.Enough(state.ApprovalOf(state.Content{}, given), noon); got != tt.two {
			t.Errorf("%s and %s are two people: %v", tt.a, tt.b, got)
		}
		_, err := approval.Spec{DistinctApprover: true}.Given(identity.Identity{Name: tt.b, Proof: identity.IAM}, []string{tt.a}, noon, noon, "")
		if (err == nil) != tt.two || err != nil && !errors.Is(err, approval.ErrSamePerson) {
			t.Errorf("%s approves what %s changed: %v", tt.b, tt.a, err)
		}
	}
}

func TestGiven_HasTheProofTheCommentAndTheEnd(t *testing.T) {
	ann := identity.Identity{Name: "user:ann", Proof: identity.OIDC}
	want := state.Given{By: "user:ann", Authenticated: true, Proof: identity.OIDC, At: noon, Comment: "fine", Expires: noon.Add(time.Hour)}
	if got, err := (approval.Spec{Expires: time.Hour}).Given(ann, nil, noon, noon, "fine"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (approval.Spec{}).Given(ann, nil, noon, noon, ""); err != nil || !got.Expires.IsZero() {
		t.Errorf("without approval_expires: %+v, %v", got, err)
	}
	if got, err := (approval.Spec{DistinctApprover: true}).Given(identity.Identity{Name: "bob"}, []string{"user:ann"}, noon, noon, ""); !errors.Is(err, approval.ErrSamePerson) {
		t.Errorf("a name that nothing proves approves what another one has changed: %+v, %v", got, err)
	}
}

func TestRepeated_IdentitiesOfOnePersonCountOnce(t *testing.T) {
	laptop, ann := identity.OfToken("ann-laptop"), identity.Identity{Name: "user:ann@example.com", Proof: identity.OIDC}
	before := approval.Spec{Require: 2}
	now := before
	now.People = roles.People{"ann": {laptop.Name, ann.Name}}
	given := func(rule approval.Spec, who identity.Identity) state.Given {
		t.Helper()
		g, err := rule.Given(who, nil, noon, noon, "")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	both := []state.Given{given(before, laptop), given(before, ann)}
	if len(before.Counting(both, noon)) != 2 || !before.Enough(state.ApprovalOf(state.Content{}, both), noon) {
		t.Error("without a person, the identities are not two people")
	}
	if counting := now.Counting(both, noon); len(counting) != 1 || counting[0].By != laptop.Name || now.Enough(state.ApprovalOf(state.Content{}, both), noon) {
		t.Errorf("approvals that are older than the configuration count: %+v", counting)
	}
	if !now.Enough(state.ApprovalOf(state.Content{}, append(both, given(now, identity.OfToken("bob")))), noon) {
		t.Error("ann and bob are not two people")
	}

	if repeated, err := now.Repeated(both[:1], state.Given{By: laptop.Name}); !repeated || err != nil {
		t.Errorf("the same identity again: %v, %v", repeated, err)
	}
	repeated, err := now.Repeated(both[:1], state.Given{By: ann.Name})
	if refused := new(approval.RefusedError); !repeated || !errors.As(err, &refused) || err.Error() != "user:ann@example.com cannot approve: ann has approved already, as token:ann-laptop" {
		t.Errorf("another identity: %v, %v", repeated, err)
	}
	for _, who := range []string{"token:bob", "user:ann@example.com (not proven)"} {
		if repeated, err := now.Repeated(both[:1], state.Given{By: who}); repeated || err != nil {
			t.Errorf("%s is ann: %v, %v", who, repeated, err)
		}
	}
}

func TestGiven_NobodyApprovesAsAnotherIdentityWhatTheyChanged(t *testing.T) {
	rule := approval.Spec{DistinctApprover: true, People: roles.People{"ann": {"token:ann", "arn:aws:iam::123456789012:role/ann"}}}
	session := identity.OfARN("arn:aws:sts::123456789012:assumed-role/ann/x")
	for changedBy, may := range map[string]bool{"token:ann": false, session.Name: false, "token:bob": true, "token:ann (not proven)": true} {
		if _, err := rule.Given(session, []string{"token:bob", changedBy}, noon, noon, ""); (err == nil) != may {
			t.Errorf("what %s changed: %v", changedBy, err)
		}
	}
}

func TestFrom_NamesAPersonByAnyIdentity(t *testing.T) {
	rule := approval.Spec{From: []string{"person:ann"}, People: roles.People{"ann": {"token:ann", "cert:ann"}}}
	g, err := rule.Given(identity.OfToken("ann"), nil, noon, noon, "")
	if err != nil || g.As != "person:ann" || len(rule.Counting([]state.Given{g}, noon)) != 1 {
		t.Errorf("%+v, %v", g, err)
	}
	if _, err := rule.Given(identity.OfToken("bob"), nil, noon, noon, ""); err == nil {
		t.Error("bob approves as ann")
	}
	if rule.People = (roles.People{"ann": {"cert:ann"}}); len(rule.Counting([]state.Given{g}, noon)) != 0 {
		t.Error("the approval of an identity counts that is not one of the person any more")
	}
}
