package roles

import (
	"maps"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// PersonKind begins the name of a person, where the configuration names people beside identities.
const PersonKind = "person:"

// People are the identities of each person, by the name of the person: names as in Grant.To. An identity
// is of one person at most.
type People map[string][]string

// Of returns the person whose identity has this name in a record; "" if the configuration names none. A
// name that nothing has proven is of nobody.
func (p People) Of(name string) string {
	if len(p) == 0 {
		return ""
	}
	who := identity.OfRecord(identity.Folded(name))
	for _, person := range slices.Sorted(maps.Keys(p)) {
		if slices.ContainsFunc(p[person], func(entry string) bool { return named(identity.Folded(entry), who) }) {
			return person
		}
	}
	return ""
}

// Same reports whether two names in records are those of one person.
func (p People) Same(a, b string) bool {
	if identity.Person(a) == identity.Person(b) {
		return true
	}
	person := p.Of(a)
	return person != "" && person == p.Of(b)
}

// Means is Means for an entry that may also name a person.
func (p People) Means(entry string, who identity.Identity) bool {
	if person, ok := strings.CutPrefix(entry, PersonKind); ok {
		return slices.ContainsFunc(p[person], func(entry string) bool { return named(entry, who) })
	}
	return Means(entry, who)
}

// Count is how many people entries name at most; it is not known of patterns, of everybody, and of groups of an
// OpenID provider.
func (p Policy) Count(entries []string) (most int, known bool) {
	people := map[string]bool{}
	for _, entry := range entries {
		names, ok := []string{entry}, true
		if group, is := strings.CutPrefix(entry, GroupKind); is {
			names, ok = p.Groups[group]
		}
		for _, name := range names {
			if person := p.People.Of(name); person != "" {
				name = PersonKind + person
			}
			people[identity.Person(name)] = true
			ok = ok && name != Everyone && !strings.Contains(name, "*")
		}
		if !ok {
			return 0, false
		}
	}
	return len(people), len(people) > 0
}

// named returns an identity with the name by which a person has it, if that is another name of a
// certificate: records keep only the name.
func (p People) named(who identity.Identity) identity.Identity {
	if who.Proof != identity.Certificate || p.Of(who.Name) != "" {
		return who
	}
	i := slices.IndexFunc(who.Also, func(name string) bool { return p.Of(name) != "" })
	if i < 0 {
		return who
	}
	was := who.Name
	who.Name, who.Also = who.Also[i], slices.Clone(who.Also)
	who.Also[i] = was
	return who
}

// ParseIdentity is ParseName for an identity of a person.
func ParseIdentity(entry string) (name, wrong, hint string) {
	switch kind := kindOf(entry); {
	case identity.IsAnySession(entry):
		return "", "is a session of a role, and callers choose the names of their sessions", "name the role, as in arn:aws:iam::123456789012:role/NAME"
	case kind != "" && entry != kind && strings.Trim(entry[len(kind):], "*") == "":
		return "", "is every identity of this kind", "name the identities of the person"
	}
	return ParseName(entry)
}

// Overlap reports whether an identity can have two names of identities.
func Overlap(a, b string) bool {
	all := identity.OfRecord(b).Names()
	return slices.ContainsFunc(identity.OfRecord(a).Names(), func(name string) bool {
		return slices.ContainsFunc(all, func(other string) bool { return overlap(name, other) })
	})
}
