// Package yamlplace finds the place of a syntax error in a YAML file. It uses
// yaml.v4: yaml.v3, which reads the task files, names the line before the error or
// the first line of the block.
package yamlplace

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Find returns the line and column, from 1, that a person has to correct, what is
// wrong there, and a hint or "". It quotes nothing of the file, which may hold
// secrets. ok is false if the file is valid.
func Find(src []byte) (line, column int, problem, hint string, ok bool) {
	var at *yaml.LoadError
	if !errors.As(parse(src), &at) {
		return 0, 0, "", "", false
	}
	text, mark, begins := at.Message, at.Mark, at.ContextMark
	switch {
	case strings.HasPrefix(text, "unknown anchor "): // the name may be a secret
		text, hint = "an alias of what has no anchor before it", "a text that begins with * needs quotes"
	case text == "found character that cannot start any token":
		hint = "indent with spaces, YAML allows no tabs there; a text that begins with @, % or ` needs quotes"
	case at.ContextMsg == "while scanning a simple key":
		mark, text = begins, "a key stands alone here: a colon and a value should follow it"
	case at.ContextMsg == "while scanning a quoted scalar" && text == "found unexpected end of stream":
		mark, text = begins, "the quote that begins here does not end"
	case text == "did not find expected ',' or ']'" && begins.Line < mark.Line:
		text += fmt.Sprintf(" of the list that begins on line %d", begins.Line)
	case text == "did not find expected ',' or '}'" && begins.Line < mark.Line:
		text += fmt.Sprintf(" of the map that begins on line %d", begins.Line)
	case text == "did not find expected key":
		hint = "check the indentation, and whether a quote or bracket ends too early"
	}
	if last := 1 + bytes.Count(bytes.TrimRight(src, " \t\r\n"), []byte("\n")); mark.Line > last {
		mark.Line, mark.Column = last, 1 // the file ends before what is missing
	}
	return mark.Line, mark.Column, text, hint, true
}

// parse returns the first error of the file; io.EOF if there is none.
func parse(src []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		if err := dec.Decode(new(yaml.Node)); err != nil {
			return err
		}
	}
}
