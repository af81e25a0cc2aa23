package hold

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// Each call has its effect exactly once, whatever happens to its messages.

// TestS13_FaultsHaveNoSecondEffect takes a lock twice and gives it back twice, nested if it nests, with each
// fault at each of the four, and checks the count after each, at once and a while later.
func TestS13_FaultsHaveNoSecondEffect(t *testing.T) {
	for at := range 4 {
		rows(t, kinds, kit.Faults, func(s *stage, fault memdriver.Fault) {
			steps, ctx := []string{"acquire", "acquire", "release", "release"}, background
			if !s.Kind.Nests() {
				steps[1], steps[2], ctx = "release", "acquire", s.ctx
			}
			var held []*holdfast.Hold
			for i, step := range steps {
				s.d.SetFaults(nil)
				if i == at {
					kit.Next(s.d, step, fault)
				}
				if step == "acquire" {
					held = append(held, s.in(ctx))
				} else {
					s.Unlock(held[len(held)-1])
					held = held[:len(held)-1]
				}
				if s.Kind.Nests() && len(held) > 0 {
					ctx = held[0].Context()
				}
				// A request that comes again after its answer, while the same owner has
				// gone through the same counts, is not in the promise; see doc.go.
				for range 2 {
					s.counts(held)
					time.Sleep(15 * time.Second)
				}
			}
			time.Sleep(time.Minute) // whatever was delayed has come by now
			s.free()
			seen := kit.Count(s.d)
			time.Sleep(time.Hour)
			if n := seen.All(); n != 0 {
				s.Errorf("%d calls after the last unlock, with the fault at step %d", n, at)
			}
		})
	}
}

// A caller that is cancelled leaves what stood before, at whichever moment.
func TestS27_CancelledCallersLeaveNothing(t *testing.T) {
	const way = 10 * time.Millisecond
	cancelled := func(s *stage, parent context.Context, fault memdriver.Fault, after time.Duration) {
		kit.Next(s.d, "acquire", fault)
		why := errors.New("changed my mind")
		ctx, cancel := context.WithCancelCause(parent)
		time.AfterFunc(after, func() { cancel(why) })
		start := time.Now()
		err := kit.ErrOf(s.l.Lock(ctx))
		kit.WantError(s.T, err, context.Canceled, why)
		s.within(start, after, after)
		if errors.Is(err, holdfast.ErrLocked) {
			s.Errorf("giving up and being refused are the same error: %v", err)
		}
		time.Sleep(5 * time.Second)
	}
	for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 19 * time.Millisecond} {
		rows(t, kinds, map[string]memdriver.Fault{
			"slow":       {DelayRequest: way, DelayReply: way},
			"reply lost": {DelayRequest: way, LoseReply: true},
			"very late":  {DelayRequest: 2200 * time.Millisecond},
			"repeated":   {DelayRequest: way, DelayReply: way, Repeat: true, RepeatAfter: way / 2},
		}, func(s *stage, fault memdriver.Fault) {
			cancelled(s, background, fault, after)
			s.free()
			if s.Kind.Nests() {
				outer := s.lock()
				cancelled(s, outer.Context(), fault, after)
				s.alone(outer)
				s.free()
			}
		})
	}
}

// The answer and the cancellation come at the very same moment: the caller gets
// the hold or the error, and with the error nothing stays.
func TestS27_CancelledAtTheMomentOfTheAnswer(t *testing.T) {
	often(t, kinds, 40, func(s *stage, _ int) {
		kit.All(s.d, memdriver.Fault{DelayReply: 10 * time.Millisecond})
		ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
		defer cancel()
		if h, err := s.l.Lock(ctx); err == nil {
			s.Unlock(h)
		} else {
			kit.WantError(s.T, err, context.DeadlineExceeded)
		}
		time.Sleep(time.Second)
		s.free()
	})
}

// One who stands in line gives up, at whichever moment: before its place has
// come, while a send is under way, while it sleeps, and around the moment at
// which the lock becomes free. It gets the hold or the error; with the error
// nothing of it stays, and the lock is the next one's at once.
func TestS27_CancelledWaitersLeaveNothing(t *testing.T) {
	const released, way = 60 * time.Millisecond, 10 * time.Millisecond
	moments := []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond}
	for after := -2 * time.Millisecond; after <= 24*time.Millisecond; after += 2 * time.Millisecond {
		moments = append(moments, released+after)
	}
	for _, after := range moments {
		rows(t, kinds, map[string]memdriver.Fault{
			"slow":      {DelayRequest: way, DelayReply: way},
			"no answer": {DelayRequest: way, LoseReply: true},
			"repeated":  {DelayRequest: way, DelayReply: way, Repeat: true, RepeatAfter: 7 * time.Millisecond},
		}, func(s *stage, fault memdriver.Fault) {
			holder := s.heldByOther()
			kit.Every(s.d, "acquire", fault)
			time.AfterFunc(released, func() { s.Unlock(holder) })
			ctx, cancel := context.WithTimeout(background, after)
			defer cancel()
			start := time.Now()
			h, err := s.l.Lock(ctx)
			s.within(start, 0, after)
			if err == nil {
				s.Unlock(h)
			} else {
				kit.WantError(s.T, err, context.DeadlineExceeded)
			}
			s.d.SetFaults(nil)
			time.Sleep(time.Until(start.Add(released)))
			synctest.Wait()
			start = time.Now()
			s.Unlock(s.heldByOther())
			most := 200 * time.Millisecond
			if s.Kind.AlwaysListed && fault.LoseReply {
				most = 3 * time.Second // a try that was not answered may have taken a place, until its limit
			}
			kit.Took(s.T, time.Since(start), 0, most, fmt.Sprintf("given up after %v; the next one waited %%v", after))
			time.Sleep(5 * time.Second)
			s.WantNothing()
			if n := s.Listeners(); n != 0 {
				s.Errorf("given up after %v; %d listen when all is over", after, n)
			}
		})
	}
}

// A release that cannot be sent is bounded, and repeated in the background, until the key has expired by itself.
func TestReleaseIsRepeatedForTheWholeLease(t *testing.T) {
	values(t, kinds, []time.Duration{4 * time.Second, time.Minute}, func(s *stage, away time.Duration) {
		h := s.lock()
		if away > holdfast.DefaultLease {
			s.Unlock(h)
			h = s.lock(holdfast.FixedLease(time.Hour))
		}
		kit.Away(s.d)
		start := time.Now()
		err := h.Unlock()
		if failed := s.backend("Unlock", err, ""); !failed.MayHaveRun || errors.Is(err, holdfast.ErrLost) {
			s.Errorf("Unlock: %v", err)
		}
		s.within(start, 0, holdfast.DefaultTimeout)
		kit.WantError(s.T, h.Unlock(), holdfast.ErrNotHeld)
		time.Sleep(away)
		s.d.SetFaults(nil)
		time.Sleep(max(3*time.Second, away))
		s.free()
	})
}

// The watchdog of a hold ends with it: no renewal comes after Unlock was called,
// at whatever moment of a renewal that is, and no loss is told.
func TestNoRenewalAfterUnlock(t *testing.T) {
	var renewals, lost atomic.Int32
	often(t, kinds, 43, func(s *stage, i int) {
		var ended atomic.Bool
		s.d.SetFaults(func(call driver.Call) memdriver.Fault {
			if ended.Load() && call.Script.Name() == "renew" {
				renewals.Add(1)
			}
			return memdriver.Fault{DelayRequest: 60 * time.Millisecond, DelayReply: 60 * time.Millisecond}
		})
		h := s.lock()
		time.Sleep(9900*time.Millisecond + time.Duration(i)*7*time.Millisecond)
		synctest.Wait()
		ended.Store(true)
		s.Unlock(h)
		kit.WantError(s.T, context.Cause(h.Context()), context.Canceled)
		s.free()
		time.Sleep(time.Hour)
		s.free()
		if renewals.Load() > 0 || lost.Load() > 0 {
			s.Errorf("unlocked at moment %d: %d renewals after it, %d losses", i, renewals.Load(), lost.Load())
		}
	}, losses(&lost))
}

// What was refused has no effect later: an earlier send of the call may still be under way, and what it was
// refused for may go before it arrives.
func TestRefusedHasNoEffectLater(t *testing.T) {
	type row struct {
		send          string
		before, after []string // the command that makes the object, and the one that makes the call possible
		value         string   // then, if the call has had its effect
		call          func(c *holdfast.Client) (bool, error)
	}
	set, del := []string{"SET", "x", "1"}, []string{"DEL", "x"}
	for _, goes := range []time.Duration{2050 * time.Millisecond, time.Hour} {
		rows(t, fake, map[string]row{
			"latch": {"set", set, del, "2", func(c *holdfast.Client) (bool, error) { return c.NewLatch("x").TrySetCount(background, 2) }},
			"permits": {"set", set, del, "2", func(c *holdfast.Client) (bool, error) {
				return c.NewPermitSemaphore("x").TrySetPermits(background, 2)
			}},
			"unleased permits": {"set", set, del, "2", func(c *holdfast.Client) (bool, error) {
				return c.NewUnleasedSemaphore("x").TrySetPermits(background, 2)
			}},
			"release": {"add", del, set, "3", func(c *holdfast.Client) (bool, error) { return c.NewUnleasedSemaphore("x").ReleaseIfExists(2) }},
		}, func(s *stage, row row) {
			s.Do(row.before...)
			kit.Next(s.d, row.send, late)
			defer time.AfterFunc(goes, func() { kit.NoError(s.T, kit.ErrOf(s.Server.Do(row.after...))) }).Stop()
			done, err := row.call(s.c)
			kit.OK(s.T, err)
			time.Sleep(5 * time.Second)
			if has := s.Do("GET", "x") == row.value; has != done {
				s.Errorf("it says %v, and in Redis stands %q", done, s.Do("GET", "x"))
			}
			s.Do("DEL", "x")
			time.Sleep(kit.CallsLive)
		})
	}
}

// late delays a request for longer than a send lasts: the second send is answered after 2 s.
var late = memdriver.Fault{DelayRequest: 2100 * time.Millisecond}

// A waiter that is refused remembers the sends before that which were not answered: one of them may yet be
// let in, when the waiter has given up.
func TestRefusedWaiterRemembersItsSends(t *testing.T) {
	fake(t, func(s *stage) {
		held := s.heldByOther()
		s.d.LoseMessages(true)
		kit.Next(s.d, "acquire", late)
		time.AfterFunc(2050*time.Millisecond, func() { s.Unlock(held) })
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(2070*time.Millisecond, cancel)
		kit.Fails(s.T, context.Canceled)(s.l.Lock(ctx))
		time.Sleep(time.Second)
		s.WantReply("0", "EXISTS", "x")
		s.d.LoseMessages(false)
	})
}

// What was deleted, or given a time to live, is that once: a send of the call that was given up does not hit what is
// made next.
func TestDeletedOnce(t *testing.T) {
	rows(t, fake, map[string]func(s *holdfast.PermitSemaphore) (bool, error){
		"delete": func(s *holdfast.PermitSemaphore) (bool, error) { return s.Delete(background) },
		"expire": func(s *holdfast.PermitSemaphore) (bool, error) { return s.Expire(background, time.Millisecond) },
	}, func(s *stage, call func(s *holdfast.PermitSemaphore) (bool, error)) {
		permits := s.c.NewPermitSemaphore("x")
		kit.OK(s.T, permits.SetPermits(background, 1))
		s.first(map[string][]memdriver.Fault{"delete": {late}, "expire": {late}})
		was, err := call(permits)
		time.Sleep(time.Millisecond)
		set, again := permits.TrySetPermits(background, 2)
		if kit.OK(s.T, err, again); !was || !set {
			s.Fatalf("%v; and then set: %v", was, set)
		}
		time.Sleep(time.Second)
		s.WantReply("2", "GET", "x")
		s.Do("DEL", "x")
		time.Sleep(kit.CallsLive)
	})
}

// Redis does not forget a call before a send of it can be late: not if the client has a short timeout, and not if a send comes minutes
// late, since its client does not know yet what time it is in Redis.
func TestRememberedForLongEnough(t *testing.T) {
	values(t, fake, []bool{false, true}, func(s *stage, apart bool) {
		c, d := s.Client(holdfast.WithTimeout(10 * time.Millisecond))
		delay := 200 * time.Millisecond
		if apart {
			s.Server.SetClock(-2 * time.Minute)
			c, d, delay = s.c, s.d, 100*time.Second
		}
		s.Do("SET", "x", "1")
		kit.Next(d, "add", memdriver.Fault{DelayRequest: delay})
		err := c.NewUnleasedSemaphore("x").Release(1)
		if apart {
			kit.OK(s.T, err)
			s.WantReply("2", "GET", "x")
		} else if !s.backend("Release", err, "").MayHaveRun { // it goes on in the background
			s.Error(err)
		}
		time.Sleep(delay + time.Second)
		s.WantReply("2", "GET", "x")
		s.Do("DEL", "x")
		time.Sleep(5 * time.Minute)
	})
}

// A nested Lock gives back what another goroutine's Unlock has left to it. An attempt of an earlier Lock of
// the same owner, which is still on its way, must not raise the count again behind that.
func TestAttemptBehindALaterRelease(t *testing.T) {
	nesting(t, func(s *stage) {
		outer := s.in(s.ctx)
		inner := s.in(s.ctx)
		s.first(map[string][]memdriver.Fault{
			"acquire": {{DelayRequest: 250 * time.Millisecond}}, // it is sent again after 100 ms
			"release": {{LoseReply: true}},
		})
		slow := s.begin(s.ctx)
		last := s.begin(s.ctx)         // until the other one is over, and then gives back
		one := kit.Aside(inner.Unlock) // this one, whose answer is lost,
		held := <-slow
		time.Sleep(200 * time.Millisecond)                     // and after the attempt has arrived
		other := kit.Aside(s.Must(held.Hold, held.Err).Unlock) // that one
		for _, ended := range []<-chan error{one, other} {
			if err := <-ended; errors.Is(err, holdfast.ErrLost) { // it may say that it does not know
				s.Errorf("Unlock: %v", err)
			}
		}
		got := <-last
		s.Unlock(s.Must(got.Hold, got.Err), outer)
	}, holdfast.WithTimeout(300*time.Millisecond))
}
