package robustness

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/linear"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// A schedule is a random program of several clients, and the faults that befall it, in memory
// and under fake time. All of it comes from its seed.
var (
	seedFlag      = flag.Uint64("seed", 0, "run the schedule of this seed alone; 0: many, from -first on")
	firstFlag     = flag.Uint64("first", 1, "the first seed")
	schedulesFlag = flag.Int("schedules", 0, "how many schedules to run; 0: for as long as -for says")
	forFlag       = flag.Duration("for", 10*time.Second, "for how long to run schedules")
	kindFlag      = flag.String("kind", "", "the kind of lock: "+strings.Join(program.Names(), ", ")+"; empty: by seed")
	classFlag     = flag.String("class", "", "the class of faults: a, in which holds must not overlap, or b, in which stale tokens must be refused; empty: by seed")
	faultsFlag    = flag.String("faults", "", "the faults that there are, by their names, with semicolons; none; empty: by seed")
	traceFlag     = flag.Bool("log", false, "print what happens")
)

// tally is what schedules have done.
type tally struct {
	schedules, grants, refusals, losses, unknown, handedOver, nested, adopted, parts, undecided, tries, excused, calls, faults int // tries that were refused, and of how many nobody has to be the reason
	overlaps, staleRefused                                                                                                     int // of class b
}

func TestSimulation(t *testing.T) {
	var sum tally
	start := time.Now()
	if *seedFlag != 0 {
		runSchedule(t, *seedFlag, &sum)
	} else {
		for seed := *firstFlag; !t.Failed(); seed++ {
			done := int(seed - *firstFlag)
			if *schedulesFlag > 0 && done >= *schedulesFlag || *schedulesFlag == 0 && time.Since(start) > *forFlag {
				break
			}
			runSchedule(t, seed, &sum)
			if every := 5000; done%every == every-1 {
				t.Logf("%d schedules, %.1f a second", done+1, float64(done+1)/time.Since(start).Seconds())
			}
		}
	}
	took := time.Since(start)
	t.Logf("%d schedules in %v, %.1f a second: %+v", sum.schedules, took.Round(time.Millisecond), float64(sum.schedules)/took.Seconds(), sum)
	if sum.undecided*100 > sum.parts {
		t.Errorf("%d of %d parts of histories were not decided within %v", sum.undecided, sum.parts, linear.Limit)
	}
	all := *seedFlag == 0 && *kindFlag == "" && *classFlag == "" && *faultsFlag == ""
	if all && sum.schedules >= 100 && (sum.handedOver == 0 || sum.nested == 0 || sum.adopted == 0 || sum.losses == 0 || sum.staleRefused == 0 ||
		sum.grants == 0 || sum.unknown == 0 || sum.faults == 0 || sum.overlaps == 0 || sum.excused == sum.tries) {
		t.Errorf("something was never tried: %+v", sum)
	}
}

// runSchedule runs one schedule and checks its history.
func runSchedule(t *testing.T, seed uint64, sum *tally) {
	t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
		s := newSchedule(t, seed)
		defer func() { // it ends the test if it fails
			s.check(t, sum)
			if t.Failed() {
				t.Logf("%s\nreplay: go test ./robustness -run 'TestSimulation$' -seed=%d%s -log", s, seed, s.forced())
			}
		}()
		faketime.Test(t, s.run)
	})
}

// check checks what has been recorded.
func (s *schedule) check(t *testing.T, sum *tally) {
	ops, err := s.log.Ops()
	if err != nil {
		t.Fatal(err)
	}
	rule := func(string) history.Rule { return history.Rule{Permits: s.kind.Model.Permits} }
	overlaps := history.Overlaps(ops, rule)
	stale, refused := history.StaleWrites(ops)
	for _, v := range append(history.Tokens(ops), stale...) {
		t.Error(v)
	}
	if s.class == program.ClassA {
		for _, v := range overlaps {
			t.Error(v)
		}
		result, err := linear.Check(ops, func(string) linear.Model { return s.kind.Model }, linear.Limit)
		if err != nil {
			t.Error(err)
		}
		for _, i := range result.Illegal {
			t.Error(i)
		}
		sum.parts += result.Parts
		sum.undecided += result.Undecided
		sum.tries += result.Refusals
		sum.excused += result.Excused
	} else {
		sum.overlaps += len(overlaps)
	}
	sum.schedules++
	sum.staleRefused += refused
	sum.handedOver += int(s.handedOver.Load())
	sum.calls += int(s.calls.Load())
	sum.faults += int(s.faults.Load())
	for i := range ops {
		sum.count(&ops[i])
	}
}

func (sum *tally) count(op *history.Op) {
	switch {
	case op.Kind == history.Adopt && op.Outcome == history.OK:
		sum.adopted++
	case op.Kind == history.Ended && op.Outcome == history.Lost:
		sum.losses++
	case op.Kind != history.Acquire:
	case op.Outcome == history.OK && op.Hold != 0:
		sum.nested++
	case op.Outcome == history.OK:
		sum.grants++
	case op.Outcome == history.Refused:
		sum.refusals++
	default:
		sum.unknown++
	}
}

// schedule is one. What is drawn before it runs stands first.
type schedule struct {
	seed    uint64
	class   program.Class
	kind    *program.Kind
	locks   []string
	lease   time.Duration
	timeout time.Duration
	length  time.Duration
	slots   int
	actors  int
	faulty  float64 // how many calls suffer
	uses    map[string]bool

	t     *testing.T
	log   *history.Log
	start time.Time
	world *world

	handedOver, calls, faults atomic.Int64
	calm                      atomic.Bool
}

// faultNames are the faults that a schedule may have; calls are those of single calls.
var faultNames = []string{"calls", "silent", "restart", "partition", "messages", "crash", "close", "force", "skew"}

// lossyNames are those of class b.
var lossyNames = []string{"lose data", "step"}

func newSchedule(t *testing.T, seed uint64) *schedule {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &schedule{
		seed: seed, class: program.ClassA, kind: &program.Kinds[seed%uint64(len(program.Kinds))], locks: []string{"x", "{y}:z"}[:1+rng.IntN(2)],
		lease:   []time.Duration{300 * time.Millisecond, 3 * time.Second, 3 * time.Second, 30 * time.Second}[rng.IntN(4)],
		timeout: []time.Duration{150 * time.Millisecond, time.Second, 6 * time.Second}[rng.IntN(3)],
		length:  time.Duration(2+rng.IntN(8)) * time.Second,
		slots:   2 + rng.IntN(2), actors: 3 + rng.IntN(4), faulty: []float64{0.05, 0.2, 0.4}[rng.IntN(3)], uses: map[string]bool{},
	}
	for _, name := range faultNames {
		s.uses[name] = rng.IntN(3) == 0
	}
	if rng.IntN(4) == 0 {
		s.class = program.ClassB
	}
	switch *classFlag {
	case "":
	case string(program.ClassA), string(program.ClassB):
		s.class = program.Class((*classFlag)[0])
	default:
		t.Fatalf("there is no class %q of faults", *classFlag)
	}
	if s.class == program.ClassB {
		s.uses[lossyNames[rng.IntN(2)]] = true
	}
	if *faultsFlag != "" {
		clear(s.uses)
		for name := range strings.SplitSeq(*faultsFlag, ";") {
			if name != "none" && !slices.Contains(faultNames, name) && !slices.Contains(lossyNames, name) {
				t.Fatalf("there is no fault %q", name)
			}
			s.uses[name] = true
		}
	}
	if *kindFlag != "" {
		var err error
		if s.kind, err = program.Named(*kindFlag); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// forced are the flags that have changed what the seed says.
func (s *schedule) forced() (flags string) {
	for name, value := range map[string]string{"kind": *kindFlag, "class": *classFlag, "faults": *faultsFlag} {
		if value != "" {
			flags += fmt.Sprintf(" -%s=%q", name, value)
		}
	}
	return flags
}

func (s *schedule) String() string {
	var uses []string
	for _, name := range append(append([]string{}, faultNames...), lossyNames...) {
		if s.uses[name] {
			uses = append(uses, name)
		}
	}
	return fmt.Sprintf("seed %d: %s, class %c, %d clients, %d actors, %d locks, lease %v, timeout %v, %v, faults %s", s.seed, s.kind.Name, s.class,
		s.slots, s.actors, len(s.locks), s.lease, s.timeout, s.length, strings.Join(uses, ", "))
}

func (s *schedule) tracef(format string, args ...any) {
	if *traceFlag {
		fmt.Printf("%12v  %s\n", time.Since(s.start), fmt.Sprintf(format, args...))
	}
}

func (s *schedule) failf(format string, args ...any) {
	s.tracef("FAILED: "+format, args...)
	s.t.Errorf("at %v: %s", time.Since(s.start), fmt.Sprintf(format, args...))
}

// A seed gives the same program and faults, and mostly the same history: see README.md.
func TestReplay(t *testing.T) {
	const seeds = 24
	same := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		var histories [2][]history.Op
		for i := range histories {
			s := newSchedule(t, seed)
			faketime.Test(t, s.run)
			var err error
			if histories[i], err = s.log.Ops(); err != nil {
				t.Fatal(err)
			}
		}
		if slices.Equal(histories[0], histories[1]) {
			same++
		}
	}
	t.Logf("%d of %d schedules had the same history twice", same, seeds)
	if same < seeds/4 {
		t.Errorf("%d of %d schedules had the same history twice: what a seed says is not repeated; it never is with the race detector, or on several processors", same, seeds)
	}
}
