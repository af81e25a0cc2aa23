//go:build unix

package trials

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// trial is one: some members, locks of all kinds, and faults. What is drawn before it runs stands first.
type trial struct {
	w       *world
	seed    uint64
	class   program.Class
	thief   bool
	lease   time.Duration
	timeout time.Duration
	length  time.Duration
	places  []*place
	rueidis []bool // by place
	hand    bool
	ack     int
	locks   []runOrders
	uses    map[string]bool
	calm    time.Duration // the longest pause between two faults

	t     *testing.T
	at    *anywhere // t
	dir   string
	epoch int64
	store store

	monitor *monitor // of class a; else nil

	mu        sync.Mutex
	processes int
	started   [maxPlaces]int // by place
	crashes   []history.Op
	faults    map[string]int
}

func newTrial(t *testing.T, w *world, seed uint64, c program.Class, thief bool) *trial {
	rng := rand.New(rand.NewPCG(seed, 0))
	w.trials++
	tr := &trial{
		w: w, seed: seed, class: c, thief: thief,
		lease:   []time.Duration{time.Second, time.Second, 1500 * time.Millisecond, 2 * time.Second}[rng.IntN(4)],
		timeout: []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, time.Second}[rng.IntN(3)],
		places:  w.places[:2+rng.IntN(maxPlaces-1)],
		hand:    rng.IntN(4) > 0,
		calm:    []time.Duration{300 * time.Millisecond, time.Second}[rng.IntN(2)],
		uses:    map[string]bool{}, t: t, at: &anywhere{TB: t}, faults: map[string]int{}, length: *lengthFlag,
	}
	if w.topology == "replicated" && rng.IntN(2) == 0 {
		tr.ack = 1
	}
	clients := rng.IntN(4) // two mixtures, go-redis alone, rueidis alone
	for i := range tr.places {
		tr.rueidis = append(tr.rueidis, clients == 3 || clients < 2 && i%2 == clients)
	}
	kinds, locks := kindsOnOne, *locksFlag
	if w.five {
		kinds, locks = kindsOnFive, max(1, *locksFlag/3)
	}
	for i := range locks {
		kind := kinds[(int(seed)+i)%len(kinds)]
		// So a seed has the same names, and on a cluster the same slots, again.
		name := fmt.Sprintf("%s%d-%s-%d", map[bool]string{false: string(c), true: "thief"}[thief], seed, strings.ReplaceAll(kind, " ", "-"), i)
		tr.locks = append(tr.locks, runOrders{Kind: kind, Lock: name, Seed: rng.Uint64(), Actors: 1 + rng.IntN(2), Force: !thief && rng.IntN(5) == 0})
	}
	for _, f := range slices.Concat(processFaults, networkFaults, serverFaults) {
		if f.name == busy && slices.Contains(tr.rueidis, true) {
			continue // rueidis panics, see README.md
		}
		if used := rng.IntN(3) > 0; (used || f.lossy) && (f.on == nil || f.on(w)) && (!f.lossy || c == program.ClassB) {
			tr.uses[f.name] = true
		}
	}
	if rng.IntN(2) == 0 { // the tokens of a server that has lost all follow its clock
		delete(tr.uses, clockSet)
	} else if tr.uses[clockSet] {
		delete(tr.uses, restartedEmpty)
		delete(tr.uses, allLost)
	}
	if *faultsFlag != "" {
		clear(tr.uses)
		for name := range strings.SplitSeq(*faultsFlag, ";") {
			if !slices.ContainsFunc(slices.Concat(processFaults, networkFaults, serverFaults), func(f fault) bool { return f.name == name }) {
				t.Fatalf("there is no fault %q", name)
			}
			tr.uses[name] = true
		}
	}
	return tr
}

func (tr *trial) String() string {
	return fmt.Sprintf("%s, class %c, seed %d: %d processes, %d locks, lease %v, timeout %v, %v",
		tr.w.topology, tr.class, tr.seed, len(tr.places), len(tr.locks), tr.lease, tr.timeout, tr.length)
}

// orders are those of the next member in a place.
func (tr *trial) orders(p *place) orders {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.processes++
	tr.started[p.index]++
	seed := uint64(1000*p.index + tr.started[p.index]) // so that it does not matter which process is killed first
	o := orders{
		Process: tr.processes, Epoch: tr.epoch, Seed: tr.seed + seed, History: tr.file(tr.processes, "history"), Look: tr.file(tr.processes, "look"),
		Store: tr.socket(), Trace: *traceFlag, Thief: tr.thief, Servers: tr.w.addrs, Master: tr.w.master, Via: p.via, Rueidis: tr.rueidis[p.index],
		Lease: tr.lease, Timeout: tr.timeout, HandOver: tr.hand, Ack: tr.ack,
	}
	for _, run := range tr.locks {
		run.Seed += seed
		o.Runs = append(o.Runs, run)
	}
	return o
}

func (tr *trial) socket() string { return filepath.Join(tr.dir, "store") }

// run runs the trial, and returns the history of all of its processes.
func (tr *trial) run() []history.Op {
	t, w := tr.t, tr.w
	dir, err := os.MkdirTemp("", "trial") // short, since the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	tr.dir = dir
	t.Cleanup(func() {
		if !*keepFlag || !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	w.t.trial.Store(t)
	defer w.t.trial.Store(nil)
	w.patience(tr.class)
	roles := w.roles()
	tr.epoch = monotonic()
	if tr.class == program.ClassA {
		tr.monitor = watch(w.servers)
		defer tr.monitor.close()
	}
	tr.store.blind = tr.thief
	tr.store.serve(t, tr.socket())
	for _, p := range tr.places {
		p.heal()
		tr.start(p)
	}
	ctx, cancel := context.WithTimeout(t.Context(), tr.length)
	tr.afflict(ctx)
	cancel()
	for _, p := range tr.places {
		p.heal()
	}
	tr.tracef("healed")
	w.awaitRecovery()
	tr.tracef("recovered")
	if tr.class == program.ClassA && w.roles() != roles {
		t.Logf("%v: something failed over, though it was not told to: class b", tr)
		tr.class = program.ClassB
	}
	var ending sync.WaitGroup
	for _, p := range tr.places {
		ending.Go(func() { tr.finish(p) })
	}
	ending.Wait()
	tr.tracef("stopped")
	return tr.ops()
}

// afflict inflicts faults until the context ends, and returns when all are undone.
func (tr *trial) afflict(ctx context.Context) {
	w := tr.w
	var lines sync.WaitGroup
	number := uint64(10)
	line := func(faults []fault, calm time.Duration, place *place, server func(rng *rand.Rand) *redistest.Server) {
		number++
		rng := rand.New(rand.NewPCG(tr.seed, number))
		faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !tr.uses[f.name] })
		if len(faults) == 0 {
			return
		}
		lines.Go(func() { tr.inflict(ctx, rng, faults, calm, place, server) })
	}
	for _, p := range tr.places {
		line(processFaults, 4*tr.calm, p, nil)
		line(networkFaults, 2*tr.calm, p, nil)
	}
	if w.five {
		for _, s := range w.servers {
			line(serverFaults, tr.calm, nil, func(*rand.Rand) *redistest.Server { return s })
		}
	} else {
		line(serverFaults, tr.calm, nil, w.meant)
	}
	lines.Wait()
	<-ctx.Done()
}

// inflict inflicts one fault after the other.
func (tr *trial) inflict(ctx context.Context, rng *rand.Rand, faults []fault, calm time.Duration, p *place, server func(rng *rand.Rand) *redistest.Server) {
	lossy := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !f.lossy })
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50*time.Millisecond + time.Duration(rng.Int64N(int64(calm)))):
		}
		f := faults[rng.IntN(len(faults))]
		if len(lossy) > 0 && (first || rng.IntN(3) == 0) { // there are few of these
			f = lossy[rng.IntN(len(lossy))]
		}
		longest := min([]time.Duration{tr.timeout, tr.lease, 3 * tr.lease / 2}[rng.IntN(3)], 2*time.Second)
		s := &strike{trial: tr, rng: rng, place: p, lasts: 10*time.Millisecond + time.Duration(rng.Int64N(int64(longest)))}
		if p != nil {
			s.hit = p.proxies
			if i := rng.IntN(2 * len(s.hit)); i < len(s.hit) {
				s.hit = s.hit[i : i+1]
			}
		}
		if server != nil {
			s.server = server(rng)
		}
		tr.tracef("FAULT: %s for %v", f.name, s.lasts)
		f.strike(s)
		tr.tracef("over: %s", f.name)
		tr.mu.Lock()
		tr.faults[f.name]++
		tr.mu.Unlock()
	}
}

func (tr *trial) tracef(format string, args ...any) {
	if *traceFlag {
		fmt.Printf("%v %s\n", time.Duration(monotonic()-tr.epoch), fmt.Sprintf(format, args...))
	}
}

// ops reads what all members have done.
func (tr *trial) ops() []history.Op {
	var from []io.Reader
	for process := 1; process <= tr.processes; process++ {
		tr.said(process)
		file, err := os.Open(tr.file(process, "history"))
		if os.IsNotExist(err) && slices.ContainsFunc(tr.crashes, func(op history.Op) bool { return op.Process == process }) {
			continue // it was killed before it had begun
		}
		if err != nil {
			tr.t.Error(err)
			continue
		}
		defer file.Close()
		from = append(from, file)
	}
	ops, err := history.Read(from...)
	if err != nil {
		tr.t.Error(err)
	}
	ops = append(ops, tr.crashes...)
	slices.SortStableFunc(ops, func(a, b history.Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	return ops
}
