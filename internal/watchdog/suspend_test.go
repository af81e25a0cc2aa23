package watchdog

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/faketime"
	"github.com/holdfast-go/holdfast/internal/mono"
)

// host is one that is suspended at some moment, while the clocks of servers go on.
type host struct {
	mu   sync.Mutex
	next time.Duration // the length of the suspension after the next look at both clocks
	from time.Time     // when it was suspended; zero: not yet
	by   time.Duration // for how long
}

// suspended makes the watchdog see the host's clocks.
func suspended(d *watchdog) *host {
	h := &host{}
	d.clock, d.lead = h.clock, h.asleep
	return h
}

// clock is the host's: the test's own clock, which goes on by as much while the host is suspended.
func (h *host) clock(now time.Time) (at mono.Time, asleep time.Duration) {
	asleep = h.asleep(now)
	return mono.Of(now).Add(asleep), asleep
}

// at suspends the host at a moment to come.
func (h *host) at(from time.Time, by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from, h.by = from, by
}

// soon suspends the host right after the next time that the watchdog looks at its
// clocks, which it does when it reckons a deadline.
func (h *host) soon(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = by
}

func (h *host) asleep(at time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	asleep := h.before(at)
	if h.next > 0 {
		time.Sleep(time.Millisecond)
		h.from, h.by, h.next = time.Now(), h.next, 0
	}
	return asleep
}

// before returns its total suspension before a moment. h.mu is held.
func (h *host) before(at time.Time) time.Duration {
	if h.from.IsZero() || at.Before(h.from) {
		return 0
	}
	return h.by
}

// wantLost checks that an entry, and no other, was lost so long after a moment,
// or within one look of it.
func (s *server) wantLost(t *testing.T, name string, since time.Time, after time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) != 1 || !strings.Contains(s.lost[0], " "+name+": ") {
		t.Fatalf("lost %q, want %s alone", s.lost, name)
	}
	at, err := time.ParseDuration(strings.Fields(s.lost[0])[0])
	if err != nil {
		t.Fatal(err)
	}
	if at -= since.Sub(s.start); at < after || at > after+tick {
		t.Errorf("lost after %v, want %v", at, after)
	}
}

// suspending runs f with a watchdog on such a host.
func suspending(t *testing.T, f func(t *testing.T, s *server, d *watchdog, h *host)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		s := &server{answer: allHeld}
		d := newWatchdog(t, s)
		f(t, s, d, suspended(d))
	})
}

// The host is suspended after a deadline was reckoned, and before the watchdog first
// looks at it: the first entry ever, the first after a while without any, and
// one beside another.
func TestSuspendedBeforeTheFirstLook(t *testing.T) {
	before := map[string]func(d *watchdog) (after func()){
		"first": func(*watchdog) func() { return func() {} },
		"asleep": func(d *watchdog) func() {
			d.Remove(watch(d, "early", 0, 30*time.Second, true))
			time.Sleep(30 * time.Second)
			return func() {}
		},
		"beside another": func(d *watchdog) func() {
			keep := watch(d, "keep", 0, time.Hour, false)
			time.Sleep(10 * time.Millisecond)
			return func() { d.Remove(keep) }
		},
	}
	for name, prepare := range before {
		t.Run(name, func(t *testing.T) {
			suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
				after := prepare(d)
				h.soon(25 * time.Second)
				start := time.Now()
				watch(d, "a", 0, 30*time.Second, false)
				time.Sleep(20 * time.Second)
				synctest.Wait()
				s.wantLost(t, "a", start, 4698*time.Millisecond)
				after()
			})
		})
	}
}

// The host is suspended after a longer deadline was reckoned.
func TestSuspendedAfterAnAcknowledgement(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
		e := watch(d, "a", 0, 30*time.Second, false)
		time.Sleep(time.Second + 10*time.Millisecond)
		h.soon(55 * time.Second)
		start := time.Now()
		d.Acknowledge(e, mono.Of(start), time.Minute)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		s.wantLost(t, "a", start, 4398*time.Millisecond)
	})
}

// A hold whose lease changes, as that of several locks does when all are had, was
// suspended since the watchdog has last looked.
func TestSuspendedBeforeAnotherLease(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
		start := time.Now()
		e := watch(d, "a", 0, time.Minute, true)
		h.at(start.Add(5*time.Second+10*time.Millisecond), 50*time.Second)
		time.Sleep(5*time.Second + 20*time.Millisecond)
		d.SetLease(e, 30*time.Second)
		d.SetRenewing(e, false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.wantLost(t, "a", start, 9398*time.Millisecond)
	})
}

// What is asked right after the host has woken up counts the suspension, also if the
// watchdog has not looked yet.
func TestSuspendedSinceTheLastLook(t *testing.T) {
	suspending(t, func(t *testing.T, _ *server, d *watchdog, h *host) {
		start := time.Now()
		e := watch(d, "a", 0, 30*time.Second, false)
		h.at(start.Add(10*time.Second+10*time.Millisecond), 25*time.Second)
		time.Sleep(10*time.Second + 20*time.Millisecond)
		want := -5322 * time.Millisecond
		if got := d.Deadline(e).Sub(d.now()); got != want {
			t.Errorf("%v left, want %v", got, want)
		}
		if d.Remove(e) {
			t.Error("an entry whose lease has run out while the host slept is trusted")
		}
		if got := d.Deadline(e).Sub(d.now()); got != want {
			t.Errorf("removed: %v left, want %v", got, want)
		}
		if !d.Overslept(e) {
			t.Error("it was not the suspension's doing")
		}
	})
}

// A call that was under way while the host slept counts from when it was sent on
// the server's clock: the next renewal is due that much earlier, too.
func TestSuspendedWithACallUnderWay(t *testing.T) {
	slow := func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
		time.Sleep(120 * time.Millisecond) // the watchdog looks before the answer comes
		return allHeld(ctx, batch)
	}
	t.Run("renewal", func(t *testing.T) {
		suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
			s.answer = slow
			start := time.Now()
			e := watch(d, "a", 0, 30*time.Second, true)
			h.at(start.Add(10*time.Second+10*time.Millisecond), 19*time.Second)
			time.Sleep(12 * time.Second)
			synctest.Wait()
			if len(s.calls) != 2 || len(s.lost) > 0 {
				t.Errorf("renewals at %v, want another one as soon as the first is answered; lost %v", s.calls, s.lost)
			}
			d.Remove(e)
		})
	})
	t.Run("acquire", func(t *testing.T) {
		suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
			sent := d.now()
			h.at(time.Now().Add(10*time.Millisecond), 25*time.Second)
			time.Sleep(20 * time.Millisecond)
			e := &Entry[held]{Value: held{"a", 0}, Lease: 30 * time.Second}
			d.Watch(e, sent, e.Lease, true)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if len(s.lost) > 0 {
				t.Errorf("lost %v", s.lost)
			}
			d.Remove(e)
		})
	})
}

// Renewals ask for the lease that was set last, and are sent as often as it wants.
func TestAnotherLease(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var asked []time.Duration
		s := &server{answer: func(ctx context.Context, batch []Renewal[held]) ([]bool, error) {
			asked = append(asked, batch[0].TTL)
			return allHeld(ctx, batch)
		}}
		d := newWatchdog(t, s)
		e := watch(d, "a", 0, time.Hour, true)
		time.Sleep(time.Minute)
		promised := d.Deadline(e)
		d.SetLease(e, 30*time.Second)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(asked) != 1 || asked[0] != 30*time.Second || d.Deadline(e) != promised {
			t.Errorf("asked for %v, deadline moved by %v", asked, d.Deadline(e).Sub(promised))
		}
		d.Remove(e)
	})
}

// setClock sets the wall clock at a moment.
func setClock(d *watchdog, at time.Time, by time.Duration) {
	d.lead = func(now time.Time) time.Duration {
		if now.Before(at) {
			return 0
		}
		return by
	}
}

// A wall clock that is set costs no hold. When it is set forward Redis is asked at once: a virtual machine may have been
// paused meanwhile, and what has gone from Redis is lost then.
func TestWallClockThatIsSet(t *testing.T) {
	for by, asked := range map[time.Duration]int{20 * time.Second: 2, 24 * time.Hour: 2, -time.Hour: 0, 5 * time.Millisecond: 0} {
		t.Run(by.String(), func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				s := &server{answer: func(_ context.Context, batch []Renewal[held]) ([]bool, error) {
					held := make([]bool, len(batch))
					for i, r := range batch {
						held[i] = r.Entry.Value.name != "gone"
					}
					return held, nil
				}}
				d := newWatchdog(t, s)
				start := time.Now()
				setClock(d, start.Add(3*time.Second), by)
				renewed := watch(d, "renewed", 0, 30*time.Second, true)
				fixed := watch(d, "fixed", 0, 30*time.Second, false)
				deadline := d.Deadline(fixed)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if len(s.renewed) != asked || len(s.lost) > 0 || d.Deadline(fixed) != deadline {
					t.Errorf("asked about %q, lost %q, a fixed lease moved by %v", s.renewed, s.lost, d.Deadline(fixed).Sub(deadline))
				}
				d.Remove(renewed)
				d.Remove(fixed)

				d, s.start = newWatchdog(t, s), start
				setClock(d, start.Add(7*time.Second), by)
				gone := watch(d, "gone", 0, 30*time.Second, false)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if asked > 0 {
					s.wantLost(t, "gone", start, 7*time.Second)
				}
				d.Remove(gone)
			})
		})
	}
}

// A host is suspended while its wall clock is set: what counts is for how long it was suspended.
func TestSuspendedWhileTheClockIsSet(t *testing.T) {
	for by, lost := range map[time.Duration]bool{time.Minute: true, 10 * time.Second: false} {
		for _, step := range []time.Duration{-by, -time.Hour, 24 * time.Hour} {
			suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
				start := time.Now()
				h.at(start.Add(3*time.Second+10*time.Millisecond), by)
				d.lead = func(now time.Time) time.Duration {
					asleep := h.asleep(now)
					if asleep > 0 {
						asleep += step
					}
					return asleep
				}
				e := watch(d, "a", 0, 30*time.Second, true)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if (len(s.lost) > 0) != lost || d.Remove(e) == lost {
					t.Errorf("suspended for %v, set by %v: lost %q", by, step, s.lost)
				}
				if d.Overslept(e) != lost {
					t.Errorf("suspended for %v, set by %v: overslept: %t", by, step, !lost)
				}
			})
		}
	}
}

// What is lost for want of answers is not put down to a suspension that it would have survived.
func TestSuspendedAndNotAnswered(t *testing.T) {
	suspending(t, func(t *testing.T, s *server, d *watchdog, h *host) {
		s.answer = func(ctx context.Context, _ []Renewal[held]) ([]bool, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		h.at(time.Now().Add(3*time.Second+10*time.Millisecond), 5*time.Second)
		e := watch(d, "a", 0, 30*time.Second, true)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if len(s.lost) != 1 || d.Overslept(e) {
			t.Errorf("lost %q, overslept: %t", s.lost, d.Overslept(e))
		}
	})
}
