package topology

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/test/kit"
)

var movingFor = flag.Duration("moving", 10*time.Second, "for how long a slot is moved to and fro under load")

// patience is how long a call waits at most: much longer than a move takes.
const patience = time.Minute

// A slot is moved to and fro, key by key, while locks of every kind in it are taken
// and given back, and others are held all the time. No hold is lost, no two are
// inside, and no call fails.
func TestMovingSlotUnderLoad(t *testing.T) {
	t.Parallel()
	duringMoves(t, func(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
		load := &movingLoad{t: t, spans: make([][]kit.Span, len(kit.Kinds))}
		a, b := load.client(p, holdfast.DefaultLease), load.client(p, holdfast.DefaultLease)
		load.hold(load.client(p, 5*time.Second), a)
		ctx, stop := context.WithCancel(background)
		var all sync.WaitGroup
		for i, k := range kit.Kinds {
			for j := range 4 {
				c := []*holdfast.Client{a, b}[j%2]
				l, shared := k.Contender(c, movingName(i), j)
				all.Go(func() { load.contend(ctx, i, l, shared) })
			}
		}
		all.Go(func() { load.permits(ctx, a) })
		all.Go(func() { load.semaphore(ctx, b) })
		all.Go(func() { load.latch(ctx, a, b) })
		moves := 0
		for end := time.Now().Add(*movingFor); time.Now().Before(end); moves++ {
			m := s.BeginMove(t, "{slot}")
			for _, key := range m.Keys(t) {
				m.Key(t, key)
				time.Sleep(40 * time.Millisecond) // so that it takes longer than the lease
			}
			m.Finish(t)
			time.Sleep(time.Second) // locks of several keys are to be had between two moves only
		}
		stop()
		all.Wait()
		load.unlockAll()
		for i, k := range kit.Kinds {
			of := *k
			of.Readers = nil // there is hardly time enough for readers to meet
			t.Run(k.Name, func(t *testing.T) { kit.CheckSpans(t, &of, load.spans[i]) })
			t.Logf("%s: %d holds", k.Name, len(load.spans[i]))
		}
		t.Logf("%d moves", moves)
	})
}

func movingName(i int) string { return fmt.Sprintf("{slot}:%02d", i) }

// movingLoad is what goes on in a slot that is moved.
type movingLoad struct {
	t *testing.T

	mu    sync.Mutex
	spans [][]kit.Span // of each kind
	held  []*holdfast.Hold
}

func (l *movingLoad) client(p *kit.Platform, lease time.Duration) *holdfast.Client {
	return p.Client(l.t, holdfast.WithLease(lease), holdfast.WithTimeout(patience),
		holdfast.WithHooks(holdfast.Hooks{
			OnError: func(_ context.Context, e holdfast.Event) { l.t.Errorf("in the background: %v", e.Err) },
			OnLost:  func(_ context.Context, e holdfast.Event) { l.t.Errorf("%s was lost: %v", e.Name, e.Err) },
		}))
}

// hold takes locks of every kind that are held until unlockAll: by brief, whose
// lease is shorter than a move. A read hold has two keys, and cannot be renewed while one
// of them is here and one there; so readers are held by long.
func (l *movingLoad) hold(brief, long *holdfast.Client) {
	l.t.Helper()
	for i, k := range kit.Kinds {
		c := brief
		if k.Shared() {
			c = long
		}
		for j := range 3 {
			h := kit.Must(l.t)(k.Lock(c, fmt.Sprintf("{slot}:held:%02d:%d", i, j)).Lock(background))
			l.held = append(l.held, h)
			if k.Nests {
				l.held = append(l.held, kit.Must(l.t)(k.Lock(c, h.Name()).Lock(h.Context())))
			}
		}
	}
	s := brief.NewPermitSemaphore("{slot}:held:permits")
	if made, err := s.TrySetPermits(background, 4); !made || err != nil {
		l.t.Fatal(made, err)
	}
	l.held = append(l.held, kit.Must(l.t)(s.Acquire(background, 3)))
}

// unlockAll gives the held ones back, the inner ones first.
func (l *movingLoad) unlockAll() {
	l.t.Helper()
	for _, h := range slices.Backward(l.held) {
		if err := h.Unlock(); err != nil {
			l.t.Errorf("%s: %v", h.Name(), err)
		}
	}
}

func (l *movingLoad) contend(ctx context.Context, kind int, lock kit.AnyLock, shared bool) {
	for ctx.Err() == nil {
		h, err := lock.Lock(background, holdfast.Wait(patience))
		if err != nil {
			l.t.Errorf("%s: %v", kit.Kinds[kind].Name, err)
			return
		}
		s := kit.Span{Shared: shared, From: kit.Now()}
		time.Sleep(rand.N(20 * time.Millisecond)) // the work
		s.To = kit.Now()
		if err := h.Unlock(); err != nil {
			l.t.Errorf("%s: %v", kit.Kinds[kind].Name, err)
			return
		}
		l.mu.Lock()
		l.spans[kind] = append(l.spans[kind], s)
		l.mu.Unlock()
		time.Sleep(rand.N(20 * time.Millisecond)) // other work
	}
}

// permits and semaphore take permits and give them back.
func (l *movingLoad) permits(ctx context.Context, c *holdfast.Client) {
	s := c.NewPermitSemaphore("{slot}:permits")
	_, err := s.TrySetPermits(background, 2)
	for err == nil && ctx.Err() == nil {
		var h *holdfast.Hold
		if h, err = s.Acquire(background, 2, holdfast.Wait(patience)); err == nil {
			err = h.Unlock()
		}
	}
	l.allBack(s, err)
}

func (l *movingLoad) semaphore(ctx context.Context, c *holdfast.Client) {
	s := c.NewUnleasedSemaphore("{slot}:semaphore")
	_, err := s.TrySetPermits(background, 2)
	for err == nil && ctx.Err() == nil {
		if err = s.Acquire(background, 2, holdfast.Wait(patience)); err == nil {
			err = s.Release(2)
		}
	}
	l.allBack(s, err)
}

func (l *movingLoad) allBack(s kit.Inspectable, err error) {
	if n, e := kit.Available(s); n != 2 || e != nil || err != nil {
		l.t.Errorf("%d permits are available, %v; %v", n, e, err)
	}
}

// latch sets a latch, waits for it, and counts it down, again and again. Its name has
// no braces, and is the slot's tag itself.
func (l *movingLoad) latch(ctx context.Context, a, b *holdfast.Client) {
	waits, counts := a.NewLatch("slot"), b.NewLatch("slot")
	for ctx.Err() == nil {
		_, err := counts.TrySetCount(background, 1)
		open := make(chan error, 1)
		go func() { open <- waits.Await(background, holdfast.Wait(patience)) }()
		err = errors.Join(err, counts.CountDown(), <-open)
		if err != nil {
			l.t.Errorf("latch: %v", err)
			return
		}
	}
}
