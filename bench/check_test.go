package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

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
		{more, 0, absent},
		{less, 1.1, reached},
		{less, 1.11, missed},
		{less, 2.2, missed},
		{less, 2.21, failed},
		{less, 0, absent},
	} {
		if got := c.goal.judge(spread[float64]{Median: c.ratio, Low: 0.01, High: 100}); got != c.want {
			t.Errorf("%v with a goal of %v: %s, want %s", c.ratio, c.goal.bound, got, c.want)
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
	g := goal{workload: w.id, client: goRedis, than: peer.full(), figure: throughput, bound: 1}
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
			if c.suits(w) {
				entries = append(entries, &entry{contender: c, workload: w})
			}
		}
	}
	for _, g := range goals {
		if ours, than := g.pair(entries); ours == nil || than == nil || g.bound <= 0 {
			t.Errorf("%v: %v, %v", g, ours, than)
		}
	}
	if got := checked(); len(got) != 3 {
		t.Errorf("%d workloads are checked", len(got))
	}
}

// slowAt is a contender that is no lock: each pair takes so long.
func slowAt(name string, ours bool, pairTakes time.Duration) contender {
	return contender{name: name, client: goRedis, ours: ours, open: func(context.Context, setup) (session, error) {
		return fakeSession(func(string) pair {
			return func(ctx context.Context, critical func()) error {
				critical()
				pause(ctx, pairTakes)
				return ctx.Err()
			}
		}), nil
	}}
}

// What would fail is measured further, together with what it is compared with, and
// nothing else is.
func TestCheckMeasuresAgain(t *testing.T) {
	w := workload{id: "few", goroutines: 2}
	p := plan{
		setup: setup{addr: redistest.Start(t).Addr()}, window: 20 * time.Millisecond, limit: time.Minute, progress: t.Output(),
		contenders: []contender{slowAt("ours", true, 8*time.Millisecond), slowAt("fast", false, time.Millisecond/4), slowAt("slow", false, 16*time.Millisecond)},
	}
	r, err := p.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	entries := r.entriesOf(w)
	of := []goal{
		{"few", goRedis, "fast on go-redis", throughput, 1},
		{"few", goRedis, "slow on go-redis", throughput, 1},
	}
	if err := r.checkWorkload(t.Context(), entries, of); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{checkRounds + checkAgain, checkRounds + checkAgain, checkRounds} {
		if got := len(entries[i].rounds); got != want {
			t.Errorf("%s: %d rounds, want %d", entries[i].contender.name, got, want)
		}
	}
	var out strings.Builder
	none, _ := newRecords("", nil)
	j := &job{stdout: &out, records: none}
	if err := j.judge(of, entries); err == nil || !strings.Contains(err.Error(), "fast on go-redis") || strings.Contains(err.Error(), "slow") {
		t.Errorf("the check says %v", err)
	}
	if err := j.judge(of[1:], entries); err != nil {
		t.Errorf("the goal that is reached: %v", err)
	}
	if !strings.Contains(out.String(), string(failed)) || !strings.Contains(out.String(), string(reached)) {
		t.Errorf("output:\n%s", out.String())
	}
}

func TestGoalsOfRedisson(t *testing.T) {
	w := workloads()[1]
	without, with := (&job{}).goalsUnder(w), (&job{options: options{redisson: true}}).goalsUnder(w)
	if len(without) != 5 || len(with) != 7 {
		t.Errorf("%d goals, and %d with Redisson", len(without), len(with))
	}
}

func TestModes(t *testing.T) {
	for args, want := range map[string]string{
		"": " ", "--held": "held ", "--check": "check ", "--quick": " held scripts ", "--quick --scripts": "scripts ",
		"--check --held": "", "--check --rounds 2": "", "--holds 2": "", "--held --redisson": "", "--check --redisson": "check ",
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if want == "" {
			if !errors.Is(err, errUsage) {
				t.Errorf("%s: %v", args, err)
			}
			continue
		}
		got := ""
		for _, m := range o.modes {
			got += m.flag + " "
		}
		if err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", args, got, err, want)
		}
	}
}
