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
	duringMoves(t, func(t *testing.T, s *redistest.Cluster, p *kit.Platform) {
		l := &movingLoad{t: t, spans: make([][]kit.Span, len(kit.Kinds))}
		a, b := l.client(p, holdfast.DefaultLease), l.client(p, holdfast.DefaultLease)
		held := l.hold(l.client(p, 8*time.Second), a)
		ctx, stop := context.WithCancel(background)
		for i, k := range kit.Kinds {
			for j := range 4 {
				lock, shared := k.Contender([]*holdfast.Client{a, b}[j%2], fmt.Sprintf("{slot}:%02d", i), j)
				l.again(ctx, k.Name, func() error { return l.contend(i, lock, shared) })
			}
		}
		permits, semaphore := a.NewPermitSemaphore("{slot}:permits"), b.NewUnleasedSemaphore("{slot}:semaphore")
		kit.OK(t, permits.SetPermits(background, 2), semaphore.AddPermits(background, 2))
		l.again(ctx, "permits", func() error {
			h, err := permits.Acquire(background, 2, holdfast.Wait(patience))
			if err != nil {
				return err
			}
			return h.Unlock()
		})
		l.again(ctx, "semaphore", func() error {
			return errors.Join(semaphore.Acquire(background, 2, holdfast.Wait(patience)), semaphore.Release(2))
		})
		// Its name has no braces, and is the slot's tag itself.
		waits, counts := a.NewLatch("slot"), b.NewLatch("slot")
		l.again(ctx, "latch", func() error {
			_, err := counts.TrySetCount(background, 1)
			open := make(chan error, 1)
			go func() { open <- waits.Await(background, holdfast.Wait(patience)) }()
			return errors.Join(err, counts.CountDown(), <-open)
		})
		for end := time.Now().Add(*movingFor); time.Now().Before(end); {
			m := s.BeginMove(t, "{slot}")
			for _, key := range m.Keys(t) {
				m.Key(t, key)
				time.Sleep(130 * time.Millisecond) // so that it takes longer than the lease
			}
			m.Finish(t)
			time.Sleep(time.Second) // locks of several keys are to be had between two moves only
		}
		stop()
		l.all.Wait()
		for _, h := range slices.Backward(held) { // the inner ones first
			kit.Unlock(t, h)
		}
		for _, s := range []kit.Inspectable{permits, semaphore} {
			if n, err := kit.Available(s); n != 2 || err != nil {
				t.Errorf("%d permits are available, %v", n, err)
			}
		}
		for i, k := range kit.Kinds {
			of := *k
			of.Readers = nil // there is hardly time enough for readers to meet
			t.Run(k.Name, func(t *testing.T) { kit.CheckSpans(t, &of, l.spans[i]) })
			t.Logf("%s: %d holds", k.Name, len(l.spans[i]))
		}
	})
}

// movingLoad is what goes on in a slot that is moved.
type movingLoad struct {
	t   *testing.T
	all sync.WaitGroup

	mu    sync.Mutex
	spans [][]kit.Span // of each kind
}

func (l *movingLoad) client(p *kit.Platform, lease time.Duration) *holdfast.Client {
	return p.Client(l.t, holdfast.WithLease(lease), holdfast.WithTimeout(patience),
		holdfast.WithHooks(holdfast.Hooks{
			OnError: func(_ context.Context, e holdfast.Event) { l.t.Errorf("in the background: %v", e.Err) },
			OnLost:  func(_ context.Context, e holdfast.Event) { l.t.Errorf("%s was lost: %v", e.Name, e.Err) },
		}))
}

// hold takes locks of every kind that are held all the time: by brief, whose
// lease is shorter than a move. A read hold has two keys, and cannot be renewed while one
// of them is here and one there; so readers are held by long.
func (l *movingLoad) hold(brief, long *holdfast.Client) (held []*holdfast.Hold) {
	l.t.Helper()
	for i, k := range kit.Kinds {
		c := brief
		if k.Shared {
			c = long
		}
		for j := range 3 {
			h := kit.Must(l.t)(k.Lock(c, fmt.Sprintf("{slot}:held:%02d:%d", i, j)).Lock(background))
			held = append(held, h)
			if k.Nests() {
				held = append(held, kit.Must(l.t)(k.Lock(c, h.Name()).Lock(h.Context())))
			}
		}
	}
	permits := brief.NewPermitSemaphore("{slot}:held:permits", holdfast.Permits(4))
	return append(held, kit.Must(l.t)(permits.Acquire(background, 3)))
}

// again does something again and again, until the context ends or it fails.
func (l *movingLoad) again(ctx context.Context, what string, once func() error) {
	l.all.Go(func() {
		for ctx.Err() == nil {
			if err := once(); err != nil {
				l.t.Errorf("%s: %v", what, err)
				return
			}
		}
	})
}

func (l *movingLoad) contend(kind int, lock kit.AnyLock, shared bool) error {
	h, err := lock.Lock(background, holdfast.Wait(patience))
	if err != nil {
		return err
	}
	s := kit.Span{Shared: shared, From: kit.Now()}
	time.Sleep(rand.N(20 * time.Millisecond)) // the work
	s.To = kit.Now()
	if err := h.Unlock(); err != nil {
		return err
	}
	l.mu.Lock()
	l.spans[kind] = append(l.spans[kind], s)
	l.mu.Unlock()
	time.Sleep(rand.N(20 * time.Millisecond)) // other work
	return nil
}
