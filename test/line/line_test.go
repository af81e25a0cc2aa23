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

// The line in Redis where those of many processes stand who wait for a plain lock, and a release that grants it to the first. What is
// about rights and full memory is in packages rights and servers.

// ofRedisson is an owner of Redisson's.
const ofRedisson = "ffffffff-0000-4000-8000-000000000000:1"

// several are so many of a kind, one behind the other.
func several(n int, line func() *kit.Standing) (all []*kit.Standing) {
	for range n {
		all = append(all, line())
	}
	return all
}

// listening is a client that listens, as Redisson's do.
func listening(w *kit.World, channel string) driver.Listener {
	l := w.Server.Driver().Listen(func(driver.Event) {})
	l.Subscribe(channel)
	synctest.Wait()
	return l
}

// line has a client of its own wait for the mutex x, and returns when it stands in line, as the last.
func line(w *kit.World, options ...holdfast.LockOption) *kit.Standing {
	w.T.Helper()
	c, d := w.Client()
	return lineAs(w, c, d, options...)
}

// lineOf is line with a client that has options.
func lineOf(w *kit.World, options ...holdfast.ClientOption) *kit.Standing {
	w.T.Helper()
	c, d := w.Client(options...)
	return lineAs(w, c, d)
}

func lineAs(w *kit.World, c *holdfast.Client, d *memdriver.Driver, options ...holdfast.LockOption) *kit.Standing {
	w.T.Helper()
	return stands(w, w.WaitAs(c, d, w.Lock(c), options...))
}

// stands checks that one stands in line.
func stands(w *kit.World, s *kit.Standing) *kit.Standing {
	w.T.Helper()
	if all := inLine(w); !slices.Contains(all, s.Field) {
		w.T.Fatalf("%s does not stand in line, but %v", s.Field, all)
	}
	time.Sleep(time.Millisecond) // so nobody else comes in the same moment
	return s
}

// inLine is who stands in the line for x, the next one first.
func inLine(w *kit.World) []string {
	if w.Kind.Queues {
		return w.Ask("LRANGE", kit.QueueKey, "0", "-1")
	}
	return w.Ask("ZRANGE", kit.LineKey("x"), "0", "-1")
}

// asksEvery is how often the first of the line ask.
func asksEvery(w *kit.World) time.Duration {
	if w.Kind.Queues {
		return 1500 * time.Millisecond
	}
	return kit.AsksEvery
}

// wantInLine checks that.
func wantInLine(w *kit.World, waiters ...*kit.Standing) {
	w.T.Helper()
	synctest.Wait()
	var fields []string
	for _, s := range waiters {
		fields = append(fields, s.Field)
	}
	if got := inLine(w); !slices.Equal(got, fields) {
		w.T.Errorf("in line stand %v, want %v", got, fields)
	}
}

// wantStanding checks how many stand in line.
func wantStanding(w *kit.World, n int) {
	w.T.Helper()
	synctest.Wait()
	if got := inLine(w); len(got) != n {
		w.T.Errorf("%d stand in line: %v, want %d", len(got), got, n)
	}
}

// lineHolder has another client hold x.
func lineHolder(w *kit.World, options ...holdfast.LockOption) *holdfast.Hold {
	w.T.Helper()
	c, _ := w.Client()
	return kit.Must(w.T)(w.Lock(c).Lock(background, options...))
}

// channel is where a client hears that it was granted a lock.
func channel(c *holdfast.Client) string { return "holdfast_granted:" + c.ID() }

// number is that of the last ask of a waiter.
func number(w *kit.World, s *kit.Standing) string {
	w.T.Helper()
	number, _, _ := strings.Cut(w.Do("HGET", kit.AsksKey("x"), s.Field), " ")
	return number
}

// fakeStanding runs f under fake time for each kind whose waiters stand in line, be it the one of a fair lock.
func fakeStanding(t *testing.T, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Queues || w.Kind.Line && !w.Kind.Shared() {
			f(t, w)
		}
	})
}

// fakeLines runs f under fake time for each kind whose waiters stand in line, and which one has at a time.
func fakeLines(t *testing.T, f func(t *testing.T, w *kit.World)) {
	t.Helper()
	kit.FakeKinds(t, func(t *testing.T, w *kit.World) {
		if w.Kind.Line && !w.Kind.Shared() {
			f(t, w)
		}
	})
}

// Ten processes have the lock in the order in which they came, each at the moment in which the one before it gives it back. The tokens
// of a fenced one rise.
func TestLineIsServedInOrder(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		waiters := several(10, func() *kit.Standing { return line(w) })
		wantInLine(w, waiters...)
		last := h.Token()
		for i, s := range waiters {
			time.Sleep(1300 * time.Millisecond)
			wantInLine(w, waiters[i:]...)
			released := time.Now()
			kit.Unlock(t, h)
			h = s.Within(t, released, 0)
			w.WantCount("x", s.Owner, 1)
			if token := h.Token(); w.Kind.Fenced() && token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = h.Token()
		}
		kit.Unlock(t, h)
	})
}

// L1: a waiter gives up while it is granted the lock, or while its ask is on its way. The next one has it at once; what the ask has
// taken is given back when it arrives.
func TestLineL1_Leaving(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		first, second, third := line(w), line(w), line(w)
		first.D.LoseMessages(true)
		first.D.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayRequest: 50 * time.Millisecond} })
		kit.Unlock(t, h)
		w.WantCount("x", first.Owner, 1) // it does not know
		time.Sleep(10 * time.Millisecond)
		wantInLine(w, second, third)
		first.Cancel(nil)
		h = second.Within(t, time.Now(), 50*time.Millisecond)
		if first.Waits() || first.Err == nil {
			t.Errorf("the first: %v", first.Err)
		}
		time.Sleep(time.Minute)
		wantInLine(w, third)
		w.WantCount("x", second.Owner, 1)

		// Its ask arrives when it has left, and the lock is held; free, since nobody has told the next one.
		third.Cancel(nil)
		wantInLine(w)
		w.WantReply("0", "EXISTS", kit.AsksKey("x"))
		for _, free := range []bool{false, true} {
			late := line(w)
			late.D.SetFaults(func(call driver.Call) (f memdriver.Fault) {
				if call.Script.Name() == "acquire" {
					f.DelayRequest = 500 * time.Millisecond
				}
				return f
			})
			time.Sleep(asksEvery(w) + 100*time.Millisecond) // an ask is on its way
			late.Cancel(nil)
			wantInLine(w)
			if free {
				kit.Unlock(t, h)
			}
			time.Sleep(time.Second)
			wantInLine(w)
			next, _ := w.Client()
			if free {
				h = kit.Must(t)(w.Lock(next).TryLock(background))
			} else {
				w.WantCount("x", second.Owner, 1)
			}
		}
		kit.Unlock(t, h)
	})
}

// L2: a lost message costs a second at most, and nothing once the subscription stands again. Each asks once a
// second.
func TestLineL2_LostMessages(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		waiters := several(10, func() *kit.Standing { return line(w) })
		for i, s := range waiters[:8] {
			s.D.LoseMessages(true)
			time.Sleep(time.Duration(i) * 130 * time.Millisecond)
			released := time.Now()
			kit.Unlock(t, h)
			if i%2 == 0 {
				h = s.Within(t, released, asksEvery(w))
				continue
			}
			time.Sleep(10 * time.Millisecond)
			w.WantCount("x", s.Owner, 1)
			s.D.LoseMessages(false)
			h = s.Within(t, released, 10*time.Millisecond)
		}
		tenth := kit.Count(waiters[9].D)
		time.Sleep(time.Second)
		if n := tenth.Of("acquire"); n > 1 {
			t.Errorf("the tenth asks %d times a second", n)
		}
		kit.Unlock(t, h)
		kit.Unlock(t, waiters[8].Hold(t))
		kit.Unlock(t, waiters[9].Hold(t))
	})
}

// L3: one who is connected, and neither hears nor asks, costs its grant and a second. Five in a row cost no more than ten seconds.
func TestLineL3_TheDeaf(t *testing.T) {
	for _, deaf := range []int{1, 5} {
		for offset := time.Duration(0); offset < kit.AsksEvery; offset += 130 * time.Millisecond {
			fakeStanding(t, func(t *testing.T, w *kit.World) {
				most := 10 * time.Second
				if deaf == 1 {
					most = kit.GrantLasts + asksEvery(w)
				}
				h := lineHolder(w)
				for range deaf {
					s := line(w)
					defer s.Cancel(nil)
					time.AfterFunc(offset, func() {
						s.D.LoseMessages(true)
						kit.Silent(s.D, kit.LostRequest)
					})
				}
				alive := line(w)
				time.Sleep(offset + time.Millisecond)
				released := time.Now()
				kit.Unlock(t, h)
				kit.Unlock(t, alive.Within(t, released, most))
			})
		}
	}
}

// slowMessages delays each message to a client.
type slowMessages struct {
	*memdriver.Driver
	by *atomic.Int64
}

func (d slowMessages) Listen(sink func(driver.Event)) driver.Listener {
	return d.Driver.Listen(func(e driver.Event) {
		if by := time.Duration(d.by.Load()); e.Kind == driver.Message && by > 0 {
			time.AfterFunc(by, func() { sink(e) })
			return
		}
		sink(e)
	})
}

// L4, L5: a message may come late, since its reader stood still. The deadline of the hold is reckoned from when the ask was sent that it
// answers, and a message of which little is left lets nobody in. The next one is let in when the grant has ended.
func TestLineL4_L5_LateMessages(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 2900 * time.Millisecond, 3500 * time.Millisecond, 10 * time.Second} {
		for _, asked := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond} {
			fakeStanding(t, func(t *testing.T, w *kit.World) {
				if !w.Kind.ByMessage {
					return
				}
				h := lineHolder(w)
				d, by := w.Server.Driver(), new(atomic.Int64)
				c, err := testclient.New(slowMessages{d, by}, holdfast.WithoutIdentity())
				kit.OK(t, err)
				t.Cleanup(func() { d.SetFaults(nil); kit.OK(t, c.Close()) })
				var lastSent, ended atomic.Pointer[time.Time]
				now := func() *time.Time { t := time.Now(); return &t }
				d.SetFaults(func(driver.Call) memdriver.Fault { lastSent.Store(now()); return memdriver.Fault{} })
				slow := lineAs(w, c, d)
				next := line(w)
				time.Sleep(2*asksEvery(w) + 50*time.Millisecond) // two more asks
				ask := *lastSent.Load()
				time.Sleep(time.Until(ask.Add(asked)))
				by.Store(int64(late))
				kit.Silent(d, kit.LostRequest) // or it asks in between, and finds out
				released := time.Now()
				kit.Unlock(t, h)
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
					if late+asked < asksEvery(w) { // else it asks before the message comes, and is not answered
						t.Errorf("a message that was %v late, of an ask %v old, did not let it in", late, asked)
					}
				case slow.Granted.Before(released.Add(late)), slow.Granted.Sub(ask) > kit.GrantLasts/2, trusted.IsZero():
					t.Errorf("a message that was %v late let it in %v after the ask; its hold has ended: %v", late, slow.Granted.Sub(ask), !trusted.IsZero())
				}
				if trusted.After(ask.Add(kit.GrantLasts)) {
					t.Errorf("trusted for %v after the ask", trusted.Sub(ask))
				}
				kit.Unlock(t, next.Within(t, released, kit.GrantLasts+asksEvery(w)))
				slow.Cancel(nil)
			})
		}
	}
}

// L6: a hold that begins with a message has its full lease within a second, also if it hears nothing more. If Redis falls silent it is
// lost, and told, before the grant has ended.
func TestLineL6_Renewal(t *testing.T) {
	for _, falls := range []string{"", "deaf", "silent"} {
		fakeStanding(t, func(t *testing.T, w *kit.World) {
			if !w.Kind.ByMessage {
				return
			}
			h := lineHolder(w)
			s := line(w)
			time.Sleep(300 * time.Millisecond)
			if falls == "silent" {
				kit.Silent(s.D, kit.LostRequest)
			}
			released := time.Now()
			kit.Unlock(t, h)
			h = s.Within(t, released, 0)
			if lease, trusted := w.PTTL("x"), h.Deadline().Sub(s.Entered); lease != kit.GrantLasts || trusted > kit.GrantLasts || trusted < kit.GrantLasts*9/10 {
				t.Errorf("granted for %v, trusted until %v after the ask", lease, trusted)
			}
			if falls == "silent" {
				kit.Took(t, kit.LostAt(t, h, released), kit.GrantLasts/2, kit.GrantLasts, "lost after %v")
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				s.D.SetFaults(nil)
				time.Sleep(time.Minute)
				return
			}
			s.D.LoseMessages(falls == "deaf")
			time.Sleep(asksEvery(w) + 10*time.Millisecond)
			if left := time.Until(h.Deadline()); left < holdfast.DefaultLease*9/10 {
				t.Errorf("a second later it is trusted for %v", left)
			}
			time.Sleep(5 * time.Minute)
			kit.Unlock(t, h)
		})
	}
}

// L6: of one whose last ask is old, a message could not be trusted for long. It asks, and has its full lease from the beginning.
func TestLineL6_AnOldAsk(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		const lease = 1500 * time.Millisecond // a grant is no longer
		h := lineHolder(w)
		s := lineOf(w, holdfast.WithLease(lease))
		time.Sleep(900 * time.Millisecond) // it would ask after a second
		asks := kit.Count(s.D)
		kit.Unlock(t, h)
		h = s.Within(t, time.Now(), 0)
		if n := asks.Of("acquire"); n != 1 {
			t.Errorf("it asked %d times", n)
		}
		if left := time.Until(h.Deadline()); left < lease*8/10 {
			t.Errorf("it is trusted for %v", left)
		}
		kit.Unlock(t, h)
	})
}

// oneOfRedissons takes x again and again as Redisson does, to write if it is a read-write lock, stays inside, and counts its holds, until
// ctx ends.
func oneOfRedissons(w *kit.World, ctx context.Context, stay time.Duration) (holds func() int) {
	w.T.Helper()
	told := make(chan struct{}, 1)
	listener := w.Server.Driver().Listen(func(e driver.Event) {
		if e.Kind == driver.Message {
			select {
			case told <- struct{}{}:
			default:
			}
		}
	})
	listener.Subscribe(w.Kind.Channel("x"))
	fields := []string{w.Kind.Field(ofRedisson), "1"}
	if w.Kind.Mode != "" {
		fields = append(fields, "mode", w.Kind.Mode)
	}
	script := driver.NewScript("redisson", `if redis.call('EXISTS', KEYS[1]) == 0 then
		redis.call('HSET', KEYS[1], unpack(ARGV)) redis.call('PEXPIRE', KEYS[1], 30000) return 1 end return 0`)
	d, n, done := w.Server.Driver(), 0, make(chan struct{})
	go func() {
		defer close(done)
		defer listener.Close()
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond) // the way to Redis
			got, err := d.Eval(background, driver.Call{Script: script, Keys: []string{"x"}, Args: fields})
			if err != nil {
				w.T.Error(err)
			}
			if got == int64(1) {
				n++
				time.Sleep(stay)
				w.Do("DEL", "x")
				w.Do("PUBLISH", w.Kind.Channel("x"), "0")
				continue
			}
			select {
			case <-told:
			case <-ctx.Done():
			}
		}
	}()
	return func() int { <-done; return n }
}

// inTurns has n clients, a millisecond from Redis, take a lock again and again and stay inside, until ctx ends, and counts their holds.
func inTurns(w *kit.World, ctx context.Context, n int, stay time.Duration, lock func(c *holdfast.Client) holdfast.Locker) (holds func() []int) {
	w.T.Helper()
	counts := make([]int, n)
	var all sync.WaitGroup
	for i := range counts {
		c, d := w.Client()
		kit.Silent(d, memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond})
		all.Go(func() {
			for ctx.Err() == nil {
				if h, err := lock(c).Lock(ctx); err == nil {
					counts[i]++
					time.Sleep(stay)
					kit.Unlock(w.T, h)
				}
			}
		})
	}
	return func() []int { all.Wait(); return counts }
}

// wantShares checks that each has a third of its share at least, of which the last is Redisson's, and returns the sum.
func wantShares(t *testing.T, what string, counts []int) (sum int) {
	t.Helper()
	for _, n := range counts {
		sum += n
	}
	if slices.Min(counts)*len(counts)*3 < sum {
		t.Errorf("%s: holds %v, of which the last are Redisson's", what, counts)
	}
	return sum
}

// L7: one of Redisson's that wants the lock beside three of ours has its turns, and so have they: each has a third of its share at least.
func TestLineL7_RedissonWaits(t *testing.T) {
	for _, stay := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond} {
		fakeLines(t, func(t *testing.T, w *kit.World) {
			if w.Kind.Name != "mutex" && w.Kind.Name != "writer" {
				return // it is as these
			}
			const ours = 3
			lasts := min(500*stay, 3*time.Second)
			ctx, end := context.WithTimeout(background, lasts)
			defer end()
			each := inTurns(w, ctx, ours, stay, func(c *holdfast.Client) holdfast.Locker { return w.Lock(c) })
			theirs := oneOfRedissons(w, ctx, stay)()
			sum := wantShares(t, fmt.Sprintf("staying for %v", stay), append(each(), theirs))
			if most := lasts / stay; time.Duration(sum) < most/5 {
				t.Errorf("%d holds of %v in %v", sum, stay, lasts)
			}
		})
	}
}

// L8: while one of Redisson's holds the lock, the first eight of the line listen where it announces its release. The first has the lock
// at once then. While one of ours holds it, nobody listens there.
func TestLineL8_RedissonHolds(t *testing.T) {
	fakeLines(t, func(t *testing.T, w *kit.World) {
		w.Do("HSET", "x", w.Kind.Field(ofRedisson), "1")
		if w.Kind.Mode != "" {
			w.Do("HSET", "x", "mode", w.Kind.Mode)
		}
		w.Do("PEXPIRE", "x", "600000")
		waiters := several(12, func() *kit.Standing { return line(w) })
		time.Sleep(10 * time.Second)
		listen := func() string { return w.Ask("PUBSUB", "NUMSUB", w.Kind.Channel("x"))[1] }
		if n := listen(); n != "8" {
			t.Errorf("%s listen for Redisson's release", n)
		}
		w.Do("DEL", "x")
		w.Do("PUBLISH", w.Kind.Channel("x"), "0")
		released := time.Now()
		h := waiters[0].Within(t, released, 0)
		wantInLine(w, waiters[1:]...)
		time.Sleep(10 * time.Second) // the holder begins to listen after one
		if n := listen(); n != "1" {
			t.Errorf("%s listen beside a holder of ours, want it alone", n)
		}
		for _, s := range waiters[1:] {
			released = time.Now()
			kit.Unlock(t, h)
			h = s.Within(t, released, 0)
			synctest.Wait() // who has held it for long listens no more, or the next release is left to it
		}
		kit.Unlock(t, h)
	})
}

// L9: whichever way the lock gets free without a release, the first of the line has it within a second, and the others keep their
// places.
func TestLineL9_FreeWithoutARelease(t *testing.T) {
	ways := map[string]struct {
		free func(t *testing.T, w *kit.World)
		most time.Duration
	}{
		"deleted": {func(_ *testing.T, w *kit.World) { w.Do("DEL", "x") }, 1500 * time.Millisecond},
		"expired": {func(_ *testing.T, w *kit.World) {
			w.Do("PEXPIRE", "x", "1500")
			time.Sleep(1500 * time.Millisecond)
		}, 10 * time.Millisecond}, // the first knows when
		"forced": {func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			kit.Force(t, w.Lock(c))
		}, 0},
		"tried": {func(t *testing.T, w *kit.World) {
			c, _ := w.Client()
			w.Do("DEL", "x")
			kit.Fails(t, holdfast.ErrLocked)(w.Lock(c).TryLock(background))
		}, 0},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			fakeStanding(t, func(t *testing.T, w *kit.World) {
				h := lineHolder(w)
				first, second, third := line(w), line(w), line(w)
				time.Sleep(1230 * time.Millisecond)
				way.free(t, w)
				free := time.Now()
				next := first.Within(t, free, way.most)
				wantInLine(w, second, third)
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				time.Sleep(holdfast.DefaultLease + time.Second)
				w.WantCount("x", first.Owner, 1)
				kit.Unlock(t, next)
				kit.Unlock(t, second.Within(t, time.Now(), 0))
				kit.Unlock(t, third.Hold(t))
			})
		})
	}
}

// L10: a line of the dead costs one who lives a few asks at most, and nothing if they are few. Dead is who does not listen, has not asked
// for long, or has left no ask.
func TestLineL10_TheDead(t *testing.T) {
	hour := func(from time.Time) string { return strconv.FormatInt(from.Add(time.Hour).UnixMilli(), 10) }
	ways := map[string]struct{ client, ask string }{
		"who does not listen": {"ffffffff-0000-8000-8000-000000000000", "n 3000 UNTIL 0"},
		"who does not ask":    {"", "n 3000 1000 0"},
		"without an ask":      {"", ""},
		"with junk":           {"", "n n n n"},
	}
	for name, way := range ways {
		for _, dead := range []int{1, 31, 40, 100} {
			t.Run(fmt.Sprint(name, "/", dead), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					h := lineHolder(w)
					listens := line(w)
					listens.Cancel(nil)
					wantInLine(w)
					before := time.Now().Add(-time.Minute).UnixMicro()
					for i := range dead {
						owner := fmt.Sprintf("%s:%d", cmp.Or(way.client, listens.C.ID()), 1000+i)
						w.Do("ZADD", kit.LineKey("x"), fmt.Sprint(before), owner)
						if way.ask != "" {
							w.Do("HSET", kit.AsksKey("x"), owner, strings.ReplaceAll(way.ask, "UNTIL", hour(time.Now())))
						}
					}
					alive := line(w)
					asks := kit.Count(alive.D)
					released, most := time.Now(), time.Duration(0)
					kit.Unlock(t, h)
					if dead > 31 { // more than one release drops
						most = 4500 * time.Millisecond
					}
					kit.Unlock(t, alive.Within(t, released, most))
					if n := asks.Of("acquire"); n > 2 {
						t.Errorf("it asked %d times", n)
					}
					time.Sleep(3 * time.Minute) // the line of the dead does not last
				})
			})
		}
	}
}

// L13: the line is lost, as by a failover, and all ask again on their new subscriptions. Nobody is lost, and nobody waits for longer.
func TestLineL13_ALostLine(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		waiters := several(12, func() *kit.Standing { return line(w) })
		w.Do("DEL", kit.LineKey("x"), kit.AsksKey("x"))
		for _, s := range waiters {
			s.D.LoseMessages(true)
			s.D.LoseMessages(false)
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		wantInLine(w, waiters...)
		for _, s := range waiters {
			released := time.Now()
			kit.Unlock(t, h)
			h = s.Within(t, released, 0)
		}
		kit.Unlock(t, h)
	})
}

// L15: what does not stand in line goes on beside it.
func TestLineL15_BesideTheLine(t *testing.T) {
	t.Run("nested", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *kit.World) {
			if !w.Kind.Nests {
				return
			}
			h := lineHolder(w)
			c, _ := w.Client()
			ctx := holdfast.WithOwner(background, c.NewOwner())
			first, second := line(w), line(w)
			kit.Unlock(t, h)
			h = first.Hold(t)
			inner := kit.Must(t)(w.Kind.Lock(first.C, "x").Lock(h.Context()))
			w.WantCount("x", first.Owner, 2)
			kit.Unlock(t, h)
			w.WantCount("x", first.Owner, 1)
			wantInLine(w, second)
			kit.Fails(t, holdfast.ErrLocked)(w.Lock(c).Lock(ctx, holdfast.Wait(100*time.Millisecond)))
			wantInLine(w, second) // who has given up has left
			released := time.Now()
			kit.Unlock(t, inner)
			kit.Unlock(t, second.Within(t, released, 0))
		})
	})
	t.Run("MinHold", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *kit.World) {
			h := lineHolder(w, holdfast.MinHold(10*time.Second))
			held := time.Now()
			first, second := line(w), line(w)
			kit.Unlock(t, h)
			wantInLine(w, first, second)
			h = first.Within(t, held, 10*time.Second+20*time.Millisecond)
			if early := first.Granted.Sub(held); early < 10*time.Second {
				t.Errorf("it got the lock after %v", early)
			}
			kit.Unlock(t, h)
			kit.Unlock(t, second.Hold(t))
			// One in line that wants it is granted the lock, and keeps it as long.
			h = lineHolder(w)
			first, second = line(w, holdfast.MinHold(10*time.Second)), line(w)
			kit.Unlock(t, h)
			released := time.Now()
			kit.Unlock(t, first.Within(t, released, 0))
			kit.Unlock(t, second.Hold(t))
			kit.Took(t, second.Granted.Sub(released), 10*time.Second, 10*time.Second+20*time.Millisecond, "it was kept for %v")
		})
	})
	t.Run("Polling", func(t *testing.T) {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			h := lineHolder(w)
			c, d := w.Client()
			polls := w.WaitAs(c, d, c.NewMutex("x", holdfast.Polling(10*time.Millisecond, 10*time.Millisecond)))
			first := line(w)
			wantInLine(w, first)
			released := time.Now()
			kit.Unlock(t, h)
			h = first.Within(t, released, 0)
			time.Sleep(time.Second)
			kit.Unlock(t, h)
			kit.Unlock(t, polls.Within(t, time.Now(), 10*time.Millisecond))
		})
	})
	t.Run("FixedLease", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *kit.World) {
			h := lineHolder(w)
			first, second := line(w, holdfast.FixedLease(10*time.Second)), line(w)
			released := time.Now()
			kit.Unlock(t, h)
			h = first.Within(t, released, 0)
			if left := time.Until(h.Deadline()); left < 9*time.Second || left > 10*time.Second {
				t.Errorf("it is trusted for %v", left)
			}
			next := second.Within(t, released, 10*time.Second+20*time.Millisecond)
			kit.WantLost(t, h)
			kit.Unlock(t, next)
		})
	})
	t.Run("Detach", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *kit.World) {
			h := lineHolder(w)
			first := line(w)
			time.Sleep(2 * time.Second)
			owner, err := h.Detach()
			kit.OK(t, err)
			time.Sleep(2 * time.Second)
			wantInLine(w, first)
			c, _ := w.Client()
			h = kit.Must(t)(w.Lock(c).Adopt(background, owner))
			wantInLine(w, first)
			time.Sleep(time.Minute)
			released := time.Now()
			kit.Unlock(t, h)
			kit.Unlock(t, first.Within(t, released, 0))
		})
	})
}

// L16: a TryLock is refused while one who lives stands in line, also when nobody holds the lock; not for the dead.
func TestLineL16_TryLock(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		c, _ := w.Client()
		s := line(w)
		w.Do("DEL", "x") // in the moment between two holds
		kit.Fails(t, holdfast.ErrLocked)(w.Lock(c).TryLock(background))
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		h = s.Hold(t)
		wantInLine(w) // who has tried does not stand there
		dead := line(w)
		dead.D.LoseMessages(true)
		kit.Silent(dead.D, kit.LostRequest)
		time.Sleep(3*asksEvery(w) + 10*time.Millisecond)
		kit.Unlock(t, h)
		kit.Unlock(t, kit.Must(t)(w.Lock(c).TryLock(background)))
		dead.Cancel(nil)
	})
}

// L17: what began with a message passes on in the process, and is trusted for no longer for that.
func TestLineL17_HandedOver(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		if testclient.WithoutHandOver() {
			return
		}
		h := lineHolder(w)
		c, d := w.Client()
		x := w.Lock(c)
		first := kit.Waiting(t, x, background)
		second := kit.Waiting(t, x, background)
		third := kit.Waiting(t, x, background)
		time.Sleep(400 * time.Millisecond)
		kit.Silent(d, kit.LostRequest)
		asked := time.Now().Add(-400 * time.Millisecond)
		kit.Unlock(t, h)
		for _, waits := range []<-chan *holdfast.Hold{first, second} {
			h = wantSoon(t, waits)
			if h.Deadline().After(asked.Add(kit.GrantLasts)) {
				t.Errorf("it is trusted until %v after the ask", h.Deadline().Sub(asked))
			}
			kit.Unlock(t, h)
		}
		kit.Took(t, kit.LostAt(t, wantSoon(t, third), asked), kit.GrantLasts/2, kit.GrantLasts, "lost %v after the ask")
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}

// L18: an ask arrives when nobody waits for its answer, and is granted the lock. It is given back at the latest when the caller is
// certain that it may have arrived.
func TestLineL18_GrantedToNobody(t *testing.T) {
	for _, lost := range []bool{false, true} {
		fakeStanding(t, func(t *testing.T, w *kit.World) {
			h := lineHolder(w)
			s := line(w)
			next := line(w)
			s.D.SetFaults(func(call driver.Call) (f memdriver.Fault) {
				switch call.Script.Name() {
				case "acquire":
					f.LoseReply = true
				case "leave":
					f.LoseRequest = lost && time.Since(s.Entered) < 3*time.Second
				}
				return f
			})
			time.Sleep(time.Until(s.Entered.Add(asksEvery(w) + 100*time.Millisecond)))
			s.Cancel(nil)
			time.Sleep(100 * time.Millisecond)
			released := time.Now()
			kit.Unlock(t, h)
			kit.Unlock(t, next.Within(t, released, kit.GrantLasts+asksEvery(w)))
			time.Sleep(10 * time.Second)
			wantInLine(w)
		})
	}
}

// L19: a message lets in nobody if it is not the answer to the last ask: forged, old, of another waiter, or junk.
func TestLineL19_ForgedMessages(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		h := lineHolder(w)
		s, other := line(w), line(w)
		old := number(w, s)
		time.Sleep(2 * asksEvery(w))
		if old == "" || number(w, s) == old {
			t.Fatalf("the number of its ask is %q, as it was", old)
		}
		asks := kit.Count(s.D)
		said := []string{
			old, number(w, other), "0", "1", "-1", "9007199254740993", "junk", " ", "\x00", strings.Repeat("9", 100_000), "1 " + s.Owner.String(),
			s.Owner.String(), number(w, s) + " 5", number(w, s) + " -5", number(w, s) + " x", number(w, s) + " 999999", number(w, s) + " ", " " + number(w, s), number(w, s) + "\n",
		}
		for range 1000 {
			said = append(said, fmt.Sprintf("%x", time.Now().UnixNano()+int64(len(said))))
		}
		for _, payload := range said {
			w.Do("PUBLISH", channel(s.C), payload)
			if !s.Waits() {
				t.Fatalf("%.50q let it in: %v", payload, s.Err)
			}
		}
		time.Sleep(time.Second)
		if n := asks.Of("acquire"); n > 20 { // it is told to ask by some
			t.Errorf("it has asked %d times", n)
		}
		w.WantCount("x", h.Owner(), 1)
		wantInLine(w, s, other)
		released := time.Now()
		kit.Unlock(t, h)
		h = s.Within(t, released, 0)
		w.Do("PUBLISH", channel(other.C), old)
		if !other.Waits() {
			t.Error("the number of another let it in")
		}
		kit.Unlock(t, h)
		kit.Unlock(t, other.Hold(t))
	})
}

// Those who only wait ask some hundred times a second, all together, and if the lock is given back only the next one asks, if anybody.
func TestLineOfManyThatWait(t *testing.T) {
	const processes = 250 // if each of them asked once a second, as the first do, they would ask 250 times a second
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		if w.Kind != kit.MutexKind && w.Kind.Name != "fair" {
			return // many take long
		}
		h := lineHolder(w)
		first := line(w)
		seen := new(kit.Calls)
		var mu sync.Mutex
		var got []int
		var all sync.WaitGroup
		for i := range processes {
			c, d := w.Client()
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				seen.Note(call)
				return memdriver.Fault{}
			})
			all.Go(func() {
				h, err := w.Lock(c).Lock(background)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, i)
				mu.Unlock()
				kit.Unlock(t, h)
			})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(12 * time.Second) // all have asked twice, and know how many they are
		before := seen.All()
		time.Sleep(10 * time.Second)
		if n := seen.All() - before; n > 10*110 {
			t.Errorf("%d asks in 10 s", n)
		} else {
			t.Logf("%d asks in 10 s", n)
		}
		kit.Unlock(t, h)
		h = first.Hold(t)
		synctest.Wait() // who has held it for long listens no more, or the next release is left to it
		before = seen.All()
		released := time.Now()
		kit.Unlock(t, h)
		all.Wait()
		// A release, and an ask of one whose last one is old.
		if n := seen.All() - before; n > 2*processes || time.Since(released) > 0 {
			t.Errorf("%d hand-overs took %v, and %d scripts", processes, time.Since(released), n)
		}
		if !slices.IsSorted(got) {
			t.Errorf("served in the order %v", got)
		}
	})
}

// Many processes have the lock in turns. A turn takes two scripts, and each has as many turns.
func TestLineOfManyInTurns(t *testing.T) {
	const processes, stay = 20, 20 * time.Millisecond
	fakeStanding(t, func(t *testing.T, w *kit.World) {
		if w.Kind != kit.MutexKind && w.Kind.Name != "fair" {
			return // many take long
		}
		seen := new(kit.Calls)
		var holds [processes]atomic.Int64
		counted := func() (n [processes]int64) {
			for i := range holds {
				n[i] = holds[i].Load()
			}
			return n
		}
		var inside atomic.Int32
		ctx, cancel := context.WithCancel(background)
		var all sync.WaitGroup
		for i := range processes {
			c, d := w.Client()
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				seen.Note(call)
				return memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond}
			})
			all.Go(func() {
				for ctx.Err() == nil {
					h, err := w.Lock(c).Lock(ctx)
					if err != nil {
						continue
					}
					if inside.Add(1) > 1 {
						t.Error("two are inside")
					}
					holds[i].Add(1)
					time.Sleep(stay)
					inside.Add(-1)
					kit.Unlock(t, h)
				}
			})
		}
		time.Sleep(2 * time.Second) // all stand in line
		before, scripts := counted(), seen.All()
		const lasts = 6 * time.Second
		time.Sleep(lasts)
		turns, fewest, most := 0, 1<<30, 0
		for i, after := range counted() {
			n := int(after - before[i])
			turns, fewest, most = turns+n, min(fewest, n), max(most, n)
		}
		scripts = seen.All() - scripts
		asks := 8*int(lasts/asksEvery(w)) + int(lasts/(12*time.Millisecond)) // of those who wait
		t.Logf("%d turns, from %d to %d each, %d scripts: %v", turns, fewest, most, scripts, seen)
		if most-fewest > 1 || time.Duration(turns) < lasts/(stay+2*time.Millisecond) {
			t.Errorf("%d turns, from %d to %d each", turns, fewest, most)
		}
		if scripts > 2*turns+asks {
			t.Errorf("%d scripts for %d turns", scripts, turns)
		}
		cancel()
		all.Wait()
	})
}
