package reports

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
)

// A page is the report as a document: Markdown, with the charts in a directory that is
// named after it.
type page struct {
	strings.Builder

	file   string
	facts  Facts
	report Comparison
	waits  []held.Waits
	charts []diagram
	args   []string // of the command that has written it
}

// WritePage writes the comparison as a page, and charts into a directory beside it. The arguments are those of this command.
func WritePage(file string, f Facts, r Comparison, waits []held.Waits, args []string) error {
	p := &page{file: file, facts: f, report: r, waits: waits, charts: charts(r.Entries), args: args}
	return p.write()
}

// directory is where the charts are.
func (p *page) directory() string { return strings.TrimSuffix(p.file, filepath.Ext(p.file)) }

func (p *page) write() error {
	if err := os.MkdirAll(p.directory(), 0o755); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	for _, c := range p.charts {
		if err := c.save(p.directory()); err != nil {
			return err
		}
	}
	p.compose()
	return os.WriteFile(p.file, []byte(p.String()), 0o644) //nolint:gosec // everybody may read it
}

// addf writes a paragraph.
func (p *page) addf(format string, args ...any) {
	p.WriteString(strings.TrimSpace(fmt.Sprintf(format, args...)) + "\n\n")
}

func (p *page) compose() {
	p.addf("# Benchmarks")
	p.addf("`make bench` has written this page: all contenders in turns, on one server, in one run. The figures are of one machine, " +
		"so it is the ratios that say something; [performance](performance.md) says why they are what they are.")
	p.addf("%s", p.facts)
	p.addf("%s", p.report.how())
	p.repeat()
	if goals := goalsOf(p.report.Entries); len(goals) > 0 {
		p.addf("## Goals")
		p.addf("What holdfast aims at, and what came of it here. A figure is FAILED if it is only half as good as its goal.")
		p.addf("%s", goalTable(goals, p.report.Entries).markdown())
	}
	p.sections()
	p.waiters()
	p.addf("## What the columns say")
	p.addf("```text\n%s```", columns)
	p.addf("## What was not as it should be")
	p.addf("%s", p.report.remarks())
	p.addf("## Contenders")
	p.WriteString(p.report.notes())
}

// repeat says how to measure again.
func (p *page) repeat() {
	p.addf("## To repeat it")
	p.addf("```console\n$ make bench                                         # writes this page; some eight minutes\n" +
		"$ make bench-redisson                                # the same, with Redisson in a JVM; needs a JDK and Maven\n" +
		"$ go run ./bench --rounds 1 --duration 300ms         # a short run, which writes to the terminal\n" +
		"$ go run ./bench --workloads one-lock,processes      # a part of it; --help says what there is\n" +
		"$ holdfast bench --redis redis://localhost:6379      # on a server of yours\n```")
	p.addf("This page was written by `go run ./bench %s`.", strings.Join(p.args, " "))
}

// section is a part of the page: charts, and the tables of workloads.
type section struct {
	title, text string
	charts      string
	fits        func(workloads.Workload) bool
}

var sections = []section{
	{
		"A lock for each goroutine", "Nobody waits for anybody: what a pair of lock and unlock costs, and how many fit side by side.", "each",
		func(w workloads.Workload) bool { return !w.Shared },
	},
	{
		"One lock for all", "64 goroutines want the same lock, in one process or in eight, and stay inside for no time or for 1 ms. Libraries whose waiters " +
			"try again after a pause get many pairs from one who takes the lock again while all others sleep: see how few the unluckiest one gets.",
		"one waits", func(w workloads.Workload) bool {
			return w.Turns() && w.Kind == workloads.Mutex && !w.Clients && !w.Alternate
		},
	},
	{
		"Hand-over", "Two processes in turns: each asks for the lock only after the other one has got it, so each pair is a hand-over to somebody who waits.",
		"handover", func(w workloads.Workload) bool { return w.Alternate },
	},
	{
		"Herds", "Clients with a connection and a subscription each, in four processes, want the same lock.",
		"herd-scripts herd-time herd-free", func(w workloads.Workload) bool { return w.Clients },
	},
	{
		"Readers, and fair locks", "64 goroutines on a read-write lock, of which each writes once in a hundred pairs; and on a fair lock. The other libraries for Go have neither.",
		"kinds", func(w workloads.Workload) bool { return w.Kind != workloads.Mutex },
	},
}

func (p *page) sections() {
	for _, s := range sections {
		var tables []string
		for _, w := range p.report.Plan.Workloads {
			if s.fits(w) {
				for _, t := range tablesOf(p.report.Entries, w) {
					tables = append(tables, t.markdown())
				}
			}
		}
		if tables == nil {
			continue
		}
		p.addf("## %s", s.title)
		p.addf("%s", s.text)
		for _, c := range p.charts {
			if strings.Contains(" "+s.charts+" ", " "+c.file+" ") {
				p.addf("![%s](%s/%s.svg)", c.title, filepath.Base(p.directory()), c.file)
			}
		}
		p.addf("%s", strings.Join(tables, "\n"))
	}
}

func (p *page) waiters() {
	if len(p.waits) == 0 {
		return
	}
	p.addf("## Waiters")
	p.addf("Goroutines that wait in Lock, %d for each lock, while another client holds them all: what one of them costs, beyond what it had before it called.", held.WaitersALock)
	p.addf("%s", waitTable(p.waits).markdown())
}
