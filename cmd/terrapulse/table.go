package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fatih/color"
)

// table is printed with aligned columns; on a terminal, rows that are bad news
// are red and those that are good news green.
type table struct {
	lines  bytes.Buffer
	colors []color.Attribute
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
	t.lines.WriteString(strings.Join(cells, "\t") + "\n")
	t.colors = append(t.colors, color.Attribute(n))
}

func (t *table) print(w io.Writer) {
	var aligned bytes.Buffer
	columns := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	columns.Write(t.lines.Bytes())
	columns.Flush()
	inColor := colored(w)
	for i, line := range strings.Split(strings.TrimSuffix(aligned.String(), "\n"), "\n") {
		if inColor && t.colors[i] != color.Reset {
			c := color.New(t.colors[i])
			c.EnableColor()
			line = c.Sprint(line)
		}
		fmt.Fprintln(w, line)
	}
}
