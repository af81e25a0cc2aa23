// Package chart is what all charts of the documents have in common: fonts, paper, and the legend
// beside the plot.
package chart

import (
	"bytes"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 24 * vg.Centimeter
	margin = 0.3 * vg.Centimeter
)

// families are for whoever does not have the first one, with whose widths the chart is
// laid out.
const families = "Liberation Sans, Arimo, Arial, Helvetica, sans-serif"

// Chart is an empty chart, to be filled.
type Chart struct {
	*plot.Plot
	Grid   *plotter.Grid
	Legend plot.Legend
}

// New returns a chart with a grid, and with what stands above it and on its axes.
func New(title, x, y string) *Chart {
	p := plot.New()
	p.BackgroundColor = nil // that of the paper
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: style.Font.Size}
	}
	p.Title.TextStyle.Font.Size = 14
	p.Title.Padding, p.X.Padding, p.Y.Padding = 8, 4, 4
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xdd}, color.Gray{0xdd}
	p.Add(grid)
	legend := plot.NewLegend()
	legend.TextStyle, legend.Top, legend.Left = p.Legend.TextStyle, true, true
	legend.Padding, legend.ThumbnailWidth = 5, 18
	return &Chart{p, grid, legend}
}

// SVG draws the chart on white paper, so that it can be read on any page.
func (c *Chart) SVG(height, legendWidth vg.Length) ([]byte, error) {
	image := vgsvg.New(width, height)
	canvas := draw.New(image)
	canvas.FillPolygon(color.White, []vg.Point{
		canvas.Min, {X: canvas.Max.X, Y: canvas.Min.Y}, canvas.Max, {X: canvas.Min.X, Y: canvas.Max.Y},
	})
	canvas = draw.Crop(canvas, margin, -margin, margin, -margin)
	c.Draw(draw.Crop(canvas, 0, -legendWidth, 0, 0))
	c.Legend.Draw(draw.Crop(canvas, width-margin-legendWidth, 0, 0, -3*margin))
	var b bytes.Buffer
	if _, err := image.WriteTo(&b); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:"+families+";")), nil
}

// Decades are ticks at powers of ten, with a label, and at twice and five times as much.
func Decades(label func(float64) string) plot.Ticker {
	return plot.TickerFunc(func(low, high float64) (all []plot.Tick) {
		for at := math.Pow(10, math.Floor(math.Log10(low)+1e-9)); at <= high; at *= 10 {
			all = append(all, plot.Tick{Value: at, Label: label(at)}, plot.Tick{Value: 2 * at}, plot.Tick{Value: 5 * at})
		}
		return all
	})
}

// Linear are ticks as usual, with other labels.
func Linear(label func(float64) string) plot.Ticker {
	return plot.TickerFunc(func(low, high float64) (all []plot.Tick) {
		for _, tick := range (plot.DefaultTicks{}).Ticks(low, high) {
			if tick.Label != "" {
				tick.Label = label(tick.Value)
			}
			all = append(all, tick)
		}
		return all
	})
}
