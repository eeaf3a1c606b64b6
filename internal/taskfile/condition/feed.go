package condition

import (
	"regexp"
	"strings"
	"sync"
)

// Feed is something in Consul that feeds tasks, as far as task files say what: one service, the services
// that match an expression, a key, keys with a prefix, and the like.
type Feed struct {
	Kind *Kind
	Text string // in words; two feeds with the same text are the same
	// Of is what the names name: OfService, OfKey or OfEntry; "" if names do not select it.
	Of string
	// Name is that of the service or key, or KIND/NAME of the config entry; "" if there may be several.
	Name  string
	Scope Scope

	matches func(name string) bool // nil if Name is set, or if names do not say what it has
}

// OfEntry is Feed.Of of config entries.
const OfEntry = "config entry"

// Has reports whether the feed has the service, the key or the config entry (KIND/NAME) with this name.
func (f Feed) Has(of, name string) bool {
	return f.Of == of && (f.Name != "" && f.Name == name || f.matches != nil && f.matches(name))
}

// matcher returns a function that compiles an expression only if it is called.
func matcher(expression, prefix string) func(name string) bool {
	compiled := sync.OnceValue(func() *regexp.Regexp { return compile(expression).Regexp })
	return func(name string) bool {
		rest, ok := strings.CutPrefix(name, prefix)
		return ok && compiled().MatchString(rest)
	}
}
