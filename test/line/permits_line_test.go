package line

import (
	"context"
	"fmt"
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

// The line of those who wait for permits: what differs from that of a plain lock. The rows L1, L2, ... are those of line_test.go.

// permitLined has a client of its own wait for n permits, and returns when it stands in line, as the last.
func permitLined(w *kit.World, n int, options ...holdfast.LockOption) *kit.Standing {
	w.T.Helper()
	c, d := w.Client()
	return permitLinedAs(w, c, d, n, options...)
}

func permitLinedAs(w *kit.World, c *holdfast.Client, d *memdriver.Driver, n int, options ...holdfast.LockOption) *kit.Standing {
	w.T.Helper()
	before := len(inLine(w))
	s := kit.WaitWith(c, d, background, func(ctx context.Context) (*holdfast.Hold, error) {
		return c.NewPermitSemaphore("x").Acquire(ctx, n, options...)
	})
	if all := inLine(w); len(all) != before+1 {
		w.T.Fatalf("it does not stand in line, but %v", all)
	}
	time.Sleep(time.Millisecond) // so nobody else comes in the same moment
	return s
}

// permitHolder has another client hold n permits.
func permitHolder(w *kit.World, n int, options ...holdfast.LockOption) *holdfast.Hold {
	w.T.Helper()
	c, _ := w.Client()
	return kit.Must(w.T)(c.NewPermitSemaphore("x").Acquire(background, n, options...))
}

// Ten processes have the permits in the order in which they came, at the moment in which they are given back, with one script and no
// message to anybody else.
func TestPermitsAreServedInOrder(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		holds := []*holdfast.Hold{permitHolder(w, 1), permitHolder(w, 1)}
		all := several(10, func() *kit.Standing { return permitLined(w, 1) })
		if got := w.Ask("PUBSUB", "NUMSUB", "redisson_sc:{x}")[1]; got != "0" {
			t.Errorf("%s listen where Redisson does", got)
		}
		c, _ := w.Client()
		if found, err := c.NewPermitSemaphore("x").Inspect(background); err != nil || len(found.Waiters) != 10 || found.Waiters[0].String() != inLine(w)[0] {
			t.Errorf("Inspect: %+v, %v", found.Waiters, err)
		}
		for i, s := range all {
			released := time.Now()
			kit.Unlock(t, holds[i])
			holds = append(holds, s.Within(t, released, 0))
			wantStanding(w, 9-i)
			w.WantReply("0", "GET", "x")
			time.Sleep(37 * time.Millisecond)
		}
		w.WantReply("", "KEYS", "holdfast_[lat][isu]*") // neither the line, nor asks, nor a turn
		for _, h := range holds[10:] {
			kit.Unlock(t, h)
		}
	})
}

// L1: a waiter gives up while it is granted permits. It gives back these, and others have them.
func TestPermitLineL1_Leaving(t *testing.T) {
	kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
		h := permitHolder(w, 3)
		first, second := permitLined(w, 2), permitLined(w, 3)
		first.D.LoseMessages(true)
		kit.Unlock(t, h)
		w.WantReply("1", "GET", "x") // it does not know
		wantStanding(w, 1)
		time.Sleep(10 * time.Millisecond)
		first.Cancel(nil)
		h = second.Within(t, time.Now(), 0)
		time.Sleep(time.Minute)
		w.WantReply("0", "GET", "x")
		w.WantReply("3", "ZCARD", "{x}:timeout")
		if first.Waits() || first.Err == nil {
			t.Errorf("the first: %v", first.Err)
		}
		// One who leaves keeps nobody waiting any more.
		kit.Unlock(t, h)
		h = permitHolder(w, 2)
		many, one := permitLined(w, 3), permitLined(w, 1)
		many.Cancel(nil)
		kit.Unlock(t, one.Within(t, time.Now(), 0))
		kit.Unlock(t, h)
	})
}

// L2: a lost message costs a second at most, and nothing once the subscription stands again.
func TestPermitLineL2_LostMessages(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		h := permitHolder(w, 2)
		first, second := permitLined(w, 2), permitLined(w, 2)
		first.D.LoseMessages(true)
		second.D.LoseMessages(true)
		released := time.Now()
		kit.Unlock(t, h)
		h = first.Within(t, released, kit.AsksEvery)
		released = time.Now()
		kit.Unlock(t, h)
		time.Sleep(time.Millisecond)
		second.D.LoseMessages(false)
		kit.Unlock(t, second.Within(t, released, 10*time.Millisecond))
	})
}

// L3: one who is connected, and neither hears nor asks, costs its grant: the first of the line knows when it ends, within a second.
func TestPermitLineL3_TheDeaf(t *testing.T) {
	for _, n := range []int{1, 2} {
		kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
			h := permitHolder(w, 2)
			deaf := permitLined(w, n)
			deaf.D.LoseMessages(true)
			kit.Silent(deaf.D, kit.LostRequest)
			alive := permitLined(w, 2)
			released := time.Now()
			kit.Unlock(t, h)
			kit.Unlock(t, alive.Within(t, released, kit.GrantLasts+time.Second))
			deaf.Cancel(nil)
			deaf.D.SetFaults(nil)
			time.Sleep(time.Minute)
		})
	}
}

// L4, L5: a message may come late. The deadline of the hold is reckoned from when the ask was sent that it answers, and a message of
// which little is left lets nobody in.
func TestPermitLineL4_L5_LateMessages(t *testing.T) {
	for _, late := range []time.Duration{0, 500 * time.Millisecond, 2 * time.Second, 2900 * time.Millisecond, 10 * time.Second} {
		kit.PermitsWorld(t, 1, func(t *testing.T, w *kit.World) {
			h := permitHolder(w, 1)
			d, by := w.Server.Driver(), new(atomic.Int64)
			c, err := testclient.New(slowMessages{d, by}, holdfast.WithoutIdentity())
			kit.OK(t, err)
			t.Cleanup(func() { d.SetFaults(nil); kit.OK(t, c.Close()) })
			slow := permitLinedAs(w, c, d, 1)
			ask := slow.Entered
			next := permitLined(w, 1)
			by.Store(int64(late))
			kit.Silent(d, kit.LostRequest)
			released := time.Now()
			kit.Unlock(t, h)
			var ended atomic.Pointer[time.Time]
			go func() {
				if begun, ok := <-slow.Got; ok {
					<-begun.Context().Done()
					at := time.Now()
					ended.Store(&at)
				}
			}()
			h = next.Within(t, released, kit.GrantLasts+kit.AsksEvery)
			at := ended.Load()
			if began := at != nil; began != (late < kit.GrantLasts/2-100*time.Millisecond) {
				t.Errorf("a message that was %v late let it in: %v", late, began)
			}
			if at != nil && at.After(ask.Add(kit.GrantLasts)) {
				t.Errorf("trusted for %v after the ask", at.Sub(ask))
			}
			kit.Unlock(t, h)
			slow.Cancel(nil)
		})
	}
}

// L6: a hold of several permits that begins with a message has its full lease within a second. One with a lease of its own asks first, and
// has that.
func TestPermitLineL6_Renewal(t *testing.T) {
	kit.PermitsWorld(t, 3, func(t *testing.T, w *kit.World) {
		h := permitHolder(w, 3)
		renewed, fixed := permitLined(w, 2), permitLined(w, 1, holdfast.FixedLease(10*time.Minute))
		time.Sleep(300 * time.Millisecond)
		released := time.Now()
		n := kit.Count(renewed.D)
		kit.Unlock(t, h)
		several, one := renewed.Within(t, released, 0), fixed.Within(t, released, 0)
		if n.Of("acquire") > 0 || several.Deadline().After(released.Add(kit.GrantLasts)) {
			t.Errorf("it has asked %d times, and is trusted until %v", n.Of("acquire"), several.Deadline().Sub(released))
		}
		if left := time.Until(one.Deadline()); left < 9*time.Minute {
			t.Errorf("the fixed one is trusted for %v", left)
		}
		time.Sleep(time.Second)
		for _, id := range several.PermitIDs() {
			if left, err := kit.LeaseOf(otherPermits(w), id); left < 28*time.Second || err != nil {
				t.Errorf("it is held for %v, %v", left, err)
			}
		}
		time.Sleep(time.Minute)
		if several.Context().Err() != nil {
			t.Error(context.Cause(several.Context()))
		}
		kit.Unlock(t, several)
		kit.Unlock(t, one)
	})
}

// otherPermits is the semaphore as another client sees it.
func otherPermits(w *kit.World) *holdfast.PermitSemaphore {
	c, _ := w.Client()
	return c.NewPermitSemaphore("x")
}

// permitsOfRedissons takes a permit of x again and again as Redisson does, by n threads of one client, keeps it, and counts, until ctx ends.
func permitsOfRedissons(w *kit.World, ctx context.Context, n int, stay time.Duration) (holds func() int) {
	w.T.Helper()
	told := make(chan struct{}, 100)
	listener := w.Server.Driver().Listen(func(e driver.Event) {
		if e.Kind == driver.Message {
			free, _ := strconv.Atoi(e.Payload)
			for range min(free, n) {
				select {
				case told <- struct{}{}:
				default:
				}
			}
		}
	})
	listener.Subscribe("redisson_sc:{x}")
	take := driver.NewScript("redisson", `if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then
		redis.call('DECR', KEYS[1]) redis.call('ZADD', KEYS[2], 922337203685477, ARGV[1]) return 1 end return 0`)
	give := driver.NewScript("redisson back", `redis.call('ZREM', KEYS[2], ARGV[1])
		redis.call('PUBLISH', 'redisson_sc:{x}', redis.call('INCR', KEYS[1])) return 1`)
	d := w.Server.Driver()
	var sum atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			call := driver.Call{Keys: []string{"x", "{x}:timeout"}, Args: []string{fmt.Sprintf("theirs\x4f%09d", i)}}
			for ctx.Err() == nil {
				time.Sleep(time.Millisecond) // the way to Redis
				call.Script = take
				got, err := d.Eval(background, call)
				if err != nil {
					w.T.Error(err)
				}
				if got == int64(1) {
					sum.Add(1)
					time.Sleep(stay)
					call.Script = give
					_, _ = d.Eval(background, call)
					continue
				}
				select {
				case <-told:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() int { all.Wait(); listener.Close(); return int(sum.Load()) }
}

// L7: one of Redisson's that wants a permit beside three or six of ours has its turns, and so have they: each has a third of its share at
// least.
func TestPermitLineL7_RedissonWaits(t *testing.T) {
	for _, row := range []struct {
		permits, ours int
		stay          time.Duration
	}{{1, 3, time.Millisecond}, {1, 3, 20 * time.Millisecond}, {2, 6, 5 * time.Millisecond}, {3, 6, 50 * time.Millisecond}} {
		kit.PermitsWorld(t, row.permits, func(t *testing.T, w *kit.World) {
			const lasts = time.Second
			ctx, end := context.WithTimeout(background, lasts)
			defer end()
			ours := inTurns(w, ctx, row.ours, row.stay, func(c *holdfast.Client) holdfast.Locker { return c.NewPermitSemaphore("x") })
			theirs := permitsOfRedissons(w, ctx, 1, row.stay)()
			sum := wantShares(t, fmt.Sprintf("%+v", row), append(ours(), theirs))
			if most := lasts / row.stay * time.Duration(row.permits); time.Duration(sum) < most/5 {
				t.Errorf("%+v: %d holds of at most %d", row, sum, most)
			}
		})
	}
}

// L8: while one of Redisson's holds a permit, the first eight of the line listen where it announces that it gives it back. The first has
// it at once then.
func TestPermitLineL8_RedissonHolds(t *testing.T) {
	kit.PermitsWorld(t, 1, func(t *testing.T, w *kit.World) {
		w.Do("SET", "x", "0")
		w.Do("ZADD", "{x}:timeout", "922337203685477", "theirs\x4f--------1")
		all := several(10, func() *kit.Standing { return permitLined(w, 1) })
		time.Sleep(10 * time.Second)
		listen := func() string { synctest.Wait(); return w.Ask("PUBSUB", "NUMSUB", "redisson_sc:{x}")[1] }
		if n := listen(); n != "8" {
			t.Errorf("%s listen for Redisson's release", n)
		}
		w.Do("ZREM", "{x}:timeout", "theirs\x4f--------1")
		w.Do("SET", "x", "1")
		w.Do("PUBLISH", "redisson_sc:{x}", "1")
		released := time.Now()
		h := all[0].Within(t, released, 0)
		wantStanding(w, 9)
		time.Sleep(2 * kit.AsksEvery)
		if n := listen(); n != "0" {
			t.Errorf("%s listen beside a holder of ours", n)
		}
		for _, s := range all[1:] {
			kit.Unlock(t, h)
			h = s.Within(t, time.Now(), 0)
		}
		kit.Unlock(t, h)
	})
}

// L9: whichever way permits become available without a release, those in line have them: at once if a script of ours does it, and within
// a second else.
func TestPermitLineL9_OtherWays(t *testing.T) {
	for way, most := range map[string]time.Duration{"expired": 2 * time.Millisecond, "forced": 0, "by id": 0, "added": 0, "set": 0, "deleted": kit.AsksEvery, "in Redis": kit.AsksEvery} {
		kit.PermitsWorld(t, 1, func(t *testing.T, w *kit.World) {
			var options []holdfast.LockOption
			if way == "expired" {
				options = append(options, holdfast.FixedLease(5*time.Second))
			}
			held := time.Now()
			h := permitHolder(w, 1, options...)
			first, second := permitLined(w, 1), permitLined(w, 1)
			s := otherPermits(w)
			freed := time.Now()
			switch way {
			case "expired":
				freed = held.Add(5 * time.Second)
			case "forced":
				_, err := s.ForceUnlock(background)
				kit.OK(t, err)
			case "by id":
				kit.OK(t, s.ReleasePermits(background, h.PermitIDs()...))
			case "added":
				kit.OK(t, s.AddPermits(background, 1))
			case "set":
				kit.OK(t, s.SetPermits(background, 2))
			case "deleted":
				_, err := s.Delete(background)
				kit.OK(t, err)
				w.Do("SET", "x", "1")
			case "in Redis":
				w.Do("INCR", "x")
			}
			next := first.Within(t, freed, most)
			wantStanding(w, 1)
			kit.Unlock(t, next)
			kit.Unlock(t, second.Within(t, time.Now(), 0))
			_ = h.Unlock()
			kit.OK(t, s.SetPermits(background, 1))
		})
	}
}

// A semaphore that does not exist has no permits, and no line for longer than somebody waits. When it is set, those in line have them.
func TestPermitLineBeforeTheSemaphore(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		gone := permitLined(w, 1)
		gone.Cancel(nil)
		time.Sleep(time.Second)
		w.WantReply("", "KEYS", "*")
		first, second := permitLined(w, 2), permitLined(w, 1)
		time.Sleep(5 * time.Minute) // longer than a line that nobody asks
		_, err := otherPermits(w).TrySetPermits(background, 3)
		kit.OK(t, err)
		set := time.Now()
		kit.Unlock(t, first.Within(t, set, 0))
		kit.Unlock(t, second.Within(t, set, 0))
		time.Sleep(kit.CallsLive)
		w.WantReply("x", "KEYS", "*")
		w.Do("DEL", "x")
	})
}

// L13: a line that is lost forms anew.
func TestPermitLineL13_ALostLine(t *testing.T) {
	kit.PermitsWorld(t, 1, func(t *testing.T, w *kit.World) {
		h := permitHolder(w, 1)
		first, second := permitLined(w, 1), permitLined(w, 1)
		w.Do("DEL", kit.LineKey("x"), kit.AsksKey("x"))
		time.Sleep(kit.AsksEvery)
		wantStanding(w, 2)
		kit.Unlock(t, h)
		kit.Unlock(t, first.Within(t, time.Now(), 0))
		kit.Unlock(t, second.Within(t, time.Now(), 0))
	})
}

// L16: a try does not overtake whom others wait behind; when nobody is left in line, it has what is available.
func TestPermitLineL16_Try(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		h := permitHolder(w, 1)
		many := permitLined(w, 2)
		kit.Fails(t, holdfast.ErrNoPermits)(otherPermits(w).TryLock(background))
		many.Cancel(nil)
		synctest.Wait()
		kit.Unlock(t, kit.Must(t)(otherPermits(w).TryLock(background)))
		kit.Unlock(t, h)
	})
}

// One goroutine of a few processes, or several: one of each stands in line. Nobody is overtaken for long, and a pair takes two calls.
func TestPermitLineOfProcesses(t *testing.T) {
	for _, each := range []int{1, 4} {
		permitLineOfProcesses(t, each)
	}
}

func permitLineOfProcesses(t *testing.T, each int) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		const clients, rounds = 3, 25
		var all sync.WaitGroup
		var counted []*kit.Calls
		var used, most atomic.Int64
		for range clients {
			c, d := w.Client()
			kit.Silent(d, memdriver.Fault{DelayRequest: 100 * time.Microsecond, DelayReply: 100 * time.Microsecond})
			s := c.NewPermitSemaphore("x")
			kit.Unlock(t, kit.Must(t)(s.Lock(background)))
			for range each {
				all.Go(func() {
					for range rounds {
						h := kit.Must(t)(s.Lock(background))
						if now := used.Add(1); now > most.Load() {
							most.Store(now)
						}
						if n := len(inLine(w)); n > clients {
							t.Errorf("%d stand in line", n)
						}
						time.Sleep(time.Millisecond)
						used.Add(-1)
						kit.Unlock(t, h)
					}
				})
			}
			counted = append(counted, kit.Count(d))
		}
		start := time.Now()
		all.Wait()
		if took, least := time.Since(start), time.Duration(clients*each*rounds/2)*time.Millisecond; took > 2*least || most.Load() != 2 {
			t.Errorf("it took %v, want %v or so; %d at once", took, least, most.Load())
		}
		n := 0
		for _, c := range counted {
			n += c.Of("acquire") + c.Of("release") + c.Of("leave")
		}
		if pairs := clients * each * rounds; n > 2*pairs+pairs/5 {
			t.Errorf("%d calls for %d pairs", n, pairs)
		}
	})
}

// One owner may wait for permits several times at once: each wait has a place of its own.
func TestPermitLineOfOneOwner(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		h := permitHolder(w, 2)
		c, _ := w.Client()
		ctx := holdfast.WithOwner(background, c.NewOwner())
		var all sync.WaitGroup
		for n := range 2 {
			all.Go(func() { kit.Unlock(t, kit.Must(t)(c.NewPermitSemaphore("x").Acquire(ctx, 1+n))) })
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		wantStanding(w, 2)
		released := time.Now()
		kit.Unlock(t, h)
		all.Wait()
		kit.Took(t, time.Since(released), 0, 0, "they had them after %v")
	})
}

// withoutGrants is a driver whose client never hears that its channel is subscribed to.
type withoutGrants struct{ *memdriver.Driver }

func (d withoutGrants) Listen(sink func(driver.Event)) driver.Listener {
	return d.Driver.Listen(func(e driver.Event) {
		if !strings.HasPrefix(e.Channel, "holdfast_granted") {
			sink(e)
		}
	})
}

// Who cannot stand in line waits outside, has permits beside those who do, and leaves nothing.
func TestPermitLineOfOneOutside(t *testing.T) {
	kit.PermitsWorld(t, 2, func(t *testing.T, w *kit.World) {
		c, err := testclient.New(withoutGrants{w.Server.Driver()}, holdfast.WithoutIdentity())
		kit.OK(t, err)
		t.Cleanup(func() { kit.OK(t, c.Close()) })
		one, two := permitHolder(w, 1), permitHolder(w, 1)
		ctx, cancel := context.WithCancel(background)
		got := make(chan error, 1)
		wait := func(ctx context.Context, n int) {
			h, err := c.NewPermitSemaphore("x").Acquire(ctx, n)
			if err == nil {
				kit.Unlock(t, h)
			}
			got <- err
		}
		go wait(ctx, 2)
		time.Sleep(time.Minute)
		wantStanding(w, 0)
		in := permitLined(w, 1)
		kit.Unlock(t, one) // it is kept for the one outside
		time.Sleep(100 * time.Millisecond)
		wantStanding(w, 1)
		cancel()
		kit.WantError(t, <-got, context.Canceled)
		one = in.Within(t, time.Now(), time.Millisecond) // the one outside may listen still when it leaves

		go wait(background, 1)
		time.Sleep(time.Second)
		in = permitLined(w, 1)
		released := time.Now()
		kit.Unlock(t, two)
		kit.Unlock(t, one)
		kit.Unlock(t, in.Within(t, released, 50*time.Millisecond))
		kit.OK(t, <-got)
		kit.Took(t, time.Since(released), 0, 100*time.Millisecond, "the one outside had it after %v")
	})
}
