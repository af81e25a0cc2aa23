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

// host is one whose monotonic clock stands still at some moment, while the wall
// clock goes on.
type host struct {
	mu   sync.Mutex
	next time.Duration // the length of the suspension after the next look at both clocks
	from time.Time     // when it was suspended; zero: not yet
	by   time.Duration // for how long
}

// suspended makes the watchdog see the host's clocks.
func suspended(d *watchdog) *host {
	h := &host{}
	d.lead = h.lead
	return h
}

// at suspends the host at a moment to come.
func (h *host) at(from time.Time, by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.from, h.by = from, by
}

// soon suspends the host right after the next time that the watchdog looks at both
// clocks, which it does when it reckons a deadline.
func (h *host) soon(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = by
}

func (h *host) lead(at time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	lead := h.ahead(at)
	if h.next > 0 {
		time.Sleep(time.Millisecond)
		h.from, h.by, h.next = time.Now(), h.next, 0
	}
	return lead
}

// ahead is how far the wall clock has run ahead at a moment. h.mu is held.
func (h *host) ahead(at time.Time) time.Duration {
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
		d.Acknowledge(e, start, time.Minute)
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

// What is asked right after the host has woken up is answered by its wall clock,
// also if the watchdog has not looked yet.
func TestSuspendedSinceTheLastLook(t *testing.T) {
	suspending(t, func(t *testing.T, _ *server, d *watchdog, h *host) {
		start := time.Now()
		e := watch(d, "a", 0, 30*time.Second, false)
		h.at(start.Add(10*time.Second+10*time.Millisecond), 25*time.Second)
		time.Sleep(10*time.Second + 20*time.Millisecond)
		want := mono.Of(start.Add(4698 * time.Millisecond))
		if got := d.Deadline(e); got != want {
			t.Errorf("deadline %v too late", got.Sub(want))
		}
		if d.Remove(e) {
			t.Error("an entry whose lease has run out while the host slept is trusted")
		}
		if got := d.Deadline(e); got != want {
			t.Errorf("removed: deadline %v too late", got.Sub(want))
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
			sent := time.Now()
			h.at(sent.Add(10*time.Millisecond), 25*time.Second)
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

// The wall clock's lead stays the same while it goes as far as the monotonic one.
func TestWallLead(t *testing.T) {
	now := time.Now()
	if got := wallLead(now.Add(time.Hour)) - wallLead(now); got != 0 {
		t.Errorf("both clocks went on for an hour, and the lead changed by %v", got)
	}
}
