package state

import (
	"fmt"
	"strings"
)

// MaxKey is the length of the longest key, in bytes: what DynamoDB allows in a
// sort key, the tightest of the back-ends.
const MaxKey = 1024

// Validate reports why no back-end may take these changes: too many or too
// large for one Apply, a malformed key, a key that comes twice, or a condition
// without the version that it is about. Back-ends call it first.
func Validate(changes ...Change) error {
	if len(changes) > MaxWrite {
		return fmt.Errorf("%d changes, at most %d are allowed", len(changes), MaxWrite)
	}
	size := 0
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		if err := ValidateKey(c.Key); err != nil {
			return err
		}
		if seen[c.Key] {
			return fmt.Errorf("two changes of record %s at once", c.Key)
		}
		seen[c.Key] = true
		switch c.Op {
		case OpCreate:
			if c.Version != "" {
				return fmt.Errorf("creation of record %s over a version that was read", c.Key)
			}
		case OpReplace, OpDelete, OpCheck:
			if c.Version == "" {
				return fmt.Errorf("change of record %s without the version that was read", c.Key)
			}
		default:
			return fmt.Errorf("unknown operation %d on record %s", c.Op, c.Key)
		}
		size += len(c.Key) + len(c.Value)
	}
	if size > MaxBytes {
		return fmt.Errorf("changes of %d bytes at once, beginning with record %s; at most %d are possible",
			size, changes[0].Key, MaxBytes)
	}
	return nil
}

// ValidateKey reports what is wrong with a key: see Store for what a key looks like.
func ValidateKey(key string) error {
	err := validate("key", key)
	if err == nil && strings.HasSuffix(key, "/") {
		err = fmt.Errorf("key %q has an empty element", key)
	}
	return err
}

// ValidatePrefix reports why List cannot take a prefix: it names no whole
// collection, or no key can begin with it.
func ValidatePrefix(prefix string) error { return validate("prefix", prefix) }

func validate(what, text string) error {
	switch {
	case len(text) > MaxKey:
		return fmt.Errorf("%s %.40q... of %d bytes, at most %d are possible", what, text, len(text), MaxKey)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%s %.40q contains a character that is not printable ASCII", what, text)
	case !strings.Contains(text, "/"):
		return fmt.Errorf("%s %q names no whole collection", what, text)
	case strings.HasPrefix(text, "/"), strings.Contains(text, "//"):
		return fmt.Errorf("%s %q has an empty element", what, text)
	}
	return nil
}
