package roles

import (
	"strings"

	"github.com/terrapulse/terrapulse/internal/base/identity"
)

// matches reports whether a text fits a pattern, in which * is any text and, with single, ? is one
// character.
func matches(pattern, text string, single bool) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0 // the latest *, and where the text that it stands for ends
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == t[j] || single && p[i] == '?'):
			i, j = i+1, j+1
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// overlap reports whether a text fits two patterns, in which * is any text.
func overlap(a, b string) bool {
	p, q := []rune(a), []rune(b)
	before := make([]bool, len(q)+1) // whether the rest of p after i and that of q after j have a text
	for i := len(p); i >= 0; i-- {
		now := make([]bool, len(q)+1)
		for j := len(q); j >= 0; j-- {
			inP, inQ := i < len(p), j < len(q)
			switch {
			case !inP && !inQ:
				now[j] = true
			case inP && p[i] == '*':
				now[j] = before[j] || inQ && now[j+1]
			case inQ && q[j] == '*':
				now[j] = now[j+1] || inP && before[j]
			default:
				now[j] = inP && inQ && p[i] == q[j] && before[j+1]
			}
		}
		before = now
	}
	return before[0]
}

// kindOf returns the kind of a name; "" if it has none.
func kindOf(name string) string {
	for kind := range identity.Kinds {
		if strings.HasPrefix(name, kind) {
			return kind
		}
	}
	return ""
}

// ParseName returns an entry, as in Grant.To and Policy.Groups, in the form in which it is compared.
// It says what is wrong with it, if anything, and what to write.
func ParseName(entry string) (name, wrong, hint string) {
	kind := kindOf(entry)
	switch {
	case kind == "":
		return "", "names no identity", "write token:NAME, cert:NAME, user:NAME or the ARN of an IAM role or user"
	case identity.IsClaimed(entry):
		return "", "is a name that somebody only claims", "name a proven identity, without (not proven)"
	case entry == kind:
		return "", "has no name after " + kind, "write the name, or " + kind + "* for all of them"
	case kind != "arn:":
		return entry, "", ""
	}
	before, role, ok := strings.Cut(entry, ":role/")
	if !ok {
		return entry, "", ""
	}
	// AWS names the caller's role without its path.
	name = role[strings.LastIndexByte(role, '/')+1:]
	if strings.Contains(role, "/") && strings.Trim(name, "*") == "" {
		return "", "allows every role, as AWS does not tell the path of a caller's role", "name the roles"
	}
	return before + ":role/" + name, "", ""
}
