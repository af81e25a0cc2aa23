package line

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/testclient"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The line in Redis where those of many processes stand who wait, and a release that grants the lock to the first. R1, R2, ... are
// rules of the line, each said above its test; L1, L2, ... are weak spots. What is about rights and full memory is in packages rights
// and servers.

// Ten processes have the lock in the order in which they came, each at the moment in which the one before it gives it back. The tokens
// of a fenced one rise. Nobody listens elsewhere, and nothing of the line is left.
func TestLineIsServedInOrder(t *testing.T) {
	everyLine(t, func(s *stage) {
		h := s.heldByOther()
		waiters := several(10, func() *kit.Standing { return s.wait() })
		if n := s.listen(); n != "0" {
			s.Errorf("%s listen where Redisson does", n)
		}
		found, err := s.newLock().Inspect(background)
		kit.OK(s.T, err)
		for i, w := range waiters {
			time.Sleep(1300 * time.Millisecond)
			s.wantLine(waiters[i:]...)
			last := h.Token()
			h = s.next(h, w, 0)
			s.wantHolder(w)
			if token := h.Token(); s.Kind.Fenced && token <= last {
				s.Errorf("token %d after %d", token, last)
			}
			if found.Waiters[i] != w.Owner {
				s.Errorf("Inspect: waiter %d is %v", i, found.Waiters[i])
			}
		}
		s.WantReply("", "KEYS", "holdfast_[lat][isu]*") // neither a line, nor asks, nor a turn
		s.release(h)
	})
}

// R1: a waiter gives up while it is granted the lock, or while its ask is on its way. The next one has it at once; what the ask has
// taken is given back when it arrives.
func TestLineR1_Leaving(t *testing.T) {
	everyLine(t, func(s *stage) {
		h := s.heldByOther()
		first, second, third := deafen(s.wait()), s.wait(), s.wait()
		kit.All(first.D, memdriver.Fault{DelayRequest: 50 * time.Millisecond})
		s.release(h)
		s.wantHolder(first) // it does not know
		time.Sleep(10 * time.Millisecond)
		s.wantLine(second, third)
		first.Cancel(nil)
		h = second.Within(s.T, time.Now(), 50*time.Millisecond)
		if first.Waits() || first.Err == nil {
			s.Errorf("the first: %v", first.Err)
		}
		time.Sleep(time.Minute)
		s.wantLine(third)
		s.wantHolder(second)

		// Its ask arrives when it has left, and the lock is held; free, since nobody has told the next one.
		third.Cancel(nil)
		s.wantLine()
		s.WantReply("0", "EXISTS", kit.RequestsKey("x"))
		for _, free := range []bool{false, true} {
			late := s.wait()
			kit.Every(late.D, "acquire", memdriver.Fault{DelayRequest: 500 * time.Millisecond})
			time.Sleep(s.asksEvery() + 100*time.Millisecond) // an ask is on its way
			late.Cancel(nil)
			s.wantLine()
			if free {
				s.release(h)
			}
			time.Sleep(time.Second)
			s.wantLine()
			if free {
				h = kit.Must(s.T)(s.newLock().TryLock(background))
			} else {
				s.wantHolder(second)
			}
		}
		s.release(h)
	})
}

// R2: a lost message costs a second at most, and nothing once the subscription stands again. Each asks once a
// second.
func TestLineR2_LostMessages(t *testing.T) {
	everyLine(t, func(s *stage) {
		h := s.heldByOther()
		waiters := several(10, func() *kit.Standing { return s.wait() })
		for i, w := range waiters[:8] {
			deafen(w)
			time.Sleep(time.Duration(i) * 130 * time.Millisecond)
			if i%2 == 0 {
				h = s.next(h, w, s.asksEvery())
				continue
			}
			released := s.release(h)
			time.Sleep(10 * time.Millisecond)
			s.wantHolder(w)
			back(w)
			h = w.Within(s.T, released, 10*time.Millisecond)
		}
		tenth := kit.Count(waiters[9].D)
		time.Sleep(time.Second)
		if n := tenth.Of("acquire"); n > 1 {
			s.Errorf("the tenth asks %d times a second", n)
		}
		s.turns(h, waiters[8:]...)
	})
}

// R3: one who is connected, and neither hears nor asks, costs its grant and a second, so five seconds at most in any kind of line. Many cost
// no more than ten seconds.
func TestLineR3_TheDeaf(t *testing.T) {
	for _, deaf := range []int{1, 5, 40} {
		for offset := time.Duration(0); offset < 1500*time.Millisecond; offset += 130 * time.Millisecond {
			everyLine(t, func(s *stage) {
				if deaf == 40 && (s.Kind != kit.MutexKind || offset > 0) {
					return // many take long
				}
				most := 10 * time.Second
				if deaf == 1 {
					most = kit.GrantLasts + s.asksEvery()
				}
				h := s.heldByOther()
				for range deaf {
					w := s.wait()
					defer w.Cancel(nil)
					time.AfterFunc(offset, func() { cutOff(w) })
				}
				alive := s.wait()
				time.Sleep(offset + time.Millisecond)
				s.release(s.next(h, alive, most))
			})
		}
	}
}

// R4, R5: a message may come late, since its reader stood still. The deadline of the hold is reckoned from when the ask was sent that it
// answers, and a message of which little is left lets nobody in. The next one is let in when the grant has ended.
func TestLineR4_R5_LateMessages(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 2900 * time.Millisecond, 3500 * time.Millisecond, 10 * time.Second} {
		for _, asked := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond} {
			everyLine(t, func(s *stage) {
				if !s.Kind.ByMessage() {
					return
				}
				h := s.heldByOther()
				by := new(atomic.Int64)
				c, d := s.slow(by)
				var lastSent, ended atomic.Pointer[time.Time]
				now := func() *time.Time { t := time.Now(); return &t }
				d.SetFaults(func(driver.Call) memdriver.Fault { lastSent.Store(now()); return memdriver.Fault{} })
				slow := s.waitAs(c, d)
				next := s.wait()
				time.Sleep(2*s.asksEvery() + 50*time.Millisecond) // two more asks
				ask := *lastSent.Load()
				time.Sleep(time.Until(ask.Add(asked)))
				by.Store(int64(late))
				kit.Away(d) // or it asks in between, and finds out
				released := s.release(h)
				go func() {
					if begun, ok := <-slow.Got; ok {
						<-begun.Context().Done()
						ended.Store(now())
					}
				}()
				time.Sleep(time.Until(released.Add(kit.GrantLasts - time.Millisecond)))
				var trusted time.Time // until when it was
				if at := ended.Load(); at != nil {
					trusted = *at
				}
				switch {
				case slow.Waits():
					if late+asked < s.asksEvery() { // else it asks before the message comes, and is not answered
						s.Errorf("a message that was %v late, of an ask %v old, did not let it in", late, asked)
					}
				case slow.Granted.Before(released.Add(late)), slow.Granted.Sub(ask) > kit.GrantLasts/2, trusted.IsZero():
					s.Errorf("a message that was %v late let it in %v after the ask; its hold has ended: %v", late, slow.Granted.Sub(ask), !trusted.IsZero())
				}
				if trusted.After(ask.Add(kit.GrantLasts)) {
					s.Errorf("trusted for %v after the ask", trusted.Sub(ask))
				}
				s.release(next.Within(s.T, released, kit.GrantLasts+s.asksEvery()))
				slow.Cancel(nil)
			})
		}
	}
}

// R6: a hold that begins with a message has its full lease within a second, also if it hears nothing more. If Redis falls silent it is
// lost, and told, before the grant has ended.
func TestLineR6_Renewal(t *testing.T) {
	for _, falls := range []string{"", "deaf", "silent"} {
		everyLine(t, func(s *stage) {
			if !s.Kind.ByMessage() {
				return
			}
			h := s.heldByOther()
			w := s.wait()
			time.Sleep(300 * time.Millisecond)
			if falls == "silent" {
				kit.Away(w.D)
			}
			released := time.Now()
			h = s.next(h, w, 0)
			if lease, trusted := s.lives(w), h.Deadline().Sub(w.Entered); lease != kit.GrantLasts || trusted > kit.GrantLasts || trusted < kit.GrantLasts*9/10 {
				s.Errorf("granted for %v, trusted until %v after the ask", lease, trusted)
			}
			if falls == "silent" {
				kit.Took(s.T, kit.LostAt(s.T, h, released), kit.GrantLasts/2, kit.GrantLasts, "lost after %v")
				kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
				back(w)
				time.Sleep(time.Minute)
				return
			}
			w.D.LoseMessages(falls == "deaf")
			time.Sleep(s.asksEvery() + 10*time.Millisecond)
			if left := time.Until(h.Deadline()); left < holdfast.DefaultLease*9/10 || s.lives(w) < left {
				s.Errorf("a second later it is trusted for %v, and stands for %v", left, s.lives(w))
			}
			time.Sleep(5 * time.Minute)
			s.release(h)
		})
	}
}

// R6: of one whose last ask is old, a message could not be trusted for long. It asks, and has its full lease from the beginning.
func TestLineR6_AnOldAsk(t *testing.T) {
	everyLine(t, func(s *stage) {
		const lease = 1500 * time.Millisecond // a grant is no longer
		h := s.heldByOther()
		w := s.waitWith(holdfast.WithLease(lease))
		time.Sleep(900 * time.Millisecond) // it would ask after a second
		asks := kit.Count(w.D)
		h = s.next(h, w, 0)
		if n := asks.Of("acquire"); n != 1 {
			s.Errorf("it asked %d times", n)
		}
		if left := time.Until(h.Deadline()); left < lease*8/10 {
			s.Errorf("it is trusted for %v", left)
		}
		s.release(h)
	})
}

// R7: one of Redisson's that wants the lock beside some of ours has its turns, and so have they: each has a third of its share at least.
func TestLineR7_RedissonWaits(t *testing.T) {
	locks := func(k *kit.Kind) func(*testing.T, int, func(*stage)) {
		return func(t *testing.T, _ int, f func(s *stage)) { t.Helper(); fake(t, k, f) }
	}
	mutex, writer := locks(kit.MutexKind), locks(kindNamed("writer"))
	for _, row := range []struct {
		stay  time.Duration
		world func(*testing.T, int, func(*stage))
		most  int // inside at once
		ours  int
	}{
		{time.Millisecond, mutex, 1, 3},
		{5 * time.Millisecond, mutex, 1, 3},
		{50 * time.Millisecond, mutex, 1, 3},
		{time.Millisecond, writer, 1, 3},
		{5 * time.Millisecond, writer, 1, 3},
		{50 * time.Millisecond, writer, 1, 3},
		{time.Millisecond, fakePermits, 1, 3},
		{20 * time.Millisecond, fakePermits, 1, 3},
		{5 * time.Millisecond, fakePermits, 2, 6},
		{50 * time.Millisecond, fakePermits, 3, 6},
	} {
		row.world(t, row.most, func(s *stage) {
			lasts := min(200*row.stay, 3*time.Second)
			ctx, end := context.WithTimeout(background, lasts)
			defer end()
			ours, _ := s.inTurns(ctx, row.ours, 1, row.stay)
			theirs := s.redissonInTurns(ctx, row.stay, time.Millisecond)
			all, sum := append(ours(), theirs), 0
			for _, n := range all {
				sum += n
			}
			if slices.Min(all)*len(all)*3 < sum {
				s.Errorf("%s, staying for %v: holds %v, of which the last are Redisson's", s.Kind.Name, row.stay, all)
			}
			if most := lasts / row.stay * time.Duration(row.most); time.Duration(sum) < most/5 {
				s.Errorf("%s: %d holds of %v in %v", s.Kind.Name, sum, row.stay, lasts)
			}
		})
	}
}

// R7: however far away Redisson's is, up to the longest yield window, it has a third of its share at least, also beside a client that
// has never had to wait.
func TestLineR7_RedissonFarAway(t *testing.T) {
	const stay, lasts = 3 * time.Millisecond, 4 * time.Second
	for _, way := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 30 * time.Millisecond} {
		for _, ours := range []int{1, 2, 8} {
			fakeMutex(t, func(s *stage) {
				ctx, end := context.WithTimeout(background, lasts)
				defer end()
				counts, _ := s.inTurns(ctx, ours, 1, stay)
				theirs := s.redissonInTurns(ctx, stay, way)
				all := theirs
				for _, n := range counts() {
					all += n
				}
				share := float64(theirs) / float64(all)
				if fair := 1 / float64(ours+1); share < fair/3 {
					t.Errorf("%v away: %.1f%% of %d holds are Redisson's, which is one of %d that wait", way, 100*share, all, ours+1)
				}
			})
		}
	}
}

// R8: while one of Redisson's holds the lock, the first eight of the line listen where it announces its release, and many messages make
// few asks. The first has the lock at once then. While one of ours holds it, nobody listens there, but a holder of long, for a forced unlock.
func TestLineR8_RedissonHolds(t *testing.T) {
	everyLine(t, func(s *stage) {
		if s.Kind.AlwaysListed {
			return // see TestFairBesideRedisson
		}
		take, give := s.redisson()
		take()
		waiters := several(10, func() *kit.Standing { return s.wait() })
		time.Sleep(10 * time.Second)
		if n := s.listen(); n != "8" {
			s.Errorf("%s listen for Redisson's release", n)
		}
		asks := new(kit.Calls)
		waiters[0].D.SetFaults(func(call driver.Call) memdriver.Fault {
			asks.Note(call)
			return memdriver.Fault{DelayRequest: 10 * time.Millisecond}
		})
		for range 100 {
			s.Do("PUBLISH", s.channel(), "0")
		}
		time.Sleep(100 * time.Millisecond)
		if n := asks.Of("acquire"); n > 3 {
			s.Errorf("%d asks after 100 messages in a row", n)
		}
		waiters[0].D.SetFaults(nil)
		released := time.Now()
		give()
		h := waiters[0].Within(s.T, released, 0)
		s.wantLine(waiters[1:]...)
		time.Sleep(10 * time.Second) // the holder begins to listen after one
		want := "1"
		if s.Kind == permitKind {
			want = "0"
		}
		if n := s.listen(); n != want {
			s.Errorf("%s listen beside a holder of ours, want %s", n, want)
		}
		s.turns(h, waiters[1:]...)
	})
}

// R9: whichever way the lock gets free without a release, the first of the line has it within a second, and the others keep their
// places.
func TestLineR9_FreeWithoutARelease(t *testing.T) {
	for name, way := range map[string]struct {
		free func(s *stage)
		most time.Duration
	}{
		"deleted": {func(s *stage) { s.Do("DEL", "x") }, 1500 * time.Millisecond},
		"deleted, which had no end": {func(s *stage) {
			s.Do("PERSIST", "x")
			time.Sleep(10 * time.Second)
			s.Do("DEL", "x")
		}, 1500 * time.Millisecond},
		"expired": {func(s *stage) {
			s.Do("PEXPIRE", "x", "1500")
			time.Sleep(1500 * time.Millisecond)
		}, 10 * time.Millisecond}, // the first knows when
		"forced": {func(s *stage) {
			c, _ := s.Client()
			kit.Force(s.T, s.Lock(c))
		}, 0},
		"tried": {func(s *stage) {
			s.Do("DEL", "x")
			kit.Fails(s.T, holdfast.ErrLocked)(s.newLock().TryLock(background))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			everyLock(t, func(s *stage) {
				h := s.heldByOther()
				first, second, third := s.wait(), s.wait(), s.wait()
				time.Sleep(1230 * time.Millisecond)
				way.free(s)
				next := first.Within(t, time.Now(), way.most)
				s.wantLine(second, third)
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				time.Sleep(holdfast.DefaultLease + time.Second)
				s.wantHolder(first)
				s.turns(next, second, third)
			})
		})
	}
}

// R10: a line of the dead costs one who lives a few asks at most, and nothing if they are few. Dead is who does not listen, has not asked
// for long, or has left no ask.
func TestLineR10_TheDead(t *testing.T) {
	for name, way := range map[string]struct{ client, ask string }{
		"who does not listen": {"ffffffff-0000-8000-8000-000000000000", "n 3000 UNTIL 0"},
		"who does not ask":    {"", "n 3000 1000 0"},
		"without an ask":      {"", ""},
		"with junk":           {"", "n n n n"},
	} {
		for _, dead := range []int{1, 31, 40, 100} {
			t.Run(fmt.Sprint(name, "/", dead), func(t *testing.T) {
				fakeMutex(t, func(s *stage) {
					h := s.heldByOther()
					listens := s.wait()
					listens.Cancel(nil)
					s.wantLine()
					now := time.Now()
					ask := strings.ReplaceAll(way.ask, "UNTIL", strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10))
					for i := range dead {
						owner := fmt.Sprintf("%s:%d", cmp.Or(way.client, listens.C.ID()), 1000+i)
						s.Do("ZADD", kit.WaitlistKey("x"), fmt.Sprint(now.Add(-time.Minute).UnixMicro()), owner)
						if ask != "" {
							s.Do("HSET", kit.RequestsKey("x"), owner, ask)
						}
					}
					alive := s.wait()
					asks, most := kit.Count(alive.D), time.Duration(0)
					if dead > 31 { // more than one release drops
						most = 4500 * time.Millisecond
					}
					s.release(s.next(h, alive, most))
					if n := asks.Of("acquire"); n > 2 {
						s.Errorf("it asked %d times", n)
					}
					time.Sleep(3 * time.Minute) // the line of the dead does not last
				})
			})
		}
	}
}

// R13: the line is lost, as by a failover, and all ask again: at once on their new subscriptions, else when they would have asked anyway.
// Nobody is lost.
func TestLineR13_ALostLine(t *testing.T) {
	for _, resubscribe := range []bool{true, false} {
		everyLine(t, func(s *stage) {
			h := s.heldByOther()
			waiters := several(8, func() *kit.Standing { return s.wait() })
			s.Do("DEL", kit.WaitlistKey("x"), kit.RequestsKey("x"))
			for _, w := range waiters {
				if resubscribe {
					back(deafen(w))
					synctest.Wait()
					time.Sleep(time.Millisecond)
				}
			}
			if !resubscribe {
				time.Sleep(s.asksEvery())
			}
			s.wantLine(waiters...)
			s.turns(h, waiters...)
		})
	}
}

// R15: what does not stand in line goes on beside it.
func TestLineR15_BesideTheLine(t *testing.T) {
	t.Run("nested", func(t *testing.T) {
		everyLock(t, func(s *stage) {
			if !s.Kind.Nests() {
				return
			}
			h := s.heldByOther()
			first, second := s.wait(), s.wait()
			h = s.next(h, first, 0)
			inner := kit.Must(s.T)(s.Lock(first.C).Lock(h.Context()))
			s.WantCount("x", first.Owner, 2)
			s.release(h)
			s.WantCount("x", first.Owner, 1)
			s.wantLine(second)
			kit.Fails(s.T, holdfast.ErrLocked)(s.newLock().Lock(background, holdfast.Wait(100*time.Millisecond)))
			s.wantLine(second) // who has given up has left
			s.turns(inner, second)
		})
	})
	t.Run("MinHold", func(t *testing.T) {
		const least = 10 * time.Second
		everyLock(t, func(s *stage) {
			h := s.heldByOther(holdfast.MinHold(least))
			held := time.Now()
			first, second := s.wait(), s.wait()
			s.release(h)
			s.wantLine(first, second)
			h = first.Hold(s.T)
			kit.Took(s.T, first.Granted.Sub(held), least, least+20*time.Millisecond, "it got the lock after %v")
			s.turns(h, second)
			// One in line that wants it is granted the lock, and keeps it as long.
			h = s.heldByOther()
			first, second = s.wait(holdfast.MinHold(least)), s.wait()
			released := s.release(s.next(h, first, 0))
			s.release(second.Hold(s.T))
			kit.Took(s.T, second.Granted.Sub(released), least, least+20*time.Millisecond, "it was kept for %v")
			// The first is told for how long it is kept. If that one leaves, the next one is told.
			for _, leaves := range []bool{false, true} {
				h = s.heldByOther(holdfast.MinHold(300 * time.Millisecond))
				held = time.Now()
				first, second = s.wait(), s.wait()
				s.release(h)
				time.Sleep(100 * time.Millisecond)
				if leaves {
					first.Cancel(nil)
				} else {
					s.release(first.Within(s.T, held, 310*time.Millisecond))
				}
				s.release(second.Within(s.T, held, 310*time.Millisecond))
			}
		})
	})
	t.Run("Polling", func(t *testing.T) {
		fakeMutex(t, func(s *stage) {
			h := s.heldByOther()
			c, d := s.Client()
			polls := s.WaitAs(c, d, c.NewMutex("x", holdfast.Polling(10*time.Millisecond, 10*time.Millisecond)))
			first := s.wait()
			s.wantLine(first)
			h = s.next(h, first, 0)
			time.Sleep(time.Second)
			s.release(s.next(h, polls, 10*time.Millisecond))
		})
	})
	t.Run("FixedLease", func(t *testing.T) {
		everyLine(t, func(s *stage) {
			h := s.heldByOther()
			first, second := s.wait(holdfast.FixedLease(10*time.Second)), s.wait()
			released := time.Now()
			h = s.next(h, first, 0)
			if left := time.Until(h.Deadline()); left < 9*time.Second || left > 10*time.Second {
				s.Errorf("it is trusted for %v", left)
			}
			next := second.Within(s.T, released, 10*time.Second+20*time.Millisecond)
			kit.WantLost(s.T, h)
			s.release(next)
		})
	})
	t.Run("Detach", func(t *testing.T) {
		everyLock(t, func(s *stage) {
			h := s.heldByOther()
			first := s.wait()
			time.Sleep(2 * time.Second)
			owner, err := h.Detach()
			kit.OK(s.T, err)
			time.Sleep(2 * time.Second)
			s.wantLine(first)
			h = kit.Must(s.T)(s.newLock().Adopt(background, owner))
			s.wantLine(first)
			time.Sleep(time.Minute)
			s.turns(h, first)
		})
	})
}

// R16: a try is refused while one who lives stands in line, also when nobody holds the lock; not for the dead.
func TestLineR16_TryLock(t *testing.T) {
	everyLock(t, func(s *stage) {
		h := s.heldByOther()
		c, _ := s.Client()
		w := s.wait()
		if s.Kind.Readers != nil {
			s.Do("DEL", "x") // in the moment between two holds
			kit.Fails(s.T, holdfast.ErrLocked)(s.Kind.Readers(c, "x").TryLock(background))
			kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
			h = w.Within(s.T, time.Now(), 0)
			w = s.wait()
		}
		s.Do("DEL", "x")
		kit.Fails(s.T, holdfast.ErrLocked)(s.Lock(c).TryLock(background))
		kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
		h = w.Within(s.T, time.Now(), 0)
		s.wantLine() // who has tried does not stand there
		dead := cutOff(s.wait())
		time.Sleep(3*s.asksEvery() + 10*time.Millisecond)
		s.release(h)
		kit.Unlock(s.T, kit.Must(s.T)(s.Lock(c).TryLock(background)))
		dead.Cancel(nil)
	})
}

// R17: what began with a message passes on in the process, and is trusted for no longer for that.
func TestLineR17_HandedOver(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		if testclient.WithoutHandOver() {
			return
		}
		h := s.heldByOther()
		c, d := s.Client()
		x := s.Lock(c)
		first, second, third := kit.Waiting(s.T, x, background), kit.Waiting(s.T, x, background), kit.Waiting(s.T, x, background)
		asked := time.Now()
		time.Sleep(400 * time.Millisecond)
		kit.Away(d)
		s.release(h)
		for _, waits := range []<-chan *holdfast.Hold{first, second} {
			h = s.soon(waits)
			if h.Deadline().After(asked.Add(kit.GrantLasts)) {
				s.Errorf("it is trusted until %v after the ask", h.Deadline().Sub(asked))
			}
			s.release(h)
		}
		kit.Took(s.T, kit.LostAt(s.T, s.soon(third), asked), kit.GrantLasts/2, kit.GrantLasts, "lost %v after the ask")
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}

// R18: an ask arrives when nobody waits for its answer, and is granted the lock. It is given back at the latest when the caller is
// certain that it may have arrived.
func TestLineR18_GrantedToNobody(t *testing.T) {
	for _, lost := range []bool{false, true} {
		everyLine(t, func(s *stage) {
			h := s.heldByOther()
			w := s.wait()
			next := s.wait()
			w.D.SetFaults(func(call driver.Call) (f memdriver.Fault) {
				switch call.Script.Name() {
				case "acquire":
					f.LoseReply = true
				case "leave":
					f.LoseRequest = lost && time.Since(w.Entered) < 3*time.Second
				}
				return f
			})
			time.Sleep(time.Until(w.Entered.Add(s.asksEvery() + 100*time.Millisecond)))
			w.Cancel(nil)
			time.Sleep(100 * time.Millisecond)
			s.release(s.next(h, next, kit.GrantLasts+s.asksEvery()))
			time.Sleep(10 * time.Second)
			s.wantLine()
		})
	}
}

// R19: a message lets in nobody if it is not the answer to the last ask: forged, old, of another waiter, or junk.
func TestLineR19_ForgedMessages(t *testing.T) {
	everyLine(t, func(s *stage) {
		number := func(w *kit.Standing) string { // of its last ask
			number, _, _ := strings.Cut(s.Do("HGET", kit.RequestsKey("x"), w.Field), " ")
			number, _, _ = strings.Cut(number, "_")
			return number
		}
		say := func(to *kit.Standing, payload string) {
			s.Do("PUBLISH", "holdfast_granted:"+to.C.ID(), payload)
			if !to.Waits() {
				s.Fatalf("%.50q let it in: %v", payload, to.Err)
			}
		}
		h := s.heldByOther()
		w, other := s.wait(), s.wait()
		old := number(w)
		time.Sleep(2 * s.asksEvery())
		now := number(w)
		if old == "" || now == old {
			s.Fatalf("the number of its ask is %q, as it was", old)
		}
		asks := kit.Count(w.D)
		for _, payload := range []string{
			old, number(other), "0", "1", "-1", "9007199254740993", "junk", " ", "\x00", strings.Repeat("9", 100_000), "1 " + w.Owner.String(),
			w.Owner.String(), now + " 5", " " + now, now + "\n", now[:13], now[:13] + old[13:], now[:13] + strings.Repeat("A", 13),
			now[:13] + " 5", now[:13] + " -5", now[:13] + " x", now[:13] + " 999999", now[:13] + " ",
		} {
			say(w, payload)
		}
		for i := range 1000 {
			say(w, fmt.Sprintf("%x", time.Now().UnixNano()+int64(i)))
		}
		time.Sleep(time.Second)
		if n := asks.Of("acquire"); n > 20 { // it is told to ask by some
			s.Errorf("it has asked %d times", n)
		}
		s.wantLine(w, other)
		h = s.next(h, w, 0)
		say(other, old)
		s.turns(h, other)
	})
}

// A forged grant that comes right behind the true one, of the same request, does not hide it. The waiter reads neither before it has the
// reply to that request; then it begins at once, and sends no other one.
func TestLineR19_ForgedBehindTheTrue(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		h := s.heldByOther()
		w := s.wait()
		time.Sleep(s.asksEvery() / 2)
		requests := new(kit.Calls)
		w.D.SetFaults(func(call driver.Call) memdriver.Fault {
			requests.Note(call)
			return memdriver.Fault{DelayReply: 400 * time.Millisecond}
		})
		time.Sleep(s.asksEvery()/2 + 100*time.Millisecond)
		number, _, _ := strings.Cut(s.Do("HGET", kit.RequestsKey("x"), w.Field), " ")
		s.Do("EVAL", `
			redis.call('DEL', KEYS[1])
			redis.call('HSET', KEYS[1], ARGV[1], 1)
			redis.call('PEXPIRE', KEYS[1], 3000)
			redis.call('ZREM', KEYS[2], ARGV[1])
			redis.call('HDEL', KEYS[3], ARGV[1])
			redis.call('PUBLISH', ARGV[2], ARGV[3])
			redis.call('PUBLISH', ARGV[2], string.sub(ARGV[3], 1, 13) .. string.rep('A', 13))`,
			"3", "x", kit.WaitlistKey("x"), kit.RequestsKey("x"), w.Field, "holdfast_granted:"+w.C.ID(), number)
		got := w.Within(s.T, time.Now(), 310*time.Millisecond)
		if n := requests.Of("acquire"); n != 1 {
			s.Errorf("it has sent %d requests", n)
		}
		w.D.SetFaults(nil)
		s.Unlock(got)
		s.Lost(h)
	})
}

// Whoever repeats the message to ask in a second, by the name of the ask, which is no secret, does not keep a waiter from asking.
func TestLineR19_RepeatedMessages(t *testing.T) {
	everyLine(t, func(s *stage) {
		h := s.heldByOther()
		w := s.wait()
		asks := kit.Count(w.D)
		began := time.Now()
		for time.Since(began) < 10*s.asksEvery() {
			number, _, _ := strings.Cut(s.Do("HGET", kit.RequestsKey("x"), w.Field), " ")
			s.Do("PUBLISH", "holdfast_granted:"+w.C.ID(), number[:13]+" 1000")
			time.Sleep(s.asksEvery() / 4)
		}
		if n := asks.Of("acquire"); n < 8 {
			s.Errorf("it has asked %d times in the time of 10 asks", n)
		}
		s.next(h, w, 0)
	})
}

// Those who only wait ask some hundred times a second, all together, and if the lock is given back only the next one asks, if anybody.
func TestLineOfManyThatWait(t *testing.T) {
	const processes = 250 // if each of them asked once a second, as the first do, they would ask 250 times a second
	for _, name := range []string{"mutex", "fair"} {
		fake(t, kindNamed(name), func(s *stage) {
			h := s.heldByOther()
			first := s.wait()
			seen := new(kit.Calls)
			var mu sync.Mutex
			var got []int
			var all sync.WaitGroup
			for i := range processes {
				c, d := s.Client()
				d.SetFaults(func(call driver.Call) memdriver.Fault {
					seen.Note(call)
					return memdriver.Fault{}
				})
				all.Go(func() {
					kit.Turn(s.T, func() {
						mu.Lock()
						got = append(got, i)
						mu.Unlock()
					})(s.Lock(c).Lock(background))
				})
				synctest.Wait()
				time.Sleep(time.Millisecond)
			}
			time.Sleep(12 * time.Second) // all have asked twice, and know how many they are
			before := seen.All()
			time.Sleep(10 * time.Second)
			n := seen.All() - before
			if s.Logf("%d asks in 10 s", n); n > 10*110 {
				s.Error("they are too many")
			}
			h = s.next(h, first, 0)
			synctest.Wait()
			before = seen.All()
			released := s.release(h)
			all.Wait()
			// A release, and an ask of one whose last one is old.
			if n := seen.All() - before; n > 2*processes || time.Since(released) > 0 {
				s.Errorf("%d hand-overs took %v, and %d scripts", processes, time.Since(released), n)
			}
			if !slices.IsSorted(got) {
				s.Errorf("served in the order %v", got)
			}
		})
	}
}

// Many processes have the lock in turns. A turn takes two scripts, and a third one since it is longer than 10 ms; each process has as many
// turns.
func TestLineOfManyInTurns(t *testing.T) {
	const processes, stay, lasts = 20, 20 * time.Millisecond, 8 * time.Second
	for _, name := range []string{"mutex", "fair"} {
		fake(t, kindNamed(name), func(s *stage) {
			ctx, end := context.WithTimeout(background, lasts)
			defer end()
			holds, seen := s.inTurns(ctx, processes, 1, stay)
			<-ctx.Done()
			each, turns := holds(), 0
			for _, n := range each {
				turns += n
			}
			fewest, most := slices.Min(each), slices.Max(each)
			asks := 8*int(lasts/s.asksEvery()) + int(lasts/(12*time.Millisecond)) // of those who wait
			s.Logf("%d turns, from %d to %d each, %d scripts: %v", turns, fewest, most, seen.All(), seen)
			if most-fewest > 1 || time.Duration(turns) < lasts/(stay+2*time.Millisecond)-processes {
				s.Errorf("%d turns, from %d to %d each", turns, fewest, most)
			}
			if renewals := seen.Of("renew"); renewals > turns || seen.All()-renewals > 2*turns+asks {
				s.Errorf("%d scripts for %d turns, of which %d renew", seen.All(), turns, renewals)
			}
		})
	}
}
