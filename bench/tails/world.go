package tails

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/contenders"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var background = context.Background()

// limit is after which time a trial has failed. Of a peer, that is a finding.
const limit = time.Minute

// atOnce is in how many locks there are trials at the same time, of one subject.
const atOnce = 50

// forSubjects runs a measure for each subject that fits.
func forSubjects(t *testing.T, fits func(s subject) bool, measure func(t *testing.T, s subject)) {
	t.Helper()
	t.Parallel()
	for _, s := range subjects {
		if fits(s) && (settings.trials > 0 || s.quick) {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				measure(t, s)
			})
		}
	}
}

func all(subject) bool { return true }

var lastName atomic.Int64

// fresh returns names that nobody has used.
func fresh(n int) (names []string) {
	for range n {
		names = append(names, "tail"+strconv.FormatInt(lastName.Add(1), 10))
	}
	return names
}

// random is the source of the moments of a subject's faults.
func random(s subject) *rand.Rand {
	var sum uint64
	for _, b := range []byte(s.name) {
		sum = sum*31 + uint64(b)
	}
	return rand.New(rand.NewPCG(settings.seed, sum))
}

func open(t *testing.T, s subject, to target) session {
	t.Helper()
	session, err := s.open(to)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// direct is a connection without a fault.
func direct(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// expiries asks the server until when each lock lives, by its clock; zero: it has ended already.
func expiries(t *testing.T, rdb *redis.Client, s subject, names []string) []time.Time {
	t.Helper()
	at := make([]time.Time, len(names))
	for i, name := range names {
		key := s.key(name)
		var ms int64
		if s.scores {
			last, err := rdb.ZRevRangeWithScores(background, key, 0, 0).Result()
			if err != nil || len(last) == 0 {
				t.Fatalf("%q: %v, %v", key, last, err)
			}
			ms = int64(last[0].Score)
		} else {
			// go-redis makes a duration of it, in milliseconds
			d, err := rdb.PExpireTime(background, key).Result()
			if err == nil && d < 0 && !s.renews {
				continue // on a busy machine it has ended before the fault
			}
			if err != nil || d <= 0 {
				t.Fatalf("%q lives until %v: %v", key, d, err)
			}
			ms = d.Milliseconds()
		}
		at[i] = time.UnixMilli(ms)
	}
	return at
}

// each runs something for each name, at once, and waits.
func each(names []string, f func(i int, name string)) {
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { f(i, name) })
	}
	all.Wait()
}

// take has a session take each of the locks, within the spread. Holds end with the context.
func take(ctx context.Context, t *testing.T, s session, names []string, r role, spread time.Duration, rng *rand.Rand) []contenders.Grant {
	t.Helper()
	grants := make([]contenders.Grant, len(names))
	after := make([]time.Duration, len(names))
	for i := range after {
		if spread > 0 {
			after[i] = time.Duration(rng.Int64N(int64(spread)))
		}
	}
	each(names, func(i int, name string) {
		time.Sleep(after[i])
		var err error
		if grants[i], err = s.lock(ctx, name, r); err != nil {
			if ctx.Err() == nil {
				t.Errorf("%s %q: %v", r, name, err)
			}
			grants[i].Unlock = func() error { return err }
		}
	})
	return grants
}

// takeFree takes locks that are free. A peer may not get them; then nil is returned.
func takeFree(t *testing.T, s subject, by session, names []string, spread time.Duration, rng *rand.Rand) []contenders.Grant {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	t.Cleanup(cancel) // holds end with it
	timer := time.AfterFunc(10*time.Second, cancel)
	grants := take(ctx, t, by, names, holds, spread, rng)
	switch {
	case timer.Stop():
		return grants
	case s.peer:
		t.Logf("%s did not get locks that were free", s.name)
	default:
		t.Fatalf("%s does not get locks that are free", s.name)
	}
	return nil
}

// holding opens a session that takes locks which nobody has used, at once or within the spread.
func holding(t *testing.T, s subject, to target, n int, spread time.Duration, rng *rand.Rand) (by session, names []string, grants []contenders.Grant) {
	t.Helper()
	for {
		by, names = open(t, s, to), fresh(n)
		if grants = takeFree(t, s, by, names, spread, rng); grants != nil {
			return by, names, grants
		}
		by.close()
	}
}

// waiting is a number of calls that wait for locks.
type waiting struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	at     []time.Time // of the grants; zero: there was none
}

// wait has a session wait for each of the locks, which it gives back as soon as it has it.
func wait(t *testing.T, s session, names []string) *waiting {
	w := &waiting{at: make([]time.Time, len(names))}
	_, ours := s.(*holdfastSession)
	ctx, cancel := context.WithTimeout(background, limit)
	w.cancel = cancel
	for i, name := range names {
		w.done.Go(func() {
			g, err := s.lock(ctx, name, waits)
			if err == nil {
				w.at[i] = time.Now()
				err = g.Unlock()
			}
			if err != nil && ours {
				t.Errorf("waiting for %q: %v", name, err)
			}
		})
	}
	return w
}

// granted waits until all have had their locks, and says when. The test ends if one has not.
func (w *waiting) granted(t *testing.T) []time.Time {
	t.Helper()
	at := w.ended()
	if t.Failed() {
		t.FailNow()
	}
	return at
}

// ended waits until all have had their locks or failed, and says when. It is for any goroutine.
func (w *waiting) ended() []time.Time {
	w.done.Wait()
	w.cancel()
	return w.at
}

// until asks again and again whether something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for start := time.Now(); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatal("not in time: " + what)
		}
	}
}

// stand waits until somebody waits for each of the locks, as far as Redis knows.
func stand(t *testing.T, rdb *redis.Client, s subject, names []string, n int64) {
	t.Helper()
	for _, name := range names {
		key := s.line(name)
		until(t, fmt.Sprintf("%d stand at %q", n, key), func() bool {
			if rdb.Type(background, key).Val() == "list" {
				return rdb.LLen(background, key).Val() >= n
			}
			return rdb.ZCard(background, key).Val() >= n
		})
	}
}

// rounds calls f until there have been so many trials, some at once.
func rounds(trials int, f func(n int)) {
	for trials = part(trials); trials > 0; {
		n := min(trials, atOnce)
		f(n)
		trials -= n
	}
}

// force takes a lock away by force.
func force(by session, s subject, name string) error {
	c := by.(*holdfastSession).client
	var err error
	switch {
	case s.scores:
		_, err = c.NewPermitSemaphore(name).ForceUnlock(background)
	case s.line != nil:
		_, err = c.NewFairMutex(name).ForceUnlock(background)
	case s.name == "reader after writer":
		_, err = c.NewRWMutex(name).ForceUnlock(background)
	case s.name == "writer after reader":
		_, err = c.NewRWMutex(name).RLocker().ForceUnlock(background)
	default:
		_, err = c.NewMutex(name).ForceUnlock(background)
	}
	return err
}
