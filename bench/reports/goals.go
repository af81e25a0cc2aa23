package reports

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
)

// A goal is a bound on the ratio between holdfast and another contender under one
// workload, in one run, or on a figure of holdfast's alone.
type goal struct {
	workload string // its id
	client   string // holdfast's
	than     string // the other contender's full name, anyPeer or nobody
	figure   goalFigure
	bound    float64
}

// Instead of a name.
const (
	anyPeer = "the best peer" // by the figure that is compared, on whatever client
	nobody  = ""              // the figure itself counts
)

// The full names of those that holdfast is compared with.
const (
	bareGoName      = "bare on go-redis"
	redislockName   = "redislock on go-redis"
	redsyncName     = "redsync on go-redis"
	bareRueidisName = "bare on rueidis"
	rueidislockName = "rueidislock on rueidis"
)

// goals are all that --check looks at. Those about Redisson count if it takes part.
var goals = []goal{
	{"1", contenders.GoRedis, redislockName, median, 1.10},
	{"1", contenders.RueidisLib, rueidislockName, median, 1.00},

	{"64", contenders.GoRedis, bareGoName, throughput, 1.25},
	{"64", contenders.GoRedis, redislockName, throughput, 1.40},
	{"64", contenders.GoRedis, redsyncName, throughput, 1.40},
	{"64", contenders.RueidisLib, bareRueidisName, throughput, 0.65},
	{"64", contenders.RueidisLib, rueidislockName, throughput, 1.00},

	{"256", contenders.GoRedis, bareGoName, throughput, 1.25},
	{"256", contenders.GoRedis, redislockName, throughput, 1.40},
	{"256", contenders.GoRedis, redsyncName, throughput, 1.40},
	{"256", contenders.RueidisLib, bareRueidisName, throughput, 0.65},
	{"256", contenders.RueidisLib, rueidislockName, throughput, 1.00},

	{"1", contenders.GoRedis, contenders.RedissonName, throughput, 3.00},
	{"1", contenders.RueidisLib, contenders.RedissonName, throughput, 3.00},
	{"64", contenders.GoRedis, contenders.RedissonName, throughput, 3.00},
	{"64", contenders.RueidisLib, contenders.RedissonName, throughput, 3.00},
	{"256", contenders.GoRedis, contenders.RedissonName, throughput, 3.00},
	{"256", contenders.RueidisLib, contenders.RedissonName, throughput, 3.00},

	{workloads.OneLock, contenders.GoRedis, anyPeer, throughput, 10}, // a quarter of what is aimed at below: without the hand-over it is 1
	{workloads.OneLock, contenders.RueidisLib, anyPeer, throughput, 10},
	{workloads.OneLock, contenders.GoRedis, anyPeer, longWait, 0.10},
	{workloads.OneLock, contenders.RueidisLib, anyPeer, longWait, 0.10},
	{workloads.OneLock, contenders.GoRedis, nobody, evenness, 0.50},
	{workloads.OneLock, contenders.RueidisLib, nobody, evenness, 0.50},
}

// contentionGoals are those about many who want one lock. --check does not look at them;
// the tables of a comparison show what has become of each. One that is reached for good
// belongs in goals.
var contentionGoals = []goal{
	{workloads.OneLock, contenders.GoRedis, anyPeer, throughput, 40},
	{workloads.OneLock, contenders.RueidisLib, anyPeer, throughput, 40},

	{workloads.ManyProcesses, contenders.GoRedis, anyPeer, throughput, 20},
	{workloads.ManyProcesses, contenders.RueidisLib, anyPeer, throughput, 20},
	{workloads.ManyProcesses, contenders.GoRedis, nobody, processEvenness, 0.20},
	{workloads.ManyProcesses, contenders.RueidisLib, nobody, processEvenness, 0.20},
	{workloads.ManyProcesses, contenders.GoRedis, nobody, longestWait, 100},
	{workloads.ManyProcesses, contenders.RueidisLib, nobody, longestWait, 100},

	{workloads.TakingTurns, contenders.GoRedis, nobody, handOverMedian, 2.50},
	{workloads.TakingTurns, contenders.RueidisLib, nobody, handOverMedian, 2.50},
	{workloads.TakingTurns, contenders.GoRedis, nobody, handOverTail, 5.00},
	{workloads.TakingTurns, contenders.RueidisLib, nobody, handOverTail, 5.00},

	{workloads.ReadMostly, contenders.GoRedis, nobody, throughput, 20 * readsAtFirst},
	{workloads.ReadMostly, contenders.RueidisLib, nobody, throughput, 20 * readsAtFirst},
	{workloads.ReadMostly, contenders.GoRedis, contenders.RedissonName, throughput, 20},
	{workloads.ReadMostly, contenders.RueidisLib, contenders.RedissonName, throughput, 20},

	{workloads.FairLock, contenders.GoRedis, contenders.RedissonName, throughput, 3.00},
	{workloads.FairLock, contenders.RueidisLib, contenders.RedissonName, throughput, 3.00},
}

// readsAtFirst is what was done of read-mostly, pairs/s, when each reader asked Redis by itself.
const readsAtFirst = 3400

// goalsOf are all goals for which there are figures.
func goalsOf(entries []*workloads.Entry) []goal {
	return slices.DeleteFunc(slices.Concat(goals, contentionGoals), func(g goal) bool {
		return g.ratio(entries) == workloads.Spread[float64]{}
	})
}

// alarm is the ratio beyond which the check fails: half as good as the goal. What is
// between is for those who read the figures of a quiet machine.
func (g goal) alarm() float64 {
	if g.figure.atMost() {
		return 2 * g.bound
	}
	return g.bound / 2
}

// met reports whether a ratio is as good as a bound.
func (g goal) met(ratio, bound float64) bool {
	if g.figure.atMost() {
		return ratio <= bound
	}
	return ratio >= bound
}

// verdict is what a ratio means.
type verdict string

const (
	reached verdict = "reached"
	missed  verdict = "missed"
	failed  verdict = "FAILED" // missed by more than half
	absent  verdict = "no figures"
)

func (g goal) judge(ratio workloads.Spread[float64]) verdict {
	switch m := ratio.Median; {
	case ratio == workloads.Spread[float64]{}:
		return absent
	case g.met(m, g.bound):
		return reached
	case g.met(m, g.alarm()):
		return missed
	}
	return failed
}

// ratio is the goal's, over the rounds of these entries. It is zero if there is none.
func (g goal) ratio(entries []*workloads.Entry) workloads.Spread[float64] {
	ours, than := g.pair(entries)
	switch {
	case ours == nil:
		return workloads.Spread[float64]{}
	case g.than == nobody:
		return workloads.Over(measured(ours.Rounds), g.figure.pick())
	case than == nil:
		return workloads.Spread[float64]{}
	}
	return ratio(ours, than, g.figure.pick())
}

// measured are the rounds in which there was anything to measure.
func measured(rounds []workloads.Figures) []workloads.Figures {
	return slices.DeleteFunc(slices.Clone(rounds), func(f workloads.Figures) bool { return !f.Measured() })
}

// pair finds the two that are compared.
func (g goal) pair(entries []*workloads.Entry) (ours, than *workloads.Entry) {
	for _, e := range entries {
		switch {
		case e.Workload.ID != g.workload:
		case g.isOurs(e):
			ours = e
		case e.Contender.Full() == g.than:
			than = e
		}
	}
	if g.than == anyPeer {
		better := more
		if g.figure.atMost() {
			better = less
		}
		than = bestOfAll(entries, g.workload, g.figure.pick(), better)
	}
	return ours, than
}

// isOurs reports whether the goal is about this contender, and not one of its variants.
func (g goal) isOurs(e *workloads.Entry) bool {
	return e.Contender.Name == contenders.HoldfastName && e.Contender.Client == g.client
}

// about reports whether the goal is about the entry.
func (g goal) about(e *workloads.Entry) bool {
	other := e.Contender.Full() == g.than || g.than == anyPeer && e.Contender.Peer()
	return e.Workload.ID == g.workload && (other || g.isOurs(e))
}

func (g goal) String() string {
	text := fmt.Sprintf("%s under %q, on %s", g.figure, g.workload, g.client)
	if g.than == nobody {
		return text
	}
	return text + " over " + g.than
}

// goalFigure says which figure a goal is about.
type goalFigure int

const (
	throughput      goalFigure = iota // pairs/s
	median                            // the p50 of a pair
	longWait                          // the p99 of a wait
	longestWait                       // ms
	evenness                          // the pairs of the goroutine with the fewest, over those of the one with the most
	processEvenness                   // the same of processes
	handOverMedian                    // the p50 of hand-overs, in round trips
	handOverTail                      // the p99 of them, in round trips
)

// atMost: the less, the better.
func (f goalFigure) atMost() bool {
	return f != throughput && f != evenness && f != processEvenness
}

// pick returns how to find it in the figures of a round.
func (f goalFigure) pick() func(workloads.Figures) float64 {
	switch f {
	case median:
		return p50Nanos
	case longWait:
		return func(f workloads.Figures) float64 { return float64(f.WaitP99) }
	case longestWait:
		return func(f workloads.Figures) float64 { return f.WaitMax.Seconds() * 1000 }
	case evenness:
		return func(f workloads.Figures) float64 { return quotient(f.Fewest, f.Most) }
	case processEvenness:
		return func(f workloads.Figures) float64 { return quotient(f.ProcessFewest, f.ProcessMost) }
	case handOverMedian:
		return func(f workloads.Figures) float64 { return inTrips(f, f.HandOverP50) }
	case handOverTail:
		return func(f workloads.Figures) float64 { return inTrips(f, f.HandOverP99) }
	default:
		return perSecond
	}
}

func quotient(of, to int) float64 { return float64(of) / float64(max(1, to)) }

// inTrips is a time in round trips; 0 if these were not measured.
func inTrips(f workloads.Figures, d time.Duration) float64 {
	if f.RoundTrip == 0 {
		return 0
	}
	return float64(d) / float64(f.RoundTrip)
}

// String is the name of the figure in tables and records.
func (f goalFigure) String() string {
	return [...]string{
		"pairs/s", columnP50, "p99 of waits", "longest wait, ms", "fewest/most", "fewest/most, processes", "p50, trips", "p99, trips",
	}[f]
}
