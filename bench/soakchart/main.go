// Command soakchart draws what make soak has printed: how much there was of what must not grow, after each round.
//
//	soakchart FILE.svg < soak.log
package main

import (
	"bufio"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"regexp"
	"strconv"
	"time"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/holdfast-go/holdfast/bench/reports/chart"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: soakchart FILE.svg < soak.log")
		os.Exit(2)
	}
	if err := draw(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "soakchart:", err)
		os.Exit(1)
	}
}

// series is one thing that is counted, in its own unit, so that all fit on one axis.
type series struct {
	name   string
	color  color.Color
	counts *regexp.Regexp // each match's group is added
	unit   float64
	points plotter.XYs
}

var (
	line = regexp.MustCompile(`^soak: ([0-9hms.]+): .*; at rest: (.*)$`)
	keys = regexp.MustCompile(`keys: (.*)$`)
	key  = regexp.MustCompile(`(?:^|, )(\d+) `)
)

func newSeries() []*series {
	return []*series{
		{name: "goroutines", color: color.RGBA{0x00, 0x72, 0xb2, 0xff}, counts: regexp.MustCompile(`^(\d+) goroutines`), unit: 1},
		{name: "heap, MiB", color: color.RGBA{0xd5, 0x5e, 0x00, 0xff}, counts: regexp.MustCompile(`heap (\d+) KiB`), unit: 1024},
		{name: "keys", color: color.RGBA{0x00, 0x9e, 0x73, 0xff}, unit: 1},
		{name: "connections", color: color.RGBA{0x77, 0x77, 0x77, 0xff}, counts: regexp.MustCompile(`(\d+) connections`), unit: 1},
	}
}

// read adds the rounds of a log.
func read(log io.Reader) ([]*series, error) {
	all := newSeries()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		said := line.FindStringSubmatch(lines.Text())
		if said == nil {
			continue
		}
		at, err := time.ParseDuration(said[1])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		for _, s := range all {
			of, counts := said[2], s.counts
			if counts == nil {
				rest := keys.FindStringSubmatch(of)
				if rest == nil {
					return nil, fmt.Errorf("no keys in %q", lines.Text())
				}
				of, counts = rest[1], key
			}
			sum := 0.0
			for _, match := range counts.FindAllStringSubmatch(of, -1) {
				n, err := strconv.ParseFloat(match[1], 64)
				if err != nil {
					return nil, fmt.Errorf("%q: %w", lines.Text(), err)
				}
				sum += n
			}
			s.points = append(s.points, plotter.XY{X: at.Minutes(), Y: sum / s.unit})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(all[0].points) == 0 {
		return nil, errors.New("there is no line of a soak: give it what make soak prints")
	}
	return all, nil
}

func draw(log io.Reader, file string) error {
	all, err := read(log)
	if err != nil {
		return err
	}
	p := chart.New("At rest after each round of the soak", "minutes", "")
	p.Y.Min = 0
	for _, s := range all {
		drawn, err := plotter.NewLine(s.points)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Width = s.color, vg.Points(1.5)
		p.Add(drawn)
		p.Legend.Add(s.name, drawn)
	}
	image, err := p.SVG(8*vg.Centimeter, 4*vg.Centimeter)
	if err != nil {
		return err
	}
	return os.WriteFile(file, image, 0o644) //nolint:gosec // everybody may read it
}
