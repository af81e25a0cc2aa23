package reports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
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

// Check is the mode --check: it fails if a goal is missed by more than half. The plan lacks the workloads.
func Check(ctx context.Context, p workloads.Plan, stdout io.Writer) error {
	p.Workloads = checked()
	var entries []*workloads.Entry
	var some []goal
	err := p.On(ctx, func(r *workloads.Runner) error {
		for _, w := range p.Workloads {
			if r.Window = checkWindow; w.Processes > 0 {
				r.Window = checkCrew
			}
			under, of := r.EntriesOf(w), goalsUnder(p, w)
			if err := checkWorkload(ctx, r, under, of); err != nil {
				return err
			}
			entries, some = append(entries, under...), append(some, of...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return judge(stdout, some, entries)
}

// checked are the workloads that goals are about.
func checked() []workloads.Workload {
	return slices.DeleteFunc(workloads.All(), func(w workloads.Workload) bool {
		return !slices.ContainsFunc(goals, func(g goal) bool { return g.workload == w.ID })
	})
}

// goalsUnder are those of a workload, about whoever takes part.
func goalsUnder(p workloads.Plan, w workloads.Workload) (some []goal) {
	withRedisson := slices.ContainsFunc(p.Contenders, func(c contenders.Contender) bool { return c.Full() == contenders.RedissonName })
	for _, g := range goals {
		if g.workload == w.ID && (g.than != contenders.RedissonName || withRedisson) {
			some = append(some, g)
		}
	}
	return some
}

// checkWorkload measures a workload. What fails is measured further, by three times
// as many rounds in all. The median over all of them counts, the first ones included:
// a second measurement that replaced the first would be a second chance, and one that
// is added to it is a finer measurement of the same.
func checkWorkload(ctx context.Context, r *workloads.Runner, entries []*workloads.Entry, of []goal) error {
	if err := r.WarmUp(ctx, entries); err != nil {
		return err
	}
	if err := r.Measure(ctx, entries, checkRounds); err != nil {
		return err
	}
	doubtful := slices.DeleteFunc(slices.Clone(of), func(g goal) bool { return g.judge(g.ratio(entries)) != failed })
	if len(doubtful) == 0 {
		return nil
	}
	for _, g := range doubtful {
		if err := r.Say("%v is %s: %d more rounds; all of them count\n", g, hundredths(g.ratio(entries).Median), checkAgain); err != nil {
			return err
		}
	}
	return r.Measure(ctx, concerned(entries, doubtful), checkAgain)
}

// concerned are the entries that some of the goals are about.
func concerned(entries []*workloads.Entry, some []goal) []*workloads.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e *workloads.Entry) bool {
		return !slices.ContainsFunc(some, func(g goal) bool { return g.about(e) })
	})
}

// judge writes the table of the goals, and returns an error that names those that have
// failed, or have no figures.
func judge(stdout io.Writer, some []goal, entries []*workloads.Entry) error {
	var bad []string
	for _, g := range some {
		if ratio := g.ratio(entries); g.judge(ratio) == failed || g.judge(ratio) == absent {
			bad = append(bad, fmt.Sprintf("%v is %s, %s", g, hundredths(ratio.Median), g.judge(ratio)))
		}
	}
	if _, err := fmt.Fprintf(stdout, "%s\n\n%s", wrap(fmt.Sprintf("Medians of the ratios in each of the rounds, of %v for each contender, and %v if it has several processes, in turns. "+
		"The check fails if one is only half as good as the goal. One that would fail is measured in %d more rounds, and all rounds count.",
		checkWindow, checkCrew, checkAgain), ""), goalTable(some, entries)); err != nil {
		return err
	}
	if bad != nil {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}

// goalTable is the table of these goals. What is aimed at on both clients has one row.
func goalTable(some []goal, entries []*workloads.Entry) *table {
	t := &table{}
	t.add("workload", "compared with", "figure", "goal", contenders.GoRedis, contenders.RueidisLib)
	rows := map[goal][]string{}
	for _, g := range some {
		sign, column, both := "≥ ", slices.Index(t.rows[0], g.client), g
		if g.figure.atMost() {
			sign = "≤ "
		}
		both.client = ""
		if rows[both] == nil {
			rows[both] = []string{g.workload, cmp.Or(g.than, none), g.figure.String(), sign + sized(g.bound), none, none}
			t.add(rows[both]...)
		}
		ratio := g.ratio(entries)
		rows[both][column] = sized(ratio.Median) + " " + string(g.judge(ratio))
	}
	return t
}
