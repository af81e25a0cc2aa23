package permits

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// await has clients await the latch. What is returned waits for the last one.
func (s *stage) await(clients ...*holdfast.Client) (last func()) {
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { kit.NoError(s.T, c.NewLatch("x").Await(background, holdfast.Wait(10*time.Minute))) })
	}
	time.Sleep(time.Second)
	return wg.Wait
}

// wantNotZero checks that one who comes now waits in vain.
func (s *stage) wantNotZero() {
	s.T.Helper()
	kit.WantError(s.T, s.latch.Await(background, holdfast.Wait(10*time.Second)), holdfast.ErrNotZero)
}

func TestLatchCountsDown(t *testing.T) {
	on(t, "latch", 3, func(s *stage) {
		l := s.latch
		third, _ := s.Client()
		last := s.await(s.c, s.other, third)
		for n := 3; n > 0; n-- {
			want(s.T, n)(kit.Remaining(l))
			s.wantNotZero()
			kit.OK(s.T, l.CountDown())
		}
		start := time.Now()
		last()
		within(s.T, start, 0, 0)
		s.WantReply("0", "EXISTS", "x")
		kit.OK(s.T, l.CountDown(), l.Await(background))
		want(s.T, 0)(kit.Remaining(l))
		kit.WantDid(s.T, true)(l.TrySetCount(background, 2))
		kit.WantDid(s.T, false)(l.TrySetCount(background, 3))
		s.WantReply("2", "GET", "x")
		kit.WantDid(s.T, true)(l.Delete(background))
		kit.WantDid(s.T, false)(l.Delete(background))
	})
}

// Whoever comes asks once before it stands in line. Only the head of the line asks again: there, once its subscription stands, which is
// one for all, and every three seconds. Then all are let in at once.
func TestLatchLetsAllOfAProcessIn(t *testing.T) {
	on(t, "latch", 1, func(s *stage) {
		seen := kit.Count(s.d)
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { kit.NoError(s.T, s.c.NewLatch("x").Await(background)) })
			synctest.Wait()
			want(s.T, 3+i)(seen.Of("await"), nil)
		}
		time.Sleep(30 * time.Second)
		if n := seen.Of("await"); n > 12+50 {
			s.T.Errorf("%d questions in 30 s", n)
		}
		s.WantReply("redisson_countdownlatch__channel__{x} 1", "PUBSUB", "NUMSUB", "redisson_countdownlatch__channel__{x}")
		start := time.Now()
		kit.OK(s.T, s.latch.CountDown())
		wg.Wait()
		within(s.T, start, 0, 0)
	})
}

// A CountDown counts once even if Redis is away.
func TestCountDownCountsWhateverHappens(t *testing.T) {
	on(t, "latch", 1, func(s *stage) {
		kit.All(s.d, memdriver.Fault{LoseRequest: true})
		wantBackend(s.T, s.latch.CountDown())
		time.Sleep(20 * time.Second)
		s.WantReply("1", "GET", "x")
		s.d.SetFaults(nil)
		time.Sleep(5 * time.Second)
		s.WantReply("0", "EXISTS", "x")
	})
}

// A CountDown that found zero is done. An earlier send of it that comes late does not count down
// the latch that was set since.
func TestLatchCountsNothingLate(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		kit.Next(s.d, "down", memdriver.Fault{DelayRequest: 2100 * time.Millisecond})
		kit.OK(s.T, s.latch.CountDown()) // its second send is answered after 2 s
		kit.WantDid(s.T, true)(s.other.NewLatch("x").TrySetCount(background, 2))
		time.Sleep(time.Second)
		want(s.T, 2)(kit.Remaining(s.latch))
	})
}

// Payloads are what Redisson decodes: "0" at zero, "1" at a new count and at a
// deletion, and nothing else; the channel has braces in any case.
func TestLatchAnnouncements(t *testing.T) {
	on(t, "", 0, func(s *stage) {
		announced := s.announced("redisson_countdownlatch__channel__{{a}b}")
		l := s.c.NewLatch("{a}b")
		for range 2 {
			kit.WantDid(s.T, true)(l.TrySetCount(background, 2))
			kit.OK(s.T, l.CountDown(), l.CountDown(), l.CountDown())
		}
		kit.WantDid(s.T, true)(l.TrySetCount(background, 2))
		kit.WantDid(s.T, true)(l.Delete(background))
		announced("1", "0", "1", "0", "1", "1")
	})
}

// L2, L14: every end of the count lets everybody who waits go on: at once if it is announced and the message comes, else within three
// seconds. A latch that is set anew before they have looked does not keep them.
func TestL14_EveryEndEndsTheWait(t *testing.T) {
	for name, row := range map[string]struct {
		end  func(s *stage)
		lost bool          // are messages, and
		back time.Duration // until when
		most time.Duration
	}{
		"counted down":                 {func(s *stage) { kit.OK(s.T, s.latch.CountDown()) }, false, 0, 0},
		"counted down, not heard":      {func(s *stage) { kit.OK(s.T, s.latch.CountDown()) }, true, time.Hour, 3 * time.Second},
		"counted down, heard of later": {func(s *stage) { kit.OK(s.T, s.latch.CountDown()) }, true, 500 * time.Millisecond, 500 * time.Millisecond},
		"deleted":                      {func(s *stage) { kit.WantDid(s.T, true)(s.latch.Delete(background)) }, false, 0, 0},
		"DEL":                          {func(s *stage) { s.Do("DEL", "x") }, false, 0, 3 * time.Second},
		"expired":                      {func(s *stage) { s.Do("PEXPIRE", "x", "10500") }, false, 0, 10505 * time.Millisecond},
		"counted down, and set anew":   {setAnew, false, 0, 3 * time.Second},
		"counted down, set, not heard": {setAnew, true, time.Hour, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, "latch", 1, func(s *stage) {
				last := s.await(s.c, s.other)
				s.d.LoseMessages(row.lost)
				start := time.Now()
				row.end(s)
				again := time.AfterFunc(row.back, func() { s.d.LoseMessages(false) })
				last()
				within(s.T, start, 0, row.most)
				again.Stop()
				s.d.LoseMessages(false)
				if s.Do("EXISTS", "x") == "1" {
					s.wantNotZero()
					s.Do("DEL", "x")
				}
			})
		})
	}
}

func setAnew(s *stage) {
	l := s.other.NewLatch("x")
	kit.OK(s.T, l.CountDown())
	kit.WantDid(s.T, true)(l.TrySetCount(background, 5))
}

// L14: nor does it keep one who came while another waited, and who never looked by itself before.
func TestL14_SetAnewBeforeTheNextInLineLooks(t *testing.T) {
	on(t, "latch", 1, func(s *stage) {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { kit.NoError(s.T, s.c.NewLatch("x").Await(background, holdfast.Wait(10*time.Second))) })
			synctest.Wait()
		}
		time.Sleep(time.Millisecond) // what comes now is after they came
		s.d.LoseMessages(true)
		setAnew(s)
		start := time.Now()
		wg.Wait()
		within(s.T, start, 0, 3*time.Second)
		s.d.LoseMessages(false)
		s.Do("DEL", "x")
	})
}

// The same of one that expires, which nothing announces and no call notes.
func TestL14_SetAnewAfterItHasExpired(t *testing.T) {
	on(t, "latch", 2, func(s *stage) {
		kit.WantDid(s.T, true)(s.latch.Expire(background, 10*time.Second))
		awaited := kit.Aside(func() error { return s.latch.Await(background, holdfast.Wait(time.Minute)) })
		time.Sleep(9990 * time.Millisecond)
		for set := false; !set; time.Sleep(100 * time.Microsecond) { // before the waiter looks, a millisecond later
			var err error
			set, err = s.latch.TrySetCount(background, 3)
			kit.OK(s.T, err)
		}
		kit.OK(s.T, <-awaited)
		s.wantNotZero()
		s.Do("DEL", "x")
	})
}
