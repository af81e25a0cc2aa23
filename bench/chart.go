package main

import (
	"bytes"
	"cmp"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A chart shows a figure of several contenders.
type chart struct {
	file   string // without its ending
	title  string
	x, y   string // what is on the axes
	log    bool   // y is logarithmic
	points bool   // x has numbers, logarithmic; else groups of bars
	groups []string
	series []series
	// line is drawn across, with its name: a bound. 0: none.
	line     float64
	lineName string
}

// series are the values of a contender: one for each group, or at each x. What is not
// above zero is not drawn.
type series struct {
	name  string
	color color.Color
	x, y  []float64
}

// The size of a chart, and of the legend beside it.
const (
	chartWidth  = 24 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
	legendWidth = 5.2 * vg.Centimeter
	chartMargin = 0.3 * vg.Centimeter
)

// families are for whoever does not have the first one, with whose widths the chart is
// laid out.
const families = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif"

// svg draws the chart. It has a background, so that it can be read on any page.
func (c chart) svg() ([]byte, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	if err := c.draw(draw.New(canvas)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:"+families+";")), nil
}

// save writes the chart into a directory.
func (c chart) save(dir string) error {
	image, err := c.svg()
	if err != nil {
		return err
	}
	return os.WriteFile(dir+"/"+c.file+".svg", image, 0o644) //nolint:gosec // everybody may read it
}

// draw draws the chart on a canvas of its size.
func (c chart) draw(canvas draw.Canvas) error {
	p := plot.New()
	p.BackgroundColor = nil // that of the whole canvas
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.x, c.y
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: style.Font.Size}
	}
	p.Title.TextStyle.Font.Size = 14
	p.Title.Padding, p.X.Padding, p.Y.Padding = 8, 4, 4
	if c.log {
		p.Y.Scale = plot.LogScale{}
	}
	p.Y.Tick.Marker = numbers(c.log)
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = nil, color.Gray{0xdd}
	p.Add(grid)
	legend := plot.NewLegend()
	legend.TextStyle, legend.Top, legend.Left = p.Legend.TextStyle, true, true
	legend.Padding, legend.ThumbnailWidth = 5, 16
	add := c.bars
	if c.points {
		add = c.lines
	}
	if err := add(p, &legend); err != nil {
		return err
	}
	c.bound(p, &legend)
	p.Y.Min, p.Y.Max = c.rangeY()
	canvas.FillPolygon(color.White, []vg.Point{
		canvas.Min, {X: canvas.Max.X, Y: canvas.Min.Y}, canvas.Max, {X: canvas.Min.X, Y: canvas.Max.Y},
	})
	canvas = draw.Crop(canvas, chartMargin, -chartMargin, chartMargin, -chartMargin)
	p.Draw(draw.Crop(canvas, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(canvas, chartWidth-2*chartMargin-legendWidth+chartMargin, 0, 0, -chartMargin*3))
	return nil
}

// bars adds a group of bars for each name on the x axis.
func (c chart) bars(p *plot.Plot, legend *plot.Legend) error {
	p.NominalX(c.groups...)
	p.X.Tick.Length = 0
	p.X.Min, p.X.Max = -0.5, float64(len(c.groups))-0.5
	for i, s := range c.series {
		b := bars{series: s, from: -0.4 + 0.8*float64(i)/float64(len(c.series)), width: 0.8 / float64(len(c.series))}
		p.Add(b)
		legend.Add(s.name, b)
	}
	return nil
}

// lines adds a line with points for each series.
func (c chart) lines(p *plot.Plot, legend *plot.Legend) error {
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticksAt(c.series))
	for _, s := range c.series {
		var xys plotter.XYs
		for i := range s.x {
			if s.y[i] > 0 {
				xys = append(xys, plotter.XY{X: s.x[i], Y: s.y[i]})
			}
		}
		if len(xys) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return err
		}
		line.Color, line.Width = s.color, 2
		points.Color, points.Shape, points.Radius = s.color, draw.CircleGlyph{}, 3.5
		p.Add(line, points)
		legend.Add(s.name, line, points)
	}
	return nil
}

// bound adds the line across, and its name.
func (c chart) bound(p *plot.Plot, legend *plot.Legend) {
	if c.line == 0 {
		return
	}
	line := plotter.NewFunction(func(float64) float64 { return c.line })
	line.Color, line.Width, line.Dashes = color.Black, 1.2, []vg.Length{5, 3}
	p.Add(line)
	legend.Add(c.lineName, line)
}

// rangeY is from zero, or the power of ten below all, to somewhat more than the largest.
func (c chart) rangeY() (low, high float64) {
	low, high = math.Inf(1), c.line
	if c.line > 0 {
		low = c.line
	}
	for _, s := range c.series {
		for _, y := range s.y {
			if y > 0 {
				low, high = min(low, y), max(high, y)
			}
		}
	}
	switch {
	case high == 0:
		return 1, 10 // nothing is drawn
	case c.log:
		return math.Pow(10, math.Floor(math.Log10(low)-0.01)), high * 1.5
	}
	return 0, high * 1.05
}

// bars are those of one contender.
type bars struct {
	series

	from, width float64 // beside the middle of each group
}

// Plot implements [plot.Plotter].
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for i, y := range b.y {
		if y <= 0 {
			continue
		}
		left, right := toX(float64(i)+b.from), toX(float64(i)+b.from+b.width*0.92)
		fill(c, b.color, left, right, toY(p.Y.Min), toY(y))
	}
}

// Thumbnail implements [plot.Thumbnailer].
func (b bars) Thumbnail(c *draw.Canvas) { fill(*c, b.color, c.Min.X, c.Max.X, c.Min.Y, c.Max.Y) }

func fill(c draw.Canvas, with color.Color, left, right, bottom, top vg.Length) {
	c.FillPolygon(with, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
}

// numbers are ticks with numbers as people write them.
type numbers bool // logarithmic

// Ticks implements [plot.Ticker].
func (log numbers) Ticks(low, high float64) (all []plot.Tick) {
	if !log {
		for _, tick := range (plot.DefaultTicks{}).Ticks(low, high) {
			if tick.Label != "" {
				tick.Label = axisNumber(tick.Value)
			}
			all = append(all, tick)
		}
		return all
	}
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		all = append(all, plot.Tick{Value: decade, Label: axisNumber(decade)})
		for _, minor := range []float64{2, 5} {
			all = append(all, plot.Tick{Value: minor * decade})
		}
	}
	return all
}

// axisNumber writes 0.01, 10 and 10,000.
func axisNumber(f float64) string {
	if math.Abs(f) >= 1 || f == 0 {
		return whole(f)
	}
	return strings.TrimRight(cmp.Or(decimal(f, 6), "0"), "0")
}

// ticksAt are at each x of the longest series.
func ticksAt(all []series) (ticks []plot.Tick) {
	var longest []float64
	for _, s := range all {
		if len(s.x) > len(longest) {
			longest = s.x
		}
	}
	for _, x := range longest {
		ticks = append(ticks, plot.Tick{Value: x, Label: whole(x)})
	}
	return ticks
}
