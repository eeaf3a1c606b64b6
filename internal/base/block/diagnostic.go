package block

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Position is a place in a file. Line and Column count from 1; 0 means unknown.
type Position struct {
	File         string
	Line, Column int
}

func (p Position) String() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	default:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
}

// Diagnostic is one finding about the configuration.
type Diagnostic struct {
	Position
	Key     string // full path of the key, such as "task[0].condition.services.regexp"; may be empty
	Problem string // what is wrong, one sentence without a full stop
	Hint    string // what is allowed, or what to do; may be empty
}

func (d Diagnostic) String() string {
	var b strings.Builder
	if p := d.Position.String(); p != "" {
		b.WriteString(p + ": ")
	}
	if d.Key != "" {
		b.WriteString(d.Key + ": ")
	}
	b.WriteString(d.Problem)
	if d.Hint != "" {
		b.WriteString("; " + d.Hint)
	}
	return b.String()
}

// Quoted quotes text from a file, and shortens long text.
func Quoted(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return fmt.Sprintf("%q... (%d characters)", string(runes[:most]), len(runes))
	}
	return strconv.Quote(s)
}

// QuotedList quotes the first ten texts of a list.
func QuotedList(list []string) string {
	parts := make([]string, min(len(list), 10))
	for i := range parts {
		parts[i] = Quoted(list[i])
	}
	if len(parts) < len(list) {
		parts = append(parts, "...")
	}
	return strings.Join(parts, ", ")
}

// Joined is the path of a key in the block with the given path.
func Joined(path, key string) string {
	if r := []rune(key); len(r) > 60 {
		key = string(r[:60]) + "..."
	}
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Indexed is the path of an element of the list with the given path.
func Indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
