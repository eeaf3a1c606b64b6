package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

func TestOr_ClaimIsMarkedAndNeverReplacesAProvenName(t *testing.T) {
	for proof, want := range map[identity.Proof]string{
		"": "token:ci (not proven)", identity.None: "token:ci (not proven)", identity.Local: "token:ci (not proven)",
		identity.Token: "x", identity.Certificate: "x", identity.OIDC: "x", identity.IAM: "x",
	} {
		if got := (identity.Identity{Name: "x", Proof: proof}).Or("token:ci"); got.Name != want || got.Proof != proof {
			t.Errorf("with the proof %q: %+v", proof, got)
		}
	}
	if names := (identity.Identity{Name: "token:ci", Proof: identity.Local}).Names(); names != nil {
		t.Errorf("who is not proven has the names %q", names)
	}
}

func TestOfCertificate_NamesAreThoseOfTheSubject(t *testing.T) {
	spiffe, _ := url.Parse("spiffe://example.com/noc")
	for want, c := range map[string]*x509.Certificate{
		"cert:bob":                      {Subject: pkix.Name{CommonName: "bob"}},
		"cert:noc.example.com":          {DNSNames: []string{"noc.example.com"}},
		"cert:bob@example.com":          {EmailAddresses: []string{"bob@example.com"}},
		"cert:spiffe://example.com/noc": {URIs: []*url.URL{spiffe}},
	} {
		if got := identity.OfCertificate(c); got.Name != want || got.Proof != identity.Certificate || len(got.Also) != 0 {
			t.Errorf("%+v, want %s", got, want)
		}
	}
	all := identity.OfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: "bob"}, DNSNames: []string{"bob", "noc"}, EmailAddresses: []string{"bob@example.com"}})
	if !slices.Equal(all.Names(), []string{"cert:bob", "cert:noc", "cert:bob@example.com"}) {
		t.Errorf("%q", all.Names())
	}
}

func TestOfCertificate_HiddenNamesAreNone(t *testing.T) {
	for _, name := range []string{"", " ", "bob\u200b", "bob ", " bob", "bob\n", "bob\x00", "\u202ebob", "bob\xff", strings.Repeat("b", 300)} {
		if got := identity.OfCertificate(&x509.Certificate{Raw: []byte("a"), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}); strings.Contains(got.Name, "bob") || len(got.Also) != 0 {
			t.Errorf("%q is named %+v", name, got)
		}
		got := identity.OfCertificate(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"noc"}})
		if !slices.Equal(got.Names(), []string{"cert:noc"}) {
			t.Errorf("%q and another name are %q", name, got.Names())
		}
	}
}

func TestOfCertificate_WithoutANameIsItsOwnDespiteItsSerialNumber(t *testing.T) {
	one := identity.OfCertificate(&x509.Certificate{Raw: []byte("a"), SerialNumber: big.NewInt(7)})
	other := identity.OfCertificate(&x509.Certificate{Raw: []byte("b"), SerialNumber: big.NewInt(7)})
	named := identity.OfCertificate(&x509.Certificate{Raw: []byte("c"), Subject: pkix.Name{CommonName: "7"}})
	if one.Name == other.Name || one.Name == named.Name || !strings.HasPrefix(one.Name, "cert:sha256:") || !one.Proven() {
		t.Errorf("%+v, %+v, %+v", one, other, named)
	}
}

func TestOfARN_SessionHasItsRole(t *testing.T) {
	for arn, role := range map[string]string{
		"arn:aws:sts::123456789012:assumed-role/NetOps/ann":    "arn:aws:iam::123456789012:role/NetOps",
		"arn:aws-cn:sts::123456789012:assumed-role/NetOps/ann": "arn:aws-cn:iam::123456789012:role/NetOps",
		"arn:aws:iam::123456789012:user/ann":                   "",
	} {
		got := identity.OfARN(arn)
		if got.Name != arn || got.Proof != identity.IAM || (role == "") != (len(got.Also) == 0) || role != "" && got.Also[0] != role {
			t.Errorf("%+v", got)
		}
	}
}
