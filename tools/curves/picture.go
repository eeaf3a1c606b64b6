package main

import (
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// picture is a file with the curves of one unit, both axes logarithmic.
type picture struct {
	file, title string
	of          []string // what the names of curves begin with
	unit        string   // as in the results
	axis        string   // what people read at the vertical axis
	scale       float64  // of a value in the unit of the axis
	sizes       string
}

const (
	perMillisecond = 1e-6
	perMB          = 1e-6
)

var pictures = []picture{
	{file: "tick-time.svg", title: "A tick on one machine", of: []string{"GrowthTick", "GrowthPrepare", "GrowthDecide"}, unit: "ns/op", axis: "milliseconds", scale: perMillisecond, sizes: "tasks"},
	{file: "tick-memory.svg", title: "Memory that a tick allocates", of: []string{"GrowthTick", "GrowthPrepare"}, unit: "B/op", axis: "MB", scale: perMB, sizes: "tasks"},
	{file: "table-requests.svg", title: "Requests of a tick to DynamoDB", of: []string{"GrowthTable"}, unit: "requests/op", axis: "requests", scale: 1, sizes: "tasks"},
	{file: "table-bytes.svg", title: "Bytes that a tick reads from DynamoDB", of: []string{"GrowthTable"}, unit: "answer-B/op", axis: "MB", scale: perMB, sizes: "tasks"},
	{file: "table-records.svg", title: "Records written for each task of a queue", of: []string{"GrowthTable"}, unit: "records/task", axis: "records for each task", scale: 1, sizes: "tasks"},
	{file: "load.svg", title: "Reading and validating task files", of: []string{"GrowthLoad", "GrowthDigest", "GrowthWith"}, unit: "ns/op", axis: "milliseconds", scale: perMillisecond, sizes: "tasks"},
	{file: "heap.svg", title: "Memory at rest", of: []string{"GrowthHeap"}, unit: "heap-B", axis: "MB of heap after a garbage collection", scale: perMB, sizes: "tasks"},
	{file: "resident.svg", title: "Resident memory of start", of: []string{"GrowthRest"}, unit: "resident-MB", axis: "MB", scale: 1, sizes: "tasks"},
	{file: "people-time.svg", title: "Overview, page and status", of: []string{"GrowthRead", "GrowthPage", "GrowthAPI", "GrowthStatus"}, unit: "ns/op", axis: "milliseconds", scale: perMillisecond, sizes: "tasks"},
	{file: "people-bytes.svg", title: "Bytes of the overview", of: []string{"GrowthRead", "GrowthAPI"}, unit: "answer-B/op", axis: "MB", scale: perMB, sizes: "tasks"},
	{file: "consul-time.svg", title: "Reading services from Consul", of: []string{"GrowthObserve"}, unit: "ns/op", axis: "milliseconds", scale: perMillisecond, sizes: "services"},
}

// colors differ also for people who cannot see some (Okabe and Ito).
var colors = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
}

// save writes the picture, unless there is no curve for it. Logarithmic axes have no place for 0.
func (p picture) save(to string, points []point) error {
	names, byName := curves(points, p.unit, p.of)
	plotted := plot.New()
	plotted.Title.Text, plotted.X.Label.Text, plotted.Y.Label.Text = p.title, p.sizes, p.axis
	plotted.X.Scale, plotted.Y.Scale = plot.LogScale{}, plot.LogScale{}
	plotted.X.Tick.Marker, plotted.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	plotted.BackgroundColor = color.White
	plotted.Legend.Top, plotted.Legend.Left = true, true
	drawn := 0
	for _, name := range names {
		var xys plotter.XYs
		for _, at := range byName[name] {
			if at.value > 0 {
				xys = append(xys, plotter.XY{X: at.size, Y: at.value * p.scale})
			}
		}
		if len(xys) < 2 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(xys)
		if err != nil {
			return err
		}
		line.Color, line.Width = colors[drawn%len(colors)], vg.Points(1.5)
		marks.Color, marks.Shape = line.Color, draw.CircleGlyph{}
		plotted.Add(line, marks)
		plotted.Legend.Add(strings.TrimPrefix(name, "Growth"), line, marks)
		drawn++
	}
	if drawn == 0 {
		return nil
	}
	plotted.Y.Min, plotted.Y.Max = math.Pow(10, math.Floor(math.Log10(plotted.Y.Min))), math.Pow(10, math.Floor(math.Log10(plotted.Y.Max))+1)
	plotted.Add(plotter.NewGrid())
	return plotted.Save(16*vg.Centimeter, 11*vg.Centimeter, filepath.Join(to, p.file))
}
