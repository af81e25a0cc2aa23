package reports

import (
	"bytes"
	"encoding/xml"
	"image/color"
	"io"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/reports/chart"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

func someChart(log, points bool) diagram {
	return diagram{
		file: "some", title: "Some title", x: "left to right", y: "bottom to top", log: log, points: points, groups: []string{"first", "second"},
		series: []series{
			{name: "one", color: color.Black, x: []float64{10, 1000}, y: []float64{3, 4000}},
			{name: "none", color: color.White, x: []float64{10, 1000}, y: []float64{0, 0}},
		},
		line: 20, lineName: "the bound",
	}
}

// A chart is an image with a background, on which everything has its name.
func TestChart(t *testing.T) {
	for _, c := range []diagram{someChart(false, false), someChart(true, false), someChart(true, true)} {
		image, err := c.svg()
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{"Some title", "bottom to top", "one", "the bound"}
		if c.points {
			texts = append(texts, "left to right", "10", "1,000")
		} else {
			texts = append(texts, "first", "second")
		}
		for _, text := range texts {
			if !strings.Contains(string(image), ">"+text+"<") {
				t.Errorf("no %q in a chart with log %v, points %v", text, c.log, c.points)
			}
		}
		if err := xml.Unmarshal(image, new(struct{})); err != nil {
			t.Error(err)
		}
		if !bytes.Contains(image, []byte(", sans-serif")) {
			t.Error("there is one font only")
		}
		if fill := bytes.Index(image, []byte("fill:#FFFFFF")); fill < 0 || fill > bytes.Index(image, []byte("<text")) {
			t.Error("there is no background")
		}
	}
}

// What has no figures is drawn without bars, and does not fail.
func TestEmptyChart(t *testing.T) {
	c := someChart(true, false)
	c.series, c.line = c.series[1:], 0
	if _, err := c.svg(); err != nil {
		t.Error(err)
	}
}

func TestRangeY(t *testing.T) {
	for _, c := range []struct {
		chart     diagram
		low, high float64
	}{
		{someChart(false, false), 0, 4200},
		{someChart(true, false), 1, 6000},
		{diagram{log: true, series: []series{{y: []float64{0.5, 0}}}, line: 0.02}, 0.01, 0.75},
		{diagram{log: true}, 1, 10},
	} {
		low, high := c.chart.rangeY()
		if math.Abs(low-c.low) > 1e-9 || math.Abs(high-c.high) > 1e-9 {
			t.Errorf("from %v to %v, want %v to %v", low, high, c.low, c.high)
		}
	}
}

func TestTicks(t *testing.T) {
	labels := func(ticks []plot.Tick) (all []string) {
		for _, tick := range ticks {
			if tick.Label != "" {
				all = append(all, tick.Label)
			}
		}
		return all
	}
	if got := strings.Join(labels(chart.Decades(axisNumber).Ticks(0.01, 20000)), " "); got != "0.01 0.1 1 10 100 1,000 10,000" {
		t.Errorf("logarithmic: %s", got)
	}
	if got := labels(chart.Linear(axisNumber).Ticks(0, 50000)); len(got) < 2 || got[0] != "0" || !strings.HasSuffix(got[len(got)-1], ",000") {
		t.Errorf("linear: %v", got)
	}
}

// Every contender can be told from every other.
func TestColors(t *testing.T) {
	seen := map[color.Color]string{}
	for _, c := range append(contenders.All(), contenders.RedissonInJVM(contenders.JVMProgram{}, io.Discard)) {
		if other, taken := seen[colorOf(c)]; taken {
			t.Errorf("%s has the colour of %s", c.Short(), other)
		}
		seen[colorOf(c)] = c.Short()
	}
}

// Each chart is on the page, and shows what was measured.
func TestCharts(t *testing.T) {
	var entries []*workloads.Entry
	for _, w := range workloads.All() {
		for i, c := range contenders.All() {
			if w.Suits(c) {
				f := workloads.Figures{PerSecond: float64(100 + i), P50: 1, Contention: workloads.Contention{
					WaitMax: 5e6, HandOverP50: 2e6, HandOverP99: 3e6, HandOverMean: 4e6, LongestFree: 6e6, RoundTrip: 1e6, Scripts: 7,
				}}
				entries = append(entries, &workloads.Entry{Contender: c, Workload: w, Rounds: []workloads.Figures{f}})
			}
		}
	}
	all := charts(entries)
	if len(all) != 8 {
		t.Errorf("%d charts", len(all))
	}
	shown := ""
	for _, s := range sections {
		shown += " " + s.charts + " "
	}
	for _, c := range all {
		if !strings.Contains(shown, " "+c.file+" ") {
			t.Errorf("%s is on no page", c.file)
		}
		for _, s := range c.series {
			if len(s.y) == 0 || s.y[len(s.y)-1] <= 0 && s.name[:4] != "bare" {
				t.Errorf("%s: %s has %v", c.file, s.name, s.y)
			}
		}
		if c.points && (len(c.series[0].x) != 4 || c.series[0].x[3] != 1000) {
			t.Errorf("%s is over %v", c.file, c.series[0].x)
		}
	}
	if got := charts(nil); len(got) != 0 {
		t.Errorf("%d charts of nothing", len(got))
	}
}

// Every workload is in one section.
func TestSections(t *testing.T) {
	for _, w := range workloads.All() {
		in := 0
		for _, s := range sections {
			if s.fits(w) {
				in++
			}
		}
		if in != 1 {
			t.Errorf("%s is in %d sections", w.ID, in)
		}
	}
}
