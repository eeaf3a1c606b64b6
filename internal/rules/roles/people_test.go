package roles_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

const account = "arn:aws:sts::123456789012:assumed-role/"

var people = roles.People{
	"ann": {"token:ann-laptop", "user:ann@example.com", "cert:ann.example.com", "arn:aws:iam::123456789012:role/ann", account + "AWSReservedSSO_Net_*/ann@example.com"},
	"bob": {"token:bob-*"},
}

func TestPeople_OnlyProvenNamesAreOfAPerson(t *testing.T) {
	for name, want := range map[string]string{
		"token:ann-laptop": "ann", "user:ann@example.com": "ann", "cert:ann.example.com": "ann", account + "ann/any": "ann", account + "AWSReservedSSO_Net_1a/ann@example.com": "ann",
		"token:bob-1": "bob", "token:bob-1 (not proven)": "", "token:ann-laptop (not proven)": "",
		"user:ann-laptop": "", "ann": "", "": "", "token:ann": "", account + "AWSReservedSSO_Net_1a/bob": "", account + "other/ann": "", "ann in HCP Terraform": "",
	} {
		if got := people.Of(name); got != want {
			t.Errorf("%q is of %q, want %q", name, got, want)
		}
	}
}

func TestPeople_SameAreTheIdentitiesOfOnePerson(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"token:ann-laptop", "user:ann@example.com", true}, {"token:ann-laptop", account + "ann/x", true}, {"token:bob-1", "token:bob-2", true},
		{account + "other/x", account + "other/y", true}, {"token:eve", "token:eve", true}, // also without a person
		{"cert:Eve.example.com", "cert:eve.EXAMPLE.com", true}, {"user:Eve@example.com", "user:eve@example.com", true}, {"token:Eve", "token:eve", false},
		{"token:ann-laptop", "user:Ann@Example.com", true}, {"token:ann-laptop", "cert:ANN.example.com", true}, {"token:ann-laptop", "token:Ann-laptop", false},
		{"token:ann-laptop", "token:bob-1", false}, {"token:eve", "cert:eve", false}, {"token:ann-laptop", "user:ann@example.com (not proven)", false}, {"", "token:ann-laptop", false},
	} {
		if people.Same(tt.a, tt.b) != tt.want || people.Same(tt.b, tt.a) != tt.want {
			t.Errorf("%q and %q are one person: %v", tt.a, tt.b, !tt.want)
		}
	}
}

func TestPeople_EntryNamesAPersonByAnyIdentity(t *testing.T) {
	for _, who := range []identity.Identity{identity.OfToken("ann-laptop"), identity.OfARN(account + "ann/x"), {Name: "user:ann@example.com", Proof: identity.OIDC}} {
		if !people.Means("person:ann", who) || people.Means("person:bob", who) || people.Means("person:", who) || !people.Means(who.Name, who) {
			t.Errorf("%+v is not ann", who)
		}
	}
	if people.Means("person:ann", identity.Identity{Name: "token:ann-laptop", Proof: identity.None}) {
		t.Error("a name that nothing proves is a person")
	}
}

// A certificate has several names, and records keep only one.
func TestIdentify_CertificateHasTheNameByWhichItsPersonIsConfigured(t *testing.T) {
	p := roles.Policy{People: people}
	by := identity.Identity{Name: "cert:n1", Also: []string{"cert:x", "cert:ann.example.com"}, Proof: identity.Certificate}
	got := p.Identify(by)
	if got.Name != "cert:ann.example.com" || !slices.Equal(got.Also, []string{"cert:x", "cert:n1"}) || by.Also[1] != "cert:ann.example.com" {
		t.Errorf("%+v", got)
	}
	for _, who := range []identity.Identity{{Name: "cert:ann.example.com", Also: []string{"cert:x"}, Proof: identity.Certificate}, {Name: "cert:n1", Also: []string{"cert:x"}, Proof: identity.Certificate}, identity.OfARN(account + "ann/x")} {
		if got := p.Identify(who); got.Name != who.Name || !slices.Equal(got.Also, who.Also) {
			t.Errorf("%+v becomes %+v", who, got)
		}
	}
}

// Two entries overlap if there is a name that both mean.
func TestOverlap_HasANameThatBothMean(t *testing.T) {
	part := rapid.StringMatching(`[ab*]{1,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, name := "token:"+part.Draw(t, "a"), "token:"+part.Draw(t, "b"), identity.OfToken(rapid.StringMatching(`[ab]{1,6}`).Draw(t, "name"))
		if roles.Means(a, name) && roles.Means(b, name) && !roles.Overlap(a, b) {
			t.Fatalf("%s and %s mean %s, and do not overlap", a, b, name.Name)
		}
		if roles.Overlap(a, b) != roles.Overlap(b, a) || !roles.Overlap(a, a) {
			t.Fatalf("%s and %s", a, b)
		}
	})
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"token:a*", "token:*b", true}, {"token:a*c", "token:*b", false}, {"token:a", "cert:a", false}, {"token:a*", "token:b*", false}, {"token:*ab*", "token:*ba*", true},
		{account + "AWSReservedSSO_a/x", "arn:aws:iam::123456789012:role/AWSReservedSSO_*", true}, {account + "AWSReservedSSO_a/x", "arn:aws:iam::123456789012:role/b", false},
	} {
		if got := roles.Overlap(tt.a, tt.b); got != tt.want {
			t.Errorf("%s and %s overlap: %v", tt.a, tt.b, got)
		}
	}
}
