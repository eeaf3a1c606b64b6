// Package identity says who acts: the name of a person or program, and what proves it.
//
// A name is unique together with its kind, which it begins with: token:ci, cert:noc.example.com,
// user:alice@example.com. In AWS it is the ARN of the caller. A name that somebody only claims carries
// a mark, which is part of it.
package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Proof is what proves a name.
type Proof string

// The proofs. The zero value is that of None.
const (
	None        Proof = "none"        // nothing: the name is an address or a claim
	Local       Proof = "local"       // the request comes from the machine itself, which proves no person
	Token       Proof = "token"       // a bearer token, or a session that it began
	Certificate Proof = "certificate" // a client certificate that the server has verified
	OIDC        Proof = "oidc"        // a token of an OpenID provider, or a session that it began
	IAM         Proof = "iam"         // a request that AWS has authenticated
	Attested    Proof = "attested"    // another system says so, such as HCP Terraform: it has authenticated the person
)

// TokenKind begins the names of tokens.
const TokenKind = "token:"

// Kinds are the beginnings of names, each with the proof that a name of this kind needs.
var Kinds = map[string]Proof{TokenKind: Token, "cert:": Certificate, "user:": OIDC, "arn:": IAM}

// Identity is who acts. The zero value is somebody unknown.
type Identity struct {
	Name   string   `json:"name"`             // for records and people
	Also   []string `json:"also,omitempty"`   // further names of the same proof: those of a certificate, the role of a session in AWS
	Groups []string `json:"groups,omitempty"` // the groups that the identity is in, without their kind
	Proof  Proof    `json:"proof,omitempty"`
	// Account says which account it is, also if its name belonged to another one before: the issuer and the
	// subject of an OpenID provider, or which named token. "" if a name is always of the same account.
	Account string    `json:"account,omitempty"`
	Made    time.Time `json:"made,omitzero"` // when the named token was made; zero if it is none
}

// Proven reports whether credentials prove the name. Only then may a decision depend on it.
func (i Identity) Proven() bool {
	return i.Proof == Token || i.Proof == Certificate || i.Proof == OIDC || i.Proof == IAM
}

// Names are all names of a proven identity. An identity that is not proven has none.
func (i Identity) Names() []string {
	if !i.Proven() {
		return nil
	}
	return append([]string{i.Name}, i.Also...)
}

// Or returns the identity or, if nothing proves who that is, the name that the request itself gives,
// marked as a claim.
func (i Identity) Or(name string) Identity {
	if !i.Proven() && name != "" && name != i.Name {
		i.Name = Claimed(name)
	}
	return i
}

// unproven follows a name that somebody only claims to have.
const unproven = " (not proven)"

// Claimed marks a name as a claim that nothing proves. The mark is a part of the name in records,
// events and messages, so that no reader of them takes it for a fact.
func Claimed(name string) string {
	return strings.TrimSuffix(strings.TrimSpace(name), unproven) + unproven
}

// IsClaimed reports whether a name has the mark of a claim.
func IsClaimed(name string) bool { return strings.HasSuffix(name, unproven) }

// OfRecord is the proven identity whose name a record has. The zero value is that of a name that nothing
// has proven: it has the mark of a claim, or no kind.
func OfRecord(name string) Identity {
	if IsClaimed(name) {
		return Identity{}
	}
	for kind, proof := range Kinds {
		switch {
		case !strings.HasPrefix(name, kind):
		case proof == IAM:
			return OfARN(name)
		default:
			return Identity{Name: name, Proof: proof}
		}
	}
	return Identity{}
}

// OfToken is who sends the token with this name.
func OfToken(name string) Identity { return Identity{Name: TokenKind + name, Proof: Token} }

// maxName is the maximum length of a name, in bytes.
const maxName = 256

// Shown reports whether a name can be shown and compared: it has no characters that nobody sees, so that two
// names do not look the same.
func Shown(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && strings.TrimSpace(name) == name &&
		strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// OfCertificate is who has a client certificate, which the server has verified. Its names are the
// common name of the subject and the alternative names: DNS names, addresses of email and URIs. Without any
// that can be shown, it is the digest of the certificate: serial numbers are unique only for one authority.
func OfCertificate(c *x509.Certificate) Identity {
	names := slices.Concat([]string{c.Subject.CommonName}, c.DNSNames, c.EmailAddresses)
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	i := Identity{Proof: Certificate, Name: fmt.Sprintf("cert:sha256:%x", sha256.Sum256(c.Raw))}
	for _, name := range names {
		if full := "cert:" + name; Shown(name) && !slices.Contains(i.Also, full) {
			i.Also = append(i.Also, full)
		}
	}
	if len(i.Also) > 0 {
		i.Name, i.Also = i.Also[0], i.Also[1:]
	}
	return i
}

// session is the ARN of a session of a role.
var session = regexp.MustCompile(`^(arn:[^:]+):sts:(:[0-9]*):assumed-role/([^/]+)/`)

// OfARN is a caller that IAM has authenticated. Another name of a session is its role, without the
// path, which AWS does not tell.
func OfARN(arn string) Identity {
	i := Identity{Name: arn, Proof: IAM}
	if m := session.FindStringSubmatch(arn); m != nil {
		i.Also = []string{m[1] + ":iam:" + m[2] + ":role/" + m[3]}
	}
	return i
}
