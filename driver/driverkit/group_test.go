package driverkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/faketime"
)

// tells is a driver.Late.
type tells func(reply any, err error)

func (t tells) Tell(reply any, err error) { t(reply, err) }

func noRenewal() {}

var script = driver.NewScript("x", "return 1")

func callOf(key string) driver.Call { return driver.Call{Script: script, Keys: []string{key}} }

// echo is a server that answers a call with its key after a delay.
type echo struct {
	delay time.Duration

	mu      sync.Mutex
	batches []int
}

func (e *echo) send(calls []*Call) {
	e.mu.Lock()
	e.batches = append(e.batches, len(calls))
	e.mu.Unlock()
	keys := make([]string, len(calls))
	for i, c := range calls {
		keys[i] = c.Keys[0]
		c.Sending()
	}
	time.Sleep(e.delay)
	for i, c := range calls {
		c.End(keys[i], nil)
	}
}

func (e *echo) sent() (sum int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.batches {
		sum += n
	}
	return sum
}

func checkNothingLeft(t *testing.T, g *Group) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.workers.running != 0 || g.workers.idle != 0 || g.workers.abandoned != 0 || len(g.underWay) > 0 || g.queue.Len() > 0 {
		t.Errorf("%d workers, %d idle, %d batches under way, %d queued", g.workers.running, g.workers.idle, len(g.underWay), g.queue.Len())
	}
}

// What belongs to a call that its caller has left is not the next one's before the call has ended.
func TestLeftIsNotReused(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := &echo{delay: time.Second}
		g := NewGroup(e.send, nil, noRenewal)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if reply, err := g.Eval(ctx, callOf("a")); err == nil {
				t.Errorf("answered too soon: %v", reply)
			}
			cancel()
			if reply, err := g.Eval(t.Context(), callOf("b")); reply != "b" || err != nil {
				t.Errorf("answered %v, %v", reply, err)
			}
		}
		time.Sleep(time.Minute)
		checkNothingLeft(t, g)
	})
}

// Calls that come while others are on their way leave together, and each gets its own reply.
func TestTogether(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := &echo{delay: 100 * time.Microsecond}
		g := NewGroup(e.send, nil, noRenewal)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				key := strconv.Itoa(i)
				if reply, err := g.Eval(t.Context(), callOf(key)); reply != key || err != nil {
					t.Errorf("%s: %v, %v", key, reply, err)
				}
			})
		}
		all.Wait()
		if n := e.sent(); n != 1000 || len(e.batches) > 20 {
			t.Errorf("%d sent, %d batches", n, len(e.batches))
		}
		for _, n := range e.batches {
			if n > maxBatch {
				t.Errorf("a batch of %d", n)
			}
		}
		time.Sleep(time.Second)
		checkNothingLeft(t, g)
	})
}

// Where the way is long, more batches are under way, up to a bound.
func TestLongWay(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		g := NewGroup(func(calls []*Call) {
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(10 * time.Millisecond)
			now.Add(-1)
			for _, c := range calls {
				c.End(nil, nil)
			}
		}, nil, noRenewal)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 2)
				if _, err := g.Eval(t.Context(), callOf("k")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := most.Load(); n <= fewWorkers || n > maxWorkers {
			t.Errorf("%d batches under way", n)
		}
		time.Sleep(time.Second)
		checkNothingLeft(t, g)
	})
}

// A call that nobody waits for any more: before it is sent it is withdrawn, and later Late
// is told what came of it. One whose context has ended before it came is not sent.
func TestGivenUp(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		e := &echo{delay: time.Second}
		g := NewGroup(e.send, nil, noRenewal)
		var all sync.WaitGroup
		var withdrawn, pending, told atomic.Int32
		for range 300 { // more than two batches hold
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				start, call := time.Now(), callOf("k")
				call.Late = tells(func(reply any, err error) {
					if reply != "k" || err != nil || time.Since(start) < time.Second {
						t.Errorf("told %v, %v after %v", reply, err, time.Since(start))
					}
					told.Add(1)
				})
				_, err := g.Eval(ctx, call)
				var failed *driver.Error
				switch {
				case !errors.As(err, &failed) || time.Since(start) != 100*time.Millisecond || failed.MayHaveRun != failed.Pending:
					t.Errorf("%v after %v", err, time.Since(start))
				case failed.Pending:
					pending.Add(1)
				default:
					withdrawn.Add(1)
				}
				if _, err := g.Eval(ctx, call); !errors.As(err, &failed) || failed.MayHaveRun {
					t.Errorf("with a context that has ended: %v", err)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		if pending.Load() != told.Load() || int(pending.Load()) != e.sent() || withdrawn.Load() == 0 || pending.Load() == 0 {
			t.Errorf("%d withdrawn, %d pending, %d told, %d sent", withdrawn.Load(), pending.Load(), told.Load(), e.sent())
		}
	})
}

// A call whose caller leaves before there is a connection is not sent, and its caller is told so.
func TestGivenUpUnsent(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var sent, told atomic.Int32
		g := NewGroup(func(calls []*Call) {
			for _, c := range calls {
				time.Sleep(time.Second) // there is no connection yet
				if !c.Sending() {
					c.End(nil, driver.ConnectionError(context.Canceled, true))
					continue
				}
				sent.Add(1)
				time.Sleep(time.Second)
				c.End("reply", nil)
			}
		}, nil, noRenewal)
		for after, pending := range map[time.Duration]bool{100 * time.Millisecond: false, 1500 * time.Millisecond: true} {
			call := callOf("k")
			call.Late = tells(func(any, error) { told.Add(1) })
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_, err := g.Eval(ctx, call)
			cancel()
			time.Sleep(time.Minute)
			var failed *driver.Error
			if !errors.As(err, &failed) || failed.MayHaveRun != pending || failed.Pending != pending || (told.Load() == 1) != pending || (sent.Load() == 1) != pending {
				t.Errorf("left after %v: %v; told %d times, %d sent", after, err, told.Load(), sent.Load())
			}
			sent.Store(0)
			told.Store(0)
		}
		checkNothingLeft(t, g)
	})
}

// A worker whose calls have all been given up makes room for another one.
func TestSilence(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		hour := time.Hour
		g := NewGroup(func(calls []*Call) {
			for _, c := range calls {
				c.Sending()
			}
			if sent.Add(1) <= 2*maxWorkers {
				time.Sleep(hour)
			}
			for _, c := range calls {
				c.End(nil, nil)
			}
		}, nil, noRenewal)
		for i := 0; ; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := g.Eval(ctx, callOf("k"))
			cancel()
			if err == nil {
				break
			}
			if i > 2*maxWorkers {
				t.Fatal("still nothing comes back")
			}
		}
		time.Sleep(2 * hour)
		checkNothingLeft(t, g)
		if now := time.Now(); !g.IdleSince(now) || g.IdleSince(now.Add(-3*hour)) {
			t.Error("it does not know when it was used")
		}
	})
}

// A worker of whose calls some are answered, and the others given up, makes room as well.
func TestPartlySilent(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		g := NewGroup(func(calls []*Call) {
			var silent []*Call
			for _, c := range calls {
				if c.Keys[0] == "silent" {
					silent = append(silent, c)
				} else {
					c.End(nil, nil)
				}
			}
			if len(silent) > 0 {
				time.Sleep(time.Hour)
			}
			for _, c := range silent {
				c.End(nil, nil)
			}
		}, nil, noRenewal)
		ask := func(key string, timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := g.Eval(ctx, callOf(key))
			return err
		}
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() { _ = ask([]string{"silent", "k"}[i%2], time.Second) })
		}
		all.Wait()
		for range 3 {
			if err := ask("k", time.Second); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		checkNothingLeft(t, g)
	})
}

// A call that comes at once after those that are not answered is sent, though none follows.
func TestQueuedBehindSilence(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		g := NewGroup(func(calls []*Call) {
			for _, c := range calls {
				if key := c.Keys[0]; key == "silent" {
					time.Sleep(time.Hour)
				}
				c.End(nil, nil)
			}
		}, nil, noRenewal)
		for range fewWorkers {
			go func() { _, _ = g.Eval(t.Context(), callOf("silent")) }()
			synctest.Wait()
		}
		start := time.Now()
		if _, err := g.Eval(t.Context(), callOf("k")); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(2 * time.Hour)
		checkNothingLeft(t, g)
	})
}

// However many are given up, the workers that do not count are bounded.
func TestAbandonedAreBounded(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		g := NewGroup(func(calls []*Call) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Hour)
			now.Add(-1)
			for _, c := range calls {
				c.End(nil, nil)
			}
		}, nil, noRenewal)
		for range 500 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, _ = g.Eval(ctx, callOf("k"))
			cancel()
		}
		if n := most.Load(); n > maxAbandoned+maxWorkers || n < maxAbandoned {
			t.Errorf("%d batches under way", n)
		}
		time.Sleep(2 * time.Hour)
		checkNothingLeft(t, g)
	})
}

// Whoever leaves in the very instant at which the call ends gets the outcome, or Late does,
// and never the one of another call whose memory was used again.
func TestInThatInstant(t *testing.T) {
	var told, returned, withdrawn atomic.Int32
	g := NewGroup(func(calls []*Call) {
		for _, c := range calls {
			key := c.Keys[0]
			c.Sending()
			c.End(key, nil)
		}
	}, nil, noRenewal)
	var all sync.WaitGroup
	const callers, each = 16, 2000
	for i := range callers {
		all.Go(func() {
			for j := range each {
				key := fmt.Sprint(i, ":", j)
				ctx, cancel := context.WithCancel(t.Context())
				call := callOf(key)
				call.Late = tells(func(reply any, _ error) {
					if told.Add(1); reply != key {
						t.Errorf("%s: told %v late", key, reply)
					}
				})
				go func() {
					for range rand.IntN(200) {
						_ = ctx.Err()
					}
					cancel()
				}()
				reply, err := g.Eval(ctx, call)
				var failed *driver.Error
				switch {
				case err == nil && reply == key:
					returned.Add(1)
				case errors.As(err, &failed) && !failed.MayHaveRun:
					withdrawn.Add(1)
				case err == nil || !failed.Pending:
					t.Errorf("%s: %v, %v", key, reply, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for start := time.Now(); told.Load()+returned.Load()+withdrawn.Load() != callers*each; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d told, %d returned, %d withdrawn", told.Load(), returned.Load(), withdrawn.Load())
		}
	}
	t.Logf("%d told, %d returned, %d withdrawn", told.Load(), returned.Load(), withdrawn.Load())
}
