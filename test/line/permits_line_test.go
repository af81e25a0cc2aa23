package line

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The line of those who wait for permits: what differs from that of a plain lock. A semaphore of one permit is among the kinds of everyLine.

// semaphore is the lock as another client has it.
func (s *stage) semaphore() *holdfast.PermitSemaphore {
	s.Helper()
	c, _ := s.Client()
	return c.NewPermitSemaphore("x")
}

// waitFor has a client of its own wait for n permits, and returns when it stands in line, as the last. holdOf has one hold n.
func (s *stage) waitFor(n int, options ...holdfast.LockOption) *kit.Standing {
	s.Helper()
	c, d := s.Client()
	return s.enter(func() *kit.Standing {
		return kit.WaitWith(c, d, background, func(ctx context.Context) (*holdfast.Hold, error) {
			return c.NewPermitSemaphore("x").Acquire(ctx, n, options...)
		})
	})
}

func (s *stage) holdOf(n int) *holdfast.Hold {
	s.Helper()
	return kit.Must(s.T)(s.semaphore().Acquire(background, n))
}

// Two at a time have the permits in the order in which they came, at the moment in which they are given back.
func TestPermitsAreServedInOrder(t *testing.T) {
	fakePermits(t, 2, func(s *stage) {
		holds := []*holdfast.Hold{s.heldByOther(), s.heldByOther()}
		for _, w := range several(10, func() *kit.Standing { return s.wait() }) {
			holds = append(holds[1:], s.next(holds[0], w, 0))
			s.WantReply("0", "GET", "x")
			time.Sleep(37 * time.Millisecond)
		}
		s.wantStanding(0)
		s.release(holds[0])
		s.release(holds[1])
	})
}

// R1: a waiter for some gives up while it is granted them. It gives back these, and others have them. One who leaves keeps nobody waiting any more.
func TestPermitLineR1_Leaving(t *testing.T) {
	fakePermits(t, 3, func(s *stage) {
		h := s.holdOf(3)
		first, second := deafen(s.waitFor(2)), s.waitFor(3)
		s.release(h)
		s.WantReply("1", "GET", "x") // it does not know
		s.wantLine(second)
		time.Sleep(10 * time.Millisecond)
		first.Cancel(nil)
		h = second.Within(s.T, time.Now(), 0)
		time.Sleep(time.Minute)
		s.WantReply("0", "GET", "x")
		s.WantReply("3", "ZCARD", "{x}:timeout")
		s.release(h)
		h = s.holdOf(2)
		many, one := s.waitFor(3), s.waitFor(1)
		many.Cancel(nil)
		s.release(one.Within(s.T, time.Now(), 0))
		s.release(h)
	})
}

// R3: one that is granted some of the permits, and neither hears nor asks, costs its grant: the first of the line knows when it ends, within a second.
func TestPermitLineR3_TheDeaf(t *testing.T) {
	for _, row := range []struct{ deaf, alive int }{{1, 2}, {2, 2}, {2, 1}} {
		for offset := time.Duration(0); offset < kit.AsksEvery; offset += 130 * time.Millisecond {
			fakePermits(t, 2, func(s *stage) {
				h := s.holdOf(2)
				deaf, alive := s.waitFor(row.deaf), s.waitFor(row.alive)
				time.Sleep(offset)
				cutOff(deaf)
				s.release(s.next(h, alive, kit.GrantLasts+time.Second))
				deaf.Cancel(nil)
				back(deaf)
				time.Sleep(time.Minute)
			})
		}
	}
}

// R6: a hold of several permits that begins with a message has its full lease within a second. One with a lease of its own asks first, and
// has that.
func TestPermitLineR6_Renewal(t *testing.T) {
	fakePermits(t, 3, func(s *stage) {
		h := s.holdOf(3)
		renewed, fixed := s.waitFor(2), s.waitFor(1, holdfast.FixedLease(10*time.Minute))
		time.Sleep(300 * time.Millisecond)
		n := kit.Count(renewed.D)
		released := s.release(h)
		several, one := renewed.Within(s.T, released, 0), fixed.Within(s.T, released, 0)
		if n.Of("acquire") > 0 || several.Deadline().After(released.Add(kit.GrantLasts)) {
			s.Errorf("it has asked %d times, and is trusted until %v", n.Of("acquire"), several.Deadline().Sub(released))
		}
		if left := time.Until(one.Deadline()); left < 9*time.Minute {
			s.Errorf("the fixed one is trusted for %v", left)
		}
		time.Sleep(time.Second)
		for _, id := range several.PermitIDs() {
			if left, err := kit.LeaseOf(s.semaphore(), id); left < 28*time.Second || err != nil {
				s.Errorf("it is held for %v, %v", left, err)
			}
		}
		time.Sleep(time.Minute)
		s.release(several)
		s.release(one)
	})
}

// R9: whichever way permits become available without a release, those in line have them: at once if a script of ours does it, and within
// a second else.
func TestPermitLineR9_OtherWays(t *testing.T) {
	for way, row := range map[string]struct {
		free func(s *stage, of *holdfast.PermitSemaphore, h *holdfast.Hold) error
		most time.Duration
	}{
		"expired": {func(s *stage, _ *holdfast.PermitSemaphore, h *holdfast.Hold) error { <-h.Context().Done(); return nil }, 100 * time.Millisecond},
		"forced": {func(_ *stage, of *holdfast.PermitSemaphore, _ *holdfast.Hold) error {
			_, err := of.ForceUnlock(background)
			return err
		}, 0},
		"by id": {func(_ *stage, of *holdfast.PermitSemaphore, h *holdfast.Hold) error {
			return of.ReleasePermits(background, h.PermitIDs()...)
		}, 0},
		"added": {func(_ *stage, of *holdfast.PermitSemaphore, _ *holdfast.Hold) error {
			return of.AddPermits(background, 1)
		}, 0},
		"set": {func(_ *stage, of *holdfast.PermitSemaphore, _ *holdfast.Hold) error {
			return of.SetPermits(background, 2)
		}, 0},
		"deleted": {func(s *stage, of *holdfast.PermitSemaphore, _ *holdfast.Hold) error {
			_, err := of.Delete(background)
			s.Do("SET", "x", "1")
			return err
		}, kit.AsksEvery},
		"in Redis": {func(s *stage, _ *holdfast.PermitSemaphore, _ *holdfast.Hold) error { s.Do("INCR", "x"); return nil }, kit.AsksEvery},
	} {
		t.Run(way, func(t *testing.T) {
			fakePermits(t, 1, func(s *stage) {
				h := s.heldByOther(holdfast.FixedLease(5 * time.Second))
				first, second := s.wait(), s.wait()
				kit.OK(t, row.free(s, s.semaphore(), h))
				next := first.Within(t, time.Now(), row.most)
				s.wantLine(second)
				s.turns(next, second)
				_ = h.Unlock()
				kit.OK(t, s.semaphore().SetPermits(background, 1))
			})
		})
	}
}

// A semaphore that does not exist has no permits, and no line for longer than somebody waits. When it is set, those in line have them.
func TestPermitLineBeforeTheSemaphore(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		s.Kind = permitKind
		gone := s.waitFor(1)
		gone.Cancel(nil)
		time.Sleep(time.Second)
		s.WantReply("", "KEYS", "*")
		first, second := s.waitFor(2), s.waitFor(1)
		time.Sleep(5 * time.Minute) // longer than a line that nobody asks
		_, err := s.semaphore().TrySetPermits(background, 3)
		kit.OK(s.T, err)
		set := time.Now()
		s.release(first.Within(s.T, set, 0))
		s.release(second.Within(s.T, set, 0))
		time.Sleep(kit.CallsLive)
		s.WantReply("x", "KEYS", "*")
		s.Do("DEL", "x")
	})
}

// R16: a try does not overtake whom others wait behind; when nobody is left in line, it has what is available.
func TestPermitLineR16_Try(t *testing.T) {
	fakePermits(t, 2, func(s *stage) {
		h := s.heldByOther()
		many := s.waitFor(2)
		kit.Fails(s.T, holdfast.ErrNoPermits)(s.semaphore().TryLock(background))
		many.Cancel(nil)
		synctest.Wait()
		s.release(kit.Must(s.T)(s.semaphore().TryLock(background)))
		s.release(h)
	})
}

// One goroutine of a few processes, or several: one of each stands in line. All permits are used, and a hold takes two calls.
func TestPermitLineOfProcesses(t *testing.T) {
	const clients, stay, lasts = 3, 10 * time.Millisecond, 2 * time.Second
	for _, each := range []int{1, 4} {
		fakePermits(t, 2, func(s *stage) {
			ctx, end := context.WithTimeout(background, lasts)
			defer end()
			holds, asked := s.inTurns(ctx, clients, each, stay)
			for ctx.Err() == nil {
				time.Sleep(stay)
				if n := len(s.inLine()); n > clients {
					s.Errorf("%d stand in line", n)
				}
			}
			sum := 0
			for _, n := range holds() {
				sum += n
			}
			if least := int(2 * lasts / (stay + 5*time.Millisecond)); sum < least {
				s.Errorf("%d holds, want %d or so", sum, least)
			}
			if n := asked.Of("acquire") + asked.Of("release") + asked.Of("leave"); n > 2*sum+sum/5 {
				s.Errorf("%d calls for %d holds", n, sum)
			}
		})
	}
}

// One owner may wait for permits several times at once: each wait has a place of its own.
func TestPermitLineOfOneOwner(t *testing.T) {
	fakePermits(t, 2, func(s *stage) {
		h := s.holdOf(2)
		c, _ := s.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		var all sync.WaitGroup
		for n := range 2 {
			all.Go(func() { kit.Turn(s.T)(c.NewPermitSemaphore("x").Acquire(ctx, 1+n)) })
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		s.wantStanding(2)
		released := s.release(h)
		all.Wait()
		kit.Took(s.T, time.Since(released), 0, 0, "they had them after %v")
	})
}

// A first try that was held up on its way, and comes when its waiter stands in line and some permits have expired, takes them once.
func TestPermitLineLateTry(t *testing.T) {
	fakePermits(t, 2, func(s *stage) {
		a, dies := s.Client()
		kit.Must(s.T)(a.NewPermitSemaphore("x").Acquire(background, 2, holdfast.FixedLease(2100*time.Millisecond)))
		kit.Away(dies)
		c, d := s.Client(holdfast.WithTimeout(6 * time.Second))
		var asks atomic.Int32
		start := time.Now()
		d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			switch {
			case call.Script.Name() != "acquire":
			case asks.Add(1) == 1:
				f.DelayRequest = 2150 * time.Millisecond // it was given up after two seconds
			case time.Since(start) > 2050*time.Millisecond:
				f.DelayRequest = 200 * time.Millisecond
			}
			return f
		})
		h := kit.Must(s.T)(c.NewPermitSemaphore("x").Lock(background))
		s.WantReply("1", "GET", "x")
		s.WantReply("1", "ZCARD", "{x}:timeout")
		d.SetFaults(nil)
		s.release(h)
	})
}

// A waiter that is not listed, since its client does not receive grants, has permits beside those that are, and leaves nothing. Nothing is
// reserved for it.
func TestPermitLineOfOneOutside(t *testing.T) {
	fakePermits(t, 2, func(s *stage) {
		c, d := s.outside()
		one, two := s.heldByOther(), s.heldByOther()
		outside := kit.WaitWith(c, d, background, func(ctx context.Context) (*holdfast.Hold, error) { return c.NewPermitSemaphore("x").Acquire(ctx, 2) })
		time.Sleep(time.Minute)
		s.wantStanding(0)
		in := s.waitFor(1)
		one = in.Within(s.T, s.release(one), 50*time.Millisecond)
		outside.Cancel(nil)
		<-outside.Got // closed: its wait has ended
		kit.WantError(s.T, outside.Err, context.Canceled)
		s.wantStanding(0)

		outside = s.WaitAs(c, d, s.Lock(c))
		time.Sleep(time.Second)
		in = s.waitFor(1)
		released := s.release(two)
		s.release(one)
		s.release(in.Within(s.T, released, 50*time.Millisecond))
		s.release(outside.Within(s.T, released, 100*time.Millisecond))
	})
}

// Of several waiters, listed and not, that want more than one permit, one has them as soon as there are as many: whoever sleeps, nothing is
// reserved for it.
func TestPermitLineKeptForOneOutside(t *testing.T) {
	fakePermits(t, 5, func(s *stage) {
		outside := func(n int) *kit.Standing {
			c, d := s.outside()
			w := kit.WaitWith(c, d, background, func(ctx context.Context) (*holdfast.Hold, error) {
				return c.NewPermitSemaphore("x").Acquire(ctx, n)
			})
			time.Sleep(time.Millisecond)
			return w
		}
		h := s.holdOf(5)
		first, second := outside(5), outside(3)
		in := s.waitFor(5)
		// The second one asks before the first one does, which is refused then, and before the one in line, which is told to wait for a moment.
		kit.Next(first.D, "acquire", memdriver.Fault{DelayRequest: 500 * time.Microsecond})
		h = second.Within(s.T, s.release(h), 50*time.Millisecond)
		released := s.release(h)
		for range 2 {
			select {
			case h = <-first.Got:
				first = in
			case h = <-in.Got:
				in = first
			}
			kit.Took(s.T, time.Since(released), 0, 50*time.Millisecond, "the next one has them after %v")
			released = s.release(h)
		}
	})
}
