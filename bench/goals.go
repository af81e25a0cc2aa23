package main

import (
	"fmt"
	"slices"
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
	{"1", goRedis, redislockName, median, 1.10},
	{"1", rueidisLib, rueidislockName, median, 1.00},

	{"64", goRedis, bareGoName, throughput, 1.25},
	{"64", goRedis, redislockName, throughput, 1.40},
	{"64", goRedis, redsyncName, throughput, 1.40},
	{"64", rueidisLib, bareRueidisName, throughput, 0.65},
	{"64", rueidisLib, rueidislockName, throughput, 1.00},

	{"256", goRedis, bareGoName, throughput, 1.25},
	{"256", goRedis, redislockName, throughput, 1.40},
	{"256", goRedis, redsyncName, throughput, 1.40},
	{"256", rueidisLib, bareRueidisName, throughput, 0.65},
	{"256", rueidisLib, rueidislockName, throughput, 1.00},

	{"1", goRedis, redissonName, throughput, 3.00},
	{"1", rueidisLib, redissonName, throughput, 3.00},
	{"64", goRedis, redissonName, throughput, 3.00},
	{"64", rueidisLib, redissonName, throughput, 3.00},
	{"256", goRedis, redissonName, throughput, 3.00},
	{"256", rueidisLib, redissonName, throughput, 3.00},

	{oneLock, goRedis, anyPeer, throughput, 10}, // a quarter of what is aimed at below: without the hand-over it is 1
	{oneLock, rueidisLib, anyPeer, throughput, 10},
	{oneLock, goRedis, anyPeer, longWait, 0.10},
	{oneLock, rueidisLib, anyPeer, longWait, 0.10},
	{oneLock, goRedis, nobody, evenness, 0.50},
	{oneLock, rueidisLib, nobody, evenness, 0.50},
}

// contentionGoals are those about many who want one lock. --check does not look at them;
// the tables of a comparison show what has become of each. One that is reached for good
// belongs in goals.
var contentionGoals = []goal{
	{oneLock, goRedis, anyPeer, throughput, 40},
	{oneLock, rueidisLib, anyPeer, throughput, 40},

	{manyProcesses, goRedis, anyPeer, throughput, 20},
	{manyProcesses, rueidisLib, anyPeer, throughput, 20},
	{manyProcesses, goRedis, nobody, processEvenness, 0.20},
	{manyProcesses, rueidisLib, nobody, processEvenness, 0.20},
	{manyProcesses, goRedis, nobody, longestWait, 100},
	{manyProcesses, rueidisLib, nobody, longestWait, 100},

	{takingTurns, goRedis, nobody, handOverMedian, 2.50},
	{takingTurns, rueidisLib, nobody, handOverMedian, 2.50},
	{takingTurns, goRedis, nobody, handOverTail, 5.00},
	{takingTurns, rueidisLib, nobody, handOverTail, 5.00},

	{readMostly, goRedis, nobody, throughput, 20 * readsAtFirst},
	{readMostly, rueidisLib, nobody, throughput, 20 * readsAtFirst},
	{readMostly, goRedis, redissonName, throughput, 20},
	{readMostly, rueidisLib, redissonName, throughput, 20},

	{fairLock, goRedis, redissonName, throughput, 3.00},
	{fairLock, rueidisLib, redissonName, throughput, 3.00},
}

// readsAtFirst is what was done of read-mostly, pairs/s, when each reader asked Redis by itself.
const readsAtFirst = 3400

// goalsOf are all goals for which there are figures.
func goalsOf(entries []*entry) []goal {
	return slices.DeleteFunc(slices.Concat(goals, contentionGoals), func(g goal) bool {
		return g.ratio(entries) == spread[float64]{}
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

func (g goal) judge(ratio spread[float64]) verdict {
	switch m := ratio.Median; {
	case ratio == spread[float64]{}:
		return absent
	case g.met(m, g.bound):
		return reached
	case g.met(m, g.alarm()):
		return missed
	}
	return failed
}

// ratio is the goal's, over the rounds of these entries. It is zero if there is none.
func (g goal) ratio(entries []*entry) spread[float64] {
	ours, than := g.pair(entries)
	switch {
	case ours == nil:
		return spread[float64]{}
	case g.than == nobody:
		return over(measured(ours.rounds), g.figure.pick())
	case than == nil:
		return spread[float64]{}
	}
	return ratio(ours, than, g.figure.pick())
}

// measured are the rounds in which there was anything to measure.
func measured(rounds []figures) []figures {
	return slices.DeleteFunc(slices.Clone(rounds), func(f figures) bool { return !f.measured() })
}

// pair finds the two that are compared.
func (g goal) pair(entries []*entry) (ours, than *entry) {
	for _, e := range entries {
		switch {
		case e.workload.id != g.workload:
		case g.isOurs(e):
			ours = e
		case e.contender.full() == g.than:
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
func (g goal) isOurs(e *entry) bool {
	return e.contender.name == holdfastName && e.contender.client == g.client
}

// about reports whether the goal is about the entry.
func (g goal) about(e *entry) bool {
	other := e.contender.full() == g.than || g.than == anyPeer && e.contender.peer()
	return e.workload.id == g.workload && (other || g.isOurs(e))
}

func (g goal) String() string {
	text := fmt.Sprintf("%s under %q, on %s", g.figure, g.workload, g.client)
	if g.than == nobody {
		return text
	}
	return text + " over " + g.than
}
