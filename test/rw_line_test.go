package test

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/memdriver"
)

// The line of a read-write lock, where both sides stand. What holds for the writer's side alone is tested with the mutex: see
// fakeLines.

// reader and writer have a client of its own wait, which stands in line then, as the last.
func (w *world) reader() *standing {
	w.t.Helper()
	c, d := w.client()
	return w.stands(w.waitAs(c, d, c.NewRWMutex("x").RLocker()))
}

func (w *world) writer(options ...holdfast.RWOption) *standing {
	w.t.Helper()
	c, d := w.client()
	s := w.waitAs(c, d, c.NewRWMutex("x", options...))
	s.field = protocol.WriterField(s.field)
	return w.stands(s)
}

// reads and writes have another client hold the lock.
func (w *world) reads() *holdfast.Hold {
	w.t.Helper()
	c, _ := w.client()
	return must(w.t)(c.NewRWMutex("x").RLock(background))
}

func (w *world) writes() *holdfast.Hold {
	w.t.Helper()
	c, _ := w.client()
	return must(w.t)(c.NewRWMutex("x").Lock(background))
}

// A release lets in the writer that is first, or the readers before the next writer, each at once. A reader that leaves others
// reading lets in nobody.
func TestRWLineInOrder(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r1, r2, w1, r3, w2, w3 := l.reader(), l.reader(), l.writer(), l.reader(), l.writer(), l.writer()
		l.wantInLine(r1, r2, w1, r3, w2, w3)
		seen := count(w1.d)
		released := time.Now()
		unlock(t, h)
		h1, h2 := r1.within(t, released, 0), r2.within(t, released, 0)
		l.wantInLine(w1, r3, w2, w3)
		unlock(t, h1)
		if synctest.Wait(); !w1.waits() || !r3.waits() {
			t.Error("one was let in beside a reader")
		}
		unlock(t, h2)
		h = w1.within(t, released, 0)
		if n := seen.all(); n > 0 {
			t.Errorf("who is let in by a message has asked %d times", n)
		}
		l.wantInLine(r3, w2, w3)
		unlock(t, h)
		unlock(t, r3.within(t, released, 0))
		unlock(t, w2.within(t, released, 0))
		unlock(t, w3.within(t, released, 0))
		l.wantInLine()
	})
}

// What is granted is as if it had been acquired, for as long as a grant lasts, and has its full lease soon.
func TestRWLineGrants(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		first, second, w := l.reader(), l.reader(), l.writer()
		unlock(t, h)
		reads := []*holdfast.Hold{first.hold(t), second.hold(t)}
		for _, s := range []*standing{first, second} {
			if n := readCounts(l.ask, "x")[s.field]; n != 1 || readTTL(l.ask, "x", s.field) != grantLasts {
				t.Errorf("%s reads %d times, for %v", s.field, n, readTTL(l.ask, "x", s.field))
			}
		}
		l.wantReply("read", "HGET", "x", "mode")
		time.Sleep(asksEvery + 10*time.Millisecond)
		for i, s := range []*standing{first, second} {
			if left := time.Until(reads[i].Deadline()); left < holdfast.DefaultLease*9/10 || readTTL(l.ask, "x", s.field) < left {
				t.Errorf("a second later it is trusted for %v, and stands for %v", left, readTTL(l.ask, "x", s.field))
			}
			synctest.Wait() // who has held it for long listens no more, or the next release is left to it
			unlock(t, reads[i])
		}
		h = w.hold(t)
		l.wantReply("write", "HGET", "x", "mode")
		if n := l.pttl("x"); n != grantLasts {
			t.Errorf("the writer was granted it for %v", n)
		}
		unlock(t, h)
	})
}

// A release lets in so many readers at most. The others join within a second.
func TestRWLineOfManyReaders(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		const most, all = 64, 70
		h := l.writes()
		var readers []*standing
		for range all {
			readers = append(readers, l.reader())
		}
		w := l.writer()
		var holds []*holdfast.Hold
		released := time.Now()
		unlock(t, h)
		l.wantInLine(append(slices.Clone(readers[most:]), w)...)
		for i, s := range readers {
			within := time.Duration(0)
			if i >= most {
				within = asksEvery
			}
			holds = append(holds, s.within(t, released, within))
		}
		l.wantInLine(w)
		for _, h := range holds {
			if !w.waits() {
				t.Error("the writer is in beside readers")
			}
			synctest.Wait() // who has held it for long listens no more
			unlock(t, h)
		}
		unlock(t, w.within(t, time.Now(), 0))
	})
}

// Readers join readers past the line, as ever, and so does one that stands there, behind a writer, when it asks.
func TestRWLineReadersJoin(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r1, w, r2 := l.reader(), l.writer(), l.reader()
		released := time.Now()
		unlock(t, h)
		h1 := r1.within(t, released, 0)
		unlock(t, l.reads())
		h2 := r2.within(t, released, asksEvery)
		l.wantInLine(w)
		unlock(t, h1)
		synctest.Wait() // who has held it for long listens no more
		unlock(t, h2)
		unlock(t, w.within(t, time.Now(), 0))
	})
}

// A writer for whom others make way has the lock before readers who came before it, and no reader joins; so has one that waits behind
// it. Without a reservation it is as they came.
func TestRWLineWritersFirst(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r1 := l.reader()
		w1 := l.writer(holdfast.WritersFirst())
		r2 := l.reader()
		w2 := l.writer(holdfast.WritersFirst())
		l.wantInLine(r1, w1, r2, w2)
		released := time.Now()
		unlock(t, h)
		h = w1.within(t, released, 0)
		l.wantInLine(r1, r2, w2)
		unlock(t, h)
		h = w2.within(t, released, 0)
		l.wantInLine(r1, r2)
		l.wantReply("0", "EXISTS", protocol.ReservationKey("x"))
		unlock(t, h)
		h1, h2 := r1.within(t, released, 0), r2.within(t, released, 0)

		w3 := l.writer(holdfast.WritersFirst())
		r3 := l.reader() // it makes way
		l.wantInLine(w3, r3)
		unlock(t, h1)
		unlock(t, h2)
		released = time.Now()
		unlock(t, w3.within(t, released, 0))
		unlock(t, r3.within(t, released, 0))
	})
}

// A writer for whom others make way does not stand in line: it listens elsewhere. Readers who stand there wait for it.
func TestRWLineReservedOutside(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r := l.reader()
		l.do("SET", protocol.ReservationKey("x"), "ffffffff-0000-8000-8000-000000000000:1", "PX", "2500")
		unlock(t, h)
		l.wantInLine(r)
		l.wantReply("0", "EXISTS", "x")
		unlock(t, r.within(t, time.Now(), 2500*time.Millisecond+asksEvery))
	})
}

// A writer that waits behind another of its process does not ask, and nobody makes way for it, whoever chose its owner.
func TestRWLineReservedByNobodyBehind(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r := l.reader()
		c, d := l.client()
		m := c.NewRWMutex("x", holdfast.WritersFirst())
		plain := l.waitAs(c, d, c.NewRWMutex("x"))
		behind := waiting(t, m, holdfast.WithOwner(background, c.NewOwner()))
		l.wantReply("0", "EXISTS", protocol.ReservationKey("x"))
		released := time.Now()
		unlock(t, h)
		unlock(t, r.within(t, released, 0))
		unlock(t, plain.within(t, released, 0))
		unlock(t, <-behind)
	})
}

// Readers who made way come in when the writer gives up, at once; when it dies, once nobody believes in it any more.
func TestRWLineReaderBehindAWriter(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		for _, dies := range []bool{false, true} {
			h := l.reads()
			w := l.writer(holdfast.WritersFirst())
			r := l.reader()
			l.wantInLine(w, r)
			most := time.Duration(0)
			if dies {
				w.d.LoseMessages(true)
				silent(w.d, lostRequest)
				most = protocol.Reservation + asksEvery
			}
			w.cancel(nil)
			unlock(t, r.within(t, time.Now(), most))
			unlock(t, h)
			w.d.LoseMessages(false)
			w.d.SetFaults(nil)
			time.Sleep(10 * time.Second)
			l.wantInLine()
		}
	})
}

// L1: one gives up that was let in, and does not know. The next one has the lock at once; beside a reader that reads on, nobody.
func TestRWLineL1_Leaving(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		deaf := func(s *standing) *standing {
			s.d.LoseMessages(true)
			return s
		}
		h := l.writes()
		r1, r2, w1, r3 := deaf(l.reader()), l.reader(), deaf(l.writer()), l.reader()
		unlock(t, h)
		h = r2.hold(t)
		if n := len(readCounts(l.ask, "x")); n != 2 {
			t.Errorf("%d read", n)
		}
		r1.cancel(nil)
		synctest.Wait()
		l.wantReply("1", "HGET", "x", r2.field)
		l.wantReply("2", "HLEN", "x")
		l.wantInLine(w1, r3)
		unlock(t, h)
		synctest.Wait()
		l.wantReply("1", "HGET", "x", w1.field)
		released := time.Now()
		w1.cancel(nil)
		unlock(t, r3.within(t, released, 0))
	})
}

// L9: whoever finds that those who read have died lets in the first of the line.
func TestRWLineDeadReaders(t *testing.T) {
	for _, finds := range []string{"the first", "another one", "the last reader"} {
		fake(t, func(t *testing.T, l *world) {
			const dead = "ffffffff-0000-8000-8000-000000000000:1"
			last := l.reads()
			w1, w2 := l.writer(), l.writer()
			l.do("HSET", "x", dead, "1")
			released := time.Now()
			most := time.Duration(0)
			if finds != "the last reader" {
				l.do("HDEL", "x", last.Owner().String())
				l.do("DEL", protocol.ReadHoldKey("x", last.Owner().String(), 1))
			}
			switch finds {
			case "the first":
				most = asksEvery
			case "another one":
				c, _ := l.client()
				_, err := c.NewRWMutex("x").TryLock(background)
				wantError(t, err, holdfast.ErrLocked)
			case "the last reader":
				unlock(t, last)
			}
			unlock(t, w1.within(t, released, most))
			unlock(t, w2.hold(t))
		})
	}
}

// L10: whoever no longer listens is passed over, on either side.
func TestRWLineTheDead(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		for _, field := range []string{"ffffffff-0000-8000-8000-000000000000:1", "ffffffff-0000-8000-8000-000000000000:2:write"} {
			l.do("ZADD", lineKey("x"), "1", field)
			l.do("HSET", asksKey("x"), field, "n 3000 9999999999999 0")
		}
		r, w := l.reader(), l.writer()
		released := time.Now()
		unlock(t, h)
		unlock(t, r.within(t, released, 0))
		unlock(t, w.within(t, released, 0))

		// One of them has reserved the lock: that ends when it is dropped, and readers come in when they ask.
		h = l.writes()
		l.do("SET", protocol.ReservationKey("x"), "ffffffff-0000-8000-8000-000000000000:2", "PX", "4500")
		l.do("ZADD", lineKey("x"), "1", "ffffffff-0000-8000-8000-000000000000:2:write")
		r = l.reader()
		released = time.Now()
		unlock(t, h)
		unlock(t, r.within(t, released, asksEvery))
		l.wantReply("0", "EXISTS", protocol.ReservationKey("x"))
	})
}

// Readers come in when the writer goes on as a reader: those before the next writer at once.
func TestRWLineDowngrade(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		c, _ := l.client()
		m := c.NewRWMutex("x")
		write := must(t)(m.Lock(background))
		r1, w, r2 := l.reader(), l.writer(), l.reader()
		released := time.Now()
		read := must(t)(m.Downgrade(write))
		h1 := r1.within(t, released, 0)
		if synctest.Wait(); !w.waits() || !r2.waits() {
			t.Error("a writer, or who stands behind it, was let in by a reader")
		}
		h2 := r2.within(t, released, asksEvery)
		for _, h := range []*holdfast.Hold{read, h1, h2} {
			synctest.Wait() // who has held it for long listens no more
			unlock(t, h)
		}
		unlock(t, w.within(t, time.Now(), 0))
	})
}

// A forced unlock of either side lets in the next one, and does not take the lock from that one.
func TestRWLineForce(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		c, _ := l.client()
		m := c.NewRWMutex("x")
		for _, writes := range []bool{false, true} {
			h, force := l.reads(), m.RLocker().ForceUnlock
			if writes {
				unlock(t, h)
				h, force = l.writes(), m.ForceUnlock
			}
			w, r := l.writer(holdfast.WritersFirst()), l.reader()
			forced := time.Now()
			if did, err := force(background); !did || err != nil {
				t.Error(did, err)
			}
			next := w.within(t, forced, 0)
			wantError(t, h.Unlock(), holdfast.ErrLost)
			time.Sleep(5 * time.Second)
			if err := context.Cause(next.Context()); err != nil {
				t.Errorf("the next one: %v", err)
			}
			unlock(t, next)
			unlock(t, r.hold(t))
		}
	})
}

// L15: what an owner that holds the lock asks for beside it stands in no line: a nested hold, the other side, and an upgrade.
func TestRWLineL15_BesideTheLine(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r, w := l.reader(), l.writer()
		unlock(t, h)
		h = r.hold(t)
		m := r.c.NewRWMutex("x")
		inner := must(t)(m.RLock(h.Context()))
		_, err := m.Lock(h.Context())
		wantError(t, err, holdfast.ErrReentrant)
		l.wantInLine(w)
		unlock(t, inner)
		unlock(t, h)
		h = w.hold(t)
		again := l.writer()
		m = w.c.NewRWMutex("x")
		inner = must(t)(m.RLock(h.Context()))
		l.wantInLine(again)
		unlock(t, h)
		if synctest.Wait(); !again.waits() {
			t.Error("a writer was let in beside a reader")
		}
		unlock(t, inner)
		unlock(t, again.within(t, time.Now(), 0))
	})
}

// L16: TryLock and TryRLock are refused while one who lives stands in line, also when nobody holds the lock.
func TestRWLineL16_Try(t *testing.T) {
	for _, reads := range []bool{false, true} {
		fake(t, func(t *testing.T, l *world) {
			h := l.writes()
			w := l.writer()
			c, _ := l.client()
			m := c.NewRWMutex("x")
			l.do("DEL", "x") // in the moment between two holds
			var err error
			if reads {
				_, err = m.TryRLock(background)
			} else {
				_, err = m.TryLock(background)
			}
			wantError(t, err, holdfast.ErrLocked)
			wantError(t, h.Unlock(), holdfast.ErrLost)
			unlock(t, w.within(t, time.Now(), 0))
		})
	}
}

// L18: an ask of a reader that nobody waits for any more stands in line late, and is let in. That is given back.
func TestRWLineL18_GrantedToNobody(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		h := l.writes()
		r := l.reader()
		w := l.writer()
		r.d.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "acquire" {
				f.DelayRequest = 1500 * time.Millisecond
			}
			return f
		})
		time.Sleep(asksEvery + 100*time.Millisecond) // an ask is on its way
		r.cancel(nil)
		l.wantInLine(w)
		time.Sleep(10 * time.Second)
		l.wantInLine(w)
		unlock(t, h)
		unlock(t, w.within(t, time.Now(), 0))
	})
}

// One of Redisson's reads, too. The first of the line listen for its release, and have the lock at once.
func TestRWLineL8_RedissonReads(t *testing.T) {
	for range 5 { // whoever comes first in the hash
		fake(t, func(t *testing.T, l *world) {
			h := l.reads()
			more := []*holdfast.Hold{l.reads(), l.reads(), l.reads()}
			w := l.writer()
			l.wantReply(protocol.RWChannel("x")+" 0", "PUBSUB", "NUMSUB", protocol.RWChannel("x"))
			j := newRedisson(l, "x", ofRedisson)
			if !j.read(30 * time.Second) {
				t.Fatal("it does not read")
			}
			time.Sleep(asksEvery) // it asks, and learns that
			for _, h := range append(more, h) {
				unlock(t, h) // which listened as well, having read for long
			}
			synctest.Wait()
			l.wantReply(protocol.RWChannel("x")+" 1", "PUBSUB", "NUMSUB", protocol.RWChannel("x"))
			if synctest.Wait(); !w.waits() {
				t.Error("it writes beside a reader")
			}
			time.Sleep(100 * time.Millisecond)
			left := time.Now()
			j.readNoMore()
			unlock(t, w.within(t, left, 0))
		})
	}
}

// What is left in line of an owner that reads, of an ask of long ago, is dropped, and its count stays.
func TestRWLineOfOneWhoReads(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		c, _ := l.client()
		m := c.NewRWMutex("x")
		write := must(t)(m.Lock(background))
		other := l.reader()
		read := must(t)(m.RLock(write.Context()))
		again := must(t)(m.RLock(read.Context()))
		owner := read.Owner().String()
		l.do("ZADD", lineKey("x"), "1", owner)
		l.do("HSET", asksKey("x"), owner, "n 3000 9999999999999 0")
		listener := l.server.Driver().Listen(func(driver.Event) {})
		defer listener.Close()
		listener.Subscribe(channel(c))
		synctest.Wait()
		unlock(t, write)
		l.wantReply("2", "HGET", "x", owner)
		unlock(t, other.within(t, time.Now(), 0))
		unlock(t, again)
		unlock(t, read)
		l.wantInLine()
	})
}

// Who takes a free lock past more of the dead than one call drops does not stand in line any more.
func TestRWLinePastTheDead(t *testing.T) {
	for _, reads := range []bool{false, true} {
		fake(t, func(t *testing.T, l *world) {
			h := l.writes()
			for i := range 150 { // the release drops some of them, and the ask as well
				l.do("ZADD", lineKey("x"), "1", "ffffffff-0000-8000-8000-000000000000:"+strconv.Itoa(i))
			}
			var s *standing
			if reads {
				s = l.reader()
			} else {
				s = l.writer()
			}
			released := time.Now()
			unlock(t, h)
			h = s.within(t, released, 2*asksEvery)
			if all := l.inLine(); slices.Contains(all, s.field) {
				t.Errorf("in line stand %v", all)
			}
			unlock(t, h)
			l.do("DEL", lineKey("x"))
		})
	}
}

// A writer that MinHold keeps the lock for goes on as a reader: readers come in at once.
func TestRWLineMinHold(t *testing.T) {
	fake(t, func(t *testing.T, l *world) {
		c, _ := l.client()
		m := c.NewRWMutex("x")
		write := must(t)(m.Lock(background, holdfast.MinHold(10*time.Second)))
		r := l.reader()
		released := time.Now()
		read := must(t)(m.Downgrade(write))
		unlock(t, r.within(t, released, 0))
		unlock(t, read)

		// Else the first of the line is told, and asks when it ends.
		locked := time.Now()
		write = must(t)(m.Lock(background, holdfast.MinHold(300*time.Millisecond)))
		w := l.writer()
		unlock(t, write)
		unlock(t, w.within(t, locked, 320*time.Millisecond))
	})
}
