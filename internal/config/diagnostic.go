package config

import (
	"fmt"
	"strings"
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

// Errors is everything that is wrong with a configuration.
type Errors []Diagnostic

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, d := range e {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}
