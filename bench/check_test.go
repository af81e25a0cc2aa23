package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestGoals(t *testing.T) {
	more, less := goal{bound: 1.4, figure: throughput}, goal{bound: 1.1, figure: median}
	for _, c := range []struct {
		goal  goal
		ratio float64
		want  verdict
	}{
		{more, 1.4, reached},
		{more, 1.39, missed},
		{more, 0.7, missed},
		{more, 0.69, failed},
		{more, 0, failed},
		{less, 1.1, reached},
		{less, 1.11, missed},
		{less, 2.2, missed},
		{less, 2.21, failed},
	} {
		if got := c.goal.judge(spread[float64]{Median: c.ratio, Low: 0.01, High: 100}); got != c.want {
			t.Errorf("%v with a goal of %v: %s, want %s", c.ratio, c.goal.bound, got, c.want)
		}
	}
}

// A goal about figures that there are not is not reached.
func TestGoalWithoutFigures(t *testing.T) {
	for _, g := range slices.Concat(goals, contentionGoals) {
		if got := g.judge(g.ratio(nil)); got != absent {
			t.Errorf("%v: %s", g, got)
		}
	}
}

func TestContentionGoals(t *testing.T) {
	w := workload{ID: "many"}
	with := func(name, client string, rounds ...figures) *entry {
		return &entry{contender: contender{name: name, client: client, ours: strings.HasPrefix(name, holdfastName)}, workload: w, rounds: rounds}
	}
	ours := figures{
		P50: 1, PerSecond: 400, Fewest: 30, Most: 40, contention: contention{
			WaitP99: 5, WaitMax: 50 * time.Millisecond, ProcessFewest: 10, ProcessMost: 100,
			HandOverP50: 200, HandOverP99: 600, RoundTrip: 100,
		},
	}
	entries := []*entry{
		with(holdfastName, goRedis, ours, figures{}), // nothing was measured in the second round
		with(holdfastName+" otherwise", goRedis, figures{P50: 1, PerSecond: 1}),
		with("slow and short", goRedis, figures{P50: 1, PerSecond: 10, contention: contention{WaitP99: 50}}, figures{}),
		with("fast and long", rueidisLib, figures{P50: 1, PerSecond: 20, contention: contention{WaitP99: 100}}, figures{}),
	}
	for _, c := range []struct {
		than   string
		figure goalFigure
		want   float64
	}{
		{anyPeer, throughput, 20},
		{anyPeer, longWait, 0.1},
		{"slow and short on go-redis", throughput, 40},
		{nobody, throughput, 400},
		{nobody, evenness, 0.75},
		{nobody, processEvenness, 0.1},
		{nobody, longestWait, 50},
		{nobody, handOverMedian, 2},
		{nobody, handOverTail, 6},
	} {
		g := goal{workload: w.ID, client: goRedis, than: c.than, figure: c.figure, bound: 1}
		if got := g.ratio(entries); got.Median != c.want {
			t.Errorf("%v: %v, want %v", g, got, c.want)
		}
	}
}

func TestGoalRatio(t *testing.T) {
	w, other := workloads()[0], workloads()[1]
	ours := contender{name: "holdfast", client: goRedis, ours: true}
	peer := contender{name: "redislock", client: goRedis}
	entries := []*entry{
		inRounds(contender{name: "holdfast", client: rueidisLib, ours: true}, w, 1000), inRounds(ours, other, 1000),
		inRounds(ours, w, 100, 100, 100), inRounds(peer, w, 50, 25, 200), inRounds(peer, other, 1000),
		inRounds(contender{name: "holdfast", client: rueidisLib, ours: true}, w, 1000),
	}
	g := goal{workload: w.ID, client: goRedis, than: peer.full(), figure: throughput, bound: 1}
	if got, want := g.ratio(entries), (spread[float64]{2, 0.5, 4}); got != want {
		t.Errorf("throughput %v, want %v", got, want)
	}
	g.figure = median
	if got, want := g.ratio(entries), (spread[float64]{0.5, 0.25, 2}); got != want {
		t.Errorf("p50 %v, want %v", got, want)
	}
	if got := concerned(entries, []goal{g}); !slices.Equal(got, entries[2:4]) {
		t.Errorf("it is about %d entries", len(got))
	}
	g.than = "nobody"
	if got := g.ratio(entries); got != (spread[float64]{}) {
		t.Errorf("over nobody: %v", got)
	}
}

// Every goal is about contenders and workloads that there are.
func TestGoalsExist(t *testing.T) {
	all := append(contenders(), redissonInJVM(jvmProgram{}, io.Discard))
	var entries []*entry
	for _, w := range workloads() {
		for _, c := range all {
			if w.suits(c) {
				entries = append(entries, &entry{contender: c, workload: w})
			}
		}
	}
	for _, g := range slices.Concat(goals, contentionGoals) {
		ours, than := g.pair(entries)
		if ours == nil || g.bound <= 0 || than == nil && g.than != nobody && g.than != anyPeer {
			t.Errorf("%v: %v, %v", g, ours, than)
		}
	}
	if got := checked(); len(got) != 4 {
		t.Errorf("%d workloads are checked", len(got))
	}
}

// slowAt is a contender that is no lock: each pair takes so long.
func slowAt(name string, ours bool, pairTakes time.Duration) contender {
	return contender{name: name, client: goRedis, ours: ours, open: func(context.Context, setup) (session, error) {
		return slow(pairTakes), nil
	}}
}

type slow time.Duration

func (s slow) pair(string) pair {
	return func(ctx context.Context, critical func()) error {
		critical()
		call.Sleep(ctx, time.Duration(s))
		return ctx.Err()
	}
}

func (slow) close() error { return nil }

// What would fail is measured further, together with what it is compared with, and
// nothing else is.
func TestCheckMeasuresAgain(t *testing.T) {
	w := workload{ID: "few", Goroutines: 2}
	p := plan{
		setup: setup{Addrs: []string{redistest.Start(t).Addr()}}, window: 100 * time.Millisecond, limit: time.Minute, progress: t.Output(), // who completes nothing in one is not asked again
		contenders: []contender{slowAt(holdfastName, true, 8*time.Millisecond), slowAt("fast", false, time.Millisecond/4), slowAt("slow", false, 16*time.Millisecond)},
	}
	var entries []*entry
	of := []goal{
		{"few", goRedis, "fast on go-redis", throughput, 1},
		{"few", goRedis, "slow on go-redis", throughput, 1},
	}
	if err := p.on(t.Context(), func(r *runner) error {
		entries = r.entriesOf(w)
		return checkWorkload(t.Context(), r, entries, of)
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{checkRounds + checkAgain, checkRounds + checkAgain, checkRounds} {
		if got := len(entries[i].rounds); got != want {
			t.Errorf("%s: %d rounds, want %d", entries[i].contender.name, got, want)
		}
	}
	var out strings.Builder
	if err := judge(&out, of, entries); err == nil || !strings.Contains(err.Error(), "fast on go-redis") || strings.Contains(err.Error(), "slow") {
		t.Errorf("the check says %v", err)
	}
	if err := judge(&out, of[1:], entries); err != nil {
		t.Errorf("the goal that is reached: %v", err)
	}
	if !strings.Contains(out.String(), string(failed)) || !strings.Contains(out.String(), string(reached)) {
		t.Errorf("output:\n%s", out.String())
	}
}

func TestGoalsOfRedisson(t *testing.T) {
	w := workloads()[1]
	p := plan{contenders: contenders()}
	without := goalsUnder(p, w)
	p.contenders = append(p.contenders, redissonInJVM(jvmProgram{}, io.Discard))
	with := goalsUnder(p, w)
	if len(without) != 5 || len(with) != 7 {
		t.Errorf("%d goals, and %d with Redisson", len(without), len(with))
	}
}
