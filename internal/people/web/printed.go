package web

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What Terraform and the programs that it starts print goes to terminals: it has escape sequences. All of them are
// left out, because moving the cursor could hide a line from the person who approves. No library is used: those that
// strip sequences cannot continue in the middle of an output, and hide what only looks like one.

// maxSequence is how long an escape sequence can be. A longer one is shown as text.
const maxSequence = 1024

// sequence returns how many bytes the escape sequence has that a text begins with; 0 if the text ends in the middle
// of it.
func sequence(text string) int {
	if len(text) < 2 {
		return 0
	}
	none := 0 // what the length is if the sequence does not end
	if len(text) > maxSequence {
		text, none = text[:maxSequence], 1
	}
	switch kind := text[1]; {
	case kind == '[':
		for n := 2; n < len(text); n++ {
			switch c := text[n]; {
			case c >= 0x40 && c <= 0x7e:
				return n + 1
			case strings.IndexByte("0123456789;:?> !", c) < 0:
				return 1 // it is none
			}
		}
		return none
	case strings.IndexByte("]PX^_", kind) >= 0: // a text for the terminal, such as a title or a link
		for n := 2; n < len(text); n++ {
			switch {
			case text[n] == '\a':
				return n + 1
			case text[n] == 0x1b && n+1 < len(text) && text[n+1] == '\\':
				return n + 2
			case text[n] == '\n':
				return 1 // it has no end: it is shown
			}
		}
		return none
	case kind >= 0x20 && kind <= 0x2f: // a set of characters
		if len(text) < 3 {
			return 0
		}
		return 3
	case kind >= 0x30 && kind <= 0x7e:
		return 2
	}
	return 1
}

// newlines makes every end of a line a newline. A line that was written over is shown, too.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// printed is a text as HTML.
func printed(text string) template.HTML {
	var out strings.Builder
	out.Grow(len(text) + len(text)/8)
	for line := range strings.Lines(newlines.Replace(text)) {
		line, ended := strings.CutSuffix(line, "\n")
		line = plain(line)
		if class := lineClass(line); class != "" {
			fmt.Fprintf(&out, `<span class="%s">%s</span>`, class, template.HTMLEscapeString(line))
		} else {
			out.WriteString(template.HTMLEscapeString(line))
		}
		if ended {
			out.WriteByte('\n')
		}
	}
	return template.HTML(out.String())
}

// plain is a text without escape sequences.
func plain(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for text != "" {
		end := strings.IndexByte(text, 0x1b)
		if end < 0 {
			end = len(text)
		}
		out.WriteString(visible(text[:end]))
		if text = text[end:]; text != "" {
			text = text[max(sequence(text), 1):] // of one that does not end, the text is shown
		}
	}
	return out.String()
}

// visible is a text without control characters. Those that change the direction of text
// become visible: they could make it read as something else.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return r
		case unicode.IsControl(r):
			return -1
		case unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, text)
}

// lineClass is how a line of Terraform's own text is shown: Terraform is called without
// colors, so that its output is the same for everybody who reads it.
func lineClass(line string) string {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	for _, c := range []struct {
		begin, class string
		indent       int // at least; lists of other programs have none
	}{
		{"# (", "faint", 4}, {"# ", "headline", 2}, {"+ ", "added", 2}, {"- ", "removed", 2}, {"~ ", "altered", 2}, {"-/+ ", "removed", 0}, {"+/- ", "removed", 0}, {"<= ", "headline", 1},
		{"Error: ", "wrong", 0}, {"│ Error: ", "wrong", 0}, {"Warning: ", "warned", 0}, {"│ Warning: ", "warned", 0},
		{"Apply complete!", "headline", 0}, {"Destroy complete!", "headline", 0}, {"No changes.", "headline", 0}, {"Plan: ", "headline", 0},
	} {
		if strings.HasPrefix(text, c.begin) && indent >= c.indent {
			return c.class
		}
	}
	return ""
}

// maxLine is how long a line can be that is kept together.
const maxLine = 64 << 10

// whole returns the beginning of a text that can be shown while more will come: whole
// lines, or else at least whole escape sequences.
func whole(text string) string {
	if end := strings.LastIndexByte(text, '\n') + 1; len(text)-end < maxLine {
		return text[:end]
	}
	if start := strings.LastIndexByte(text, 0x1b); start >= 0 {
		if sequence(text[start:]) == 0 {
			return text[:start]
		}
	}
	return text
}
