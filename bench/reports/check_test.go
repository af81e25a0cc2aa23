package reports

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/bench/workloads"
	"github.com/holdfast-go/holdfast/internal/call"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
		if got := c.goal.judge(workloads.Spread[float64]{Median: c.ratio, Low: 0.01, High: 100}); got != c.want {
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
	w := workloads.Workload{ID: "many"}
	with := func(name, client string, rounds ...workloads.Figures) *workloads.Entry {
		return &workloads.Entry{Contender: contenders.Contender{Name: name, Client: client, Ours: strings.HasPrefix(name, contenders.HoldfastName)}, Workload: w, Rounds: rounds}
	}
	ours := workloads.Figures{
		P50: 1, PerSecond: 400, Fewest: 30, Most: 40, Contention: workloads.Contention{
			WaitP99: 5, WaitMax: 50 * time.Millisecond, ProcessFewest: 10, ProcessMost: 100,
			HandOverP50: 200, HandOverP99: 600, RoundTrip: 100,
		},
	}
	entries := []*workloads.Entry{
		with(contenders.HoldfastName, contenders.GoRedis, ours, workloads.Figures{}), // nothing was measured in the second round
		with(contenders.HoldfastName+" otherwise", contenders.GoRedis, workloads.Figures{P50: 1, PerSecond: 1}),
		with("slow and short", contenders.GoRedis, workloads.Figures{P50: 1, PerSecond: 10, Contention: workloads.Contention{WaitP99: 50}}, workloads.Figures{}),
		with("fast and long", contenders.RueidisLib, workloads.Figures{P50: 1, PerSecond: 20, Contention: workloads.Contention{WaitP99: 100}}, workloads.Figures{}),
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
		g := goal{workload: w.ID, client: contenders.GoRedis, than: c.than, figure: c.figure, bound: 1}
		if got := g.ratio(entries); got.Median != c.want {
			t.Errorf("%v: %v, want %v", g, got, c.want)
		}
	}
}

func TestGoalRatio(t *testing.T) {
	w, other := workloads.All()[0], workloads.All()[1]
	ours := contenders.Contender{Name: "holdfast", Client: contenders.GoRedis, Ours: true}
	peer := contenders.Contender{Name: "redislock", Client: contenders.GoRedis}
	entries := []*workloads.Entry{
		inRounds(contenders.Contender{Name: "holdfast", Client: contenders.RueidisLib, Ours: true}, w, 1000), inRounds(ours, other, 1000),
		inRounds(ours, w, 100, 100, 100), inRounds(peer, w, 50, 25, 200), inRounds(peer, other, 1000),
		inRounds(contenders.Contender{Name: "holdfast", Client: contenders.RueidisLib, Ours: true}, w, 1000),
	}
	g := goal{workload: w.ID, client: contenders.GoRedis, than: peer.Full(), figure: throughput, bound: 1}
	if got, want := g.ratio(entries), (workloads.Spread[float64]{Median: 2, Low: 0.5, High: 4}); got != want {
		t.Errorf("throughput %v, want %v", got, want)
	}
	g.figure = median
	if got, want := g.ratio(entries), (workloads.Spread[float64]{Median: 0.5, Low: 0.25, High: 2}); got != want {
		t.Errorf("p50 %v, want %v", got, want)
	}
	if got := concerned(entries, []goal{g}); !slices.Equal(got, entries[2:4]) {
		t.Errorf("it is about %d entries", len(got))
	}
	g.than = "nobody"
	if got := g.ratio(entries); got != (workloads.Spread[float64]{}) {
		t.Errorf("over nobody: %v", got)
	}
}

// Every goal is about contenders and workloads that there are.
func TestGoalsExist(t *testing.T) {
	all := append(contenders.All(), contenders.RedissonInJVM(contenders.JVMProgram{}, io.Discard))
	var entries []*workloads.Entry
	for _, w := range workloads.All() {
		for _, c := range all {
			if w.Suits(c) {
				entries = append(entries, &workloads.Entry{Contender: c, Workload: w})
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
func slowAt(name string, ours bool, pairTakes time.Duration) contenders.Contender {
	return contenders.Contender{Name: name, Client: contenders.GoRedis, Ours: ours, Open: func(context.Context, contenders.Setup) (*contenders.Session, error) {
		return &contenders.Session{
			Close: func() error { return nil },
			Pair: func(string) contenders.Pair {
				return func(ctx context.Context, critical func()) error {
					critical()
					call.Sleep(ctx, pairTakes)
					return ctx.Err()
				}
			},
		}, nil
	}}
}

// What would fail is measured further, together with what it is compared with, and
// nothing else is.
func TestCheckMeasuresAgain(t *testing.T) {
	w := workloads.Workload{ID: "few", Goroutines: 2}
	p := workloads.Plan{
		Setup: contenders.Setup{Addrs: []string{redistest.Start(t).Addr()}}, Window: 100 * time.Millisecond, Limit: time.Minute, Progress: t.Output(), // who completes nothing in one is not asked again
		Contenders: []contenders.Contender{slowAt(contenders.HoldfastName, true, 8*time.Millisecond), slowAt("fast", false, time.Millisecond/4), slowAt("slow", false, 16*time.Millisecond)},
	}
	var entries []*workloads.Entry
	of := []goal{
		{"few", contenders.GoRedis, "fast on go-redis", throughput, 1},
		{"few", contenders.GoRedis, "slow on go-redis", throughput, 1},
	}
	if err := p.On(t.Context(), func(r *workloads.Runner) error {
		entries = r.EntriesOf(w)
		return checkWorkload(t.Context(), r, entries, of)
	}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{checkRounds + checkAgain, checkRounds + checkAgain, checkRounds} {
		if got := len(entries[i].Rounds); got != want {
			t.Errorf("%s: %d rounds, want %d", entries[i].Contender.Name, got, want)
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
	w := workloads.All()[1]
	p := workloads.Plan{Contenders: contenders.All()}
	without := goalsUnder(p, w)
	p.Contenders = append(p.Contenders, contenders.RedissonInJVM(contenders.JVMProgram{}, io.Discard))
	with := goalsUnder(p, w)
	if len(without) != 5 || len(with) != 7 {
		t.Errorf("%d goals, and %d with Redisson", len(without), len(with))
	}
}
