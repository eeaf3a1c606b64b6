package apiview

import (
	"github.com/terrapulse/terrapulse/internal/people/apispec"
	"github.com/terrapulse/terrapulse/internal/record/credentials"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// Token returns a named token as the API shows it.
func Token(t credentials.Token) apispec.Token {
	return apispec.Token{Name: t.Name, End: t.End, Created: t.Created, By: t.By, Expires: Moment(t.Expires)}
}

// Rights are what an API of any version says that its caller may do.
func Rights(v apispec.VersionResponse) roles.Rights {
	switch {
	case v.Roles != nil:
		given := map[roles.Role][]string{}
		for _, of := range *v.Roles {
			given[roles.Role(of.Role)] = of.Tasks
		}
		return roles.Given(given)
	case v.MayAct:
		return roles.Everything()
	}
	return roles.Viewing()
}
