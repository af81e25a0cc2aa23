package multi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// held is on how many servers a hold has the lock x.
func (s *stage) held(h *holdfast.Hold) (n int) {
	for _, w := range s.Worlds {
		if _, held := partOn(w, h); held {
			n++
		}
	}
	return n
}

// partOn returns who holds x on a server, if that is a part of the hold.
func partOn(w *kit.World, h *holdfast.Hold) (owner holdfast.Owner, held bool) {
	for _, part := range h.Parts() {
		if owner, held = partOn(w, part); held {
			return owner, held
		}
		if part.Name() == "x" && strings.HasPrefix(w.Do("HGETALL", "x"), part.Owner().String()+" ") {
			return part.Owner(), true
		}
	}
	return owner, false
}

func TestRedLockHoldsEveryServer(t *testing.T) {
	fake(t, 5, func(s *stage) {
		r := s.Redlock("x")
		for _, lock := range []func() (*holdfast.Hold, error){
			func() (*holdfast.Hold, error) { return r.Lock(background) },
			func() (*holdfast.Hold, error) { return r.TryLock(background) },
		} {
			h := kit.Must(t)(lock())
			synctest.Wait()
			parts := h.Parts()
			if n := s.held(h); n != 5 || r.Name() != "x" || h.Name() != "x" || h.Token() != 0 || len(parts) != 5 {
				t.Errorf("held on %d servers; names %q and %q, token %d, parts %v", n, r.Name(), h.Name(), h.Token(), parts)
			}
			time.Sleep(time.Minute) // renewed
			s.trusts(h)
			if left := time.Until(h.Deadline()); left < 15*time.Second {
				t.Errorf("deadline in %v", left)
			}
			in := kit.Must(t)(r.Lock(h.Context()))
			synctest.Wait()
			owner, _ := partOn(s.World, h)
			s.WantCount("x", owner, 2)
			s.Unlock(in)
			s.WantCount("x", owner, 1)
			_, err := s.Again().Redlock("x").TryLock(background)
			var locked *holdfast.LockedError
			holds := func(p *holdfast.Hold) bool { return locked.Holder == p.Owner() }
			if !errors.As(err, &locked) || !slices.ContainsFunc(parts, holds) {
				t.Errorf("%v", err)
			}
			synctest.Wait() // the rival was refused by a quorum, and is still asking the others
			s.Unlock(h)
			s.WantFree(t)
			kit.WantError(t, h.Unlock(), holdfast.ErrNotHeld)
		}
	})
}

// Each fault at a minority: the answer does not wait for it, nothing is lost, and
// in the end nothing is left.
func TestS13_RedLockBearsAMinority(t *testing.T) {
	for name, fault := range kit.Faults {
		for _, when := range []string{"acquire", "renew", "release"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				fake(t, 5, func(s *stage) {
					for _, i := range []int{1, 3} {
						s.Drivers[i].SetFaults(func(c driver.Call) memdriver.Fault {
							if c.Script.Name() != when {
								return memdriver.Fault{}
							}
							return fault
						})
					}
					start := time.Now()
					h := s.lock(s.Redlock("x"))
					s.within(start, 0)
					for _, later := range []time.Duration{0, holdfast.DefaultLease + 11*time.Second} {
						time.Sleep(later)
						s.trusts(h)
						if n := s.held(h); n < 3 {
							t.Errorf("held on %d servers", n)
						}
					}
					s.Unlock(h)
					s.Fault(memdriver.Fault{}, 1, 3)
					time.Sleep(time.Minute)
					s.WantFree(t)
				})
			})
		}
	}
}

// Each fault at a quorum: no hold, within the bounds, and in the end nothing.
func TestRedLockWithoutAQuorum(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"requests lost":    {LoseRequest: true},
		"replies lost":     {LoseReply: true},
		"replies delayed":  {DelayReply: time.Minute},
		"requests delayed": {DelayRequest: time.Minute},
		"refused":          {Refuse: errors.New("connection refused")},
	} {
		for wait, bound := range map[time.Duration]time.Duration{
			0: holdfast.DefaultTimeout, time.Second: time.Second, time.Hour: holdfast.DefaultTimeout,
		} {
			t.Run(fmt.Sprintf("%s/%v", name, wait), func(t *testing.T) {
				fake(t, 5, func(s *stage) {
					s.Fault(fault, 0, 2, 4)
					start := time.Now()
					_, err := s.Redlock("x").Lock(background, holdfast.Wait(wait))
					if !s.backend(err).MayHaveRun || !strings.Contains(err.Error(), "2 of 5 servers") {
						t.Errorf("%v", err)
					}
					s.within(start, bound)
					synctest.Wait()
					for _, i := range []int{1, 3} {
						s.Worlds[i].WantReply("", "KEYS", "*")
					}
					s.Fault(memdriver.Fault{}, 0, 2, 4)
					time.Sleep(2 * time.Minute)
					s.WantFree(t)
				})
			})
		}
	}
}

// One server says who holds the lock, and the others nothing, or that they cannot be used: that is no refusal.
func TestRedLockWithOneRefusal(t *testing.T) {
	for _, fault := range []memdriver.Fault{
		kit.LostRequest,
		{Refuse: kit.Refusal(true)},
		{Refuse: driver.ConnectionError(errors.New("connection refused"), true)},
	} {
		for _, wait := range []time.Duration{0, time.Second, time.Minute} {
			fake(t, 5, func(s *stage) {
				h, other := s.heldByOther("x"), s.Again()
				other.Fault(fault, 1, 2, 3, 4)
				start := time.Now()
				_, err := other.Redlock("x").Lock(background, holdfast.Wait(wait))
				if failed := s.backend(err); fault.LoseRequest && !failed.MayHaveRun {
					t.Errorf("%v: %v", wait, err)
				}
				s.within(start, holdfast.DefaultTimeout)
				s.Unlock(h)
			})
		}
	}
}

// TestRedLockWithTooFewReplicas: each server has granted it, and is given back behind the error.
func TestRedLockWithTooFewReplicas(t *testing.T) {
	fake(t, 3, func(s *stage) {
		for _, l := range []*holdfast.MultiLock{s.Redlock("x"), holdfast.NewRedLock(s.c.NewMutex("y"))} {
			_, err := l.TryLock(background)
			kit.WantError(t, err, holdfast.ErrNotReplicated)
			if !s.backend(err).MayHaveRun {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		s.WantFree(t)
	}, holdfast.WithReplicaAck(1, 100*time.Millisecond))
}

// The servers refuse until the wait is over: each says why.
func TestRedLockTellsEveryReason(t *testing.T) {
	fake(t, 5, func(s *stage) {
		s.Fault(memdriver.Fault{Refuse: kit.Refusal(true)}, 0, 1, 2, 3, 4)
		for _, wait := range []time.Duration{100 * time.Millisecond, time.Second} {
			_, err := s.Redlock("x").Lock(background, holdfast.Wait(wait))
			kit.WantBackend(t, wait.String(), err, "0 of 5 servers", "OOM")
			if n := strings.Count(err.Error(), "OOM"); n != 5 || strings.Contains(err.Error(), "answered") {
				t.Errorf("after %v: %v", wait, err)
			}
		}
	})
}

// A RedLock that is cancelled during its second try says that others hold the lock, as they did in the first, while Redis may still be
// about to reply; and else that Redis was silent. With replicas, a reply may take as long as their acknowledgement, too. There is one
// server, or the reply that comes second would be that of a part that was given up.
func TestRedLockCancelledAmidATry(t *testing.T) {
	for what, c := range map[string]struct {
		reply, after time.Duration // to each request; of the cancellation
		options      []holdfast.ClientOption
		silent       bool
	}{
		"at once":       {60 * time.Millisecond, 100 * time.Millisecond, nil, false},
		"late":          {200 * time.Millisecond, 350 * time.Millisecond, nil, true},
		"with replicas": {200 * time.Millisecond, 350 * time.Millisecond, []holdfast.ClientOption{holdfast.WithReplicaAck(1, time.Second)}, false},
	} {
		fake(t, 1, func(s *stage) {
			theirs := s.Must(s.Again().Redlock("x").Lock(background))
			s.Server.SetReplicas(1)
			s.Fault(memdriver.Fault{DelayReply: c.reply}, 0)
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(c.after, cancel)
			_, err := s.Redlock("x").Lock(ctx)
			kit.WantError(t, err, context.Canceled)
			if errors.As(err, new(*holdfast.BackendError)) != c.silent || errors.As(err, new(*holdfast.LockedError)) == c.silent {
				t.Errorf("%s: %v", what, err)
			}
			s.Fault(memdriver.Fault{}, 0)
			s.Unlock(theirs)
			time.Sleep(time.Minute)
		}, append(c.options, holdfast.WithoutIdentity())...)
	}
}

// All servers have granted it when the caller cancels the call, and their grants are on their way. Redis is blamed only if it was silent
// for long.
func TestRedLockCancelledAsItIsGranted(t *testing.T) {
	slow := holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) { time.Sleep(2 * time.Millisecond) }})
	for _, silence := range []time.Duration{0, 200 * time.Millisecond} {
		fake(t, 3, func(s *stage) {
			s.Fault(memdriver.Fault{DelayReply: silence}, 0, 1, 2)
			ctx, cancel := context.WithCancel(background)
			time.AfterFunc(silence+time.Millisecond, cancel)
			_, err := s.Redlock("x").Lock(ctx)
			if kit.WantError(t, err, context.Canceled); errors.As(err, new(*holdfast.BackendError)) != (silence > 0) {
				t.Errorf("after %v: %v", silence, err)
			}
			time.Sleep(time.Minute)
			s.WantFree(t)
		}, slow)
	}
}

// All servers grant it just after the wait is over, or one of them, and the others do not answer.
func TestRedLockAfterItsWait(t *testing.T) {
	slow := holdfast.WithHooks(holdfast.Hooks{
		OnAcquire: func(context.Context, holdfast.Event) { time.Sleep(1050 * time.Millisecond) },
	})
	for _, silent := range [][]int{nil, {0, 1}} {
		fake(t, 3, func(s *stage) {
			s.Fault(kit.LostRequest, silent...)
			start := time.Now()
			_, err := s.Redlock("x").Lock(background, holdfast.Wait(time.Second))
			s.within(start, 1050*time.Millisecond)
			if !s.backend(err).MayHaveRun || strings.Contains(err.Error(), "answered") ||
				strings.Contains(err.Error(), "servers have") != (silent != nil) {
				t.Error(err)
			}
			s.Fault(memdriver.Fault{}, silent...)
			time.Sleep(time.Minute)
			s.WantFree(t)
		}, slow)
	}
}

// What a RedLock says at the end of its wait: that it is held, if only its last question is not
// answered; that Redis is away, if that is so since long; that it refuses, also if a server does not answer at all.
func TestRedLockTellsThePresent(t *testing.T) {
	lost, refused := memdriver.Fault{LoseReply: true}, memdriver.Fault{Refuse: kit.Refusal(true)}
	deaf := memdriver.Fault{Refuse: driver.ConnectionError(os.ErrDeadlineExceeded, false)}
	for what, c := range map[string]struct {
		after time.Duration
		fault memdriver.Fault
		dead  int // a server that never answers
		says  string
	}{
		"silent":                {19 * time.Second, lost, -1, "held"},
		"long silent":           {time.Second, lost, -1, "did not answer"},
		"silent, one dead":      {19 * time.Second, lost, 2, "held"},
		"silent for the client": {19 * time.Second, deaf, -1, "held"},
		"refused":               {19 * time.Second, refused, -1, "OOM"},
		"refused, one dead":     {19 * time.Second, refused, 2, "OOM"},
		"one dead":              {0, memdriver.Fault{}, 2, "held"},
	} {
		t.Run(what, func(t *testing.T) {
			fake(t, 3, func(s *stage) {
				h := s.lock(s.Redlock("x"))
				synctest.Wait() // on all three
				other := s.Again()
				if c.dead >= 0 {
					other.Fault(kit.LostRequest, c.dead)
				}
				waits := begin(other.Redlock("x"), background, holdfast.Wait(20*time.Second))
				time.Sleep(c.after)
				other.Fault(c.fault, 0, 1)
				err := (<-waits).Err
				if errors.Is(err, holdfast.ErrLocked) != (c.says == "held") || !strings.Contains(err.Error(), c.says) {
					t.Error(err)
				}
				if c.says != "held" {
					s.backend(err)
				}
				other.Fault(memdriver.Fault{}, 0, 1, 2)
				s.Unlock(h)
				time.Sleep(time.Minute)
				s.WantFree(t)
			})
		})
	}
}

// What is granted after the others have refused is given back.
func TestGrantedTooLate(t *testing.T) {
	fake(t, 3, func(s *stage) {
		held := []*holdfast.Hold{s.lock(s.c.NewMutex("x")), s.lock(s.Clients[1].NewMutex("x"))}
		goOn := make(chan struct{})
		late := s.Again(holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) { <-goOn }}))
		kit.Fails(t, holdfast.ErrLocked)(late.Redlock("x").TryLock(background))
		close(goOn)
		synctest.Wait()
		s.Worlds[2].WantReply("", "KEYS", "*")
		for _, h := range held {
			s.Unlock(h)
		}
	})
}

// What answers later joins the hold, if there is one still.
func TestLateServersJoin(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		for _, lease := range []time.Duration{0, 20 * time.Second} {
			fake(t, 5, func(s *stage) {
				kit.Next(s.Drivers[0], "acquire", memdriver.Fault{DelayReply: time.Second})
				kit.Next(s.Drivers[1], "acquire", memdriver.Fault{DelayRequest: time.Second})
				start := time.Now()
				h := s.lock(s.Redlock("x"), fixed(lease)...)
				s.within(start, 0)
				if len(h.Parts()) != 3 {
					t.Errorf("%d parts", len(h.Parts()))
				}
				if unlocked {
					s.Unlock(h)
					time.Sleep(10 * time.Second)
					s.WantFree(t)
					return
				}
				time.Sleep(10 * time.Second)
				if n := s.held(h); n != 5 || len(h.Parts()) != 5 {
					t.Errorf("held on %d servers, %d parts", n, len(h.Parts()))
				}
				// Two of the first three can be lost now.
				for _, i := range []int{2, 3} {
					s.Worlds[i].Do("DEL", "x")
				}
				time.Sleep(9500 * time.Millisecond)
				s.trusts(h)
				s.Unlock(h)
			})
		}
	}
}

// The deadline is that of the quorum, and loss is told before it.
func TestRedLockDeadlineIsTheQuorums(t *testing.T) {
	fake(t, 5, func(s *stage) {
		h := s.lock(s.Redlock("x"))
		synctest.Wait()
		start := time.Now()
		time.Sleep(5 * time.Second)
		s.Fault(kit.LostRequest, 0, 1)
		time.Sleep(6 * time.Second)
		// All were renewed when they began to listen, after 1 s, and three after 11 s,
		// less the 50 ms for which renewals are gathered.
		trusted := 30*time.Second - 300*time.Millisecond - 2*time.Millisecond + 10950*time.Millisecond
		deadline := func() {
			s.Helper()
			if d := h.Deadline().Sub(start); d != trusted {
				t.Errorf("deadline after %v", d)
			}
		}
		deadline()
		s.Fault(kit.LostRequest, 2)
		if err := h.Extend(background, time.Hour); err == nil {
			t.Error("extended on two servers")
		}
		deadline()
		if took := kit.LostAt(t, h, start); took != trusted {
			t.Errorf("lost after %v", took)
		}
		// Nobody can have it yet.
		if n := s.held(h); n < 3 {
			t.Errorf("held on %d servers when the loss was told", n)
		}
		deadline()
		kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
		s.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
	})
}

func TestRedLockEndsWithItsQuorum(t *testing.T) {
	fake(t, 5, func(s *stage) {
		h := s.lock(s.Redlock("x"))
		time.Sleep(2 * time.Second)
		for _, c := range s.Again().Clients[:3] {
			s.trusts(h)
			kit.Force(t, c.NewMutex("x"))
			time.Sleep(100 * time.Millisecond)
		}
		kit.WantLost(t, h)
		err := h.Unlock()
		kit.WantError(t, err, holdfast.ErrLost)
		if !strings.Contains(err.Error(), "2 of 5") {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		s.WantFree(t)
	})
}

// An Unlock that reaches a quorum is one; the others are reached later.
func TestRedLockUnlock(t *testing.T) {
	all := []int{0, 1, 2, 3, 4}
	for down := range 6 {
		fake(t, 5, func(s *stage) {
			h := s.lock(s.Redlock("x"))
			synctest.Wait()
			s.Fault(kit.LostRequest, all[:down]...)
			start := time.Now()
			if err := h.Unlock(); down > 2 {
				s.backend(err)
			} else {
				kit.OK(t, err)
			}
			s.within(start, holdfast.DefaultTimeout)
			s.Fault(memdriver.Fault{}, all[:down]...)
			time.Sleep(10 * time.Second)
			s.WantFree(t)
		})
	}
}

// L18: contenders that split the vote do not stay in step, and never overlap. Nor do those who want locks of one name
// on two servers, which cannot be put in order: nobody waits for the one while having the other.
func TestL18_Contenders(t *testing.T) {
	fake(t, 5, func(s *stage) {
		var red, multi []holdfast.Locker
		for i := range 5 {
			mine := s.Again()
			for j := range mine.Drivers { // each is nearest to another server
				mine.Fault(memdriver.Fault{DelayRequest: time.Duration(1+(i+j)%5) * time.Millisecond}, j)
			}
			red = append(red, mine.Redlock("x"))
			multi = append(multi, holdfast.NewMultiLock(mine.Clients[i%2].NewMutex("y"), mine.Clients[1-i%2].NewMutex("y")))
		}
		s.takeTurns(10, red...)
		s.takeTurns(20, multi...)
	})
}

// Servers that held the lock and went away are waited for, servers that never
// answered are not.
func TestRedLockBearsAnOutage(t *testing.T) {
	fake(t, 3, func(s *stage) {
		h := s.lock(s.Again().Redlock("x"))
		got := kit.Waiting(t, s.Redlock("x"), background)
		time.Sleep(time.Second)
		s.Fault(kit.LostRequest, 0, 1)
		time.Sleep(10 * time.Second)
		s.Unlock(h)
		time.Sleep(10 * time.Second)
		back := time.Now()
		s.Fault(memdriver.Fault{}, 0, 1)
		next := <-got
		s.within(back, holdfast.DefaultTimeout+time.Second)
		s.Unlock(next)
	})
}

func TestRedLockInAMultiLock(t *testing.T) {
	for _, lease := range []time.Duration{0, 20 * time.Second} {
		fake(t, 3, func(s *stage) {
			blocker := s.heldByOther("y")
			kit.Next(s.Drivers[1], "acquire", memdriver.Fault{DelayReply: time.Second})
			m := holdfast.NewMultiLock(s.c.NewMutex("y"), s.Redlock("x"))
			if m.Name() != "x+y" {
				t.Errorf("name %q", m.Name())
			}
			time.AfterFunc(time.Minute, func() { s.Unlock(blocker) })
			h := s.lock(m, fixed(lease)...)
			if n := s.held(h); n != 3 {
				t.Errorf("held on %d servers", n)
			}
			owner, _ := partOn(s.World, h)
			s.WantCount("y", owner, 1)
			start := time.Now()
			if lease > 0 {
				if took := kit.LostAt(t, h, start); took != lease-lease/100-2*time.Millisecond {
					t.Errorf("lost after %v", took)
				}
				s.Lost(h)
				time.Sleep(time.Second)
				return
			}
			s.Worlds[1].Do("DEL", "x")
			time.Sleep(time.Minute)
			s.trusts(h)
			s.Worlds[2].Do("DEL", "x")
			kit.LostAt(t, h, start)
			s.Lost(h)
		})
	}
}

// A server that joins late, when a fixed lease has begun, ends with the others.
func TestLateServersJoinAFixedLease(t *testing.T) {
	fake(t, 3, func(s *stage) {
		kit.Next(s.Drivers[1], "acquire", memdriver.Fault{DelayReply: time.Second})
		m := holdfast.NewMultiLock(s.c.NewMutex("y"), s.Redlock("x"))
		h := s.lock(m, holdfast.FixedLease(20*time.Second))
		time.Sleep(2 * time.Second)
		if n := s.held(h); n != 3 {
			t.Errorf("held on %d servers", n)
		}
		time.Sleep(20 * time.Second)
		s.WantFree(t)
		s.Lost(h)
		// The answer comes after the lease: no hold, and no endless trying.
		s.Fault(memdriver.Fault{DelayReply: 100 * time.Millisecond}, 0, 1, 2)
		kit.Fails(t, holdfast.ErrLost)(s.Redlock("x").Lock(background, holdfast.FixedLease(50*time.Millisecond)))
		time.Sleep(time.Second)
	})
}

// One of the clients is closed: a minority less.
func TestCloseOfAMinority(t *testing.T) {
	fake(t, 3, func(s *stage) {
		h := s.lock(s.Redlock("x"))
		synctest.Wait()
		kit.OK(t, s.c.Close())
		s.trusts(h)
		s.Unlock(s.lock(s.Redlock("y")))
		kit.OK(t, s.Clients[1].Close())
		s.closed(h)
		kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		kit.Fails(t, holdfast.ErrClosed)(s.Redlock("x").Lock(background))
		synctest.Wait()
		s.WantFree(t)
	})
}

// A part that is lost is lost once, whatever ends it again later: the others are still a quorum.
func TestPartLostBefore(t *testing.T) {
	for name, endAgain := range map[string]func(s *stage, lost *holdfast.Hold){
		"its client closes": func(s *stage, _ *holdfast.Hold) { kit.OK(s.T, s.Clients[2].Close()) },
		"it is unlocked":    (*stage).Lost,
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, 3, func(s *stage) {
				h := s.lock(s.Redlock("x"))
				synctest.Wait()
				s.Fault(kit.LostRequest, 2)
				time.Sleep(holdfast.DefaultLease) // less than that from now, and the part is still to be given back
				parts := h.Parts()
				i := slices.IndexFunc(parts, func(part *holdfast.Hold) bool { return part.Context().Err() != nil })
				s.Fault(memdriver.Fault{}, 2)
				endAgain(s, parts[i])
				synctest.Wait()
				s.trusts(h)
				s.Unlock(h)
			})
		})
	}
}

func TestRedLockOfBadInput(t *testing.T) {
	fake(t, 3, func(s *stage) {
		a, b := s.c, s.Clients[1]
		var none *holdfast.Mutex
		for i, r := range []*holdfast.MultiLock{
			holdfast.NewRedLock(), holdfast.NewRedLock(nil), holdfast.NewRedLock(a.NewMutex("x"), none),
			holdfast.NewRedLock(a.NewMutex("x"), b.NewMutex("x"), a.NewMutex("x")),
			holdfast.NewRedLock(a.NewMutex("x"), a.NewMutex("y")),
			holdfast.NewRedLock(s.Redlock("x")),
			holdfast.NewRedLock(holdfast.NewMultiLock(a.NewMutex("x"))),
			holdfast.NewRedLock(elsewhere{a.NewMutex("x")}),
			s.Redlock("}"),
		} {
			if _, err := r.TryLock(background); !errors.Is(err, holdfast.ErrInvalid) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		kit.Fails(t, holdfast.ErrInvalid)(s.Redlock("x").Lock(background, holdfast.FixedLease(0)))
		r := holdfast.NewRedLock(a.NewMutex("x", holdfast.NonReentrant()), b.NewMutex("y"))
		h := s.lock(r)
		if h.Name() != "x+y" {
			t.Errorf("name %q", h.Name())
		}
		kit.Fails(t, holdfast.ErrReentrant)(r.Lock(h.Context()))
		synctest.Wait()
		s.Unlock(h)
	})
}

// P8: what several locks need is asked for side by side: servers that take 100 ms
// each cost 100 ms, and one that does not answer costs nothing.
func TestP8_SideBySide(t *testing.T) {
	fake(t, 5, func(s *stage) {
		slow := memdriver.Fault{DelayRequest: 50 * time.Millisecond, DelayReply: 50 * time.Millisecond}
		s.Fault(slow, 0, 1, 2, 3)
		s.Fault(kit.LostRequest, 4)
		start := time.Now()
		h := s.lock(s.Redlock("x"))
		s.within(start, 100*time.Millisecond)
		start = time.Now()
		kit.OK(t, h.Extend(background, time.Minute))
		s.within(start, 100*time.Millisecond)
		s.Fault(slow, 4)
		start = time.Now()
		s.Unlock(h)
		s.within(start, 2*time.Second+200*time.Millisecond)
		var parts []holdfast.Locker
		for _, c := range s.Clients {
			parts = append(parts, c.NewMutex("y"))
		}
		h = s.lock(holdfast.NewMultiLock(parts...))
		start = time.Now()
		s.Unlock(h)
		s.within(start, 100*time.Millisecond)
	})
}
