package tails

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
)

//go:embed page.tmpl
var pageText string

// measured is a fault and the time that it costs, as a chart shows it.
type measured struct {
	id, title, x string
	linear       bool
	goal         float64
}

// measures are those that have charts: where the others differ little, tables do.
var measures = []measured{
	{id: "loss-cutoff", title: "The holder is cut off: when it is told, before or after its key has gone", x: "ms after the key has gone", linear: true},
	{id: "crash", title: "The holder is killed: the next one has the lock after its key has gone", x: "from the end of the key (logarithmic)", goal: 250},
	{id: "dead-waiter", title: "A waiter is killed, then the lock is free: the next one who lives has it", x: "from the release (logarithmic)", goal: 5000},
	{id: "message-lost", title: "The message is lost, and the connection stays", x: "from the release (logarithmic)"},
	{id: "sentinel-held", title: "Sentinel: the primary dies as its holder releases", x: "from the death of the primary (logarithmic)"},
	{id: "cluster-held", title: "Cluster: the primary dies as its holder releases", x: "from the death of the primary (logarithmic)"},
}

func isPeer(name string) bool {
	s, err := subjectNamed(name)
	return err != nil || s.peer
}

// WritePage writes the page and the plots, if there is to be one; else it compares the form of the one that there is.
func WritePage(t *testing.T) {
	if settings.page == "" {
		sameForm(t)
		return
	}
	found, err := read(settings.figures)
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSuffix(settings.page, ".md")
	charts, err := drawAll(found, dir)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := fill(&text, found, charts); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings.page, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sameForm fails if docs/robustness.md was made from another page.tmpl.
func sameForm(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile("../../docs/robustness.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(io.Discard, nil, nil); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(pageText) {
		if !strings.Contains(line, "{{") && !strings.Contains(string(page), line) {
			t.Errorf("docs/robustness.md has no %q: change both, or make tails", line)
		}
	}
}

// drawAll draws what there are figures for into a directory, and returns how the page shows each.
func drawAll(found map[string][]series, dir string) (map[string]string, error) {
	charts := map[string]string{}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, m := range measures {
		c := distribution{title: m.title, x: m.x, linear: m.linear, least: 0.1, goal: m.goal, series: found[m.id]}
		if m.linear {
			c.least = -200
		}
		for _, servers := range []string{"sentinel", "cluster"} {
			if strings.HasPrefix(m.id, servers) {
				c.series = append(c.series, found[servers]...)
			}
		}
		if !slices.ContainsFunc(c.series, func(s series) bool { return !s.Never }) {
			continue
		}
		if err := c.save(filepath.Join(dir, m.id+".svg")); err != nil {
			return nil, err
		}
		charts[m.id] = fmt.Sprintf("![%s](%s/%s.svg)", m.title, filepath.Base(dir), m.id)
	}
	return charts, nil
}

// fill writes the page.
func fill(w io.Writer, found map[string][]series, charts map[string]string) error {
	text, err := template.New("page").Funcs(template.FuncMap{
		"table":  func(columns ...string) string { return table(found, columns) },
		"chart":  func(id string) string { return charts[id] },
		"facts":  facts,
		"load":   func() string { return load(found) },
		"note":   func() string { return strings.TrimRight(" "+settings.note, " ") },
		"trials": func(id string) int { return pick(found, id, "mutex").trials() },
		"p50":    func(id, subject string) string { return figure(found, id, subject, 0.5) },
		"p99":    func(id, subject string) string { return figure(found, id, subject, 0.99) },
		"most":   func(id, subject string) string { return figure(found, id, subject, 1) },
		"late":   func(id, subject string) int { return late(pick(found, id, subject)) },
	}).Parse(pageText)
	if err != nil {
		return err
	}
	return text.Execute(w, nil)
}

// read returns the series of a file by their measures. Of the same one, the last counts.
func read(file string) (map[string][]series, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string][]series{}
	lines := bufio.NewScanner(f)
	for lines.Buffer(nil, 1<<24); lines.Scan(); {
		var s series
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, err
		}
		all := slices.DeleteFunc(found[s.Measure], func(old series) bool { return old.Subject == s.Subject })
		found[s.Measure] = append(all, s)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return found, nil
}

func pick(found map[string][]series, id, subject string) series {
	for _, s := range found[id] {
		if s.Subject == subject {
			return s
		}
	}
	return series{}
}

// late is how many of its samples are above zero.
func late(s series) (n int) {
	for _, ms := range s.Millis {
		if ms > 0 {
			n++
		}
	}
	return n
}

func figure(found map[string][]series, id, subject string, part float64) string {
	return inWords(pick(found, id, subject).at(part))
}

// table has a row for each subject that is drawn, with its p50 and p99 of each measure. The columns are titles and ids in turn.
func table(found map[string][]series, columns []string) string {
	head, rule := "| |", "|---|"
	for column := range slices.Chunk(columns, 2) {
		head += " " + strings.TrimPrefix(column[0]+": p50 | p99 |", ": ")
		rule += "---|---|"
	}
	rows := []string{head, rule}
	for _, subject := range drawn {
		row, measured := "| "+subject+" |", false
		for column := range slices.Chunk(columns, 2) {
			s := pick(found, column[1], subject)
			p50, p99 := inWords(s.at(0.5)), inWords(s.at(0.99))
			switch {
			case s.Subject == "":
				p50, p99 = "–", "–"
			case s.Never:
				p50, p99 = "never", "never"
			}
			row += " " + p50 + " | " + p99 + " |"
			measured = measured || s.Subject != ""
		}
		if measured {
			rows = append(rows, row)
		}
	}
	return strings.Join(rows, "\n")
}

// load is the least and the greatest load under which a series ended.
func load(found map[string][]series) string {
	var all []float64
	for _, of := range found {
		for _, s := range of {
			if f, err := strconv.ParseFloat(s.Load, 64); err == nil {
				all = append(all, f)
			}
		}
	}
	if len(all) == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%.1f to %.1f", slices.Min(all), slices.Max(all))
}

// inWords writes −22 ms, 3.4 ms, 250 ms, 2.6 s.
func inWords(ms float64) string {
	sign := ""
	if ms < 0 {
		sign = "−"
	}
	switch ms = math.Abs(ms); {
	case math.IsNaN(ms):
		return "?"
	case math.IsInf(ms, 0):
		return "over a minute"
	case ms >= 1000:
		return fmt.Sprintf("%s%.1f s", sign, ms/1000)
	case ms >= 10:
		return fmt.Sprintf("%s%.0f ms", sign, ms)
	}
	return fmt.Sprintf("%s%.1f ms", sign, ms)
}

// facts are about the machine and the programs, all of them looked up.
func facts() (string, error) {
	version, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "", err
	}
	redis := ""
	for f := range strings.FieldsSeq(string(version)) {
		if v, ok := strings.CutPrefix(f, "v="); ok {
			redis = v
		}
	}
	libraries, err := exec.Command("go", "list", "-m", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
		"github.com/bsm/redislock", "github.com/go-redsync/redsync/v4").Output()
	if err != nil {
		return "", err
	}
	list := strings.ReplaceAll(strings.TrimSpace(strings.ReplaceAll(string(libraries), "github.com/", "")), "\n", ", ")
	return fmt.Sprintf("%d cores, %s, Redis %s; %s", runtime.NumCPU(), runtime.Version(), redis, list), nil
}
