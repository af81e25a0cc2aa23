package multi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memdriver"
	"github.com/holdfast-go/holdfast/test/kit"
)

// held counts on how many servers the owner holds the lock.
func held(s *kit.Servers, name string, h *holdfast.Hold) (n int) {
	for _, w := range s.Worlds {
		if _, held := partOn(w, name, h); held {
			n++
		}
	}
	return n
}

// partOn returns who holds a lock on a server, if that is a part of the hold.
func partOn(w *kit.World, name string, h *holdfast.Hold) (owner holdfast.Owner, held bool) {
	for _, part := range flatten(h) {
		if part.Name() == name && strings.HasPrefix(w.Do("HGETALL", name), part.Owner().String()+" ") {
			return part.Owner(), true
		}
	}
	return owner, false
}

// flatten returns the parts of a hold, and theirs.
func flatten(h *holdfast.Hold) (all []*holdfast.Hold) {
	for _, part := range h.Parts() {
		if more := flatten(part); len(more) > 0 {
			all = append(all, more...)
		} else {
			all = append(all, part)
		}
	}
	return all
}

func TestRedLockHoldsEveryServer(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 5)
		r := s.Redlock("x")
		if r.Name() != "x" {
			t.Errorf("name %q", r.Name())
		}
		for _, lock := range []func(context.Context) (*holdfast.Hold, error){
			func(ctx context.Context) (*holdfast.Hold, error) { return r.Lock(ctx) },
			func(ctx context.Context) (*holdfast.Hold, error) { return r.TryLock(ctx) },
		} {
			h := kit.Must(t)(lock(background))
			synctest.Wait()
			if n := held(s, "x", h); n != 5 {
				t.Errorf("held on %d servers", n)
			}
			if h.Name() != "x" || h.Token() != 0 || len(h.Parts()) != 5 {
				t.Errorf("name %q, token %d, parts %v", h.Name(), h.Token(), h.Parts())
			}
			time.Sleep(time.Minute) // renewed
			if left := time.Until(h.Deadline()); left < 15*time.Second || h.Context().Err() != nil {
				t.Errorf("deadline in %v, %v", left, context.Cause(h.Context()))
			}
			in := kit.Must(t)(r.Lock(h.Context()))
			synctest.Wait()
			owner, _ := partOn(w, "x", h)
			w.WantCount("x", owner, 2)
			kit.Unlock(t, in)
			w.WantCount("x", owner, 1)
			_, err := s.Again().Redlock("x").TryLock(background)
			var locked *holdfast.LockedError
			if !errors.As(err, &locked) || !slices.ContainsFunc(h.Parts(), func(p *holdfast.Hold) bool { return locked.Holder == p.Owner() }) {
				t.Errorf("%v", err)
			}
			synctest.Wait() // the rival was refused by a quorum, and is still asking the others
			kit.Unlock(t, h)
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
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					s := kit.Several(w, 5)
					for _, i := range []int{1, 3} {
						s.Drivers[i].SetFaults(func(c driver.Call) memdriver.Fault {
							if c.Script.Name() != when {
								return memdriver.Fault{}
							}
							return fault
						})
					}
					start := time.Now()
					h := kit.Must(t)(s.Redlock("x").Lock(background))
					if took := time.Since(start); took != 0 {
						t.Errorf("had after %v", took)
					}
					if n := held(s, "x", h); n < 3 {
						t.Errorf("held on %d servers", n)
					}
					time.Sleep(holdfast.DefaultLease + 11*time.Second)
					if n := held(s, "x", h); n < 3 || h.Context().Err() != nil {
						t.Errorf("held on %d servers, %v", n, context.Cause(h.Context()))
					}
					kit.Unlock(t, h)
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
		for _, wait := range []time.Duration{0, time.Second, time.Hour} {
			t.Run(fmt.Sprintf("%s/%v", name, wait), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					s := kit.Several(w, 5)
					s.Fault(fault, 0, 2, 4)
					start := time.Now()
					_, err := s.Redlock("x").Lock(background, holdfast.Wait(wait))
					var failed *holdfast.BackendError
					if !errors.As(err, &failed) || errors.Is(err, holdfast.ErrLocked) || !failed.MayHaveRun ||
						!strings.Contains(err.Error(), "2 of 5 servers") {
						t.Errorf("%v", err)
					}
					bound := holdfast.DefaultTimeout
					if wait > 0 {
						bound = min(bound, wait)
					}
					if took := time.Since(start); took > bound {
						t.Errorf("took %v", took)
					}
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
		{LoseRequest: true},
		{Refuse: kit.Refusal(true)},
		{Refuse: driver.ConnectionError(errors.New("connection refused"), true)},
	} {
		for _, wait := range []time.Duration{0, time.Second, time.Minute} {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				s := kit.Several(w, 5)
				h := kit.Must(t)(s.Clients[0].NewMutex("x").Lock(background))
				other := s.Again()
				other.Fault(fault, 1, 2, 3, 4)
				start := time.Now()
				_, err := other.Redlock("x").Lock(background, holdfast.Wait(wait))
				var failed *holdfast.BackendError
				if !errors.As(err, &failed) || fault.LoseRequest && !failed.MayHaveRun {
					t.Errorf("%v: %v", wait, err)
				}
				if took := time.Since(start); took > holdfast.DefaultTimeout {
					t.Errorf("took %v", took)
				}
				kit.Unlock(t, h)
			})
		}
	}
}

// TestRedLockWithTooFewReplicas: each server has granted it, and is given back behind the error.
func TestRedLockWithTooFewReplicas(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3, holdfast.WithReplicaAck(1, 100*time.Millisecond))
		for _, l := range []*holdfast.MultiLock{s.Redlock("x"), holdfast.NewRedLock(s.Clients[0].NewMutex("y"))} {
			_, err := l.TryLock(background)
			kit.WantError(t, err, holdfast.ErrNotReplicated)
			var failed *holdfast.BackendError
			if !errors.As(err, &failed) || !failed.MayHaveRun {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		s.WantFree(t)
	})
}

// The servers refuse until the wait is over: each says why.
func TestRedLockTellsEveryReason(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 5)
		s.Fault(memdriver.Fault{Refuse: kit.Refusal(true)}, 0, 1, 2, 3, 4)
		for _, wait := range []time.Duration{100 * time.Millisecond, time.Second} {
			_, err := s.Redlock("x").Lock(background, holdfast.Wait(wait))
			kit.WantBackend(t, wait.String(), err, "0 of 5 servers", "OOM")
			var failed *holdfast.BackendError
			if n := strings.Count(err.Error(), "OOM"); n != 5 || strings.Contains(err.Error(), "answered") ||
				errors.As(err, &failed) && failed.MayHaveRun {
				t.Errorf("after %v: %v", wait, err)
			}
		}
	})
}

// All servers grant it just after the wait is over, or one of them, and the others do not answer.
func TestRedLockAfterItsWait(t *testing.T) {
	for _, silent := range [][]int{nil, {0, 1}} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			slow := holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) { time.Sleep(1050 * time.Millisecond) }})
			s := kit.Several(w, 3, slow)
			s.Fault(memdriver.Fault{LoseRequest: true}, silent...)
			start := time.Now()
			_, err := s.Redlock("x").Lock(background, holdfast.Wait(time.Second))
			var failed *holdfast.BackendError
			if took := time.Since(start); !errors.As(err, &failed) || !failed.MayHaveRun || took != 1050*time.Millisecond ||
				strings.Contains(err.Error(), "servers have") != (silent != nil) || strings.Contains(err.Error(), "answered") {
				t.Errorf("after %v: %v", took, err)
			}
			s.Fault(memdriver.Fault{}, silent...)
			time.Sleep(time.Minute)
			s.WantFree(t)
		})
	}
}

// What a RedLock says at the end of its wait: that it is held, if only its last question is not
// answered; that Redis is away, if that is so since long; that it refuses, also if a server does not answer at all.
func TestRedLockTellsThePresent(t *testing.T) {
	lost := memdriver.Fault{LoseReply: true}
	for what, c := range map[string]struct {
		after time.Duration
		fault memdriver.Fault
		dead  int // a server that never answers
		says  string
	}{
		"silent":                {19 * time.Second, lost, -1, "held"},
		"long silent":           {time.Second, lost, -1, "did not answer"},
		"silent, one dead":      {19 * time.Second, lost, 2, "held"},
		"silent for the client": {19 * time.Second, memdriver.Fault{Refuse: driver.ConnectionError(os.ErrDeadlineExceeded, false)}, -1, "held"},
		"refused":               {19 * time.Second, memdriver.Fault{Refuse: kit.Refusal(true)}, -1, "OOM"},
		"refused, one dead":     {19 * time.Second, memdriver.Fault{Refuse: kit.Refusal(true)}, 2, "OOM"},
		"one dead":              {0, memdriver.Fault{}, 2, "held"},
	} {
		t.Run(what, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				s := kit.Several(w, 3)
				h := kit.Must(t)(s.Redlock("x").Lock(background))
				synctest.Wait() // on all three
				other := s.Again()
				if c.dead >= 0 {
					other.Fault(memdriver.Fault{LoseRequest: true}, c.dead)
				}
				waits := kit.Begin(func() (*holdfast.Hold, error) {
					return other.Redlock("x").Lock(background, holdfast.Wait(20*time.Second))
				})
				time.Sleep(c.after)
				other.Fault(c.fault, 0, 1)
				got := <-waits
				var failed *holdfast.BackendError
				if held := c.says == "held"; errors.Is(got.Err, holdfast.ErrLocked) != held || errors.As(got.Err, &failed) == held ||
					!strings.Contains(got.Err.Error(), c.says) {
					t.Error(got.Err)
				}
				other.Fault(memdriver.Fault{}, 0, 1, 2)
				kit.Unlock(t, h)
				time.Sleep(time.Minute)
				s.WantFree(t)
			})
		})
	}
}

// What is granted after the others have refused is given back.
func TestGrantedTooLate(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		var held []*holdfast.Hold
		for _, c := range s.Clients[:2] {
			held = append(held, kit.Must(t)(c.NewMutex("x").Lock(background)))
		}
		goOn := make(chan struct{})
		late := s.Again(holdfast.WithHooks(holdfast.Hooks{OnAcquire: func(context.Context, holdfast.Event) { <-goOn }}))
		_, err := late.Redlock("x").TryLock(background)
		kit.WantError(t, err, holdfast.ErrLocked)
		close(goOn)
		synctest.Wait()
		s.Worlds[2].WantReply("", "KEYS", "*")
		for _, h := range held {
			kit.Unlock(t, h)
		}
	})
}

// What answers later joins the hold, if there is one still.
func TestLateServersJoin(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		for _, lease := range []time.Duration{0, 20 * time.Second} {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				s := kit.Several(w, 5)
				kit.Once(s.Drivers[0], "acquire", memdriver.Fault{DelayReply: time.Second})
				kit.Once(s.Drivers[1], "acquire", memdriver.Fault{DelayRequest: time.Second})
				var options []holdfast.LockOption
				if lease > 0 {
					options = append(options, holdfast.FixedLease(lease))
				}
				start := time.Now()
				h := kit.Must(t)(s.Redlock("x").Lock(background, options...))
				if took := time.Since(start); took != 0 || len(h.Parts()) != 3 {
					t.Errorf("%d parts after %v", len(h.Parts()), took)
				}
				if unlocked {
					kit.Unlock(t, h)
					time.Sleep(10 * time.Second)
					s.WantFree(t)
					return
				}
				time.Sleep(10 * time.Second)
				if n := held(s, "x", h); n != 5 || len(h.Parts()) != 5 {
					t.Errorf("held on %d servers, %d parts", n, len(h.Parts()))
				}
				// Two of the first three can be lost now.
				for _, i := range []int{2, 3} {
					s.Worlds[i].Do("DEL", "x")
				}
				time.Sleep(9500 * time.Millisecond)
				if h.Context().Err() != nil {
					t.Errorf("lost: %v", context.Cause(h.Context()))
				}
				kit.Unlock(t, h)
			})
		}
	}
}

// The deadline is that of the quorum, and loss is told before it.
func TestRedLockDeadlineIsTheQuorums(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 5)
		h := kit.Must(t)(s.Redlock("x").Lock(background))
		synctest.Wait()
		start := time.Now()
		trusted := 30*time.Second - 300*time.Millisecond - 2*time.Millisecond
		time.Sleep(5 * time.Second)
		s.Fault(memdriver.Fault{LoseRequest: true}, 0, 1)
		time.Sleep(6 * time.Second)
		// All were renewed when they began to listen, after 1 s, and three after 11 s,
		// less the 50 ms for which renewals are gathered.
		trusted += 10950 * time.Millisecond
		if d := h.Deadline().Sub(start); d != trusted {
			t.Errorf("deadline after %v", d)
		}
		s.Fault(memdriver.Fault{LoseRequest: true}, 2)
		if err := h.Extend(background, time.Hour); err == nil {
			t.Error("extended on two servers")
		}
		if d := h.Deadline().Sub(start); d != trusted {
			t.Errorf("deadline after %v", d)
		}
		if took := kit.LostAt(t, h, start); took != trusted {
			t.Errorf("lost after %v", took)
		}
		// Nobody can have it yet.
		if n := held(s, "x", h); n < 3 {
			t.Errorf("held on %d servers when the loss was told", n)
		}
		if d := h.Deadline().Sub(start); d != trusted {
			t.Errorf("deadline of the lost hold after %v", d)
		}
		err := h.Unlock()
		kit.WantError(t, err, holdfast.ErrLost, holdfast.ErrNotHeld)
		s.Fault(memdriver.Fault{}, 0, 1, 2)
		time.Sleep(time.Minute)
	})
}

func TestRedLockFixedLease(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		s.Fault(memdriver.Fault{DelayReply: 100 * time.Millisecond}, 0, 1, 2)
		start := time.Now()
		h := kit.Must(t)(s.Redlock("x").Lock(background, holdfast.FixedLease(10*time.Second)))
		if took := kit.LostAt(t, h, start); took != 10*time.Second-102*time.Millisecond {
			t.Errorf("lost after %v", took)
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		// The answer comes after the lease: no hold, and no endless trying.
		_, err := s.Redlock("x").Lock(background, holdfast.FixedLease(50*time.Millisecond))
		kit.WantError(t, err, holdfast.ErrLost)
		time.Sleep(time.Second)
	})
}

func TestRedLockEndsWithItsQuorum(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 5)
		var lost atomic.Int32
		h := kit.Must(t)(s.Redlock("x").Lock(background, holdfast.WithHooks(holdfast.Hooks{OnLost: func(_ context.Context, e holdfast.Event) {
			lost.Add(1)
			if e.Name != "x" || !errors.Is(e.Err, holdfast.ErrLost) {
				t.Errorf("%+v", e)
			}
		}})))
		time.Sleep(2 * time.Second)
		for i, c := range s.Again().Clients[:3] {
			if h.Context().Err() != nil {
				t.Fatalf("lost with %d parts", 5-i)
			}
			if _, err := c.NewMutex("x").ForceUnlock(background); err != nil {
				t.Fatal(err)
			}
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
		if lost.Load() != 1 {
			t.Errorf("told %d times", lost.Load())
		}
	})
}

// An Unlock that reaches a quorum is one; the others are reached later.
func TestRedLockUnlock(t *testing.T) {
	for down := range 6 {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			s := kit.Several(w, 5)
			h := kit.Must(t)(s.Redlock("x").Lock(background))
			synctest.Wait()
			for i := range down {
				s.Fault(memdriver.Fault{LoseRequest: true}, i)
			}
			start := time.Now()
			err := h.Unlock()
			var failed *holdfast.BackendError
			if down <= 2 && err != nil || down > 2 && !errors.As(err, &failed) {
				t.Errorf("%d down: %v", down, err)
			}
			if took := time.Since(start); took > holdfast.DefaultTimeout {
				t.Errorf("took %v", took)
			}
			for i := range down {
				s.Fault(memdriver.Fault{}, i)
			}
			time.Sleep(10 * time.Second)
			s.WantFree(t)
		})
	}
}

func TestS27_CancelledRedLocksLeaveNothing(t *testing.T) {
	for name, fault := range map[string]memdriver.Fault{
		"slow":       {DelayRequest: 10 * time.Millisecond, DelayReply: 10 * time.Millisecond},
		"reply lost": {DelayRequest: 10 * time.Millisecond, LoseReply: true},
		"very late":  {DelayRequest: 2200 * time.Millisecond},
	} {
		for _, after := range []time.Duration{0, time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/cancelled after %v", name, after), func(t *testing.T) {
				kit.Fake(t, func(t *testing.T, w *kit.World) {
					s := kit.Several(w, 3)
					s.Fault(fault, 0, 1, 2)
					ctx, cancel := context.WithTimeout(background, after)
					defer cancel()
					start := time.Now()
					h, err := s.Redlock("x").Lock(ctx)
					if err == nil { // the very moment
						kit.Unlock(t, h)
					} else {
						kit.WantError(t, err, context.DeadlineExceeded)
						if took := time.Since(start); took != after {
							t.Errorf("returned after %v", took)
						}
					}
					s.Fault(memdriver.Fault{}, 0, 1, 2)
					time.Sleep(10 * time.Second)
					s.WantFree(t)
				})
			})
		}
	}
}

// L18: contenders that split the vote do not stay in step, and never overlap.
func TestL18_RedLockContenders(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 5)
		var inside atomic.Int32
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 5 {
			mine := s.Again()
			for j := range mine.Drivers { // each is nearest to another server
				mine.Fault(memdriver.Fault{DelayRequest: time.Duration(1+(i+j)%5) * time.Millisecond}, j)
			}
			r := mine.Redlock("x")
			wg.Go(func() {
				for range 10 {
					h, err := r.Lock(background)
					if err != nil {
						t.Error(err)
						return
					}
					if inside.Add(1) > 1 {
						t.Error("two holders")
					}
					time.Sleep(5 * time.Millisecond)
					inside.Add(-1)
					kit.Unlock(t, h)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// Servers that held the lock and went away are waited for, servers that never
// answered are not.
func TestRedLockBearsAnOutage(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		o := s.Again()
		h := kit.Must(t)(o.Redlock("x").Lock(background))
		got := make(chan *holdfast.Hold)
		go func() { got <- kit.Must(t)(s.Redlock("x").Lock(background)) }()
		time.Sleep(time.Second)
		s.Fault(memdriver.Fault{LoseRequest: true}, 0, 1)
		time.Sleep(10 * time.Second)
		kit.Unlock(t, h)
		time.Sleep(10 * time.Second)
		back := time.Now()
		s.Fault(memdriver.Fault{}, 0, 1)
		next := <-got
		if took := time.Since(back); took > holdfast.DefaultTimeout+time.Second {
			t.Errorf("had %v after the servers were back", took)
		}
		kit.Unlock(t, next)
	})
}

func TestRedLockInAMultiLock(t *testing.T) {
	for _, lease := range []time.Duration{0, 20 * time.Second} {
		kit.Fake(t, func(t *testing.T, w *kit.World) {
			s := kit.Several(w, 3)
			o, _ := w.Client()
			blocker := kit.Must(t)(o.NewMutex("y").Lock(background))
			kit.Once(s.Drivers[1], "acquire", memdriver.Fault{DelayReply: time.Second})
			m := holdfast.NewMultiLock(s.Clients[0].NewMutex("y"), s.Redlock("x"))
			if m.Name() != "x+y" {
				t.Errorf("name %q", m.Name())
			}
			time.AfterFunc(time.Minute, func() { kit.Unlock(t, blocker) })
			var options []holdfast.LockOption
			if lease > 0 {
				options = append(options, holdfast.FixedLease(lease))
			}
			h := kit.Must(t)(m.Lock(background, options...))
			if n := held(s, "x", h); n != 3 {
				t.Errorf("held on %d servers", n)
			}
			owner, _ := partOn(w, "y", h)
			w.WantCount("y", owner, 1)
			start := time.Now()
			if lease > 0 {
				if took := kit.LostAt(t, h, start); took != lease-lease/100-2*time.Millisecond {
					t.Errorf("lost after %v", took)
				}
				kit.WantError(t, h.Unlock(), holdfast.ErrLost)
				time.Sleep(time.Second)
				return
			}
			s.Worlds[1].Do("DEL", "x")
			time.Sleep(time.Minute)
			if h.Context().Err() != nil {
				t.Errorf("lost with a minority: %v", context.Cause(h.Context()))
			}
			s.Worlds[2].Do("DEL", "x")
			kit.LostAt(t, h, start)
			kit.WantError(t, h.Unlock(), holdfast.ErrLost)
		})
	}
}

// A server that joins late, when a fixed lease has begun, ends with the others.
func TestLateServersJoinAFixedLease(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		kit.Once(s.Drivers[1], "acquire", memdriver.Fault{DelayReply: time.Second})
		m := holdfast.NewMultiLock(s.Clients[0].NewMutex("y"), s.Redlock("x"))
		h := kit.Must(t)(m.Lock(background, holdfast.FixedLease(20*time.Second)))
		time.Sleep(2 * time.Second)
		if n := held(s, "x", h); n != 3 {
			t.Errorf("held on %d servers", n)
		}
		time.Sleep(20 * time.Second)
		s.WantFree(t)
		kit.WantError(t, h.Unlock(), holdfast.ErrLost)
	})
}

// One of the clients is closed: a minority less.
func TestCloseOfAMinority(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		h := kit.Must(t)(s.Redlock("x").Lock(background))
		synctest.Wait()
		for i := range 2 {
			if h.Context().Err() != nil {
				t.Errorf("%d closed: %v", i, context.Cause(h.Context()))
			}
			if err := s.Clients[i].Close(); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				again := kit.Must(t)(s.Redlock("y").Lock(background))
				kit.Unlock(t, again)
			}
		}
		if cause := context.Cause(h.Context()); cause != holdfast.ErrClosed { //nolint:errorlint // unwrapped
			t.Errorf("cause %v", cause)
		}
		kit.WantError(t, h.Unlock(), holdfast.ErrClosed)
		_, err := s.Redlock("x").Lock(background)
		kit.WantError(t, err, holdfast.ErrClosed)
		synctest.Wait()
		s.WantFree(t)
	})
}

// A part that is lost is lost once, whatever ends it again later: the others are still a quorum.
func TestPartLostBefore(t *testing.T) {
	for name, endAgain := range map[string]func(s *kit.Servers, lost *holdfast.Hold) error{
		"its client closes": func(s *kit.Servers, _ *holdfast.Hold) error { return s.Clients[2].Close() },
		"it is unlocked": func(_ *kit.Servers, lost *holdfast.Hold) error {
			if err := lost.Unlock(); !errors.Is(err, holdfast.ErrLost) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Fake(t, func(t *testing.T, w *kit.World) {
				s := kit.Several(w, 3)
				h := kit.Must(t)(s.Redlock("x").Lock(background))
				synctest.Wait()
				s.Fault(memdriver.Fault{LoseRequest: true}, 2)
				time.Sleep(holdfast.DefaultLease) // less than that from now, and the part is still to be given back
				i := slices.IndexFunc(h.Parts(), func(part *holdfast.Hold) bool { return part.Context().Err() != nil })
				s.Fault(memdriver.Fault{}, 2)
				kit.OK(t, endAgain(s, h.Parts()[i]))
				synctest.Wait()
				if err := context.Cause(h.Context()); err != nil {
					t.Errorf("two of three live: %v", err)
				}
				kit.OK(t, h.Unlock())
			})
		})
	}
}

func TestRedLockOfBadInput(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 3)
		a, b := s.Clients[0], s.Clients[1]
		var none *holdfast.Mutex
		for i, r := range []*holdfast.MultiLock{
			holdfast.NewRedLock(), holdfast.NewRedLock(nil), holdfast.NewRedLock(a.NewMutex("x"), none),
			holdfast.NewRedLock(a.NewMutex("x"), b.NewMutex("x"), a.NewMutex("x")),
			holdfast.NewRedLock(a.NewMutex("x"), a.NewMutex("y")),
			holdfast.NewRedLock(s.Redlock("x")),
			holdfast.NewRedLock(holdfast.NewMultiLock(a.NewMutex("x"))),
			holdfast.NewRedLock(elsewhere{a.NewMutex("x")}),
		} {
			if _, err := r.TryLock(background); !errors.Is(err, holdfast.ErrInvalid) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		_, err := s.Redlock("}").TryLock(background)
		kit.WantError(t, err, holdfast.ErrInvalid)
		_, err = s.Redlock("x").Lock(background, holdfast.FixedLease(0))
		kit.WantError(t, err, holdfast.ErrInvalid)
		h := kit.Must(t)(holdfast.NewRedLock(a.NewMutex("x", holdfast.NonReentrant()), b.NewMutex("y")).Lock(background))
		if h.Name() != "x+y" {
			t.Errorf("name %q", h.Name())
		}
		_, err = holdfast.NewRedLock(a.NewMutex("x", holdfast.NonReentrant()), b.NewMutex("y")).Lock(h.Context())
		kit.WantError(t, err, holdfast.ErrReentrant)
		synctest.Wait()
		kit.Unlock(t, h)
	})
}

// P8: what several locks need is asked for side by side: servers that take 100 ms
// each cost 100 ms, and one that does not answer costs nothing.
func TestP8_SideBySide(t *testing.T) {
	kit.Fake(t, func(t *testing.T, w *kit.World) {
		s := kit.Several(w, 5)
		took := func(what string, most time.Duration, do func()) {
			t.Helper()
			start := time.Now()
			do()
			if took := time.Since(start); took > most {
				t.Errorf("%s took %v", what, took)
			}
		}
		s.Fault(memdriver.Fault{DelayRequest: 50 * time.Millisecond, DelayReply: 50 * time.Millisecond}, 0, 1, 2, 3)
		s.Fault(memdriver.Fault{LoseRequest: true}, 4)
		var h *holdfast.Hold
		took("to acquire a RedLock", 100*time.Millisecond, func() { h = kit.Must(t)(s.Redlock("x").Lock(background)) })
		took("to extend it", 100*time.Millisecond, func() {
			if err := h.Extend(background, time.Minute); err != nil {
				t.Error(err)
			}
		})
		s.Fault(memdriver.Fault{DelayRequest: 50 * time.Millisecond, DelayReply: 50 * time.Millisecond}, 4)
		took("to give it back", 2*time.Second+200*time.Millisecond, func() { kit.Unlock(t, h) })
		var parts []holdfast.Locker
		for _, c := range s.Clients {
			parts = append(parts, c.NewMutex("y"))
		}
		h = kit.Must(t)(holdfast.NewMultiLock(parts...).Lock(background))
		took("to give a multi-lock back", 100*time.Millisecond, func() { kit.Unlock(t, h) })
	})
}
