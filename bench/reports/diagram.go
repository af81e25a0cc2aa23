package reports

import (
	"cmp"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/holdfast-go/holdfast/bench/reports/chart"
)

// diagram shows a figure of several contenders.
type diagram struct {
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

const (
	chartHeight = 10 * vg.Centimeter
	legendWidth = 5.2 * vg.Centimeter
)

// svg draws the chart.
func (c diagram) svg() ([]byte, error) {
	p := chart.New(c.title, c.x, c.y)
	p.Grid.Vertical.Color = nil
	p.Y.Tick.Marker = chart.Linear(axisNumber)
	if c.log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, chart.Decades(axisNumber)
	}
	add := c.bars
	if c.points {
		add = c.lines
	}
	if err := add(p); err != nil {
		return nil, err
	}
	c.bound(p)
	p.Y.Min, p.Y.Max = c.rangeY()
	return p.SVG(chartHeight, legendWidth)
}

// save writes the chart into a directory.
func (c diagram) save(dir string) error {
	image, err := c.svg()
	if err != nil {
		return err
	}
	return os.WriteFile(dir+"/"+c.file+".svg", image, 0o644) //nolint:gosec // everybody may read it
}

// bars adds a group of bars for each name on the x axis.
func (c diagram) bars(p *chart.Chart) error {
	p.NominalX(c.groups...)
	p.X.Tick.Length = 0
	p.X.Min, p.X.Max = -0.5, float64(len(c.groups))-0.5
	for i, s := range c.series {
		b := bars{series: s, from: -0.4 + 0.8*float64(i)/float64(len(c.series)), width: 0.8 / float64(len(c.series))}
		p.Add(b)
		p.Legend.Add(s.name, b)
	}
	return nil
}

// lines adds a line with points for each series.
func (c diagram) lines(p *chart.Chart) error {
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
		p.Legend.Add(s.name, line, points)
	}
	return nil
}

// bound adds the line across, and its name.
func (c diagram) bound(p *chart.Chart) {
	if c.line == 0 {
		return
	}
	line := plotter.NewFunction(func(float64) float64 { return c.line })
	line.Color, line.Width, line.Dashes = color.Black, 1.2, []vg.Length{5, 3}
	p.Add(line)
	p.Legend.Add(c.lineName, line)
}

// rangeY is from zero, or the power of ten below all, to somewhat more than the largest.
func (c diagram) rangeY() (low, high float64) {
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
