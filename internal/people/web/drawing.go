package web

import "fmt"

// drawing are boxes in columns, with lines from boxes to those in columns further right. A template makes
// a picture of it.
type drawing struct {
	Label         string // what it shows, for people who do not see it
	Width, Height int
	Boxes         []box
	Lines         []string // paths
	Wide, High    int      // of each box

	chars int            // of a text fit into a box
	at    map[string]box // by the key of place
}

// box is one of the boxes of a drawing.
type box struct {
	X, Y  int
	Name  string // the whole one
	Short string
	Below string // a second line
	Link  string
	Tone  tone
}

const (
	boxGap  = 70 // between columns
	boxLine = 58 // from one box to the one below it
	boxHigh = 42
	boxEdge = 4
)

// newDrawing returns an empty drawing with boxes of this width, into which so many characters fit.
func newDrawing(label string, wide, chars int) drawing {
	return drawing{Label: label, Wide: wide, High: boxHigh, chars: chars, at: map[string]box{}}
}

// place adds a box. Lines name it by its key.
func (d *drawing) place(key string, column, row int, b box) {
	b.X, b.Y, b.Short = boxEdge+column*(d.Wide+boxGap), boxEdge+row*boxLine, shortName(b.Name, d.chars)
	if b.Tone == "" {
		b.Tone = calm
	}
	d.at[key], d.Boxes = b, append(d.Boxes, b)
	d.Width, d.Height = max(d.Width, b.X+d.Wide+boxEdge), max(d.Height, b.Y+boxHigh+boxEdge)
}

// connect draws a line between two boxes, if both are there.
func (d *drawing) connect(from, to string) {
	left, has := d.at[from]
	right, hasToo := d.at[to]
	if !has || !hasToo {
		return
	}
	const bend = boxGap / 2
	x, y, toX, toY := left.X+d.Wide, left.Y+boxHigh/2, right.X-6, right.Y+boxHigh/2
	d.Lines = append(d.Lines, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y, x+bend, y, toX-bend, toY, toX, toY))
}

// shortName is a name that fits into a box.
func shortName(name string, chars int) string {
	runes := []rune(name)
	if len(runes) <= chars {
		return name
	}
	return string(runes[:chars-1]) + "…"
}
