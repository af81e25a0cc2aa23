package test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
)

// The line in Redis where those of many processes stand who wait for a plain lock, and a release that grants it to the first. What is
// about rights and full memory is in acl_test.go and memory_full_test.go.

// grantLasts is how long a grant lasts before somebody has renewed it, and asksEvery how often the first of the line ask.
const (
	grantLasts = 3 * time.Second
	asksEvery  = time.Second
)

// ofRedisson is an owner of Redisson's.
const ofRedisson = "ffffffff-0000-4000-8000-000000000000:1"

// line has a client of its own wait for the mutex x, and returns when it stands in line, as the last.
func (w *world) line(options ...holdfast.LockOption) *standing {
	w.t.Helper()
	c, d := w.client()
	return w.lineAs(c, d, options...)
}

// lineOf is line with a client that has options.
func (w *world) lineOf(options ...holdfast.ClientOption) *standing {
	w.t.Helper()
	c, d := w.client(options...)
	return w.lineAs(c, d)
}

func (w *world) lineAs(c *holdfast.Client, d *memdriver.Driver, options ...holdfast.LockOption) *standing {
	w.t.Helper()
	return w.stands(w.waitAs(c, d, w.lock(c), options...))
}

// stands checks that one stands in line.
func (w *world) stands(s *standing) *standing {
	w.t.Helper()
	if all := w.inLine(); !slices.Contains(all, s.field) {
		w.t.Fatalf("%s does not stand in line, but %v", s.field, all)
	}
	time.Sleep(time.Millisecond) // so nobody else comes in the same moment
	return s
}

// inLine is who stands in the line for x, the next one first.
func (w *world) inLine() []string {
	if w.kind.queues {
		return w.ask("LRANGE", queueKey, "0", "-1")
	}
	return w.ask("ZRANGE", lineKey("x"), "0", "-1")
}

// asksEvery is how often the first of the line ask.
func (w *world) asksEvery() time.Duration {
	if w.kind.queues {
		return 1500 * time.Millisecond
	}
	return asksEvery
}

// wantInLine checks that.
func (w *world) wantInLine(waiters ...*standing) {
	w.t.Helper()
	synctest.Wait()
	var fields []string
	for _, s := range waiters {
		fields = append(fields, s.field)
	}
	if got := w.inLine(); !slices.Equal(got, fields) {
		w.t.Errorf("in line stand %v, want %v", got, fields)
	}
}

// wantStanding checks how many stand in line.
func (w *world) wantStanding(n int) {
	w.t.Helper()
	synctest.Wait()
	if got := w.inLine(); len(got) != n {
		w.t.Errorf("%d stand in line: %v, want %d", len(got), got, n)
	}
}

// lineHolder has another client hold x.
func (w *world) lineHolder(options ...holdfast.LockOption) *holdfast.Hold {
	w.t.Helper()
	c, _ := w.client()
	return must(w.t)(w.lock(c).Lock(background, options...))
}

// within checks that the waiter gets the lock in time, and returns the hold.
func (s *standing) within(t *testing.T, since time.Time, most time.Duration) *holdfast.Hold {
	t.Helper()
	h := s.holdAfter(t, most+5*time.Minute)
	if took := s.granted.Sub(since); took > most {
		t.Errorf("it got the lock after %v, want %v at most", took, most)
	}
	return h
}

// channel is where a client hears that it was granted a lock.
func channel(c *holdfast.Client) string { return "holdfast_granted:" + c.ID() }

// number is that of the last ask of a waiter.
func (w *world) number(s *standing) string {
	w.t.Helper()
	number, _, _ := strings.Cut(w.do("HGET", asksKey("x"), s.field), " ")
	return number
}

// fakeStanding runs f under fake time for each kind whose waiters stand in line, be it the one of a fair lock.
func fakeStanding(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	fakeKinds(t, func(t *testing.T, w *world) {
		if w.kind.queues || w.kind.line && !w.kind.shared() {
			f(t, w)
		}
	})
}

// fakeLines runs f under fake time for each kind whose waiters stand in line, and which one has at a time.
func fakeLines(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	fakeKinds(t, func(t *testing.T, w *world) {
		if w.kind.line && !w.kind.shared() {
			f(t, w)
		}
	})
}

// Ten processes have the lock in the order in which they came, each at the moment in which the one before it gives it back. The tokens
// of a fenced one rise.
func TestLineIsServedInOrder(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		var waiters []*standing
		for range 10 {
			waiters = append(waiters, w.line())
		}
		w.wantInLine(waiters...)
		last := h.Token()
		for i, s := range waiters {
			time.Sleep(1300 * time.Millisecond)
			w.wantInLine(waiters[i:]...)
			released := time.Now()
			unlock(t, h)
			h = s.within(t, released, 0)
			w.wantCount("x", s.owner, 1)
			if token := h.Token(); w.kind.fenced() && token <= last {
				t.Errorf("token %d after %d", token, last)
			}
			last = h.Token()
		}
		unlock(t, h)
	})
}

// L1: a waiter gives up while it is granted the lock, or while its ask is on its way. The next one has it at once; what the ask has
// taken is given back when it arrives.
func TestLineL1_Leaving(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		first, second, third := w.line(), w.line(), w.line()
		first.d.LoseMessages(true)
		first.d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayRequest: 50 * time.Millisecond} })
		unlock(t, h)
		w.wantCount("x", first.owner, 1) // it does not know
		time.Sleep(10 * time.Millisecond)
		w.wantInLine(second, third)
		first.cancel(nil)
		h = second.within(t, time.Now(), 50*time.Millisecond)
		if first.waits() || first.err == nil {
			t.Errorf("the first: %v", first.err)
		}
		time.Sleep(time.Minute)
		w.wantInLine(third)
		w.wantCount("x", second.owner, 1)

		// Its ask arrives when it has left, and the lock is held; free, since nobody has told the next one.
		third.cancel(nil)
		w.wantInLine()
		w.wantReply("0", "EXISTS", asksKey("x"))
		for _, free := range []bool{false, true} {
			late := w.line()
			late.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
				if call.Script.Name() == "acquire" {
					f.DelayRequest = 500 * time.Millisecond
				}
				return f
			})
			time.Sleep(w.asksEvery() + 100*time.Millisecond) // an ask is on its way
			late.cancel(nil)
			w.wantInLine()
			if free {
				unlock(t, h)
			}
			time.Sleep(time.Second)
			w.wantInLine()
			next, _ := w.client()
			if free {
				h = must(t)(w.lock(next).TryLock(background))
			} else {
				w.wantCount("x", second.owner, 1)
			}
		}
		unlock(t, h)
	})
}

// L2: a lost message costs a second at most, and nothing once the subscription stands again. Each asks once a
// second.
func TestLineL2_LostMessages(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		var waiters []*standing
		for range 10 {
			waiters = append(waiters, w.line())
		}
		for i, s := range waiters[:8] {
			s.d.LoseMessages(true)
			time.Sleep(time.Duration(i) * 130 * time.Millisecond)
			released := time.Now()
			unlock(t, h)
			if i%2 == 0 {
				h = s.within(t, released, w.asksEvery())
				continue
			}
			time.Sleep(10 * time.Millisecond)
			w.wantCount("x", s.owner, 1)
			s.d.LoseMessages(false)
			h = s.within(t, released, 10*time.Millisecond)
		}
		tenth := count(waiters[9].d)
		time.Sleep(time.Second)
		if n := tenth.of("acquire"); n > 1 {
			t.Errorf("the tenth asks %d times a second", n)
		}
		unlock(t, h)
		unlock(t, waiters[8].hold(t))
		unlock(t, waiters[9].hold(t))
	})
}

// L3: one who is connected, and neither hears nor asks, costs its grant and a second. Five in a row cost no more than ten seconds.
func TestLineL3_TheDeaf(t *testing.T) {
	for _, deaf := range []int{1, 5} {
		for offset := time.Duration(0); offset < asksEvery; offset += 130 * time.Millisecond {
			fakeStanding(t, func(t *testing.T, w *world) {
				most := 10 * time.Second
				if deaf == 1 {
					most = grantLasts + w.asksEvery()
				}
				h := w.lineHolder()
				for range deaf {
					s := w.line()
					defer s.cancel(nil)
					time.AfterFunc(offset, func() {
						s.d.LoseMessages(true)
						silent(s.d, lostRequest)
					})
				}
				alive := w.line()
				time.Sleep(offset + time.Millisecond)
				released := time.Now()
				unlock(t, h)
				unlock(t, alive.within(t, released, most))
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
			fakeStanding(t, func(t *testing.T, w *world) {
				if !w.kind.byMessage {
					return
				}
				h := w.lineHolder()
				d, by := w.server.Driver(), new(atomic.Int64)
				c, err := testclient.New(slowMessages{d, by}, holdfast.WithoutIdentity())
				ok(t, err)
				t.Cleanup(func() { d.SetFaults(nil); ok(t, c.Close()) })
				var lastSent, ended atomic.Pointer[time.Time]
				now := func() *time.Time { t := time.Now(); return &t }
				d.SetFaults(func(driver.Call) memdriver.Fault { lastSent.Store(now()); return memdriver.Fault{} })
				slow := w.lineAs(c, d)
				next := w.line()
				time.Sleep(2*w.asksEvery() + 50*time.Millisecond) // two more asks
				ask := *lastSent.Load()
				time.Sleep(time.Until(ask.Add(asked)))
				by.Store(int64(late))
				silent(d, lostRequest) // or it asks in between, and finds out
				released := time.Now()
				unlock(t, h)
				go func() {
					if begun, ok := <-slow.got; ok {
						<-begun.Context().Done()
						ended.Store(now())
					}
				}()
				time.Sleep(time.Until(released.Add(grantLasts - time.Millisecond)))
				var trusted time.Time // until when it was
				if at := ended.Load(); at != nil {
					trusted = *at
				}
				switch {
				case slow.waits():
					if late+asked < w.asksEvery() { // else it asks before the message comes, and is not answered
						t.Errorf("a message that was %v late, of an ask %v old, did not let it in", late, asked)
					}
				case slow.granted.Before(released.Add(late)), slow.granted.Sub(ask) > grantLasts/2, trusted.IsZero():
					t.Errorf("a message that was %v late let it in %v after the ask; its hold has ended: %v", late, slow.granted.Sub(ask), !trusted.IsZero())
				}
				if trusted.After(ask.Add(grantLasts)) {
					t.Errorf("trusted for %v after the ask", trusted.Sub(ask))
				}
				unlock(t, next.within(t, released, grantLasts+w.asksEvery()))
				slow.cancel(nil)
			})
		}
	}
}

// L6: a hold that begins with a message has its full lease within a second, also if it hears nothing more. If Redis falls silent it is
// lost, and told, before the grant has ended.
func TestLineL6_Renewal(t *testing.T) {
	for _, falls := range []string{"", "deaf", "silent"} {
		fakeStanding(t, func(t *testing.T, w *world) {
			if !w.kind.byMessage {
				return
			}
			h := w.lineHolder()
			s := w.line()
			time.Sleep(300 * time.Millisecond)
			if falls == "silent" {
				silent(s.d, lostRequest)
			}
			released := time.Now()
			unlock(t, h)
			h = s.within(t, released, 0)
			if lease, trusted := w.pttl("x"), h.Deadline().Sub(s.entered); lease != grantLasts || trusted > grantLasts || trusted < grantLasts*9/10 {
				t.Errorf("granted for %v, trusted until %v after the ask", lease, trusted)
			}
			if falls == "silent" {
				if lost := lostAt(t, h, released); lost > grantLasts || lost < grantLasts/2 {
					t.Errorf("lost after %v", lost)
				}
				wantError(t, h.Unlock(), holdfast.ErrLost)
				s.d.SetFaults(nil)
				time.Sleep(time.Minute)
				return
			}
			s.d.LoseMessages(falls == "deaf")
			time.Sleep(w.asksEvery() + 10*time.Millisecond)
			if left := time.Until(h.Deadline()); left < holdfast.DefaultLease*9/10 {
				t.Errorf("a second later it is trusted for %v", left)
			}
			time.Sleep(5 * time.Minute)
			unlock(t, h)
		})
	}
}

// L6: of one whose last ask is old, a message could not be trusted for long. It asks, and has its full lease from the beginning.
func TestLineL6_AnOldAsk(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		const lease = 1500 * time.Millisecond // a grant is no longer
		h := w.lineHolder()
		s := w.lineOf(holdfast.WithLease(lease))
		time.Sleep(900 * time.Millisecond) // it would ask after a second
		asks := count(s.d)
		unlock(t, h)
		h = s.within(t, time.Now(), 0)
		if n := asks.of("acquire"); n != 1 {
			t.Errorf("it asked %d times", n)
		}
		if left := time.Until(h.Deadline()); left < lease*8/10 {
			t.Errorf("it is trusted for %v", left)
		}
		unlock(t, h)
	})
}

// oneOfRedissons takes x again and again as Redisson does, to write if it is a read-write lock, stays inside, and counts its holds, until
// ctx ends.
func (w *world) oneOfRedissons(ctx context.Context, stay time.Duration) (holds func() int) {
	w.t.Helper()
	told := make(chan struct{}, 1)
	listener := w.server.Driver().Listen(func(e driver.Event) {
		if e.Kind == driver.Message {
			select {
			case told <- struct{}{}:
			default:
			}
		}
	})
	listener.Subscribe(w.kind.channel("x"))
	fields := []string{w.kind.field(ofRedisson), "1"}
	if w.kind.mode != "" {
		fields = append(fields, "mode", w.kind.mode)
	}
	script := driver.NewScript("redisson", `if redis.call('EXISTS', KEYS[1]) == 0 then
		redis.call('HSET', KEYS[1], unpack(ARGV)) redis.call('PEXPIRE', KEYS[1], 30000) return 1 end return 0`)
	d, n, done := w.server.Driver(), 0, make(chan struct{})
	go func() {
		defer close(done)
		defer listener.Close()
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond) // the way to Redis
			got, err := d.Eval(background, driver.Call{Script: script, Keys: []string{"x"}, Args: fields})
			if err != nil {
				w.t.Error(err)
			}
			if got == int64(1) {
				n++
				time.Sleep(stay)
				w.do("DEL", "x")
				w.do("PUBLISH", w.kind.channel("x"), "0")
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
func (w *world) inTurns(ctx context.Context, n int, stay time.Duration, lock func(c *holdfast.Client) holdfast.Locker) (holds func() []int) {
	w.t.Helper()
	counts := make([]int, n)
	var all sync.WaitGroup
	for i := range counts {
		c, d := w.client()
		silent(d, memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond})
		all.Go(func() {
			for ctx.Err() == nil {
				if h, err := lock(c).Lock(ctx); err == nil {
					counts[i]++
					time.Sleep(stay)
					unlock(w.t, h)
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
		fakeLines(t, func(t *testing.T, w *world) {
			if w.kind.name != "mutex" && w.kind.name != "writer" {
				return // it is as these
			}
			const ours = 3
			lasts := min(500*stay, 3*time.Second)
			ctx, end := context.WithTimeout(background, lasts)
			defer end()
			each := w.inTurns(ctx, ours, stay, func(c *holdfast.Client) holdfast.Locker { return w.lock(c) })
			theirs := w.oneOfRedissons(ctx, stay)()
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
	fakeLines(t, func(t *testing.T, w *world) {
		w.do("HSET", "x", w.kind.field(ofRedisson), "1")
		if w.kind.mode != "" {
			w.do("HSET", "x", "mode", w.kind.mode)
		}
		w.do("PEXPIRE", "x", "600000")
		var waiters []*standing
		for range 12 {
			waiters = append(waiters, w.line())
		}
		time.Sleep(10 * time.Second)
		listen := func() string { return w.ask("PUBSUB", "NUMSUB", w.kind.channel("x"))[1] }
		if n := listen(); n != "8" {
			t.Errorf("%s listen for Redisson's release", n)
		}
		w.do("DEL", "x")
		w.do("PUBLISH", w.kind.channel("x"), "0")
		released := time.Now()
		h := waiters[0].within(t, released, 0)
		w.wantInLine(waiters[1:]...)
		time.Sleep(10 * time.Second) // the holder begins to listen after one
		if n := listen(); n != "1" {
			t.Errorf("%s listen beside a holder of ours, want it alone", n)
		}
		for _, s := range waiters[1:] {
			released = time.Now()
			unlock(t, h)
			h = s.within(t, released, 0)
			synctest.Wait() // who has held it for long listens no more, or the next release is left to it
		}
		unlock(t, h)
	})
}

// L9: whichever way the lock gets free without a release, the first of the line has it within a second, and the others keep their
// places.
func TestLineL9_FreeWithoutARelease(t *testing.T) {
	ways := map[string]struct {
		free func(t *testing.T, w *world)
		most time.Duration
	}{
		"deleted": {func(_ *testing.T, w *world) { w.do("DEL", "x") }, 1500 * time.Millisecond},
		"expired": {func(_ *testing.T, w *world) {
			w.do("PEXPIRE", "x", "1500")
			time.Sleep(1500 * time.Millisecond)
		}, 10 * time.Millisecond}, // the first knows when
		"forced": {func(t *testing.T, w *world) {
			c, _ := w.client()
			if did, err := w.lock(c).ForceUnlock(background); !did || err != nil {
				t.Error(did, err)
			}
		}, 0},
		"tried": {func(t *testing.T, w *world) {
			c, _ := w.client()
			w.do("DEL", "x")
			_, err := w.lock(c).TryLock(background)
			wantError(t, err, holdfast.ErrLocked)
		}, 0},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			fakeStanding(t, func(t *testing.T, w *world) {
				h := w.lineHolder()
				first, second, third := w.line(), w.line(), w.line()
				time.Sleep(1230 * time.Millisecond)
				way.free(t, w)
				free := time.Now()
				next := first.within(t, free, way.most)
				w.wantInLine(second, third)
				wantError(t, h.Unlock(), holdfast.ErrLost)
				time.Sleep(holdfast.DefaultLease + time.Second)
				w.wantCount("x", first.owner, 1)
				unlock(t, next)
				unlock(t, second.within(t, time.Now(), 0))
				unlock(t, third.hold(t))
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
				fake(t, func(t *testing.T, w *world) {
					h := w.lineHolder()
					listens := w.line()
					listens.cancel(nil)
					w.wantInLine()
					before := time.Now().Add(-time.Minute).UnixMicro()
					for i := range dead {
						owner := fmt.Sprintf("%s:%d", cmp.Or(way.client, listens.c.ID()), 1000+i)
						w.do("ZADD", lineKey("x"), fmt.Sprint(before), owner)
						if way.ask != "" {
							w.do("HSET", asksKey("x"), owner, strings.ReplaceAll(way.ask, "UNTIL", hour(time.Now())))
						}
					}
					alive := w.line()
					asks := count(alive.d)
					released, most := time.Now(), time.Duration(0)
					unlock(t, h)
					if dead > 31 { // more than one release drops
						most = 4500 * time.Millisecond
					}
					unlock(t, alive.within(t, released, most))
					if n := asks.of("acquire"); n > 2 {
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
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		var waiters []*standing
		for range 12 {
			waiters = append(waiters, w.line())
		}
		w.do("DEL", lineKey("x"), asksKey("x"))
		for _, s := range waiters {
			s.d.LoseMessages(true)
			s.d.LoseMessages(false)
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		w.wantInLine(waiters...)
		for _, s := range waiters {
			released := time.Now()
			unlock(t, h)
			h = s.within(t, released, 0)
		}
		unlock(t, h)
	})
}

// L15: what does not stand in line goes on beside it.
func TestLineL15_BesideTheLine(t *testing.T) {
	t.Run("nested", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *world) {
			if !w.kind.nests {
				return
			}
			h := w.lineHolder()
			c, _ := w.client()
			ctx := holdfast.WithOwner(background, c.NewOwner())
			first, second := w.line(), w.line()
			unlock(t, h)
			h = first.hold(t)
			inner := must(t)(w.kind.lock(first.c, "x").Lock(h.Context()))
			w.wantCount("x", first.owner, 2)
			unlock(t, h)
			w.wantCount("x", first.owner, 1)
			w.wantInLine(second)
			_, err := w.lock(c).Lock(ctx, holdfast.Wait(100*time.Millisecond))
			wantError(t, err, holdfast.ErrLocked)
			w.wantInLine(second) // who has given up has left
			released := time.Now()
			unlock(t, inner)
			unlock(t, second.within(t, released, 0))
		})
	})
	t.Run("MinHold", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *world) {
			h := w.lineHolder(holdfast.MinHold(10 * time.Second))
			held := time.Now()
			first, second := w.line(), w.line()
			unlock(t, h)
			w.wantInLine(first, second)
			h = first.within(t, held, 10*time.Second+20*time.Millisecond)
			if early := first.granted.Sub(held); early < 10*time.Second {
				t.Errorf("it got the lock after %v", early)
			}
			unlock(t, h)
			unlock(t, second.hold(t))
			// One in line that wants it is granted the lock, and keeps it as long.
			h = w.lineHolder()
			first, second = w.line(holdfast.MinHold(10*time.Second)), w.line()
			unlock(t, h)
			released := time.Now()
			unlock(t, first.within(t, released, 0))
			unlock(t, second.hold(t))
			if kept := second.granted.Sub(released); kept < 10*time.Second || kept > 10*time.Second+20*time.Millisecond {
				t.Errorf("it was kept for %v", kept)
			}
		})
	})
	t.Run("Polling", func(t *testing.T) {
		fake(t, func(t *testing.T, w *world) {
			h := w.lineHolder()
			c, d := w.client()
			polls := w.waitAs(c, d, c.NewMutex("x", holdfast.Polling(10*time.Millisecond, 10*time.Millisecond)))
			first := w.line()
			w.wantInLine(first)
			released := time.Now()
			unlock(t, h)
			h = first.within(t, released, 0)
			time.Sleep(time.Second)
			unlock(t, h)
			unlock(t, polls.within(t, time.Now(), 10*time.Millisecond))
		})
	})
	t.Run("FixedLease", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *world) {
			h := w.lineHolder()
			first, second := w.line(holdfast.FixedLease(10*time.Second)), w.line()
			released := time.Now()
			unlock(t, h)
			h = first.within(t, released, 0)
			if left := time.Until(h.Deadline()); left < 9*time.Second || left > 10*time.Second {
				t.Errorf("it is trusted for %v", left)
			}
			next := second.within(t, released, 10*time.Second+20*time.Millisecond)
			wantLost(t, h)
			unlock(t, next)
		})
	})
	t.Run("Detach", func(t *testing.T) {
		fakeStanding(t, func(t *testing.T, w *world) {
			h := w.lineHolder()
			first := w.line()
			time.Sleep(2 * time.Second)
			owner, err := h.Detach()
			ok(t, err)
			time.Sleep(2 * time.Second)
			w.wantInLine(first)
			c, _ := w.client()
			h = must(t)(w.lock(c).Adopt(background, owner))
			w.wantInLine(first)
			time.Sleep(time.Minute)
			released := time.Now()
			unlock(t, h)
			unlock(t, first.within(t, released, 0))
		})
	})
}

// L16: a TryLock is refused while one who lives stands in line, also when nobody holds the lock; not for the dead.
func TestLineL16_TryLock(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		c, _ := w.client()
		s := w.line()
		w.do("DEL", "x") // in the moment between two holds
		_, err := w.lock(c).TryLock(background)
		wantError(t, err, holdfast.ErrLocked)
		wantError(t, h.Unlock(), holdfast.ErrLost)
		h = s.hold(t)
		w.wantInLine() // who has tried does not stand there
		dead := w.line()
		dead.d.LoseMessages(true)
		silent(dead.d, lostRequest)
		time.Sleep(3*w.asksEvery() + 10*time.Millisecond)
		unlock(t, h)
		unlock(t, must(t)(w.lock(c).TryLock(background)))
		dead.cancel(nil)
	})
}

// L17: what began with a message passes on in the process, and is trusted for no longer for that.
func TestLineL17_HandedOver(t *testing.T) {
	fake(t, func(t *testing.T, w *world) {
		if testclient.WithoutHandOver() {
			return
		}
		h := w.lineHolder()
		c, d := w.client()
		x := w.lock(c)
		first := waiting(t, x, background)
		second := waiting(t, x, background)
		third := waiting(t, x, background)
		time.Sleep(400 * time.Millisecond)
		silent(d, lostRequest)
		asked := time.Now().Add(-400 * time.Millisecond)
		unlock(t, h)
		for _, waits := range []<-chan *holdfast.Hold{first, second} {
			h = wantSoon(t, waits)
			if h.Deadline().After(asked.Add(grantLasts)) {
				t.Errorf("it is trusted until %v after the ask", h.Deadline().Sub(asked))
			}
			unlock(t, h)
		}
		if lost := lostAt(t, wantSoon(t, third), asked); lost > grantLasts || lost < grantLasts/2 {
			t.Errorf("lost %v after the ask", lost)
		}
		d.SetFaults(nil)
		time.Sleep(time.Minute)
	})
}

// L18: an ask arrives when nobody waits for its answer, and is granted the lock. It is given back at the latest when the caller is
// certain that it may have arrived.
func TestLineL18_GrantedToNobody(t *testing.T) {
	for _, lost := range []bool{false, true} {
		fakeStanding(t, func(t *testing.T, w *world) {
			h := w.lineHolder()
			s := w.line()
			next := w.line()
			s.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
				switch call.Script.Name() {
				case "acquire":
					f.LoseReply = true
				case "leave":
					f.LoseRequest = lost && time.Since(s.entered) < 3*time.Second
				}
				return f
			})
			time.Sleep(time.Until(s.entered.Add(w.asksEvery() + 100*time.Millisecond)))
			s.cancel(nil)
			time.Sleep(100 * time.Millisecond)
			released := time.Now()
			unlock(t, h)
			unlock(t, next.within(t, released, grantLasts+w.asksEvery()))
			time.Sleep(10 * time.Second)
			w.wantInLine()
		})
	}
}

// L19: a message lets in nobody if it is not the answer to the last ask: forged, old, of another waiter, or junk.
func TestLineL19_ForgedMessages(t *testing.T) {
	fakeStanding(t, func(t *testing.T, w *world) {
		h := w.lineHolder()
		s, other := w.line(), w.line()
		old := w.number(s)
		time.Sleep(2 * w.asksEvery())
		if old == "" || w.number(s) == old {
			t.Fatalf("the number of its ask is %q, as it was", old)
		}
		asks := count(s.d)
		said := []string{
			old, w.number(other), "0", "1", "-1", "9007199254740993", "junk", " ", "\x00", strings.Repeat("9", 100_000), "1 " + s.owner.String(),
			s.owner.String(), w.number(s) + " 5", w.number(s) + " -5", w.number(s) + " x", w.number(s) + " 999999", w.number(s) + " ", " " + w.number(s), w.number(s) + "\n",
		}
		for range 1000 {
			said = append(said, fmt.Sprintf("%x", time.Now().UnixNano()+int64(len(said))))
		}
		for _, payload := range said {
			w.do("PUBLISH", channel(s.c), payload)
			if !s.waits() {
				t.Fatalf("%.50q let it in: %v", payload, s.err)
			}
		}
		time.Sleep(time.Second)
		if n := asks.of("acquire"); n > 20 { // it is told to ask by some
			t.Errorf("it has asked %d times", n)
		}
		w.wantCount("x", h.Owner(), 1)
		w.wantInLine(s, other)
		released := time.Now()
		unlock(t, h)
		h = s.within(t, released, 0)
		w.do("PUBLISH", channel(other.c), old)
		if !other.waits() {
			t.Error("the number of another let it in")
		}
		unlock(t, h)
		unlock(t, other.hold(t))
	})
}

// Those who only wait ask some hundred times a second, all together, and if the lock is given back only the next one asks, if anybody.
func TestLineOfManyThatWait(t *testing.T) {
	const processes = 250 // if each of them asked once a second, as the first do, they would ask 250 times a second
	fakeStanding(t, func(t *testing.T, w *world) {
		if w.kind != mutexKind && w.kind.name != "fair" {
			return // many take long
		}
		h := w.lineHolder()
		first := w.line()
		seen := &calls{n: map[string]int{}}
		var mu sync.Mutex
		var got []int
		var all sync.WaitGroup
		for i := range processes {
			c, d := w.client()
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				seen.mu.Lock()
				defer seen.mu.Unlock()
				seen.n[call.Script.Name()]++
				return memdriver.Fault{}
			})
			all.Go(func() {
				h, err := w.lock(c).Lock(background)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				got = append(got, i)
				mu.Unlock()
				unlock(t, h)
			})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(12 * time.Second) // all have asked twice, and know how many they are
		before := seen.all()
		time.Sleep(10 * time.Second)
		if n := seen.all() - before; n > 10*110 {
			t.Errorf("%d asks in 10 s", n)
		} else {
			t.Logf("%d asks in 10 s", n)
		}
		unlock(t, h)
		h = first.hold(t)
		synctest.Wait() // who has held it for long listens no more, or the next release is left to it
		before = seen.all()
		released := time.Now()
		unlock(t, h)
		all.Wait()
		// A release, and an ask of one whose last one is old.
		if n := seen.all() - before; n > 2*processes || time.Since(released) > 0 {
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
	fakeStanding(t, func(t *testing.T, w *world) {
		if w.kind != mutexKind && w.kind.name != "fair" {
			return // many take long
		}
		seen := &calls{n: map[string]int{}}
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
			c, d := w.client()
			d.SetFaults(func(call driver.Call) memdriver.Fault {
				seen.mu.Lock()
				defer seen.mu.Unlock()
				seen.n[call.Script.Name()]++
				return memdriver.Fault{DelayRequest: time.Millisecond, DelayReply: time.Millisecond}
			})
			all.Go(func() {
				for ctx.Err() == nil {
					h, err := w.lock(c).Lock(ctx)
					if err != nil {
						continue
					}
					if inside.Add(1) > 1 {
						t.Error("two are inside")
					}
					holds[i].Add(1)
					time.Sleep(stay)
					inside.Add(-1)
					unlock(t, h)
				}
			})
		}
		time.Sleep(2 * time.Second) // all stand in line
		before, scripts := counted(), seen.all()
		const lasts = 6 * time.Second
		time.Sleep(lasts)
		turns, fewest, most := 0, 1<<30, 0
		for i, after := range counted() {
			n := int(after - before[i])
			turns, fewest, most = turns+n, min(fewest, n), max(most, n)
		}
		scripts = seen.all() - scripts
		asks := 8*int(lasts/w.asksEvery()) + int(lasts/(12*time.Millisecond)) // of those who wait
		t.Logf("%d turns, from %d to %d each, %d scripts: %v", turns, fewest, most, scripts, maps.Clone(seen.n))
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
