package line

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
	"github.com/holdfast-go/holdfast/test/kit"
)

// The line of a read-write lock, where both sides stand. What holds for the writer's side alone is tested with the mutex: see
// fakeLines.

// reader and writer have a client of its own wait, which stands in line then, as the last.
func reader(w *kit.World) *kit.Standing {
	w.T.Helper()
	c, d := w.Client()
	return stands(w, w.WaitAs(c, d, c.NewRWMutex("x").RLocker()))
}

func writer(w *kit.World, options ...holdfast.RWOption) *kit.Standing {
	w.T.Helper()
	c, d := w.Client()
	s := w.WaitAs(c, d, c.NewRWMutex("x", options...))
	s.Field = protocol.WriterField(s.Field)
	return stands(w, s)
}

// readerHolds and writes have another client hold the lock.
func readerHolds(w *kit.World) *holdfast.Hold {
	w.T.Helper()
	c, _ := w.Client()
	return kit.Must(w.T)(c.NewRWMutex("x").RLock(background))
}

func writerHolds(w *kit.World) *holdfast.Hold {
	w.T.Helper()
	c, _ := w.Client()
	return kit.Must(w.T)(c.NewRWMutex("x").Lock(background))
}

// A release lets in the writer that is first, or the readers before the next writer, each at once. A reader that leaves others
// reading lets in nobody.
func TestRWLineInOrder(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r1, r2, w1, r3, w2, w3 := reader(l), reader(l), writer(l), reader(l), writer(l), writer(l)
		wantInLine(l, r1, r2, w1, r3, w2, w3)
		seen := kit.Count(w1.D)
		released := time.Now()
		kit.Unlock(t, h)
		h1, h2 := r1.Within(t, released, 0), r2.Within(t, released, 0)
		wantInLine(l, w1, r3, w2, w3)
		kit.Unlock(t, h1)
		if synctest.Wait(); !w1.Waits() || !r3.Waits() {
			t.Error("one was let in beside a reader")
		}
		kit.Unlock(t, h2)
		h = w1.Within(t, released, 0)
		if n := seen.All(); n > 0 {
			t.Errorf("who is let in by a message has asked %d times", n)
		}
		wantInLine(l, r3, w2, w3)
		kit.Unlock(t, h)
		kit.Unlock(t, r3.Within(t, released, 0))
		kit.Unlock(t, w2.Within(t, released, 0))
		kit.Unlock(t, w3.Within(t, released, 0))
		wantInLine(l)
	})
}

// What is granted is as if it had been acquired, for as long as a grant lasts, and has its full lease soon.
func TestRWLineGrants(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		first, second, w := reader(l), reader(l), writer(l)
		kit.Unlock(t, h)
		reads := []*holdfast.Hold{first.Hold(t), second.Hold(t)}
		for _, s := range []*kit.Standing{first, second} {
			if n := kit.ReadCounts(l.Ask, "x")[s.Field]; n != 1 || kit.ReadTTL(l.Ask, "x", s.Field) != kit.GrantLasts {
				t.Errorf("%s reads %d times, for %v", s.Field, n, kit.ReadTTL(l.Ask, "x", s.Field))
			}
		}
		l.WantReply("read", "HGET", "x", "mode")
		time.Sleep(kit.AsksEvery + 10*time.Millisecond)
		for i, s := range []*kit.Standing{first, second} {
			if left := time.Until(reads[i].Deadline()); left < holdfast.DefaultLease*9/10 || kit.ReadTTL(l.Ask, "x", s.Field) < left {
				t.Errorf("a second later it is trusted for %v, and stands for %v", left, kit.ReadTTL(l.Ask, "x", s.Field))
			}
			synctest.Wait() // who has held it for long listens no more, or the next release is left to it
			kit.Unlock(t, reads[i])
		}
		h = w.Hold(t)
		l.WantReply("write", "HGET", "x", "mode")
		if n := l.PTTL("x"); n != kit.GrantLasts {
			t.Errorf("the writer was granted it for %v", n)
		}
		kit.Unlock(t, h)
	})
}

// A release lets in so many readers at most. The others join within a second.
func TestRWLineOfManyReaders(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		const most, all = 64, 70
		h := writerHolds(l)
		readers := several(all, func() *kit.Standing { return reader(l) })
		w := writer(l)
		var holds []*holdfast.Hold
		released := time.Now()
		kit.Unlock(t, h)
		wantInLine(l, append(slices.Clone(readers[most:]), w)...)
		for i, s := range readers {
			within := time.Duration(0)
			if i >= most {
				within = kit.AsksEvery
			}
			holds = append(holds, s.Within(t, released, within))
		}
		wantInLine(l, w)
		for _, h := range holds {
			if !w.Waits() {
				t.Error("the writer is in beside readers")
			}
			synctest.Wait() // who has held it for long listens no more
			kit.Unlock(t, h)
		}
		kit.Unlock(t, w.Within(t, time.Now(), 0))
	})
}

// Readers join readers past the line, as ever, and so does one that stands there, behind a writer, when it asks.
func TestRWLineReadersJoin(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r1, w, r2 := reader(l), writer(l), reader(l)
		released := time.Now()
		kit.Unlock(t, h)
		h1 := r1.Within(t, released, 0)
		kit.Unlock(t, readerHolds(l))
		h2 := r2.Within(t, released, kit.AsksEvery)
		wantInLine(l, w)
		kit.Unlock(t, h1)
		synctest.Wait() // who has held it for long listens no more
		kit.Unlock(t, h2)
		kit.Unlock(t, w.Within(t, time.Now(), 0))
	})
}

// A writer for whom others make way has the lock before readers who came before it, and no reader joins; so has one that waits behind
// it. Without a reservation it is as they came.
func TestRWLineWritersFirst(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r1 := reader(l)
		w1 := writer(l, holdfast.WritersFirst())
		r2 := reader(l)
		w2 := writer(l, holdfast.WritersFirst())
		wantInLine(l, r1, w1, r2, w2)
		released := time.Now()
		kit.Unlock(t, h)
		h = w1.Within(t, released, 0)
		wantInLine(l, r1, r2, w2)
		kit.Unlock(t, h)
		h = w2.Within(t, released, 0)
		wantInLine(l, r1, r2)
		l.WantReply("0", "EXISTS", protocol.ReservationKey("x"))
		kit.Unlock(t, h)
		h1, h2 := r1.Within(t, released, 0), r2.Within(t, released, 0)

		w3 := writer(l, holdfast.WritersFirst())
		r3 := reader(l) // it makes way
		wantInLine(l, w3, r3)
		kit.Unlock(t, h1)
		kit.Unlock(t, h2)
		released = time.Now()
		kit.Unlock(t, w3.Within(t, released, 0))
		kit.Unlock(t, r3.Within(t, released, 0))
	})
}

// A writer for whom others make way does not stand in line: it listens elsewhere. Readers who stand there wait for it.
func TestRWLineReservedOutside(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r := reader(l)
		l.Do("SET", protocol.ReservationKey("x"), "ffffffff-0000-8000-8000-000000000000:1", "PX", "2500")
		kit.Unlock(t, h)
		wantInLine(l, r)
		l.WantReply("0", "EXISTS", "x")
		kit.Unlock(t, r.Within(t, time.Now(), 2500*time.Millisecond+kit.AsksEvery))
	})
}

// A writer that waits behind another of its process does not ask, and nobody makes way for it, whoever chose its owner.
func TestRWLineReservedByNobodyBehind(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r := reader(l)
		c, d := l.Client()
		m := c.NewRWMutex("x", holdfast.WritersFirst())
		plain := l.WaitAs(c, d, c.NewRWMutex("x"))
		behind := kit.Waiting(t, m, holdfast.WithOwner(background, c.NewOwner()))
		l.WantReply("0", "EXISTS", protocol.ReservationKey("x"))
		released := time.Now()
		kit.Unlock(t, h)
		kit.Unlock(t, r.Within(t, released, 0))
		kit.Unlock(t, plain.Within(t, released, 0))
		kit.Unlock(t, <-behind)
	})
}

// Readers who made way come in when the writer gives up, at once; when it dies, once nobody believes in it any more.
func TestRWLineReaderBehindAWriter(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		for _, dies := range []bool{false, true} {
			h := readerHolds(l)
			w := writer(l, holdfast.WritersFirst())
			r := reader(l)
			wantInLine(l, w, r)
			most := time.Duration(0)
			if dies {
				w.D.LoseMessages(true)
				kit.Silent(w.D, kit.LostRequest)
				most = protocol.Reservation + kit.AsksEvery
			}
			w.Cancel(nil)
			kit.Unlock(t, r.Within(t, time.Now(), most))
			kit.Unlock(t, h)
			w.D.LoseMessages(false)
			w.D.SetFaults(nil)
			time.Sleep(10 * time.Second)
			wantInLine(l)
		}
	})
}

// L1: one gives up that was let in, and does not know. The next one has the lock at once; beside a reader that reads on, nobody.
func TestRWLineL1_Leaving(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		deaf := func(s *kit.Standing) *kit.Standing {
			s.D.LoseMessages(true)
			return s
		}
		h := writerHolds(l)
		r1, r2, w1, r3 := deaf(reader(l)), reader(l), deaf(writer(l)), reader(l)
		kit.Unlock(t, h)
		h = r2.Hold(t)
		if n := len(kit.ReadCounts(l.Ask, "x")); n != 2 {
			t.Errorf("%d read", n)
		}
		r1.Cancel(nil)
		synctest.Wait()
		l.WantReply("1", "HGET", "x", r2.Field)
		l.WantReply("2", "HLEN", "x")
		wantInLine(l, w1, r3)
		kit.Unlock(t, h)
		synctest.Wait()
		l.WantReply("1", "HGET", "x", w1.Field)
		released := time.Now()
		w1.Cancel(nil)
		kit.Unlock(t, r3.Within(t, released, 0))
	})
}

// L9: whoever finds that those who read have died lets in the first of the line.
func TestRWLineDeadReaders(t *testing.T) {
	for _, finds := range []string{"the first", "another one", "the last reader"} {
		kit.Fake(t, func(t *testing.T, l *kit.World) {
			const dead = "ffffffff-0000-8000-8000-000000000000:1"
			last := readerHolds(l)
			w1, w2 := writer(l), writer(l)
			l.Do("HSET", "x", dead, "1")
			released := time.Now()
			most := time.Duration(0)
			if finds != "the last reader" {
				l.Do("HDEL", "x", last.Owner().String())
				l.Do("DEL", protocol.ReadHoldKey("x", last.Owner().String(), 1))
			}
			switch finds {
			case "the first":
				most = kit.AsksEvery
			case "another one":
				c, _ := l.Client()
				kit.Fails(t, holdfast.ErrLocked)(c.NewRWMutex("x").TryLock(background))
			case "the last reader":
				kit.Unlock(t, last)
			}
			kit.Unlock(t, w1.Within(t, released, most))
			kit.Unlock(t, w2.Hold(t))
		})
	}
}

// L10: whoever no longer listens is passed over, on either side.
func TestRWLineTheDead(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		for _, field := range []string{"ffffffff-0000-8000-8000-000000000000:1", "ffffffff-0000-8000-8000-000000000000:2:write"} {
			l.Do("ZADD", kit.LineKey("x"), "1", field)
			l.Do("HSET", kit.AsksKey("x"), field, "n 3000 9999999999999 0")
		}
		r, w := reader(l), writer(l)
		released := time.Now()
		kit.Unlock(t, h)
		kit.Unlock(t, r.Within(t, released, 0))
		kit.Unlock(t, w.Within(t, released, 0))

		// One of them has reserved the lock: that ends when it is dropped, and readers come in when they ask.
		h = writerHolds(l)
		l.Do("SET", protocol.ReservationKey("x"), "ffffffff-0000-8000-8000-000000000000:2", "PX", "4500")
		l.Do("ZADD", kit.LineKey("x"), "1", "ffffffff-0000-8000-8000-000000000000:2:write")
		r = reader(l)
		released = time.Now()
		kit.Unlock(t, h)
		kit.Unlock(t, r.Within(t, released, kit.AsksEvery))
		l.WantReply("0", "EXISTS", protocol.ReservationKey("x"))
	})
}

// Readers come in when the writer goes on as a reader: those before the next writer at once.
func TestRWLineDowngrade(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		c, _ := l.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background))
		r1, w, r2 := reader(l), writer(l), reader(l)
		released := time.Now()
		read := kit.Must(t)(m.Downgrade(write))
		h1 := r1.Within(t, released, 0)
		if synctest.Wait(); !w.Waits() || !r2.Waits() {
			t.Error("a writer, or who stands behind it, was let in by a reader")
		}
		h2 := r2.Within(t, released, kit.AsksEvery)
		for _, h := range []*holdfast.Hold{read, h1, h2} {
			synctest.Wait() // who has held it for long listens no more
			kit.Unlock(t, h)
		}
		kit.Unlock(t, w.Within(t, time.Now(), 0))
	})
}

// A forced unlock of either side lets in the next one, and does not take the lock from that one.
func TestRWLineForce(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		c, _ := l.Client()
		m := c.NewRWMutex("x")
		for _, writes := range []bool{false, true} {
			h, force := readerHolds(l), m.RLocker().ForceUnlock
			if writes {
				kit.Unlock(t, h)
				h, force = writerHolds(l), m.ForceUnlock
			}
			w, r := writer(l, holdfast.WritersFirst()), reader(l)
			forced := time.Now()
			if did, err := force(background); !did || err != nil {
				t.Error(did, err)
			}
			next := w.Within(t, forced, 0)
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
			time.Sleep(5 * time.Second)
			if err := context.Cause(next.Context()); err != nil {
				t.Errorf("the next one: %v", err)
			}
			kit.Unlock(t, next)
			kit.Unlock(t, r.Hold(t))
		}
	})
}

// L15: what an owner that holds the lock asks for beside it stands in no line: a nested hold, the other side, and an upgrade.
func TestRWLineL15_BesideTheLine(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r, w := reader(l), writer(l)
		kit.Unlock(t, h)
		h = r.Hold(t)
		m := r.C.NewRWMutex("x")
		inner := kit.Must(t)(m.RLock(h.Context()))
		kit.Fails(t, holdfast.ErrReentrant)(m.Lock(h.Context()))
		wantInLine(l, w)
		kit.Unlock(t, inner)
		kit.Unlock(t, h)
		h = w.Hold(t)
		again := writer(l)
		m = w.C.NewRWMutex("x")
		inner = kit.Must(t)(m.RLock(h.Context()))
		wantInLine(l, again)
		kit.Unlock(t, h)
		if synctest.Wait(); !again.Waits() {
			t.Error("a writer was let in beside a reader")
		}
		kit.Unlock(t, inner)
		kit.Unlock(t, again.Within(t, time.Now(), 0))
	})
}

// L16: TryLock and TryRLock are refused while one who lives stands in line, also when nobody holds the lock.
func TestRWLineL16_Try(t *testing.T) {
	for _, reads := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, l *kit.World) {
			h := writerHolds(l)
			w := writer(l)
			c, _ := l.Client()
			m := c.NewRWMutex("x")
			l.Do("DEL", "x") // in the moment between two holds
			var err error
			if reads {
				_, err = m.TryRLock(background)
			} else {
				_, err = m.TryLock(background)
			}
			kit.WantError(t, err, holdfast.ErrLocked)
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
			kit.Unlock(t, w.Within(t, time.Now(), 0))
		})
	}
}

// L18: an ask of a reader that nobody waits for any more stands in line late, and is let in. That is given back.
func TestRWLineL18_GrantedToNobody(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		h := writerHolds(l)
		r := reader(l)
		w := writer(l)
		r.D.SetFaults(func(call driver.Call) (f memdriver.Fault) {
			if call.Script.Name() == "acquire" {
				f.DelayRequest = 1500 * time.Millisecond
			}
			return f
		})
		time.Sleep(kit.AsksEvery + 100*time.Millisecond) // an ask is on its way
		r.Cancel(nil)
		wantInLine(l, w)
		time.Sleep(10 * time.Second)
		wantInLine(l, w)
		kit.Unlock(t, h)
		kit.Unlock(t, w.Within(t, time.Now(), 0))
	})
}

// One of Redisson's reads, too. The first of the line listen for its release, and have the lock at once.
func TestRWLineL8_RedissonReads(t *testing.T) {
	for range 5 { // whoever comes first in the hash
		kit.Fake(t, func(t *testing.T, l *kit.World) {
			h := readerHolds(l)
			more := []*holdfast.Hold{readerHolds(l), readerHolds(l), readerHolds(l)}
			w := writer(l)
			l.WantReply(protocol.RWChannel("x")+" 0", "PUBSUB", "NUMSUB", protocol.RWChannel("x"))
			j := kit.NewRedisson(l, "x", ofRedisson)
			if !j.Read(30 * time.Second) {
				t.Fatal("it does not read")
			}
			time.Sleep(kit.AsksEvery) // it asks, and learns that
			for _, h := range append(more, h) {
				kit.Unlock(t, h) // which listened as well, having read for long
			}
			synctest.Wait()
			l.WantReply(protocol.RWChannel("x")+" 1", "PUBSUB", "NUMSUB", protocol.RWChannel("x"))
			if synctest.Wait(); !w.Waits() {
				t.Error("it writes beside a reader")
			}
			time.Sleep(100 * time.Millisecond)
			left := time.Now()
			j.ReadNoMore()
			kit.Unlock(t, w.Within(t, left, 0))
		})
	}
}

// What is left in line of an owner that reads, of an ask of long ago, is dropped, and its count stays.
func TestRWLineOfOneWhoReads(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		c, _ := l.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background))
		other := reader(l)
		read := kit.Must(t)(m.RLock(write.Context()))
		again := kit.Must(t)(m.RLock(read.Context()))
		owner := read.Owner().String()
		l.Do("ZADD", kit.LineKey("x"), "1", owner)
		l.Do("HSET", kit.AsksKey("x"), owner, "n 3000 9999999999999 0")
		listener := l.Server.Driver().Listen(func(driver.Event) {})
		defer listener.Close()
		listener.Subscribe(channel(c))
		synctest.Wait()
		kit.Unlock(t, write)
		l.WantReply("2", "HGET", "x", owner)
		kit.Unlock(t, other.Within(t, time.Now(), 0))
		kit.Unlock(t, again)
		kit.Unlock(t, read)
		wantInLine(l)
	})
}

// Who takes a free lock past more of the dead than one call drops does not stand in line any more.
func TestRWLinePastTheDead(t *testing.T) {
	for _, reads := range []bool{false, true} {
		kit.Fake(t, func(t *testing.T, l *kit.World) {
			h := writerHolds(l)
			for i := range 150 { // the release drops some of them, and the ask as well
				l.Do("ZADD", kit.LineKey("x"), "1", "ffffffff-0000-8000-8000-000000000000:"+strconv.Itoa(i))
			}
			var s *kit.Standing
			if reads {
				s = reader(l)
			} else {
				s = writer(l)
			}
			released := time.Now()
			kit.Unlock(t, h)
			h = s.Within(t, released, 2*kit.AsksEvery)
			if all := inLine(l); slices.Contains(all, s.Field) {
				t.Errorf("in line stand %v", all)
			}
			kit.Unlock(t, h)
			l.Do("DEL", kit.LineKey("x"))
		})
	}
}

// A writer that MinHold keeps the lock for goes on as a reader: readers come in at once.
func TestRWLineMinHold(t *testing.T) {
	kit.Fake(t, func(t *testing.T, l *kit.World) {
		c, _ := l.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(t)(m.Lock(background, holdfast.MinHold(10*time.Second)))
		r := reader(l)
		released := time.Now()
		read := kit.Must(t)(m.Downgrade(write))
		kit.Unlock(t, r.Within(t, released, 0))
		kit.Unlock(t, read)

		// Else the first of the line is told, and asks when it ends.
		locked := time.Now()
		write = kit.Must(t)(m.Lock(background, holdfast.MinHold(300*time.Millisecond)))
		w := writer(l)
		kit.Unlock(t, write)
		kit.Unlock(t, w.Within(t, locked, 320*time.Millisecond))
	})
}
