package main

import "fmt"

// A goal is a bound on the ratio between holdfast and another contender under one
// workload, in one run.
type goal struct {
	workload string // its id
	client   string // holdfast's
	than     string // the other contender's full name
	figure   goalFigure
	bound    float64
}

// goalFigure says which figures are compared.
type goalFigure int

const (
	throughput goalFigure = iota // at least the bound times the other's
	median                       // the p50 of a pair: at most the bound times the other's
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
}

// alarm is the ratio beyond which the check fails: half as good as the goal. What is
// between is for those who read the figures of a quiet machine.
func (g goal) alarm() float64 {
	if g.figure == median {
		return 2 * g.bound
	}
	return g.bound / 2
}

// met reports whether a ratio is as good as a bound.
func (g goal) met(ratio, bound float64) bool {
	if g.figure == median {
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
	case m == 0:
		return absent
	case g.met(m, g.bound):
		return reached
	case g.met(m, g.alarm()):
		return missed
	}
	return failed
}

// ratio is the goal's, over the rounds of these entries.
func (g goal) ratio(entries []*entry) spread[float64] {
	ours, than := g.pair(entries)
	if ours == nil || than == nil {
		return spread[float64]{}
	}
	if g.figure == median {
		return ratio(ours, than, p50Nanos)
	}
	return ratio(ours, than, perSecond)
}

// pair finds the two that are compared.
func (g goal) pair(entries []*entry) (ours, than *entry) {
	for _, e := range entries {
		switch {
		case e.workload.id != g.workload:
		case e.contender.ours && e.contender.client == g.client:
			ours = e
		case e.contender.full() == g.than:
			than = e
		}
	}
	return ours, than
}

// about reports whether the goal is about the entry.
func (g goal) about(e *entry) bool {
	return e.workload.id == g.workload && (e.contender.full() == g.than || e.contender.ours && e.contender.client == g.client)
}

func (g goal) String() string {
	return fmt.Sprintf("%s under %q, on %s over %s", g.figure, g.workload, g.client, g.than)
}

// String is the name of the figure in tables and records.
func (f goalFigure) String() string {
	if f == median {
		return "p50"
	}
	return "pairs/s"
}
