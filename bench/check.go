package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The rounds of a check: many short ones, so that a burst of other work on the
// machine falls on few of them, and on all contenders of a goal alike.
const (
	checkRounds = 9
	checkAgain  = 18 // more, for what has failed
	checkWindow = 60 * time.Millisecond
	// checkCrew is the window of workloads with several processes: these need longer to
	// get going.
	checkCrew = 300 * time.Millisecond
)

// check is the mode --check: it fails if a goal is missed by more than half.
func (j *job) check(ctx context.Context) (err error) {
	p := plan{
		setup: j.setup(), window: checkWindow, limit: j.timeout, progress: j.progress,
		contenders: j.contenders(), workloads: checked(),
	}
	r, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var entries []*entry
	var some []goal
	for _, w := range p.workloads {
		if r.window = checkWindow; w.processes > 0 {
			r.window = checkCrew
		}
		under, of := r.entriesOf(w), j.goalsUnder(w)
		if err := r.checkWorkload(ctx, under, of); err != nil {
			return err
		}
		entries, some = append(entries, under...), append(some, of...)
	}
	return j.judge(some, entries)
}

// checked are the workloads that goals are about.
func checked() []workload {
	return slices.DeleteFunc(workloads(), func(w workload) bool {
		return !slices.ContainsFunc(goals, func(g goal) bool { return g.workload == w.id })
	})
}

// goalsUnder are those of a workload, about whoever takes part.
func (j *job) goalsUnder(w workload) (some []goal) {
	for _, g := range goals {
		if g.workload == w.id && (g.than != redissonName || j.redisson) {
			some = append(some, g)
		}
	}
	return some
}

// checkWorkload measures a workload. What fails is measured further, by three times
// as many rounds in all. The median over all of them counts, the first ones included:
// a second measurement that replaced the first would be a second chance, and one that
// is added to it is a finer measurement of the same.
func (r *runner) checkWorkload(ctx context.Context, entries []*entry, of []goal) error {
	if err := r.warmUp(ctx, entries); err != nil {
		return err
	}
	if err := r.measure(ctx, entries, checkRounds); err != nil {
		return err
	}
	doubtful := slices.DeleteFunc(slices.Clone(of), func(g goal) bool { return g.judge(g.ratio(entries)) != failed })
	if len(doubtful) == 0 {
		return nil
	}
	for _, g := range doubtful {
		if err := r.say("%v is %s: %d more rounds; all of them count\n", g, hundredths(g.ratio(entries).Median), checkAgain); err != nil {
			return err
		}
	}
	return r.measure(ctx, concerned(entries, doubtful), checkAgain)
}

// concerned are the entries that some of the goals are about.
func concerned(entries []*entry, some []goal) []*entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool {
		return !slices.ContainsFunc(some, func(g goal) bool { return g.about(e) })
	})
}

// goalRecord is a goal, and what was measured.
type goalRecord struct {
	Kind     string          `json:"kind"`
	Workload string          `json:"workload"`
	Client   string          `json:"client"`
	Than     string          `json:"than"`
	Figure   string          `json:"figure"`
	Goal     float64         `json:"goal"`
	Alarm    float64         `json:"alarm"`
	Ratio    spread[float64] `json:"ratio"`
	Rounds   int             `json:"rounds"`
	Verdict  verdict         `json:"verdict"`
}

// judge writes the table of the goals, and returns an error that names those that have
// failed, or have no figures.
func (j *job) judge(some []goal, entries []*entry) error {
	t := goalTable(some, entries)
	var bad []string
	for _, g := range some {
		record := g.record(entries)
		if err := j.records.write(record); err != nil {
			return err
		}
		if record.Verdict == failed || record.Verdict == absent {
			bad = append(bad, fmt.Sprintf("%v is %s, %s", g, hundredths(record.Ratio.Median), record.Verdict))
		}
	}
	if _, err := fmt.Fprintf(j.stdout, "%s\n\n%s", wrap(fmt.Sprintf("Medians of the ratios in each of the rounds, of %v for each contender, and %v if it has several processes, in turns. "+
		"The check fails if one is only half as good as the goal. One that would fail is measured in %d more rounds, and all rounds count.",
		checkWindow, checkCrew, checkAgain), ""), t); err != nil {
		return err
	}
	if bad != nil {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}

// goalTable is the table of these goals.
func goalTable(some []goal, entries []*entry) *table {
	t := &table{}
	t.add("workload", "holdfast on", "compared with", "figure", "goal", "fails", "ratio (min–max)", "rounds", "")
	for _, g := range some {
		t.add(g.cells(g.record(entries))...)
	}
	return t
}

func (g goal) record(entries []*entry) goalRecord {
	ratio, rounds := g.ratio(entries), 0
	switch ours, than := g.pair(entries); {
	case ours != nil && g.than == nobody:
		rounds = len(ours.rounds)
	case ours != nil && than != nil:
		rounds = min(len(ours.rounds), len(than.rounds))
	}
	return goalRecord{"goal", g.workload, g.client, g.than, g.figure.String(), g.bound, g.alarm(), ratio, rounds, g.judge(ratio)}
}

func (g goal) cells(r goalRecord) []string {
	sign, worse := "≥ ", "< "
	if g.figure.atMost() {
		sign, worse = "≤ ", "> "
	}
	return []string{
		g.workload, g.client, cmp.Or(g.than, none), g.figure.String(), sign + sized(g.bound), worse + sized(g.alarm()),
		rangeOf(r.Ratio, sized), strconv.Itoa(r.Rounds), string(r.Verdict),
	}
}
