//go:build unix

package trials

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/robustness/linear"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// All of a trial comes from its seed: members, locks, programs, and faults. What happens when does not: real processes take what time they take.
var (
	seedFlag      = flag.Uint64("seed", 0, "run the trial of this seed alone; 0: many, from -first on")
	firstFlag     = flag.Uint64("first", 1, "the first seed")
	forFlag       = flag.Duration("for", 0, "for how long to run trials; 0: each topology once in each class")
	historiesFlag = flag.Int("histories", 0, "how many histories of class a to run, on all topologies together; 0: as -for says")
	worldFlag     = flag.String("world", "", "the topology; empty: all")
	classFlag     = flag.String("class", "", "the class of faults: a, in which holds must not overlap, or b, in which stale tokens must be refused; empty: by seed")
	faultsFlag    = flag.String("faults", "", "the faults that there are, by their names, with semicolons; empty: by seed")
	locksFlag     = flag.Int("locks", 26, "how many locks a trial has; on five servers a third of that")
	lengthFlag    = flag.Duration("length", 3*time.Second, "how long there are faults in a trial")
	keepFlag      = flag.Bool("keep", false, "keep the files of trials that fail")
	traceFlag     = flag.Bool("log", false, "print what happens")
)

// totals are what all trials have done and found, by topology and class.
type totals struct {
	mu        sync.Mutex
	sum       map[string]*tally
	histories int // that count for -histories
}

func (s *totals) add(topology string, c program.Class, o *tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := topology + string(c)
	if s.sum[key] == nil {
		s.sum[key] = &tally{}
	}
	s.sum[key].add(o)
	if c == program.ClassA || *classFlag != "" {
		s.histories += o.histories
	}
}

// soFar is how many histories count for -histories, on all topologies, and says what one of them has found.
func (s *totals) soFar(topology string, c program.Class) (histories int, found string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.histories, fmt.Sprint(s.sum[topology+string(c)])
}

func TestTrials(t *testing.T) {
	sums := &totals{sum: map[string]*tally{}}
	var names []string
	for _, topology := range topologies {
		if *worldFlag == "" || *worldFlag == topology.name {
			names = append(names, topology.name)
		}
	}
	if len(names) == 0 {
		t.Fatalf("there is no topology %q", *worldFlag)
	}
	if c := *classFlag; c != "" && c != string(program.ClassA) && c != string(program.ClassB) {
		t.Fatalf("there is no class %q of faults", c)
	}
	t.Run("on", func(t *testing.T) { // it ends when all have
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorld(t, name)
				switch {
				case *seedFlag != 0:
					w.try(t, *seedFlag, w.classOf(*seedFlag), sums)
				case *forFlag == 0 && *historiesFlag == 0:
					w.once(t, *firstFlag, sums)
					w.notices(t, *firstFlag)
				default:
					w.many(t, sums)
				}
			})
		}
	})
	all := map[program.Class]*tally{program.ClassA: {}, program.ClassB: {}}
	for _, name := range names {
		for _, c := range []program.Class{program.ClassA, program.ClassB} {
			if sum := sums.sum[name+string(c)]; sum != nil {
				t.Logf("%s, class %c: %v", name, c, sum)
				all[c].add(sum)
			}
		}
	}
	t.Logf("all, class a: %v", all[program.ClassA])
	t.Logf("all, class b: %v", all[program.ClassB])
	if a := all[program.ClassA]; a.undecided*100 > a.parts {
		t.Errorf("%d of %d parts of histories were not decided within %v", a.undecided, a.parts, linear.Limit)
	}
	if a := all[program.ClassA]; a.trials >= len(topologies) && (a.grants == 0 || a.histories == 0) {
		t.Errorf("something was never tried: %v", a)
	}
	if a := all[program.ClassA]; a.histories < *historiesFlag && *classFlag != string(program.ClassB) {
		t.Errorf("only %d of %d histories", a.histories, *historiesFlag)
	}
	if b := all[program.ClassB]; b.trials >= len(topologies) && b.refused == 0 {
		t.Errorf("no stale token was ever tried: %v", b)
	}
}

// once runs a trial of each class. One of class a in which something failed over by itself was none.
func (w *world) once(t *testing.T, seed uint64, sums *totals) {
	for more := uint64(0); ; more++ {
		if was := w.try(t, seed+more, program.ClassA, sums); was == program.ClassA || t.Failed() {
			break
		}
		if more == 2 {
			t.Error("something has failed over in every trial that was to be of class a")
			break
		}
	}
	w.try(t, seed, program.ClassB, sums)
}

// classOf is the class of a seed, of which one in four is B.
func (w *world) classOf(seed uint64) program.Class {
	switch {
	case *classFlag != "":
		return program.Class((*classFlag)[0])
	case seed%4 == 0:
		return program.ClassB
	}
	return program.ClassA
}

// mostFailures is how many trials of a topology may fail until no more are run.
const mostFailures = 3

// many runs trials of one seed after the other, until time is up or all topologies together have the histories that are asked for.
func (w *world) many(t *testing.T, sums *totals) {
	start, classes := time.Now(), map[program.Class]int{}
	defer func() {
		if t.Logf("%s: %d trials of class a, %d of class b", w.topology, classes[program.ClassA], classes[program.ClassB]); classes[program.ClassA] == 0 && *classFlag != string(program.ClassB) {
			t.Errorf("%s: there was no trial of class a", w.topology)
		}
	}()
	for seed := *firstFlag; w.failures < mostFailures; seed++ {
		was := w.try(t, seed, w.classOf(seed), sums)
		classes[was]++
		histories, found := sums.soFar(w.topology, was)
		if seed%20 == 0 { // whoever ends the run by hand knows what there was
			fmt.Printf("%v: %d histories; %s, class %c: %v\n", time.Since(start).Round(time.Second), histories, w.topology, was, found)
		}
		if *historiesFlag > 0 && histories >= *historiesFlag || *historiesFlag == 0 && time.Since(start) > *forFlag {
			return
		}
	}
}

// try runs one trial, checks its history, and adds up what came of it. It returns which class it turned out to be of.
func (w *world) try(t *testing.T, seed uint64, c program.Class, sums *totals) (was program.Class) {
	t.Helper()
	t.Run(fmt.Sprintf("class=%c/seed=%d", c, seed), func(t *testing.T) {
		tr := newTrial(t, w, seed, c, false)
		defer func() { // the trial may end the test
			if t.Failed() {
				w.failures++
				if *keepFlag {
					t.Logf("files: %s", tr.dir)
				}
				t.Logf("%v\nagain, with the same program and faults but not the same timing:\n"+
					"go test ./robustness/trials -run 'TestTrials$' -world %s -class %c -seed %d%s -keep",
					tr, w.topology, c, seed, forced())
			}
		}()
		sum, wrong := tr.check(tr.run())
		for _, what := range wrong {
			t.Error(what)
		}
		was = tr.class
		sums.add(w.topology, was, sum)
	})
	return was
}

// forced are the flags that have changed what the seed says.
func forced() (flags string) {
	flag.Visit(func(f *flag.Flag) {
		if slices.Contains([]string{"faults", "locks", "length"}, f.Name) {
			flags += fmt.Sprintf(" -%s %q", f.Name, f.Value)
		}
	})
	return flags
}

// notices runs trials with members that delete locks of others, and a store that accepts every token, until something of
// that is noticed, and fails if nothing is. Where the machine is so busy that hardly a call is answered, there is little to notice in one.
func (w *world) notices(t *testing.T, seed uint64) {
	t.Run("thief", func(t *testing.T) {
		stale := 0
		for more := range uint64(5) {
			tr := newTrial(t, w, seed+more, program.ClassA, true)
			clear(tr.uses)
			tr.length = 2 * time.Second
			sum, wrong := tr.check(tr.run())
			t.Logf("seed %d: %d overlaps, %d illegal parts, %d stale tokens: %v", seed+more, sum.overlaps, sum.illegal, sum.stale, sum)
			stale += sum.stale
			shown := slices.ContainsFunc(wrong, func(what string) bool { return strings.Contains(what, "[0 lua]") }) // by the monitor
			if sum.overlaps > 0 && shown && (stale > 0 || w.five) {                                                  // there are no tokens on five
				return
			}
		}
		t.Errorf("locks were stolen, and not all of it was noticed and shown; again:\n"+
			"go test ./robustness/trials -run 'TestTrials$/on/%s/thief' -world %s -first %d", w.topology, w.topology, seed)
	})
}
