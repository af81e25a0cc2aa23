package dashboard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
)

// metrics answers with what the last look has found, in the text format of Prometheus. No name of a lock is in it. While Redis is
// away there are no locks in it, rather than old ones.
func (h *handler) metrics(w http.ResponseWriter, _ *http.Request) {
	h.mu.Lock()
	up, seen, looked, took, lost, entries := h.away == nil && h.looks > 0, h.looks > 0, h.looked, h.took, h.history.lost, h.entries
	h.mu.Unlock()
	var text strings.Builder
	head := func(name, kind, help string) {
		fmt.Fprintf(&text, "# HELP holdfast_dashboard_%s %s\n# TYPE holdfast_dashboard_%[1]s %[3]s\n", name, help, kind)
	}
	put := func(name, kind, help string, value float64) {
		head(name, kind, help)
		fmt.Fprintf(&text, "holdfast_dashboard_%s %v\n", name, value)
	}
	put("up", "gauge", "Whether the last look at Redis was a success.", map[bool]float64{true: 1}[up])
	put("leases_ran_out_total", "counter", "How many holds were seen to end with their lease.", float64(lost))
	if seen {
		put("last_look_timestamp_seconds", "gauge", "When the last look ended that was a success.", float64(looked.UnixMilli())/1000)
		put("look_duration_seconds", "gauge", "How long that look took.", took.Seconds())
	}
	if up {
		longest := 0.0
		for _, e := range entries {
			longest = max(longest, e.Longest().Seconds())
		}
		put("longest_hold_seconds", "gauge", "For how long the lock has been held that has been held longest, as far as that is known.", longest)
		for _, g := range gauges {
			byKind := map[survey.Kind]int{}
			for _, e := range entries {
				byKind[e.Kind] += g.of(e.Lock)
			}
			head(g.name, "gauge", g.help)
			for _, kind := range survey.Kinds() {
				fmt.Fprintf(&text, "holdfast_dashboard_%s{kind=%q} %d\n", g.name, kind, byKind[kind])
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(text.String())) // who has asked may have gone
}

// gauges are what is added up over the locks of each kind.
var gauges = []struct {
	name, help string
	of         func(l survey.Lock) int
}{
	{"locks", "How many locks Redis shows.", func(survey.Lock) int { return 1 }},
	{"held", "How many of them somebody holds.", func(l survey.Lock) int { return one(l.State == survey.Held) }},
	{"waited_for", "How many of them somebody waits for.", func(l survey.Lock) int { return one(l.Waiting > 0) }},
	{"waiting", "How many wait, as far as that is known.", func(l survey.Lock) int { return l.Waiting }},
}

// one counts what is so.
func one(so bool) int {
	if so {
		return 1
	}
	return 0
}
