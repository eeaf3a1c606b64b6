package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fatih/color"
	"github.com/mitchellh/go-wordwrap"

	"github.com/terrapulse/terrapulse/internal/base/clock"
)

// columns is the width of help and tables.
const columns = 80

// at formats a time for people: "-" for no time.
func at(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return clock.Local(*t)
}

// table is printed with aligned columns. On a terminal, rows with bad news are red
// and rows with good news are green.
type table struct{ lines []line }

// lineKind is the kind of a line: a row, a note that is wrapped on a terminal, or a
// text that never is.
type lineKind int

const (
	row lineKind = iota
	note
	single
)

// line is a row of a table, or a text between rows.
type line struct {
	text   string // of a row: its cells, with tabs between
	kind   lineKind
	margin string // of a note
	color  color.Attribute
}

// news is what a row means to its reader.
type news color.Attribute

const (
	plain = news(color.Reset)
	good  = news(color.FgGreen)
	bad   = news(color.FgRed)
)

// row adds a row of cells.
func (t *table) row(n news, cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.Join(strings.Fields(cell), " ") // a row is one line
	}
	t.lines = append(t.lines, line{text: strings.Join(cells, "\t"), color: color.Attribute(n)})
}

// note adds a text below the last row, indented, and wrapped on a terminal.
func (t *table) note(margin, text string) {
	t.lines = append(t.lines, line{text: text, kind: note, margin: margin})
}

// line adds one line of any length below the last row.
func (t *table) line(text string) {
	t.lines = append(t.lines, line{text: strings.Join(strings.Fields(text), " "), kind: single, margin: "  "})
}

func (t *table) print(w io.Writer) {
	var aligned strings.Builder
	rows := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, l := range t.lines {
		if l.kind == row {
			fmt.Fprintln(rows, l.text)
		}
	}
	rows.Flush()
	next := strings.Split(aligned.String(), "\n")
	inColor, wrap := colored(w), isTerminal(w)
	for _, l := range t.lines {
		text := l.text
		switch {
		case l.kind == row:
			text, next = next[0], next[1:]
		case l.kind == note && wrap:
			text = behind(l.margin, text)
		default:
			text = l.margin + strings.TrimSpace(text)
		}
		if inColor && l.kind == row && l.color != color.Reset {
			c := color.New(l.color)
			c.EnableColor()
			text = c.Sprint(text)
		}
		fmt.Fprintln(w, text)
	}
}

// behind wraps a text and indents each line.
func behind(margin, text string) string {
	text = wordwrap.WrapString(strings.TrimSpace(text), uint(columns-len(margin)))
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

// paragraph prints a text, indented, and wrapped on a terminal.
func (a *app) paragraph(margin, text string) {
	if isTerminal(a.stdout) {
		text = behind(margin, text)
	} else {
		text = margin + text
	}
	fmt.Fprintln(a.stdout, text)
}
