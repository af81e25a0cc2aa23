package line

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The line of a read-write lock, where both sides stand. What holds for the writer's side alone is tested with the mutex: see
// everyLock.

// rwStage is a stage of a read-write lock, whose hold and wait are the writer's.
type rwStage struct{ *stage }

func fakeRW(t *testing.T, f func(s rwStage)) {
	t.Helper()
	fake(t, kindNamed("writer"), func(s *stage) { f(rwStage{s}) })
}

// rw is the lock as a client of its own has it.
func (s rwStage) rw(options ...holdfast.RWOption) *holdfast.RWMutex {
	s.Helper()
	c, _ := s.Client()
	return c.NewRWMutex("x", options...)
}

// read has another client read.
func (s rwStage) read() *holdfast.Hold {
	s.Helper()
	return kit.Must(s.T)(s.rw().RLock(background))
}

// reader has a client of its own wait to read. It stands in line then, as the last.
func (s rwStage) reader() *kit.Standing {
	s.Helper()
	c, d := s.Client()
	return s.enter(func() *kit.Standing {
		w := s.WaitAs(c, d, kit.Reader()(c, "x"))
		w.Field = w.Owner.String()
		return w
	})
}

// preferred has a client of its own wait to write with WritersFirst: it has a place in front.
func (s rwStage) preferred() *kit.Standing {
	s.Helper()
	c, d := s.Client()
	w := s.WaitAs(c, d, kit.Writer(holdfast.WritersFirst())(c, "x"))
	if all := s.inLine(); !slices.Contains(all, w.Field) {
		s.Fatalf("%s does not stand in line, but %v", w.Field, all)
	}
	time.Sleep(time.Millisecond) // so nobody else comes in the same moment
	return w
}

// wantWaiting checks that they wait still.
func (s rwStage) wantWaiting(waiters ...*kit.Standing) {
	s.Helper()
	for _, w := range waiters {
		if !w.Waits() {
			s.Errorf("%s was let in", w.Field)
		}
	}
}

// A release lets in the writer that is first, or the readers before the next writer, each at once. A reader that leaves others
// reading lets in nobody.
func TestRWLineInOrder(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r1, r2, w1, r3, w2, w3 := s.reader(), s.reader(), s.wait(), s.reader(), s.wait(), s.wait()
		s.wantLine(r1, r2, w1, r3, w2, w3)
		seen := kit.Count(w1.D)
		released := s.release(h)
		h1, h2 := r1.Within(s.T, released, 0), r2.Within(s.T, released, 0)
		s.wantLine(w1, r3, w2, w3)
		s.release(h1)
		s.wantWaiting(w1, r3)
		h = s.next(h2, w1, 0)
		if n := seen.All(); n > 0 {
			s.Errorf("who is let in by a message has asked %d times", n)
		}
		s.wantLine(r3, w2, w3)
		s.turns(h, r3, w2, w3)
		s.wantLine()
	})
}

// What is granted is as if it had been acquired, for as long as a grant lasts, and has its full lease soon.
func TestRWLineGrants(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		readers, w := []*kit.Standing{s.reader(), s.reader()}, s.wait()
		s.release(h)
		synctest.Wait()
		for _, r := range readers {
			if n := kit.ReadCounts(s.Ask, "x")[r.Field]; n != 1 || kit.ReadTTL(s.Ask, "x", r.Field) != kit.GrantLasts {
				s.Errorf("%s reads %d times, for %v", r.Field, n, kit.ReadTTL(s.Ask, "x", r.Field))
			}
		}
		s.WantReply("read", "HGET", "x", "mode")
		time.Sleep(kit.AsksEvery + 10*time.Millisecond)
		for _, r := range readers {
			h := r.Hold(s.T)
			if left := time.Until(h.Deadline()); left < holdfast.DefaultLease*9/10 || kit.ReadTTL(s.Ask, "x", r.Field) < left {
				s.Errorf("a second later it is trusted for %v, and stands for %v", left, kit.ReadTTL(s.Ask, "x", r.Field))
			}
			s.release(h)
		}
		h = w.Hold(s.T)
		s.WantReply("write", "HGET", "x", "mode")
		s.release(h)
	})
}

// A release lets in so many readers at most, and has the next one ask. The others join within a second.
func TestRWLineOfManyReaders(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		const most, all = 64, 70
		h := s.heldByOther()
		readers := several(all, s.reader)
		w := s.wait()
		var holds []*holdfast.Hold
		released := s.release(h)
		s.wantLine(append(slices.Clone(readers[most+1:]), w)...)
		for i, r := range readers {
			within := time.Duration(0)
			if i > most {
				within = kit.AsksEvery
			}
			holds = append(holds, r.Within(s.T, released, within))
		}
		s.wantLine(w)
		for _, h := range holds {
			s.wantWaiting(w)
			released = s.release(h)
		}
		s.release(w.Within(s.T, released, 0))
	})
}

// Readers join readers past the line, as ever, and so does one that stands there, behind a writer, when it asks.
func TestRWLineReadersJoin(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r1, w, r2 := s.reader(), s.wait(), s.reader()
		released := s.release(h)
		h1 := r1.Within(s.T, released, 0)
		s.release(s.read())
		h2 := r2.Within(s.T, released, kit.AsksEvery)
		s.wantLine(w)
		s.release(h1)
		s.turns(h2, w)
	})
}

// A writer with WritersFirst has the lock before readers that came before it, and no reader joins; so has the next one. Readers follow in
// the order in which they came.
func TestRWLineWritersFirst(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r1, w1, r2, w2 := s.reader(), s.preferred(), s.reader(), s.preferred()
		s.wantLine(w1, w2, r1, r2)
		h = s.next(h, w1, 0)
		s.wantLine(w2, r1, r2)
		h = s.next(h, w2, 0)
		s.wantLine(r1, r2)
		released := s.release(h)
		h1, h2 := r1.Within(s.T, released, 0), r2.Within(s.T, released, 0)

		w3, r3, w4 := s.preferred(), s.reader(), s.preferred() // it makes way
		s.wantLine(w3, w4, r3)
		s.release(h1)
		kit.Fails(s.T, holdfast.ErrLocked)(s.rw().RLocker().TryLock(background))
		s.turns(h2, w3, w4, r3)
	})
}

// A writer that waits behind another of its process does not ask, and nobody makes way for it, whoever chose its owner.
func TestRWLineReservedByNobodyBehind(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r, plain := s.reader(), s.wait()
		behind := kit.Waiting(s.T, plain.C.NewRWMutex("x", holdfast.WritersFirst()), holdfast.WithOwner(background, plain.C.NewOwner()))
		s.wantLine(r, plain)
		s.turns(h, r, plain)
		s.release(<-behind)
	})
}

// Readers who made way come in when the writer gives up, at once; when it dies, once nobody believes in it any more.
func TestRWLineReaderBehindAWriter(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		for _, dies := range []bool{false, true} {
			h := s.read()
			w, r := s.preferred(), s.reader()
			s.wantLine(w, r)
			most := time.Duration(0)
			if dies {
				cutOff(w)
				most = 4 * kit.AsksEvery // it is believed for three times as long as it asks
			}
			w.Cancel(nil)
			s.release(r.Within(s.T, time.Now(), most))
			s.release(h)
			back(w)
			time.Sleep(10 * time.Second)
			s.wantLine()
		}
	})
}

// R3: a writer for whom others make way neither hears nor asks when it is let in. A reader behind it has the lock within five seconds.
func TestRWLineR3_TheDeaf(t *testing.T) {
	for offset := time.Duration(0); offset < kit.AsksEvery; offset += 130 * time.Millisecond {
		fakeRW(t, func(s rwStage) {
			h := s.read()
			dead, alive := s.preferred(), s.reader()
			time.Sleep(offset)
			cutOff(dead)
			s.release(s.next(h, alive, 5*time.Second))
			dead.Cancel(nil)
			time.Sleep(2 * time.Minute)
		})
	}
}

// R1: one gives up that was let in, and does not know. The next one has the lock at once; beside a reader that reads on, nobody.
func TestRWLineR1_Leaving(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r1, r2, w1, r3 := deafen(s.reader()), s.reader(), deafen(s.wait()), s.reader()
		h = s.next(h, r2, 0)
		if n := len(kit.ReadCounts(s.Ask, "x")); n != 2 {
			s.Errorf("%d read", n)
		}
		r1.Cancel(nil)
		synctest.Wait()
		s.WantReply("1", "HGET", "x", r2.Field)
		s.WantReply("2", "HLEN", "x")
		s.wantLine(w1, r3)
		s.release(h)
		synctest.Wait()
		s.WantReply("1", "HGET", "x", w1.Field)
		w1.Cancel(nil)
		s.release(r3.Within(s.T, time.Now(), 0))
	})
}

// R9: whoever finds that those who read have died lets in the first of the line.
func TestRWLineDeadReaders(t *testing.T) {
	for _, finds := range []string{"the first", "another one", "the last reader"} {
		fakeRW(t, func(s rwStage) {
			last := s.read()
			w1, w2 := s.wait(), s.wait()
			s.Do("HSET", "x", "ffffffff-0000-8000-8000-000000000000:1", "1")
			died, most := time.Now(), time.Duration(0)
			if finds == "the last reader" {
				s.release(last)
			} else {
				s.Do("HDEL", "x", last.Owner().String())
				s.Do("DEL", protocol.ReadHoldKey("x", last.Owner().String(), 1))
			}
			switch finds {
			case "the first":
				most = kit.AsksEvery
			case "another one":
				kit.Fails(s.T, holdfast.ErrLocked)(s.newLock().TryLock(background))
			}
			s.turns(w1.Within(s.T, died, most), w2)
		})
	}
}

// R10: whoever no longer listens is passed over, on either side, and in front.
func TestRWLineTheDead(t *testing.T) {
	const reads, writes = "ffffffff-0000-8000-8000-000000000000:1", "ffffffff-0000-8000-8000-000000000000:2:write"
	dies := func(s rwStage, field, score string) {
		s.Do("ZADD", kit.WaitlistKey("x"), score, field)
		s.Do("HSET", kit.RequestsKey("x"), field, "n 3000 9999999999999 0")
	}
	for _, score := range []string{"1", "-1"} {
		fakeRW(t, func(s rwStage) {
			h := s.heldByOther()
			dies(s, reads, "1")
			dies(s, writes, score)
			r, w := s.reader(), s.wait()
			s.release(s.next(h, r, 0))
			s.release(w.Hold(s.T))
		})
	}
	fakeRW(t, func(s rwStage) { // readers do not make way for it
		h := s.read()
		dies(s, writes, "-8123456789012345")
		alive, r := s.preferred(), s.reader()
		dies(s, writes, "-8123456789012345")
		kit.Fails(s.T, holdfast.ErrLocked)(s.rw().RLocker().TryLock(background))
		s.wantLine(alive, r)
		s.turns(h, alive, r)
		h = s.read()
		dies(s, writes, "-8123456789012345")
		s.release(kit.Must(s.T)(s.rw().RLocker().TryLock(background)))
		s.wantLine()
		s.release(h)
	})
}

// Readers come in when the writer goes on as a reader, also if MinHold keeps the lock for it: those before the next writer at once.
func TestRWLineDowngrade(t *testing.T) {
	for _, options := range [][]holdfast.LockOption{nil, {holdfast.MinHold(10 * time.Second)}} {
		fakeRW(t, func(s rwStage) {
			m := s.rw()
			write := kit.Must(s.T)(m.Lock(background, options...))
			r1, w, r2 := s.reader(), s.wait(), s.reader()
			downgraded := time.Now()
			read := kit.Must(s.T)(m.Downgrade(write))
			h1 := r1.Within(s.T, downgraded, 0)
			s.wantWaiting(w, r2)
			h2 := r2.Within(s.T, downgraded, kit.AsksEvery)
			s.release(read)
			s.release(h1)
			released := s.release(h2)
			if options != nil {
				released = downgraded.Add(10 * time.Second)
			}
			s.release(w.Within(s.T, released, 20*time.Millisecond))
		})
	}
}

// A forced unlock of either side lets in the next one, and does not take the lock from that one.
func TestRWLineForce(t *testing.T) {
	for _, writes := range []bool{false, true} {
		fakeRW(t, func(s rwStage) {
			lock, force := s.read, s.rw().RLocker().ForceUnlock
			if writes {
				lock, force = func() *holdfast.Hold { return s.heldByOther() }, s.rw().ForceUnlock
			}
			h := lock()
			w, r := s.preferred(), s.reader()
			forced := time.Now()
			if did, err := force(background); !did || err != nil {
				s.Error(did, err)
			}
			next := w.Within(s.T, forced, 0)
			kit.WantError(s.T, h.Unlock(), holdfast.ErrLost)
			time.Sleep(5 * time.Second)
			s.turns(next, r)
		})
	}
}

// R15: what an owner that holds the lock asks for beside it stands in no line: a nested hold, the other side, and an upgrade.
func TestRWLineR15_BesideTheLine(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r, w := s.reader(), s.wait()
		h = s.next(h, r, 0)
		m := r.C.NewRWMutex("x")
		inner := kit.Must(s.T)(m.RLock(h.Context()))
		kit.Fails(s.T, holdfast.ErrReentrant)(m.Lock(h.Context()))
		s.wantLine(w)
		s.release(inner)
		h = s.next(h, w, 0)
		again := s.wait()
		inner = kit.Must(s.T)(w.C.NewRWMutex("x").RLock(h.Context()))
		s.wantLine(again)
		s.release(h)
		s.wantWaiting(again)
		s.turns(inner, again)
	})
}

// R18: an ask of a reader that nobody waits for any more stands in line late, and is let in. That is given back.
func TestRWLineR18_GrantedToNobody(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		h := s.heldByOther()
		r, w := s.reader(), s.wait()
		kit.Every(r.D, "acquire", memdriver.Fault{DelayRequest: 1500 * time.Millisecond})
		time.Sleep(kit.AsksEvery + 100*time.Millisecond) // an ask is on its way
		r.Cancel(nil)
		s.wantLine(w)
		time.Sleep(10 * time.Second)
		s.wantLine(w)
		s.turns(h, w)
	})
}

// R8: one of Redisson's reads, too. The first of the line listen for its release, and have the lock at once.
func TestRWLineR8_RedissonReads(t *testing.T) {
	for range 5 { // whoever comes first in the hash
		fakeRW(t, func(s rwStage) {
			ours := []*holdfast.Hold{s.read(), s.read(), s.read(), s.read()}
			w := s.wait()
			if n := s.listen(); n != "0" {
				s.Errorf("%s listen beside readers of ours", n)
			}
			j := kit.NewRedisson(s.World, "x", "ffffffff-0000-4000-8000-000000000000:1")
			if !j.Read(30 * time.Second) {
				s.Fatal("it does not read")
			}
			time.Sleep(kit.AsksEvery) // it asks, and learns that
			for _, h := range ours {
				s.release(h) // which listened as well, having read for long
			}
			if n := s.listen(); n != "1" {
				s.Errorf("%s listen for Redisson's release", n)
			}
			s.wantWaiting(w)
			time.Sleep(100 * time.Millisecond)
			left := time.Now()
			j.ReadNoMore()
			s.release(w.Within(s.T, left, 0))
		})
	}
}

// What is left in line of an owner that reads, of an ask of long ago, is dropped, and its count stays.
func TestRWLineOfOneWhoReads(t *testing.T) {
	fakeRW(t, func(s rwStage) {
		c, _ := s.Client()
		m := c.NewRWMutex("x")
		write := kit.Must(s.T)(m.Lock(background))
		other := s.reader()
		read := kit.Must(s.T)(m.RLock(write.Context()))
		again := kit.Must(s.T)(m.RLock(read.Context()))
		owner := read.Owner().String()
		s.Do("ZADD", kit.WaitlistKey("x"), "1", owner)
		s.Do("HSET", kit.RequestsKey("x"), owner, "n 3000 9999999999999 0")
		listener := s.listeningOn("holdfast_granted:"+c.ID(), func() {})
		defer listener.Close()
		released := s.release(write)
		s.WantReply("2", "HGET", "x", owner)
		s.release(other.Within(s.T, released, 0))
		s.release(again)
		s.release(read)
		s.wantLine()
	})
}

// Who takes a free lock past more of the dead than one call drops does not stand in line any more.
func TestRWLinePastTheDead(t *testing.T) {
	for _, reads := range []bool{false, true} {
		fakeRW(t, func(s rwStage) {
			h := s.heldByOther()
			for i := range 150 { // the release drops some of them, and the ask as well
				s.Do("ZADD", kit.WaitlistKey("x"), "1", fmt.Sprint("ffffffff-0000-8000-8000-000000000000:", i))
			}
			wait := func() *kit.Standing { return s.wait() }
			if reads {
				wait = s.reader
			}
			w := wait()
			h = s.next(h, w, 2*kit.AsksEvery)
			if all := s.inLine(); slices.Contains(all, w.Field) {
				s.Errorf("in line stand %v", all)
			}
			s.release(h)
			s.Do("DEL", kit.WaitlistKey("x"))
		})
	}
}
