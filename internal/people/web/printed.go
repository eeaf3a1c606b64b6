package web

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What Terraform and the programs that it starts print goes to terminals: it has escape
// sequences. Only those for colors and the like mean something here. The others are left
// out, because moving the cursor could hide a line from the person who approves. No
// library is used: those that draw a screen let output hide lines and bring links and
// pictures, and cannot continue in the middle of an output.

// ink is how text is printed until a sequence changes it.
type ink struct {
	color                                  uint8 // 1 to 16; 0 is that of other text
	bold, faint, italic, underline, strike bool
}

// class is what the style sheet calls an ink.
func (i ink) class() string {
	var names []string
	if i.color > 0 {
		names = append(names, "ink"+strconv.Itoa(int(i.color-1)))
	}
	for _, n := range []struct {
		is   bool
		name string
	}{{i.bold, "bold"}, {i.faint, "faint"}, {i.italic, "italic"}, {i.underline, "underline"}, {i.strike, "strike"}} {
		if n.is {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " ")
}

// String is the ink as the numbers of a sequence, for the address of what follows.
func (i ink) String() string {
	var numbers []string
	for n, is := range map[string]bool{"1": i.bold, "2": i.faint, "3": i.italic, "4": i.underline, "9": i.strike} {
		if is {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	if i.color > 0 {
		numbers = append(numbers, "38", "5", strconv.Itoa(int(i.color-1)))
	}
	return strings.Join(numbers, ";")
}

// after returns the ink after the numbers of a sequence. Unknown ones change nothing, and
// backgrounds are left out: text must not get the color of what is behind it.
func (i ink) after(sequence string) ink {
	var all []int
	for n := range strings.SplitSeq(strings.ReplaceAll(sequence, ":", ";"), ";") {
		number, _ := strconv.Atoi(n) // an empty one is 0
		all = append(all, number)
	}
	for len(all) > 0 {
		n := all[0]
		all = all[1:]
		switch {
		case n == 0:
			i = ink{}
		case n == 1:
			i.bold, i.faint = true, false
		case n == 2:
			i.faint, i.bold = true, false
		case n == 3:
			i.italic = true
		case n == 4:
			i.underline = true
		case n == 9:
			i.strike = true
		case n == 21 || n == 22:
			i.bold, i.faint = false, false
		case n == 23:
			i.italic = false
		case n == 24:
			i.underline = false
		case n == 29:
			i.strike = false
		case n >= 30 && n <= 37:
			i.color = uint8(n-30) + 1
		case n >= 90 && n <= 97:
			i.color = uint8(n-90) + 9
		case n == 39:
			i.color = 0
		case n == 38 || n == 48:
			var color uint8
			color, all = paletteColor(all)
			if n == 38 {
				i.color = color
			}
		}
	}
	return i
}

// paletteColor reads the numbers after 38 or 48: a color of 256 by its number, or one by
// its red, green and blue. It returns the nearest one of 16.
func paletteColor(numbers []int) (color uint8, rest []int) {
	switch {
	case len(numbers) >= 2 && numbers[0] == 5:
		n, rest := numbers[1], numbers[2:]
		switch {
		case n < 16:
			return uint8(max(n, 0)) + 1, rest
		case n < 232:
			n -= 16
			return nearest(n/36*51, n/6%6*51, n%6*51), rest
		}
		grey := min(n-232, 23) * 11
		return nearest(grey, grey, grey), rest
	case len(numbers) >= 4 && numbers[0] == 2:
		return nearest(numbers[1], numbers[2], numbers[3]), numbers[4:]
	}
	return 0, nil
}

// nearest is the one of 16 colors that is most like a color.
func nearest(red, green, blue int) uint8 {
	top, bits := max(red, green, blue), 0
	for n, part := range []int{red, green, blue} {
		if part > 64 && 2*part > top {
			bits |= 1 << n
		}
	}
	if bits == 0 || top > 200 {
		bits += 8
	}
	return uint8(bits) + 1
}

// maxSequence is how long an escape sequence can be. A longer one is shown as text.
const maxSequence = 1024

// sequence returns how many bytes the escape sequence has that a text begins with, and the
// numbers of one that sets the ink. If the text ends in the middle of it, it has none.
func sequence(text string) (length int, numbers string, sets bool) {
	if len(text) < 2 {
		return 0, "", false
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
				numbers = text[2:n]
				return n + 1, numbers, c == 'm' && strings.Trim(numbers, "0123456789;:") == ""
			case strings.IndexByte("0123456789;:?> !", c) < 0:
				return 1, "", false // it is none
			}
		}
		return none, "", false
	case strings.IndexByte("]PX^_", kind) >= 0: // a text for the terminal, such as a title or a link
		for n := 2; n < len(text); n++ {
			switch {
			case text[n] == '\a':
				return n + 1, "", false
			case text[n] == 0x1b && n+1 < len(text) && text[n+1] == '\\':
				return n + 2, "", false
			case text[n] == '\n':
				return 1, "", false // it has no end: it is shown
			}
		}
		return none, "", false
	case kind >= 0x20 && kind <= 0x2f: // a set of characters
		if len(text) < 3 {
			return 0, "", false
		}
		return 3, "", false
	case kind >= 0x30 && kind <= 0x7e:
		return 2, "", false
	}
	return 1, "", false
}

// newlines makes every end of a line a newline. A line that was written over is shown, too.
var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// printed is a text as HTML. It returns the ink with which what follows is printed.
func printed(text string, i ink) (template.HTML, ink) {
	var out strings.Builder
	out.Grow(len(text) + len(text)/8)
	for line := range strings.Lines(newlines.Replace(text)) {
		line, ended := strings.CutSuffix(line, "\n")
		class := ""
		if i == (ink{}) && !strings.Contains(line, "\x1b") {
			class = lineClass(line)
		}
		if class != "" {
			fmt.Fprintf(&out, `<span class="%s">`, class)
		}
		i = printLine(&out, line, i)
		if class != "" {
			out.WriteString("</span>")
		}
		if ended {
			out.WriteByte('\n')
		}
	}
	return template.HTML(out.String()), i // which printLine has escaped
}

// printLine writes a line, and returns the ink at its end.
func printLine(out *strings.Builder, line string, i ink) ink {
	for line != "" {
		end := strings.IndexByte(line, 0x1b)
		if end < 0 {
			end = len(line)
		}
		if part := visible(line[:end]); part != "" {
			if class := i.class(); class != "" {
				fmt.Fprintf(out, `<span class="%s">%s</span>`, class, template.HTMLEscapeString(part))
			} else {
				out.WriteString(template.HTMLEscapeString(part))
			}
		}
		if line = line[end:]; line == "" {
			return i
		}
		length, numbers, sets := sequence(line)
		if sets {
			i = i.after(numbers)
		}
		line = line[max(length, 1):] // of one that does not end, the text is shown
	}
	return i
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
			length, _, _ := sequence(text)
			text = text[max(length, 1):]
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
		if length, _, _ := sequence(text[start:]); length == 0 {
			return text[:start]
		}
	}
	return text
}
