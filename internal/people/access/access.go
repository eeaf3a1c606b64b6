// Package access carries who sends an HTTP request, and what they may do, from the server that has
// checked that to the handlers.
//
// A server identifies the sender (package identity), finds their rights (package roles) and sets both
// with With. Handlers check the rights with Need, NeedAll and NeedAny, and name the sender in what they
// write. A handler of a page that sends a request to the API in the same process passes the context on.
package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
	"github.com/terrapulse/terrapulse/internal/people/middleware"
	"github.com/terrapulse/terrapulse/internal/rules/roles"
)

// Identity is who acts.
type Identity = identity.Identity

// Caller is the sender of a request, with what they may do.
type Caller struct {
	Identity
	Rights roles.Rights
	// Session is set if a session of the pages proves the identity: the viewer can sign out.
	Session bool
	// NotSignedIn says why the viewer could not sign in at the OpenID provider.
	NotSignedIn string
	// Remedy says how to get a role; by default, that a grant gives it.
	Remedy string
}

// Reads reports whether requests with this method of HTTP change nothing.
func Reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

type key struct{}

// With returns a context that carries the sender.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// Of returns the sender of a request from its context. If no server has checked the request, as in a
// command that works on the store itself, it is somebody unknown who may do everything.
func Of(ctx context.Context) Caller {
	if c, ok := ctx.Value(key{}).(Caller); ok {
		return c
	}
	return Caller{Rights: roles.Everything()}
}

// Sender returns the sender of a request. If no server has named it, its address does.
func Sender(r *http.Request) Caller {
	c := Of(r.Context())
	if c.Name == "" {
		c.Name = Address(middleware.Host(r.RemoteAddr))
	}
	return c
}

// Address is the name of a sender of whom only the address is known; it may be "".
func Address(host string) string { return strings.TrimSpace("API client " + host) }

// Viewer is a caller without a name who may view what the caller may view: answers to it are the same
// for all callers with equal rights to view.
func (c Caller) Viewer() Caller { return Caller{Rights: c.Rights.Viewed()} }

// Refused is an error that says which role a caller needs. The status of HTTP is 403.
type Refused struct {
	By   string     // the name of the caller
	Role roles.Role // that is missing
	Task string     // "" if it is not about one task
	text string
}

func (e *Refused) Error() string { return e.text }

// Need returns an error if the caller does not have a role for a task, whether there is such a task or not.
func (c Caller) Need(role roles.Role, task string) error {
	if c.Rights.May(role, task) {
		return nil
	}
	object := "for task " + task
	if c.Rights.ByLabel(role) {
		object += ", and has it only for " + strings.Join(c.Rights.Tasks(role), ", ")
	}
	return c.refuse(role, task, roles.Words(c.Rights.On(task)), object)
}

// NeedAll returns an error if the caller does not have a role for all tasks.
func (c Caller) NeedAll(role roles.Role) error {
	if c.Rights.MayAll(role) {
		return nil
	}
	return c.refuse(role, "", c.some(role), "for all tasks")
}

// NeedAny returns an error if the caller does not have a role for any task.
func (c Caller) NeedAny(role roles.Role) error {
	if c.Rights.MayAny(role) {
		return nil
	}
	return c.refuse(role, "", c.some(role), "")
}

// some are the roles of the caller for some tasks, in words.
func (c Caller) some(needed roles.Role) string {
	if tasks := c.Rights.Tasks(needed); len(tasks) > 0 {
		return fmt.Sprintf("%s only %s", needed, strings.Join(tasks, ", "))
	}
	var all []roles.Role
	for _, role := range roles.All {
		if c.Rights.MayAny(role) {
			all = append(all, role)
		}
	}
	return roles.Words(all)
}

// remedy is what to do about a missing role.
const remedy = "an administrator can give it with a grant in api.access of the configuration"

func (c Caller) refuse(role roles.Role, task, may, object string) error {
	name, fix := c.Name, c.Remedy
	if name == "" {
		name = "the sender of this request"
	}
	if fix == "" {
		fix = remedy
	}
	needs := strings.TrimSpace(fmt.Sprintf("needs the role %s %s", role, object))
	text := fmt.Sprintf("%s %s, and has none: %s", name, needs, fix)
	switch {
	case may != "":
		text = fmt.Sprintf("%s may %s, but %s: %s", name, may, needs, fix)
	case task != "" && c.Rights.ByLabel(role):
		text = fmt.Sprintf("%s %s: %s", name, needs, fix)
	}
	return &Refused{By: c.Name, Role: role, Task: task, text: text}
}
