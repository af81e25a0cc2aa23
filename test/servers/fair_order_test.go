package servers

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/test/kit"
)

// The fair lock, on every driver, in real time.
func TestFairMutex(t *testing.T) {
	kit.OnEveryDriver(t, map[string]func(*testing.T, *kit.Platform){
		"InOrder":             inOrder,
		"A14_TryDoesNotQueue": tryDoesNotQueue,
		"L5_LeavingHeadTells": leavingHeadTells,
		"A3_GoneIsAnError":    fairGoneIsAnError,
		"ManyInOneProcess":    manyInOneProcess,
	})
}

// waits makes somebody wait in line, and returns when Redis knows.
func waits(t *testing.T, p *kit.Platform, ctx context.Context, mu *holdfast.Mutex, got func(*holdfast.Hold, error)) {
	t.Helper()
	before := p.Do(t, mu.Name(), "LLEN", "redisson_lock_queue:{"+mu.Name()+"}")
	go func() { got(mu.Lock(ctx)) }()
	kit.WaitFor(t, "a place in line", func() bool {
		return !slices.Equal(before, p.Do(t, mu.Name(), "LLEN", "redisson_lock_queue:{"+mu.Name()+"}"))
	})
}

func inOrder(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	clients := []*holdfast.Client{p.Client(t), p.Client(t), p.Client(t)}
	for i := range 9 {
		wg.Add(1)
		waits(t, p, background, clients[i%3].NewFairMutex(name), func(h *holdfast.Hold, err error) {
			defer wg.Done()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			kit.Unlock(t, h)
		})
	}
	found, err := clients[0].NewFairMutex(name).Inspect(background)
	if err != nil || len(found.Waiters) != 9 || len(found.Holders) != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	kit.Unlock(t, h)
	wg.Wait()
	if !slices.IsSorted(order) || len(order) != 9 {
		t.Errorf("they came in the order %v", order)
	}
	nothingLeft(t, p, name)
}

// A14: one try leaves no trace, and does not overtake.
func tryDoesNotQueue(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	c := p.Client(t)
	h := kit.Must(t)(c.NewFairMutex(name).Lock(background))
	_, err := c.NewFairMutex(name).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	if n := p.Do(t, name, "EXISTS", "redisson_lock_queue:{"+name+"}"); n[0] != "0" {
		t.Error("TryLock stands in line")
	}
	// Somebody waits who is not from here, and the lock is free.
	in := strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10)
	p.Do(t, name, "RPUSH", "redisson_lock_queue:{"+name+"}", "java:1")
	p.Do(t, name, "ZADD", "redisson_lock_timeout:{"+name+"}", in, "java:1")
	kit.Unlock(t, h)
	_, err = c.NewFairMutex(name).TryLock(background)
	kit.WantError(t, err, holdfast.ErrLocked)
	if !strings.HasSuffix(err.Error(), "held by another owner") {
		t.Errorf("nobody holds it: %v", err)
	}
}

// L5: the next one is told when the first in line gives up while the lock is
// free. Here the first is one who does not listen: a dead one of another process
// that somebody takes out of the line.
func leavingHeadTells(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	c := p.Client(t)
	h := kit.Must(t)(c.NewFairMutex(name).Lock(background))
	ctx, cancel := context.WithCancel(background)
	first, second := make(chan error, 1), make(chan *holdfast.Hold, 1)
	waits(t, p, ctx, c.NewFairMutex(name), func(_ *holdfast.Hold, err error) { first <- err })
	waits(t, p, background, p.Client(t).NewFairMutex(name), func(h *holdfast.Hold, _ error) { second <- h })
	cancel()
	kit.WantError(t, <-first, context.Canceled)
	kit.WaitFor(t, "the first to be out of the line", func() bool {
		return p.Do(t, name, "LLEN", "redisson_lock_queue:{"+name+"}")[0] == "1"
	})
	kit.Unlock(t, h)
	kit.Unlock(t, <-second)
	nothingLeft(t, p, name)
}

// A3: unlocking a lock that is gone is an error, here as for every kind.
func fairGoneIsAnError(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	h := kit.Must(t)(p.Client(t).NewFairMutex(name).Lock(background))
	p.Do(t, name, "DEL", name)
	kit.WantError(t, h.Unlock(), holdfast.ErrLost, holdfast.ErrNotHeld)
}

func manyInOneProcess(t *testing.T, p *kit.Platform) {
	name := kit.Fresh()
	c := p.Client(t)
	var wg sync.WaitGroup
	var in sync.Mutex
	for range 50 {
		wg.Go(func() {
			h, err := c.NewFairMutex(name).Lock(background)
			if err != nil {
				t.Error(err)
				return
			}
			if !in.TryLock() {
				t.Error("two at once")
			} else {
				in.Unlock()
			}
			kit.Unlock(t, h)
		})
	}
	wg.Wait()
	nothingLeft(t, p, name)
}
