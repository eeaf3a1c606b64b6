package identity

import "strings"

// sso begins the names of the roles that IAM Identity Center makes. It sets the names of their
// sessions to those of its users.
const sso = "AWSReservedSSO_"

// Person tells people apart by their names, where several must act. Callers choose the name of a
// session of a role in AWS themselves, so all sessions of a role are one person, except those of IAM
// Identity Center. Names of certificates and of people of an OpenID provider are mostly DNS names or addresses
// of email, whose case means nothing.
func Person(name string) string {
	m := session.FindStringSubmatch(name)
	if m == nil || strings.HasPrefix(m[3], sso) {
		return Folded(name)
	}
	return m[0]
}

// Folded is a name without the case that means nothing where people are told apart.
func Folded(name string) string {
	if strings.HasPrefix(name, "cert:") || strings.HasPrefix(name, "user:") {
		return strings.ToLower(name)
	}
	return name
}

// IsAnySession reports whether a name, in which * may be any text, is that of a session whose name its
// caller chooses.
func IsAnySession(name string) bool {
	_, role, ok := strings.Cut(name, ":assumed-role/")
	return ok && !strings.HasPrefix(role, sso)
}
