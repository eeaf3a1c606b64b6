package access

import "github.com/terrapulse/terrapulse/internal/rules/roles"

// Scope is which tasks an operation needs its role for.
type Scope int

// The scopes.
const (
	OneTask  Scope = iota + 1 // the task that the path names
	SomeTask                  // at least one; the answer has only what the caller may view, or the handler checks the task that the body names
	AllTasks                  // all of them
	NoTask                    // none: everybody may use the operation
)

// Need is what an operation of the API needs. Each has exactly one.
type Need struct {
	Role  roles.Role
	Scope Scope
}

// Check returns an error if the caller may not use an operation. The task is the one that the path
// names; "" if it names none.
func (n Need) Check(c Caller, task string) error {
	switch {
	case n.Scope == NoTask:
		return nil
	case n.Scope == AllTasks:
		return c.NeedAll(n.Role)
	case n.Scope == OneTask && task != "":
		return c.Need(n.Role, task)
	}
	return c.NeedAny(n.Role)
}
