package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/block"
	"github.com/terrapulse/terrapulse/internal/base/list"
	"github.com/terrapulse/terrapulse/internal/rules/approval"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

type rawAccess struct {
	block.Origin
	Grants []rawGrant  `key:"grant" doc:"gives roles to people and programs"`
	Groups []rawGroup  `key:"group" doc:"a group of people and programs, in grants 'group:NAME'"`
	People []rawPerson `key:"person" doc:"a person with several identities, in grants, groups and 'approval.from' 'person:NAME'"`
	OIDC   rawOIDC     `key:"oidc" doc:"OpenID provider for the sign-in to the pages and on the command line. Not in AWS"`
}

type rawGrant struct {
	block.Origin
	Roles  block.Strings `key:"roles" required:"true" example:"operate" doc:"'view', 'operate', 'approve' or 'administer'"`
	To     block.Strings `key:"to" required:"true" example:"group:network" doc:"who gets the roles: 'token:NAME', 'cert:NAME', 'user:NAME', 'group:NAME', 'person:NAME', the ARN of an IAM role or user, or 'everyone'. 'everyone' includes clients without credentials, and can only get 'view'. '*' in a name is any text"`
	Tasks  block.Strings `key:"tasks" unset:"all tasks" example:"firewall-*" doc:"names of the tasks; '*' is any text and '?' one character. The tasks need not exist"`
	Labels block.Map     `key:"labels" form:"labels" unset:"any labels, or none" doc:"only for tasks that have all these labels in the task files, and match 'tasks'; at most 16"`
}

type rawGroup struct {
	block.Labelled
	Members block.Strings `key:"members" required:"true" example:"token:alice" doc:"'token:NAME', 'cert:NAME', 'user:NAME', 'person:NAME' or ARNs, as in 'to' of a grant"`
}

type rawPerson struct {
	block.Labelled
	Identities block.Strings `key:"identities" required:"true" example:"token:ann-laptop" doc:"'token:NAME', 'cert:NAME', 'user:NAME' or ARNs, as in 'to' of a grant. An identity is of one person at most"`
}

// access returns who may do what.
func (l *loader) access(raw *rawAccess) roles.Policy {
	p := roles.Policy{People: l.people(raw.People, raw.OIDC.Set)}
	for i := range raw.Groups {
		g := &raw.Groups[i]
		if _, twice := p.Groups[g.Label]; twice {
			l.Fail(g.Origin, "another group has the name "+block.Quoted(g.Label), "put the members into one group")
		}
		if p.Groups == nil {
			p.Groups = map[string][]string{}
		}
		p.Groups[g.Label] = l.names(&g.Members, p, false, raw.OIDC.Set)
		if len(g.Members.V) == 0 {
			l.Missing(g.Key("members"), "members is required", "list who is in the group")
		}
	}
	if raw.Set && len(raw.Grants) == 0 { // also with an OpenID provider: nobody could do anything
		l.Fail(raw.Origin, "access has no grant: without any, everybody may do what they could without the block", "add a grant, or remove the block")
	}
	for i := range raw.Grants {
		p.Grants = append(p.Grants, l.grant(&raw.Grants[i], p, raw.OIDC.Set))
	}
	return p
}

func (l *loader) grant(raw *rawGrant, p roles.Policy, oidc bool) roles.Grant {
	g := roles.Grant{Tasks: raw.Tasks.V, Labels: l.labelsOf("grant", &raw.Labels), To: l.names(&raw.To, p, true, oidc)}
	words := list.Map(roles.All, func(r roles.Role) string { return string(r) })
	for i, name := range raw.Roles.V {
		if g.Roles = append(g.Roles, roles.Role(name)); !slices.Contains(words, name) {
			l.Fail(raw.Roles.Element(i), "not a role: "+block.Quoted(name), "one of "+strings.Join(words, ", "))
		} else if name != string(roles.View) && slices.Contains(raw.To.V, roles.Everyone) {
			l.Fail(raw.Roles.Element(i), fmt.Sprintf("everyone cannot get the role %s", name), "name who gets it: everyone is also who is not known")
		}
	}
	if len(raw.Roles.V) == 0 {
		l.Missing(raw.Key("roles"), "roles is required", "one or more of "+strings.Join(words, ", "))
	}
	if len(raw.To.V) == 0 {
		l.Missing(raw.Key("to"), "to is required", "name who gets the roles")
	}
	if raw.Tasks.Set && len(raw.Tasks.V) == 0 {
		l.Fail(raw.Tasks.Origin, "the grant is for no task", "remove tasks to grant the roles for all tasks, or remove the grant")
	}
	if raw.Labels.Set && len(raw.Labels.V) == 0 {
		l.Fail(raw.Labels.Origin, "the grant names no label", "remove labels to grant the roles for tasks with any labels, or name a label, as in { site = \"muc\" }")
	}
	for i, name := range raw.Tasks.V {
		if name == "" || strings.Trim(name, taskCharacters) != "" {
			l.Fail(raw.Tasks.Element(i), "no task has such a name: "+block.Quoted(name), "letters, digits, _ and -, with * for any text and ? for one character")
		}
	}
	return g
}

// taskCharacters are those of patterns of tasks.
const taskCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-*?"

// people returns the identities of each person.
func (l *loader) people(raw []rawPerson, oidc bool) roles.People {
	var people roles.People
	var all []identityOf
	for i := range raw {
		r := &raw[i]
		if _, twice := people[r.Label]; twice {
			l.Fail(r.Origin, "another person has the name "+block.Quoted(r.Label), "put the identities into one person")
		}
		if len(r.Identities.V) == 0 {
			l.Missing(r.Key("identities"), "identities is required", "list the identities of the person")
		}
		if people == nil {
			people = roles.People{}
		}
		people[r.Label] = []string{}
		for i := range r.Identities.V {
			name, ok := l.name(&r.Identities, i, oidc, roles.ParseIdentity)
			if !ok {
				continue
			}
			people[r.Label] = append(people[r.Label], name)
			other := slices.IndexFunc(all, func(o identityOf) bool { return o.person != r.Label && roles.Overlap(o.name, name) })
			if other >= 0 {
				l.Fail(r.Identities.Element(i), fmt.Sprintf("%s is also of the person %s, as %s", block.Quoted(name), block.Quoted(all[other].person), block.Quoted(all[other].name)), "name it in one person only")
			}
			all = append(all, identityOf{r.Label, name})
		}
	}
	return people
}

// identityOf is an identity of a person.
type identityOf struct{ person, name string }

// names returns names of identities as they are compared: a person is named by all their identities. A grant
// may also name everyone and groups, of the configuration or, with an OpenID provider, of that.
func (l *loader) names(raw *block.Strings, p roles.Policy, inGrant, oidc bool) []string {
	var names []string
	for i, entry := range raw.V {
		group, isGroup := strings.CutPrefix(entry, roles.GroupKind)
		person, isPerson := strings.CutPrefix(entry, roles.PersonKind)
		switch {
		case isPerson:
			names = append(names, p.People[person]...)
			l.person(raw.Element(i), person, p.People)
			continue
		case inGrant && (isGroup || entry == roles.Everyone):
			if names = append(names, entry); isGroup {
				l.group(raw.Element(i), group, p, oidc)
			}
			continue
		}
		if name, ok := l.name(raw, i, oidc, roles.ParseName); ok {
			names = append(names, name)
		}
	}
	return names
}

// name returns an entry of a list as parse returns it, if it is the name of an identity.
func (l *loader) name(raw *block.Strings, i int, oidc bool, parse func(string) (name, wrong, hint string)) (name string, ok bool) {
	entry := raw.V[i]
	name, wrong, hint := parse(entry)
	if strings.HasPrefix(entry, "user:") && !oidc {
		wrong, hint = "is a person of an OpenID provider, and none is configured", "add a block oidc to api.access, or name a token or a client certificate"
	}
	if wrong != "" {
		l.Fail(raw.Element(i), block.Quoted(entry)+" "+wrong, hint)
	}
	return name, wrong == ""
}

// person checks that the configuration has a person who is named elsewhere.
func (l *loader) person(at block.Origin, name string, people roles.People) {
	if _, defined := people[name]; !defined {
		l.Fail(at, "there is no person "+block.Quoted(name), "define the person with a block person in api.access")
	}
}

// group checks that there may be members of a group that is named elsewhere.
func (l *loader) group(at block.Origin, name string, p roles.Policy, oidc bool) {
	if _, defined := p.Groups[name]; !defined && (name == "" || !oidc) {
		l.Fail(at, "there is no group "+block.Quoted(name), "define it with a block group in api.access, or add a block oidc for the groups of an OpenID provider")
	}
}

// approvers checks that as many people may approve as must: otherwise a plan would wait for ever.
func (l *loader) approvers(raw *approval.ApprovalKeys, spec approval.Spec, api API) {
	for i, entry := range raw.From.V {
		if person, ok := strings.CutPrefix(entry, roles.PersonKind); ok {
			l.person(raw.From.Element(i), person, api.Access.People)
		}
		if group, ok := strings.CutPrefix(entry, roles.GroupKind); ok {
			l.group(raw.From.Element(i), group, api.Access, api.OIDC != nil)
		}
	}
	at := raw.Require.Origin
	if raw.From.Set {
		at = raw.From.Origin
	}
	if most, known := api.Access.Count(spec.From); (raw.Require.Set || raw.From.Set) && known && most < spec.Needed() {
		l.Fail(at, fmt.Sprintf("%d different people must approve, and from names %d", spec.Needed(), most), "name more people in from, or require fewer")
	}
}
