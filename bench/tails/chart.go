package tails

import (
	"image/color"
	"math"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/holdfast-go/holdfast/bench/reports/chart"
)

// colors are those of subjects, told apart by most people who do not see all colours. A peer's line
// has dashes.
var colors = map[string]color.Color{
	"mutex":                         color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"fair":                          color.RGBA{0x00, 0x9e, 0x73, 0xff},
	"writer after reader":           color.RGBA{0x33, 0x22, 0x88, 0xff},
	"writers first: a reader waits": color.RGBA{0x8b, 0x45, 0x13, 0xff},
	"writers first: a writer waits": color.RGBA{0x88, 0x77, 0xdd, 0xff},
	"permits":                       color.RGBA{0x77, 0x77, 0x77, 0xff},
	"redislock":                     color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	"redsync":                       color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	"rueidislock":                   color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	"the servers themselves":        color.Black,
}

// drawn are the subjects that charts and tables show, in this order: with all of them they could not be read.
var drawn = []string{
	"mutex", "fair", "writer after reader", "writers first: a reader waits", "writers first: a writer waits", "permits",
	"redislock", "redsync", "rueidislock", "the servers themselves",
}

const (
	chartHeight = 9 * vg.Centimeter
	legendWidth = 7 * vg.Centimeter
)

// distribution shows which part of the samples of each series is no greater than what stands below.
type distribution struct {
	title, x string
	linear   bool    // else the axis is logarithmic
	least    float64 // ms; what is below it is drawn there
	goal     float64 // ms; 0: none
	series   []series
}

// save draws it into a file.
func (c distribution) save(file string) error {
	p := chart.New(c.title, c.x, "% of the trials")
	low, high := math.Inf(1), c.goal
	for _, s := range c.series {
		if len(s.Millis) > 0 {
			low, high = min(low, s.Millis[0]), max(high, s.Millis[len(s.Millis)-1])
		}
	}
	p.X.Tick.Marker = chart.Linear(func(ms float64) string { return strconv.FormatFloat(ms, 'f', 0, 64) })
	if !c.linear {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, chart.Decades(shortTime)
		low, high = max(c.least, low/1.3), high*1.5
		low = math.Pow(10, math.Floor(math.Log10(low)+1e-9))
	} else {
		low = max(low, c.least)
		low, high = low-(high-low)*0.05, high+(high-low)*0.05
	}
	for _, name := range drawn {
		for _, s := range c.series {
			if s.Subject != name || s.Never {
				continue
			}
			line, err := plotter.NewLine(s.steps(low, high))
			if err != nil {
				return err
			}
			line.Color, line.Width = colors[name], 1.8
			if isPeer(name) {
				line.Dashes = []vg.Length{5, 2}
			}
			p.Add(line)
			p.Legend.Add(name, line)
		}
	}
	if c.goal > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: c.goal, Y: 0}, {X: c.goal, Y: 100}})
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = color.Black, 1.2, []vg.Length{2, 2}
		p.Add(line)
		p.Legend.Add("the goal", line)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = low, high, 0, 100
	image, err := p.SVG(chartHeight, legendWidth)
	if err != nil {
		return err
	}
	return os.WriteFile(file, image, 0o644)
}

// steps are the corners of the line of a series, from one end of the axis to the other.
func (r series) steps(low, high float64) plotter.XYs {
	xys := plotter.XYs{{X: low, Y: 0}}
	n := float64(r.trials())
	few := max(1, len(r.Millis)/200) // more corners cannot be seen; of the tail, all can
	for i, ms := range r.Millis {
		if i%few != 0 && i < len(r.Millis)-20 {
			continue
		}
		ms = max(ms, low)
		xys = append(xys, plotter.XY{X: ms, Y: xys[len(xys)-1].Y}, plotter.XY{X: ms, Y: float64(i+1) / n * 100})
	}
	return append(xys, plotter.XY{X: high, Y: float64(len(r.Millis)) / n * 100})
}

// shortTime writes 0.1 ms, 10 ms, 1 s.
func shortTime(ms float64) string {
	if ms >= 999 {
		return strconv.FormatFloat(math.Round(ms)/1000, 'g', 3, 64) + " s"
	}
	return strconv.FormatFloat(ms, 'g', 3, 64) + " ms"
}
