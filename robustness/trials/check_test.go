//go:build unix

package trials

import (
	"cmp"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/robustness/history"
	"github.com/holdfast-go/holdfast/robustness/linear"
	"github.com/holdfast-go/holdfast/robustness/program"
)

// slack is for how long a member may run past the deadline of a hold that it has lost while it did not run, until its context ends.
// With the race detector everything takes some times as long, and what has been put off comes all at once then.
var slack = func() time.Duration {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 75 * time.Millisecond
	}
	return 25 * time.Millisecond
}()

// tally is what trials have done and found.
type tally struct {
	trials, histories, idle, operations int
	grants, refusals, unknown, losses   int
	parts, undecided                    int
	tries, excused                      int // tries that were refused, and of how many nobody has to be the reason
	overlaps, inPauses                  int // what overlaps there were, and how many more while a holder did not run
	illegal, stale, refused             int
	pauses, unseen                      int           // unseen: losses that were noted late, since a pause was in between
	longest, wakened                    time.Duration // pause, and for how long a process ran until it ended the context of a hold lost in one
	faults                              map[string]int
}

func (s *tally) add(o *tally) {
	s.trials += o.trials
	s.histories += o.histories
	s.idle += o.idle
	s.operations += o.operations
	s.grants += o.grants
	s.refusals += o.refusals
	s.unknown += o.unknown
	s.losses += o.losses
	s.parts += o.parts
	s.undecided += o.undecided
	s.tries += o.tries
	s.excused += o.excused
	s.overlaps += o.overlaps
	s.inPauses += o.inPauses
	s.illegal += o.illegal
	s.stale += o.stale
	s.refused += o.refused
	s.pauses += o.pauses
	s.unseen += o.unseen
	s.longest, s.wakened = max(s.longest, o.longest), max(s.wakened, o.wakened)
	if s.faults == nil {
		s.faults = map[string]int{}
	}
	for name, n := range o.faults {
		s.faults[name] += n
	}
}

func (s *tally) String() string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		faults = append(faults, fmt.Sprintf("%s: %d", name, s.faults[name]))
	}
	return fmt.Sprintf("%d trials, %d histories (and %d locks that one process alone has held, or none); %d operations: %d grants, %d refusals, %d not known, %d losses; "+
		"%d overlaps, and %d while a holder was paused; %d of %d parts illegal, %d undecided; %d of %d refused tries excused; %d stale tokens accepted, %d refused; "+
		"%d pauses, up to %v, with %d losses, and contexts ended up to %v later\n    faults: %s",
		s.trials, s.histories, s.idle, s.operations, s.grants, s.refusals, s.unknown, s.losses, s.overlaps, s.inPauses, s.illegal, s.parts, s.undecided, s.excused, s.tries, s.stale, s.refused,
		s.pauses, s.longest.Round(time.Millisecond), s.unseen, s.wakened.Round(time.Millisecond), strings.Join(faults, ", "))
}

// check checks a history. What it finds that must not be is what it returns.
func (tr *trial) check(ops []history.Op) (sum *tally, wrong []string) {
	sum = &tally{trials: 1, faults: tr.faults, operations: len(ops)}
	models := map[string]linear.Model{}
	for _, l := range tr.locks {
		kind, err := kindNamed(l.Kind, nil)
		if err != nil {
			return sum, []string{err.Error()}
		}
		models[l.Lock] = kind.Model
	}
	rule := func(lock string) history.Rule { return history.Rule{Permits: models[lock].Permits} }
	raw := len(history.Overlaps(ops, rule))
	tr.endOpen(ops)
	noted := ops
	ops = sum.endAtPauses(ops)
	overlaps := history.Overlaps(ops, rule)
	sum.overlaps, sum.inPauses = len(overlaps), raw-len(overlaps)
	if tr.class == program.ClassA {
		for _, v := range overlaps {
			wrong = append(wrong, v.String()+around(noted, v)+tr.monitor.around(v))
		}
		result, err := linear.Check(ops, func(lock string) linear.Model { return models[lock] }, linear.Limit)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		for _, i := range result.Illegal {
			wrong = append(wrong, i.String())
		}
		sum.parts, sum.undecided, sum.illegal = result.Parts, result.Undecided, len(result.Illegal)
		sum.tries, sum.excused = result.Refusals, result.Excused
	}
	stale, refused := history.StaleWrites(ops)
	tokens := history.Tokens(ops)
	sum.stale, sum.refused = len(stale), refused
	for _, v := range append(tokens, stale...) {
		wrong = append(wrong, v.String())
	}
	sum.count(ops, tr.locks)
	return sum, wrong
}

// around tells what was noted of the ends of holds that overlap, and when their processes did not run: a failure rarely shows again.
func around(ops []history.Op, v history.Violation) string {
	var b strings.Builder
	for _, h := range v.Holds {
		for i := range ops {
			op := &ops[i]
			about := op.About() == h.Op.Key() && (op.Kind == history.Release || op.Kind == history.Detach || op.Kind == history.Ended)
			stood := (op.Kind == history.Paused || op.Kind == history.Crash) && op.Process == h.Op.Process && op.Return >= h.From && op.Invoke <= h.To
			switch {
			case about:
				fmt.Fprintf(&b, "\n    of acquire %d in process %d: %s at %v, its deadline %v, %s", h.Op.ID, op.Process, op.Kind, op.Invoke, op.Until, cmp.Or(op.Outcome, "not over"))
			case stood:
				fmt.Fprintf(&b, "\n    of process %d: %s from %v to %v", op.Process, op.Kind, op.Invoke, op.Return)
			}
		}
	}
	return b.String()
}

// endOpen completes the histories of killed processes: it bounds what their calls may still do, and notes that a hold may be
// gone whose context had ended before, as those are that a caller cancels: it was not renewed from then on.
func (tr *trial) endOpen(ops []history.Op) {
	killed := map[int]history.Moment{}
	gone := history.Moment(program.Gone(tr.lease, tr.timeout))
	for _, c := range tr.crashes {
		killed[c.Process] = c.Invoke + gone
	}
	given := map[history.Key]bool{}
	for i := range ops {
		if op := &ops[i]; op.Kind == history.Release || op.Kind == history.Detach {
			given[op.About()] = true
		}
	}
	for i := range ops {
		op := &ops[i]
		until, ok := killed[op.Process]
		switch {
		case !ok:
		case (op.Kind == history.Acquire || op.Kind == history.Adopt) && op.Outcome == history.Open:
			op.Until = until
		case op.Kind == history.Force && op.Outcome == history.Open:
			op.Until, op.Return = until, until
		case op.Kind == history.Ended && !given[op.About()]:
			op.Outcome = history.Lost
		}
	}
}

// pauses are those of one process, in their order.
type pauses []history.Op

// ran returns for how long the process ran between two moments.
func (ps pauses) ran(from, to history.Moment) time.Duration {
	ran := to - from
	for _, p := range ps {
		ran -= max(0, min(p.Return, to)-max(p.Invoke, from))
	}
	return time.Duration(ran)
}

// near returns for how long the pauses lasted of which a part was between two moments.
func (ps pauses) near(from, to history.Moment) (sum history.Moment) {
	for _, p := range ps {
		if p.Return >= from && p.Invoke <= to {
			sum += p.Return - p.Invoke
		}
	}
	return sum
}

// endAtPauses has holds that were lost end at their deadlines, if the process did not run from then on until shortly before
// it noted that: it could not see the time. A process that is killed as soon as it runs again, or as it notes a pause,
// has not done anything since that began. What an acquire that has failed was given stands for longer by as much.
func (s *tally) endAtPauses(ops []history.Op) []history.Op {
	all := map[int]pauses{}
	for _, op := range ops {
		if op.Kind == history.Paused && op.Outcome == history.OK { // else it was killed while it noted that
			all[op.Process] = append(all[op.Process], op)
			s.pauses++
			s.longest = max(s.longest, time.Duration(op.Return-op.Invoke))
		}
	}
	changed := slices.Clone(ops)
	for i := range changed {
		op := &changed[i]
		lost := op.Outcome == history.Lost || op.Outcome == history.Unknown || op.Outcome == history.Open
		switch ps := all[op.Process]; op.Kind {
		case history.Crash:
			for _, p := range ps {
				if p.Invoke < op.Invoke && ps.ran(p.Invoke, op.Invoke) <= slack {
					op.Invoke = p.Invoke
				}
			}
		case history.Acquire:
			if op.Outcome != history.OK && op.Outcome != history.Refused && op.Until != 0 && op.Return != history.Never {
				op.Until += ps.near(op.Return-(op.Until-op.Return), op.Until)
			}
		case history.Ended, history.Release, history.Detach:
			if !lost || op.Until == 0 || op.Until >= op.Invoke {
				continue
			}
			ran := ps.ran(op.Until, op.Invoke)
			if ran > slack || ran == time.Duration(op.Invoke-op.Until) { // it ran all the time
				continue
			}
			if op.Invoke = op.Until; op.Kind == history.Ended {
				s.unseen++
				s.wakened = max(s.wakened, ran)
			}
		}
	}
	slices.SortStableFunc(changed, func(a, b history.Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	return changed
}

// count counts what has happened. A history is what happened to one lock in one trial, if two processes have held it, or
// have counted down.
func (s *tally) count(ops []history.Op, locks []runOrders) {
	by := map[string]map[int]bool{}
	for i := range ops {
		op := &ops[i]
		if op.Grants() || op.Kind == history.CountDown && op.Outcome == history.OK {
			if by[op.Lock] == nil {
				by[op.Lock] = map[int]bool{}
			}
			by[op.Lock][op.Process] = true
		}
		switch {
		case op.Grants():
			s.grants++
		case op.Kind == history.Ended && op.Outcome == history.Lost:
			s.losses++
		case op.Kind != history.Acquire:
		case op.Outcome == history.Refused:
			s.refusals++
		default:
			s.unknown++
		}
	}
	for _, l := range locks {
		if len(by[l.Lock]) > 1 {
			s.histories++
		} else {
			s.idle++
		}
	}
}
