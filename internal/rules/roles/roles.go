// Package roles decides what people and programs may do: which roles the configuration grants to an
// identity, and for which tasks. It does no I/O.
package roles

import (
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// Role is what somebody may do with tasks.
type Role string

// The roles. Every role includes view, and administer includes operate. It does not include approve:
// who changes a task needs another person to approve, unless somebody grants both.
const (
	View       Role = "view"       // read everything except secrets
	Operate    Role = "operate"    // run, retry, cancel, hold, release
	Approve    Role = "approve"    // approve and reject plans
	Administer Role = "administer" // create, delete, enable, disable, destroy; for all tasks also pause, approve losses of all tasks, and manage tokens
)

// All are the roles in the order in which people read them.
var All = []Role{View, Operate, Approve, Administer}

// including are the roles that include a role, besides itself.
var including = map[Role][]Role{View: {Operate, Approve, Administer}, Operate: {Administer}}

// Everyone in Grant.To is everybody, known or not. It can only get the role view.
const Everyone = "everyone"

// GroupKind begins the name of a group in Grant.To.
const GroupKind = "group:"

// Grant gives roles to identities.
type Grant struct {
	Roles []Role
	To    []string // names of identities, in which * is any text; group:NAME; or Everyone
	Tasks []string // names of tasks, in which * is any text and ? one character; all tasks if it is empty
	// Labels are those that a task must have, too; nil for any.
	Labels map[string]string
}

// Policy is who may do what.
type Policy struct {
	Grants []Grant
	Groups map[string][]string // names of identities, as in Grant.To
	People People
	// Labels returns the labels of a task, by its name, at the time of a decision: those of its block in the
	// task files, never those that somebody has given it through the API. If it is nil, no task has labels.
	Labels func(task string) map[string]string
}

// Set reports whether there are grants. Without any, roles have no effect.
func (p Policy) Set() bool { return len(p.Grants) > 0 }

// Identify returns an identity with all its groups. A group that the configuration defines has the
// members that it lists, whatever an OpenID provider says. A certificate has the name by which
// its person is configured.
func (p Policy) Identify(who identity.Identity) identity.Identity {
	who = p.People.named(who)
	var groups []string
	if who.Proof == identity.OIDC {
		for _, name := range who.Groups {
			if _, defined := p.Groups[name]; !defined {
				groups = append(groups, name)
			}
		}
	}
	for name, members := range p.Groups {
		if slices.ContainsFunc(members, func(m string) bool { return named(m, who) }) {
			groups = append(groups, name)
		}
	}
	slices.Sort(groups)
	who.Groups = slices.Compact(groups)
	return who
}

// Means reports whether an entry, as in Grant.To, means an identity that Identify has returned.
func Means(entry string, who identity.Identity) bool {
	if group, ok := strings.CutPrefix(entry, GroupKind); ok {
		return who.Proven() && slices.Contains(who.Groups, group)
	}
	return entry == Everyone || named(entry, who)
}

// named reports whether an entry is a name of a proven identity. A name of one kind never matches an
// entry of another kind, whatever it contains.
func named(entry string, who identity.Identity) bool {
	kind := kindOf(entry)
	if kind == "" || identity.Kinds[kind] != who.Proof {
		return false
	}
	return slices.ContainsFunc(who.Names(), func(name string) bool { return matches(entry, name, false) })
}

// Rights returns what an identity may do that Identify has returned.
func (p Policy) Rights(who identity.Identity) Rights {
	given := map[Role][]string{}
	for _, g := range p.Grants {
		if !slices.ContainsFunc(g.To, func(entry string) bool { return Means(entry, who) }) {
			continue
		}
		for _, role := range g.Roles {
			given[role] = append(given[role], g.scopes()...)
		}
	}
	r := rights(given)
	r.labels = p.Labels
	return r
}
