package reports

import (
	"image/color"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// colors are those of contenders, told apart by most people who do not see all colours.
var colors = map[string]color.Color{
	"holdfast/go-redis":   color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"holdfast/rueidis":    color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	"redislock/go-redis":  color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	"redsync/go-redis":    color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	"rueidislock/rueidis": color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	"Redisson/JVM":        color.RGBA{0x00, 0x9e, 0x73, 0xff},
	"bare/go-redis":       color.Gray{0x77},
	"bare/rueidis":        color.Gray{0xbb},
}

// otherColor is that of a contender that has none.
var otherColor = color.RGBA{0x33, 0x22, 0x88, 0xff}

func colorOf(c contenders.Contender) color.Color {
	if known, ok := colors[c.Short()]; ok {
		return known
	}
	return otherColor
}

// logMillis is a title of an axis.
const logMillis = "ms (logarithmic)"

// charts are all for which there are figures.
func charts(entries []*workloads.Entry) (all []diagram) {
	contenders := withFigures(entries)
	for _, c := range []diagram{
		barChart(diagram{file: "each", title: "A lock for each goroutine", x: "goroutines", y: "pairs a second"}, entries, contenders,
			perSecond, "1", "64", "256", "1024"),
		barChart(diagram{file: "one", title: "One lock for all", y: "pairs a second (logarithmic)", log: true}, entries, contenders,
			perSecond, workloads.OneLock, workloads.OneLock+workloads.Longer, workloads.ManyProcesses, workloads.ManyProcesses+workloads.Longer),
		barChart(diagram{file: "waits", title: "The longest wait for one lock, in runs of a second or so", y: logMillis, log: true}, entries, contenders,
			longestWait.pick(), workloads.OneLock, workloads.OneLock+workloads.Longer, workloads.ManyProcesses, workloads.ManyProcesses+workloads.Longer),
		barChart(diagram{file: "kinds", title: "Other kinds of locks: 64 goroutines on one", y: "pairs a second (logarithmic)", log: true}, entries, contenders,
			perSecond, workloads.ReadMostly, workloads.FairLock),
		turnsChart(entries, contenders),
		herdChart(diagram{file: "herd-scripts", title: "Scripts that Redis runs for each hand-over", y: "scripts (logarithmic)"}, entries, contenders, scriptsPerHandOver),
		herdChart(diagram{file: "herd-time", title: "From unlock until another client has the lock", y: "ms, mean (logarithmic)"}, entries, contenders,
			func(f workloads.Figures) float64 { return milliseconds(f.HandOverMean) }),
		herdChart(diagram{file: "herd-free", title: "The longest time that nobody had the lock, though clients waited", y: logMillis}, entries, contenders,
			func(f workloads.Figures) float64 { return milliseconds(f.LongestFree) }),
	} {
		if len(c.series) > 0 {
			all = append(all, c)
		}
	}
	return all
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// withFigures are the contenders that take part, in their order.
func withFigures(entries []*workloads.Entry) (all []contenders.Contender) {
	seen := map[string]bool{}
	for _, e := range entries {
		if !seen[e.Contender.Full()] {
			seen[e.Contender.Full()] = true
			all = append(all, e.Contender)
		}
	}
	return all
}

// barChart completes a chart with a group of bars for each of these workloads.
func barChart(c diagram, entries []*workloads.Entry, contenders []contenders.Contender, pick func(workloads.Figures) float64, ids ...string) diagram {
	for _, id := range ids {
		if w, found := workloads.Named(id); found {
			c.groups = append(c.groups, groupTitle(w))
		}
	}
	for _, who := range contenders {
		s := series{name: who.Short(), color: colorOf(who)}
		found := false
		for _, id := range ids {
			y := medianOf(entries, who, id, pick)
			s.y = append(s.y, y)
			found = found || y > 0
		}
		if found {
			c.series = append(c.series, s)
		}
	}
	return c
}

// groupTitle is what stands below the bars of a workload.
func groupTitle(w workloads.Workload) string {
	if !w.Shared {
		return grouped(w.Goroutines)
	}
	return w.Title
}

// medianOf is the median of a figure over the rounds; 0 if there is none.
func medianOf(entries []*workloads.Entry, who contenders.Contender, workload string, pick func(workloads.Figures) float64) float64 {
	for _, e := range entries {
		if e.Workload.ID == workload && e.Contender.Full() == who.Full() {
			return workloads.Over(measured(e.Rounds), pick).Median
		}
	}
	return 0
}

// turnsChart shows what a hand-over takes between two processes.
func turnsChart(entries []*workloads.Entry, contenders []contenders.Contender) diagram {
	c := diagram{
		file: "handover", title: "A hand-over from process to process, beside the median of a PING on the same client", y: logMillis, log: true,
		groups: []string{"PING", "p50", "p99"},
	}
	for _, who := range contenders {
		y := []float64{
			medianOf(entries, who, workloads.TakingTurns, func(f workloads.Figures) float64 { return milliseconds(f.RoundTrip) }),
			medianOf(entries, who, workloads.TakingTurns, func(f workloads.Figures) float64 { return milliseconds(f.HandOverP50) }),
			medianOf(entries, who, workloads.TakingTurns, func(f workloads.Figures) float64 { return milliseconds(f.HandOverP99) }),
		}
		if y[1] > 0 {
			c.series = append(c.series, series{name: who.Short(), color: colorOf(who), y: y})
		}
	}
	return c
}

// herdChart completes a chart with a line for each contender over the size of the herd.
func herdChart(c diagram, entries []*workloads.Entry, contenders []contenders.Contender, pick func(workloads.Figures) float64) diagram {
	c.x, c.points, c.log = "clients that want one lock (logarithmic)", true, true
	for _, who := range contenders {
		s := series{name: who.Short(), color: colorOf(who)}
		for _, w := range workloads.All() {
			if y := medianOf(entries, who, w.ID, pick); w.Clients && y > 0 && !math.IsInf(y, 0) {
				s.x, s.y = append(s.x, float64(w.Goroutines)), append(s.y, y)
			}
		}
		if len(s.x) > 0 {
			c.series = append(c.series, s)
		}
	}
	return c
}
