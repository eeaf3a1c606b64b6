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
		return folded(name)
	}
	return m[0]
}

// Folded returns an identity, and an entry that names identities, without the case that means nothing where
// people are told apart.
func Folded(who Identity, entry string) (Identity, string) {
	also := make([]string, len(who.Also))
	for i, name := range who.Also {
		also[i] = folded(name)
	}
	who.Name, who.Also = folded(who.Name), also
	return who, folded(entry)
}

func folded(name string) string {
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
