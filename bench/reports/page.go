package reports

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/bench/workloads/held"
)

//go:embed page.tmpl
var pageText string

// page is what page.tmpl shows. What is empty has no heading there.
type page struct {
	Facts                                            Facts
	How, Args, Goals, Waits, Columns, Remarks, Notes string
	Sections                                         []section
	WaitersALock                                     int
}

// WritePage writes the comparison as a page, Markdown, and its charts into a directory that is named after it. The
// arguments are those of this command.
func WritePage(file string, f Facts, r Comparison, waits []held.Waits, args []string) error {
	dir := strings.TrimSuffix(file, filepath.Ext(file))
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	drawn := charts(r.Entries)
	for _, c := range drawn {
		if err := c.save(dir); err != nil {
			return err
		}
	}
	p := page{
		Facts: f, How: r.how(), Args: strings.Join(args, " "), Columns: columns, Remarks: r.remarks(), Notes: r.notes(),
		Sections: r.sections(filepath.Base(dir), drawn), WaitersALock: held.WaitersALock,
	}
	if goals := goalsOf(r.Entries); len(goals) > 0 {
		p.Goals = goalTable(goals, r.Entries).markdown()
	}
	if len(waits) > 0 {
		most := slices.MaxFunc(waits, func(a, b held.Waits) int { return a.Waiters - b.Waiters }).Waiters
		p.Waits = waitTable(slices.DeleteFunc(waits, func(w held.Waits) bool { return w.Waiters < most })).markdown()
	}
	text, err := template.New("page").Funcs(template.FuncMap{"trim": strings.TrimSpace}).Parse(pageText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := text.Execute(&b, p); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o644) //nolint:gosec // everybody may read it
}

// section is a part of the page: charts, and the tables of workloads.
type section struct {
	Title, Text string
	charts      string // their files
	fits        func(workloads.Workload) bool

	Charts []string // as the page shows them
	Tables string
}

var sections = []section{
	{
		Title: "A lock for each goroutine", Text: "Nobody waits: what a pair of lock and unlock costs, and how many run at once.",
		charts: "each", fits: func(w workloads.Workload) bool { return !w.Shared },
	},
	{
		Title: "One lock for all", Text: "64 goroutines want the same lock, in one process or in eight, and stay inside for no time or for 1 ms. If waiters try again " +
			"after a pause, one goroutine can take the lock again and again while the others sleep: see how few pairs the unluckiest one gets. " +
			"Through the server, one lock cannot change hands more often than one goroutine makes bare pairs.",
		charts: "one waits", fits: func(w workloads.Workload) bool {
			return w.Turns() && w.Kind == workloads.Mutex && !w.Clients && !w.Alternate
		},
	},
	{
		Title: "Hand-over", Text: "Two processes in turns: each asks for the lock only after the other one has it, so each pair is a hand-over to a waiter.",
		charts: "handover", fits: func(w workloads.Workload) bool { return w.Alternate },
	},
	{
		Title: "Herds", Text: "Clients in four processes, with a connection and a subscription each, want the same lock.",
		charts: "herd-scripts herd-time herd-free", fits: func(w workloads.Workload) bool { return w.Clients },
	},
	{
		Title: "Readers, and fair locks", Text: "64 goroutines on a read-write lock, where one pair in a hundred writes, and on a fair lock. The other libraries for Go have neither.",
		charts: "kinds", fits: func(w workloads.Workload) bool { return w.Kind != workloads.Mutex },
	},
}

// plotted are workloads that only charts show.
var plotted = []string{"256", "1024", workloads.OneLock + workloads.Longer, "herd-10", "herd-500"}

// sections are those for which there are figures.
func (r Comparison) sections(dir string, drawn []diagram) (some []section) {
	for _, s := range sections {
		var tables []string
		for _, w := range r.Plan.Workloads {
			if s.fits(w) && !slices.Contains(plotted, w.ID) {
				for _, t := range tablesOf(r.Entries, w) {
					tables = append(tables, t.markdown())
				}
			}
		}
		if tables == nil {
			continue
		}
		for _, c := range drawn {
			if slices.Contains(strings.Fields(s.charts), c.file) {
				s.Charts = append(s.Charts, fmt.Sprintf("![%s](%s/%s.svg)", c.title, dir, c.file))
			}
		}
		s.Tables = strings.Join(tables, "\n")
		some = append(some, s)
	}
	return some
}
