package line

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/protocol"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// What a waiter keeps to, and the edges of the line.

// soon returns the hold that is to be had by now, or within a moment.
func (s *stage) soon(got <-chan *holdfast.Hold) *holdfast.Hold {
	s.Helper()
	select {
	case h := <-got:
		if h != nil {
			return h
		}
	case <-time.After(10 * time.Millisecond):
	}
	s.Fatal("it does not have the lock")
	return nil
}

// A message that comes when its grant has ended, and the waiter has asked again, is not about that ask.
func TestLineRuleLateMessage(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		by := new(atomic.Int64)
		by.Store(int64(3400 * time.Millisecond))
		c, d := s.slow(by, holdfast.WithTimeout(600*time.Millisecond))
		h := s.heldByOther()
		w := s.waitAs(c, d)
		kit.Away(d)
		s.release(h) // the message will come 3.4 s later, 0.4 s after the grant has ended
		s.wantLine()
		time.Sleep(3010 * time.Millisecond)
		h = kit.Must(s.T)(s.newLock().TryLock(background))
		d.SetFaults(nil)
		time.Sleep(380 * time.Millisecond)
		s.wantLine(w) // it has asked again
		time.Sleep(200 * time.Millisecond)
		if !w.Waits() {
			s.Error("it believes in a grant that has ended")
		}
		s.release(h)
		s.release(w.Hold(s.T))
		time.Sleep(4 * time.Second) // the rest of what was published
	})
}

// A grant message may come before the reply to its request, whether that is the first one of a wait or a later one.
func TestLineRuleEarlyMessage(t *testing.T) {
	for kind, every := range map[string]time.Duration{"mutex": time.Second, "fair": 1500 * time.Millisecond} {
		t.Run(kind, func(t *testing.T) {
			fake(t, kindNamed(kind), func(s *stage) {
				h := s.heldByOther()
				c, d := s.Client()
				w := s.waitAs(c, d)
				time.Sleep(every / 2)
				requests := new(kit.Calls)
				d.SetFaults(func(call driver.Call) memdriver.Fault {
					requests.Note(call)
					return memdriver.Fault{DelayReply: 400 * time.Millisecond}
				})
				time.Sleep(every/2 + 100*time.Millisecond) // it has sent a second request
				h = s.next(h, w, 310*time.Millisecond)
				if n := requests.All(); n != 1 {
					s.Errorf("it has sent %d requests", n)
				}
				d.SetFaults(nil)
				s.release(h)

				h = s.heldByOther()
				d.SetFaults(func(driver.Call) memdriver.Fault { return memdriver.Fault{DelayReply: 400 * time.Millisecond} })
				w = s.waitAs(c, d)
				time.Sleep(100 * time.Millisecond)
				h = s.next(h, w, 310*time.Millisecond)
				d.SetFaults(nil)
				s.release(h)
			})
		})
	}
}

// A hold that needs more than its lease does not begin with a message: Redis is asked, and has it live for as long as it shall.
func TestLineRuleAsksBefore(t *testing.T) {
	for what, row := range map[string]struct {
		kind    string
		options []holdfast.LockOption
		client  []holdfast.ClientOption
		lives   time.Duration
	}{
		"fixed lease": {"mutex", []holdfast.LockOption{holdfast.FixedLease(10 * time.Second)}, nil, 10 * time.Second},
		"MinHold":     {"mutex", []holdfast.LockOption{holdfast.MinHold(5 * time.Second)}, nil, 30 * time.Second},
		"fenced":      {"fenced", nil, nil, 30 * time.Second},
		"replicas":    {"mutex", nil, []holdfast.ClientOption{holdfast.WithReplicaAck(1, time.Second)}, 30 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			fake(t, kindNamed(row.kind), func(s *stage) {
				s.Server.SetReplicas(1)
				h := s.heldByOther()
				c, d := s.Client(row.client...)
				w := s.waitAs(c, d, row.options...)
				calls := kit.Count(d)
				h = s.next(h, w, 0)
				if n := calls.Of("acquire"); n != 1 {
					t.Errorf("it asked %d times", n)
				}
				if lives, left := s.PTTL("x"), time.Until(h.Deadline()); lives != row.lives || left < row.lives*9/10 {
					t.Errorf("the key lives for %v, want %v, and it is trusted for %v", lives, row.lives, left)
				}
				if (h.Token() == 0) == s.Kind.Fenced {
					t.Errorf("the token is %d", h.Token())
				}
				s.release(h)
				time.Sleep(5*time.Second + time.Millisecond) // MinHold
			})
		})
	}
}

// Who does not hear yet does not stand in line: a release would drop it there.
func TestLineRuleHearsFirst(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		h := s.heldByOther()
		d := s.Server.Driver()
		c := s.clientOf(d, hearing{d, func(e driver.Event, sink func(driver.Event)) {
			if e.Kind == driver.Subscribed && strings.HasPrefix(e.Channel, "holdfast_granted") {
				time.AfterFunc(500*time.Millisecond, func() { sink(e) })
				return
			}
			sink(e)
		}})
		w := s.WaitAs(c, d, s.Lock(c))
		time.Sleep(400 * time.Millisecond)
		s.wantLine()
		time.Sleep(200 * time.Millisecond)
		s.wantLine(w)
		s.turns(h, w)
	})
}

// When the one of a process that stands in line has the lock, or gives up, the next of those who wait there stands in line at once.
func TestLineRuleNextStands(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		h := s.heldByOther()
		x, fixed := s.newLock(), holdfast.FixedLease(20*time.Second) // so that it does not pass on
		ctx, cancel := context.WithCancel(background)
		first, second, third := kit.Waiting(s.T, x, ctx, fixed), kit.Waiting(s.T, x, background, fixed), kit.Waiting(s.T, x, background, fixed)
		s.wantStanding(1)
		before := s.inLine()[0]
		cancel()
		<-first
		synctest.Wait()
		if s.wantStanding(1); s.inLine()[0] == before {
			s.Error("who has given up stands there")
		}
		s.release(h)
		h = s.soon(second)
		s.wantStanding(1)
		s.release(h)
		s.release(s.soon(third))
	})
}

// Who cannot stand in line asks when the key has ended, and every three seconds if it hears nothing, however long the lease.
func TestLineRuleOutsideAsksAtTheKeysEnd(t *testing.T) {
	for _, kind := range []string{"mutex", "writer"} {
		fake(t, kindNamed(kind), func(s *stage) {
			c, d := s.Client(holdfast.WithLease(2500 * time.Millisecond))
			held := kit.Must(s.T)(s.Lock(c).Lock(background))
			kit.Away(d)
			died := time.Now()
			out, hears := s.outside()
			s.release(s.WaitAs(out, hears, s.Lock(out)).Within(s.T, died, 2505*time.Millisecond))
			d.SetFaults(nil)
			_ = held.Unlock() // it is lost

			h := s.heldByOther(holdfast.FixedLease(time.Hour))
			w := deafen(s.WaitAs(out, hears, s.Lock(out)))
			s.wantStanding(0)
			time.Sleep(time.Minute)
			s.release(s.next(h, w, 3*time.Second))
		})
	}
}

// While somebody else listens, a process that cannot stand in line, and has had its turn, lets that one try first. For who stands in line,
// the line sees to that.
func TestLineRuleHandOverHoldsBack(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		out, _ := s.outside()
		x := s.Lock(out)
		other := s.listening(func() {})
		defer other.Close()
		h := kit.Must(s.T)(x.Lock(background))
		next, last := kit.Waiting(s.T, x, background), kit.Waiting(s.T, x, background)
		s.release(h)
		h = s.soon(next)
		time.Sleep(25 * time.Millisecond) // its turn is over
		released := s.release(h)
		h = s.soon(last)
		if took := time.Since(released); took < 100*time.Microsecond {
			s.Errorf("the next one has asked after %v", took)
		}
		s.release(h)
	})
}

// A hold that begins with a message may last for MaxHold, as any other.
func TestLineEdgeMaxHold(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		const most = 2 * time.Second
		h := s.heldByOther()
		w := s.waitWith(holdfast.WithMaxHold(most))
		time.Sleep(900 * time.Millisecond)
		h = s.next(h, w, 0)
		began := time.Now()
		<-h.Context().Done()
		kit.Took(s.T, time.Since(began), most-100*time.Millisecond, most, "the hold lasted for %v")
		_ = h.Unlock()
	})
}

// The server's clock goes back while the lock is left to those who do not stand in line, and do not take it. Nobody waits beside a free lock for
// long, and though the next turn of theirs seems a minute off, they have turns.
func TestLineEdgeClockGoesBack(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		h := s.heldByOther()
		first := s.wait()
		var left atomic.Int64 // how often it was left to them
		other := s.listening(func() { left.Add(1) })
		s.release(h)
		s.Server.SetClock(-time.Minute)
		s.release(first.Within(s.T, time.Now(), 4500*time.Millisecond))
		s.Server.SetClock(0)

		ctx, end := context.WithTimeout(background, 20*time.Second)
		defer end()
		holds, _ := s.inTurns(ctx, 3, 1, 20*time.Millisecond)
		time.Sleep(10 * time.Second)
		before := left.Swap(0)
		s.Server.SetClock(-time.Minute)
		<-ctx.Done()
		if n := left.Load(); before == 0 || n < before/2 {
			s.Errorf("the lock was left to others %d times in 10 s, and %d times before", n, before)
		}
		holds()
		other.Close()
		s.Server.SetClock(0)
	})
}

// Those far behind have come to the head of the line since they have asked, and one of them dies with the lock: when it was granted it, or
// with a hold of whose lease the others know nothing.
func TestLineEdgeFarPlaces(t *testing.T) {
	for _, begins := range []bool{false, true} {
		fakeMutex(t, func(s *stage) {
			h := s.heldByOther()
			near := several(8, func() *kit.Standing { return s.wait() })
			dies, last := s.waitWith(holdfast.WithLease(4*time.Second)), s.wait()
			for _, w := range near {
				h = s.next(h, w, 0)
			}
			if !begins {
				cutOff(dies)
			}
			free, most := s.release(h).Add(kit.GrantLasts), 1500*time.Millisecond
			if begins {
				h = dies.Hold(s.T)
				kit.Away(dies.D)
				free, most = time.Now().Add(s.PTTL("x")), 4500*time.Millisecond
				defer func() { _ = h.Unlock() }()
			}
			s.release(last.Within(s.T, free, most))
		})
	}
}

// A Lock that fails at once leaves nothing in memory.
func TestLineEdgeFailedLockIsForgotten(t *testing.T) {
	server, err := memdriver.NewServer()
	kit.OK(t, err)
	defer server.Close()
	d := server.Driver()
	c, err := holdfast.New(d, holdfast.WithTimeout(60*time.Millisecond))
	kit.OK(t, err)
	defer func() { d.SetFaults(nil); c.Close() }()
	kit.All(d, memdriver.Fault{Refuse: errors.New("connection refused")})
	type key struct{}
	var gone atomic.Int64
	const calls = 50
	for range calls {
		value := new([64]int)
		runtime.AddCleanup(value, func(int) { gone.Add(1) }, 0)
		if _, err := c.NewMutex("x").Lock(context.WithValue(background, key{}, value)); err == nil {
			t.Fatal("granted")
		}
	}
	kit.WaitFor(t, "calls that have failed to be forgotten", func() bool {
		runtime.GC()
		return gone.Load() >= calls-2
	})
}

// Redis takes no asks, but a line.
func TestLineEdgeNoAsks(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		const n = 10
		h := s.heldByOther()
		s.Do("SET", kit.RequestsKey("x"), "another program's")
		var all sync.WaitGroup
		for range n {
			x := s.newLock()
			all.Go(func() { kit.Turn(s.T)(x.Lock(background)) })
			synctest.Wait()
		}
		time.Sleep(10 * time.Millisecond)
		released := s.release(h)
		all.Wait()
		kit.Took(s.T, time.Since(released), 0, 4500*time.Millisecond, "they needed %v")
		s.Do("DEL", kit.RequestsKey("x"))
	})
}

// unsubscribed is a driver whose subscriptions can be ended without a word.
type unsubscribed struct {
	*memdriver.Driver
	listener *unsubscribedListener
}

type unsubscribedListener struct {
	driver.Listener
	broken   atomic.Bool
	channels []string
}

func (d *unsubscribed) Listen(sink func(driver.Event)) driver.Listener {
	d.listener = &unsubscribedListener{Listener: d.Driver.Listen(sink)}
	return d.listener
}

func (l *unsubscribedListener) Subscribe(channel string) {
	if granted := strings.HasPrefix(channel, "holdfast_granted"); !granted || !l.broken.Load() {
		l.channels = append(l.channels, channel)
		l.Listener.Subscribe(channel)
	}
}

// A client that cannot subscribe to its channel any more has the lock in time, too.
func TestLineEdgeNoMoreSubscription(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		d := &unsubscribed{Driver: s.Server.Driver()}
		c := s.clientOf(d.Driver, d)
		h := s.heldByOther()
		s.turns(h, s.waitAs(c, d.Driver)) // it hears
		d.listener.broken.Store(true)
		for _, channel := range d.listener.channels {
			d.listener.Unsubscribe(channel)
		}
		ctx, end := context.WithCancel(background)
		holds, _ := s.inTurns(ctx, 12, 1, 20*time.Millisecond)
		time.Sleep(time.Second)
		w := s.WaitAs(c, d.Driver, s.Lock(c))
		s.release(w.Within(s.T, time.Now(), 10*time.Second))
		end()
		holds()
	})
}

// A forced unlock leaves nothing behind.
func TestLineEdgeForceLeavesNothing(t *testing.T) {
	fakeMutex(t, func(s *stage) {
		h := s.heldByOther()
		first, second := s.wait(), s.wait()
		other := s.listening(func() {})
		s.release(h)
		forced := first.Hold(s.T)
		kit.Force(s.T, s.newLock())
		h = second.Hold(s.T)
		_ = forced.Unlock()
		s.release(h)
		other.Close()
		time.Sleep(2 * time.Second) // until the turn of others is forgotten
		s.WantReply("", "KEYS", "*")
	})
}

// What has been detached is not given back: a leave that an earlier call has left is about the hold that it became.
func TestLineEdgeDetachedIsGivenBack(t *testing.T) {
	everyLock(t, func(s *stage) {
		if !s.Kind.Nests() {
			return
		}
		const timeout = 2 * time.Second
		h := s.heldByOther()
		c, d := s.Client(holdfast.WithTimeout(timeout))
		w := deafen(s.waitAs(c, d))
		kit.Next(d, "acquire", memdriver.Fault{LoseReply: true})
		s.release(h)
		n := w.Hold(s.T) // one of its attempts was not answered
		nested := kit.Must(s.T)(s.Lock(c).Lock(n.Context()))
		kit.Away(d)
		ctx, cancel := context.WithTimeout(n.Context(), 10*time.Millisecond)
		defer cancel()
		_, _ = s.Lock(c).Lock(ctx)
		time.AfterFunc(timeout+timeout/2, func() { d.SetFaults(nil) })
		if nested.Unlock() == nil { // it is given back in the background, once Redis answers
			s.Fatal("Redis has answered")
		}
		owner, err := n.Detach()
		kit.OK(s.T, err)
		time.Sleep(time.Second)
		s.WantReply("1", "EXISTS", "x")
		s.release(kit.Must(s.T)(s.newLock().Adopt(background, owner)))
	})
}

// cuttable is a driver whose subscriptions can be ended at the server without its client's knowledge.
type cuttable struct {
	*memdriver.Driver
	listener *driver.Listener
}

func (d cuttable) Listen(sink func(driver.Event)) driver.Listener {
	*d.listener = d.Driver.Listen(sink)
	return *d.listener
}

// Who was dropped from the line twice asks from outside for a while. What it has left in line may be granted, and it hears of that.
func TestLineEdgeDroppedTwice(t *testing.T) {
	for _, kind := range []string{"mutex", "writer"} {
		fake(t, kindNamed(kind), func(s *stage) {
			d, listener := s.Server.Driver(), new(driver.Listener)
			c := s.clientOf(d, cuttable{d, listener})
			h := s.heldByOther()
			w := s.waitAs(c, d)
			for range 2 {
				channel := protocol.GrantChannel(c.ID(), "x", false)
				(*listener).Unsubscribe(channel)
				s.release(h)
				h = kit.Must(s.T)(s.newLock().TryLock(background))
				(*listener).Subscribe(channel)
				s.wantLine(w)
			}
			time.Sleep(1100 * time.Millisecond)
			s.wantLine(w)
			now := time.Now().UnixMilli()
			s.Do("SET", protocol.YieldKey("x"), fmt.Sprintf("1000 %d", now-1), "PX", "1000") // others have just had their turn
			s.release(s.next(h, w, 0))
			time.Sleep(2 * time.Second)
		})
	}
}

// Those who stand in line, and some who cannot, have the lock in turns: each has a third of its share at least.
func TestLineEdgeOutsideInTurns(t *testing.T) {
	for _, kind := range []string{"mutex", "writer"} {
		for _, others := range []int{1, 2, 4} {
			fake(t, kindNamed(kind), func(s *stage) {
				const lined, stay = 3, time.Millisecond
				ctx, end := context.WithTimeout(background, 2*time.Second)
				defer end()
				counts := make([]atomic.Int64, lined+others)
				var all sync.WaitGroup
				for i := range counts {
					c, d := s.Client()
					if i >= lined {
						c, d = s.outside()
					}
					d.SetFaults(func(driver.Call) memdriver.Fault {
						n := time.Duration(rand.IntN(400_000)) // or each moment is a whole millisecond, and nothing is left to chance
						return memdriver.Fault{DelayRequest: 800*time.Microsecond + n, DelayReply: 1200*time.Microsecond - n}
					})
					all.Go(func() {
						for ctx.Err() == nil {
							h, err := s.Lock(c).Lock(ctx)
							if err != nil {
								continue
							}
							counts[i].Add(1)
							time.Sleep(stay)
							kit.Unlock(s.T, h)
						}
					})
				}
				all.Wait()
				var each []int64
				sum := int64(0)
				for i := range counts {
					each = append(each, counts[i].Load())
					sum += each[i]
				}
				if slices.Min(each)*int64(len(each))*3 < sum {
					s.Errorf("%s: holds %v, of which the last %d are theirs who cannot stand in line", kind, each, others)
				}
				time.Sleep(2 * time.Second) // until the turn of others is forgotten
			})
		}
	}
}

// Who was granted the lock by a message, and extends it by a little, has not got its lease yet: what it detaches has.
func TestLineEdgeDetachedAfterExtend(t *testing.T) {
	everyLock(t, func(s *stage) {
		if !s.Kind.ByMessage() {
			return
		}
		h := s.heldByOther()
		w := s.wait()
		h = s.next(h, w, 0)
		kit.OK(s.T, h.Extend(background, 50*time.Millisecond))
		owner, err := h.Detach()
		kit.OK(s.T, err)
		time.Sleep(29 * time.Second)
		s.release(kit.Must(s.T)(s.newLock().Adopt(background, owner)))
	})
}

// Locks named x and {x} are two, though the keys of their lines are the same: who waits for the one is not granted the other.
func TestLineEdgeTwoSpellings(t *testing.T) {
	for _, kind := range []string{"mutex", "fair", "reader", "writer"} {
		fake(t, kindNamed(kind), func(s *stage) {
			s.Names = append(s.Names, "{x}")
			a, _ := s.Client()
			b, _ := s.Client()
			c, d := s.Client()
			held := kit.Must(s.T)(s.Kind.Against(a, "{x}").Lock(background))
			other := kit.Must(s.T)(s.Kind.Against(b, "x").Lock(background))
			w := s.WaitAs(c, d, s.Kind.Lock(c, "{x}"))
			time.Sleep(10 * time.Millisecond)
			s.release(other)
			time.Sleep(10 * time.Millisecond)
			if !w.Waits() {
				s.Errorf("%s: two have {x}", kind)
			}
			s.release(s.next(held, w, 5*time.Second))
			time.Sleep(5 * time.Second)
		})
	}
}
