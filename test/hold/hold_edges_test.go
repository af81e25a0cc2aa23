package hold

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What is on its way when the hold that it is of has ended.

// An owner may lock again while its last unlock is still on its way: the old
// release must not take the new hold away.
func TestLateReleaseDoesNotHitTheNextHold(t *testing.T) {
	type row struct {
		acquires, releases []memdriver.Fault // of the first hold
		unanswered         bool              // the Unlock
		again              time.Duration     // after which its release comes again, if it has a MinHold
	}
	delayed := func(by time.Duration) []memdriver.Fault { return []memdriver.Fault{{DelayRequest: by}} }
	lost := memdriver.Fault{LoseRequest: true}
	rows(t, kinds, map[string]row{
		"at once":    {releases: delayed(time.Millisecond)},
		"after 2.1s": {releases: delayed(2100 * time.Millisecond)},
		"after 2.4s": {releases: delayed(2400 * time.Millisecond)},
		"after 1m":   {releases: delayed(time.Minute)},
		// Unlock's three sends are lost; of the background's, the first is delayed.
		"in the background": {releases: append([]memdriver.Fault{lost, lost, lost}, delayed(2200*time.Millisecond)...), unanswered: true},
		// The guess of the server's clock is now 950 ms ahead. That is known, and what was given up is waited for so much longer.
		"one way is slower": {acquires: delayed(1900 * time.Millisecond), releases: delayed(3100 * time.Millisecond)},
		"kept, 1ms":         {again: time.Millisecond},
		"kept, 2.1s":        {again: 2100 * time.Millisecond},
		"kept, 2.9s":        {again: 2900 * time.Millisecond},
	}, func(s *stage, row row) {
		var options []holdfast.LockOption
		if row.again > 0 && !s.Kind.Shared {
			options = append(options, holdfast.MinHold(3*time.Second))
		}
		again := []memdriver.Fault{{Repeat: true, RepeatAfter: row.again}}
		s.first(map[string][]memdriver.Fault{"acquire": row.acquires, "release": row.releases, "retain": again})
		first := s.in(s.ctx, options...)
		if err := first.Unlock(); (err != nil) != row.unanswered {
			s.Error(err)
		}
		next := s.in(s.ctx)
		time.Sleep(2 * time.Minute)
		s.alone(next)
	})
}

// Extend's delayed answer is not about the owner's next hold: it does not move its deadline, and "not held" does not lose it.
func TestLateExtendAnswerIsNotTheNextHolds(t *testing.T) {
	values(t, kinds, []bool{true, false}, func(s *stage, extended bool) {
		first := s.in(s.ctx)
		renew := memdriver.Fault{DelayReply: 100 * time.Millisecond}
		if !extended {
			renew.DelayRequest = 15 * time.Millisecond // so it comes behind the release
		}
		s.first(map[string][]memdriver.Fault{"renew": {renew}, "release": {{DelayReply: 20 * time.Millisecond}}})
		extending := kit.Aside(func() error { return first.Extend(background, time.Hour) })
		time.Sleep(10 * time.Millisecond)
		unlocking := kit.Aside(first.Unlock)
		time.Sleep(10 * time.Millisecond)
		next := s.in(s.ctx, holdfast.FixedLease(500*time.Millisecond))
		<-extending // it may say anything
		kit.OK(s.T, <-unlocking)
		if !extended {
			s.alone(next)
			return
		}
		after := s.heldByOther()
		if next.Context().Err() == nil {
			s.Errorf("two holders: %v and %v", next.Owner(), after.Owner())
		}
		s.Unlock(after)
		s.Lost(next)
	})
}

// An Unlock begun in time, whose release arrives after the lease, is no loss.
func TestSlowUnlockIsNoLoss(t *testing.T) {
	kinds(t, func(s *stage) {
		h := s.lock()
		kit.Next(s.d, "release", memdriver.Fault{DelayRequest: 400 * time.Millisecond})
		s.Unlock(h)
	}, holdfast.WithLease(300*time.Millisecond))
}

// What ends a reconciliation is a release that was sent after the limit of the send
// that was given up, not one that was answered after it.
func TestSlowAnswerReconcilesNothing(t *testing.T) {
	kinds(t, func(s *stage) {
		s.first(map[string][]memdriver.Fault{
			"acquire": {{DelayRequest: 2200 * time.Millisecond}}, "release": {{DelayReply: 600 * time.Millisecond}},
		})
		s.givesUp(background, 10*time.Millisecond)
		time.Sleep(5 * time.Second)
		s.free()
		time.Sleep(time.Minute)
	})
}

// An Unlock waits until nothing is left to give back, and not until the last moment
// at which an old send could still arrive: that concerns the next acquire.
func TestUnlockDoesNotWaitForOldSends(t *testing.T) {
	nesting(t, func(s *stage) {
		outer := s.lock()
		kit.Next(s.d, "acquire", memdriver.Fault{LoseReply: true})
		s.givesUp(outer.Context(), 10*time.Millisecond)
		start := time.Now()
		s.Unlock(outer)
		// The client gives the nested send up after a third of its timeout, 2 s; it could
		// have its effect for half a second more.
		s.within(start, 0, 2*time.Second)
		s.free()
	})
}

// An Unlock that races with Close leaves nothing.
func TestUnlockRacingClose(t *testing.T) {
	often(t, kinds, 150, func(s *stage, _ int) {
		h := s.lock()
		var wg sync.WaitGroup
		start := make(chan struct{})
		wg.Go(func() { <-start; _ = h.Unlock() })
		wg.Go(func() { <-start; _ = s.c.Close() })
		close(start)
		wg.Wait()
		s.free()
	})
}

// TryLock is bounded, also by another call of the same owner.
func TestTryLockIsBounded(t *testing.T) {
	rows(t, kinds, map[string]func(s *stage) (end func()){
		"same owner in line": func(s *stage) func() {
			h := s.heldByOther()
			time.AfterFunc(time.Minute, func() { s.Unlock(h) })
			waits := s.begin(s.ctx)
			return func() {
				got := <-waits
				s.Unlock(s.Must(got.Hold, got.Err))
			}
		},
		"unsettled unlock": func(s *stage) func() {
			h := s.in(s.ctx)
			kit.Away(s.d)
			_ = h.Unlock() // it has no answer
			return s.heals
		},
	}, func(s *stage, busy func(s *stage) (end func())) {
		end := busy(s)
		start := time.Now()
		if h, err := s.l.TryLock(s.ctx); err == nil {
			s.Errorf("%v, beside another call of its owner", h)
		}
		s.within(start, 0, holdfast.DefaultTimeout)
		end()
		time.Sleep(time.Hour)
	})
}

// After a loss, Unlock of a SyncLocker does not unlock the next one's hold.
func TestSyncLockerUnlocksItsOwnHold(t *testing.T) {
	kinds(t, func(s *stage) {
		l := holdfast.SyncLocker(background, s.l)
		l.Lock() // the first goroutine's
		s.Wipe()
		time.Sleep(15 * time.Second) // it is lost
		second := make(chan struct{})
		go func() { l.Lock(); close(second) }()
		synctest.Wait()
		if panics(l.Unlock) == nil { // the first goroutine's
			s.Error("the first one's Unlock did not panic")
		}
		<-second // only now: until then the first believed to be alone
		kit.Fails(s.T, holdfast.ErrLocked)(s.rival.TryLock(background))
		l.Unlock()
	})
}

// A call of the same owner may come between an Unlock and its release. It keeps
// what still stands in Redis, and nobody waits for the lease to end.
func TestLockBetweenUnlockAndRelease(t *testing.T) {
	often(t, nesting, 25, func(s *stage, _ int) {
		theirs := s.heldByOther()
		var wg sync.WaitGroup
		lockUnlock := func(ctx context.Context) {
			wg.Go(func() {
				h, err := s.l.Lock(ctx)
				if err != nil {
					s.Error(err)
					return
				}
				if err := h.Unlock(); err != nil {
					s.Log(err) // "no answer in time", and Redis is well
				}
			})
			synctest.Wait()
		}
		lockUnlock(s.ctx)      // stands in line, and has the turn
		lockUnlock(s.ctx)      // waits for the turn
		lockUnlock(background) // in line behind the first
		start := time.Now()
		s.Unlock(theirs)
		wg.Wait()
		s.within(start, 0, 4*time.Second)
	})
}
