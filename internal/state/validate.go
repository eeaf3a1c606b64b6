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
	if len(changes) > MaxChanges {
		return fmt.Errorf("%d changes, at most %d are allowed", len(changes), MaxChanges)
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

// ValidateKey reports why a key is none: see Store for what a key looks like.
func ValidateKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("key %.40q... of %d bytes, at most %d are possible", key, len(key), MaxKey)
	}
	if err := validateText(key); err != nil {
		return err
	}
	elements := strings.Split(key, "/")
	if len(elements) < 2 {
		return fmt.Errorf("key %q names no collection", key)
	}
	for _, e := range elements {
		if e == "" {
			return fmt.Errorf("key %q has an empty element", key)
		}
	}
	return nil
}

// ValidatePrefix reports why List cannot take a prefix: it names no whole
// collection, or no key can begin with it.
func ValidatePrefix(prefix string) error {
	if len(prefix) > MaxKey {
		return fmt.Errorf("prefix %.40q... of %d bytes, at most %d are possible", prefix, len(prefix), MaxKey)
	}
	if err := validateText(prefix); err != nil {
		return err
	}
	if strings.Index(prefix, "/") < 1 {
		return fmt.Errorf("prefix %q names no whole collection", prefix)
	}
	if strings.Contains(prefix, "//") {
		return fmt.Errorf("prefix %q has an empty element", prefix)
	}
	return nil
}

func validateText(s string) error {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return fmt.Errorf("key %.40q holds a character that is not printable ASCII", s)
		}
	}
	return nil
}
