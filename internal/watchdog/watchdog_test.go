package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// held is what entries stand for.
type held struct {
	name  string
	group int
}

type watchdog = Watchdog[held, int]

// server stands for Redis: it answers renewals as the test says.
type server struct {
	mu       sync.Mutex
	calls    []time.Duration // when each renewal arrived, since the start
	renewed  []string
	answer   func(ctx context.Context, batch []Renewal[held]) ([]bool, error)
	lost     []string
	longHeld int
	start    time.Time
}

func allHeld(_ context.Context, batch []Renewal[held]) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(batch)), nil
}

// suspend suspends the host at a moment, for a time.
func suspend(d *watchdog, from time.Time, by time.Duration) {
	suspended(d).at(from, by)
}

func newWatchdog(t *testing.T, s *server) *watchdog {
	t.Helper()
	s.start = time.Now()
	d := New(Config[held, int]{
		Group:  func(w held) int { return w.group },
		Weight: func(held) int { return 1 },
		Renew: func(ctx context.Context, in Budget, _ int, batch []Renewal[held]) []Answer {
			ctx, cancel := context.WithTimeout(ctx, in.Patience)
			defer cancel()
			s.mu.Lock()
			s.calls = append(s.calls, time.Since(s.start))
			for _, r := range batch {
				s.renewed = append(s.renewed, r.Entry.Value.name)
			}
			answer := s.answer
			s.mu.Unlock()
			held, err := answer(ctx, batch)
			answers := make([]Answer, len(batch))
			for i := range answers {
				switch {
				case err != nil:
				case held[i]:
					answers[i] = Held
				default:
					answers[i] = Gone
				}
			}
			return answers
		},
		Lost: func(e *Entry[held], reason Reason) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lost = append(s.lost, fmt.Sprintf("%v %v: %v", time.Since(s.start), e.Value.name, reason))
		},
		LongHeld:      func(*Entry[held]) { s.mu.Lock(); s.longHeld++; s.mu.Unlock() },
		LongHeldAfter: time.Second,
		Timeout:       2 * time.Second,
		Margin:        0,
	})
	t.Cleanup(d.Stop)
	return d
}

func watch(d *watchdog, name string, group int, lease time.Duration, renewing bool) *Entry[held] {
	e := &Entry[held]{Value: held{name, group}, Lease: lease}
	d.Watch(e, d.now(), lease, renewing)
	return e
}

func TestRenewsAtAThirdOfTheLease(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		e := watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(35 * time.Second)
		synctest.Wait()
		d.Remove(e)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.calls) != 3 || len(s.lost) != 0 || s.longHeld != 1 {
			t.Fatalf("calls %v, lost %v, longHeld %d", s.calls, s.lost, s.longHeld)
		}
		for i, at := range s.calls {
			if want := time.Duration(i+1) * 10 * time.Second; at > want || at < want-time.Duration(i+1)*tick {
				t.Errorf("renewal %d came at %v, want about %v", i, at, want)
			}
		}
	})
}

// A hold that was granted for less than its lease is renewed soon, and has its whole lease then.
func TestRenewsAShortGrantSooner(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const lease, grant = 30 * time.Second, 3 * time.Second
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			if batch[0].TTL != lease {
				t.Errorf("a renewal asks for %v", batch[0].TTL)
			}
			return allHeld(ctx, batch)
		}}
		d := newWatchdog(t, s)
		e := &Entry[held]{Value: held{name: "a"}, Lease: lease}
		d.Watch(e, mono.Now(), grant, true)
		time.Sleep(12 * time.Second)
		synctest.Wait()
		d.Remove(e)
		if len(s.calls) != 2 || len(s.lost) != 0 {
			t.Fatalf("calls %v, lost %v", s.calls, s.lost)
		}
		for i, want := range []time.Duration{shortHold, shortHold + lease/3} {
			if at := s.calls[i]; at > want || at < want-time.Duration(i)*tick {
				t.Errorf("renewal %d came at %v, want about %v", i, at, want)
			}
		}
	})
}

// TestShortGrantBearsALostRenewal: the reply to the first renewal of a hold that was granted for less than its lease is lost, and the hold
// lives.
func TestShortGrantBearsALostRenewal(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const lease, grant = 30 * time.Second, 3 * time.Second
		s := &server{}
		s.answer = func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			if len(s.calls) < 3 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return allHeld(ctx, batch)
		}
		d := newWatchdog(t, s)
		e := &Entry[held]{Value: held{name: "a"}, Lease: lease}
		d.Watch(e, mono.Now(), grant, true)
		time.Sleep(grant)
		synctest.Wait()
		if left := mono.Until(d.Deadline(e)); left < lease*9/10 || len(s.lost) != 0 {
			t.Errorf("%v left after the renewals at %v; lost %v", left, s.calls, s.lost)
		}
		d.Remove(e)
	})
}

// What does not fit into one batch goes with the next, and asks for its whole lease.
func TestMoreThanABatch(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const entries, lease = 2*BatchSize + 5, 30 * time.Second
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			if len(batch) > BatchSize {
				t.Errorf("a batch of %d", len(batch))
			}
			for _, r := range batch {
				if r.TTL != lease {
					t.Errorf("a renewal asks for %v", r.TTL)
				}
			}
			return allHeld(ctx, batch)
		}}
		d := newWatchdog(t, s)
		var all []*Entry[held]
		for i := range entries {
			all = append(all, watch(d, fmt.Sprint(i), 0, lease, true))
		}
		time.Sleep(lease / 2)
		for _, e := range all {
			d.Remove(e)
		}
		synctest.Wait()
		slices.Sort(s.renewed)
		if n := len(slices.Compact(slices.Clone(s.renewed))); n != entries || len(s.renewed) != entries {
			t.Errorf("%d renewals of %d entries; there are %d", len(s.renewed), n, entries)
		}
	})
}

func TestUnansweredRenewalsEndAtTheDeadline(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: func(ctx context.Context, _ []Renewal[held]) ([]bool, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		d := newWatchdog(t, s)
		watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(time.Minute)
		synctest.Wait()
		want := []string{"29.698s a: " + fmt.Sprint(DeadlinePassed)}
		if !slices.Equal(s.lost, want) {
			t.Fatalf("lost %v, want %v", s.lost, want)
		}
		if len(s.calls) < 3 {
			t.Errorf("only %d renewals were tried while trust lasted", len(s.calls))
		}
	})
}

func TestTransientErrorsAreBorne(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{}
		s.answer = func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			if since := time.Since(s.start); since > 9*time.Second && since < 25*time.Second {
				return nil, errors.New("away")
			}
			return allHeld(ctx, batch)
		}
		d := newWatchdog(t, s)
		e := watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if len(s.lost) != 0 {
			t.Fatalf("lost %v", s.lost)
		}
		d.Remove(e)
	})
}

func TestNotHeldEndsAtOnce(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: func(_ context.Context, batch []Renewal[held]) ([]bool, error) {
			return make([]bool, len(batch)), nil
		}}
		d := newWatchdog(t, s)
		fixed := watch(d, "fixed", 0, time.Hour, false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		d.Check(fixed)
		synctest.Wait()
		if want := []string{"5s fixed: " + fmt.Sprint(NotHeld)}; !slices.Equal(s.lost, want) {
			t.Fatalf("lost %v, want %v", s.lost, want)
		}
	})
}

// S25: an answer that was under way when its entry was removed must not touch
// the entry that came after it.
func TestS25_LateAnswerTouchesNothingElse(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &server{answer: func(_ context.Context, batch []Renewal[held]) ([]bool, error) {
			<-release
			return make([]bool, len(batch)), nil // not held
		}}
		d := newWatchdog(t, s)
		first := watch(d, "first", 0, 30*time.Second, true)
		time.Sleep(11 * time.Second) // its renewal is under way
		synctest.Wait()
		if !d.Remove(first) {
			t.Fatal("first was not watched")
		}
		second := watch(d, "second", 0, 30*time.Second, true)
		close(release)
		synctest.Wait()
		if len(s.lost) != 0 || !d.Remove(second) {
			t.Fatalf("lost %v", s.lost)
		}
	})
}

// S26: an entry is renewed for itself, whatever else its client holds or held.
func TestS26_EachEntryIsRenewedForItself(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		for range 3 {
			watch(d, "stale", 0, 30*time.Second, true)
		}
		watch(d, "fresh", 0, 30*time.Second, true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !slices.Contains(s.renewed, "fresh") {
			t.Fatalf("the first pass renewed only %v", s.renewed)
		}
	})
}

// S11, S12: a group that is not answered delays no other.
func TestS11_S12_SilentGroupDelaysNoOther(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			if batch[0].Entry.Value.name == "dead" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return allHeld(ctx, batch)
		}}
		d := newWatchdog(t, s)
		for range 10 * BatchSize {
			watch(d, "dead", -1, 30*time.Second, true)
		}
		for i := range 10000 {
			watch(d, "alive", i, 30*time.Second, true) // each in a group of its own
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for _, line := range s.lost {
			if line != "29.698s dead: "+fmt.Sprint(DeadlinePassed) {
				t.Fatalf("lost %s", line)
			}
		}
		if len(s.lost) != 10*BatchSize {
			t.Fatalf("%d lost, want the dead group only", len(s.lost))
		}
	})
}

// P5: storms of short holds start one goroutine and leave no renewal behind.
func TestP5_StormsLeaveNoRenewals(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		for range 10000 {
			d.Remove(watch(d, "a", 0, 30*time.Second, true))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.calls) != 0 {
			t.Fatalf("%d renewals of holds that are gone", len(s.calls))
		}
	})
}

// A host that was suspended finds out at the next look at the clock.
func TestSuspendedHostLosesItsHolds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: func(ctx context.Context, _ []Renewal[held]) ([]bool, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		d := newWatchdog(t, s)
		wake := time.Now().Add(5 * time.Second)
		suspend(d, wake, 25*time.Second)
		watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(5*time.Second + 100*time.Millisecond)
		synctest.Wait()
		if len(s.lost) != 1 {
			t.Fatal("the hold outlived a suspension longer than its lease")
		}
	})
}

func TestUntilBoundsRenewal(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		now := time.Now()
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			for _, r := range batch {
				if end := time.Since(now) + r.TTL; end > time.Minute {
					t.Errorf("a renewal reaches until %v", end)
				}
			}
			return allHeld(ctx, batch)
		}}
		d := newWatchdog(t, s)
		e := &Entry[held]{Value: held{"a", 0}, Lease: 30 * time.Second, Until: mono.Of(now).Add(time.Minute)}
		d.Watch(e, mono.Of(now), e.Lease, true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.lost) != 1 {
			t.Fatalf("lost %v", s.lost)
		}
		if at := d.Deadline(e).Sub(mono.Of(now)); at > time.Minute || at < 59*time.Second {
			t.Errorf("lost at %v, want just under a minute", at)
		}
	})
}

// What a hold with a fixed lease was promised is asked for again and again, and no
// more than that; a renewed one is seen to as often.
func TestUpkeep(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		now := time.Now()
		var ends []time.Duration
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			for _, r := range batch {
				ends = append(ends, time.Since(now)+r.TTL)
			}
			return allHeld(ctx, batch)
		}}
		d := newWatchdog(t, s)
		e := &Entry[held]{Value: held{"a", 0}, Lease: 30 * time.Second, RecheckEvery: 10 * time.Second}
		promised := d.Trust(mono.Of(now), time.Minute)
		d.Watch(e, mono.Of(now), time.Minute, false)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(s.calls) != 5 || len(s.lost) != 1 || d.Deadline(e) != promised {
			t.Fatalf("calls %v, lost %v, deadline %v", s.calls, s.lost, d.Deadline(e).Sub(mono.Of(now)))
		}
		for _, end := range ends {
			if excess := promised.Sub(mono.Of(now)) - end; excess < 0 || excess > 2*time.Millisecond {
				t.Errorf("asked for %v, promised was %v", end, promised.Sub(mono.Of(now)))
			}
		}
		s.calls = nil
		now = time.Now()
		e = &Entry[held]{Value: held{"b", 0}, Lease: time.Minute, RecheckEvery: 10 * time.Second}
		d.Watch(e, mono.Of(now), e.Lease, true)
		time.Sleep(65 * time.Second)
		synctest.Wait()
		d.Remove(e)
		if len(s.calls) != 6 {
			t.Errorf("calls %v", s.calls)
		}
	})
}

// After a suspension they are seen to at once, renewed or not.
func TestUpkeepAfterASuspension(t *testing.T) {
	for _, renewing := range []bool{true, false} {
		faketime.Test(t, func(t *testing.T) {
			s := &server{answer: allHeld}
			d := newWatchdog(t, s)
			now := time.Now()
			suspend(d, now.Add(5200*time.Millisecond), time.Minute)
			e := &Entry[held]{Value: held{"a", 0}, Lease: 30 * time.Second, RecheckEvery: 5 * time.Second}
			d.Watch(e, mono.Of(now), 10*time.Minute, renewing)
			time.Sleep(5500 * time.Millisecond)
			synctest.Wait()
			d.Remove(e)
			if len(s.calls) != 2 {
				t.Errorf("renewing %v: calls %v", renewing, s.calls)
			}
		})
	}
}

// A host that was suspended, or whose clock was slewed, while nothing was held
// does not lose the first hold after that.
func TestSuspendWhileIdleDoesNotHitTheNextHold(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		start := time.Now()
		// Between 10 s and 20 s of monotonic time, the wall clock runs an hour ahead.
		suspend(d, start.Add(15*time.Second), time.Hour)
		e := watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(time.Second)
		d.Remove(e)
		time.Sleep(30 * time.Second) // idle; suspended in the middle
		e = watch(d, "b", 0, 30*time.Second, true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(s.lost) > 0 {
			t.Errorf("lost: %v", s.lost)
		}
		d.Remove(e)
	})
}

// An acquire under way during a suspension is charged for it once.
func TestSuspendDuringAnAcquireCountsOnce(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		start := time.Now()
		suspend(d, start.Add(1010*time.Millisecond), 20*time.Second)
		keep := watch(d, "a", 0, time.Hour, false) // the watchdog ticks
		time.Sleep(time.Second)
		sent := d.now()
		time.Sleep(20 * time.Millisecond) // suspended for 20 s meanwhile
		e := &Entry[held]{Value: held{"b", 0}, Lease: 30 * time.Second}
		d.Watch(e, sent, e.Lease, true)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(s.lost) > 0 {
			t.Errorf("lost: %v", s.lost)
		}
		d.Remove(e)
		d.Remove(keep)
	})
}

// A check that a poke has asked for survives the end of renewal.
func TestPokeSurvivesRenewingOff(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		e := watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(time.Second)
		synctest.Wait()
		d.Check(e)
		d.SetRenewing(e, false)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(s.calls) != 1 {
			t.Error("the poke was dropped")
		}
		d.Remove(e)
	})
}

// W4 (run with -race): send reads Entry.renewing without Watchdog.mu.
func TestRenewingRacesWithSend(t *testing.T) {
	s := &server{answer: allHeld}
	d := newWatchdog(t, s)
	e := watch(d, "a", 0, 50*time.Millisecond, true)
	for i := range 20000 {
		d.Check(e)
		d.SetRenewing(e, i%2 == 0)
	}
	d.Remove(e)
}

// A short lease cannot bear the way to the server and back; a long one beside it can.
func TestShortLeasesDoNotHurryLongOnes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		const way, length = 80 * time.Millisecond, 40 * time.Second // it would be lost after 30 s
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			select {
			case <-time.After(way):
				return allHeld(ctx, batch)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		d := newWatchdog(t, s)
		long := watch(d, "long", 0, 30*time.Second, true)
		for i := range 12 { // so that one is always under way when the long one is due
			time.Sleep(17 * time.Millisecond)
			go func() {
				for time.Since(s.start) < length {
					e := watch(d, fmt.Sprint(i), 0, 300*time.Millisecond, true)
					time.Sleep(250 * time.Millisecond)
					d.Remove(e)
				}
			}()
		}
		time.Sleep(length + time.Second)
		if !d.Remove(long) || len(s.lost) != 0 {
			t.Errorf("lost: %v", s.lost)
		}
	})
}

// The end that a client has set itself does not move, so nobody has to ask about it.
func TestNoHurryBeforeMaxHold(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		now := time.Now()
		e := &Entry[held]{Value: held{"a", 0}, Lease: 30 * time.Second, Until: mono.Of(now).Add(30 * time.Second)}
		d.Watch(e, mono.Of(now), e.Lease, true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(s.calls) > 3 || len(s.lost) != 1 {
			t.Errorf("renewed at %v, lost: %v", s.calls, s.lost)
		}
	})
}

// late is an answer to a renewal of one entry, which comes when nobody waits for it any more.
func late(d *watchdog, e *Entry[held], sent mono.Time, answer Answer) {
	d.AnsweredLate([]Renewal[held]{{Entry: e, TTL: e.Lease}}, sent, []Answer{answer})
}

// An answer that comes late says what one in time says: the lease counts from when the renewal was sent.
func TestLateAnswer(t *testing.T) {
	silent := func(ctx context.Context, _ []Renewal[held]) ([]bool, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: silent}
		d := newWatchdog(t, s)
		start := mono.Now()
		e := watch(d, "a", 0, 9*time.Second, true)
		time.Sleep(8 * time.Second)
		for _, sent := range []time.Duration{5 * time.Second, 3 * time.Second} { // the later one is read first
			late(d, e, start.Add(sent), Held)
			if want := d.Trust(start.Add(5*time.Second), e.Lease); d.Deadline(e) != want {
				t.Errorf("deadline %v off", d.Deadline(e).Sub(want))
			}
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if want := []string{"13.908s a: " + fmt.Sprint(DeadlinePassed)}; !slices.Equal(s.lost, want) {
			t.Errorf("lost %q, want %q", s.lost, want)
		}
		late(d, e, mono.Now(), Held)
		late(d, e, mono.Now(), Gone)
		time.Sleep(10 * time.Second)
		if len(s.lost) != 1 || d.Deadline(e).Sub(start) != 13908*time.Millisecond {
			t.Errorf("what was lost has come back: %q", s.lost)
		}
	})
}

// That a lock is not held, as a late answer says, may be otherwise by now: Redis is asked again, at once.
func TestLateAnswerThatItIsGone(t *testing.T) {
	for _, gone := range []bool{true, false} {
		faketime.Test(t, func(t *testing.T) {
			s := &server{answer: func(_ context.Context, batch []Renewal[held]) ([]bool, error) {
				return slices.Repeat([]bool{!gone}, len(batch)), nil
			}}
			d := newWatchdog(t, s)
			e := watch(d, "a", 0, 9*time.Second, true)
			time.Sleep(time.Second)
			late(d, e, mono.Now(), Gone)
			synctest.Wait()
			if len(s.calls) != 1 || len(s.lost) > 0 != gone || d.Remove(e) == gone {
				t.Errorf("gone: %t; calls %v, lost %q", gone, s.calls, s.lost)
			}
		})
	}
}

// An answer that comes after Stop, or of an entry that was removed, says nothing to anybody.
func TestLateAnswerAfterTheEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		removed, left := watch(d, "removed", 0, 9*time.Second, true), watch(d, "left", 0, 9*time.Second, true)
		deadline := d.Deadline(removed)
		time.Sleep(time.Second)
		d.Remove(removed)
		late(d, removed, mono.Now(), Held)
		late(d, removed, mono.Now(), Gone)
		d.Stop()
		late(d, left, mono.Now(), Gone)
		time.Sleep(time.Hour)
		if d.Deadline(removed) != deadline || len(s.lost) > 0 || len(s.calls) > 0 {
			t.Errorf("deadline moved by %v, lost %q, calls %v", d.Deadline(removed).Sub(deadline), s.lost, s.calls)
		}
	})
}

// A renewal must not take effect after the first entry of its batch is lost.
func TestRenewalsSayHowLongTheyMatter(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: func(ctx context.Context, _ []Renewal[held]) ([]bool, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		d := newWatchdog(t, s)
		renew, start := d.config.Renew, mono.Now()
		first := &Entry[held]{Value: held{name: "first"}, Lease: 9 * time.Second}
		calls := 0
		d.config.Renew = func(ctx context.Context, in Budget, group int, batch []Renewal[held]) []Answer {
			if calls++; mono.Now().Add(in.Left) != d.Deadline(first) {
				t.Errorf("%v left after %v", in.Left, mono.Now().Sub(start))
			}
			return renew(ctx, in, group, batch)
		}
		d.Watch(first, start, first.Lease, true)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if calls < 2 {
			t.Errorf("%d calls", calls)
		}
	})
}
