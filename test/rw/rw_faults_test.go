package rw

import (
	"context"
	"errors"
	"fmt"
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

// The read-write lock under fake time.

// S4, S5: what happens to the read side does not touch the renewal of the write
// side, and the reverse.
func TestS4S5_EachSideIsRenewedForItself(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		writing := kit.Must(t)(m.Lock(background))
		reading := kit.Must(t)(m.RLocker().Lock(writing.Context()))
		kit.Unlock(t, reading)
		if did, err := m.RLocker().ForceUnlock(background); did || err != nil {
			t.Errorf("ForceUnlock of readers: %v, %v", did, err)
		}
		time.Sleep(10 * time.Minute)
		if err := writing.Context().Err(); err != nil {
			t.Errorf("the writer is lost: %v", context.Cause(writing.Context()))
		}
		reading = kit.Must(t)(m.Downgrade(writing))
		time.Sleep(10 * time.Minute)
		if err := reading.Context().Err(); err != nil {
			t.Errorf("the reader is lost: %v", context.Cause(reading.Context()))
		}
		kit.Unlock(t, reading)
	})
}

// S8: renewing one reader does not shorten what another was promised.
func TestS8_RenewalDoesNotShortenOthersReads(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		long := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background, holdfast.FixedLease(10*time.Minute)))
		renewed := kit.Must(t)(b.NewRWMutex("x").RLocker().Lock(background))
		time.Sleep(time.Minute)
		if ttl := w.PTTL("x"); ttl < 8*time.Minute {
			t.Errorf("after renewals the lock lives for %v", ttl)
		}
		kit.Away(d) // it crashes
		time.Sleep(time.Minute)
		kit.Fails(t, holdfast.ErrLocked)(a.NewRWMutex("x").TryLock(background))
		d.SetFaults(nil)
		kit.WantError(t, renewed.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, long)
	})
}

// S9: a partial read unlock under a write lock leaves its time alone.
func TestS9_ReadUnlockLeavesTheWritersTime(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		writing := kit.Must(t)(m.Lock(background, holdfast.FixedLease(100*time.Second)))
		one := kit.Must(t)(m.RLocker().Lock(writing.Context(), holdfast.FixedLease(time.Second)))
		two := kit.Must(t)(m.RLocker().Lock(writing.Context(), holdfast.FixedLease(time.Second)))
		kit.Unlock(t, two)
		if ttl := w.PTTL("x"); ttl < 99*time.Second {
			t.Errorf("the lock lives for %v", ttl)
		}
		kit.Unlock(t, one)
		if ttl := w.PTTL("x"); ttl < 99*time.Second {
			t.Errorf("the lock lives for %v", ttl)
		}
		kit.Unlock(t, writing)
	})
}

// S10: whichever of an owner's reads ends first, the others live as long as the
// longest was promised.
func TestS10_PartialReadUnlockKeepsTheLongest(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		short := kit.Must(t)(m.RLocker().Lock(background, holdfast.FixedLease(time.Second)))
		long := kit.Must(t)(m.RLocker().Lock(short.Context(), holdfast.FixedLease(100*time.Second)))
		time.Sleep(2 * time.Second)
		kit.Unlock(t, long)
		if err := short.Context().Err(); err != nil {
			t.Errorf("lost: %v", context.Cause(short.Context()))
		}
		if ttl := w.PTTL("{x}:" + short.Owner().String() + ":rwlock_timeout:1"); ttl < 97*time.Second {
			t.Errorf("the remaining hold lives for %v", ttl)
		}
		kit.Unlock(t, short)
	})
}

// L10 is in package servers (Downgrade). L11: when the lock is going to end earlier
// than a writer was told, it hears of it.
func TestL11_WritersHearThatTheirWaitIsShorter(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, d := w.Client()
		b, _ := w.Client()
		crashed := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background, holdfast.FixedLease(5*time.Second)))
		long := kit.Must(t)(b.NewRWMutex("x").RLocker().Lock(background, holdfast.FixedLease(10*time.Minute)))
		kit.Away(d)
		start := time.Now()
		time.AfterFunc(time.Second, func() { kit.Unlock(t, long) })
		h := kit.Must(t)(b.NewRWMutex("x").Lock(background))
		kit.Took(t, time.Since(start), 5*time.Second, 5100*time.Millisecond, "the writer got in after %v")
		kit.Unlock(t, h)
		d.SetFaults(nil)
		kit.WantError(t, crashed.Unlock(), holdfast.ErrLost)
	})
}

// A12: a nested write hold does not add its lease to the lock's time.
func TestA12_NestedWriteDoesNotAddItsLease(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		outer := kit.Must(t)(m.Lock(background))
		inner := kit.Must(t)(m.Lock(outer.Context()))
		if ttl := w.PTTL("x"); ttl > 30*time.Second {
			t.Errorf("the lock lives for %v", ttl)
		}
		kit.Unlock(t, inner)
		kit.Unlock(t, outer)
	})
}

// P6: a reader who leaves looks at few others if one of them keeps the lock, and
// crashed ones keep nobody out when the last one who lives has left.
func TestP6_CrashedReadersAreDropped(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, d := w.Client()
		b, _ := w.Client()
		var dead []*holdfast.Hold
		for range 10 {
			dead = append(dead, kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background, holdfast.FixedLease(time.Second))))
		}
		kit.Away(d)
		stays := kit.Must(t)(b.NewRWMutex("x").RLocker().Lock(background))
		time.Sleep(2 * time.Second)
		leaves := kit.Must(t)(b.NewRWMutex("x").RLocker().Lock(background))
		kit.Unlock(t, leaves)
		w.WantReply("1", "EXISTS", "x")
		kit.Unlock(t, stays)
		w.WantReply("0", "EXISTS", "x")
		d.SetFaults(nil)
		for _, h := range dead {
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		}
	})
}

// L15: readers who overlap keep a writer out for as long as they like, unless it
// goes first.
func TestL15_WritersFirst(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, _ := w.Client()
				other, _ := w.Client()
				ctx, stop := context.WithCancel(background)
				defer stop()
				m := c.NewRWMutex("x")
				for i := range 2 {
					go func() {
						time.Sleep(time.Duration(i) * 5 * time.Millisecond)
						for ctx.Err() == nil {
							h, err := m.RLocker().Lock(ctx)
							if err != nil {
								return
							}
							time.Sleep(10 * time.Millisecond) // the other one comes in between
							kit.Unlock(t, h)
						}
					}()
				}
				time.Sleep(50 * time.Millisecond)
				var options []holdfast.RWOption
				if first {
					options = append(options, holdfast.WritersFirst())
				}
				h, err := other.NewRWMutex("x", options...).Lock(background, holdfast.Wait(2*time.Second))
				if (err == nil) != first {
					t.Errorf("WritersFirst %v: %v", first, err)
				}
				if err == nil {
					kit.Unlock(t, h)
				}
				stop()
				synctest.Wait()
				time.Sleep(time.Second)
			})
		})
	}
}

// A writer for whom readers make way, and who gives up or dies, is not waited for.
func TestWritersFirst_WhoGivesUp(t *testing.T) {
	for name, dies := range map[string]bool{"gives up": false, "dies": true} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				a, _ := w.Client()
				b, d := w.Client()
				r := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background))
				ctx, cancel := context.WithCancel(background)
				failed := make(chan error)
				go func() {
					_, err := b.NewRWMutex("x", holdfast.WritersFirst()).Lock(ctx)
					failed <- err
				}()
				time.Sleep(time.Second)
				kit.Fails(t, holdfast.ErrLocked)(a.NewRWMutex("x").RLocker().TryLock(background))
				nested := kit.Must(t)(a.NewRWMutex("x").RLocker().TryLock(r.Context()))
				kit.Unlock(t, nested)
				start := time.Now()
				if dies {
					kit.Away(d)
				} else {
					time.AfterFunc(time.Second, cancel)
				}
				r2 := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background))
				took := time.Since(start)
				if !dies && took > 1100*time.Millisecond || took > 11*time.Second {
					t.Errorf("the reader got in after %v", took)
				}
				cancel()
				kit.WantError(t, <-failed, context.Canceled)
				kit.Unlock(t, r)
				kit.Unlock(t, r2)
			})
		})
	}
}

// Each side's calls have their effect once, whatever happens to their messages.
func TestS13_ReadsAndWrites(t *testing.T) {
	for name, fault := range kit.Faults {
		for step := range 6 {
			t.Run(fmt.Sprintf("%s/step %d", name, step), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					c, d := w.Client()
					m := c.NewRWMutex("x")
					at := 0
					before := func(script string) {
						d.SetFaults(nil)
						if at == step {
							kit.Once(d, script, fault)
						}
						at++
					}
					before("acquire")
					writing := kit.Must(t)(m.Lock(background))
					before("acquire")
					one := kit.Must(t)(m.RLocker().Lock(writing.Context()))
					before("acquire")
					two := kit.Must(t)(m.RLocker().Lock(writing.Context()))
					before("release")
					giveUp(t, two)
					before("release")
					giveUp(t, writing)
					before("release")
					giveUp(t, one)
					time.Sleep(time.Minute)
					w.WantReply("", "KEYS", "*")
				})
			})
		}
	}
}

// giveUp unlocks; the answer may be lost, but not the lock.
func giveUp(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	if err := h.Unlock(); errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
}

// A writer who has given up is not waited for, whatever happened to what it
// asked: whether it asked before it stood in line, or its request was delayed.
func TestWritersFirst_WhoseMessagesAreLateGivesUp(t *testing.T) {
	for name, f := range map[string]memdriver.Fault{
		"no answer":        {LoseReply: true},
		"held up":          {DelayRequest: 500 * time.Millisecond},
		"comes twice":      {LoseReply: true, Repeat: true, RepeatAfter: 500 * time.Millisecond},
		"comes back later": {DelayReply: 500 * time.Millisecond},
	} {
		for _, byHand := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/by hand %v", name, byHand), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					a, _ := w.Client()
					b, d := w.Client()
					r := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background))
					kit.Once(d, "acquire", f)
					ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
					defer cancel()
					if byHand {
						ctx = holdfast.WithOwner(ctx, b.NewOwner())
					}
					kit.Fails(t, context.DeadlineExceeded)(b.NewRWMutex("x", holdfast.WritersFirst()).Lock(ctx))
					time.Sleep(4 * time.Second) // its sends' limits
					w.WantReply("0", "EXISTS", "holdfast_next:{x}")
					kit.Unlock(t, r)
				})
			})
		}
	}
}

// The same if it got in by another of its sends, and has left again.
func TestWritersFirst_WhoseMessagesAreLateHasLeft(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		r := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background))
		d := &cutOff{Driver: w.Server.Driver()}
		b, err := testclient.New(d)
		kit.OK(t, err)
		warm := kit.Must(t)(b.NewRWMutex("y").Lock(background)) // it knows the server's clock now
		kit.Unlock(t, warm)
		d.breaks.Store(true)
		time.AfterFunc(10*time.Millisecond, func() { kit.Unlock(t, r) })
		h := kit.Must(t)(b.NewRWMutex("x", holdfast.WritersFirst()).Lock(background))
		kit.Unlock(t, h)
		r = kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background))
		time.Sleep(4 * time.Second)
		w.WantReply("0", "EXISTS", "holdfast_next:{x}")
		kit.Unlock(t, r)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// cutOff is a driver whose connection breaks once, with a request on its way
// that arrives 500 ms later all the same.
type cutOff struct {
	*memdriver.Driver
	breaks atomic.Bool
}

func (d *cutOff) Eval(ctx context.Context, call driver.Call) (any, error) {
	if !d.breaks.Swap(false) {
		return d.Driver.Eval(ctx, call)
	}
	time.AfterFunc(500*time.Millisecond, func() { _, _ = d.Driver.Eval(background, call) })
	return nil, driver.ConnectionError(errors.New("connection reset"), false)
}

// The last reader ends the lock, whatever time it had left: a writer of
// Redisson's that goes on reading leaves its own time on the lock, and would
// keep Redisson's other writers out.
func TestLastReaderEndsTheLock(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		h := kit.Must(t)(c.NewRWMutex("x").RLocker().Lock(background))
		w.Do("PEXPIRE", "x", "600000")
		waiting := make(chan *holdfast.Hold)
		go func() { waiting <- kit.Must(t)(c.NewRWMutex("x").Lock(background)) }()
		time.Sleep(4 * time.Second)
		start := time.Now()
		kit.Unlock(t, h)
		h = <-waiting
		kit.Took(t, time.Since(start), 0, 100*time.Millisecond, "the writer got in after %v")
		kit.Unlock(t, h)
		h = kit.Must(t)(c.NewRWMutex("x").RLocker().Lock(background))
		w.Do("PEXPIRE", "x", "600000")
		kit.Unlock(t, h)
		w.WantReply("0", "EXISTS", "x")
		// Nor do the dead keep it.
		h = kit.Must(t)(c.NewRWMutex("x").RLocker().Lock(background))
		w.Do("HSET", "x", "7b0f2b1e-93a5-8f0e-8a43-5b8d7c9e1f00:1", "1") // one of ours
		w.Do("PEXPIRE", "x", "600000")
		kit.Unlock(t, h)
		w.WantReply("0", "EXISTS", "x")
	})
}

// A forced unlock that leaves readers, who came after it had looked, leaves their
// time too.
func TestForcedReadersTakeTheirTimeWithThem(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, d := w.Client()
		long := kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background, holdfast.FixedLease(10*time.Minute)))
		w.Do("HSET", "x", "7b0f2b1e-93a5-8f0e-8a43-5b8d7c9e1f00:1", "1") // one of ours
		d.SetFaults(func(call driver.Call) memdriver.Fault {
			if call.Script.Name() == "force" {
				return memdriver.Fault{DelayRequest: 100 * time.Millisecond}
			}
			return memdriver.Fault{}
		})
		reads := make(chan *holdfast.Hold)
		time.AfterFunc(50*time.Millisecond, func() {
			reads <- kit.Must(t)(a.NewRWMutex("x").RLocker().Lock(background, holdfast.FixedLease(5*time.Second)))
		})
		go func() {
			if did, err := b.NewRWMutex("x").RLocker().ForceUnlock(background); !did || err != nil {
				t.Errorf("ForceUnlock: %v, %v", did, err)
			}
		}()
		h := <-reads
		time.Sleep(time.Second)
		if ttl := w.PTTL("x"); ttl > 5*time.Second {
			t.Errorf("the lock lives for %v", ttl)
		}
		w.WantReply("0", "HEXISTS", "x", "crashed:1")
		kit.WantError(t, long.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, h)
	})
}

// What a reader has left in Redis, and what is being given back there, does not
// make its owner a reader who wants to write.
func TestNoUpgrade_WhatIsGivenBackDoesNotCount(t *testing.T) {
	for name, f := range map[string]memdriver.Fault{
		"no answer": {LoseReply: true},
		"held up":   {DelayRequest: 150 * time.Millisecond},
	} {
		t.Run("acquire/"+name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				c, d := w.Client()
				m := c.NewRWMutex("x")
				kit.Once(d, "acquire", f)
				ctx := holdfast.WithOwner(background, c.NewOwner())
				giveUp, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				kit.Fails(t, context.DeadlineExceeded)(m.RLocker().Lock(giveUp))
				time.Sleep(100 * time.Millisecond)
				kit.Unlock(t, kit.Must(t)(m.Lock(ctx)))
				time.Sleep(4 * time.Second)
			})
		})
	}
	t.Run("given up", func(t *testing.T) {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			m := c.NewRWMutex("x")
			var lost atomic.Bool
			d.SetFaults(func(c driver.Call) memdriver.Fault {
				return memdriver.Fault{
					LoseReply:    c.Script.Name() == "acquire" && !lost.Swap(true),
					DelayRequest: map[string]time.Duration{"release": 500 * time.Millisecond}[c.Script.Name()],
				}
			})
			ctx := holdfast.WithOwner(background, c.NewOwner())
			giveUp, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			_, err := m.RLocker().Lock(giveUp)
			kit.WantError(t, err, context.DeadlineExceeded)
			// It is not given back yet.
			var failed *holdfast.BackendError
			if _, err = m.Lock(ctx, holdfast.Wait(20*time.Millisecond)); !errors.As(err, &failed) {
				t.Errorf("Lock: %v", err)
			}
			giveUp, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			kit.Fails(t, context.DeadlineExceeded)(m.Lock(giveUp))
			kit.Unlock(t, kit.Must(t)(m.TryLock(ctx)))
			time.Sleep(4 * time.Second)
		})
	})
	t.Run("lost", func(t *testing.T) {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			m := c.NewRWMutex("x")
			ctx := holdfast.WithOwner(background, c.NewOwner())
			h := kit.Must(t)(m.RLocker().Lock(ctx))
			kit.Away(d)
			<-h.Context().Done()
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
			d.SetFaults(nil)
			kit.Unlock(t, kit.Must(t)(m.Lock(ctx)))
			time.Sleep(4 * time.Second)
		})
	})
	t.Run("release", func(t *testing.T) {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			c, d := w.Client()
			m := c.NewRWMutex("x")
			ctx := holdfast.WithOwner(background, c.NewOwner())
			h := kit.Must(t)(m.RLocker().Lock(ctx))
			kit.Away(d)
			var failed *holdfast.BackendError
			if err := h.Unlock(); !errors.As(err, &failed) {
				t.Errorf("Unlock: %v", err)
			}
			d.SetFaults(nil)
			kit.Unlock(t, kit.Must(t)(m.Lock(ctx)))
			time.Sleep(4 * time.Second)
		})
	})
}

// A lock that somebody has made live for ever lives as long as the last of its holds
// once another reader comes, not as long as that one's.
func TestReaderOfALockWithoutExpiry(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		long := kit.Must(t)(m.RLocker().Lock(background, holdfast.FixedLease(10*time.Minute)))
		w.Do("PERSIST", "x")
		short := kit.Must(t)(m.RLocker().Lock(background, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		kit.Fails(t, holdfast.ErrLocked)(m.TryLock(background))
		kit.WantError(t, short.Unlock(), holdfast.ErrLost)
		kit.Unlock(t, long)
	})
}

// Keys that are left of holds whose lock has gone, as after Redisson's forced
// unlock, do not make the owner's next hold longer.
func TestKeysOfALockThatIsGone(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, _ := w.Client()
		m := c.NewRWMutex("x")
		ctx := holdfast.WithOwner(background, c.NewOwner())
		long := kit.Must(t)(m.RLocker().Lock(ctx, holdfast.FixedLease(10*time.Minute)))
		w.Do("DEL", "x")
		kit.WantError(t, long.Unlock(), holdfast.ErrLost)
		stays := kit.Must(t)(m.RLocker().Lock(background))
		short := kit.Must(t)(m.RLocker().Lock(ctx, holdfast.FixedLease(time.Second)))
		time.Sleep(2 * time.Second)
		kit.Unlock(t, stays)
		kit.Unlock(t, kit.Must(t)(m.TryLock(background)))
		kit.WantError(t, short.Unlock(), holdfast.ErrLost)
	})
}

// A reservation that no writer renews is not asked about without a pause. One that somebody has
// made live for ever, or for longer than any writer's, keeps nobody out.
func TestReservationWithoutExpiry(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		c, d := w.Client()
		sent := kit.Count(d)
		readers := c.NewRWMutex("x").RLocker()
		w.Do("SET", "holdfast_next:{x}", "nobody:1", "PX", "20000")
		kit.Fails(t, holdfast.ErrLocked)(readers.Lock(background, holdfast.Wait(10*time.Second)))
		if n := sent.Of("acquire"); n > 3+10 { // who stands in line asks every second
			t.Errorf("asked %d times in 10 s", n)
		}
		for _, lives := range [][]string{nil, {"PX", "86400000"}} {
			w.Do(append([]string{"SET", "holdfast_next:{x}", "nobody:1"}, lives...)...)
			kit.Unlock(t, kit.Must(t)(readers.TryLock(background)))
		}
		w.Do("DEL", "holdfast_next:{x}")
	})
}

// Readers of one process who follow each other without a gap do not keep a writer out for whom others make way,
// though they share what the first of them was granted.
func TestWritersFirst_ReadersWhoShare(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		a, _ := w.Client()
		b, _ := w.Client()
		var readers sync.WaitGroup
		for i := range 400 {
			readers.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				h := kit.Must(t)(a.NewRWMutex("x").RLock(background))
				time.Sleep(8 * time.Millisecond)
				kit.Unlock(t, h)
			})
		}
		time.Sleep(20 * time.Millisecond)
		start := time.Now()
		kit.Unlock(t, kit.Must(t)(b.NewRWMutex("x", holdfast.WritersFirst()).Lock(background)))
		kit.Took(t, time.Since(start), 0, 200*time.Millisecond, "the writer waited for %v")
		readers.Wait()
	})
}
