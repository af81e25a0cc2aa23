package permits

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

func TestSemaphoreTakesAndGives(t *testing.T) {
	on(t, "semaphore", 5, func(w *stage) {
		s, seen := w.semaphore, kit.Count(w.d)
		kit.OK(w.T, s.Acquire(background, 3), s.TryAcquire(background, 2), s.Release(4))
		want(w.T, 3)(seen.All(), nil) // round trips
		w.WantReply("4", "GET", "x")
		kit.WantError(w.T, s.TryAcquire(background, 5), holdfast.ErrLocked)
		start := time.Now()
		kit.WantError(w.T, s.Acquire(background, 5, holdfast.Wait(5*time.Second)), holdfast.ErrLocked)
		within(w.T, start, 5*time.Second, 5*time.Second)
		time.Sleep(time.Millisecond)
		w.WantReply("0", "EXISTS", "holdfast_next:{x}")
		kit.WantDid(w.T, false)(s.TrySetPermits(background, 9))
		want(w.T, 4)(s.Drain(background))
		kit.OK(w.T, s.AddPermits(background, -2))
		want(w.T, -2)(kit.Available(s))
		kit.OK(w.T, s.AddPermits(background, 7))
	})
}

// S14: whichever fault hits a call, it has its effect once, and says so. None of its attempts changes what stands there a while later,
// or undoes what the next calls do.
func TestS14_CallsHaveOneEffect(t *testing.T) {
	did := func(ok bool, err error) error {
		if !ok && err == nil {
			err = errors.New("it has not been done")
		}
		return err
	}
	type step struct {
		script, want string // what stands at x then
		do           func(s *stage) error
	}
	for kind, steps := range map[string][]step{
		"semaphore": {
			{"acquire", "3", func(s *stage) error { return s.semaphore.Acquire(background, 2) }},
			{"acquire", "1", func(s *stage) error { return s.semaphore.TryAcquire(background, 2) }},
			{"add", "4", func(s *stage) error { return s.semaphore.Release(3) }},
			{"drain", "0", func(s *stage) error { n, err := s.semaphore.Drain(background); return did(n == 4, err) }},
			{"add", "6", func(s *stage) error { return s.semaphore.AddPermits(background, 6) }},
			{"set", "1", func(s *stage) error { s.Do("DEL", "x"); return did(s.semaphore.TrySetPermits(background, 1)) }},
			{"add", "5", func(s *stage) error { return s.semaphore.AddPermits(background, 4) }},
		},
		"permits": {
			{"add", "8", func(s *stage) error { return s.permits.AddPermits(background, 3) }},
			{"set", "4", func(s *stage) error { return s.permits.SetPermits(background, 4) }},
			{"add", "0", func(s *stage) error { return s.permits.AddPermits(background, -4) }},
			{"set", "5", func(s *stage) error { s.Do("DEL", "x"); return did(s.permits.TrySetPermits(background, 5)) }},
		},
		"latch": {
			{"down", "4", func(s *stage) error { return s.latch.CountDown() }},
			{"set", "<nil>", func(s *stage) error { return did(s.latch.Delete(background)) }},
			{"set", "1", func(s *stage) error { return did(s.latch.TrySetCount(background, 1)) }},
			{"down", "<nil>", func(s *stage) error { return s.latch.CountDown() }},
			{"await", "<nil>", func(s *stage) error { return s.latch.Await(background) }},
		},
	} {
		for hit := range 2 * len(steps) {
			t.Run(fmt.Sprint(kind, " ", hit), func(t *testing.T) {
				underFaults(t, kind, 5, func(s *stage, once func(string)) {
					for i, step := range steps {
						if i == hit/2 {
							once(step.script)
						}
						kit.OK(s.T, step.do(s))
						s.WantReply(step.want, "GET", "x")
						if i == hit/2 && hit%2 == 0 || i == len(steps)-1 {
							time.Sleep(time.Minute)
							s.WantReply(step.want, "GET", "x")
						}
					}
				})
			})
		}
	}
}

// Giving back what a call may have taken has its effect once, too; and so has
// leaving, which keeps nobody standing back.
func TestUndoingHasOneEffect(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprint(name, many), func(t *testing.T) {
				on(t, "semaphore", 5, func(s *stage) {
					n, wait := 2, time.Millisecond
					if many {
						n, wait = 6, 0
					}
					var undo sync.Once
					s.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
						switch call.Script.Name() {
						case "undo":
							undo.Do(func() { f = fault })
						case "acquire":
							f = memdriver.Fault{DelayRequest: wait, DelayReply: time.Millisecond}
						}
						return f
					})
					for after := range 4 { // during the first try, or the one that reserves
						ctx, cancel := context.WithTimeout(background, time.Duration(after)*time.Millisecond+500*time.Microsecond)
						if err := s.semaphore.Acquire(ctx, n); err == nil {
							kit.OK(s.T, s.semaphore.Release(n))
						}
						cancel()
					}
					time.Sleep(4 * time.Second)
					s.WantReply("5", "GET", "x")
					s.WantReply("0", "EXISTS", "holdfast_next:{x}")
				})
			})
		}
	}
}

// What Redis took without saying so, before it went away, is given back when it
// is there again; what was to be released is released.
func TestSemaphoreMakesUpForAnOutage(t *testing.T) {
	on(t, "semaphore", 5, func(s *stage) {
		outage := func(had string) { // it ends
			s.T.Helper()
			s.WantReply(had, "GET", "x")
			time.Sleep(20 * time.Second)
			s.WantReply(had, "GET", "x")
			s.d.SetFaults(nil)
			time.Sleep(5 * time.Second)
			s.WantReply("5", "GET", "x")
		}
		s.d.SetFaults(func(call driver.Call) memdriver.Fault { // what undoes it does not arrive
			acquires := call.Script.Name() == "acquire"
			return memdriver.Fault{LoseReply: acquires, LoseRequest: !acquires}
		})
		wantBackend(s.T, s.semaphore.TryAcquire(background, 2))
		outage("3")

		kit.OK(s.T, s.semaphore.Acquire(background, 2))
		kit.All(s.d, memdriver.Fault{Refuse: errors.New("connection refused")})
		start := time.Now()
		wantBackend(s.T, s.semaphore.Release(2))
		within(s.T, start, 0, holdfast.DefaultTimeout)
		outage("3")
	})
}

// A client that closes goes on with what is to be given back, or counted, for as long as Close may take. Close says if that was
// not enough: nobody else does it.
func TestCloseGoesOnWithCleanUps(t *testing.T) {
	for name, row := range map[string]struct {
		kind, script string
		had, want    string // what stands at x before, and once it is done
		begin        func(s *stage, c *holdfast.Client)
	}{
		"what a cancelled acquire took": {"semaphore", "undo", "5", "5", func(s *stage, c *holdfast.Client) {
			ctx, cancel := context.WithTimeout(background, time.Millisecond)
			defer cancel()
			kit.WantError(s.T, c.NewUnleasedSemaphore("x").TryAcquire(ctx, 2), context.DeadlineExceeded)
		}},
		"a release": {"semaphore", "add", "4", "5", func(s *stage, c *holdfast.Client) {
			wantBackend(s.T, c.NewUnleasedSemaphore("x").Release(1))
		}},
		"a count": {"latch", "down", "5", "4", func(s *stage, c *holdfast.Client) { wantBackend(s.T, c.NewLatch("x").CountDown()) }},
	} {
		for away, says := range map[time.Duration]error{7 * time.Second: nil, time.Minute: context.DeadlineExceeded} {
			t.Run(fmt.Sprint(name, " ", away), func(t *testing.T) {
				on(t, row.kind, 5, func(s *stage) {
					c, err := holdfast.New(s.d, holdfast.WithoutIdentity())
					kit.OK(s.T, err)
					s.Do("SET", "x", row.had)
					s.d.SetFaults(func(call driver.Call) memdriver.Fault {
						return memdriver.Fault{LoseRequest: call.Script.Name() == row.script, LoseReply: true}
					})
					row.begin(s, c)
					time.AfterFunc(away, func() { s.d.SetFaults(nil) })
					time.Sleep(5 * time.Second) // its first call in the background is over before Close has to be
					start := time.Now()
					if err := c.Close(); !errors.Is(err, says) {
						s.T.Errorf("Close: %v, want %v", err, says)
					}
					within(s.T, start, 0, holdfast.DefaultTimeout)
					if says == nil {
						s.WantReply(row.want, "GET", "x")
					}
					s.Do("DEL", "x")
					if row.kind == "semaphore" {
						s.Do("SET", "x", "5")
					}
				})
			})
		}
	}
}

// A9: nothing but its end removes a semaphore's time to live.
func TestA9_TimeToLiveStays(t *testing.T) {
	on(t, "", 0, func(w *stage) {
		s, p := w.semaphore, w.permits
		kit.WantDid(w.T, true)(s.TrySetPermits(background, 5))
		kit.WantDid(w.T, true)(s.Expire(background, time.Minute))
		kit.OK(w.T, s.Acquire(background, 2), s.Release(1), s.AddPermits(background, 3), s.AddPermits(background, -1))
		want(w.T, 6)(s.Drain(background))
		kit.WantDid(w.T, true)(s.ReleaseIfExists(1))
		kit.OK(w.T, p.AddPermits(background, 2), p.AddPermits(background, -1))
		if ttl := w.PTTL("x"); ttl != time.Minute {
			w.T.Errorf("lives for %v", ttl)
		}
		time.Sleep(time.Minute)
		kit.WantDid(w.T, false)(s.ReleaseIfExists(1))
		w.WantReply("0", "EXISTS", "x")
	})
}

// What holdfast keeps to know calls again is forgotten again.
func TestCallsAreForgotten(t *testing.T) {
	on(t, "semaphore", 1, func(s *stage) {
		for range 100 {
			kit.OK(s.T, s.semaphore.Acquire(background, 1), s.semaphore.Release(1))
			time.Sleep(time.Second)
		}
		if n, err := strconv.Atoi(s.Do("ZCARD", "holdfast_calls:{x}")); n > 160 || err != nil { // 2 a second, for 73 s
			s.T.Errorf("%d calls are kept, %v", n, err)
		}
	})
}

// TestL3_WakeUpThatMetAnOutageIsPassedOn: the head of a queue is woken, Redis fails, and the head gives up in the pause before its next
// try. The wait of the one behind it is not lengthened by that pause.
func TestL3_WakeUpThatMetAnOutageIsPassedOn(t *testing.T) {
	for kind, begin := range map[string]func(s *stage, c *holdfast.Client) (wait func(...holdfast.WaitOption) error, end func() error){
		"semaphore": func(s *stage, c *holdfast.Client) (func(...holdfast.WaitOption) error, func() error) {
			return func(o ...holdfast.WaitOption) error { return c.NewUnleasedSemaphore("x").Acquire(background, 1, o...) },
				func() error { return s.semaphore.Release(1) }
		},
		"latch": func(s *stage, c *holdfast.Client) (func(...holdfast.WaitOption) error, func() error) {
			return func(o ...holdfast.WaitOption) error { return c.NewLatch("x").Await(background, o...) },
				s.latch.CountDown
		},
	} {
		t.Run(kind, func(t *testing.T) {
			on(t, kind, 1, func(s *stage) {
				if kind == "semaphore" {
					kit.OK(s.T, s.semaphore.Acquire(background, 1))
				}
				c, d := s.Client(holdfast.WithTimeout(300 * time.Millisecond))
				wait, end := begin(s, c)
				first := kit.Aside(func() error { return wait(holdfast.Wait(1500 * time.Millisecond)) })
				time.Sleep(time.Millisecond)
				second := kit.Aside(func() error { return wait() })
				time.Sleep(999 * time.Millisecond)
				kit.All(d, memdriver.Fault{Refuse: errors.New("connection refused")})
				kit.OK(s.T, end())
				var failed *holdfast.BackendError
				if err := <-first; !errors.As(err, &failed) { // 1.5 s after the start, in a pause until 1.8 s
					s.T.Errorf("the first one: %v", err)
				}
				d.SetFaults(nil)
				start := time.Now()
				kit.OK(s.T, <-second)
				kit.Took(s.T, time.Since(start), 0, 100*time.Millisecond, "the second one had to wait for %v more")
				if kind == "semaphore" {
					kit.OK(s.T, s.semaphore.Release(1))
				}
			})
		})
	}
}
